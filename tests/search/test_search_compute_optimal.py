"""The compute-optimal chooser: each problem the method of its difficulty, on one tree and one budget."""

from __future__ import annotations

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import BeamSearch, BestOf, Budget, ComputeOptimal, Searcher, SelfConsistency, best_by_difficulty
from footfall.search.compute_optimal import method_of
from footfall.search.state import Method
from footfall.simulate import Blurred
from footfall.types import SearchResult
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, OpRates
from tests.search.coins import Coins, SeesCoins, problems

PARAMS = SamplingParams(seed=1, max_tokens=100)
HARD = "beam-search:n=4,expansions=2"


def solve(
    method: ComputeOptimal, n: int, p: float, judged: bool = True, budget: Budget | None = None
) -> list[SearchResult]:
    judge = SeesCoins() if judged else None
    return Searcher(Coins(p), judge, method, budget or Budget(), PARAMS, "\n").solve(problems(n))


def test_a_method_is_read_from_its_name_and_settings() -> None:
    assert method_of("beam-search:n=8, expansions=2,distinct=True") == BeamSearch(8, 2, distinct=True)
    assert method_of("majority:n=5") == BestOf(5, "majority")
    assert method_of("self-consistency:stop=window") == SelfConsistency(stop="window")


@pytest.mark.parametrize(
    ("text", "message"),
    [("beam-search:n", "no SETTING=VALUE"), ("beam-search:width=3", "width"), ("beem-search", "did you mean")],
)
def test_a_method_that_cannot_be_read_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises((ValueError, KeyError), match=message):
        method_of(text)


def test_the_mean_score_of_the_pilot_picks_the_bin() -> None:
    """The judge's last value is 1 for a right solution: the easiness is the share of right ones."""
    chooser = ComputeOptimal(f"{HARD};best-of-n:n=3;", cuts=(0.3, 0.8), pilot=4)
    seen = set()
    for result in solve(chooser, 60, p=0.75):
        share = sum(bool(t.correct) for t, _ in result.candidates[:4]) / 4
        note = next(d for d in result.decisions if d.what == "estimated")
        name = "beam-search(" if share < 0.3 else "best-of-n(" if share < 0.8 else "nothing more"
        assert name in note.why and f"easiness {share:.3f}" in note.why
        seen.add(name)
        if share >= 0.8:
            assert len(result.candidates) == 4
    assert len(seen) == 3


def test_the_pilot_stays_among_the_candidates_and_unjudged_ones_are_judged() -> None:
    chooser = ComputeOptimal("majority:n=3;self-consistency:n=4,batch=2", cuts=(0.5,), pilot=2)
    for result in solve(chooser, 20, p=0.6):
        assert len(result.candidates) >= 4
        assert all(judgement is not None for _, judgement in result.candidates)


def test_without_a_judge_agreement_is_the_measure() -> None:
    chooser = ComputeOptimal("majority:n=6;", cuts=(0.9,), pilot=3, rule="majority")
    assert not chooser.judged
    for result in solve(chooser, 30, p=0.8, judged=False):
        agree = len({t.answer for t, _ in result.candidates[:3]}) == 1
        assert len(result.candidates) == (3 if agree else 9)


def test_the_budget_is_one_for_pilot_and_method() -> None:
    for result in solve(ComputeOptimal(f"{HARD};", cuts=(1.1,), pilot=2), 20, p=0.5, budget=Budget(tokens=90)):
        assert result.policy_cost.generated_tokens <= 90 + 30 and result.candidates


def test_the_best_method_of_each_bin_is_taken_from_results() -> None:
    correct = {"majority:n=4": [0, 0, 1, 1], HARD: [1, 1, 1, 0]}
    chooser = best_by_difficulty([0.1, 0.2, 0.8, 0.9], correct, cuts=(0.5,), pilot=3)
    assert chooser.methods == f"{HARD};majority:n=4" and chooser.pilot == 3
    empty = best_by_difficulty([0.1, 0.2, 0.8, 0.9], correct, cuts=(0.5, 0.95))
    assert empty.methods.split(";")[2] == HARD, "best on all"
    with pytest.raises(ValueError, match="one figure a problem"):
        best_by_difficulty([0.1], {"majority": [1, 0]}, cuts=())


def test_bins_and_cuts_must_fit() -> None:
    with pytest.raises(ValueError, match="1 rising cuts make 2 bins"):
        ComputeOptimal("majority", cuts=(0.5,))
    with pytest.raises(ValueError, match="rising cuts"):
        ComputeOptimal(";;", cuts=(0.8, 0.2))


@pytest.mark.long
def test_on_a_world_it_is_as_accurate_as_fixed_methods_that_cost_more() -> None:
    """The effect that it is for. A pilot of four solutions is enough for easy problems, hard ones get a beam besides.

    The judge knows exact values, blurred. One problem of 60 is 1.7 points; `docs/search.md` has the figures of five seeds.
    """
    writer = ArithmeticPolicy(OpRates(0.2, 0.2, 0.3, 0.3))
    chooser = ComputeOptimal("beam-search:n=8,expansions=4;", cuts=(0.3,), pilot=4)
    given = ArithmeticWorld().problems(60, 7, split="test")
    params = SamplingParams(seed=7, max_tokens=256)

    def found(method: Method) -> tuple[float, float]:
        results = Searcher(writer, Blurred(writer, 1.0, seed=7), method, params=params, separator="\n").solve(given)
        share = sum(bool(r.chosen and r.chosen.correct) for r in results) / len(results)
        return share, sum(r.policy_cost.generated_tokens for r in results) / len(results)

    accuracy, tokens = found(chooser)
    for fixed in ("beam-search:n=8,expansions=4", "weighted-vote:n=8", "best-of-n:n=8"):
        share, cost = found(method_of(fixed))
        assert tokens < cost and accuracy >= share - 0.02, fixed
