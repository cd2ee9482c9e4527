"""`footfall label --estimate`: tokens, calls, time and money. The method runs over policies that only count."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from footfall.answers import grade
from footfall.commands._options import given
from footfall.commands._output import facts, figures
from footfall.drive.trees import TreeLabeller
from footfall.judging import traits
from footfall.label.counting import Rehearsal
from footfall.label.estimate import (
    LENGTH_SLACK,
    MOST_TREES,
    Plan,
    Volume,
    count_tokens,
    counted_on,
    planned,
    planned_trees,
)
from footfall.reports.pages import limited_in_words
from footfall.types import Cost, Judge, Judgement, Trajectory

_BOUNDS = (
    f"whatever the rollouts show, if no call fails and completions are up to {LENGTH_SLACK:g} times shorter or longer than "
    "the given traces"
)
_TREE_BOUNDS = "whatever the trees show, if no call fails: at most, every completion is max_tokens long"
_UNKNOWN_TIME = "not known: pass --tokens-per-second"
_OR_PROBE = ", or --probe N to measure it on N traces"


@dataclass(frozen=True)
class EstimateOptions:
    """What it would cost. Nothing is labelled, but for the traces of a probe."""

    estimate: bool = False
    """Print tokens, calls, time and money that this labelling would take, and stop."""
    price_in: float | None = None
    """Of a million prompt tokens, in whatever money."""
    price_out: float | None = None
    """Of a million generated tokens."""
    price_cached: float | None = None
    """Of a million prompt tokens that are read from a cache. None: as much as other prompt tokens."""
    tokens_per_second: float | None = None
    """What the policy generates in a second, all requests together."""
    probe: int = 0
    """Label so many of the traces now, and correct the estimate by what they took. With a store that is not lost."""


class Probed(NamedTuple):
    """What labelling some traces took, as a multiple of what was planned for them, with its 95% interval."""

    traces: int
    seconds: float
    cost: Cost
    ratio: float
    low: float
    high: float


def estimate_of(
    rehearsal: Rehearsal,
    judge: Judge,
    traces: Sequence[Trajectory],
    options: EstimateOptions,
    chunk: int | None,
    probing: Judge | None,
    seed: int,
) -> dict[str, Any]:
    """The estimate of a judge over policies of the rehearsal, as JSON.

    `chunk`: traces that share rollouts; `None` if a store lets all of them share. `probing` is the same judge over the policies
    themselves, if there is to be a probe.
    """
    tokens = count_tokens(rehearsal.first, traces)
    plan = planned(rehearsal, judge.judge, traces, tokens, chunk, stored=chunk is None)
    steps = sum(len(trace.steps) for trace in traces)
    result: dict[str, Any] = {"traces": len(traces), "steps": steps, "tokens_counted_by": tokens.how}
    if (counted := counted_on(traces)) < len(traces):
        result["counted_on"] = counted
    if refused := _refused(judge, traces):
        result["without_label"] = refused
    probed = None
    if probing is not None:
        chosen = _to_probe(traces, options.probe)
        plans = [planned(rehearsal, judge.judge, [trace], tokens) for trace in chosen]
        probed = _probe(probing, chosen, plans, seed)
        plan = _corrected(plan, probed)
        result["probe"] = {**probed._asdict(), "cost": probed.cost.to_dict()}
    return {**result, **_rows(plan, options, _seconds(plan, options, traces, probed))}


def estimate_of_trees(
    rehearsal: Rehearsal, method: TreeLabeller, traces: Sequence[Trajectory], options: EstimateOptions
) -> dict[str, Any]:
    """The estimate of `--trees` as JSON: bounds on the size of the trees, since nobody knows what they will find."""
    if options.probe:
        raise ValueError("--probe labels some of the given traces, and --trees labels none of them: leave it out")

    def grow(tops: Sequence[Trajectory]) -> None:
        for separator in dict.fromkeys(top.separator for top in tops):
            method.harvest([top.problem for top in tops if top.separator == separator], separator)

    tokens = count_tokens(rehearsal.first, traces)
    plan = planned_trees(rehearsal, grow, traces, tokens)
    problems = len({trace.prefix(0).key for trace in traces})
    known = {"problems": problems, "tokens_counted_by": tokens.how}
    if problems > MOST_TREES:
        known["counted_on"] = MOST_TREES
    return {**known, **_rows(plan, options, _seconds(plan, options, traces, None))}


def _rows(plan: Plan, options: EstimateOptions, seconds: Sequence[float | None]) -> dict[str, dict[str, Any]]:
    rows = {name: _row(volume, options) for name, volume in zip(plan._fields, plan, strict=True)}
    for row, known in zip(rows.values(), seconds, strict=True):
        row["seconds"] = known
    return rows


def _refused(judge: object, traces: Sequence[Trajectory]) -> dict[str, int]:
    """Traces of which the judge knows already that it will not label them, by reason."""
    refusal = traits(judge).refusal
    if refusal is None:
        return {}
    found = Counter(refusal(t if t.correct is not None or t.problem.answer is None else grade(t)) for t in traces)
    return {reason: count for reason, count in found.most_common() if reason is not None}


def check_costs(options: EstimateOptions) -> None:
    """Before anything is asked: figures that fit, and none without an estimate to put them into."""
    if not options.estimate and (asked := next(iter(given(options)), None)):
        raise ValueError(f"--{asked.replace('_', '-')} is for an estimate, and none is asked for: pass --estimate too")
    if options.probe < 0:
        raise ValueError(f"--probe {options.probe}: it must be 0 or more")
    for name in ("price_in", "price_out", "price_cached"):
        price = getattr(options, name)
        if price is not None and price < 0:
            raise ValueError(f"--{name.replace('_', '-')} {price:g}: a price is 0 or more")
    if options.tokens_per_second is not None and options.tokens_per_second <= 0:
        raise ValueError(f"--tokens-per-second {options.tokens_per_second:g}: it must be more than 0")


def _row(volume: Volume, options: EstimateOptions) -> dict[str, Any]:
    money = None
    if options.price_in is not None or options.price_out is not None:
        price_in = options.price_in or 0.0
        cached = price_in if options.price_cached is None else options.price_cached
        read = (volume.prompt - volume.cached) * price_in + volume.cached * cached
        money = (read + volume.generated * (options.price_out or 0.0)) / 1e6
    return {
        "calls": round(volume.calls), "generated_tokens": round(volume.generated), "prompt_tokens": round(volume.prompt),
        "cached_tokens": round(volume.cached), "money": money,
    }  # fmt: skip


def _seconds(
    plan: Plan, options: EstimateOptions, traces: Sequence[Trajectory], probed: Probed | None
) -> list[float | None]:
    if options.tokens_per_second is not None:
        return [volume.generated / options.tokens_per_second for volume in plan]
    if probed is None:
        return [0.0 if not volume.generated else None for volume in plan]
    scale = len(traces) / probed.traces
    if not probed.cost.generated_tokens:
        return [probed.seconds * scale] * 3
    return [probed.seconds * volume.generated / probed.cost.generated_tokens for volume in plan]


def _to_probe(traces: Sequence[Trajectory], n: int) -> list[Trajectory]:
    """`n` traces that are spread evenly over the file."""
    return [traces[i] for i in sorted({int(k) for k in np.linspace(0, len(traces) - 1, min(n, len(traces)))})]


def _probe(judge: Judge, chosen: Sequence[Trajectory], plans: Sequence[Plan], seed: int) -> Probed:
    """Label these traces, and hold what it took against their plans."""
    begun = time.monotonic()
    said = judge.judge(chosen)
    seconds = time.monotonic() - begun
    wanted = np.array([plan.expected.generated for plan in plans])
    took = np.array([_generated(judgement) for judgement in said])
    picks = np.random.default_rng(seed).integers(0, len(chosen), (2000, len(chosen)))
    ratios = took[picks].sum(axis=1) / np.maximum(wanted[picks].sum(axis=1), 1e-9)
    low, high = np.quantile(ratios, [0.025, 0.975])
    ratio = took.sum() / wanted.sum() if wanted.sum() else 0.0
    cost = Cost.total(judgement.cost for judgement in said)
    return Probed(len(chosen), seconds, cost, float(ratio), float(low), float(high))


def _generated(judgement: Judgement) -> float:
    return float(judgement.cost.generated_tokens)


def _corrected(plan: Plan, probed: Probed) -> Plan:
    """The expected volume times what the probe took of what was planned for it; low and high are its interval.

    Fixed numbers of calls stay as they are planned.
    """
    low, expected, high = plan
    if not expected.generated:
        return plan
    calls = [min(max(expected.calls * r, low.calls), high.calls) for r in (probed.low, probed.ratio, probed.high)]
    tokens = [expected.generated * r for r in (probed.low, probed.ratio, probed.high)]
    share = [c / expected.calls for c in calls]
    volumes = zip(calls, tokens, share, strict=True)
    return Plan(*(Volume(c, g, expected.prompt * s, expected.cached * s) for c, g, s in volumes))


def show_estimate(console: Console, result: dict[str, Any]) -> None:
    """A table of at least, about and at most, and how it came about."""
    names = {"low": "at least", "expected": "about", "high": "at most"}
    head = ["", "calls", "generated", "prompt", "of it cached", "time", "money"]
    rows = [[names[name], *_cells(result[name])] for name in names]
    known = [i for i, name in enumerate(head) if name != "money" or result["expected"]["money"] is not None]
    figures(console, [[row[i] for i in known] for row in (head, *rows)])
    units = "problems" if "problems" in result else "traces"
    facts(console, {
        "for": f"trees on {result['problems']} problems" if "problems" in result
        else f"{result['steps']} steps in {result['traces']} traces",
        "limit": limited_in_words(result, "traces"),
        "counted by": result["tokens_counted_by"],
        "counted on": f"{result['counted_on']} {units}, spread over all" if "counted_on" in result else None,
        "time": _UNKNOWN_TIME + ("" if "problems" in result else _OR_PROBE) if result["expected"]["seconds"] is None else None,
        "no label": "; ".join(f"{n} traces: {why}" for why, n in result.get("without_label", {}).items()),
        "bounds": _bounds(result),
    })  # fmt: skip


def _bounds(result: dict[str, Any]) -> str:
    probe = result.get("probe")
    if probe:
        taken = f"a probe of {probe['traces']} traces in {probe['seconds']:.1f} s"
        return f"the 95% interval of {taken}; a larger batch is faster than a probe"
    bounds = _TREE_BOUNDS if "problems" in result else _BOUNDS
    return f"{bounds}, and the others are like those counted on" if "counted_on" in result else bounds


def _cells(row: dict[str, Any]) -> list[str]:
    counts = [f"{row[name]:,}" for name in ("calls", "generated_tokens", "prompt_tokens", "cached_tokens")]
    seconds, money = row["seconds"], row["money"]
    return [*counts, "?" if seconds is None else _duration(seconds), "" if money is None else f"{money:,.4g}"]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
