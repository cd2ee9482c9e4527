"""Every credit on the worked numbers of its paper or card, and the identities that make it what it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.registry import create, systems
from footfall.rl.aggregates import code_shape, line_rewards, pspo_reward, shares, weibull
from footfall.rl.bounded import Extra, confidence_extra, deviations_kept, ladder, margin, renorm, short_bleu
from footfall.rl.differences import clipped, delta, progress, redistributed
from footfall.rl.groups import Group, Rollout, deviation, to_go
from footfall.rl.log_ratios import dense_leave_one_out
from footfall.rl.min_form import min_form, step_baseline, token_baseline
from footfall.rl.prefix_tree import node_values, prefix_weights
from footfall.rl.verdicts import called_wrong, share_right, step_augmented, thoughts, well_formed
from footfall.search.votes import AGGREGATIONS

close = pytest.approx
UNIT = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def given_out(name: str, *rollouts: Rollout, **options: Any) -> list[list[float]]:
    """The advantages of one group, by rollout and token."""
    (said,) = create("credit", name, **options)([Group(rollouts)])
    assert not said.left
    return [row.tolist() for row in said.advantages]


def ends(*outcomes: float, **more: Any) -> list[Rollout]:
    return [Rollout(np.array([1]), outcome, **more) for outcome in outcomes]


def steps(*rewards: float, outcome: float | None = None, lengths: list[int] | None = None, **more: Any) -> Rollout:
    return Rollout(np.array(lengths or [1] * len(rewards)), outcome, np.array(rewards), **more)


# GRPO, RLOO, REINFORCE++


def test_grpo_and_rloo_on_outcomes() -> None:
    group = ends(1, 0, 0, 1)
    assert np.ravel(given_out("grpo", *group)) == close([0.86588, -0.86588, -0.86588, 0.86588], abs=1e-5)
    assert np.ravel(given_out("rloo", *group)) == close([2 / 3, -2 / 3, -2 / 3, 2 / 3])
    assert np.ravel(given_out("grpo", *group, scale="none")) == close([0.5, -0.5, -0.5, 0.5])
    assert np.ravel(given_out("grpo", *ends(1, 1, 1))).tolist() == [0, 0, 0]
    assert systems("credit")["dr-grpo"].settings == {"scale": "none"}


def test_grpo_may_scale_by_the_std_of_the_batch() -> None:
    said = create("credit", "grpo", scale="batch", eps=0.0)([Group(tuple(ends(1, 0))), Group(tuple(ends(1, 1)))])
    assert [row[0] for each in said for row in each.advantages] == close([1, -1, 0, 0])


def test_grpo_on_steps_pools_them_and_sums_to_go() -> None:
    first, second = steps(0.9, 0.1, lengths=[2, 1]), steps(0.5)
    assert given_out("grpo-process", first, second, eps=0.0) == [close([0, 0, -1]), close([0])]
    one_each = [steps(r) for r in (1.0, 0.0, 0.0, 1.0)]
    assert np.ravel(given_out("grpo-process", *one_each)) == close(np.ravel(given_out("grpo", *ends(1, 0, 0, 1))))


def test_grpo_normalises_steps_and_outcome_apart() -> None:
    group = [steps(0.9, 0.1, outcome=1.0), steps(0.5, outcome=0.0)]
    both = given_out("grpo-process", *group, alpha=0.5, outcome=1.0, eps=0.0)
    assert both == [close([math.sqrt(0.5), math.sqrt(0.5) - 0.5]), close([-math.sqrt(0.5)])]


def test_rloo_takes_the_kl_off_the_reward() -> None:
    old, ref = np.array([-1.0, -1.0]), np.array([-1.5, -1.25])
    group = [Rollout(np.array([2]), 1.0, old=old, reference=ref), Rollout(np.array([2]), 0.0, old=ref, reference=ref)]
    assert [row[0] for row in given_out("rloo", *group, beta=0.4)] == close([0.7, -0.7])


def test_reinforce_plus_plus_whitens_over_all_tokens_of_the_batch() -> None:
    group = [Rollout(np.array([1, 1]), 1.0), Rollout(np.array([1]), 0.0)]
    rows = given_out("reinforce++", *group)
    assert rows == [close([0.57735, 0.57735], abs=1e-5), close([-1.1547], abs=1e-4)]
    decayed = given_out("reinforce++", *group, gamma=0.5)
    assert decayed[0][0] < decayed[0][1]
    based = create("credit", "reinforce++", baseline=True)([Group(tuple(ends(1, 1))), Group(tuple(ends(1, 0)))])
    assert not any(row.any() for row in based[0].advantages)


# PURE


def test_the_soft_minimum() -> None:
    star = min_form([0.8, -0.6, 0.4], 0.1)
    assert to_go(star) == close([-0.59995, -0.59995, 0.00002], abs=1e-5)
    assert star / [0.8, -0.6, 0.4] == close([8.3e-7, 0.99995, 4.5e-5], abs=5e-6)
    assert min_form([0.8, 0.7, 0.75], 0.1).sum() == close(0.7340, abs=1e-4)
    assert min_form([0.8, -0.6, 0.4, 0.8], 0.1).sum() == close(star.sum(), abs=1e-5)


def test_the_strict_minimum_is_the_least_up_to_the_worst_step_and_nothing_after_it() -> None:
    assert to_go(min_form([0.8, -0.6, 0.4], 0)).tolist() == close([-0.6, -0.6, 0])
    assert min_form([0.8, 0.7, 0.75], 0).sum() == close(0.70)


@settings(deadline=None)
@given(UNIT)
def test_the_strict_form_adds_up_to_the_minimum_and_the_soft_one_comes_near(scores: list[float]) -> None:
    assert min_form(scores, 0).sum() == close(min(scores), abs=1e-9)
    assert min(scores) - 1e-9 <= min_form(scores, 0.01).sum() <= min(scores) + 0.01 * len(scores) / math.e + 1e-9


def test_the_baselines_of_pure() -> None:
    totals = np.array([-0.6, 0.5, 0.7])
    assert token_baseline(totals, np.array([30.0, 20.0, 50.0])) == close([0.017143, 0.00125, -0.002], abs=1e-6)
    assert step_baseline(np.array([2.0, 1.0, 0.0]), np.array([2.0, 1.0, 1.0])) == close([0.5, 0.5, 1.0])


def test_pure_with_and_without_outcomes() -> None:
    group = [steps(0.8, -0.6, 0.4), steps(0.5)]
    options = {"baseline": "none", "probabilities": False, "temperature": 0.0}
    assert given_out("pure", *group, **options) == [close([-0.6, -0.6, 0]), close([0.5])]
    known = [steps(0.8, -0.6, 0.4, outcome=1.0), steps(0.5, outcome=0.0)]
    assert given_out("pure", *known, **options) == [close([0.4, 0.4, 1]), close([-0.5])]
    assert given_out("pure", *known, **options, coef=0.0) == given_out("pure", *group, **options)
    spared = given_out("pure", steps(0.8, -0.6, lengths=[2, 3]), **options, train_ends=False)
    assert spared == [close([-0.6, 0, -0.6, -0.6, 0])]


def test_the_sum_grows_with_every_good_step_and_the_minimum_does_not() -> None:
    options: dict[str, Any] = {"baseline": "none", "coef": 0.0}
    short, long = steps(0.8, 0.9), steps(0.8, 0.9, 0.9, 0.9)
    assert (
        given_out("pure", long, form="sum", **options)[0][0] > given_out("pure", short, form="sum", **options)[0][0] + 1
    )
    assert (
        given_out("pure", long, temperature=0.0, **options)[0][0]
        == given_out("pure", short, temperature=0.0, **options)[0][0]
    )


def test_pure_takes_probabilities_and_says_so_where_they_are_none() -> None:
    with pytest.raises(ValueError, match=r"-0.6, which is no probability.*probabilities=False"):
        given_out("pure", steps(0.8, -0.6))
    rounded = steps(0.8, 1 + 2**-52)
    assert given_out("pure", rounded) == [close(row) for row in given_out("pure", steps(0.8, 1.0))]


# PRIME, OPRL, PRL


def prime_pair() -> list[Rollout]:
    rows = [([0.2, 0.4], 1.0), ([-0.1, 0.1], 0.0)]
    return [Rollout(np.array([1, 1]), y, online=np.array(q), reference=np.zeros(2)) for q, y in rows]


def test_prime() -> None:
    both = [np.array([0.2, 0.4]), np.array([-0.1, 0.1])]
    dense = dense_leave_one_out(both, [np.ones(2, bool)] * 2)
    assert [row.tolist() for row in dense] == [close([0.1, 0.5]), close([-0.5, -0.1])]
    plain = given_out("prime", *prime_pair(), coef=1.0, outcome=1.0, norm=False, whiten=False)
    assert plain == [close([1.6, 1.5]), close([-1.6, -1.1])]
    # The official whitening takes the unbiased variance; with the population's these would be 1.0266, 0.9581, -1.1635, -0.8213.
    unbiased = math.sqrt(3 / 4)
    white = given_out("prime", *prime_pair(), coef=1.0, outcome=1.0, norm=False)
    assert white[0] == close([1.0266 * unbiased, 0.9581 * unbiased], abs=1e-4)
    assert white[1] == close([-1.1635 * unbiased, -0.8213 * unbiased], abs=1e-4)


def test_prime_is_rloo_where_the_reward_model_is_the_reference() -> None:
    group = [Rollout(np.array([2]), y, online=np.ones(2), reference=np.ones(2)) for y in (1.0, 0.0, 0.0)]
    rows = given_out("prime", *group, outcome=1.0, whiten=False)
    assert [row[0] for row in rows] == close([1, -0.5, -0.5])


def test_prime_bounds_every_return() -> None:
    rows = given_out("prime", *prime_pair(), coef=1.0, outcome=0.0, whiten=False)
    assert np.abs(np.ravel(rows)).max() <= 2 and rows[0][0] == close(0.6 / 0.6, abs=1e-4)


def oprl_pair() -> list[Rollout]:
    first = Rollout(np.array([1, 1]), 1.0, online=np.array([4.0, 2.0]), old=np.zeros(2))
    return [first, Rollout(np.array([1, 1, 1]), 0.0, online=np.array([1.0, -3.0, 2.0]), old=np.zeros(3))]


def test_oprl_standardises_step_rewards_over_the_whole_group() -> None:
    """β times the log-ratios; with α = 1, A = A_E + A_S."""
    rewards = 0.05 * np.concatenate([each.known("online") - each.known("old") for each in oprl_pair()])
    assert rewards == close([0.2, 0.1, 0.05, -0.15, 0.1]) and deviation(rewards) == close(0.12942, abs=1e-5)
    both, episodes = (np.concatenate(given_out("oprl", *oprl_pair(), alpha=a, eps=0.0)) for a in (1.0, 0.0))
    assert both - episodes == close([1.0817, 0.3091, -0.0773, -1.6226, 0.3091], abs=1e-4)
    alike = [replace(each, outcome=1.0) for each in oprl_pair()]
    assert np.concatenate(given_out("oprl", *alike, eps=0.0)) == close(both - episodes), "where outcomes are equal"


def test_oprl() -> None:
    rows = given_out("oprl", *oprl_pair(), eps=0.0)
    assert rows == [close([1.7888, 1.0162], abs=1e-4), close([-0.7844, -2.3297, -0.3980], abs=1e-4)]
    assert given_out("oprl", *oprl_pair(), alpha=0.0, eps=0.0) == [
        close([0.70711] * 2, abs=1e-5),
        close([-0.70711] * 3, abs=1e-5),
    ]


def test_prl() -> None:
    drift = np.array([0.5, -0.2, 0.1, 0.3])
    every = Rollout(np.array([1, 1, 1, 1]), 1.0, old=drift, reference=np.zeros(4))
    (values,) = given_out("prl", every, eta=10.0)
    assert 10 * (1 - np.array(values)) == close([0.7, 0.2, 0.4, 0.3]), "D: the drift from a token on"
    one = Rollout(np.array([2, 2]), 1.0, old=drift, reference=np.zeros(4))
    assert given_out("prl", one, eta=10.0) == [close([0.98, 0.98, 0.97, 0.97])]
    assert given_out("prl", one) == [close([0.999, 0.999, 0.9985, 0.9985])]
    assert given_out("prl", one, eta=10.0, whole_steps=True) == [close([0.93, 0.93, 0.96, 0.96])]
    group = [Rollout(np.array([2]), y, old=drift[:2], reference=np.zeros(2)) for y in (1.0, 0.0, 0.0, 1.0)]
    assert np.ravel(given_out("prl", *group, eta=1e12)) == close(np.ravel(given_out("grpo", *group, eps=1e-6)))


# PAV, Clip and Delta, RED


def test_pav_rewards_progress_under_a_stronger_prover() -> None:
    assert progress(0.2, [0.3], 4) == close([0.1695], abs=1e-4)
    assert progress(0.9, [0.95], 4) == close([9.4e-5], abs=1e-6)
    assert progress(0.4, [0.4, 0.4], 4) == close([0, 0])
    pair = [steps(0.3, 1.0, outcome=1.0, start=0.2), steps(0.2, 0.0, outcome=0.0, start=0.2)]
    rows = given_out("pav", *pair, alpha=0.5, baseline="none")
    assert rows[0] == close([1 + 0.5 * 0.4096, 1 + 0.5 * 0.2401], abs=1e-4)


@settings(deadline=None)
@given(st.floats(0, 1), UNIT)
def test_progress_of_the_policy_itself_telescopes(start: float, values: list[float]) -> None:
    assert progress(start, values).sum() == close(values[-1] - start, abs=1e-9)


@pytest.mark.parametrize(("start", "value"), [(0.5, 2.0), (-1.0, 0.5)])
def test_there_is_no_best_of_k_of_scores(start: float, value: float) -> None:
    """By 1 - (1 - V)^4 a score of 2 would be worth what 0 is."""
    with pytest.raises(ValueError, match=r"a judge's value is (2|-1), which is no probability; .* set k=1"):
        given_out("pav", steps(value, outcome=1.0, start=start))
    assert given_out("pav", steps(value, outcome=1.0, start=start), k=1, alpha=1.0, baseline="none") == [
        close([1 + value - start])
    ]


def test_pav_takes_a_judge_that_gives_progress_itself() -> None:
    given_ = given_out("pav", steps(0.1, 0.3, outcome=1.0), advantages=True, alpha=1.0, baseline="none")
    assert given_ == [close([1.4, 1.3])]


def test_clip_and_delta() -> None:
    scores = [0.90, 0.95, 0.50, 0.80]
    assert clipped(scores, 0.7) == close([0, 0, -0.2, 0])
    assert delta(scores) == close([-0.05, 0.45, 0.50, 0])
    assert to_go(delta(scores)) == close([0.90, 0.95, 0.50, 0])
    assert delta(clipped(scores, 0.7)) == close([0, 0.2, -0.2, 0])
    assert delta([0.4]).tolist() == [0]


@settings(deadline=None)
@given(UNIT, st.integers(1, 5))
def test_a_repeated_step_earns_nothing_under_clip_and_delta(scores: list[float], copies: int) -> None:
    more = [scores[0]] * copies + scores
    assert clipped(more, 0.5).sum() <= clipped(scores, 0.5).sum() + 1e-9
    if len(scores) > 1:
        assert to_go(delta(more))[0] == close(scores[0], abs=1e-9)
    assert sum(more) == close(sum(scores) + copies * scores[0])


def test_clip_delta_as_a_credit_adds_the_outcome_at_the_end() -> None:
    one = steps(0.9, 0.95, 0.5, 0.8, outcome=1.0)
    both = given_out("clip-delta", one, eta=0.7, alpha=0.5, baseline="none")
    assert both == [close([1, 1, 0.9, 1])]
    assert given_out("clip-delta", one, alpha=1.0, baseline="none", clip=False, difference=False)[0][0] == close(4.15)


def test_red_shares_the_score_out_by_what_each_token_added() -> None:
    assert redistributed(0.3, [0.5, 0.4, 1.2]) == close([0.2, -0.1, 0.8])
    assert redistributed(0.3, [0.5, 0.4, 1.2], beta=0.0) == close([0, 0, 1.2])
    rewards = ([0.5, 0.4, 1.2], [0.6], [-0.3], [0.9])
    group = [Rollout(np.array([len(row)]), start=0.3, token_scores=np.array(row)) for row in rewards]
    rows = given_out("red", *group)
    assert rows[0] == close([0.7, 0.4, 1.3]) and [row[0] for row in rows[1:]] == close([0, -1.2, 0.4])


@settings(deadline=None)
@given(st.floats(-1, 1), UNIT, st.floats(0, 1))
def test_red_sums_to_the_score_less_that_of_the_prompt(start: float, scores: list[float], beta: float) -> None:
    assert redistributed(start, scores, beta).sum() == close(scores[-1] - beta * start, abs=1e-9)


# λ-GRPO


def test_lambda_grpo() -> None:
    a, b, c, d, e, f = range(6)
    trees = [[a, b, c], [a, b, d], [a, e, f]]
    assert [row.tolist() for row in prefix_weights(trees)] == [
        close([1 / 3, 0.5, 1]),
        close([1 / 3, 0.5, 1]),
        close([1 / 3, 1, 1]),
    ]
    assert [row.tolist() for row in node_values(trees, [1, 0, 0])] == [
        close([1 / 3, 0.5, 1]),
        close([1 / 3, 0.5, 0]),
        close([1 / 3, 0, 0]),
    ]
    group = Group(
        tuple(Rollout(np.array([3]), y, ids=np.array(ids)) for y, ids in zip((1.0, 0.0, 0.0), trees, strict=True))
    )
    (said,) = create("credit", "lambda-grpo")([group])
    assert [row[0] for row in said.advantages] == close([1.15450, -0.57725, -0.57725], abs=1e-5)
    push = [row * weight for row, weight in zip(said.advantages, said.weights, strict=True)]
    assert push[0][0] + push[1][0] + push[2][0] == close(0, abs=1e-9)
    assert push[0][1] + push[1][1] == close(0.28863, abs=1e-5) and push[0][2] == close(1.15450, abs=1e-5)


def test_equal_completions_share_every_token_and_a_beginning_ends_in_a_branch_of_its_own() -> None:
    assert [row.tolist() for row in prefix_weights([[1, 2], [1, 2]])] == [[0.5, 0.5]] * 2
    assert [row.tolist() for row in prefix_weights([[1], [1, 2], []])] == [[0.5], [0.5, 1], []]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=5))
def test_weights_of_a_prefix_tree(sequences: list[list[int]]) -> None:
    rows = prefix_weights(sequences)
    assert all((np.diff(row) >= 0).all() for row in rows)
    # Every node has the weight 1 in all, so the weights add up to the number of different beginnings.
    nodes = {tuple(row[: t + 1]) for row in sequences for t in range(len(row))}
    assert sum(row.sum() for row in rows) == close(len(nodes))


# CAPO, TP-GRPO


def test_capo() -> None:
    group = [steps(1, 1, 0, 1, outcome=1.0), steps(0, 0, outcome=0.0)]
    assert deviation(np.array([2.0, 2, 1, 2, -1, -1])) == close(1.47196, abs=1e-5), "of the tokens' rewards"
    rows = given_out("capo", *group)
    assert rows == [close([0.7926, 0.7926, 0.1132, 0.7926], abs=1e-4), close([-1.2455, -1.2455], abs=1e-4)]
    with pytest.raises(ValueError, match="must exceed"):
        create("credit", "capo", whole=1.0, process=1.0)


def test_critiques_vote() -> None:
    read = share_right([{1}, None, {1}, set()], 3)
    assert read is not None and read == close([1, 1 / 3, 1])
    assert [called_wrong(read, vote)[1] for vote in ("intersection", "majority", "union", "average")] == close(
        [0, 1, 1, 2 / 3]
    )
    assert share_right([None, None], 3) is None


def test_spark_s_groups_of_the_card() -> None:
    whole = [steps(y, outcome=y) for y in (1.0, 1.0, 0.0, 0.0)]
    assert given_out("spark", *whole) == [close([1]), close([1]), close([-1]), close([-1])]
    mixed = [steps(1, 1, outcome=1.0), *(steps(1, 0, outcome=0.0) for _ in range(3))]
    assert given_out("spark", *mixed) == [close([3**0.5, 3**0.5])] + [close([0, -(3**-0.5)])] * 3
    assert given_out("spark", *whole[:2]) == [close([0]), close([0])], "without a difference there is nothing to learn"


def test_spark_s_rewards_and_gate_of_the_card() -> None:
    assert step_augmented(3, 4, True) == pytest.approx(0.9) and step_augmented(1, 4, False) == pytest.approx(0.1)
    assert step_augmented(3, 4, True, formed=False) == 0
    good = "So it is 5. <answer>\\boxed{5}</answer>"
    assert well_formed(good + "\n")
    for bad in (good + " Another problem: 1 + 1 = 2.", good + good, "5", good.replace("5}", "5} \\boxed{6}"),
                "<answer>5</answer>", "<answer>\\boxed{5}"):  # fmt: skip
        assert not well_formed(bad), bad


def test_tp_grpo() -> None:
    assert thoughts(np.array([0, 1, 0], bool), True, 1.0, 0.25) == close([1, 0.75, 1])
    assert thoughts(np.array([0, 1, 0, 1], bool), False, -0.8, 0.25) == close([0, -0.8, 0, -0.8])
    assert thoughts(np.array([1, 0], bool), False, -0.8, 0.25, answer=True) == close([-0.8, -0.8])
    group = [steps(0.9, 0.2, outcome=1.0), steps(0.1, 0.8, outcome=0.0)]
    half = math.sqrt(0.5)
    assert given_out("tp-grpo", *group, eps=0.0) == [close([half, half - 0.25]), close([-half, 0])]


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=6), st.booleans())
def test_a_thought_that_is_cut_in_two_changes_nothing(wrong: list[bool], right: bool) -> None:
    whole = thoughts(np.array(wrong), right, 0.5, 0.2)
    np.testing.assert_array_equal(np.repeat(whole, 2), thoughts(np.repeat(wrong, 2), right, 0.5, 0.2))


# Aggregates, PSPO, PSGPO


@settings(deadline=None)
@given(UNIT, st.sampled_from(["sum", "mean", "prod", "min", "last", "max", "class"]))
def test_shares_add_up_to_the_aggregate(scores: list[float], how: Any) -> None:
    assert shares(scores, how).sum() == close(AGGREGATIONS[how](scores), abs=1e-9)


def test_aggregates_at_the_end_and_in_shares() -> None:
    one = steps(0.9, 0.6, 0.8)
    wanted = {"prod": 0.432, "mean": 0.76667, "max": 0.9, "min": 0.6, "last": 0.8, "sum": 2.3, "length-aware": 0.75595}
    for how, value in wanted.items():
        assert given_out("reinforce-step", one, how=how, baseline="none") == [close([value] * 3, abs=1e-5)]
    assert given_out("reinforce-step", one, how="mean", placement="steps", baseline="none")[0] == close(
        [2.3 / 3, 1.4 / 3, 0.8 / 3]
    )
    with pytest.raises(ValueError, match="length-aware cannot be shared out"):
        given_out("reinforce-step", one, how="length-aware", placement="steps")
    placements: tuple[Any, ...] = ("end", "steps")
    for placement in placements:
        with pytest.raises(ValueError, match=r"step 2 has the value -0.5: a product needs values in \[0, 1\]"):
            given_out("reinforce-step", steps(0.9, -0.5), how="prod", placement=placement)


@pytest.mark.parametrize(
    ("how", "three", "four", "shared"),
    [
        ("prod", 0.432, 0.3888, [-0.1, -0.36, -0.108, 0.9568]),
        ("mean", 0.76667, 0.8, [0.225, 0.15, 0.2, 0.225]),
        ("max", 0.9, 0.9, [0.9, 0, 0, 0]),
        ("min", 0.6, 0.6, [0, 0.6, 0, 0]),
        ("last", 0.8, 0.9, [0, 0, 0, 0.9]),
        ("sum", 2.3, 3.2, [0.9, 0.6, 0.8, 0.9]),
        ("log-prod", -0.83933, -0.94469, [-0.10536, -0.51083, -0.22314, -0.10536]),
        ("class", 1.0, 1.0, [0.25] * 4),
    ],
)
def test_a_trivial_step_of_score_nine_tenths_is_appended_to_those_of_the_card(
    how: Any, three: float, four: float, shared: list[float]
) -> None:
    more = steps(0.9, 0.6, 0.8, 0.9)
    assert given_out("reinforce-step", steps(0.9, 0.6, 0.8), how=how, baseline="none") == [close([three] * 3, abs=1e-5)]
    assert given_out("reinforce-step", more, how=how, baseline="none") == [close([four] * 4, abs=1e-5)]
    assert shares([0.9, 0.6, 0.8, 0.9], how) == close(shared, abs=1e-5)


@given(st.floats(0.01, 1))
def test_one_step_has_its_own_score_by_every_aggregate_of_scores_but_the_logarithm(score: float) -> None:
    for how in ("prod", "mean", "max", "min", "last", "sum", "length-aware"):
        assert AGGREGATIONS[how]([score]) == close(score)
    assert math.exp(AGGREGATIONS["log-prod"]([score])) == close(score)


def test_a_step_without_a_chance_is_paid_the_logarithm_of_a_ten_billionth() -> None:
    (end,) = given_out("reinforce-step", steps(0.9, 0.0), how="log-prod", baseline="none")
    (shared,) = given_out("reinforce-step", steps(0.9, 0.0), how="log-prod", placement="steps", baseline="none")
    assert end == close([math.log(0.9) - 23.02585] * 2) and shared == close([end[0], -23.02585])
    placements: tuple[Any, ...] = ("end", "steps")
    for placement in placements:
        with pytest.raises(ValueError, match=r"step 2 has the value -0.5: a product needs values in \[0, 1\]"):
            given_out("reinforce-step", steps(0.9, -0.5), how="log-prod", placement=placement)
        with pytest.raises(ValueError, match=r"step 2 has the value -0.5: a class is taken from probabilities"):
            given_out("reinforce-step", steps(0.9, -0.5), how="class", placement=placement)


def test_pspo() -> None:
    assert [weibull(n) for n in range(1, 7)] == close([0.6809, 0.8882, 0.9797, 0.9994, 0.9709, 0.9104], abs=1e-4)
    wanted = {(0.9, 3): 4.03352, (0.9, 4): 6.65015, (0.9, 6): 8.12251, (0.5, 6): 3.94354, (0.1, 6): 0.60496}
    assert [code_shape(*at) for at in wanted] == close(list(wanted.values()), abs=1e-5)
    assert code_shape(0.1, 6) < code_shape(0.1, 4) == close(0.73891, abs=1e-5)
    b = code_shape(0.9, 4)
    assert (code_shape(0.9, 5) - b) / (b * math.exp(0.1) - b) == close(0.99995, abs=1e-5), "the sigmoid, one step on"
    assert code_shape(0.2115, 9) < code_shape(0.2115, 6) and code_shape(0.2117, 9) > code_shape(0.2117, 6)
    assert pspo_reward([0.9, 0.8, 0.6]) == close(2.56113, abs=1e-5) and pspo_reward([0.9]) == 0
    assert pspo_reward([0.9, 0.8, 0.6], "weibull") == close(0.75595 * 0.9797, abs=1e-4)
    assert given_out("pspo", steps(0.9, 0.8, 0.6), shape="none", baseline="none") == [close([0.75595] * 3, abs=1e-5)]


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.booleans())
def test_lines_of_a_program_never_earn_more_than_lambda(scores: list[float], passed: bool) -> None:
    assert abs(line_rewards(scores, passed).sum()) <= (0.025 if passed else 0.25) + 1e-12


def test_comments_lower_what_lines_earn() -> None:
    assert line_rewards([1, 1], False).sum() == close(0.25) and line_rewards([1, 1, 0, 0], False).sum() == close(0.125)
    group = [steps(1, -1, outcome=0.0), steps(1, 1, outcome=1.0)]
    assert given_out("psgpo", *group, baseline="none", probabilities=False) == [
        close([0, -0.125]),
        close([1.025, 1.0125]),
    ]


# ReNorm, RLFR, RLCM, PRS


def test_renorm() -> None:
    pairs = {(1, 1): 1, (1, 0): 0, (0, 1): 0, (0, 0): -1, (0.8, 1): 0.8, (0.8, 0): -0.2}
    assert [renorm([p, 0.5], o)[0] for p, o in pairs] == close(list(map(float, pairs.values())))
    assert given_out("renorm", steps(0.8, 0.3, outcome=1.0), baseline="none") == [close([1.8, 1])]


@settings(deadline=None)
@given(UNIT)
def test_a_failed_episode_earns_nothing_however_many_good_steps_it_has(scores: list[float]) -> None:
    assert renorm(scores, 0.0).sum() <= 1e-12


def test_rlfr() -> None:
    assert deviations_kept([2, 5, 3, 8, 4, 6]) == close([0, 0, 0, 1, 0, 2 / 3])
    assert deviations_kept([2, 5, 3, 8, 4, 6], 0.0) == close([0, 0.5, 0.1667, 1, 0.3333, 0.6667], abs=5e-5)
    assert deviations_kept(np.arange(40)).astype(bool).sum() == 15
    group = [Rollout(np.array([6]), y, flow=np.array([2.0, 5, 3, 8, 4, 6])) for y in (1.0, 0.0)]
    rows = given_out("rlfr", *group)
    base = given_out("grpo", *group, eps=1e-9)
    assert np.subtract(rows[0], base[0]) == close([-0.016667] * 4 + [-0.006667] * 2, abs=1e-6)


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=60))
def test_the_flow_penalty_never_outweighs_the_outcome(scores: list[float]) -> None:
    assert 0.01 * deviations_kept(scores).sum() <= 0.15 + 1e-12


def test_rlcm() -> None:
    confidence = [0.3, 0.4, 0.8, 0.9]
    assert margin(confidence, [0, 0.5, 1, 1]) == close(0.55)
    assert margin(confidence, [1, 0.5, 0, 0]) == close(-0.55), "the classes swapped"
    assert margin(confidence, [1, 1, 1, 1]) == margin(confidence, [0, 0, 0.5, 0.5]) == margin([0.5, 0.5], [0, 1]) == 0
    sure = np.array([0.3, 0.9])
    plain, wide, none = (
        steps(0.5, 0.5, outcome=1.0, confidence=sure, aspects={"solved": np.array(solved)})
        for solved in ([np.nan, np.nan], [0, 1], [1, np.nan])
    )
    rows = given_out("rlcm", wide, none)
    assert rows[0][0] > 0 > rows[1][0]
    assert given_out("rlcm", plain, replace(wide, outcome=0.0))[0][0] > 0, "no margin turns right and wrong over"
    card = steps(*[0.5] * 4, outcome=1.0, confidence=np.array(confidence), aspects={"solved": np.array([0, 0.5, 1, 1])})
    more, less = given_out("rlcm", card, none, eps=1e6)  # so great that it hides the width by which both are divided
    assert 1e6 * (more[0] - less[0]) == close(0.055, abs=1e-4), "what the margin of the card adds at the weight of 0.1"
    judged = steps(0.3, 0.9, outcome=1.0, aspects={"solved": np.array([0, 1])})
    assert given_out("rlcm", judged, plain, by="judge") == given_out("rlcm", wide, plain)
    with pytest.raises(ValueError, match="needs the aspect 'solved'"):
        given_out("rlcm", steps(0.3, outcome=1.0, confidence=np.array([0.3])))


def test_the_ablations_of_rlcm() -> None:
    confidence, solved = [0.3, 0.4, 0.8, 0.6], [0, 0.5, 1, np.nan]
    assert confidence_extra(confidence, solved, "brier") == close(-(0.09 + 0.01 + 0.04) / 3)
    assert confidence_extra(confidence, solved, "threshold") == close(((0.5 - 0.3) + (0.8 - 0.5)) / 2)
    assert confidence_extra([0.3, 0.5], [1, 1], corners=True) == close(0.4)
    assert confidence_extra([0.3, 0.5], [0, 0], corners=True) == close(0.6)
    assert confidence_extra(confidence, solved, corners=True) == margin(confidence, solved)
    extras: tuple[Extra, ...] = ("margin", "brier", "threshold")
    assert [confidence_extra([0.3], [np.nan], extra) for extra in extras] == [0, 0, 0]


def test_the_ladder_of_prs_puts_every_rung_above_those_below() -> None:
    assert [
        ladder(False, False, 1.0),
        ladder(True, False, 1.0),
        ladder(True, True, 0.0),
        ladder(True, True, 1.0),
    ] == close([0, 0.1, 0.2, 1])
    with pytest.raises(ValueError, match="quality in"):
        ladder(True, True, 1.5)


def test_an_answer_of_one_word_can_be_right() -> None:
    assert short_bleu(["Paris"], ["Paris"]) == 1 and short_bleu(["the", "city", "Paris"], ["Paris"]) == close(1 / 3)
    assert short_bleu(["Rome"], ["Paris"]) == 0 and short_bleu([], ["Paris"]) == 0


# What no rule may make of nothing.


@pytest.mark.parametrize(
    ("name", "options"),
    [("capo", {"vote": "average"}), ("spark", {}), *((name, {"eps": 0.0}) for name in ("grpo", "lambda-grpo", "prl", "rlfr"))],
)  # fmt: skip
@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_equal_rewards_move_nothing_however_they_are_rounded(name: str, options: dict[str, Any], value: float) -> None:
    """The mean of seven 0.3 is not 0.3 to the last digit: by a std of 1e-17 that becomes an advantage of 1."""
    group = [
        steps(value, value, outcome=value, ids=np.arange(2), old=np.zeros(2), reference=np.zeros(2), flow=np.zeros(2))
        for _ in range(7)
    ]
    assert not np.any(given_out(name, *group, **options))


def test_the_std_of_a_batch_without_spread_divides_nothing() -> None:
    said = create("credit", "grpo", scale="batch", eps=0.0)([Group(tuple(ends(0.3, 0.3, 0.3)))])
    assert not np.any([row for each in said for row in each.advantages])


def test_pure_counts_no_token_that_a_tool_wrote() -> None:
    """β = 0.4 / 2 of the other's two own tokens, whatever its tool answered; and one own token in each step here."""
    tool = np.array([True, False, False, True])
    row, _ = given_out(
        "pure", steps(0.5, 0.5, lengths=[3, 1], mask=tool), steps(0.4, lengths=[4], mask=tool), form="sum",
        probabilities=False,
    )  # fmt: skip
    assert row == close([0.5 + 0.5 - 2 * 0.2, 0, 0, 0.5 - 0.2])


@pytest.mark.parametrize(
    ("name", "options"),
    [("prl", {"eta": 10.0}), ("prl", {"eta": 10.0, "whole_steps": True}), ("pure", {"train_ends": False}),
     ("red", {"beta": 0.5}), ("red", {})],
)  # fmt: skip
def test_what_a_tool_answers_behind_a_step_changes_nothing_for_its_tokens(name: str, options: dict[str, Any]) -> None:
    """The end of a step, and of the whole, is the policy's last token there."""
    plain = steps(0.8, 0.3, lengths=[2, 2], outcome=1.0, start=0.2, old=[0.5, -0.2, 0.1, 0.3], reference=np.zeros(4),
                  token_scores=[0.3, 0.5, 0.4, 0.9])  # fmt: skip
    own = np.array([True, True, False, True, True, False])
    asked = steps(0.8, 0.3, lengths=[3, 3], outcome=1.0, start=0.2, old=[0.5, -0.2, 9, 0.1, 0.3, 9], reference=np.zeros(6),
                  mask=own, token_scores=[0.3, 0.5, 0.5, 0.4, 0.9, 0.9])  # fmt: skip
    other = replace(plain, rewards=np.array([0.1, 0.6]), outcome=0.0)
    (alone, _), (answered, _) = given_out(name, plain, other, **options), given_out(name, asked, other, **options)
    assert np.array(answered)[own] == close(np.array(alone)) and not np.array(answered)[~own].any()


@pytest.mark.parametrize("R", [-1.0, 1.5])
@pytest.mark.parametrize("name", ["capo", "tp-grpo", "psgpo"])
def test_credits_by_right_and_wrong_take_no_other_outcomes(name: str, R: float) -> None:
    with pytest.raises(ValueError, match=rf"an outcome is {R:g}, .* wants outcomes in \[0, 1\]"):
        given_out(name, steps(0.9, 0.1, outcome=R), steps(0.9, 0.1, outcome=1.0))
    for other in ("grpo", "rloo", "clip-delta", "pav"):
        given_out(other, steps(0.9, 0.1, outcome=R, start=0.5), steps(0.9, 0.1, outcome=1.0, start=0.5))


def test_votes_of_critiques_are_shares() -> None:
    with pytest.raises(
        ValueError, match="a judge's value is -2, which is no probability; a step's value is the share of"
    ):
        given_out("capo", steps(0.9, -2.0, outcome=1.0), steps(0.9, 0.1, outcome=0.0))


def test_right_is_an_outcome_above_a_half_in_every_rule_that_asks_for_it() -> None:
    """A well-formed wrong answer on PRS's ladder is worth 0.2, and no right answer."""
    formed = ladder(True, True, 0.0)
    tp = [given_out("tp-grpo", steps(0.9, 0.1, outcome=R), steps(0.9, 0.1, outcome=1.0)) for R in (formed, 0.0)]
    assert tp[0] == tp[1]
    lines = [given_out("psgpo", steps(0.0, 1.0, outcome=R), baseline="none")[0][0] - R for R in (formed, 1.0)]
    assert lines == close([0.0, 0.0]), "two lines of which one is right add up to nothing"
    (first,) = given_out("psgpo", steps(1.0, 1.0, outcome=formed), baseline="none")
    assert first == close([formed + 0.25, formed + 0.125])
