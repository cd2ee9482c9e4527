"""Best-of-N and votes: draw N whole solutions, score each by a judge, and choose (card: best-of-n).

The baseline of all search. Every sampled candidate is kept in the result with its judgement, so that another rule, another
aggregation or a smaller N costs no new sample (`footfall.search.curve`). A majority vote asks no judge, though there be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from footfall.drive.budget import Budget
from footfall.drive.requests import ROOT, BudgetSpent
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.search.searcher import Searcher
from footfall.search.state import Course, SearchState, described
from footfall.search.votes import Aggregation, Rule, check_rule
from footfall.study_rows import search_row
from footfall.types import Judge, Problem, SearchResult


@dataclass(frozen=True)
class BestOf:
    """The method: `n` solutions a problem, one answer. Under a budget, as many of them as it pays for."""

    independent: ClassVar[bool] = True
    n: int = 8
    rule: Rule = "weighted"
    aggregation: Aggregation = "last"

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if self.n < 1:
            raise ValueError(f"n = {self.n}: at least one sample is needed")

    @property
    def name(self) -> str:
        return described("best-of-n", self)

    @property
    def judged(self) -> bool:
        return self.rule != "majority"

    def search(self, state: SearchState) -> Course:
        """Draw, judge if the rule asks for scores, choose."""
        drawn: list[list[int]] = [[]]
        with suppress(BudgetSpent):
            drawn = yield from state.expand([ROOT], self.n, "end", score=self.judged)
        return state.choose(drawn[0], self.rule, self.aggregation, with_lost=True)


@dataclass(frozen=True)
class BestOfN:
    """Policy, judge and method in one: samples `n` solutions a problem and returns one answer.

    `majority` alone needs no judge, and asks none.
    """

    policy: Policy
    judge: Judge | None = None
    n: int = 8
    rule: Rule = "weighted"
    aggregation: Aggregation = "last"
    params: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.8, max_tokens=2048))
    separator: str = "\n\n"
    """What the policy puts after each step."""
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if self.judge is None and self.rule != "majority":
            raise ValueError(f"the rule {self.rule!r} needs a judge; only 'majority' does without")

    @property
    def searcher(self) -> Searcher:
        """The searcher that draws all samples and chooses among them."""
        method = BestOf(self.n, self.rule, self.aggregation)
        return Searcher(self.policy, self.judge, method, self.budget, self.params, self.separator)

    def solve(self, problems: Sequence[Problem]) -> list[SearchResult]:
        """One result a problem, in order; the judge reads the candidates of all problems in one batch."""
        return self.searcher.solve(problems)


@register("searcher", "best-of-n", Declared(study=(search_row(4),), aggregation="min", smoke={"n": 4}))
def best_of_n(n: int = 8, aggregation: Aggregation = "last") -> BestOf:
    """Best-of-N: the sample that the judge scores highest."""
    return BestOf(n, "best", aggregation)


@register("searcher", "weighted-vote", Declared(study=(search_row(5),), aggregation="min", smoke={"n": 4}))
def weighted_vote(n: int = 8, aggregation: Aggregation = "last") -> BestOf:
    """Weighted vote: the answer whose samples have the largest sum of scores."""
    return BestOf(n, "weighted", aggregation)


@register(
    "searcher",
    "majority",
    Declared(study=(search_row(0, "single", budgets=(1,)), search_row(1)), aggregation="min", smoke={"n": 4}),
)
def majority_vote(n: int = 8, aggregation: Aggregation = "last") -> BestOf:
    """Majority vote (self-consistency): the most frequent answer; a judge is not asked."""
    return BestOf(n, "majority", aggregation)
