"""One score from a trace's step values. Which way is named in every result that uses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

Aggregation = Literal["min", "prod", "mean", "last", "max", "sum", "length-aware"]
Neutral = Literal["positive", "negative"]
"""What a step that is neither right nor wrong counts as."""


def _log_product(values: Sequence[float]) -> float:
    """Σ log v, −∞ with a zero: a long trace must not underflow on the way. Needs values that are not negative."""
    for i, value in enumerate(values):
        if value < 0:
            raise ValueError(
                f"step {i + 1} has the value {value}: a product needs values in [0, 1]; map logits by a sigmoid and "
                "scores in [-1, 1] by (v + 1) / 2 first, or use min, mean or last"
            )
    return -math.inf if 0.0 in values else math.fsum(math.log(value) for value in values)


def length_aware(values: Sequence[float], power: float = 1.0) -> float:
    """exp(Σ log v / n^power): a product that does not favour short traces.

    With `power` 1 the geometric mean (cards: sprm-metastone, reinforce-step), with 0 the product, between them less of it.
    """
    return math.exp(_log_product(values) / len(values) ** power)


AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "prod": lambda values: math.exp(_log_product(values)),
    "mean": lambda values: math.fsum(values) / len(values),
    "last": lambda values: values[-1],
    "max": max,
    "sum": math.fsum,
    "length-aware": length_aware,
}
"""By name; `max` is for diagnosis, `sum` is for values that are increments."""


def aggregate(values: Sequence[float | None], how: Aggregation | str = "min") -> float | None:
    """The step values aggregated into one score; `None` if there are none or one of them was not judged.

    A candidate that cannot be scored is not a zero: the caller leaves it out and says so.
    """
    if how not in AGGREGATIONS:
        raise ValueError(f"no aggregation is called {how!r}; there are {', '.join(AGGREGATIONS)}")
    judged = [value for value in values if value is not None]
    if not values or len(judged) < len(values):
        return None
    return AGGREGATIONS[how](judged)


def chances_ok(
    positive: Sequence[float | None], neutral: Sequence[float | None], counts_as: Neutral = "positive"
) -> tuple[float | None, ...]:
    """P(step ok) of a PRM with three classes (card: prm800k): p_pos + p_neu, or p_pos alone; then `aggregate` them.

    A judgement of such a PRM has both columns among its aspects.
    """
    if counts_as not in ("positive", "negative"):
        raise ValueError(f'a neutral step counts as "positive" or "negative", not {counts_as!r}')
    if counts_as == "negative":
        return tuple(positive)
    both = zip(positive, neutral, strict=True)
    return tuple(None if pos is None or neu is None else pos + neu for pos, neu in both)


def mean_of_readings(scores: Sequence[float | None], missing: float = 0.5) -> float:
    """One score from several readings of a trace by a generative judge (card: multi-rm); one without a verdict is even."""
    if not scores:
        raise ValueError("a trace that was never read has no score")
    return math.fsum(missing if score is None else score for score in scores) / len(scores)
