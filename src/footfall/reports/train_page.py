"""The page of a training run: the loss, held-out figures beside judges that know nothing, and held-out traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from footfall.metrics.cases import Constant, LengthJudge, RandomJudge
from footfall.metrics.intervals import Floats, Interval, case_weights, from_resamples
from footfall.metrics.steps import KnownSteps, brier, case_auc, in_chunks, known_steps
from footfall.reports.charts import Point, Series, line_chart
from footfall.reports.pages import CostRow, Section, cost_table, figure, report, responsive, table
from footfall.reports.traces import TraceView, extremes, scale_of, traces_section, view_of
from footfall.types import Json, Judge, Judged

if TYPE_CHECKING:
    from footfall.train import TrainResult
    from footfall.train.first_error import HeldOutErrors

_SHOWN = 10
_DRAWN = 200
"""Points of the loss that are drawn; all are in result.json."""
_RESAMPLES = 1000
_FIRST_ERROR = "first-error F1"
_SANITY = {"length": "the length of the step", "random": "random values"}
"""Judges that know nothing, by their names for people."""


@dataclass(frozen=True)
class HeldOut:
    """Traces that were held out, with the PRM's values; `label` and `good` are aspects of the judgements."""

    rows: Sequence[Judged]

    def aspect(self, name: str) -> list[Sequence[float | None]]:
        """One row a trace, `None` where a step has no label."""
        return [row.judgement.aspects[name] for row in self.rows if row.judgement]

    def figures(self, values: Sequence[Sequence[float | None]], seed: int) -> dict[str, Interval]:
        """AUC, accuracy at 0.5 and Brier score of these values over the labelled steps, resampled over traces."""
        known = known_steps(self.aspect("good"), values)
        weights = case_weights(["held out"] * len(self.rows), seed, _RESAMPLES)
        hit = ((known.value > 0.5) == (known.truth > 0.5)).astype(np.float64)
        within = bool(((known.value >= 0) & (known.value <= 1)).all())
        found = {"step AUC": case_auc(known, weights), "accuracy at 0.5": _mean(hit, known, weights)}
        if within:
            found["Brier score"] = in_chunks(lambda w: brier(known.value, known.truth, w), known.owner, weights)
        return {name: from_resamples(figures) for name, figures in found.items()}


def _mean(hits: Floats, known: KnownSteps, weights: Floats) -> Floats:
    return in_chunks(lambda w: (w @ hits) / np.maximum(w.sum(axis=1), 1e-9), known.owner, weights)


def train_page(
    trained: TrainResult, held_out: Sequence[Judged], name: str, *, seed: int, config: Mapping[str, Json]
) -> str:
    """One run; `name` is the backbone as it was given."""
    held = HeldOut([row for row in held_out if row.judgement and "good" in row.judgement.aspects])
    known = any(value is not None for row in held.aspect("good") for value in row)
    own = held.figures([row.judgement.values for row in held.rows if row.judgement], seed) if known else {}
    data = trained.train
    facts = {
        "backbone": name, "objective": str(config.get("objective", "")), "updates": f"{trained.updates:,}",
        "trained on": f"{data.used:,} of {data.rows:,} traces, {data.steps - data.unlabelled:,} labelled steps",
        "held out": f"{trained.held_out.used:,} traces, by problem",
        "left out": "; ".join(f"{count:,}: {reason}" for reason, count in data.dropped.items()),
        "decontaminated": f"{trained.contaminated:,} rows about evaluation problems" if trained.contaminated else "",
        "tokens a second": f"{trained.tokens_per_second:,.0f}", "seed": str(seed),
    }  # fmt: skip
    errors = trained.first_error
    figures = own if errors is None else {_FIRST_ERROR: Interval(errors.f1, *errors.ci95), **own}
    numbers = [(n, f"{i.value:.3f}", f"95% interval {i.low:.3f} to {i.high:.3f}") for n, i in figures.items()]
    if errors is not None:
        facts["caution"] = errors.caution or ""
    sections = [
        *(_first_errors(errors) if errors else ()),
        *_loss(trained),
        *(_beside_sanity(held, own, seed) if own else ()),
        *(_traces(held) if known else ()),
        Section("What it cost", [cost_table([CostRow("training", trained.cost)])]),
    ]
    name_of, first = next(iter(figures.items()), ("", None))
    reached = first is not None and np.isfinite(first.value) and f": {name_of} {first.value:.3f} on problems held out"
    heading = f"A PRM on {name}{reached or ''}"
    return report(f"Training: {name}", "Footfall train", heading, facts, sections, numbers=numbers, config=config)


def _first_errors(found: HeldOutErrors) -> list[Section]:
    """First-error F1 beside the sanity judges: a step AUC can be high where this is not."""
    rows = [["this PRM", str(Interval(found.f1, *found.ci95))]]
    rows += [[_SANITY.get(name, name), f"{f1:.3f}"] for name, f1 in found.sanity.items()]
    rows += [["gain over the best of these", str(Interval(found.gain, *found.gain_ci95))]]
    lead = (
        f"Whether the first step that it values below a threshold is the first error, on {found.traces:,} held-out traces, "
        f"{found.erroneous:,} of them with an error. The threshold for each problem is the best one on all the others."
    )
    shown = table(["judge", _FIRST_ERROR], rows, caption="95% bootstrap intervals over problems", total=True)
    return [Section("Does it find first errors?", [shown], lead)]


def _loss(trained: TrainResult) -> list[Section]:
    series = []
    for slot, (name, points) in enumerate((("training", trained.curve), ("held out", trained.held_out_curve))):
        every = max(1, len(points) // _DRAWN)
        drawn = [Point(update, loss) for update, loss in points[::every] if np.isfinite(loss)]
        if drawn:
            series.append(Series(name, drawn, slot=slot))
    if not series:
        return []

    def draw(width: float) -> Markup:
        return line_chart(
            series, label="Loss against updates", x_label="updates", y_label="loss", y_format="number", width=width,
            height=360 if width > 500 else 300,
        )  # fmt: skip

    final = trained.metrics.get("loss")
    said = f"Held out at the end {final:.4g}. " if final is not None else ""
    return [Section("Loss", [figure(responsive(draw), "Training loss since the point before.", said)])]


def _beside_sanity(held: HeldOut, own: Mapping[str, Interval], seed: int) -> list[Section]:
    """Judges that know nothing, on the same steps: a PRM that is no better has learnt nothing."""
    good = [value for row in held.aspect("good") for value in row if value is not None]
    share = sum(good) / len(good)
    traces = [row.trajectory for row in held.rows]
    judges: dict[str, Judge] = {
        "the share of good steps": Constant("share", share),
        _SANITY["length"]: LengthJudge(),
        _SANITY["random"]: RandomJudge(seed),
    }
    rows = [["this PRM", *map(str, own.values())]]
    for name, judge in judges.items():
        found = held.figures([j.values for j in judge.judge(traces)], seed)
        rows.append([name, *(str(found[figure]) if figure in found else "–" for figure in own)])
    lead = (
        f"{len(good):,} labelled steps of {len(held.rows):,} held-out traces, {share:.1%} of them good. The judges below the "
        "PRM know nothing of what the steps say. A Brier score is better when lower."
    )
    section = table(["judge", *own], rows, caption="95% bootstrap intervals over traces")
    return [Section("Held out, beside judges that know nothing", [section], lead)]


def _traces(held: HeldOut) -> list[Section]:
    """The traces on which values and labels are furthest apart, then those on which they agree best."""

    def worth(row: Judged) -> float | None:
        assert row.judgement is not None
        pairs = zip(row.judgement.values, row.judgement.aspects["label"], strict=True)
        apart = [(v - label) ** 2 for v, label in pairs if v is not None and label is not None]
        return -sum(apart) / len(apart) if apart else None

    columns = [c for row in held.rows if row.judgement for c in (row.judgement.values, row.judgement.aspects["label"])]
    scale = scale_of([value for column in columns for value in column])

    def view(row: Judged) -> TraceView:
        assert row.judgement is not None
        apart = -(worth(row) or 0.0)
        return view_of(
            row, scale=scale, exact=row.judgement.aspects["label"], said=f"mean squared distance {apart:.3f}"
        )

    shown = [view(row) for row in extremes(held.rows, worth, _SHOWN)]
    if not shown:
        return []
    lead = (
        f"{len(shown)} of {len(held.rows):,}: where values and labels are furthest apart, then where they agree best."
    )
    return [traces_section("Held-out traces, step by step", lead, shown, exact="labelled")]
