"""What a tree search counts at its nodes, the rules by which it picks a child, and one path down and back (card: mcts).

Q     W / N once visited, v0 before
PUCT  Q_c + p_c √N_p / (1 + N_c) · (ln((N_p + c_base + 1) / c_base) + c_init)
UCT   W_c / N_c + w √(ln N_p / N_c)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from footfall.drive.requests import ROOT
from footfall.search.state import Requests, SearchState

Schedule = Literal["const", "exponential", "linear"]


def puct(q: float, prior: float, parent_visits: int, visits: int, c_base: float = 19652, c_init: float = 1.25) -> float:
    """A child's value and its exploration bonus, which is 0 under a parent that was never visited."""
    factor = math.log((parent_visits + c_base + 1) / c_base) + c_init
    return q + prior * math.sqrt(parent_visits) / (1 + visits) * factor


def uct(q: float, parent_visits: int, visits: int, weight: float = 2.0) -> float:
    """The same for a child that was visited, without a prior."""
    return q + weight * math.sqrt(math.log(parent_visits) / visits)


def scheduled(weight: float, schedule: Schedule, i: int, n: int) -> float:
    """The weight of UCT's bonus on path `i` of `n`: w, w · 0.1^(i/n), or w · (1 - 0.9 i/n)."""
    if schedule == "const":
        return weight
    return weight * (0.1 ** (i / n) if schedule == "exponential" else 1 - 0.9 * i / n)


def priors(logprobs: Sequence[Sequence[float] | None]) -> list[float]:
    """p_i ∝ exp(mean token logprob of step i); even where a step has none (scripted writers, some servers)."""
    known = [row for row in logprobs if row]
    if len(known) < len(logprobs):
        return [1 / len(logprobs)] * len(logprobs)
    weights = [math.exp(math.fsum(row) / len(row)) for row in known]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


@dataclass(slots=True)
class Stat:
    """One node's counts."""

    parent: int
    depth: int
    first: float = 0.0
    """v0: what the judge said before any visit."""
    prior: float = 1.0
    visits: int = 0
    total: float = 0.0
    children: list[int] | None = None
    """`None` before it was expanded."""


@dataclass(slots=True)
class Visits:
    """The counts of one problem's tree. Without `backed_up`, visits are counted but a node's value stays v0."""

    state: SearchState
    backed_up: bool = True
    stats: dict[int, Stat] = field(default_factory=lambda: {ROOT: Stat(ROOT, 0)})

    def __getitem__(self, node: int) -> Stat:
        return self.stats[node]

    def children(self, node: int) -> list[int]:
        """Its children so far."""
        return self[node].children or []

    def q(self, node: int) -> float:
        """The mean of what was backed up, or the first value where nothing is."""
        stat = self[node]
        return stat.total / stat.visits if self.backed_up and stat.visits else stat.first

    def grow(self, node: int, children: Sequence[int], firsts: Sequence[float], chances: Sequence[float]) -> None:
        """Put children under a node. One that gets none though it has not ended is a dead end, worth nothing."""
        self[node].children = list(children)
        for child, first, prior in zip(children, firsts, chances, strict=True):
            self.stats[child] = Stat(node, self[node].depth + 1, first, prior)
        if not children and not self.state.ended(node):
            self[node].first = 0.0

    def pick_puct(self, node: int, c_base: float, c_init: float) -> int:
        """The child with the highest score, the first of equals."""
        n = self[node].visits
        scores = [puct(self.q(c), self[c].prior, n, self[c].visits, c_base, c_init) for c in self.children(node)]
        return self.children(node)[scores.index(max(scores))]

    def pick_uct(self, node: int, weight: float) -> int:
        """A child that was never visited, at random; if there is none, that with the highest score."""
        unseen = [child for child in self.children(node) if not self[child].visits]
        if unseen:
            return unseen[int(self.state.rng.integers(len(unseen)))]
        n = self[node].visits
        return max(self.children(node), key=lambda c: uct(self.q(c), n, self[c].visits, weight))

    def descend(
        self, start: int, depth: int, pick: Callable[[int], int], expand: Callable[[int], Requests[None]]
    ) -> Requests[int]:
        """One path: every open node met is expanded, until a node has ended, has no children or lies `depth` deep."""
        node = start
        while not self.state.ended(node) and self[node].depth < depth:
            if self[node].children is None:
                yield from expand(node)
            if not self.children(node):
                break
            node = pick(node)
        return node

    def back_up(self, leaf: int, value: float, why: str = "") -> None:
        """N += 1 and W += value at the leaf and at all nodes above it."""
        node, above = leaf, True
        while above:
            stat = self[node]
            stat.visits += 1
            stat.total += value
            shown = stat.total / stat.visits if node == ROOT else self.q(node)
            self.state.back_up(node, stat.visits, shown, why)
            node, above = stat.parent, node != ROOT
