"""Verdicts: how sure an effect is over seeds and problems, under repeated looks, and what that says of a claim.

Seed s of G gives paired differences d_sp (method − baseline on problem p), with the mean d_s. The effect is the mean of
the d_s. Its variance has up to three estimates, each a sum over clusters of deviations e_sp = d_sp − effect:

    V_seeds     = var(d_s) / G, with G − 1 degrees of freedom
    V_problems  = clusters are problems (one that comes back under several seeds is one cluster)
    V_cells     = clusters are single differences
    V           = V_seeds + max(0, V_problems − V_cells)             (two-way clustering)

If every seed draws its own problems, V_problems = V_cells and V = V_seeds: the d_s already vary by their problems as well
as by sampling and training. If seeds share a fixed set of problems, the d_s move together and V_problems − V_cells adds
what they hide. With a = 1 − level the interval is

    effect ± max( t_{1−a}(G − 1) √V ,  z_{1−a} √V_problems ,  ln(2 / a) / N )

where the second term keeps five seeds that agree by luck from making the interval too narrow, and is the whole
interval when there is one seed. The third is for verdicts of right and wrong (every difference −1, 0 or 1) on N problems:
where none differs, a rate of differences p would go unseen with probability (1 − p)^N <= exp(−pN). The usual two-stage
bootstrap (seeds, then problems within) covers the truth 84 times in 100 with five seeds that differ.

Looks. Seeds are added until a verdict is reached, so the interval must be right at every look. Look k is at 5 · 2^(k−1)
seeds (5, 10, 20, 40, …) and has the level 1 − α_k:

    α_k = 0.05 · 2^−k,      Σ_k α_k <= 0.05

By the union bound all looks together cover the truth 95 times in 100, however many there are and whatever ends them, if
each covers it as often as its level says. Fewer seeds than a look has count as that look. The interval that is shown is
what all looks so far have in common. (Anytime-valid t-tests allow a look after every seed; at five seeds their interval
is half as wide again at best.)

Verdicts, with [low, high] the interval of the gain (the effect, turned so that more is better), the margin m and the smallest
effect that would matter, δ:

    no difference    m >= 0 and −δ < low and high < δ      a tie, or too little to matter
    holds            low > m                               m < 0: no worse than by −m, and δ = −m
    does not hold    high < m
    undecided        otherwise: add seeds, until the budget of them is spent
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

from footfall.lab.recipe import OTHER_DATA, Claim
from footfall.metrics.intervals import Floats, Interval, t_quantile

Verdict = Literal["holds", "does not hold", "no difference", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "no difference", "undecided")
FIRST_LOOK = 5
BUDGET = 20
"""Seeds that a claim is given to be decided, unless a run says otherwise."""
ALPHA = 0.05
CEILING, FLOOR = 0.97, 0.03
"""An arm beyond them has little room left to differ."""
ROOM = ("ceiling: ", "floor: ")


def looks(seeds: int) -> list[int]:
    """The numbers of seeds at which the lab looks, up to `seeds`, which is the last: 20 → [5, 10, 20], 7 → [5, 7]."""
    found = [FIRST_LOOK]
    while found[-1] < seeds:
        found.append(2 * found[-1])
    return [look for look in found if look < seeds] + [seeds]


def level_at(seeds: int) -> float:
    """1 − α_k of the look that so many seeds are, or that comes next."""
    k = 1 + max(0, math.ceil(math.log2(seeds / FIRST_LOOK)))
    return 1 - ALPHA * 2.0**-k


def effect(
    differences: Sequence[Sequence[float]], problems: Sequence[Sequence[str]] | None = None, level: float = 0.95
) -> Interval:
    """Mean of the seeds' mean differences and its interval of that level, looked at once.

    `problems` names the problem of each difference where seeds have problems in common; without it all are different.
    """
    seeds = [np.asarray(given, dtype=np.float64) for given in differences]
    if not seeds or any(not len(d) for d in seeds):
        raise ValueError("an effect needs at least one seed, and at least one difference a seed")
    if len(seeds) == 1 and len(seeds[0]) == 1:
        raise ValueError("one seed with one figure has no interval: run more seeds, or measure problem by problem")
    means_G, cells_C = np.array([d.mean() for d in seeds]), np.concatenate(seeds)
    value = float(means_G.mean())
    shares = [(d - value) / (len(d) * len(seeds)) for d in seeds]
    clusters_C = _clusters(len(cells_C), problems)
    of_problems = _cluster_variance(np.bincount(clusters_C, weights=np.concatenate(shares)).astype(np.float64))
    of_cells = _cluster_variance(np.concatenate(shares))
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(of_problems)
    if len(seeds) > 1:
        over_seeds = float(means_G.var(ddof=1)) / len(seeds) + max(0.0, of_problems - of_cells)
        half = max(half, t_quantile(len(seeds) - 1, level) * math.sqrt(over_seeds))
    if len(cells_C) > len(seeds) and np.isin(cells_C, (-1.0, 0.0, 1.0)).all():
        half = max(half, math.log(2 / (1 - level)) / (int(clusters_C.max()) + 1))
    return Interval(value, value - half, value + half)


def effect_by_looks(
    differences: Sequence[Sequence[float]], problems: Sequence[Sequence[str]] | None = None
) -> Interval:
    """The effect of all seeds, with what the intervals of all looks so far have in common.

    Where that does not hold the effect itself, it is the interval of the last look: both are right as often.
    """
    each = [
        effect(differences[:count], problems and problems[:count], level_at(count)) for count in looks(len(differences))
    ]
    low, high = max(found.low for found in each), min(found.high for found in each)
    last = each[-1]
    return Interval(last.value, low, high) if low <= last.value <= high else last


def _clusters(cells: int, problems: Sequence[Sequence[str]] | None) -> np.typing.NDArray[np.int64]:
    """The number of each difference's problem."""
    if problems is None:
        return np.arange(cells)
    names = [name for seed in problems for name in seed]
    if len(names) != cells:
        raise ValueError(f"{len(names)} problems are named for {cells} differences")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _cluster_variance(sums_K: Floats) -> float:
    """Σ_k (sum of cluster k)² · K / (K − 1); a single cluster says nothing."""
    k = len(sums_K)
    return float(np.sum(sums_K**2)) * k / (k - 1) if k > 1 else 0.0


def decide(
    found: Interval, direction: Literal["higher", "lower"], margin: float = 0.0, smallest_effect: float = 0.0
) -> Verdict:
    """The verdict on a claim whose effect has this interval."""
    low, high = (found.low, found.high) if direction == "higher" else (-found.high, -found.low)
    if margin >= 0 and -smallest_effect < low and high < smallest_effect:
        return "no difference"
    if low > margin:
        return "holds"
    return "does not hold" if high < margin else "undecided"


def without_room(claim: Claim, means: Mapping[str, float]) -> list[str]:
    """A note on each arm of a rate that is at its ceiling or floor."""
    arms = (claim.baseline, claim.method) if claim.is_rate else ()
    found = [f"ceiling: {arm} {means[arm]:.3g}" for arm in arms if means[arm] > CEILING]
    return found + [f"floor: {arm} {means[arm]:.3g}" for arm in arms if means[arm] < FLOOR]


def remarks(claim: Claim, seeds: int, verdict: Verdict) -> list[str]:
    """Notes on a threshold that was not tuned on other data, on what is unfair, and on seeds that are left to run."""
    found = [] if claim.threshold in (None, OTHER_DATA) else [f"threshold: {claim.threshold}"]
    found += [f"caveat: {claim.caveat}"] if claim.caveat else []
    left = f"{seeds} of {max(seeds, BUDGET)} seeds" if claim.tier == "lab" else "the stored figures do not decide it"
    return found + [left] * (verdict == "undecided")
