"""How sure a figure is: bootstrap intervals over problems, paired differences, Wilson's for a rate, Student's over seeds.

A bootstrap resample is a vector of counts, one a case, so any figure that can be written with case weights gets its
interval from one weight matrix: row 0 is the data itself, each further row a resample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.types import Json

Floats = npt.NDArray[np.float64]
RESAMPLES = 2000
_AT_ONCE, _CASES_AT_ONCE = 256, 1 << 20
"""Resamples drawn at once, and the cases in them, to bound the memory."""
_GRID = 200_001


class Interval(NamedTuple):
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_dict(self) -> dict[str, Json]:
        """JSON; what has no value (an empty class) is null."""
        value, low, high = (float(number) if math.isfinite(number) else None for number in self)
        return {"value": value, "ci95": [low, high]}


def bootstrap_mean(values: npt.ArrayLike, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean over problems and its percentile bootstrap interval."""
    values_P = np.asarray(values, dtype=np.float64)
    if values_P.ndim != 1 or not len(values_P):
        raise ValueError(f"a mean needs one value a problem, not an array of shape {values_P.shape}")
    if not np.isfinite(values_P).all():
        odd = int(np.flatnonzero(~np.isfinite(values_P))[0])
        raise ValueError(
            f"problem {odd} has the value {values_P[odd]:g}: leave out what has none, and say how many those are"
        )
    rng = np.random.default_rng(seed)
    size = len(values_P)
    means = [values_P.mean(keepdims=True)]
    many = max(1, min(_AT_ONCE, _CASES_AT_ONCE // size))  # however many, the same numbers are drawn
    for done in range(0, resamples, many):
        picked = rng.integers(size, size=(min(many, resamples - done), size))
        means.append(values_P[picked].mean(axis=1))
    return from_resamples(np.concatenate(means))


def paired_difference(a: npt.ArrayLike, b: npt.ArrayLike, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """Mean of a − b over the same problems: each problem is its own control."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"a paired difference needs the same problems twice, not {first.shape} and {second.shape}")
    return bootstrap_mean(first - second, seed, resamples)


def wilson(successes: int, n: int, z: float = 1.959963984540054) -> Interval:
    """Wilson's score interval of a rate: (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)."""
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} successes of {n} is not a rate")
    p, scale = successes / n, 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    # At 0 and at n of n an end is the rate itself, which rounding would miss.
    return Interval(p, max(0.0, centre - half) if successes else 0.0, min(1.0, centre + half) if successes < n else 1.0)


def share_right(rates: Sequence[float], seed: int = 0) -> Interval:
    """How much is right over problems: Wilson's interval where every problem is right or wrong (resamples of all right have no
    spread), else the bootstrap's."""
    plain = all(rate in (0.0, 1.0) for rate in rates)
    return wilson(int(sum(rates)), len(rates)) if plain else bootstrap_mean(rates, seed)


def mean_of_seeds(means: Sequence[float]) -> Interval:
    """The mean of one figure a seed, ± t(G − 1) · s / √G; a single seed has no interval, both ends are NaN."""
    if not means:
        raise ValueError("a mean needs at least one seed")
    value = math.fsum(means) / len(means)
    if len(means) == 1:
        return Interval(value, math.nan, math.nan)
    half = t_quantile(len(means) - 1) * float(np.std(means, ddof=1)) / math.sqrt(len(means))
    return Interval(value, value - half, value + half)


@lru_cache(maxsize=64)
def t_quantile(df: int, level: float = 0.95) -> float:
    """The two-sided quantile of Student's t.

    With t = √df · tan θ the density is proportional to cos(θ)^(df − 1) on |θ| < π/2, so θ is read off its integral.
    """
    if df < 1 or not 0 < level < 1:
        raise ValueError(f"Student's t needs df >= 1 and a level in (0, 1), not {df} and {level}")
    theta = np.linspace(0.0, math.pi / 2, _GRID)
    density = np.maximum(np.cos(theta), 0.0) ** (df - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(df) * math.tan(float(np.interp(level, mass / mass[-1], theta)))


def case_weights(
    strata: Sequence[str], seed: int = 0, resamples: int = RESAMPLES, groups: Sequence[str] | None = None
) -> Floats:
    """(1 + resamples) × cases: ones, then how often each case is drawn. Each stratum keeps its size.

    Cases of one stratum that share a group (the candidates of one problem, say) are drawn together.
    """
    rng = np.random.default_rng(seed)
    names = np.asarray(strata)
    weights_RN = np.ones((1 + resamples, len(names)))
    for name in dict.fromkeys(strata):
        columns = np.flatnonzero(names == name)
        units = np.arange(len(columns)) if groups is None else _units([groups[int(i)] for i in columns])
        count = int(units.max()) + 1
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=resamples)
        weights_RN[1:, columns] = drawn[:, units]
    return weights_RN


def _units(groups: Sequence[str]) -> npt.NDArray[np.int64]:
    """The number of each case's group, counted from 0 in the order of appearance."""
    order = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return np.asarray([order[group] for group in groups])


def from_resamples(figures_R: Floats) -> Interval:
    """Row 0 is the figure, the other rows its resamples; those without a value (an empty class) are left out."""
    drawn = figures_R[1:][np.isfinite(figures_R[1:])]
    low, high = np.percentile(drawn, (2.5, 97.5)) if len(drawn) else (math.nan, math.nan)
    return Interval(float(figures_R[0]), float(low), float(high))


def paired_resamples(judge_R: Floats, baseline_R: Floats) -> tuple[Interval, float]:
    """Difference with its 95% interval, and the two-sided bootstrap p; resamples without a value are left out.

    p = min(1, 2 · min(#{d_r ≤ 0} + 1, #{d_r ≥ 0} + 1) / (R + 1)), d_r the difference on resample r.
    """
    difference_R = judge_R - baseline_R
    drawn = difference_R[1:][np.isfinite(difference_R[1:])]
    # Equal figures that were added up in another order must count as equal.
    below, above = int((drawn <= 1e-12).sum()), int((drawn >= -1e-12).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (len(drawn) + 1)) if len(drawn) else 1.0
    return from_resamples(difference_R), p
