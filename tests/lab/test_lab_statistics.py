"""Effect, interval and verdict: worked numbers, and how often the interval covers the truth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.lab.recipe import Claim
from footfall.lab.verdicts import decide, effect, effect_by_looks, level_at, looks, remarks, without_room
from footfall.metrics.intervals import Interval, t_quantile

TRUTH = 0.1
SEEDS, PROBLEMS, REPEATS = 5, 40, 800
Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, float], list[Any]]
"""The differences of each seed, given the true effect."""


@pytest.mark.parametrize(
    ("df", "published"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)]
)
def test_t_quantiles_are_those_of_the_tables(df: int, published: float) -> None:
    assert t_quantile(df) == pytest.approx(published, abs=6e-4)


def test_the_interval_of_single_figures_is_students() -> None:
    # Five seeds with one figure each: mean 3, standard deviation 1.5811, 2.776 · 1.5811 / √5 = 1.963.
    found = effect([[1.0], [2.0], [3.0], [4.0], [5.0]])
    assert found.value == 3.0
    assert found.high - 3.0 == pytest.approx(1.963, abs=1e-3)
    assert 3.0 - found.low == pytest.approx(1.963, abs=1e-3)


def test_one_seed_has_an_interval_over_its_problems() -> None:
    # 0, 2, 0, 2: variance of the mean with k/(k-1) is (4 · 1 / 16) · 4/3 = 1/3.
    found = effect([[0.0, 2.0, 0.0, 2.0]])
    assert found.high - found.value == pytest.approx(1.95996 * math.sqrt(1 / 3), abs=1e-4)


def test_seeds_that_agree_by_luck_do_not_make_the_interval_vanish() -> None:
    found = effect([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    assert found.high - found.low > 0.5


def test_every_seed_counts_the_same_however_many_problems_it_has() -> None:
    assert effect([[1.0] * 100, [0.0] * 2]).value == 0.5


def test_problems_that_all_seeds_share_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    differences = [rng.normal(size=30)] * 5
    names = [f"p{i}" for i in range(30)]
    apart = effect([list(d) for d in differences])
    shared = effect([list(d) for d in differences], [names] * 5)
    assert shared.high - shared.low > 1.5 * (apart.high - apart.low)


def test_nothing_to_estimate_from_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="run more seeds"):
        effect([[0.3]])
    with pytest.raises(ValueError, match="at least one seed"):
        effect([])
    with pytest.raises(ValueError, match="1 problems are named for 2"):
        effect([[0.3, 0.1]], [["a"]])


@given(st.lists(st.lists(st.floats(-1, 1), min_size=2, max_size=6), min_size=1, max_size=6))
def test_the_interval_holds_the_effect_and_turns_with_its_sign(differences: list[list[float]]) -> None:
    found = effect(differences)
    turned = effect([[-d for d in seed] for seed in differences])
    assert found.low <= found.value <= found.high
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def simulated(between: float, within: float, shared: float, rng: np.random.Generator) -> Floats:
    """Differences (seed, problem) with the true mean TRUTH; `shared` is what a problem does under every seed."""
    of_seed = rng.normal(0, between, size=(SEEDS, 1))
    of_problem = rng.normal(0, shared, size=(1, PROBLEMS))
    return TRUTH + of_seed + of_problem + rng.normal(0, within, size=(SEEDS, PROBLEMS))


def covers(found: Interval) -> bool:
    return found.low <= TRUTH <= found.high


@pytest.mark.parametrize(
    ("between", "within", "shared"),
    [(0.1, 0.1, 0.0), (0.03, 0.3, 0.0), (0.0, 0.3, 0.0), (0.0, 0.1, 0.3), (0.1, 0.1, 0.3)],
    ids=["seeds differ", "both", "only problems differ", "shared problems", "shared problems and seeds"],
)
def test_the_interval_covers_the_truth_at_least_95_times_in_100(between: float, within: float, shared: float) -> None:
    rng = np.random.default_rng(7)
    names = [[f"p{i}" for i in range(PROBLEMS)]] * SEEDS if shared else None
    drawn = [simulated(between, within, shared, rng) for _ in range(REPEATS)]
    coverage = np.mean([covers(effect(list(map(list, d)), names)) for d in drawn])
    # Three standard errors of a rate of 0.95 over 800 repeats are 0.023.
    assert coverage > 0.95 - 0.023


def test_a_two_stage_bootstrap_would_not_cover_with_five_seeds() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(300):
        d = simulated(0.1, 0.1, 0.0, rng)
        seeds = rng.integers(SEEDS, size=(400, SEEDS, 1))
        means = d[seeds, rng.integers(PROBLEMS, size=(400, SEEDS, PROBLEMS))].mean(axis=(1, 2))
        low, high = np.percentile(means, (2.5, 97.5))
        hits += bool(low <= TRUTH <= high)
    assert hits / 300 < 0.9


def test_a_claim_holds_only_if_the_whole_interval_is_on_its_side() -> None:
    better, worse, unclear = Interval(0.2, 0.1, 0.3), Interval(-0.2, -0.3, -0.1), Interval(0.1, -0.1, 0.3)
    assert [decide(found, "higher") for found in (better, worse, unclear)] == ["holds", "does not hold", "undecided"]
    assert [decide(found, "lower") for found in (better, worse, unclear)] == ["does not hold", "holds", "undecided"]


def test_an_interval_within_the_smallest_effect_is_no_difference_whichever_way_it_leans() -> None:
    tie, small, wide = Interval(0.0, -0.01, 0.01), Interval(0.01, 0.005, 0.015), Interval(0.0, -0.03, 0.01)
    for direction in ("higher", "lower"):
        assert decide(tie, direction, smallest_effect=0.02) == "no difference"
        assert decide(small, direction, smallest_effect=0.02) == "no difference"
        assert decide(wide, direction, smallest_effect=0.02) == "undecided"
    assert decide(Interval(0.0, 0.0, 0.0), "higher") == "undecided", "nothing was said of what would matter"


def test_a_tie_is_what_a_no_worse_claim_claims() -> None:
    assert decide(Interval(0.0, -0.01, 0.01), "higher", margin=-0.02, smallest_effect=0.02) == "holds"
    assert decide(Interval(-0.05, -0.06, -0.04), "higher", margin=-0.02, smallest_effect=0.02) == "does not hold"
    assert decide(Interval(-0.01, -0.03, 0.01), "higher", margin=-0.02, smallest_effect=0.02) == "undecided"


def test_a_margin_asks_for_more_or_forgives_a_little() -> None:
    gain, even = Interval(0.2, 0.1, 0.3), Interval(0.0, -0.01, 0.01)
    assert decide(gain, "higher", margin=0.05) == "holds"
    assert decide(gain, "higher", margin=0.2) == "undecided"
    assert decide(gain, "higher", margin=0.4) == "does not hold"
    assert decide(even, "higher", margin=-0.02) == "holds"
    assert decide(even, "lower", margin=-0.02) == "holds"


def claim(metric: str, margin: float = 0.0, smallest: float | None = None, threshold: str | None = None) -> Claim:
    return Claim("c", metric, "higher", "a", "b", margin, smallest_effect=smallest, threshold=threshold)


@pytest.mark.parametrize(
    ("stated", "matters"),
    [
        (claim("accuracy at N = 8"), 0.02),
        (claim("F1 of the first error", threshold="other data"), 0.03),
        (claim("verified pass@1 after the last update"), 0.02),
        (claim("average precision of wrong steps"), 0.02),
        (claim("accuracy", margin=-0.01), 0.01),
        (claim("accuracy", smallest=0.05), 0.05),
        (claim("generated tokens a problem"), 13.0),
        (claim("generated tokens, as a share of beam search's on the same problem"), 13.0),
    ],
)
def test_every_claim_says_what_would_matter_before_it_is_run(stated: Claim, matters: float) -> None:
    assert stated.matters(baseline=130.0) == matters


def test_an_f1_must_say_where_its_threshold_comes_from() -> None:
    with pytest.raises(ValueError, match='threshold="other data"'):
        claim("F1 of the first error")
    assert remarks(claim("F1", threshold="other data"), 5, "holds") == []
    assert remarks(claim("F1", threshold="0.5"), 5, "undecided") == ["threshold: 0.5", "5 of 20 seeds"]


def test_what_is_unfair_stands_in_the_row() -> None:
    unfair = replace(claim("accuracy"), caveat="Twice the updates.")
    assert remarks(unfair, 20, "holds") == ["caveat: Twice the updates."]


def test_arms_without_room_are_flagged_if_they_are_rates() -> None:
    means = {"a": 0.98, "b": 0.01}
    assert without_room(claim("accuracy"), means) == ["ceiling: a 0.98", "floor: b 0.01"]
    assert without_room(claim("accuracy"), {"a": 0.9, "b": 0.5}) == []
    assert without_room(claim("tokens a problem, as a share"), means) == []
    assert without_room(claim("accuracy of gORM minus gPRM"), means) == []


def test_the_lab_looks_when_the_seeds_have_doubled_and_spends_half_of_what_is_left() -> None:
    assert [looks(n) for n in (2, 5, 7, 20)] == [[2], [5], [5, 7], [5, 10, 20]]
    assert [1 - level_at(n) for n in (1, 5, 6, 10, 20, 40)] == pytest.approx(
        [0.025, 0.025, 0.0125, 0.0125, 0.00625, 0.003125]
    )


def test_what_an_earlier_look_ruled_out_stays_out() -> None:
    calm, wild = [[0.10], [0.11], [0.09], [0.10], [0.10]], [[0.4], [-0.2], [0.3], [-0.1], [0.1]]
    found = effect_by_looks(calm + wild)
    assert found.low == effect(calm, level=0.975).low > effect(calm + wild, level=0.9875).low
    assert found.value == pytest.approx(0.1)


def test_problems_that_are_all_right_twice_do_not_prove_a_tie() -> None:
    # 100 problems without a difference: one in twenty would go unseen with probability 0.95^100 = 0.006.
    found = effect([[0.0] * 20] * 5, level=0.975)
    assert found.high == pytest.approx(math.log(80) / 100)
    assert decide(found, "higher", smallest_effect=0.02) == "undecided"
    assert decide(effect([[0.0] * 100] * 5, level=0.975), "higher", smallest_effect=0.02) == "no difference"


SMALLEST = 0.02
SEEDS_AT_MOST, CLAIMS = 40, 400


def _right_or_wrong(rng: np.random.Generator, truth: float) -> list[Floats]:
    """Two methods on 40 seeds of 100 problems, right four times in five, of which they share seven in ten."""
    size = (SEEDS_AT_MOST, 100)
    first, again = rng.random(size), rng.random(size)
    second = np.where(rng.random(size) < 0.7, first, again)
    return list((second < 0.8 + truth).astype(float) - (first < 0.8))


def _few_differ(rng: np.random.Generator, truth: float) -> list[Floats]:
    """One problem in fifty differs, or one in 200 either way, of 40 a seed: the normal approximation is at its worst."""
    drawn = rng.random((SEEDS_AT_MOST, 40))
    rare = np.where(drawn > 0.9975, 1.0, np.where(drawn > 0.995, -1.0, 0.0))
    return list(np.where(drawn < abs(truth), np.sign(truth), rare))


def _single(noise: Callable[[np.random.Generator, int], Floats]) -> Draw:
    """One figure a seed, as F1 and AUC are."""
    return lambda rng, truth: list((truth + noise(rng, SEEDS_AT_MOST))[:, None])


DRAWS: dict[str, Draw] = {
    "normal": _single(lambda rng, n: 0.02 * rng.standard_normal(n)),
    "normal, wide": _single(lambda rng, n: 0.05 * rng.standard_normal(n)),
    "heavy tails": _single(lambda rng, n: 0.02 * rng.standard_t(3, n)),
    "two skewed arms that are alike": _single(
        lambda rng, n: 0.02 * (rng.exponential(size=n) - rng.exponential(size=n))
    ),
    "right or wrong": _right_or_wrong,
    "few differ": _few_differ,
}


def verdicts(draw: Draw, truth: float, margin: float = 0.0) -> Counter[str]:
    """Of simulated claims with this effect: what the first look that decides says, 5, 10, 20 or 40 seeds."""
    rng, found = np.random.default_rng(11), Counter[str]()
    for _ in range(CLAIMS):
        given = draw(rng, truth)
        at_looks = (decide(effect_by_looks(given[:n]), "higher", margin, SMALLEST) for n in looks(SEEDS_AT_MOST))
        found[next((verdict for verdict in at_looks if verdict != "undecided"), "undecided")] += 1
    return found


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("truth", [0.0, SMALLEST, -SMALLEST])
def test_false_verdicts_over_all_looks_are_at_most_5_in_100(draw: str, truth: float) -> None:
    """At the boundaries: an effect of 0 called one, an effect that matters called none or of the other sign."""
    wrong = {0.0: ("holds", "does not hold"), SMALLEST: ("no difference", "does not hold")}
    found = verdicts(DRAWS[draw], truth)
    assert sum(found[verdict] for verdict in wrong.get(truth, ("no difference", "holds"))) / CLAIMS <= 0.05


@pytest.mark.parametrize("draw", DRAWS)
def test_false_verdicts_on_no_worse_claims_are_at_most_5_in_100(draw: str) -> None:
    """At the margin itself, where a loss is neither less nor more than what is allowed; a tie is hardly ever called worse."""
    at_margin = verdicts(DRAWS[draw], -SMALLEST, margin=-SMALLEST)
    assert (at_margin["holds"] + at_margin["does not hold"]) / CLAIMS <= 0.05
    assert verdicts(DRAWS[draw], 0.0, margin=-SMALLEST)["does not hold"] / CLAIMS <= 0.01


def test_a_single_figure_a_seed_that_is_skewed_is_called_wrongly_more_often() -> None:
    """As an F1 at its ceiling that now and then falls: five seeds rarely see the tail, and the mean looks better than it is."""
    falls = _single(lambda rng, n: -0.02 * (rng.exponential(size=n) - 1))
    at_margin = verdicts(falls, -SMALLEST, margin=-SMALLEST)
    assert 0.1 < at_margin["holds"] / CLAIMS < 0.2, "called no worse, where it loses all that it may"
    assert at_margin["does not hold"] / CLAIMS <= 0.01
    assert 0.05 < verdicts(falls, -SMALLEST)["no difference"] / CLAIMS < 0.2


def test_five_looks_of_95_in_100_each_would_find_too_much() -> None:
    rng, false = np.random.default_rng(11), 0
    for _ in range(400):
        given = list((0.02 * rng.standard_normal(20))[:, None])
        found = [effect(given[:count]) for count in (4, 8, 12, 16, 20)]
        false += any(each.low > 0 or each.high < 0 for each in found)
    assert false / 400 > 0.1
