"""Best-of-N end to end with a scripted policy, and curves over n from stored candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from footfall import registry
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.search import BestOf, BestOfN, Searcher, curve
from footfall.search.votes import Rule
from footfall.types import Cost, Judge, Judgement, Problem, SearchResult, Step, Trajectory

# The samples of the card's check 1: answer and step values.
CARD = [("12", (0.9, 0.8, 0.7)), ("15", (0.99, 0.95, 0.6)), ("12", (0.6, 0.5, 0.65)), ("15", (0.4, 0.9, 0.85)),
        ("7", (0.95, 0.2, 0.97))]  # fmt: skip


@dataclass
class Scripted:
    """Writes the given answers in turn; `None` writes no answer, an exception is a failed sample."""

    answers: Sequence[str | Exception | None] = tuple(answer for answer, _ in CARD)
    name: str = "scripted"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._one(i) for i in range(first, first + n)] for _ in prefixes]

    def _one(self, i: int) -> Completion:
        answer = self.answers[i % len(self.answers)]
        if isinstance(answer, Exception):
            return Completion((), "error", i, error=str(answer))
        last = "I am not sure." if answer is None else f"The answer is {answer}."
        steps = (Step(f"try {i}"), Step("so"), Step(last))
        return Completion(steps, "end", i, cost=Cost(generated_tokens=10, calls=1))


@dataclass
class ByTry:
    """Looks up the values by the number in the first step."""

    values: Sequence[tuple[float | None, ...]] = tuple(values for _, values in CARD)
    name: str = "by-try"
    batches: list[int] = field(default_factory=list)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.batches.append(len(trajectories))
        return [
            Judgement(t.id, self.values[int(t.steps[0].text.split()[1])], self.name, cost=Cost(scored_tokens=7))
            for t in trajectories
        ]


def solve(rule: Rule, policy: Policy | None = None, judge: Judge | None = None, n: int = 5) -> SearchResult:
    searcher = BestOfN(policy or Scripted(), judge or ByTry(), n=n, rule=rule, aggregation="last")
    return searcher.solve([Problem("p", "?", answer="15")])[0]


@pytest.mark.parametrize(("rule", "answer"), [("best", "7"), ("weighted", "15"), ("majority", "12")])
def test_rules_choose_as_on_the_card(rule: Rule, answer: str) -> None:
    result = solve(rule)
    assert result.answer == answer
    assert result.chosen is not None
    assert result.chosen.correct is (answer == "15")
    assert result.scores == ((None,) * 5 if rule == "majority" else (0.7, 0.6, 0.65, 0.85, 0.97))
    assert result.failure is None


def test_the_judge_reads_all_problems_in_one_batch_and_all_costs_add_up() -> None:
    judge = ByTry()
    results = BestOfN(Scripted(), judge, n=5).solve([Problem("a", "?", "12"), Problem("b", "?", "15")])
    assert judge.batches == [10]
    assert [result.problem.id for result in results] == ["a", "b"]
    assert results[0].cost == Cost(generated_tokens=50, calls=5, scored_tokens=35)


def test_majority_asks_no_judge_even_if_there_is_one() -> None:
    judge = ByTry()
    result = solve("majority", judge=judge)
    assert judge.batches == [] and result.cost.scored_tokens == 0


def test_majority_needs_no_judge_and_the_others_do() -> None:
    assert BestOfN(Scripted(), n=5, rule="majority").solve([Problem("p", "?", "12")])[0].answer == "12"
    with pytest.raises(ValueError, match="'best' needs a judge"):
        BestOfN(Scripted(), rule="best")


def test_a_failed_sample_is_no_wrong_solution_and_is_not_judged() -> None:
    judge = ByTry()
    result = solve("weighted", Scripted(["12", TimeoutError("the server stalled")]), judge, n=2)
    failed = result.candidates[1]
    assert judge.batches == [1]
    assert (failed.trajectory.correct, failed.judgement, result.scores[1]) == (None, None, None)
    assert failed.trajectory.meta["error"] == "the server stalled"
    assert result.answer == "12"


def test_without_any_answer_the_result_says_why() -> None:
    result = solve("weighted", Scripted([None, TimeoutError("the server stalled")]), n=2)
    assert result.answer is None
    assert result.failure == "1 of 2 samples failed, 1 gave no answer, 0 could not be scored; the server stalled"


def test_a_sample_without_answer_wins_only_if_no_sample_has_one() -> None:
    values = ByTry([(0.1, 0.1, 0.9), (0.1, 0.1, 0.2)])
    assert solve("best", Scripted([None, "15"]), values, n=2).answer == "15"
    alone = solve("best", Scripted([None, None]), values, n=2)
    assert alone.chosen is alone.candidates[0].trajectory


def test_a_candidate_with_an_unjudged_step_has_no_score() -> None:
    result = solve("best", judge=ByTry([(None, 0.9, 0.9), (0.1, 0.1, 0.2)]), n=2)
    assert result.scores == (None, 0.2)
    assert result.answer == "15"


def test_searchers_are_found_by_name() -> None:
    assert {"best-of-n", "majority", "weighted-vote"} <= set(registry.parts("searcher"))
    made = registry.create("searcher", "weighted-vote", n=3, aggregation="min")
    assert (made.rule, made.n, made.aggregation) == ("weighted", 3, "min")


def test_curves_take_the_first_n_candidates() -> None:
    # Right is 15. First n = 1: 12. n = 2: 12 and 15, tie for the first. n = 5: the card's check 1.
    curves = curve([solve("best")], [1, 2, 4, 5])
    assert curves.correct["majority"][:, 0].tolist() == [0, 0, 0, 0]
    assert curves.correct["best"][:, 0].tolist() == [0, 0, 1, 0]
    assert curves.correct["weighted"][:, 0].tolist() == [0, 0, 1, 1]
    assert curves.correct["oracle"][:, 0].tolist() == [0, 1, 1, 1]
    assert curves.correct["single"][:, 0].tolist() == [0, 0.5, 0.5, 0.4]


def test_curves_rescore_by_another_aggregation_from_the_stored_step_values() -> None:
    by_min = curve([solve("best")], [5], ["best", "weighted"], aggregation="min")
    assert [float(by_min.accuracy(rule)[0]) for rule in ("best", "weighted")] == [0, 0]  # both take 12
    by_prod = curve([solve("best")], [5], ["best", "weighted"], aggregation="prod")
    assert [float(by_prod.accuracy(rule)[0]) for rule in ("best", "weighted")] == [1, 1]


def test_a_curve_at_n_equals_the_search_at_n() -> None:
    for n in (1, 2, 3, 4, 5):
        for rule in ("best", "weighted", "majority"):
            chosen = solve(rule, n=n).chosen
            assert chosen is not None
            assert curve([solve("best")], [n], [rule]).correct[rule][0, 0] == float(bool(chosen.correct))


def test_curves_refuse_what_they_cannot_know() -> None:
    with pytest.raises(ValueError, match="has 5 candidates"):
        curve([solve("best")], [8])
    with pytest.raises(ValueError, match="no rule is called 'worst'"):
        curve([solve("best")], [1], ["worst"])
    unknown = BestOfN(Scripted(), ByTry(), n=1).solve([Problem("p", "?")])
    with pytest.raises(ValueError, match="no reference answer"):
        curve(unknown, [1])


def test_two_searches_with_one_seed_agree() -> None:
    assert solve("weighted") == solve("weighted")
    assert np.array_equal(curve([solve("best")], [3]).correct["best"], curve([solve("best")], [3]).correct["best"])


class HalfEmpty:
    """Every second sample, the first among them, is empty; the third and the seventh call fail."""

    name = "half-empty"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._said(index) for index in range(first, first + n)] for _ in prefixes]

    def _said(self, index: int) -> Completion:
        cost = Cost(generated_tokens=1, calls=1)
        if index in (2, 6):
            return Completion((), "error", index, error="gone", cost=cost)
        return Completion((Step("The answer is 1."),) if index % 2 else (), "end", index, cost=cost)


def test_an_empty_sample_stands_where_it_was_drawn_so_that_the_first_n_are_those_of_n() -> None:
    results = Searcher(HalfEmpty(), None, BestOf(8, "majority")).solve([Problem("p", "What is 1?", "1")])
    (result,) = results
    assert [trace.answer for trace, _ in result.candidates] == [None, "1", "1", None, "1", "1", None, None]
    assert ["error" in trace.meta for trace, _ in result.candidates] == [False] * 6 + [True] * 2
    single = curve(results, (1, 2, 6), ("single",)).accuracy("single")
    assert single.tolist() == [0.0, 0.5, pytest.approx(4 / 6)]
