"""One score from a trace's step values. Which way is named in every result that uses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

__all__ = ["AGGREGATIONS", "Aggregation", "Neutral", "aggregate", "chances_ok"]

Aggregation = Literal["min", "prod", "mean", "last", "max", "sum"]
Neutral = Literal["positive", "negative"]
"""What a step that is neither right nor wrong counts as."""


def _prod(values: Sequence[float]) -> float:
    """exp(Σ log v): a long trace must not underflow on the way. Needs values that are not negative."""
    for i, value in enumerate(values):
        if value < 0:
            raise ValueError(
                f"step {i + 1} has the value {value}: a product needs values in [0, 1]; map logits by a sigmoid and "
                "scores in [-1, 1] by (v + 1) / 2 first, or use min, mean or last"
            )
    return 0.0 if 0.0 in values else math.exp(math.fsum(math.log(value) for value in values))


AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "prod": _prod,
    "mean": lambda values: math.fsum(values) / len(values),
    "last": lambda values: values[-1],
    "max": max,
    "sum": math.fsum,
}
"""By name; `max` is for diagnosis, `sum` is for values that are increments."""


def aggregate(values: Sequence[float | None], how: Aggregation | str = "min") -> float | None:
    """The step values folded into one score; `None` if there are none or one of them was not judged.

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
