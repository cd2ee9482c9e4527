"""The page of a labelling run: which steps have a label and why others have none, how labels spread, what they cost."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from footfall.metrics.intervals import Interval, bootstrap_mean, wilson
from footfall.reports.charts import Bar, BarGroup, Point, Series, bar_chart, line_chart
from footfall.reports.pages import (
    CostRow,
    Named,
    Section,
    cost_table,
    figure,
    limited_in_words,
    report,
    responsive,
    table,
)
from footfall.reports.traces import TraceView, extremes, mean_value, scale_of, traces_section, view_of
from footfall.types import Cost, Json, Judged

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
_SHOWN = 10
_BINS = 10
_LONGEST = 40
"""Steps of a trace up to which the mean label is drawn."""
_REASONS = 12
_RESAMPLED = 5000
"""Values up to which a mean's interval is the bootstrap's; beyond, the normal one is the same and needs no memory."""
_OUTCOMES = {"right": True, "wrong": False, "not checked": None}


@dataclass(frozen=True)
class _Labels:
    """All labels as numbers: of millions of rows no more is held than these."""

    values: FloatArray
    step: IntArray
    """In which of its trace's steps each stands, from 0 on."""
    outcome: IntArray
    """Of its trace, as a number of `_OUTCOMES`."""
    means: FloatArray
    """Of each trace that has a label."""
    mean_outcome: IntArray


def _labels_of(rows: Iterable[Judged]) -> _Labels:
    codes = {right: code for code, right in enumerate(_OUTCOMES.values())}
    values, means = array("d"), array("d")
    step, outcome, mean_outcome = array("i"), array("b"), array("b")
    for row in rows:
        own = [(k, v) for k, v in enumerate(row.judgement.values) if v is not None] if row.judgement else []
        if own:
            code = codes[row.trajectory.correct]
            values.extend(v for _, v in own)
            step.extend(k for k, _ in own)
            outcome.extend([code] * len(own))
            means.append(sum(v for _, v in own) / len(own))
            mean_outcome.append(code)
    return _Labels(*(np.asarray(each) for each in (values, step, outcome, means, mean_outcome)))  # no copies


def label_page(
    rows: Sequence[Judged], found: Mapping[str, Any], judge: Named, *, seed: int, config: Mapping[str, Json]
) -> str:
    """One run. `found` is its result.json, `judge` its labeller."""
    labels, steps = _labels_of(rows), found["steps"]
    values = labels.values
    scale = scale_of([float(values.min()), float(values.max())] if len(values) else [])
    numbers = []
    if steps:
        share = wilson(len(values), steps)
        numbers.append(
            ("steps with a label", f"{share.value:.1%}", f"95% interval {share.low:.1%} to {share.high:.1%}")
        )
    if len(values):
        mean = _mean(labels.means.tolist(), seed)
        numbers.append(
            ("mean label of a trace", f"{mean.value:.3f}", f"95% interval {mean.low:.3f} to {mean.high:.3f}")
        )
        numbers.append(_per_label(Cost(**found["cost"]), len(values)))
    sections = [
        *_distribution(values, scale),
        *_along(labels),
        *_by_outcome(labels, seed),
        *_unlabelled(found["unlabelled"], steps),
        *_traces(rows, scale),
        Section("What it cost", [cost_table([CostRow("labelling", Cost(**found["cost"]))])]),
    ]
    facts = {
        "labeller": str(judge),
        "policy": found.get("policy_given", ""),
        "traces": f"{found['traces']:,}",
        "limit": limited_in_words(found, "traces") or "",
        "labelled": f"{found['labelled']:,} of {steps:,} steps",
        "cut": "{cut:,} of {of:,} rollouts at max_tokens".format(**found["cut_rollouts"])
        if "cut_rollouts" in found
        else "",
        "warning": found.get("in_vain", ""),
        "seed": str(seed),
    }
    heading = f"{found['labelled']:,} labels by {judge.given}"
    return report(f"Labels: {judge.given}", "Footfall label", heading, facts, sections, numbers=numbers, config=config)


def _mean(values: Sequence[float], seed: int) -> Interval:
    return bootstrap_mean(values, seed) if len(values) <= _RESAMPLED else _normal(values)


def _normal(values: Sequence[float] | FloatArray) -> Interval:
    """mean ± 1.96 s / √n."""
    mean, half = float(np.mean(values)), 1.96 * float(np.std(values)) / len(values) ** 0.5
    return Interval(mean, mean - half, mean + half)


def _per_label(cost: Cost, labels: int) -> tuple[str, str, str]:
    if cost.generated_tokens:
        return "generated a label", f"{cost.generated_tokens / labels:,.0f}", "tokens that a policy wrote"
    return "read a label", f"{cost.scored_tokens / labels:,.0f}", "tokens that a judge read"


def _distribution(values: FloatArray, scale: tuple[float, float]) -> list[Section]:
    if not len(values):
        return []
    counts, edges = np.histogram(values, bins=_BINS, range=scale)
    groups = []
    for count, start, end in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        share = wilson(count, len(values))
        groups.append(BarGroup(f"{start:.2g} to {end:.2g}", [Bar("labels", *share)]))
    said = ", ".join(f"{g.label}: {100 * g.bars[0].value:.1f}%" for g in groups)
    chart = responsive(lambda w: bar_chart(groups, label=f"Labels by value. {said}", x_label="labels", width=w))
    return [Section("How the labels spread", [figure(chart, "Share of labels by value, with Wilson’s 95% intervals.")])]


def _along(labels: _Labels) -> list[Section]:
    """Mean label by the number of the step, of traces with a right and a wrong answer."""
    series = []
    for slot, name in enumerate(_OUTCOMES):
        own = labels.outcome == slot
        values, step = labels.values[own], labels.step[own]
        points = [Point(int(k) + 1, *_normal(values[step == k])) for k in np.unique(step) if k < _LONGEST]
        if len(points) > 1:
            series.append(Series(name if slot == 2 else f"{name} answer", points, slot=slot))
    if not series:
        return []

    def draw(width: float) -> Markup:
        label = "Mean label by the number of the step, for traces with a right and with a wrong answer"
        return line_chart(
            series, label=label, x_label="step", y_label="mean label", y_format="number", width=width,
            height=380 if width > 500 else 320,
        )  # fmt: skip

    caption = "Where lines of right and wrong answers do not part, the labels say little. Shaded: mean ± 1.96 standard errors."
    return [Section("Labels along a trace", [figure(responsive(draw), caption)])]


def _by_outcome(labels: _Labels, seed: int) -> list[Section]:
    lines = []
    for code, name in enumerate(_OUTCOMES):
        means = labels.means[labels.mean_outcome == code].tolist()
        if means:
            count = int((labels.outcome == code).sum())
            lines.append([name, f"{len(means):,}", f"{count:,}", str(_mean(means, seed))])
    head = ["answer", "traces", "labels", "mean label of a trace"]
    return [Section("By the answer of the trace", [table(head, lines, caption="With 95% intervals")])] if lines else []


def _unlabelled(reasons: Mapping[str, int], steps: int) -> list[Section]:
    if not reasons:
        return []
    lines = [[f"{n:,}", "{:.1%} [{:.1%}, {:.1%}]".format(*wilson(n, steps)), why[:300]] for why, n in reasons.items()]
    head, kept = ["steps", "share", "why"], lines[:_REASONS]
    total = sum(reasons.values())
    lead = f"{total:,} of {steps:,} steps ({total / steps:.1%}) have no label. Shares are of all steps."
    return [Section("Steps without a label", [table(head, kept, text_columns=3)], lead)]


def _traces(rows: Sequence[Judged], scale: tuple[float, float]) -> list[Section]:
    def view(row: Judged) -> TraceView:
        return view_of(row, scale=scale, said=f"mean label {mean_value(row) or 0:.3f}")

    shown = [view(row) for row in extremes(rows, mean_value, _SHOWN)]
    if not shown:
        return []
    lead = f"{len(shown)} of {len(rows):,}, those with the lowest mean label first and with the highest last."
    return [traces_section("Traces, step by step", lead, shown, judge="the labeller")]
