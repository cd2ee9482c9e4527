"""`footfall info`: this installation; or what a run directory, a model folder or a data file is."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from rich.console import Console
from tyro.conf import Positional

from footfall._version import __version__
from footfall.commands._options import ReadOptions
from footfall.commands._output import emit, facts
from footfall.commands._sources import Skipped, skipping, splitting
from footfall.damaged import json_of, naming
from footfall.formats import Solutions
from footfall.registry import parts
from footfall.reward.config import CONFIG_FILE
from footfall.store import log_events

_PACKAGES = ("torch", "transformers", "numpy", "pyarrow", "math-verify", "httpx", "tyro", "rich")


@dataclass(frozen=True)
class InfoConfig:
    """Say what is installed, or what is at a path.

    Versions, device, extras and the embedded model:
        footfall info

    How far a run is, what a model folder holds, which format a file has and how many rows:
        footfall info runs/label-1a2b3c4d
        footfall info traces.jsonl
    """

    path: Positional[Path | None] = None
    """A run directory, a model's folder or a data file."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    config: Path | None = None
    """A file with options of this command, TOML or JSON; the command line wins over it."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


def main(config: InfoConfig) -> int:
    """Look and tell."""
    if config.path is None or config.path.is_dir():
        config.reading.refuse("what is no data file", "it is for reading one")
        found = _installation() if config.path is None else _folder(config.path)
    else:
        config.reading.refuse("`footfall info`", "it counts all that there is", ("skip_bad", "segment", "map"))
        found = _file(config.path, config.reading)
    emit(found, config.json, lambda console: _show(console, found))
    return 0


def _installation() -> dict[str, Any]:
    import torch

    from footfall.policy.embedded import EMBEDDED
    from footfall.tools import why_no_cgroup, why_no_walls

    cuda = torch.cuda.is_available()
    no_group = why_no_cgroup()
    limits = f"by looks at the processes: {no_group}" if no_group else "by cgroup"
    return {
        "footfall": __version__,
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "extras": _extras(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "threads": torch.get_num_threads(),
        "sandbox": {"walls": why_no_walls() or "bubblewrap", "limits": limits},
        "embedded": _model(EMBEDDED),
        "docs": _docs(),
    }


def _docs() -> str | None:
    """The folder with the documentation: in the package that a wheel installs, beside the source in a clone."""
    package = Path(__file__).parents[1]
    folders = (package / "docs", package.parents[1] / "docs")
    return next((str(folder) for folder in folders if (folder / "first_hour.md").is_file()), None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


_LONGEST_HEADER = 100_000_000
"""Bytes of the header of a safetensors file, by the format's own rule."""


def _extras() -> dict[str, bool]:
    """Each extra of the package, and whether all that it asks for is installed."""
    wanted: dict[str, list[str]] = {}
    for line in requires("footfall") or ():
        need, _, condition = line.partition(";")
        if "extra" in condition:
            extra = condition.split("==")[-1].strip().strip("'\"")
            name = "".join(c if c.isalnum() or c in "-_." else " " for c in need).split()[0]
            wanted.setdefault(extra, []).append(name)
    return {extra: all(_version(name) for name in names) for extra, names in wanted.items()}


def _folder(folder: Path) -> dict[str, Any]:
    with naming(folder):
        return _known_folder(folder)


def _known_folder(folder: Path) -> dict[str, Any]:
    config = folder / "config.json"
    stored = json_of(config) if config.is_file() else {}
    if (folder / CONFIG_FILE).is_file():
        head = json_of(folder / CONFIG_FILE)
        return {"kind": "PRM (step head)", "path": str(folder), **{k: v for k, v in head.items() if k != "canary"}}
    if "command" in stored and "config" in stored:
        return _run(folder, stored)
    if "architectures" in stored:
        return {"kind": "model", **_model(folder), "family": _family(folder)}
    raise ValueError(f"{folder} is neither a run directory nor a model's folder: it has no config.json of either")


def _model(folder: Path) -> dict[str, Any]:
    """Read from the folder's small files and headers; no weights are loaded."""
    config = json_of(folder / "config.json")
    names = ("architectures", "hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings", "dtype")
    weights = sorted(folder.glob("*.safetensors"))
    return {
        "path": str(folder),
        "parameters": sum(map(_parameters, weights)),
        "bytes": sum(file.stat().st_size for file in weights),
        **{name: config[name] for name in names if name in config},
    }


def _family(folder: Path) -> str | None:
    """The family of published PRMs that `--judge` would read the folder as; `None`: it is none, or its name would decide."""
    from footfall.reward.checkpoint import evidence
    from footfall.reward.family import recognise

    try:
        return recognise(evidence(folder)).name
    except (ValueError, FileNotFoundError):
        return None


def _parameters(file: Path) -> int:
    """A safetensors file opens with the length of its header, then names and shapes as JSON."""
    with file.open("rb") as stream:
        header = json.loads(stream.read(min(int.from_bytes(stream.read(8), "little"), _LONGEST_HEADER)))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _run(folder: Path, stored: dict[str, Any]) -> dict[str, Any]:
    """Command, settings, how many chunks of each stage are done, and the result if there is one."""
    log = folder / "log.jsonl"
    events = list(log_events(log)) if log.is_file() else []
    planned = {event["stage"]: event["chunks"] for event in events if event.get("event") == "plan"}
    done = {stage: len(list((folder / stage).glob("*.parquet"))) for stage in planned}
    result = folder / "result.json"
    found = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else None
    return {
        "kind": "run",
        "path": str(folder),
        "command": stored["command"],
        "finished": found is not None,
        "chunks": {stage: {"done": done[stage], "planned": planned[stage]} for stage in planned},
        "config": stored["config"],
        "versions": stored.get("versions", {}),
        "starts": sum(event.get("event") == "start" for event in events),
        "cost": (found or {}).get("cost"),
    }


def _file(path: Path, options: ReadOptions) -> dict[str, Any]:
    with skipping(options) as bad, splitting(str(path), options) as solutions:
        about = _rows(path, bad, solutions, options.names)
    return about if bad is None else {**about, "skipped": {"records": bad.count, "first": bad.first}}


def _rows(path: Path, bad: Skipped | None, solutions: Solutions, names: Mapping[str, str]) -> dict[str, Any]:
    from footfall.formats import is_foreign, parquet_kind, read, read_parquet, read_problems

    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    ours = path.suffix == ".parquet" and not is_foreign(path)
    form, unread = ("parquet", []) if ours else format_of(path, bad, names)
    kind = parquet_kind(path) if form == "parquet" else "problem" if form == "problems" else "trajectory"
    about = {"kind": f"data: {kind}", "path": str(path), "format": form}
    if kind not in ("trajectory", "judged"):
        rows = read_problems(path, bad=bad, names=names) if kind == "problem" else read_parquet(path, kind)
        return {**about, "rows": len(rows), **({"not_read": unread} if unread else {})}
    rows = read(path, bad=bad, solutions=solutions, names=names)
    judged = [row.judgement for row in rows if row.judgement is not None]
    return {
        **about,
        "rows": len(rows),
        "problems": len({row.trajectory.problem.id for row in rows}),
        "steps": sum(len(row.trajectory.steps) for row in rows),
        "correct": {str(k).lower(): n for k, n in Counter(row.trajectory.correct for row in rows).items()},
        "judged": len(judged),
        "judges": sorted({judgement.judge for judgement in judged}),
    }


def format_of(path: Path, bad: Skipped | None, names: Mapping[str, str]) -> tuple[str, list[str]]:
    """The format that knows the first record, and what looks like steps there but is not read as such.

    With `bad`, it is the first record that can be read. `jsonl` is forgiving and asked late, `problems` last.
    """
    from footfall.formats import Fields, FormatError, format_named, iter_records, read_record, renamed, unread_steps

    def told(name: str, record: Fields) -> tuple[str, list[str]]:
        looks = unread_steps(record) if name == "problems" else []
        return name, [f'"{look}": if it holds steps, rename it to "steps" or pass --map steps={look}' for look in looks]

    late = ("jsonl", "problems")
    known = [format_named(name) for name in [*(name for name in parts("format") if name not in late), *late]]
    unreadable: tuple[str, list[str]] | None = None
    for fields in iter_records(path, bad=bad and Skipped()):
        try:
            record, _ = renamed(fields, names)
        except FormatError:
            if bad is None:
                raise
            continue
        found = next((format for format in known if format.sniff(record)), None)
        seen = ("unknown", []) if found is None else told(found.name, record)
        if bad is None:
            return seen
        if found is not None:
            try:
                read_record(found, record)
            except FormatError:
                pass
            else:
                return seen
        unreadable = unreadable or seen
    if unreadable is None:
        raise ValueError(f"{path} holds no record")
    return unreadable


def _show(console: Console, found: dict[str, Any]) -> None:
    facts(console, {name: _words(value) for name, value in found.items()})


def _words(value: object) -> str | None:
    """A value of any shape on one line; what is not set is left out."""
    if isinstance(value, dict):
        inner = {name: _words(item) for name, item in value.items()}
        return ", ".join(f"{name} {item}" for name, item in inner.items() if item)
    if isinstance(value, list):
        return ", ".join(filter(None, map(_words, value)))
    text = "" if value is None else str(value)
    return text if text.isprintable() else repr(text)
