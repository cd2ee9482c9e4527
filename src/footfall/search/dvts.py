"""Diverse verifier tree search: N/M subtrees that never compete (card: dvts).

In each subtree M next steps are sampled, the best by the judge is taken, and so on. Output are the M siblings of each
subtree's last iteration, subtree by subtree; a sibling that has not ended has no answer and so no vote.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register
from footfall.search.aggregate import Aggregation
from footfall.search.state import Choice, Course, Requests, SearchState, described
from footfall.search.votes import Rule, best, check_rule
from footfall.study_rows import search_row


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

    @property
    def judged(self) -> bool:
        return True

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
