"""GLoRe's refinement (arXiv 2402.10963): an outcome model says when, a stepwise one where, and the best of all is kept.

1. A draft is written. If the judge's last value (the ORM) is at least `threshold`, it is the answer.
2. Otherwise half of the other n − 1 solutions are written anew (global refinement), and half go on after the steps before
   the first one that the locator (the SORM) values below `threshold` (local refinement); an error in the first step, or none
   that is located, is a solution from the top.
3. The highest by the ORM wins, the draft among them.

Who writes the two kinds is the policy unless other writers are named; both continue what stands in the tree.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register
from footfall.search.state import Course, Requests, Roles, SearchState, described

Where = Literal["both", "global", "local"]


def shares(n: int, where: Where) -> tuple[int, int]:
    """How many of `n` refinements are global and how many local; of an odd number one more is local."""
    return {"both": (n // 2, n - n // 2), "global": (n, 0), "local": (0, n)}[where]


@register("searcher", "glore", Declared(unmeasured="it needs an ORM and a SORM; `footfall lab run glore-sorm` measures it",
                                        smoke={"n": 3}))  # fmt: skip
@dataclass(frozen=True)
class GlobalLocal:
    """GLoRe: a draft that the judge doubts is written anew and from before its first error; the best by the judge wins."""

    judged: ClassVar[bool] = True
    n: int = 3
    """Solutions at most, the draft included."""
    where: Where = "both"
    threshold: float = 0.5
    greedy: bool = True
    """The draft is written at temperature 0."""
    locator: str = "judge"
    """Whose values say where the first error is, by role."""

    def __post_init__(self) -> None:
        if self.n < 1 or self.where not in ("both", "global", "local"):
            raise ValueError(f"glore needs n >= 1 and where both, global or local, not {self.name}")

    @property
    def name(self) -> str:
        return described("glore", self)

    @property
    def roles(self) -> Roles:
        return Roles(judges=frozenset({self.locator}))

    def search(self, state: SearchState) -> Course:
        """A draft, its refinements if it needs them, and a choice among all."""
        pool: list[int] = []
        anew, on = shares(self.n - 1, self.where)
        with suppress(BudgetSpent):
            how: dict[str, Any] = {"temperature": 0} if self.greedy else {}
            (drafts,) = yield from state.expand([ROOT], 1, "end", score=True, **how)
            pool += drafts
            value = state.aggregate(drafts[0]) if drafts else None
            if value is None or value < self.threshold:
                before = (yield from self._before_error(state, drafts[0])) if drafts and on else ROOT
                starts = [ROOT] * anew + [before] * on
                pool += [node for row in (yield from state.expand(starts, 1, "end", score=True)) for node in row]
        return state.choose(pool, scores=[state.aggregate(node) for node in pool])

    def _before_error(self, state: SearchState, draft: int) -> Requests[int]:
        """The node after which a local refinement goes on."""
        said = state.judgement(draft, self.locator)
        if said is None and self.locator != "judge":
            (said,) = yield from state.score([draft], judge=self.locator)
        error = None if said is None else said.first_below(self.threshold)
        if error is None or error < 0:
            state.note("located", (draft,), "no error is located: a new solution")
            return ROOT
        wrong = state.tree.path(draft)[error]
        state.note("located", (wrong,), f"step {error + 1} is the first error")
        return state.tree.nodes[wrong].parent
