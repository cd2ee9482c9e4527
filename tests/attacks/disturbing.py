"""Commands that keep a run directory, disturbed at many moments and compared with runs that were not."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from footfall.cli import main

PROGRAM = Path(__file__).with_name("dying.py")
SCRIPTED = ["--policy", "scripted-arithmetic"]
COMMANDS = {
    "sample": ["sample", "--problems", "world:arithmetic:6", *SCRIPTED, "--n", "2", "--chunk", "3"],
    "label": ["label", "--data", "TRACES", *SCRIPTED, "--rollouts", "2", "--chunk", "2", "--store", "none"],
    "score": ["score", "TRACES", "--judge", "formal", "--chunk", "2"],
    "search": ["search", "--problems", "world:arithmetic:4", *SCRIPTED, "--judge", "exact-value", "--chunk", "2"],
}
TIMES = ("seconds", "file", "page", "report", "folder", "out", "to")


def say(words: list[str]) -> tuple[int, str, str]:
    """A command's exit code, and what it writes to stdout and to stderr."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(words)
    return code, out.getvalue(), errors.getvalue()


def traces(folder: Path) -> Path:
    assert main([*COMMANDS["sample"], "--out", str(folder / "traces")]) == 0
    return folder / "traces" / "trajectories.parquet"


def without_times(value: Any) -> Any:
    """What a command reports, but for times and places."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return value


def left(run: Path) -> dict[str, Any]:
    """All that a finished run must have in common with another: the bytes of its rows, and its result."""
    found: dict[str, Any] = {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.parquet"))}
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {**found, "result": without_times(result), "strays": sorted(map(str, run.rglob(".*.tmp")))}


def disturbed(what: str, command: str, every: int, folder: Path) -> list[int]:
    """Run the command with a disturbance at each moment and then again; the exit codes of the disturbed runs."""
    data = traces(folder)
    words = [str(data) if word == "TRACES" else word for word in COMMANDS[command]]
    given = [sys.executable, str(PROGRAM), what, str(folder), str(every), *words, "--out", "OUT"]
    done = subprocess.run(given, capture_output=True, text=True, timeout=900, check=True)
    (_, whole, _), *ended = json.loads(done.stdout)
    assert whole == 0, (folder / "0.err").read_text()
    expected = left(folder / "0")
    assert any(name.endswith(".parquet") for name in expected)
    for moment, _, again in ended:
        assert again == 0, (moment, (folder / f"{moment}.again.err").read_text())
        assert left(folder / str(moment)) == expected, f"{command}, {what} at moment {moment}"
    sys.stdout.write(f"{command}: {what} at {len(ended)} moments, the same bytes after each\n")
    return [code for _, code, _ in ended]


def said(folder: Path, moment: int) -> list[str]:
    """What the disturbed run told, without its progress."""
    lines = (folder / f"{moment}.err").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("footfall: ") or "Traceback" in line]
