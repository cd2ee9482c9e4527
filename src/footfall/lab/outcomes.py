"""What the ledger remembers beside its rows: hashes of outcomes, by the environment they were measured in, and of the rows.

    ledger_outcomes.json    recipe -> {statistics, rows: [hash, …], environments: {name: {code, quick, seeds: {"0": hash, …}}}}

An outcome's hash is made from the arms' figures, the problems and the cost but for its seconds. Floats count with 5 significant
digits and down to the 9th decimal: so the last bits of a matrix product do not matter, and a change that could move a figure of
the ledger does. Hashes of different environments cannot be compared: other kernels round otherwise, and training adds to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from footfall.formats import atomic_write
from footfall.lab.recipe import Outcome

DIGITS = 5
"""Significant digits of a float that count."""
DECIMALS = 9
"""Places after the point that count: a difference of equal figures is 0, whatever its last bits are."""
_LIBRARIES = ("torch", "transformers", "numpy")


class Record(TypedDict):
    """What is remembered of one recipe in one environment."""

    code: str
    """Fingerprint of the code that was last seen to give the figures of the ledger's rows."""
    quick: str
    """Hash of the quick outcome."""
    seeds: dict[str, str]
    """Hashes of the full outcomes by seed; empty if they were not recorded."""


Records: TypeAlias = Mapping[str, Record]
"""Those of one recipe, by environment."""


class Kept(TypedDict):
    """What is remembered of one recipe."""

    statistics: str
    """Hash of how its rows were computed from outcomes (`footfall.lab.ledger.statistics_hash`)."""
    rows: list[str]
    """Hashes of its rows as they were recorded."""
    environments: Records


def outcome_hash(outcome: Outcome) -> str:
    """16 hex digits from the figures; the order of the arms does not count."""
    given = outcome.to_dict()
    cost = {name: amount for name, amount in given["cost"].items() if name != "seconds"}
    return figures_hash({**given, "cost": cost})


def figures_hash(value: Any) -> str:
    """16 hex digits from JSON whose floats count with `DIGITS` digits."""
    text = json.dumps(_rounded(value), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    # + 0.0: there is one zero.
    return round(float(f"{value:.{DIGITS - 1}e}"), DECIMALS) + 0.0 if isinstance(value, float) else value


@lru_cache(maxsize=1)
def environment() -> str:
    """The processor and the versions that figures depend on, e.g. `x86_64 AVX2, python 3.12.3, torch 2.8.0, …`."""
    import torch

    processor = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return ", ".join(
        [processor, f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in _LIBRARIES)]
    )


def outcomes_file(ledger: Path) -> Path:
    """`ledger_outcomes.json` beside `ledger.json`."""
    return ledger.with_name(f"{ledger.stem}_outcomes.json")


def read_outcomes(ledger: Path) -> dict[str, Kept]:
    """What is remembered of each recipe; nothing if there is no file."""
    path = outcomes_file(ledger)
    return read_kept(path) if path.exists() else {}


def read_kept(path: Path) -> dict[str, Kept]:
    """A file of that form; what is wrong in it is named."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected recipes by name, found {type(found).__name__}")
    for name, kept in found.items():
        _demand_fields(kept, Kept, f"{path}: {name!r}")
        if not isinstance(kept["environments"], dict):
            raise ValueError(f"{path}: {name!r} has no environments by name")
        for where, record in kept["environments"].items():
            _demand_fields(record, Record, f"{path}: {name!r} on {where!r}")
            if not isinstance(record["seeds"], dict) or not all(seed.isdigit() for seed in record["seeds"]):
                raise ValueError(f"{path}: {name!r} on {where!r} has no hashes by seed")
    return found


def _demand_fields(given: Any, kind: type, where: str) -> None:
    if not isinstance(given, dict) or given.keys() != kind.__annotations__.keys():
        raise ValueError(f"{where} must have the fields {', '.join(kind.__annotations__)}")


def record_outcomes(ledger: Path, name: str, kept: Kept | None) -> None:
    """Put this in place of what is remembered of the recipe; None: forget it."""
    with locked(ledger.parent):
        merged = {each: known for each, known in read_outcomes(ledger).items() if each != name}
        if kept is not None:
            merged[name] = kept
        with atomic_write(outcomes_file(ledger)) as stream:
            stream.write((json.dumps(dict(sorted(merged.items())), indent=1, allow_nan=False) + "\n").encode())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the ledger's folder, so that two runs that end at once do not lose what either found."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
