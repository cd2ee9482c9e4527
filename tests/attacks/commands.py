"""The commands that write, each as a user types it, small; what each must leave behind, byte for byte; what they read."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from footfall.cli import main

TRACES, CODE, JUDGED = (
    f"DATA/{name}.parquet" for name in ("traces/trajectories", "code/trajectories", "judged/judged")
)
SCRIPTED = ["--policy", "scripted-arithmetic"]
RUN = ["--out", "run"]
SAMPLE = ["sample", "--problems", "world:arithmetic:6", *SCRIPTED, "--n", "2", "--chunk", "3"]
SERVED = ["sample", "--problems", "DATA/problems.jsonl", "--url", "URL", "--n", "2", "--chunk", "2"]
SEARCH = ["search", "--problems", "world:arithmetic:4", *SCRIPTED, "--judge", "exact-value", "--chunk", "2"]
LABEL = ["label", "--data", TRACES, *SCRIPTED, "--rollouts", "2", "--chunk", "4"]
TRUTH = ["label", "--data", TRACES, "--method", "truth-arithmetic"]
TRAIN = ["train", "--data", JUDGED, "--backbone", "DATA/tiny", "--device", "cpu", "--lr", "1e-3"]
TRAIN += ["--epochs", "2", "--batch-size", "8", "--save-steps", "2"]
BENCH = ["bench", "steps", "--data", JUDGED, "--chunk", "5"]
DEMO = ["demo", "--train-problems", "10", "--traces", "1", "--rollouts", "2", "--test-problems", "4", "--n", "2"]
DEMO += ["--epochs", "1", "--quality-traces", "4", "--max-tokens", "60", "--picture", "curves.svg"]
BEST = ["problems=2", "judges=exact", "methods=best-of-n"]
STUDY = ["--option", "worlds=arithmetic", "seeds=1"]


class Command(NamedTuple):
    """Command lines to be typed one after another in an empty folder, and the packages they need."""

    lines: Sequence[Sequence[str]]
    needs: tuple[str, ...] = ()


COMMANDS = {
    "sample": Command([[*SAMPLE, *RUN]]),
    "sample, served": Command([[*SERVED, *RUN]]),
    "label": Command([[*LABEL, "--store", "none", *RUN]]),
    "label, stored": Command([[*LABEL, "--store", "store", *RUN]]),
    "label, trees": Command([[*LABEL, "--method", "omegaprm", "--trees", "2", "--store", "store", "--limit", "4", *RUN]]),
    "train": Command([[*TRAIN, *RUN]]),
    "train, LoRA": Command([[*TRAIN, "--lora-rank", "2", *RUN]], ("peft",)),
    "calibrate": Command([["calibrate", "--data", JUDGED, "--judge", "random", "--chunk", "5", *RUN]]),
    "score": Command([["score", TRACES, "--judge", "random", "--chunk", "4", "--to", "to.jsonl.gz", *RUN]]),
    "score, sandbox": Command([["score", CODE, "--judge", "formal", "--chunk", "2", *RUN]], ("z3", "sympy")),
    "search": Command([[*SEARCH, "--to", "answers.jsonl", *RUN]]),
    "search, explain": Command([[*SEARCH, *RUN], ["search", *RUN, "--explain", "arithmetic-bd1ef437f5abbf59"]]),
    "bench": Command([[*BENCH, "--judge", "random", *RUN]]),
    "bench compare": Command(
        [[*BENCH, "--judge", judge, "--out", judge] for judge in ("random", "length")]
        + [["bench", "compare", "random", "length", *RUN]]
    ),
    "bench all": Command([["bench", "all", "--data", "DATA/benchmarks", "--judge", "random", *RUN]]),
    "bench labels": Command([["bench", "labels", *STUDY, "traces=3", "methods=monte-carlo,formal", "workers=1", *RUN]]),
    "bench search": Command([["bench", "search", *STUDY, *BEST, "workers=1", *RUN]]),
    "lab run": Command([["lab", "run", "symbolic-mc", "--quick", *RUN]]),
    "lab run, two processes": Command([["lab", "run", "symbolic-mc", "--quick", "--workers", "2", *RUN]]),
    "lab ledger": Command([["lab", "ledger", "--ledger", "ledger.json"]]),
    "demo": Command([[*DEMO, *RUN]]),
}  # fmt: skip
"""What is not here writes nothing: list, show, completion, info."""


def say(words: Sequence[str]) -> tuple[int, str, str]:
    """A command's exit code, and what it writes to stdout and to stderr."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(words)
    return code, out.getvalue(), errors.getvalue()


def possible() -> dict[str, Command]:
    """Those whose packages are installed."""
    return {name: command for name, command in COMMANDS.items() if all(map(find_spec, command.needs))}


def make_data(folder: Path, commands: Sequence[Command]) -> None:
    """What these commands read; run in a process of its own."""
    words = {word for command in commands for line in command.lines for word in line if word.startswith("DATA")}
    folder.mkdir(parents=True)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    code = ["sample", "--problems", "world:code:3", "--policy", "scripted-code", "--n", "1"]
    if words & {TRACES, JUDGED, CODE}:
        for name, line in (("traces", SAMPLE), ("judged", TRUTH), ("code", code)):
            given = [word.replace("DATA", str(folder)) for word in line]
            assert main([*given, "--out", str(folder / name)]) == 0, line
    if "DATA/tiny" in words:
        from tests.reward.tiny_models import backbone_folder

        backbone_folder(folder / "tiny")
    problems = [{"problem": f"Problem {k}: what is 3 - 4? Box it.", "answer": "-1"} for k in range(4)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    rows = [
        {"id": f"gsm8k-{k}", "problem": "What is 3 + 4?", "steps": ["3 + 4 = 7.", "It is 8."], "label": 1 - 2 * (k % 2),
         "final_answer_correct": bool(k % 2)} for k in range(4)
    ]  # fmt: skip
    (folder / "benchmarks" / "processbench").mkdir(parents=True)
    (folder / "benchmarks" / "processbench" / "gsm8k.json").write_text(json.dumps(rows))


TIMES = ("seconds", "tokens_per_second", "created")
_NUMBER = re.compile(r"\d[\d,.]*|–")


def without_times(value: Any) -> Any:
    """What a command reports, but for times."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def left(folder: Path) -> dict[str, Any]:
    """Every file that the commands leave, strays too; without times, and without logs, which hold one line a start."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ("log.jsonl", ".lock")
    }  # fmt: skip


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix == ".html":
        return _NUMBER.sub("", path.read_text(encoding="utf-8"))  # some are seconds; what they show is in other files
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def doubled(folder: Path) -> list[str]:
    """Chunks that were done although their shard was there; those of trees have none, but a rollout store."""
    found: list[str] = []
    for log in folder.rglob("log.jsonl"):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        chunks = [
            line.partition('"stage"')[2].partition('"items"')[0]
            for line in lines
            if '"event": "chunk"' in line and '"trees"' not in line
        ]
        found += [f"{log.parent.name}{chunk}" for k, chunk in enumerate(chunks) if chunk and chunk in chunks[:k]]
    return found
