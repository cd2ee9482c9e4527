"""BiRM's rule in best-of-N and in step-level beam search (card: birm): what is behind and what is ahead, f = g + h.

    score(s_1..s_t) = V_t + beta · mean(R_1..R_t)

V is the chance to reach the right answer from here, R whether each step so far is right. K candidates grow step by step, the
best b by this score are kept. With b = K nothing is pruned: best-of-N by the same score.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from footfall.drive.requests import BudgetSpent
from footfall.registry import Declared, register, search_row
from footfall.search.beam import keep_best, rounds, spread
from footfall.search.state import Course, Requests, Roles, SearchState, described
from footfall.search.votes import Aggregation, aggregate, check_rule


def both_ways(
    values: Sequence[float | None], rewards: Sequence[float | None], beta: float, how: Aggregation = "mean"
) -> float | None:
    """V_last + beta · aggregate(R). With beta 0 only the value counts; `None` if the value or a reward is missing.

    A prefix without steps says nothing: 0.
    """
    if len(values) != len(rewards):
        raise ValueError(f"{len(values)} values but {len(rewards)} rewards: one of each a step is wanted")
    if not values:
        return 0.0
    behind = aggregate(rewards, how) if beta else 0.0
    ahead = values[-1]
    return None if ahead is None or behind is None else ahead + beta * behind


@register(
    "searcher",
    "birm",
    Declared(study=(search_row(16, settings=lambda n: {"n": n, "beams": n // 4}),), smoke={"n": 4, "beams": 2}),
)
@dataclass(frozen=True)
class BiRM:
    """Bi-directional beam search: keeps the best beams by value ahead plus beta times the reward of the steps behind.

    Values are the judge's. Rewards are its aspect `reward` where it has one (a model with two heads), else what the judge in
    the role `reward` says of the steps; by default that is the same judge.
    """

    judged: ClassVar[bool] = True
    n: int = 16
    beams: int = 4
    beta: float = 2.0
    aggregation: Aggregation = "mean"
    """Of the rewards."""
    reward: str = "judge"
    iterations: int = 30

    def __post_init__(self) -> None:
        check_rule("best", self.aggregation)
        if not 1 <= self.beams <= self.n or self.beta < 0 or self.iterations < 1:
            raise ValueError(f"birm needs 1 <= beams <= n, beta >= 0 and iterations >= 1, not {self.name}")

    @property
    def name(self) -> str:
        return described("birm", self)

    @property
    def roles(self) -> Roles:
        return Roles(judges=frozenset({self.reward}))

    def search(self, state: SearchState) -> Course:
        """Grow, keep the best, until all beams have ended, the iterations are over or the budget is spent."""
        ended: dict[int, float | None] = {}
        with suppress(BudgetSpent):
            yield from rounds(self.iterations, lambda live, last: self._iterate(state, live, ended, last))
        return state.choose(list(ended), scores=list(ended.values()))

    def _iterate(
        self, state: SearchState, live: Sequence[int], ended: dict[int, float | None], last: bool
    ) -> Requests[list[int]]:
        found = yield from state.expand(spread(live, self.n), until="end" if last else "step", score=True)
        grown = list(dict.fromkeys(child for children in found for child in children))
        unread = [node for node in grown if state.judgement(node, self.reward) is None]
        if unread and self.reward != "judge":
            yield from state.score(unread, judge=self.reward)
        scored = {node: self.score(state, node) for node in grown}
        ended.update({node: score for node, score in scored.items() if state.ended(node)})
        return keep_best(state, {node: scored[node] for node in grown if not state.ended(node)}, self.beams)

    def score(self, state: SearchState, node: int) -> float | None:
        """The rule's score of the path to `node`."""
        said, steps = state.judgement(node), state.judgement(node, self.reward)
        if said is None or steps is None:
            return None
        return both_ways(said.values, steps.aspects.get("reward", steps.values), self.beta, self.aggregation)
