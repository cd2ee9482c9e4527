"""Traces on a page: each step with its value as colour, bar, number and sign, bounded however long the trace is."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from markupsafe import Markup

from footfall.reports.pages import Section, details, render
from footfall.reports.svg import finite
from footfall.types import Judged

T = TypeVar("T")
_SHADES = 5
"""Colours of values, from poor to good."""
MOST_STEPS, _MOST_LETTERS = 40, 1200
"""Of one trace and of one text on a page; what is left out is said."""


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as it is shown: its text, the judge's value (`None`: not judged) and, where known, the exact one."""

    text: str
    value: float | None
    exact: float | None = None


@dataclass(frozen=True, slots=True)
class TraceView:
    """A trace as it is shown. First errors are 0-based; -1 says there is none, `None` that nobody knows."""

    problem_id: str
    problem: str
    steps: Sequence[StepView]
    answer: str | None
    reference: str | None
    correct: bool | None
    true_first_error: int | None = None
    predicted_first_error: int | None = None
    said: str | None = None
    """What stands at the right of its first line; by default what the judge made of the trace."""
    scale: tuple[float, float] = (0.0, 1.0)
    """The poorest and the best value that there may be."""

    def __post_init__(self) -> None:
        where, (low, high) = f"trace of problem {self.problem_id!r}", self.scale
        for i, step in enumerate(self.steps, 1):
            for name in ("value", "exact"):
                value = getattr(step, name)
                if value is not None and not low <= finite(value, f"{where}, step {i}: {name}") <= high:
                    raise ValueError(
                        f"{where}, step {i}: {name} is {value}; the report shows values from {low:g} to {high:g}"
                    )
        for name in ("true_first_error", "predicted_first_error"):
            at = getattr(self, name)
            if at is not None and not -1 <= at < len(self.steps):
                raise ValueError(f"{where}: {name} is {at}, but there are {len(self.steps)} steps (-1: no error)")

    def share(self, value: float) -> float:
        """Where a value lies between the poorest and the best, from 0 to 1."""
        low, high = self.scale
        return (value - low) / (high - low)


def view_of(
    row: Judged,
    *,
    said: str | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    exact: Sequence[float | None] | None = None,
    true_first_error: int | None = None,
    threshold: float | None = None,
) -> TraceView:
    """A judged trace as it is shown; `exact` are the values that the judge's are to be held against."""
    trace, judgement = row
    values = (None,) * len(trace.steps) if judgement is None else judgement.values
    ticks = (None,) * len(trace.steps) if exact is None else exact
    steps = [StepView(s.written, v, x) for s, v, x in zip(trace.steps, values, ticks, strict=True)]
    picked = None if judgement is None or threshold is None else judgement.first_below(threshold)
    return TraceView(
        trace.problem.id, trace.problem.text, steps, trace.answer, trace.problem.answer, trace.correct,
        true_first_error, picked, said, scale,
    )  # fmt: skip


def scale_of(values: Sequence[float | None]) -> tuple[float, float]:
    """From 0 to 1 where all values lie there, from -1 where some are below, else what they span."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (-1.0, 1.0) if low >= -1 and high <= 1 else (low, high if high > low else low + 1)


def trace_verdict(trace: TraceView) -> str:
    """What the judge made of the trace, in words."""
    true, predicted = trace.true_first_error, trace.predicted_first_error
    if true is None or predicted is None:
        return "truth not known" if true is None else "not fully judged"
    if true == predicted:
        return "no error, none predicted" if true < 0 else "first error found"
    if true < 0:
        return "false alarm"
    if predicted < 0:
        return "error missed"
    apart = abs(predicted - true)
    return f"off by {apart} step{'s' if apart > 1 else ''}, {'late' if predicted > true else 'early'}"


def extremes(
    rows: Sequence[T],
    worth: Callable[[T], float | None],
    most: int,
    problem_of: Callable[[Any], str] = attrgetter("trajectory.problem.id"),
) -> list[T]:
    """The worst and the best rows by `worth`, half each, worst first; at most one a problem from either end.

    Of equals the earlier goes first. Rows without a worth are left out.
    """
    worths, places, problems = array("d"), array("q"), array("q")  # of millions of rows no more is held than numbers
    for place, row in enumerate(rows):
        if (own := worth(row)) is not None:
            worths.append(own)
            places.append(place)
            problems.append(hash(problem_of(row)))
    order = np.argsort(np.asarray(worths), kind="stable").data
    worst = _different(problems, order, most // 2)
    best = _different(problems, (i for i in reversed(order) if i not in worst), most - len(worst))
    return [rows[places[i]] for i in (*worst, *reversed(best))]


def _different(problems: Sequence[int], order: Iterable[int], most: int) -> list[int]:
    """The first of each problem in this order, up to so many."""
    found: dict[int, int] = {}
    for i in order:
        if len(found) == most:
            break
        found.setdefault(problems[i], i)
    return list(found.values())


def mean_value(row: Judged) -> float | None:
    """The mean of a trace's values; `None` if it has none."""
    known = [] if row.judgement is None else [value for value in row.judgement.values if value is not None]
    return sum(known) / len(known) if known else None


def traces_section(
    title: str,
    lead: str,
    traces: Sequence[TraceView],
    threshold: float | None = None,
    *,
    judge: str = "the PRM",
    exact: str = "exact",
    folded: bool = False,
) -> Section:
    """The traces with a key. `judge` says whose values they are, `exact` what the tick stands for."""
    ticks = any(step.exact is not None for trace in traces for step in trace.steps)
    truth = any(trace.true_first_error is not None for trace in traces)
    picks = any(trace.predicted_first_error is not None for trace in traces)
    limit = None if threshold is None else f"{threshold:.4g}"
    key = render("traces", "key", threshold=limit, exact=exact if ticks else "", judge=judge, truth=truth, picks=picks)
    blocks = [_trace(trace, threshold, judge, exact) for trace in traces]
    return Section(title, [details(f"{len(traces)} traces", key, *blocks)] if folded else [key, *blocks], lead)


def _trace(trace: TraceView, threshold: float | None, judge: str, exact: str) -> Markup:
    """One trace: problem behind a line that opens it, steps in order, then the answer against the reference."""
    steps = [_drawn(step, trace) for step in trace.steps[:MOST_STEPS]]
    return render(
        "traces", "trace", trace=trace, steps=steps, problem=_cut(trace.problem), left_out=len(trace.steps) - len(steps),
        verdict=trace_verdict(trace) if trace.said is None else trace.said, threshold=threshold, judge=judge, exact=exact,
    )  # fmt: skip


class _Drawn(NamedTuple):
    text: str
    value: float | None
    exact: float | None
    share: float | None
    tick: float | None
    shade: str


def _drawn(step: StepView, trace: TraceView) -> _Drawn:
    share = None if step.value is None else trace.share(step.value)
    tick = None if step.exact is None else trace.share(step.exact)
    shade = "unjudged" if share is None else f"v{min(int(share * _SHADES), _SHADES - 1)}"
    return _Drawn(_cut(step.text), step.value, step.exact, share, tick, shade)


def _cut(text: str) -> str:
    left_out = len(text) - _MOST_LETTERS
    return f"{text[:_MOST_LETTERS]} … ({left_out:,} characters more)" if left_out > 0 else text
