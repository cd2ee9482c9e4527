"""What the demo found, as numbers (report.json), as a table, and as one page (report.html)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from footfall import __version__
from footfall.demo.loop import Findings
from footfall.metrics.intervals import bootstrap_mean, paired_difference
from footfall.metrics.preferences import sizes_up_to
from footfall.metrics.steps import FirstError, brier, calibration_error, first_error_f1, reliability
from footfall.reports.accuracy import RULE_NAMES, accuracy_points, accuracy_svg
from footfall.reports.charts import Bin
from footfall.reports.demo_page import Comparison, DemoReport, LabelPair
from footfall.reports.pages import CostRow
from footfall.reports.traces import TraceView, view_of
from footfall.search import Curve, curve
from footfall.types import Cost

_SHOWN_TRACES = 10


def curves(findings: Findings) -> Curve:
    """Accuracy at N = 1, 2, 4 … up to the number of candidates."""
    return curve(findings.results, sizes_up_to(findings.settings.n))


def report_numbers(findings: Findings, accuracy: Curve) -> dict[str, Any]:
    """The content of report.json. All but `cost.seconds` is the same for the same seed."""
    seed = findings.seed
    difference = paired_difference(accuracy.correct["weighted"][-1], accuracy.correct["majority"][-1], seed)
    steps = _step_outcomes(findings)
    errors = _first_errors(findings)
    return {
        "accuracy": {
            name: bootstrap_mean(accuracy.correct[rule][-1], seed).to_dict() for rule, name in RULE_NAMES.items()
        },
        "n": findings.settings.n,
        "problems": len(findings.results),
        "weighted_vote_minus_majority": difference.to_dict(),
        "first_error_f1": errors.f1,
        "first_error": {"on_erroneous": errors.acc_err, "on_correct": errors.acc_cor, "threshold": findings.threshold,
                        "threshold_tuned_on": "training traces"},
        "label_mae": findings.quality.mean_absolute_error,
        "calibration": {"ece": float(calibration_error(*steps)), "brier": float(brier(*steps)), "bins": 10},
        "cost": Cost.total(findings.cost.values()).to_dict(),
        "seed": seed,
        "aggregation": findings.settings.aggregation,
        "policy": findings.policy,
        "judge": findings.judge,
        "version": __version__,
    }  # fmt: skip


def report_page(findings: Findings, accuracy: Curve, numbers: dict[str, Any]) -> DemoReport:
    """The same as a page for people, with ten traces to look at."""
    seed = findings.seed
    low, high = numbers["weighted_vote_minus_majority"]["ci95"]
    return DemoReport(
        seed=seed,
        model=findings.policy,
        version=__version__,
        problems=len(findings.results),
        comparison=Comparison(
            "weighted vote", "majority vote", findings.settings.n,
            numbers["accuracy"]["weighted_vote"]["value"], numbers["accuracy"]["majority"]["value"], low, high,
        ),
        accuracy_curves=accuracy_points(accuracy, seed),
        reliability=[Bin(b.predicted, b.observed, b.count) for b in reliability(*_step_outcomes(findings))],
        label_pairs=[LabelPair(e, v) for e, v in zip(findings.quality.exact, findings.quality.labels, strict=True)],
        cost=[CostRow(stage, cost) for stage, cost in findings.cost.items()],
        traces=_traces(findings),
        ece=numbers["calibration"]["ece"],
        brier=numbers["calibration"]["brier"],
        first_error_f1=numbers["first_error_f1"],
        threshold=findings.threshold,
        facts={"aggregation": findings.settings.aggregation, "rollouts a step": str(findings.settings.rollouts),
               "threshold": f"{findings.threshold}, tuned on the training traces", "judge": findings.judge},
        config=asdict(findings.settings),
    )  # fmt: skip


def _step_outcomes(findings: Findings) -> tuple[list[float], list[bool]]:
    """Each step's value beside the outcome of the trace it stands in: a calibrated value is that outcome's mean."""
    rows = [
        (value, bool(trace.correct))
        for result in findings.results
        for trace, judgement in result.candidates
        for value in (judgement.values if judgement else ())
        if value is not None
    ]
    return [value for value, _ in rows], [outcome for _, outcome in rows]


def _first_errors(findings: Findings) -> FirstError:
    truth = [error for errors in findings.first_errors for error in errors]
    said = [j.first_below(findings.threshold) if j else None for r in findings.results for _, j in r.candidates]
    return first_error_f1(truth, said)


def _traces(findings: Findings) -> list[TraceView]:
    """Half with an error and half without, taken evenly over the problems."""
    rows = [
        (result.candidates[0], errors[0])
        for result, errors in zip(findings.results, findings.first_errors, strict=True)
    ]
    wrong, right = [r for r in rows if r[1] >= 0], [r for r in rows if r[1] < 0]
    shown = _evenly(wrong, _SHOWN_TRACES // 2) + _evenly(right, _SHOWN_TRACES - _SHOWN_TRACES // 2)
    return [view_of(row, true_first_error=error, threshold=findings.threshold) for row, error in shown if row.judgement]


def _evenly(rows: Sequence[Any], n: int) -> list[Any]:
    if len(rows) <= n:
        return list(rows)
    return [rows[int(i)] for i in np.linspace(0, len(rows) - 1, n)]


def write_picture(path: Path, page: DemoReport) -> None:
    """The accuracy curves as a picture of their own, for a README."""
    n, problems = page.comparison.n, page.problems
    picture = accuracy_svg(
        page.accuracy_curves,
        title=f"Choosing among up to {n} solutions, {problems} held-out problems",
        subtitle="embedded 1.1M-parameter model, 95% bands; footfall demo",
    )
    path.write_text(picture, encoding="utf-8")
