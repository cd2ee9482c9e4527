"""`footfall calibrate`: a judge and labelled traces in, the same judge with values that mean success rates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from footfall.commands._judges import (
    JudgeInRun,
    asks,
    judge_name,
    learned_by_heart,
    offers,
    open_judge,
    write_calibrated,
)
from footfall.commands._options import JudgeOptions, PolicyOptions, ReadOptions, RunOptions, SamplingOptions
from footfall.commands._output import emit, facts, figures, next_command, note, spent
from footfall.commands._parts import settings
from footfall.commands._running import open_run
from footfall.commands._sources import read_traces
from footfall.metrics.steps import refuse_beyond_probabilities
from footfall.registry import named_files
from footfall.reports.pages import limited_in_words
from footfall.reward.calibrated import Calibrated, Calibration, Kind, fit_scores
from footfall.types import Cost, Judged, Judgement

if TYPE_CHECKING:
    from footfall.metrics.intervals import Interval


@dataclass(frozen=True)
class CalibrateConfig:
    """Calibrate a judge to the policy that it will judge: its values are mapped to that policy's success rates.

    The data are traces of that policy on problems that the judge was not trained on, labelled with success rates, as `footfall
    label` writes them:
        footfall calibrate --judge runs/prm --data runs/fresh-labels/judged.parquet --method quantile --out runs/calibrated

    The folder then is a judge: `footfall score`, `search` and `bench` take it as --judge. How far values are from the labels is
    reported before and after, on problems that the calibration has not seen.
    """

    data: str
    """Judged traces in any supported format or Parquet (`footfall label` writes them); - is standard input."""
    format: str = "auto"
    """The format of the data; auto knows it by the first record."""
    method: Kind = "quantile"
    """temperature: too sure or not sure enough. isotonic: any increasing map, makes ties. quantile: a median, and a low and a
    high quantile beside it (aspects q10, q90), for adaptive-best-of-n and adaptive-beam."""
    eval_share: float = 0.3
    """Share of the problems held out to measure on."""
    chunk: int = 64
    """Traces between two savings."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)
    run: RunOptions = field(default_factory=RunOptions)


class Pair(NamedTuple):
    """What the judge says of a step, and its label."""

    value: float
    label: float
    problem: str


def main(config: CalibrateConfig) -> int:
    """Judge, fit on some problems, measure on the others, and write the calibrated judge."""
    from footfall.train.data import data_key, split_by_problem

    name = judge_name(config.judge)
    given = read_traces(config.data, config.format, config.reading)
    rows = [row for row in given if row.judgement is not None]
    if not rows:
        raise ValueError(f"{config.data}: none of its traces has labels; `footfall label` makes them")
    labels = ((row.trajectory.id, row.judgement.values) for row in rows if row.judgement is not None)
    refuse_beyond_probabilities(labels, config.data)
    if not 0 < config.eval_share < 1:
        raise ValueError(f"--eval-share {config.eval_share:g}: some problems must be held out, and some not")
    fitted, held = split_by_problem(rows, config.eval_share, config.run.seed, needed=True)
    drawing = (config.policy, config.sampling, config.run.seed)
    judge = open_judge(config.judge, asks(*drawing), offers(*drawing))
    caution = learned_by_heart(judge, given)
    with open_run("calibrate", config, {"data_key": data_key(rows), "chunk": config.chunk}, ("chunk",)) as run:
        asked = JudgeInRun(run, judge, config.chunk)
        said = asked.judge([row.trajectory for row in (*fitted, *held)])
        before, tests = _pairs(fitted, said[: len(fitted)]), _pairs(held, said[len(fitted) :])
        if not before or not tests:
            raise ValueError(f"{config.data}: no step of the {'held-out ' if before else ''}traces has value and label")
        made = fit_scores([p.value for p in before], [p.label for p in before], config.method, judge.name)
        write_calibrated(run.folder, made, name, settings(config.judge.set))
        result = {
            "judge": Calibrated(judge, made).name,
            "method": config.method,
            **given.limited,
            "fitted": {"traces": len(fitted), "steps": len(before)},
            "held_out": {"traces": len(held), "steps": len(tests), **_measured(made, tests, config.run.seed)},
            "calibration": asdict(made),
            **({"caution": caution} if caution else {}),
            "folder": str(run.folder),
            "cost": Cost.total(j.cost for j in said).to_dict(),
        }
        run.finish(result)
    emit(result, config.run.json, lambda console: _show(console, result, Cost.total(j.cost for j in said)))
    return 0


def _pairs(rows: Sequence[Judged], said: Sequence[Judgement]) -> list[Pair]:
    """Steps that both have valued."""
    return [
        Pair(value, label, row.trajectory.problem.id)
        for row, own in zip(rows, said, strict=True) if row.judgement is not None
        for value, label in zip(own.values, row.judgement.values, strict=True)
        if value is not None and label is not None
    ]  # fmt: skip


def _measured(made: Calibration, pairs: Sequence[Pair], seed: int) -> dict[str, Any]:
    """Figures before and after with 95% intervals over problems, and how the Brier score changed, problem by problem."""
    import numpy as np

    from footfall.metrics.intervals import case_weights, from_resamples
    from footfall.metrics.steps import brier, calibration_error

    labels = [p.label for p in pairs]
    raw = [p.value for p in pairs]
    mapped = made(raw)[made.value]
    weights = case_weights(["all"] * len(pairs), seed, groups=[p.problem for p in pairs])
    found: dict[str, Any] = {}
    for when, values in (("before", raw), ("after", mapped)):
        over = np.maximum(np.array(values) - labels, 0.0) ** 2
        found[when] = {
            "ece": _told(from_resamples(calibration_error(values, labels, weights=weights))),
            "brier": _told(from_resamples(brier(values, labels, weights=weights))),
            "brier_over": _told(from_resamples(weights @ over / weights.sum(axis=1))),
            "mean_value": float(np.mean(values)),
        }
    change = brier(mapped, labels, weights=weights) - brier(raw, labels, weights=weights)
    return {**found, "mean_label": float(np.mean(labels)), "brier_change": _told(from_resamples(change))}


def _told(figure: Interval) -> dict[str, float]:
    return {"value": figure.value, "low": figure.low, "high": figure.high}


def _show(console: Console, result: dict[str, Any], cost: Cost) -> None:
    held, fitted = result["held_out"], result["fitted"]
    facts(console, {
        "calibrated": result["judge"],
        "limit": limited_in_words(result, "traces"),
        "fitted on": f"{fitted['steps']} steps of {fitted['traces']} traces",
        "held out": f"{held['steps']} steps of {held['traces']} traces of other problems; their mean label is "
        f"{held['mean_label']:.3f}",
    })  # fmt: skip
    names = {"ece": "calibration error (ECE)", "brier": "Brier score", "brier_over": "of that, over-estimation"}
    table = [["held out, 95% interval", "before", "after"]]
    table += [[words, *(_figure(held[when][name]) for when in ("before", "after"))] for name, words in names.items()]
    table += [["mean value", *(f"{held[when]['mean_value']:.3f}" for when in ("before", "after"))]]
    figures(console, table)
    facts(console, {
        "Brier score": f"{_figure(held['brier_change'], '+')} by the calibration",
        "caution": result.get("caution"),
        "cost": spent(cost),
        "judge": result["folder"],
    })  # fmt: skip
    if named_files():
        note("a judge in a file is not run from another folder: put it into a package to use the calibrated one")
    else:
        next_command(console, "score", "--judge", result["folder"], "traces.jsonl")


def _figure(told: dict[str, float], sign: str = "") -> str:
    return f"{told['value']:{sign}.3f} [{told['low']:{sign}.3f}, {told['high']:{sign}.3f}]"
