"""Best-of-N and votes: draw N whole solutions, score each by a judge, and choose (cards: best-of-n, unprm).

The baseline of all search. Every sampled candidate is kept in the result with its judgement, so that another rule, another
aggregation or a smaller N costs no new sample (`footfall.search.curve`). A majority vote asks no judge, though there be one.

UnPRM has two votes of its own, of frequency and reward, by how sure the vote is, or mixed:

hybrid majority reward      the majority's answer if its share of votes ≥ `share`, or the entropy of the answers at most
                            `entropy` where that is given; else that of the best-scored solution
weighted reward frequency   argmax_a mix · f(a) + (1 − mix) · R(a), R the normalised mean (or max) score of an answer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from footfall.drive.budget import Budget
from footfall.judging import IdleSettings, idle_settings
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register, search_row
from footfall.search.searcher import Searcher
from footfall.search.state import Choice, Course, SearchState, described
from footfall.search.votes import Aggregation, Reducer, Rule, Vote, check_rule, frequency, hybrid
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

    @property
    def idle(self) -> IdleSettings:
        """A majority counts answers; step values are not even asked for."""
        return idle_settings((not self.judged, "aggregation", "choices by step values"))

    def search(self, state: SearchState) -> Course:
        """Draw, judge if the rule asks for scores, choose."""
        drawn = yield from state.samples(self.n, score=self.judged)
        return state.choose(drawn, self.rule, self.aggregation, with_lost=True)


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


@register(
    "searcher",
    "weighted-vote",
    Declared(study=(search_row(5),), aggregation="min", smoke={"n": 4}, serves=("default",)),
)
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

    @property
    def idle(self) -> IdleSettings:
        """A limit of the entropy stands in the place of the share."""
        return idle_settings((self.entropy is not None, "share", "a vote without entropy=…"))

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
    nodes = yield from state.samples(method.n)
    scores = [state.aggregate(node, method.aggregation) for node in nodes]
    winner = method.vote([state.trace(node).answer for node in nodes], scores, state.problem.domain).winner
    return Choice(None if winner is None else nodes[winner], nodes, scores, with_lost=True)
