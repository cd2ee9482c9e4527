"""Beam search by a judge, with lookahead (card: beam-search), and DVTS, its diverse variant (card: dvts).

N partial solutions grow step by step. After each step all of them are scored, S = aggregate of the step values, the best N/M
are kept, and each is copied M times for the next step. With lookahead k a step's score is that of its text with k greedy steps
more; those steps are judged and then thrown away.

Diverse verifier tree search has N/M subtrees that never compete: in each, M next steps are sampled, the best by the judge is
taken, and so on. Output are the M siblings of each subtree's last iteration, subtree by subtree; a sibling that has not ended
has no answer and so no vote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register, search_row
from footfall.search.state import Choice, Course, Requests, SearchState, described
from footfall.search.votes import Aggregation, Rule, best, check_rule


@register(
    "searcher",
    "beam-search",
    Declared(
        study=(
            search_row(11, expansions=4),
            search_row(12, "beam-lookahead", expansions=4, lookahead=1),
        ),
        smoke={"n": 4, "expansions": 2},
    ),
)
@dataclass(frozen=True)
class BeamSearch:
    """Beam search: after each step the judge keeps the best n / expansions of n partial solutions.

    `distinct` drops live beams with the same text as another. The chosen one is the `rule`'s among all that ended.
    """

    judged: ClassVar[bool] = True
    n: int = 16
    expansions: int = 4
    aggregation: Aggregation = "last"
    rule: Rule = "best"
    lookahead: int = 0
    iterations: int = 40
    distinct: bool = False

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if not 1 <= self.expansions <= self.n or self.lookahead < 0 or self.iterations < 1:
            raise ValueError(
                f"beam search needs 1 <= expansions <= n, lookahead >= 0 and iterations >= 1, not {self.name}"
            )

    @property
    def name(self) -> str:
        return described("beam-search", self)

    def search(self, state: SearchState) -> Course:
        """Grow, keep the best, until all beams have ended, the iterations are over or the budget is spent."""
        ended: dict[int, float | None] = {}
        with suppress(BudgetSpent):
            yield from rounds(self.iterations, lambda live, last: self._iterate(state, live, ended, last))
        return self._choice(state, ended)

    def _iterate(
        self, state: SearchState, live: Sequence[int], ended: dict[int, float | None], last: bool
    ) -> Requests[list[int]]:
        """One step from each of N beams; the survivors. Those that ended go to `ended` with their score."""
        beams = spread(live, self.n)
        plain = self.lookahead == 0 or last
        found = yield from state.expand(beams, until="end" if last else "step", score=plain)
        grown = [child for children in found for child in children]
        scores = yield from state.look_ahead(grown, 0 if plain else self.lookahead, self.aggregation)
        scored = dict(zip(grown, scores, strict=True))
        done = [node for node in scored if state.ended(node)]
        ended.update({node: scored[node] for node in done})
        going = [node for node in scored if not state.ended(node)]
        if self.distinct:
            kept = state.distinct(going)
            state.prune([node for node in going if node not in kept], "the same text as another beam")
            going = kept
        return keep_best(state, {node: scored[node] for node in going}, self.n // self.expansions)

    def _choice(self, state: SearchState, ended: dict[int, float | None]) -> Choice:
        """The rule's choice among the beams that ended, in the order in which they did."""
        return state.choose(list(ended), self.rule, self.aggregation, scores=list(ended.values()))


def rounds(iterations: int, iterate: Callable[[list[int], bool], Requests[list[int]]]) -> Requests[None]:
    """From the beams that live to those that live on, beginning with the root; `iterate` is told which round is the last."""
    live = [ROOT]
    for i in range(iterations):
        live = yield from iterate(live, i == iterations - 1)
        if not live:
            return


def keep_best(state: SearchState, scored: dict[int, float | None], k: int) -> list[int]:
    """The `k` highest-scored open nodes, in their order; the others are pruned."""
    nodes = list(scored)
    best = [nodes[i] for i in best_indices(list(scored.values()), k)]
    state.keep(best, f"the {len(best)} best of {len(nodes)} open", [scored[node] for node in best])
    rest = [node for node in nodes if node not in best]
    state.prune(rest, f"not among the {len(best)} best", [scored[node] for node in rest])
    return best


def spread(live: Sequence[int], n: int) -> list[int]:
    """The live beams repeated in turn up to `n`: [1, 3] for 4 is [1, 3, 1, 3]."""
    return [live[i % len(live)] for i in range(n)]


def best_indices(scores: Sequence[float | None], k: int) -> list[int]:
    """The places of the `k` highest scores, in their order, the first of equals; without a score none is kept."""
    ranked = sorted((-score, i) for i, score in enumerate(scores) if score is not None)
    return sorted(i for _, i in ranked[:k])


@dataclass(slots=True)
class Subtree:
    """One greedy path: where it stands, and the siblings of its last iteration with their scores."""

    tip: int = ROOT
    siblings: list[int] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)
    closed: bool = False


@register("searcher", "dvts", Declared(study=(search_row(17, expansions=4),), smoke={"n": 4, "expansions": 2}))
@dataclass(frozen=True)
class DVTS:
    """Diverse verifier tree search: n / expansions subtrees, each goes on with the best of its sampled steps."""

    judged: ClassVar[bool] = True
    n: int = 16
    expansions: int = 4
    aggregation: Aggregation = "last"
    rule: Rule = "best"
    lookahead: int = 0
    iterations: int = 40

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if self.expansions < 1 or self.n < 1 or self.n % self.expansions:
            raise ValueError(f"dvts needs n to be a multiple of expansions, not {self.n} and {self.expansions}")
        if self.lookahead < 0 or self.iterations < 1:
            raise ValueError(f"dvts needs lookahead >= 0 and iterations >= 1, not {self.name}")

    @property
    def name(self) -> str:
        return described("dvts", self)

    def search(self, state: SearchState) -> Course:
        """All subtrees step by step together, until all are closed, the iterations are over or the budget is spent."""
        subtrees = [Subtree() for _ in range(self.n // self.expansions)]
        try:
            for i in range(self.iterations):
                going = [subtree for subtree in subtrees if not subtree.closed]
                if not going:
                    break
                yield from self._iterate(state, going, last=i == self.iterations - 1)
        except BudgetSpent:
            pass
        return self._choice(state, subtrees)

    def _iterate(self, state: SearchState, going: list[Subtree], last: bool) -> Requests[None]:
        plain = self.lookahead == 0 or last
        tips = [subtree.tip for subtree in going]
        found = yield from state.expand(tips, self.expansions, "end" if last else "step", score=plain)
        grown = [node for children in found for node in children]
        scores = yield from state.look_ahead(grown, 0 if plain else self.lookahead, self.aggregation)
        each = iter(scores)
        for subtree, children in zip(going, found, strict=True):
            self._descend(state, subtree, children, [next(each) for _ in children])

    def _descend(self, state: SearchState, subtree: Subtree, children: list[int], scores: list[float | None]) -> None:
        """Go to the best child; close the subtree where it ends or gets too few children."""
        if children:
            subtree.siblings, subtree.scores = children, scores
        winner = best(scores)
        subtree.closed = winner is None or len(children) < self.expansions
        if winner is None:
            return
        subtree.tip = children[winner]
        subtree.closed = subtree.closed or state.ended(subtree.tip)
        state.keep([subtree.tip], f"the best of {len(children)} in its subtree", [scores[winner]])
        rest = [i for i, child in enumerate(children) if child != subtree.tip]
        state.prune([children[i] for i in rest], "not the best of its subtree", [scores[i] for i in rest])

    def _choice(self, state: SearchState, subtrees: list[Subtree]) -> Choice:
        candidates = [node for subtree in subtrees for node in subtree.siblings]
        scores = [score for subtree in subtrees for score in subtree.scores]
        return state.choose(candidates, self.rule, self.aggregation, scores=scores)
