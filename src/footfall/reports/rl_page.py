"""The page of a reinforcement learning run: accuracy, reward and every monitor by update, and traces with a colour a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from footfall.metrics.intervals import Interval, wilson
from footfall.reports.charts import Point, Series, line_chart
from footfall.reports.pages import Section, figure, items, render, report, responsive, table
from footfall.reports.svg import Format
from footfall.types import Json

_BATCH_CURVES = {
    "reward": ("Proxy reward", "number", "What the rollouts of each update were paid on average."),
    "accuracy": ("Accuracy of the rollouts", "percent", "On the problems that are trained on."),
    "mean_length": ("Tokens a completion", "number", "The end token is one of them."),
    "steps": ("Steps a completion", "number", ""),
    "entropy": ("Entropy", "number", "Of the next token, in nats."),
    "left": ("Rollouts that left their groups", "number", "They could not be judged, or there is no reference answer."),
    "filtered": ("Rollouts that the filter left out", "number", "They were judged."),
}
"""By what an update logs: title, format, and what else is to be said."""
MONITORS = {
    "proxy": "proxy reward", "truth": "right answers", "held_out": "held-out judge", "step_truth": "steps that are true",
    "praised_wrong": "wrong answers that are praised", "blamed_right": "right answers that are blamed",
    "right_by_wrong_steps": "right answers by wrong steps", "steps": "steps a completion", "tokens": "tokens a completion",
    "tokens_per_step": "tokens a step", "with_steps": "reward with steps (Spearman)",
    "with_tokens": "reward with tokens (Spearman)", "repetition": "repeated steps", "distinct": "different word pairs",
    "short": "one step only", "wordless": "no digit", "unanswered": "no answer", "last_minimum": "least value last",
    "last_by_chance": "least value last, by chance", "saturated": "saturated values", "cut": "cut at the limit",
    "unjudged": "not judged", "confidence": "confidence of the probe", "confidence_error": "its calibration error (ECE)",
    "overconfidence": "of that, over-confidence (PCE)",
}  # fmt: skip
"""Figures of `footfall.rl.monitors`, in words."""
_SHADES = 5
_TRACES_OF = 3
"""Checkpoints whose traces are shown where nobody chose updates: the first that have any, one in the middle, the last."""
_MOST_LINES = 4
"""Exploits in one chart."""
_MOST_COLUMNS = 7
"""Checkpoints that a table on a desk has room for."""


@dataclass(frozen=True)
class Arm:
    """One run as its log has it: facts of updates, checkpoints and traces, each update once."""

    name: str
    updates: Sequence[Mapping[str, Any]]
    checkpoints: Sequence[Mapping[str, Any]]
    traces: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, name: str, logged: Callable[[str], Sequence[Mapping[str, Any]]]) -> Arm:
        """What a process did again after a kill replaces what was logged before."""
        found = [sorted({row["update"]: row for row in logged(kind)}.values(), key=lambda row: int(row["update"]))
                 for kind in ("update", "checkpoint", "traces")]  # fmt: skip
        return cls(name, *found)

    @property
    def left(self) -> int:
        """Rollouts that left their groups."""
        return sum(int(row.get("left", 0)) for row in self.updates)

    def accuracy(self) -> list[Point]:
        """Of held-out problems, with intervals; nothing where none has a reference answer."""
        found = []
        for row in self.checkpoints:
            if (value := accuracy(row)) is None:
                continue
            found.append(Point(float(row["update"]), value.value, value.low, value.high))
        return found

    def curve(self, of: Callable[[Mapping[str, Any]], float | None], rows: Sequence[Mapping[str, Any]]) -> list[Point]:
        """What can be drawn of a figure."""
        known = ((row["update"], of(row)) for row in rows)
        return [Point(float(at), float(value)) for at, value in known if value is not None and np.isfinite(value)]


def accuracy(checkpoint: Mapping[str, Any]) -> Interval | None:
    """Of the held-out samples; nothing where no problem has a reference answer."""
    if not any(right is not None for right in checkpoint.get("graded", (True,))):
        return None
    return wilson(int(checkpoint["right"]), int(checkpoint["rollouts"]))


def rl_page(arms: Sequence[Arm], config: Mapping[str, Json]) -> str:
    """One run, or several side by side."""
    lines = {arm.name: points for arm in arms if (points := arm.accuracy())}
    first, last = [points[0] for points in lines.values()][:1], [points[-1] for points in lines.values()]
    numbers = [("before", f"{start.y:.1%}", _interval(start)) for start in first]
    numbers += [
        (name if len(arms) > 1 else "after", f"{end.y:.1%}", _interval(end))
        for name, end in zip(lines, last, strict=True)
    ]
    facts = {
        "trained": str(config.get("model", "")), "problems": str(config.get("problems", "")),
        "credit": "; ".join(arm.name for arm in arms) if len(arms) > 1 else str(config.get("credit", "")),
        **{name: str(config[name]) for name in ("judge", "filter") if config.get(name)},
        "updates": ", ".join(f"{len(arm.updates):,}" for arm in arms),
        "left their groups": ", ".join(f"{arm.left:,}" for arm in arms),
        "hacked": "; ".join(_verdict(arm) for arm in arms),
    }  # fmt: skip
    sections = [
        *([Section("Accuracy", [_chart("True accuracy", list(lines.items()), "percent",
                "One sample for each held-out problem, graded by its reference answer; bands are 95% intervals.")])]
          if lines else []),
        Section("Updates", _batch_charts(arms), "What was logged of the rollouts that were trained on."),
        Section("Is the reward being hacked?", _monitors(arms), "Figures of the held-out samples at every checkpoint."),
        *([Section("Monitors by update", charts, "The figures of the table, each at every checkpoint.")]
          if (charts := _monitor_charts(arms)) else []),
        *(_traces(arm) for arm in arms if arm.traces),
    ]  # fmt: skip
    heading = _heading([point.y for point in first], [point.y for point in last])
    return report("Reinforcement learning", "Footfall rl", heading, facts, sections, numbers=numbers, config=config)


def _heading(first: Sequence[float], last: Sequence[float]) -> str:
    if not first:
        return "Accuracy is not known: no held-out problem has a reference answer"
    before, after = f"{first[0]:.1%}", f"{max(last):.1%}"
    return f"Accuracy of one sample {f'stayed at {after}' if before == after else f'went from {before} to {after}'}"


def _interval(point: Point) -> str:
    return f"95% interval {point.low or 0:.1%} to {point.high or 0:.1%}"


def _verdict(arm: Arm) -> str:
    row = arm.checkpoints[-1]
    said = "yes" if row["hacked"] else "no"
    count = len(row["alarms"])
    return f"{arm.name}: {said}" + (f" ({count} {'sign' if count == 1 else 'signs'})" if count else "")


def _chart(
    title: str, lines: Sequence[tuple[str, Sequence[Point]]], form: Format, caption: str, height: float = 300
) -> Markup:
    series = [Series(name, points, slot=slot) for slot, (name, points) in enumerate(lines) if points]

    def draw(width: float) -> Markup:
        return line_chart(
            series, label=f"{title} by update", title=title, x_label="updates", y_label="", y_format=form, width=width,
            height=height if width > 500 else min(height, 260),
        )  # fmt: skip

    return figure(responsive(draw), caption) if series else Markup()


def _batch_charts(arms: Sequence[Arm]) -> list[Markup]:
    made = []
    for name, (title, form, caption) in _BATCH_CURVES.items():
        lines = [(arm.name, arm.curve(methodcaller("get", name), arm.updates)) for arm in arms]
        if any(point.y for _, points in lines for point in points):
            made.append(_chart(title, lines, "percent" if form == "percent" else "number", caption))
    return made


def _monitors(arms: Sequence[Arm]) -> list[Markup]:
    kl = [(arm.name, arm.curve(lambda row: row["kl"], arm.checkpoints)) for arm in arms]
    blocks = (
        [_chart("KL to the policy at first", kl, "number", "Of a whole completion, in nats.")]
        if any(p for _, p in kl)
        else []
    )
    for arm in arms:
        said = [f"update {alarm['update']}, {alarm['name']}: {alarm['why']}" for alarm in arm.checkpoints[-1]["alarms"]]
        blocks.append(items(said) if said else Markup())
        count = len(arm.checkpoints)
        some = [arm.checkpoints[i] for i in np.linspace(0, count - 1, min(count, _MOST_COLUMNS)).round().astype(int)]
        header = ["figure", *(f"update {row['update']}" for row in some)]
        rows = []
        for key, words in MONITORS.items():
            values = [row["figures"].get(key) for row in some]
            if any(value is not None for value in values):
                rows.append([words, *("–" if value is None else f"{value:.3f}" for value in values)])
        exploits = sorted({name for row in some for name in row["paid"]})
        for name in exploits:
            shares = [row["paid"].get(name) for row in some]
            rows.append([f"exploit pays: {name}", *("–" if share is None else f"{share:.2f}" for share in shares)])
        caption = f"{arm.name}: monitors, and the share of traces for which an exploit pays"
        caption += f", at {len(some)} of {count} checkpoints; log.jsonl has all" if len(some) < count else ""
        blocks.append(table(header, rows, caption=caption))
    return [block for block in blocks if block]


def _monitor_charts(arms: Sequence[Arm]) -> list[Markup]:
    """A curve of each figure that was ever known, and of what exploits would be paid."""
    made = []
    for key, words in MONITORS.items():
        lines = [(arm.name, arm.curve(partial(_of, "figures", key), arm.checkpoints)) for arm in arms]
        if any(len(points) > 1 for _, points in lines):
            made.append(_chart(words.capitalize(), lines, "number", "", 200))
    for arm in arms:
        paid = sorted({name for row in arm.checkpoints for name, share in row["paid"].items() if share})
        lines = [(name, arm.curve(partial(_of, "paid", name), arm.checkpoints)) for name in paid]
        for at in range(0, len(lines), _MOST_LINES):
            some = lines[at : at + _MOST_LINES]
            if any(len(points) > 1 for _, points in some):
                made.append(_chart(f"Exploits that pay: {arm.name}", some, "percent", "", 260))
    return made


def _of(kind: str, name: str, checkpoint: Mapping[str, Any]) -> float | None:
    found: float | None = checkpoint[kind].get(name)
    return found


class _Token(NamedTuple):
    text: str
    advantage: float
    shade: str


def _traces(arm: Arm) -> Section:
    """Completions of the updates that were chosen, or of some checkpoints; blue tokens are made likelier, orange ones less."""
    every = max(1, (len(arm.traces) - 1) // max(1, _TRACES_OF - 1))
    some = [*arm.traces[:-1:every][: _TRACES_OF - 1], arm.traces[-1]]
    chosen = [stop for stop in arm.traces if stop.get("chosen")] or some
    top = max((abs(a) for stop in chosen for row in stop["rows"] for a in row["advantages"]), default=0.0) or 1.0
    blocks = []
    for stop in chosen:
        for row in stop["rows"]:
            advantages = row["advantages"] or [0.0] * len(row["tokens"])
            shown = [
                _Token(text, a, f"v{min(int((a / top + 1) / 2 * _SHADES), _SHADES - 1)}")
                for text, a in zip(row["tokens"], advantages, strict=False)
            ]
            outcome = {True: "✓ right answer", False: "✗ wrong answer"}.get(row["correct"], "answer not checked")
            said = f"left its group: {row['left']}" if row["left"] else f"reward {row['reward'] or 0:.3f}"
            blocks.append(render("traces", "tokens", title=f"update {stop['update']}: {row['problem']}", outcome=outcome,
                                 said=said, problem=row["text"], tokens=shown, left_out=row.get("left_out", 0)))  # fmt: skip
    lead = (
        f"Each token's colour is its advantage, from -{top:.2f} (orange, made less likely) to {top:.2f} (blue, made likelier); "
        "the number stands in its tooltip."
    )
    return Section(f"What was learned from: {arm.name}", blocks, lead)
