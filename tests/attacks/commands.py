"""The commands that write, each as a user types it, small; what each must leave behind, byte for byte; what they read."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from footfall.cli import main
from footfall.lab.ledger import row_hash
from footfall.tools import why_no_walls

TRACES, CODE = "DATA/traces/trajectories.parquet", "DATA/code/trajectories.parquet"
JUDGED, TINY = "DATA/judged/judged.parquet", "DATA/tiny"
SCRIPTED = ["--policy", "scripted-arithmetic"]
RUN = ["--out", "run"]
SAMPLE = ["sample", "--problems", "world:arithmetic:6", *SCRIPTED, "--n", "2", "--chunk", "3"]
SERVED = ["sample", "--problems", "DATA/problems.jsonl", "--url", "URL", "--n", "2", "--chunk", "2"]
SEARCH = ["search", "--problems", "world:arithmetic:4", *SCRIPTED, "--judge", "exact-value", "--chunk", "2"]
LABEL = ["label", "--data", TRACES, *SCRIPTED, "--rollouts", "2", "--chunk", "4"]
ERRORS = [*LABEL, "--until", "first-error", "--store"]
TRAIN = ["train", "--data", JUDGED, "--backbone", TINY, "--device", "cpu", "--lr", "1e-3"]
TRAIN += ["--epochs", "2", "--batch-size", "8", "--save-steps", "2"]
BENCH = ["bench", "steps", "--data", JUDGED, "--chunk", "5"]
DEMO = ["demo", "--train-problems", "10", "--traces", "1", "--rollouts", "2", "--test-problems", "4", "--n", "2"]
DEMO += ["--epochs", "1", "--quality-traces", "4", "--max-tokens", "60", "--picture", "curves.svg"]
BEST = ["problems=2", "judges=exact", "methods=best-of-n"]
STUDY = ["--option", "worlds=arithmetic", "seeds=1"]
CREDIT = ["--option", "judges=exact", "seeds=1", "batches=2", "groups=2", "size=4", "workers=1", "docs=."]
KINDS = ["--option", "labels=exact", "sizes=24", "seeds=1", "pool=4", "beam=1", "workers=1", "methods=soft-bce"]
RL = [
    "rl",
    "--problems",
    "world:arithmetic:24",
    "--prompts",
    "2",
    "--group",
    "2",
    "--updates",
    "3",
    "--checkpoint-every",
    "2",
]
RL += ["--measured", "4", "--max-tokens", "16", "--lr", "1e-3", "--device", "cpu", "--stop-hacked"]
RECORD = ["lab", "run", "aurora", "--seeds", "1", "--record", "--ledger"]
LEDGER = ["lab", "ledger", "--ledger", "ledger.json"]
RECORDED, STALE = (
    {name: f"DATA/{folder}/{name}" for name in ("ledger.json", "ledger_outcomes.json")}
    for folder in ("recorded", "stale")
)
MADE = {
    "traces": SAMPLE,
    "judged": ["label", "--data", TRACES, "--method", "truth-arithmetic"],
    "code": ["sample", "--problems", "world:code:3", "--policy", "scripted-code", "--n", "1"],
    "errors": [*ERRORS, "DATA/store"],
    "recorded": [*RECORD, "DATA/recorded/ledger.json"],
}
"""Runs that commands read or begin from, by the name of their folder."""


class Command(NamedTuple):
    """Command lines to be typed one after another in a folder, and what they need: packages, or bwrap."""

    lines: Sequence[Sequence[str]]
    needs: tuple[str, ...] = ()
    start: Mapping[str, str] = {}
    """What lies in the folder at first, by name; nothing else does."""
    repeats: bool = False
    """Typed again it begins anew, as it must: it throws finished chunks away."""


COMMANDS = {
    "sample": Command([[*SAMPLE, *RUN]]),
    "sample, served": Command([[*SERVED, *RUN]]),
    "sample, stored": Command([[*SAMPLE, "--store", "store", *RUN]]),
    "sample, fresh": Command([[*SAMPLE, "--fresh", *RUN]], start={"run": "DATA/traces"}, repeats=True),
    "label": Command([[*LABEL, "--store", "none", *RUN]]),
    "label, stored": Command([[*LABEL, "--store", "store", *RUN]]),
    "label, trees": Command([[*LABEL, "--method", "omegaprm", "--trees", "2", "--store", "store", "--limit", "4", *RUN]]),
    "label, again": Command(
        [[*ERRORS, "store", "--again", *RUN]], start={"run": "DATA/errors", "store": "DATA/store"}, repeats=True
    ),
    "train": Command([[*TRAIN, *RUN]]),
    "train, LoRA": Command([[*TRAIN, "--lora-rank", "2", *RUN]], ("peft",)),
    "train, merged": Command([[*TRAIN, "--lora-rank", "2", "--merge-lora", *RUN]], ("peft",)),
    "rl": Command([[*RL, *RUN]], ("trl",)),
    "rl, system": Command([[*RL, "--model", "DATA/chat", "--system", "Box it.", "--lora-rank", "2", *RUN]], ("trl", "peft")),
    "calibrate": Command([["calibrate", "--data", JUDGED, "--judge", "random", "--chunk", "5", *RUN]]),
    "score": Command([["score", TRACES, "--judge", "random", "--chunk", "4", "--to", "to.jsonl.gz", *RUN]]),
    "score, sandbox": Command([["score", CODE, "--judge", "formal", "--chunk", "2", *RUN]], ("z3", "sympy", "bwrap")),
    "search": Command([[*SEARCH, "--to", "answers.jsonl", *RUN]]),
    "search, stored": Command([[*SEARCH, "--store", "store", *RUN]]),
    "search, explain": Command([[*SEARCH, *RUN], ["search", *RUN, "--explain", "arithmetic-bd1ef437f5abbf59"]]),
    "bench": Command([[*BENCH, "--judge", "random", *RUN]]),
    "bench compare": Command(
        [[*BENCH, "--judge", judge, "--out", judge] for judge in ("random", "length")]
        + [["bench", "compare", "random", "length", *RUN]]
    ),
    "bench all": Command([["bench", "all", "--data", "DATA/benchmarks", "--judge", "random", *RUN]]),
    "bench labels": Command([["bench", "labels", *STUDY, "traces=3", "methods=monte-carlo,formal", "workers=1", *RUN]]),
    "bench search": Command([["bench", "search", *STUDY, *BEST, "workers=1", *RUN]]),
    "bench search, two processes": Command([["bench", "search", *STUDY, *BEST, "workers=2", *RUN]]),
    "bench credit": Command([["bench", "credit", *CREDIT, *RUN]]),
    "bench kinds": Command([["bench", "kinds", *KINDS, *RUN]]),
    "lab run": Command([["lab", "run", "symbolic-mc", "--quick", *RUN]]),
    "lab run, two processes": Command([["lab", "run", "symbolic-mc", "--quick", "--workers", "2", *RUN]]),
    "lab run, recorded": Command([[*RECORD, "ledger.json", *RUN]]),
    "lab ledger": Command([LEDGER]),
    "lab ledger, merged": Command([[*LEDGER, "--merge", "DATA/elsewhere.json"]], start=RECORDED),
    "lab ledger, updated": Command([[*LEDGER, "--update"]], start=STALE),
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
    """Those for which all is installed."""
    return {name: command for name, command in COMMANDS.items() if all(map(_is_here, command.needs))}


@cache
def _is_here(need: str) -> bool:
    return why_no_walls() is None if need == "bwrap" else find_spec(need) is not None


def make_data(folder: Path, commands: Sequence[Command]) -> None:
    """What these commands read and begin from, as far as it is not there; run in a process of its own."""
    words = {word for command in commands for line in command.lines for word in line if word.startswith("DATA")}
    words |= {source for command in commands for source in command.start.values()}
    needed = {word.split("/")[1] for word in words}
    needed |= {"traces"} if needed & {"judged", "errors"} else set()
    needed |= {"recorded"} if needed & {"stale", "elsewhere.json"} else set()
    folder.mkdir(parents=True, exist_ok=True)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    for name, line in MADE.items():
        if name in needed and not (folder / name / "result.json").exists():
            given = [word.replace("DATA", str(folder)) for word in line]
            assert main([*given, "--out", str(folder / name)]) == 0, line
    if "tiny" in needed and not (folder / "tiny").exists():
        from tests.reward.tiny_models import backbone_folder

        backbone_folder(folder / "tiny")
    if "chat" in needed and not (folder / "chat").exists():
        from tests.reward.tiny_models import backbone_folder

        template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
        (backbone_folder(folder / "chat") / "chat_template.jinja").write_text(template)
    if "recorded" in needed:
        _other_ledgers(folder)
    problems = [{"problem": f"Problem {k}: what is 3 - 4? Box it.", "answer": "-1"} for k in range(4)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    rows = [
        {"id": f"gsm8k-{k}", "problem": "What is 3 + 4?", "steps": ["3 + 4 = 7.", "It is 8."], "label": 1 - 2 * (k % 2),
         "final_answer_correct": bool(k % 2)} for k in range(4)
    ]  # fmt: skip
    (folder / "benchmarks" / "processbench").mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks" / "processbench" / "gsm8k.json").write_text(json.dumps(rows))


def _other_ledgers(folder: Path) -> None:
    """Of the recorded one: what another machine would send to be merged, and rows that somebody edited."""
    rows = json.loads((folder / "recorded" / "ledger.json").read_text())
    kept = json.loads((folder / "recorded" / "ledger_outcomes.json").read_text())
    (here,) = kept["aurora"]["environments"]
    now = kept["aurora"]["environments"][here]
    kept["aurora"]["environments"] = {"another machine": now}
    (folder / "elsewhere.json").write_text(json.dumps(kept))
    kept["aurora"]["environments"] = {"another machine": now, here: now}
    rows[0]["scale"] = "edited"
    (folder / "stale").mkdir(exist_ok=True)
    (folder / "stale" / "ledger.json").write_text(json.dumps(rows))
    (folder / "stale" / "ledger_outcomes.json").write_text(json.dumps(kept))


OUTCOMES = "_outcomes.json"
TIMES = re.compile(r"(\w+_)?seconds|tokens_per_second|created|step_time|shares|checksum")
"""And checksums of what holds such."""
_NUMBER = re.compile(r"\d[\d,.]*|–")


def without_times(value: Any) -> Any:
    """What a command reports, but for times."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if not TIMES.fullmatch(key)}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def left(folder: Path) -> dict[str, Any]:
    """Every file that the commands leave, strays too; without times, and without logs, which hold one line a start."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ("log.jsonl", ".lock")
    }  # fmt: skip


def _content(path: Path) -> Any:
    if path.name.endswith(OUTCOMES):  # the hashes of rows hold seconds: are they those of the rows beside them?
        beside = path.with_name(path.name.removesuffix(OUTCOMES) + ".json")
        known = {row_hash(row) for row in json.loads(beside.read_text(encoding="utf-8"))} if beside.exists() else set()
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: {**kept, "rows": [one in known for one in kept["rows"]]} for name, kept in found.items()}
    if path.name == "checksums.json":  # the Trainer's state holds seconds: are they those of the files beside them?
        from footfall.hashing import checksum

        sums = json.loads(path.read_text(encoding="utf-8"))
        return {name: checksum(path.with_name(name)) == found for name, found in sums.items()}
    if path.suffix == ".json":
        return without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix in (".html", ".md"):
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
