"""Monte Carlo tree search by a judge, with PUCT or UCT (card: mcts).

A path goes down from the root, expands every open node that it meets, and ends where a solution ends. Its value is what the
judge says there, v0; it is backed up (N += 1, W += v) along the path, and the next path picks its children by

    PUCT  Q_c + p_c √N_p / (1 + N_c) · (ln((N_p + c_base + 1) / c_base) + c_init),   p_i ∝ exp(mean token logprob)
    UCT   W_c / N_c + w √(ln N_p / N_c), children never visited first, at random
    Q     W / N once visited, v0 before

The first path by PUCT is the greedy descent on v0, whatever the constants: the bonus of a node never visited is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.judging import IdleSettings, idle_settings
from footfall.registry import Declared, register, search_row
from footfall.search.state import Choice, Course, Requests, SearchState, described
from footfall.search.votes import Aggregation, Rule, check_rule

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
        """Put children under a node. One that gets none though it has not ended is a dead end, worth nothing, or less."""
        self[node].children = list(children)
        for child, first, prior in zip(children, firsts, chances, strict=True):
            self.stats[child] = Stat(node, self[node].depth + 1, first, prior)
        if not children and not self.state.ended(node):
            self[node].first = min(0.0, self[node].first)

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


@register(
    "searcher",
    "mcts",
    Declared(
        study=(
            search_row(23, dial="paths", width=4),
            search_row(24, "mcts-uct", "paths", width=4, selection="uct"),
        ),
        dial="paths=N",
        smoke={"paths": 3, "width": 2},
    ),
)
@dataclass(frozen=True)
class MCTS:
    """Monte Carlo tree search: paths go where the judge's values and an exploration bonus send them.

    Every path is a candidate, one that comes again too; the chosen one is the `rule`'s. With `play` > 0 it decodes step by
    step instead: so many paths from where it stands, then a move to the child with the most visits (or with probability
    ∝ N^(1/tau), the priors there being mixed with Dirichlet noise).
    """

    judged: ClassVar[bool] = True
    paths: int = 16
    width: int = 10
    selection: Literal["puct", "uct"] = "puct"
    backup: bool = True
    """Without it visits count for the bonus, but a node is worth what the judge said of it at first."""
    depth: int = 40
    """Steps of a path at most, as of beam search; the code that PUCT is from (openr) has 10, and cuts longer solutions off."""
    aggregation: Aggregation = "last"
    rule: Rule = "best"
    c_base: float = 19652
    c_init: float = 1.25
    weight: float = 2.0
    """Of UCT's bonus."""
    schedule: Schedule = "const"
    play: int = 0
    """Paths before each move of play mode; 20 is usual."""
    tau: float = 0.0
    noise: float = 0.25
    alpha: float = 0.3

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if self.selection not in ("puct", "uct") or self.schedule not in ("const", "exponential", "linear"):
            raise ValueError(
                f"mcts selects by puct or uct, on a const, exponential or linear schedule, not {self.name}"
            )
        if min(self.paths, self.width, self.depth) < 1 or min(self.play, self.tau) < 0:
            raise ValueError(
                f"mcts needs paths, width and depth of 1 at least, no negative play or tau, not {self.name}"
            )
        if not 0 <= self.noise <= 1 or self.alpha <= 0 or self.c_base <= 0:
            raise ValueError(f"mcts needs 0 <= noise <= 1, alpha > 0 and c_base > 0, not {self.name}")

    @property
    def name(self) -> str:
        return described("mcts", self)

    @property
    def idle(self) -> IdleSettings:
        """What the other way to select reads, and what plays no part without moves, or without moves that are drawn."""
        puct, drawn = self.selection == "puct", bool(self.play and self.tau)
        return idle_settings(
            *((puct, name, "selection=uct") for name in ("weight", "schedule")),
            *((not puct, name, "selection=puct") for name in ("c_base", "c_init")),
            (bool(self.play), "paths", "play=0"),
            (not self.play, "tau", "play of 1 and more"),
            *((not drawn, name, "play and tau above 0") for name in ("noise", "alpha")),
        )

    def search(self, state: SearchState) -> Course:
        """Path after path until there are enough or the budget is spent; then the rule chooses among their ends."""
        tree = Visits(state, self.backup)
        reached: list[int] = []
        played: int | None = None
        try:
            if self.play:
                played = yield from self._play(state, tree, reached)
            else:
                yield from self._paths(state, tree, reached, ROOT, self.paths)
        except BudgetSpent:
            if not any(state.ended(leaf) for leaf in reached):
                raise  # not one path is whole: whatever else has ended is the answer
        return self._choice(state, tree, reached if played is None else [played])

    def _paths(self, state: SearchState, tree: Visits, reached: list[int], start: int, n: int) -> Requests[None]:
        """`n` paths from a node, each with its value backed up; fewer if nothing can be written there."""
        for i in range(n):
            weight = scheduled(self.weight, self.schedule, i, n)

            def pick(node: int, weight: float = weight) -> int:
                if self.selection == "uct":
                    return tree.pick_uct(node, weight)
                return tree.pick_puct(node, self.c_base, self.c_init)

            leaf = yield from tree.descend(start, self.depth, pick, lambda node: self._expand(state, tree, node))
            if leaf == ROOT:
                return
            tree.back_up(leaf, tree[leaf].first, f"path {len(reached) + 1}")
            reached.append(leaf)

    def _expand(self, state: SearchState, tree: Visits, node: int) -> Requests[None]:
        """New children with v0 and prior. Repeats, cut steps and steps that the judge could not value are left out."""
        [found] = yield from state.expand([node], self.width)
        children = [] if state.ended(node) else state.prune_repeats(found)
        if children:
            yield from state.score(children)
        valued = {child: state.aggregate(child, self.aggregation) for child in children}
        state.prune([child for child, first in valued.items() if first is None], "could not be judged")
        firsts = {child: first for child, first in valued.items() if first is not None}
        chances = priors([state.tree.nodes[child].step.logprobs for child in firsts])
        tree.grow(node, list(firsts), list(firsts.values()), chances)

    def _play(self, state: SearchState, tree: Visits, reached: list[int]) -> Requests[int | None]:
        """Move by move to an end. Visits of the subtree that is moved into are kept."""
        node = ROOT
        while not state.ended(node) and tree[node].depth < self.depth:
            if tree[node].children is None:
                yield from self._expand(state, tree, node)
            self._shake(state, tree, node)
            yield from self._paths(state, tree, reached, node, self.play)
            if not tree.children(node):
                break
            node = self._move(state, tree, node)
        return node if state.ended(node) else None

    def _shake(self, state: SearchState, tree: Visits, node: int) -> None:
        """p <- (1 - eps) p + eps Dir(alpha) at the node to move from, when moves are drawn."""
        children = tree.children(node)
        if self.tau and children:
            drawn = state.rng.dirichlet([self.alpha] * len(children))
            for child, noise in zip(children, drawn, strict=True):
                tree[child].prior = (1 - self.noise) * tree[child].prior + self.noise * float(noise)

    def _move(self, state: SearchState, tree: Visits, node: int) -> int:
        children = tree.children(node)
        visits = [tree[child].visits for child in children]
        at = visits.index(max(visits))
        if self.tau:
            weights = [(n / max(visits)) ** (1 / self.tau) for n in visits]
            at = int(state.rng.choice(len(children), p=[weight / sum(weights) for weight in weights]))
        state.keep([children[at]], f"moved to: {visits[at]} of {sum(visits)} visits", [tree.q(children[at])])
        return children[at]

    def _choice(self, state: SearchState, tree: Visits, reached: list[int]) -> Choice:
        return state.choose(reached, self.rule, self.aggregation, scores=[tree[leaf].first for leaf in reached])
