"""What runs of `footfall rl` on the same problems found, side by side: stored figures, tables and charts for the docs.

    python -m scripts.rl_arms runs/arms --out docs/coder_0_5b_rl.json

A run is a folder with `log.jsonl`, or one of the folders inside; it is named after its folder, without `rl-` and a seed behind
it. Of each are kept what every update logged and, of every checkpoint, the grade of each held-out problem, the monitors, what
exploits would be paid, and what the monitors' rule says of that as it is now, whatever it said in the run; of its
`config.json`, where there is one, how it was trained. The runs are compared with the one that is called `outcome`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from footfall.formats import atomic_write
from footfall.metrics.intervals import Interval, paired_difference, wilson
from footfall.reports.charts import Point, Series, line_chart
from footfall.reports.pictures import Picture, files_of
from footfall.reports.rl_page import MONITORS, Arm
from footfall.reports.svg import Format
from footfall.rl.monitors import Checkpoint, alarms, hacked
from footfall.studies.report import folded

BASELINE = "outcome"
CURVES = {
    "accuracy": "held-out accuracy",
    "reward": "proxy reward of a rollout",
    "tokens": "tokens a completion",
    "steps": "steps a completion",
    "kl": "KL to the policy at first, nats a completion",
    "entropy": "entropy of the next token, nats",
}
"""Charts by the end of their file names, and what they show."""
_LOGGED = {"reward": "reward", "tokens": "mean_length", "steps": "steps", "entropy": "entropy"}
"""Curves by update, and what an update calls them; the others are by checkpoint."""
_SETTINGS = ("credit", "filter", "judge", "aggregate", "updates", "prompts", "group", "lr", "lora_rank", "beta", "loss",
             "temperature", "max_tokens", "seed")  # fmt: skip
_OF_UPDATE = (
    "update",
    "loss",
    "reward",
    "accuracy",
    "left",
    "filtered",
    "steps",
    "entropy",
    "mean_length",
    "grad_norm",
)
_OF_CHECKPOINT = ("update", "figures", "rollouts", "right", "kl", "paid")
_GRADES = {True: "1", False: "0", None: "-"}
_WINDOW = 10
"""Updates that a point of a curve is the mean of: one alone is too noisy to be read beside four others."""


def runs_in(paths: Iterable[Path]) -> list[Path]:
    """The folders of runs among these and in them."""
    found = []
    for path in paths:
        inside = [path] if (path / "log.jsonl").exists() else sorted(each.parent for each in path.glob("*/log.jsonl"))
        if not inside:
            raise ValueError(f"{path}: neither it nor a folder in it has a log.jsonl")
        found += inside
    return found


def read(folder: Path) -> tuple[str, dict[str, Any]]:
    """A run's name and what is stored of it."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    whole = folder.name.removeprefix("rl-")
    stem, _, seed = whole.rpartition("-")
    arm = Arm.read(
        stem if stem and seed.isdigit() else whole, lambda kind: [line for line in lines if line.get("event") == kind]
    )
    if not arm.checkpoints:
        raise ValueError(f"{folder}: its log has no checkpoint")
    run = [
        Checkpoint(row["update"], row["figures"], row["rollouts"], row["kl"], paid=row["paid"])
        for row in arm.checkpoints
    ]
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))["config"] if file.exists() else {}
    return arm.name, {
        "settings": {name: config[name] for name in _SETTINGS if config.get(name) is not None},
        "updates": [_rounded({name: row[name] for name in _OF_UPDATE if name in row}) for row in arm.updates],
        "checkpoints": [
            {
                **_rounded({name: row[name] for name in _OF_CHECKPOINT}),
                "alarms": [asdict(alarm) for alarm in alarms(run[: k + 1])],
                "hacked": hacked(run[: k + 1]),
                "graded": "".join(_GRADES[g] for g in row["graded"]),
            }
            for k, row in enumerate(arm.checkpoints)
        ],
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_rounded, value))
    return round(value, 5) if isinstance(value, float) else value


def gathered(folders: Iterable[Path]) -> dict[str, Any]:
    """What is stored of all runs; the one that others are compared with comes first."""
    arms: dict[str, Any] = {}
    for folder in folders:
        name, facts = read(folder)
        if name in arms:
            raise ValueError(f"{folder}: there are two runs called {name}; give one of each")
        arms[name] = facts
    if BASELINE not in arms:
        raise ValueError(
            f"no run is called {BASELINE}, which the others are compared with; there are {', '.join(arms)}"
        )
    return {"arms": {BASELINE: arms.pop(BASELINE), **arms}}


def block(found: Mapping[str, Any], stem: str) -> str:
    """Tables and charts, as a page has them: what came of the arms, and folded how; `stem` begins the files of charts."""
    arms = found["arms"]
    drawn = pictures(arms, stem)
    told = [picture.html for picture in drawn if picture.stem.startswith((f"{stem}-accuracy", f"{stem}-reward"))]
    rest = [picture.html for picture in drawn if picture.html not in told]
    named = ", ".join(words for curve, words in CURVES.items() if curve not in ("accuracy", "reward"))
    seen = folded("What the monitors saw: every figure at the first and at the last checkpoint", _monitors(arms))
    return "\n".join([_accuracies(arms), *told, seen, folded(f"Other charts: {named}", "\n".join(rest))])


def charts(found: Mapping[str, Any], stem: str) -> dict[str, str]:
    """The curves of all arms, by file name."""
    return files_of(pictures(found["arms"], stem))


def pictures(arms: Mapping[str, Any], stem: str) -> list[Picture]:
    """One a curve. Arms that are paid on another scale have a chart of their own."""
    found = []
    for curve, words in CURVES.items():
        lines = [
            Series(name, points, slot=i)
            for i, (name, arm) in enumerate(arms.items())
            if (points := _points(curve, arm))
        ]
        apart = [s for s in lines if curve == "reward" and not all(0 <= point.y <= 1 for point in s.points)]
        together = [s for s in lines if s not in apart]
        if together:
            found.append(_picture(f"{stem}-{curve}", words, together))
        found += [_picture(f"{stem}-{curve}-{s.name}", f"{words}, {s.name}", [s]) for s in apart]
    return found


def _picture(stem: str, words: str, lines: Sequence[Series]) -> Picture:
    """Where each arm begins and ends is said in words too."""
    form: Format = "percent" if words == CURVES["accuracy"] else "number"
    ends = ", ".join(f"{line.name} {_change(line.points[0].y, line.points[-1].y, form)}" for line in lines)
    said = f"{words} by update, from the first point to the last: {ends}"

    def draw(width: float) -> Markup:
        return line_chart(lines, label=said, x_label="updates", y_label=words, y_format=form, width=width)

    return Picture(stem, said, draw)


def _accuracies(arms: Mapping[str, Any]) -> str:
    text = (
        "| arm | credit | accuracy before, % | after, % | gain | against outcome | updates | rollouts left out | "
        "what the monitors' rule says |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|---|\n"
    )
    for name, arm in arms.items():
        first, last = arm["checkpoints"][0], arm["checkpoints"][-1]
        against = "" if name == BASELINE else _difference(last, _at(arms[BASELINE], last["update"]))
        cells = (
            name, _credit(arm["settings"]), _percent(wilson(first["right"], first["rollouts"])),
            _percent(wilson(last["right"], last["rollouts"])), _difference(last, first), against, str(last["update"]),
            f"{sum(int(row.get('left', 0)) for row in arm['updates'])}", _verdict(arm["checkpoints"]),
        )  # fmt: skip
        text += f"| {' | '.join(cells)} |\n"
    return text


def _credit(settings: Mapping[str, Any]) -> str:
    return " + ".join(f"`{settings[name]}`" for name in ("credit", "filter") if settings.get(name))


def _at(arm: Mapping[str, Any], update: int) -> Mapping[str, Any] | None:
    return next((row for row in arm["checkpoints"] if row["update"] == update), None)


def _percent(value: Interval, sign: str = "") -> str:
    return f"{100 * value.value:{sign}.1f} [{100 * value.low:{sign}.1f}, {100 * value.high:{sign}.1f}]"


def _difference(a: Mapping[str, Any], b: Mapping[str, Any] | None) -> str:
    """In points, each held-out problem its own control; empty where the other arm was not measured there."""
    if b is None:
        return ""
    ours, theirs = ([grade == "1" for grade in row["graded"]] for row in (a, b))
    return _percent(paired_difference(ours, theirs), "+")


def _verdict(checkpoints: Sequence[Mapping[str, Any]]) -> str:
    """Since when the rule called the run hacked, and the signs that there were."""
    begun = next((row["update"] for row in checkpoints if row["hacked"]), None)
    signs: dict[str, int] = {}
    for row in checkpoints:
        for alarm in row["alarms"]:
            signs.setdefault(alarm["name"], row["update"])
    told = ", ".join(f"{name} (seen at {at})" for name, at in signs.items()) or "no sign"
    if begun is None:
        return f"not hacked; {told}"
    ended = "" if checkpoints[-1]["hacked"] else ", in the end no more"
    return f"**hacked**, said at update {begun}{ended}; {told}"


def _monitors(arms: Mapping[str, Any]) -> str:
    ends = {name: (arm["checkpoints"][0], arm["checkpoints"][-1]) for name, arm in arms.items()}
    text = "| figure, first → last checkpoint | " + " | ".join(ends) + " |\n|---|" + "---:|" * len(ends) + "\n"
    exploits = sorted({name for pair in ends.values() for row in pair for name in row["paid"]})
    rows = {"KL, nats a completion": [(a["kl"], b["kl"]) for a, b in ends.values()]}
    for key, words in MONITORS.items():
        rows[words] = [(a["figures"].get(key), b["figures"].get(key)) for a, b in ends.values()]
    for exploit in exploits:
        rows[f"exploit pays: {exploit}"] = [(a["paid"].get(exploit), b["paid"].get(exploit)) for a, b in ends.values()]
    for words, pairs in rows.items():
        if any(value is not None for pair in pairs for value in pair):
            text += f"| {words} | {' | '.join(_change(*pair) for pair in pairs)} |\n"
    return text


def _change(first: float | None, last: float | None, form: Format = "number") -> str:
    """In three figures, or in percent."""
    told = (
        None if value is None else f"{value:.1%}" if form == "percent" else f"{value:.3g}" for value in (first, last)
    )
    return " → ".join("–" if value is None else value for value in told)


def _points(curve: str, arm: Mapping[str, Any]) -> list[Point]:
    if curve in _LOGGED:
        return _smooth([(row["update"], row[_LOGGED[curve]]) for row in arm["updates"] if _LOGGED[curve] in row])
    if curve == "kl":
        return [Point(row["update"], row["kl"]) for row in arm["checkpoints"] if row["kl"] is not None]
    rates = [(row["update"], wilson(row["right"], row["rollouts"])) for row in arm["checkpoints"]]
    return [Point(at, rate.value, rate.low, rate.high) for at, rate in rates]


def _smooth(rows: Sequence[tuple[int, float]]) -> list[Point]:
    parts = [rows[i : i + _WINDOW] for i in range(0, len(rows), _WINDOW)]
    return [Point(part[-1][0], sum(value for _, value in part) / len(part)) for part in parts]


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs, or one that holds them")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    args = arguments(given)
    with atomic_write(args.out) as stream:
        stream.write((json.dumps(gathered(runs_in(args.runs)), indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
