"""Self-consistency that stops early: no more samples once the vote is as good as over (arXiv 2203.11171, 2305.11860).

Samples are drawn `batch` at a time. With v₁ votes for the leading answer, v₂ for the next and r samples still to come:

    certain   v₁ > v₂ + r, or v₁ = v₂ + r and the leader was first: the answer is that of all n samples
    beta      P(share₁ > share₂ | votes) = I_{1/2}(v₂+1, v₁+1) ≥ confidence   (adaptive consistency)
    window    all answers of the last batch are equal                         (arXiv 2401.10480)

With integers the incomplete beta function is a binomial tail: I_{1/2}(v₂+1, v₁+1) = P(Bin(v₁+v₂+1, 1/2) ≤ v₁).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.judging import IdleSettings, idle_settings
from footfall.registry import Declared, register, search_row
from footfall.search.state import Course, SearchState, described
from footfall.search.votes import group, tally

Stop = Literal["certain", "beta", "window"]


def chance_of_lead(first: int, second: int) -> float:
    """The chance that the answer with `first` votes is likelier than the one with `second`, from an even prior."""
    n = first + second + 1
    return float(sum(math.comb(n, k) for k in range(first + 1)) / 2**n)


@register("searcher", "self-consistency", Declared(study=(search_row(2, batch=4),), smoke={"n": 4, "batch": 2}))
@dataclass(frozen=True)
class SelfConsistency:
    """Majority vote over at most n samples that stops when the lead is safe; a judge is not needed."""

    judged: ClassVar[bool] = False
    n: int = 40
    batch: int = 4
    stop: Stop = "beta"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.stop not in get_args(Stop):
            raise ValueError(f"no stop is called {self.stop!r}; there are {', '.join(get_args(Stop))}")
        if not 1 <= self.batch <= self.n or not 0 < self.confidence < 1:
            raise ValueError(f"self-consistency needs 1 <= batch <= n and confidence in (0, 1), not {self.name}")

    @property
    def name(self) -> str:
        return described("self-consistency", self)

    @property
    def idle(self) -> IdleSettings:
        """The other stops count, and compute no chance."""
        return idle_settings((self.stop != "beta", "confidence", "stop=beta"))

    def search(self, state: SearchState) -> Course:
        """Batch after batch, then the vote."""
        drawn: list[int] = []
        asked = 0
        with suppress(BudgetSpent):
            while asked < self.n:
                size = min(self.batch, self.n - asked)
                [new] = yield from state.expand([ROOT], size, "end")
                drawn, asked = drawn + new, asked + size
                reason = self._over(state, drawn, new, self.n - asked)
                if reason is not None:
                    state.note("enough", new, reason)
                    break
        return state.choose(drawn, "majority", with_lost=True)

    def _over(self, state: SearchState, drawn: Sequence[int], new: Sequence[int], left: int) -> str | None:
        """Why no more samples are needed, or nothing."""
        groups = group([state.trace(node).answer for node in drawn], state.problem.domain)
        ranked = sorted(tally(groups, [1.0] * len(groups)).items(), key=lambda item: (-item[1], item[0]))
        if not ranked:
            return None
        first, second = int(ranked[0][1]), int(ranked[1][1]) if len(ranked) > 1 else 0
        if self.stop == "window":
            latest = set(groups[len(drawn) - len(new) :])
            whole = len(new) == self.batch and len(latest) == 1 and None not in latest
            return f"the last {len(new)} answers are equal" if whole else None
        if self.stop == "beta":
            chance = chance_of_lead(first, second)
            return f"{first} votes against {second}: {chance:.3f} sure" if chance >= self.confidence else None
        # A tie at the end goes to the answer seen first; one not yet seen would be the latest of all.
        rivals = [(votes, seen) for seen, votes in ranked[1:]] + [(0.0, len(drawn))]
        safe = all(first > votes + left or (first == votes + left and ranked[0][0] < seen) for votes, seen in rivals)
        return f"{first} votes cannot be overtaken by {left} more" if safe else None
