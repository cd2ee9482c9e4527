"""Steps drawn in proportion to their reward, not the best one: accuracy with diversity (card: gflownet).

A GFlowNet samples a solution x with probability R(x) / Σ R, R(x) = Π_j r_j. Here no policy is tuned. Of m steps that the
policy proposes, alike ones counted once, one is drawn:

    P(a | s) = r_a^(1/T) / Σ_b r_b^(1/T)

T = 1 is in proportion to reward, T = 0 the maximiser. n solutions are drawn side by side, each with draws of its own. A policy
that is tuned to sample so by itself: `footfall.train.gflownet`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register, search_row
from footfall.search.state import Course, Requests, SearchState, described
from footfall.search.votes import Aggregation, Rule, check_rule


def proportions(rewards: Sequence[float], temperature: float = 1.0, floor: float = 1e-6) -> list[float]:
    """The probability of each of some steps, from their rewards; at temperature 0 that of the first best is 1."""
    if temperature == 0:
        first = max(range(len(rewards)), key=lambda i: (rewards[i], -i))
        return [float(i == first) for i in range(len(rewards))]
    logs = [math.log(max(reward, floor)) / temperature for reward in rewards]
    weights = [math.exp(log - max(logs)) for log in logs]
    return [weight / math.fsum(weights) for weight in weights]


@register("searcher", "gflownet", Declared(study=(search_row(18, budgets=(1, 4, 16), m=4),), smoke={"n": 2, "m": 2}))
@dataclass(frozen=True)
class GFlowNet:
    """Step sampling in proportion to reward: n solutions, each step drawn among m by the judge's values."""

    judged: ClassVar[bool] = True
    n: int = 8
    m: int = 4
    temperature: float = 1.0
    distinct: bool = True
    """Whether proposals of one text count once. If not, a step's weight is how often the policy wrote it times r."""
    floor: float = 1e-6
    rule: Rule = "weighted"
    aggregation: Aggregation = "prod"
    iterations: int = 40

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if self.n < 1 or self.m < 1 or self.iterations < 1 or self.temperature < 0 or not self.floor > 0:
            raise ValueError(
                f"gflownet needs n, m and iterations >= 1, temperature >= 0 and floor > 0, not {self.name}"
            )

    @property
    def name(self) -> str:
        return described("gflownet", self)

    def search(self, state: SearchState) -> Course:
        """All solutions side by side, a step at a time; the last iteration writes what is open to the end."""
        tips: list[int] = [ROOT] * self.n
        done: list[int] = []
        try:
            for i in range(self.iterations):
                tips = yield from self._advance(state, tips, done, last=i == self.iterations - 1)
                if not tips:
                    break
        except BudgetSpent:
            pass
        return state.choose(done, self.rule, self.aggregation)

    def _advance(self, state: SearchState, tips: Sequence[int], done: list[int], last: bool) -> Requests[list[int]]:
        """Every open solution gets one step; the tips that are still open. A tip without a scored proposal is dropped."""
        found = yield from state.expand(tips, self.m, "end" if last else "step", score=True)
        drawn = [self._draw(state, tip, children) for tip, children in zip(tips, found, strict=True)]
        taken = [node for node in drawn if node is not None]
        done += [node for node in taken if state.ended(node)]
        return [node for node in taken if not state.ended(node)]

    def _draw(self, state: SearchState, tip: int, children: Sequence[int]) -> int | None:
        """One of the proposed steps, in proportion to its reward; the tip itself is among them if the writer may end."""
        rewards = {node: r for node in children if (r := state.aggregate(node, "last")) is not None}
        nodes = state.distinct(list(rewards)) if self.distinct else list(rewards)
        if not nodes:
            return None
        chances = proportions([rewards[node] for node in nodes], self.temperature, self.floor)
        drawn = nodes[int(np.searchsorted(np.cumsum(chances)[:-1], state.rng.random(), side="right"))]
        state.note("drawn", nodes, f"in proportion to reward: {drawn}", chances)
        state.keep([drawn], "drawn", [rewards[drawn]])
        state.prune([node for node in children if node not in (drawn, tip)], "another one was drawn")
        return drawn
