"""The page of a labelling run: which steps have a label and why others have none, how labels spread, what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
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

_SHOWN = 10
_BINS = 10
_LONGEST = 40
"""Steps of a trace up to which the mean label is drawn."""
_REASONS = 12
_RESAMPLED = 5000
"""Values up to which a mean's interval is the bootstrap's; beyond, the normal one is the same and needs no memory."""
Labels = Sequence[tuple[Judged, float]]
"""Every label with the row that it stands in."""


def label_page(
    rows: Sequence[Judged], found: Mapping[str, Any], judge: Named, *, seed: int, config: Mapping[str, Json]
) -> str:
    """One run. `found` is its result.json, `judge` its labeller."""
    labels = [(row, v) for row in rows if row.judgement for v in row.judgement.values if v is not None]
    values, steps = [value for _, value in labels], found["steps"]
    scale = scale_of(values)
    numbers = []
    if steps:
        share = wilson(len(values), steps)
        numbers.append(
            ("steps with a label", f"{share.value:.1%}", f"95% interval {share.low:.1%} to {share.high:.1%}")
        )
    if values:
        mean = _mean([mean for row in rows if (mean := mean_value(row)) is not None], seed)
        numbers.append(
            ("mean label of a trace", f"{mean.value:.3f}", f"95% interval {mean.low:.3f} to {mean.high:.3f}")
        )
        numbers.append(_per_label(Cost(**found["cost"]), len(values)))
    sections = [
        *_distribution(values, scale),
        *_along(rows),
        *_by_outcome(labels, rows, seed),
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


def _normal(values: Sequence[float]) -> Interval:
    """mean ± 1.96 s / √n."""
    mean, half = float(np.mean(values)), 1.96 * float(np.std(values)) / len(values) ** 0.5
    return Interval(mean, mean - half, mean + half)


def _per_label(cost: Cost, labels: int) -> tuple[str, str, str]:
    if cost.generated_tokens:
        return "generated a label", f"{cost.generated_tokens / labels:,.0f}", "tokens that a policy wrote"
    return "read a label", f"{cost.scored_tokens / labels:,.0f}", "tokens that a judge read"


def _distribution(values: Sequence[float], scale: tuple[float, float]) -> list[Section]:
    if not values:
        return []
    counts, edges = np.histogram(values, bins=_BINS, range=scale)
    groups = []
    for count, start, end in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        share = wilson(count, len(values))
        groups.append(BarGroup(f"{start:.2g} to {end:.2g}", [Bar("labels", *share)]))
    said = ", ".join(f"{g.label}: {100 * g.bars[0].value:.1f}%" for g in groups)
    chart = responsive(lambda w: bar_chart(groups, label=f"Labels by value. {said}", x_label="labels", width=w))
    return [Section("How the labels spread", [figure(chart, "Share of labels by value, with Wilson’s 95% intervals.")])]


def _along(rows: Sequence[Judged]) -> list[Section]:
    """Mean label by the number of the step, of traces with a right and a wrong answer."""
    series = []
    for slot, (name, right) in enumerate((("right answer", True), ("wrong answer", False), ("not checked", None))):
        told = [row.judgement.values for row in rows if row.judgement and row.trajectory.correct is right]
        points = []
        for k in range(min(max(map(len, told), default=0), _LONGEST)):
            values = [v for row in told if k < len(row) and (v := row[k]) is not None]
            if values:
                points.append(Point(k + 1, *_normal(values)))
        if len(points) > 1:
            series.append(Series(name, points, slot=slot))
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


def _by_outcome(labels: Labels, rows: Sequence[Judged], seed: int) -> list[Section]:
    lines = []
    for name, right in (("right", True), ("wrong", False), ("not checked", None)):
        means = [mean for row in rows if row.trajectory.correct is right and (mean := mean_value(row)) is not None]
        if means:
            count = sum(row.trajectory.correct is right for row, _ in labels)
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
