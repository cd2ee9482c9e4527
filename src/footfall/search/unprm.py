"""UnPRM's two votes over N whole solutions (card: unprm): frequency and reward, by how sure the vote is, or mixed.

hybrid majority reward      the majority's answer if its share of votes ≥ `share`, or the entropy of the answers at most
                            `entropy` where that is given; else that of the best-scored solution
weighted reward frequency   argmax_a mix · f(a) + (1 − mix) · R(a), R the normalised mean (or max) score of an answer
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register
from footfall.search.state import Choice, Course, SearchState, described
from footfall.search.votes import Aggregation, Reducer, Vote, check_rule, frequency, hybrid
from footfall.study_rows import search_row


@register("searcher", "hybrid-vote", Declared(study=(search_row(6),), smoke={"n": 4}))
@dataclass(frozen=True)
class HybridVote:
    """Hybrid majority reward: the majority where it is sure, else the sample that the judge scores highest."""

    judged: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    n: int = 8
    share: float = 0.5
    aggregation: Aggregation = "last"
    entropy: float | None = None
    """If given, the majority is sure where the answers' entropy is at most that, whatever its share."""

    def __post_init__(self) -> None:
        _check(self.n, self.aggregation)
        if not 0 <= self.share <= 1 or (self.entropy is not None and self.entropy < 0):
            raise ValueError(f"share goes from 0 to 1 and entropy is not negative: {self.name}")

    @property
    def name(self) -> str:
        return described("hybrid-vote", self)

    def search(self, state: SearchState) -> Course:
        """Draw, judge, vote."""
        return (yield from _drawn(self, state))

    def vote(self, answers: list[str | None], scores: list[float | None], domain: str) -> Vote:
        """The majority's answer where it is sure enough, else that of the best score."""
        return hybrid(answers, scores, self.share, self.entropy, domain)


@register("searcher", "frequency-vote", Declared(study=(search_row(7),), smoke={"n": 4}))
@dataclass(frozen=True)
class FrequencyVote:
    """Weighted reward frequency: an answer weighs its share of the votes and its share of the reward."""

    judged: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    n: int = 8
    mix: float = 0.5
    reducer: Reducer = "mean"
    aggregation: Aggregation = "last"

    def __post_init__(self) -> None:
        _check(self.n, self.aggregation)
        if not 0 <= self.mix <= 1:
            raise ValueError(f"mix is a share of the vote, from 0 to 1, not {self.mix}")

    @property
    def name(self) -> str:
        return described("frequency-vote", self)

    def search(self, state: SearchState) -> Course:
        """Draw, judge, vote."""
        return (yield from _drawn(self, state))

    def vote(self, answers: list[str | None], scores: list[float | None], domain: str) -> Vote:
        """The answer with the largest mix of its share of votes and of reward."""
        return frequency(answers, scores, self.mix, self.reducer, domain)


def _check(n: int, aggregation: str) -> None:
    check_rule("weighted", aggregation)
    if n < 1:
        raise ValueError(f"n = {n}: at least one sample is needed")


def _drawn(method: HybridVote | FrequencyVote, state: SearchState) -> Course:
    """N scored solutions, as many as the budget pays for, and the vote's choice among them."""
    drawn: list[list[int]] = [[]]
    with suppress(BudgetSpent):
        drawn = yield from state.expand([ROOT], method.n, "end", score=True)
    nodes = drawn[0]
    scores = [state.aggregate(node, method.aggregation) for node in nodes]
    winner = method.vote([state.trace(node).answer for node in nodes], scores, state.problem.domain).winner
    return Choice(None if winner is None else nodes[winner], nodes, scores, with_lost=True)
