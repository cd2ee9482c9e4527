"""`footfall label --estimate`: tokens, calls, time and money, before anything runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from footfall.commands._output import facts, figures
from footfall.label.estimate import LENGTH_SLACK, Plan, TokenCount, Volume, count_tokens, planned
from footfall.types import Cost, Judge, Judgement, Trajectory

__all__ = ["EstimateOptions", "estimate_of", "show_estimate"]

_UNKNOWN_TIME = "not known: pass --tokens-per-second, or --probe N to measure it on N traces"


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
    judge: Judge, traces: Sequence[Trajectory], options: EstimateOptions, chunk: int | None, seed: int
) -> dict[str, Any]:
    """The estimate as JSON. `chunk`: traces that share rollouts; `None` if a store lets all of them share."""
    _check(options)
    tokens = count_tokens(_policy_of(judge), traces)
    plan = planned(judge, traces, tokens, chunk)
    steps = sum(len(trace.steps) for trace in traces)
    result: dict[str, Any] = {"traces": len(traces), "steps": steps, "tokens_counted_by": tokens.how}
    probed = _probe(judge, traces, tokens, options.probe, seed) if options.probe else None
    if probed is not None:
        plan = _corrected(plan, traces, probed)
        result["probe"] = {**probed._asdict(), "cost": probed.cost.to_dict()}
    if plan is None:
        raise ValueError("this method does not tell what it will ask for; pass --probe N to measure it on N traces")
    rows = {name: _row(volume, options) for name, volume in zip(plan._fields, plan, strict=True)}
    seconds = _seconds(plan, options, traces, probed)
    for row, known in zip(rows.values(), seconds, strict=True):
        row["seconds"] = known
    return {**result, **rows}


def _check(options: EstimateOptions) -> None:
    """Before anything is asked."""
    for name in ("price_in", "price_out", "price_cached"):
        price = getattr(options, name)
        if price is not None and price < 0:
            raise ValueError(f"--{name.replace('_', '-')} {price:g}: a price is 0 or more")
    if options.tokens_per_second is not None and options.tokens_per_second <= 0:
        raise ValueError(f"--tokens-per-second {options.tokens_per_second:g}: it must be more than 0")


def _policy_of(judge: object) -> object:
    """Who completes prefixes: the judge's own policy, or that of the first judge it is made of."""
    inner = [getattr(judge, "rates", None), *getattr(judge, "judges", ())]
    found = [getattr(each, "policy", None) for each in (judge, *inner)]
    return next((policy for policy in found if policy is not None), None)


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


def _probe(judge: Judge, traces: Sequence[Trajectory], tokens: TokenCount, n: int, seed: int) -> Probed:
    """Label `n` traces that are spread evenly over the file."""
    if n < 1:
        raise ValueError(f"--probe {n}: at least one trace is needed")
    chosen = [traces[i] for i in sorted({int(k) for k in np.linspace(0, len(traces) - 1, min(n, len(traces)))})]
    begun = time.monotonic()
    said = judge.judge(chosen)
    seconds = time.monotonic() - begun
    plans = [planned(judge, [trace], tokens) for trace in chosen]
    wanted = np.array([1.0 if plan is None else plan.expected.generated for plan in plans])
    took = np.array([_generated(judgement) for judgement in said])
    picks = np.random.default_rng(seed).integers(0, len(chosen), (2000, len(chosen)))
    ratios = took[picks].sum(axis=1) / np.maximum(wanted[picks].sum(axis=1), 1e-9)
    low, high = np.quantile(ratios, [0.025, 0.975])
    ratio = took.sum() / wanted.sum() if wanted.sum() else 0.0
    cost = Cost.total(judgement.cost for judgement in said)
    return Probed(len(chosen), seconds, cost, float(ratio), float(low), float(high))


def _generated(judgement: Judgement) -> float:
    return float(judgement.cost.generated_tokens)


def _corrected(plan: Plan | None, traces: Sequence[Trajectory], probed: Probed) -> Plan | None:
    """The expected volume times what the probe took of what was planned for it; low and high are its interval.

    Without a plan, what the probe took a trace is taken for all. Fixed numbers of calls stay as they are planned.
    """
    scale = len(traces) / probed.traces
    if plan is None:
        cost = probed.cost
        mean = Volume(cost.calls, cost.generated_tokens, cost.prompt_tokens + cost.cached_tokens, cost.cached_tokens)
        spread = (probed.low / probed.ratio, probed.high / probed.ratio) if probed.ratio else (1.0, 1.0)
        return Plan(mean.times(scale * spread[0]), mean.times(scale), mean.times(scale * spread[1]))
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
    probe = result.get("probe")
    facts(console, {
        "for": f"{result['steps']} steps in {result['traces']} traces",
        "counted by": result["tokens_counted_by"],
        "time": _UNKNOWN_TIME if result["expected"]["seconds"] is None else None,
        "bounds": f"the 95% interval of a probe of {probe['traces']} traces in {probe['seconds']:.1f} s; a larger batch is "
        "faster than a probe" if probe else "whatever the rollouts show, if no call fails and completions are up to "
        f"{LENGTH_SLACK:g} times shorter or longer than the given traces",
    })  # fmt: skip


def _cells(row: dict[str, Any]) -> list[str]:
    counts = [f"{row[name]:,}" for name in ("calls", "generated_tokens", "prompt_tokens", "cached_tokens")]
    seconds, money = row["seconds"], row["money"]
    return [*counts, "?" if seconds is None else _duration(seconds), "" if money is None else f"{money:,.4g}"]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
