"""Aggregations, votes and pass@k on the worked numbers of the method cards best-of-n and math-shepherd."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, FrequencyVote, HybridVote, Searcher
from footfall.search.votes import (
    AGGREGATIONS,
    SIGNED,
    Aggregation,
    aggregate,
    best,
    classes,
    frequency,
    group,
    hybrid,
    length_aware,
    majority,
    mean_of_readings,
    oracle,
    pass_at_k,
    weighted,
)
from tests.search.coins import Coins, SeesCoins, problems

POOLS = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "best_of_n"

ANSWERS = ["12", "15", "12", "15", "7"]
STEPS = [[0.9, 0.8, 0.7], [0.99, 0.95, 0.6], [0.6, 0.5, 0.65], [0.4, 0.9, 0.85], [0.95, 0.2, 0.97]]


@pytest.mark.parametrize(
    ("how", "scores", "best_answer", "weights", "voted"),
    [
        ("prod", [0.504, 0.5643, 0.195, 0.306, 0.1843], "15", {"12": 0.699, "15": 0.8703, "7": 0.1843}, "15"),
        ("min", [0.7, 0.6, 0.5, 0.4, 0.2], "12", {"12": 1.2, "15": 1.0, "7": 0.2}, "12"),
        ("last", [0.7, 0.6, 0.65, 0.85, 0.97], "7", {"12": 1.35, "15": 1.45, "7": 0.97}, "15"),
        ("mean", [0.8, 0.8467, 0.5833, 0.7167, 0.7067], "15", {"12": 1.3833, "15": 1.5633, "7": 0.7067}, "15"),
    ],
)
def test_best_of_n_card_check_1(
    how: str, scores: list[float], best_answer: str, weights: dict[str, float], voted: str
) -> None:
    folded = [aggregate(steps, how) for steps in STEPS]
    assert folded == pytest.approx(scores, abs=5e-5)
    index = best(folded)
    assert index is not None
    assert ANSWERS[index] == best_answer
    vote = weighted(ANSWERS, folded)
    assert vote.weights == pytest.approx(weights, abs=1e-4)
    assert vote.winner is not None
    assert ANSWERS[vote.winner] == voted


def test_best_of_n_card_check_1_majority_tie_goes_to_the_answer_seen_first() -> None:
    vote = majority(ANSWERS)
    assert (vote.winner, vote.weights) == (0, {"12": 2.0, "15": 2.0, "7": 1.0})
    assert majority(ANSWERS[::-1]).winner == 1  # now 15 is seen first


def test_best_of_n_card_check_2_pass_at_k() -> None:
    assert pass_at_k(10, 3, 5) == pytest.approx(0.916667, abs=1e-6)
    assert pass_at_k(4, 2, 2) == pytest.approx(0.833333, abs=1e-6)
    assert pass_at_k(4, 2, 3) == 1.0


@given(n=st.integers(1, 40), data=st.data())
def test_pass_at_k_product_form_equals_the_binomials(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    assert pass_at_k(n, c, k) == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k))


@given(st.lists(st.sampled_from(["1", "2", "1.0", "4/2", None]), min_size=1, max_size=12))
def test_best_of_n_card_check_3_constant_weights_vote_like_the_majority(answers: list[str | None]) -> None:
    assert weighted(answers, [0.3] * len(answers)).winner == majority(answers).winner


def test_best_of_n_card_check_3_with_one_sample_all_selectors_agree() -> None:
    assert best([0.2]) == majority(["5"]).winner == weighted(["5"], [0.2]).winner == 0


def test_math_shepherd_card_verification() -> None:
    answers, steps = ["7", "7", "9", "5"], [[0.9, 0.8, 0.95], [0.6, 0.5, 0.7], [0.99, 0.97, 0.9], [0.4, 0.9, 0.9]]
    minima = [aggregate(values, "min") for values in steps]
    assert minima == [0.8, 0.5, 0.9, 0.4]
    assert best(minima) == 2
    vote = weighted(answers, minima)
    assert vote.weights == pytest.approx({"7": 1.3, "9": 0.9, "5": 0.4})
    assert vote.winner == 0


def test_the_first_of_equal_scores_wins() -> None:
    assert best([0.1, 0.9, 0.9]) == 1
    assert best([None, 0.0]) == 1
    assert best([None, None]) is None


def test_a_trace_with_an_unjudged_step_or_no_step_has_no_score() -> None:
    for how in AGGREGATIONS:
        assert aggregate([0.5, None], how) is None
        assert aggregate([], how) is None


def test_max_and_sum() -> None:
    assert aggregate([0.2, 0.7, 0.1], "max") == 0.7
    assert aggregate([0.2, 0.7, 0.1], "sum") == pytest.approx(1.0)


def test_a_long_product_does_not_underflow_on_the_way_and_a_zero_stays_zero() -> None:
    assert aggregate([1e-200, 1e200, 0.5], "prod") == pytest.approx(0.5)
    assert aggregate([0.0, 0.5], "prod") == 0.0


def test_dreamprm_card_check_a_solution_is_worth_the_mean_log_odds_of_its_steps() -> None:
    values = [0.9, 0.6, 0.8]
    assert aggregate(values, "log-odds") == pytest.approx(0.790785, abs=1e-6)
    assert 1 / (1 + math.exp(-sum(math.log(v / (1 - v)) for v in values) / 3)) == pytest.approx(0.790785, abs=1e-6)
    assert aggregate([0.3], "log-odds") == pytest.approx(0.3)
    assert aggregate([1.0, 0.0], "log-odds") == pytest.approx(0.5)
    assert 0 < (aggregate([0.0] * 500, "log-odds") or 0) < 1e-9
    with pytest.raises(ValueError, match=r"step 2 has the value 1\.5: odds are those of probabilities"):
        aggregate([0.5, 1.5], "log-odds")


def test_negative_values_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"step 2 .*sigmoid"):
        aggregate([0.5, -0.1], "prod")
    with pytest.raises(ValueError, match=r"sample 1 .*\(s \+ 1\) / 2"):
        weighted(["1", "2"], [0.5, -0.1])
    with pytest.raises(ValueError, match="no aggregation is called 'median'"):
        aggregate([0.5], "median")


def test_samples_without_answer_or_score_do_not_vote_and_are_counted() -> None:
    vote = weighted(["5", None, "6", "6"], [0.4, 0.9, None, 0.3])
    assert (vote.winner, vote.dropped, vote.unscored) == (0, 1, 1)
    assert majority([None, None]).winner is None


def test_equal_answers_in_different_dress_are_one_group_named_by_the_first() -> None:
    assert group(["0.5", "1/2", "2", None, "\\frac{1}{2}", "2.0"]) == [0, 0, 2, None, 0, 2]
    assert majority(["3", "1/2", "0.5"]).weights == {"3": 1.0, "1/2": 2.0}


def test_a_string_without_a_canonical_twin_is_still_put_beside_each_group() -> None:
    assert group(["5", "5 apples", "6"]) == [0, 0, 2]


def test_oracle() -> None:
    assert oracle([False, None, True])
    assert not oracle([False, None])


@pytest.mark.skipif(not POOLS.is_dir(), reason="the best-of-N pools are not here")
def test_best_of_32_on_math_500_gives_the_known_figures() -> None:
    """Qwen2.5-Math-PRM-7B, 500 problems, regraded labels: min 83.8, prod 84.4, last 81.0."""
    with gzip.open(POOLS / "math500_500x32.jsonl.gz", "rt", encoding="utf-8") as lines:
        pools = [json.loads(line) for line in lines]
    scores: dict[tuple[str, int], list[float | None]] = {}
    with gzip.open(POOLS / "step_scores" / "qwen_prm_math500.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            scores[row["problem_id"], row["candidate_index"]] = row["step_scores"]
    for how, percent in (("min", 83.8), ("prod", 84.4), ("last", 81.0)):
        hits = 0
        for pool in pools:
            chosen = best([aggregate(scores[pool["problem_id"], i], how) for i in range(32)])
            assert chosen is not None
            hits += pool["candidates"][chosen]["is_correct_regraded"]
        assert 100 * hits / len(pools) == pytest.approx(percent)


UNPRM_ANSWERS = ["A"] * 4 + ["B"] * 3 + ["C"]
UNPRM_SCORES = [0.5, 0.4, 0.6, 0.5, 0.9, 0.95, 0.8, 0.7]


def test_unprm_card_check_hybrid_majority_reward() -> None:
    assert majority(UNPRM_ANSWERS).winner == 0
    assert weighted(UNPRM_ANSWERS, UNPRM_SCORES).weights == pytest.approx({"A": 2.0, "B": 2.65, "C": 0.7})
    sure, unsure = (hybrid(UNPRM_ANSWERS, UNPRM_SCORES, share=share) for share in (0.5, 0.6))
    assert (sure.winner, sure.weights) == (0, {"A": 0.5, "B": 0.375, "C": 0.125})
    assert (unsure.winner, unsure.weights) == (4, {"A": 0.6, "B": 0.95, "C": 0.7})


def test_an_unsure_hybrid_vote_takes_the_first_of_equally_good_solutions_as_best_of_n_does() -> None:
    answers, scores = ["1", "2", "1", "3"], [0.5, 0.9, 0.9, 0.1]
    vote = hybrid(answers, scores, share=0.6)
    assert vote.winner == best(scores) == 1
    assert vote.weights == {"1": 0.9, "2": 0.9, "3": 0.1}
    assert hybrid([None, "2"], [0.9, 0.1], share=1.1).winner == 1, "a solution without an answer is not taken"


def test_hybrid_by_entropy_is_sure_where_the_answers_agree() -> None:
    entropy = -sum(f * math.log(f) for f in (0.5, 0.375, 0.125))
    assert hybrid(UNPRM_ANSWERS, UNPRM_SCORES, entropy=entropy + 1e-9).winner == 0
    assert hybrid(UNPRM_ANSWERS, UNPRM_SCORES, entropy=entropy - 1e-9).winner == 4


def test_unprm_card_check_weighted_reward_frequency() -> None:
    even, counting = (frequency(UNPRM_ANSWERS, UNPRM_SCORES, mix=mix) for mix in (0.5, 0.8))
    assert even.weights == pytest.approx({"A": 0.37, "B": 0.3995, "C": 0.2305})
    assert even.winner == 4
    assert counting.weights["A"] == pytest.approx(0.448)
    assert counting.winner == 0


def test_both_votes_with_and_without_scores_at_the_edges() -> None:
    for vote in (hybrid, frequency):
        assert vote([None, None], [0.1, 0.2]).winner is None
        assert vote([], []).winner is None
        assert vote(["5", "6", "6"], [None, None, None]).winner == 1  # nothing but the votes is left
        assert vote(["5", "6"], [0.0, 0.0]).winner == 0
        counted = vote(["5", None, "6"], [0.4, 0.9, None])
        assert (counted.dropped, counted.unscored) == (1, 1)
        with pytest.raises(ValueError, match="not negative"):
            vote(["5", "6"], [0.1, -0.2])
    with pytest.raises(ValueError, match=r"from 0 to 1, not 1\.5"):
        frequency(["5"], [0.5], mix=1.5)


@given(st.lists(st.tuples(st.sampled_from(["1", "2", "3"]), st.floats(0, 1)), min_size=1, max_size=10))
def test_both_votes_reach_from_the_majority_to_the_reward(samples: list[tuple[str, float]]) -> None:
    answers, scores = [a for a, _ in samples], [s for _, s in samples]
    top = best(scores)
    assert top is not None
    assert hybrid(answers, scores, share=0.0).winner == majority(answers).winner
    assert frequency(answers, scores, mix=1.0).winner == majority(answers).winner
    rewarded = hybrid(answers, scores, share=1.01).winner
    assert rewarded is not None
    assert max(s for a, s in samples if a == answers[rewarded]) == scores[top]


def test_length_aware_is_the_geometric_mean_of_the_cards_sprm_metastone_and_reinforce_step() -> None:
    assert aggregate([1 / (1 + math.exp(-x)) for x in (2, -1, 3)], "length-aware") == pytest.approx(0.608804, abs=1e-6)
    assert aggregate([0.9, 0.6, 0.8], "length-aware") == pytest.approx(0.75595, abs=5e-6)


def test_log_product_of_the_card_reinforce_step_ranks_a_long_trace_as_its_product_would() -> None:
    assert aggregate([0.9, 0.6, 0.8], "log-prod") == pytest.approx(math.log(0.432))
    assert aggregate([0.01] * 300, "prod") == 0.0, "which no longer tells traces apart"
    assert best([aggregate([0.01] * n, "log-prod") for n in (301, 300, 302)]) == 1
    with pytest.raises(ValueError, match="step 2 has the value 0, which has no logarithm"):
        aggregate([0.5, 0.0], "log-prod")


def test_class_form_of_the_card_reinforce_step_is_the_mean_of_one_nought_or_minus_one_a_step() -> None:
    positive, neutral = (0.7, 0.2, 0.1, 0.3), (0.2, 0.7, 0.2, 0.3)
    assert classes(positive, neutral) == (1.0, 0.0, -1.0, -1.0)
    assert aggregate(classes(positive, neutral), "mean") == pytest.approx(-0.25)
    assert classes((0.375, 0.4), (0.25, 0.4)) == (0.0, 0.0), "two that are equally likely are neither"
    assert classes((0.7, None, 0.7), (0.2, 0.1, None)) == (1.0, None, None)
    assert aggregate([0.9, 0.6, 0.2], "class") == pytest.approx(1 / 3), "of P(right) alone, at one half"
    assert aggregate([0.5], "class") == 0.0
    with pytest.raises(ValueError, match=r"step 1 has 0.8 for right and 0.4 for neutral: a class .* probabilities"):
        classes([0.8], [0.4])
    with pytest.raises(ValueError, match=r"step 1 has the value nan"):
        classes([math.nan])


@pytest.mark.parametrize("how", SIGNED)
def test_scores_that_can_be_negative_are_refused_as_weights_before_anything_is_sampled(how: Aggregation) -> None:
    assert BestOf(8, "best", how).aggregation == how
    for make in (lambda: BestOf(8, "weighted", how), lambda: HybridVote(8, aggregation=how)):
        with pytest.raises(ValueError, match=f"scores by {how} can be negative"):
            make()


def test_log_products_of_the_card_scprm_prefer_the_short_path_and_their_means_the_even_one() -> None:
    a, b = (0.95, 0.4, 0.98, 0.97), (0.8, 0.8, 0.8)
    assert [aggregate(row, "mean") for row in (a, b)] == pytest.approx([0.825, 0.8]), "which hides the one bad hop"
    assert [aggregate(row, "log-prod") for row in (a, b)] == pytest.approx([-1.018246, -0.669431], abs=1e-6)
    assert [aggregate(row, "prod") for row in (a, b)] == pytest.approx([0.361228, 0.512], abs=1e-6)
    per_hop = [math.log(aggregate(row, "length-aware") or 0) for row in (a, b)]
    assert per_hop == pytest.approx([-0.254561, -0.223144], abs=1e-6)


def test_means_and_minima_of_the_card_vilbench() -> None:
    scores = [[5, 4, 5], [4, 4, 4, 5], [5, 2, 5]]
    means, minima = ([aggregate(row, how) for row in scores] for how in ("mean", "min"))
    assert means == pytest.approx([4.6667, 4.25, 4.0], abs=5e-5) and minima == [4, 4, 2]
    assert best(means) == best(minima) == 0, "the first of a tie"


@given(st.floats(0.01, 1), st.integers(1, 60))
def test_length_aware_does_not_favour_short_traces(value: float, steps: int) -> None:
    assert length_aware([value] * steps) == pytest.approx(value)
    assert length_aware([value] * steps, power=0.0) == pytest.approx(aggregate([value] * steps, "prod"))
    assert length_aware([0.0] * steps) == 0.0


def test_multi_rm_card_check_1_a_missing_verdict_is_even() -> None:
    assert mean_of_readings([0.9, None, 0.7]) == pytest.approx(0.7)
    with pytest.raises(ValueError, match="never read"):
        mean_of_readings([])


@pytest.mark.parametrize("method", [HybridVote(8), FrequencyVote(8)])
def test_the_votes_as_methods_choose_by_answers_and_scores(method: HybridVote | FrequencyVote) -> None:
    searcher = Searcher(
        Coins(0.5, 3), SeesCoins(), method, params=SamplingParams(seed=3, max_tokens=100), separator="\n"
    )
    for result in searcher.solve(problems(20)):
        vote = method.vote([t.answer for t, _ in result.candidates], list(result.scores), "math")
        assert vote.winner is not None
        assert len(result.candidates) == 8 and result.chosen == result.candidates[vote.winner].trajectory


def test_a_hybrid_vote_may_go_by_the_entropy_of_the_answers() -> None:
    answers: list[str | None] = ["1", "1", "1", "2", "3", "4"]
    scores: list[float | None] = [0.1, 0.1, 0.1, 0.9, 0.1, 0.1]
    assert HybridVote(share=0.5).vote(answers, scores, "math").winner == 0
    assert HybridVote(share=0.5, entropy=1.0).vote(answers, scores, "math").winner == 3, "1.24 nats"
    assert HybridVote(share=0.9, entropy=1.3).vote(answers, scores, "math").winner == 0
    for share, entropy in ((7.0, None), (0.5, -1.0)):
        with pytest.raises(ValueError, match="share goes from 0 to 1"):
            HybridVote(share=share, entropy=entropy)
