"""Files that the stages of `scripts/loop.py` leave for each other: facts and scores, written whole or not at all."""

from __future__ import annotations

import gzip
import json
import math
import re
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from footfall.damaged import json_of, naming
from footfall.formats import atomic_write
from scripts.smol_rows import read_lines


def kept(file: Path, **fields: type) -> dict[str, Any]:
    """What an earlier stage left in a file: an object, with these fields; an error names the file."""
    with naming(file):
        found = json_of(file)
    wrong = [
        name for name, kind in fields.items() if not isinstance(found, dict) or not isinstance(found.get(name), kind)
    ]
    if not isinstance(found, dict) or wrong:
        raise ValueError(f"{file} is not what its stage wrote ({wrong[0] if wrong else 'no object'}); make it again")
    return found


def scores_of(file: Path) -> dict[tuple[str, str], list[float | None]]:
    """What the stage score left: the scores of each trace's steps, by split and trace."""
    with naming(file):
        found = {(row["split"], row["id"]): row["scores"] for row in read_lines(file)}
        for scores in found.values():
            if not all(value is None or 0 <= value <= 1 for value in scores):
                raise ValueError("a score is a number from 0 to 1, or null")
    return found


def search_file(out: Path, name: str, on: str, method: str, truth: bool) -> Path:
    """Where a search with the PRM `name` is kept: a file a method, so that several may run beside each other."""
    return out / f"search-{name}-{on}-{method}{'-truth' if truth else ''}.json"


def search_files(out: Path, on: str) -> dict[str, list[Path]]:
    """The files of searches on a set, by PRM; one without a method, as older runs left, is among them."""
    found: dict[str, list[Path]] = {}
    for file in sorted(out.glob("search-*.json")):
        if named := re.fullmatch(rf"search-(.+)-{re.escape(on)}(?:-[a-z][a-z0-9-]*)?", file.stem):
            found.setdefault(named[1], []).append(file)
    return found


def searches_of(files: Iterable[Path]) -> dict[str, Any]:
    """What the stage search left in these: rows by method, width, problems and share of the truth."""
    found: dict[str, Any] = {}
    for file in files:
        rows = kept(file)
        with naming(file):
            for called, row in rows.items():
                if not {*row["right"]} <= {*"01"} or not math.isfinite(row["generated"]):
                    raise ValueError(
                        f"{called!r} says which problems are right in 0 and 1, and how many tokens it took"
                    )
        found |= rows
    return found


def keep(file: Path, facts: Any) -> None:
    """Written whole or not at all: a search that is stopped keeps what was there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as stream:
        stream.write((json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode())


def keep_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines, compressed to the same bytes each time."""
    with atomic_write(file) as stream:
        stream.write(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0))


def tell(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
