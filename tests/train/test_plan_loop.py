"""The loop as a plan, on a tiny model: killed in the middle and carried to another folder, it ends with the same files."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from footfall.formats import read_problems, write_parquet
from footfall.types import Step, Trajectory
from scripts import plan
from tests.train.test_loop import prepared
from tests.train.test_plan import stage, started, wait_for, write

__all__ = ["prepared"]
SECONDS = ("seconds", "training seconds", "tokens per second", "tokens_per_second")
TRAIN = "{loop} train {files} {small} --name {arm}-{seed} --seed {seed} {rows[arm]}"
LABEL = "{loop} label {files} --sets gsm8k-train --max-tokens 90 --rollouts 16"
SCORE = "{loop} score {files} --name mc-1 --on processbench gsm8k-test"
HEAD = """
[given]
model = "policy"
[places]
data = "benchmark"
[words]
loop = "python -m scripts.loop"
files = "--device cpu --model {model} --data {data} --out {out}"
small = "--rank 2 --batch 4 --accumulation 1 --max-length 128"
rows.mc = "--rows gold monte-carlo"
"""
STAGES = (
    stage("pool", "{loop} sample {files} --sets gsm8k-test --n 2 --max-tokens 8", "sample-gsm8k-test.parquet", gpu="whole"),
    stage("label", LABEL, "label-monte-carlo-gsm8k-train.parquet", gpu="shared"),
    stage("train-{arm}-{seed}", TRAIN, "prm-{arm}-{seed}/facts.json prm-{arm}-{seed}/*", after="label", gpu="shared",
          each='{seed = [1], arm = ["mc"]}'),
    stage("score", SCORE, "scores-mc-1-*", after="train-mc-1 pool", gpu="shared"),
    stage("evaluate", "{loop} evaluate --data {data} --out {out}", "evaluate.json", after="score train-*"),
)  # fmt: skip


def facts_of(out: Path) -> dict[str, Any]:
    """What is in a folder of results, without what takes time to tell and what is for going on."""
    found: dict[str, Any] = {}
    for file in sorted(file for file in out.rglob("*") if file.is_file()):
        name = file.relative_to(out)
        if name.parts[0] == "plan" or name.parts[0].endswith(".run"):
            continue
        if file.name == "facts.json":
            facts = json.loads(file.read_text(encoding="utf-8"))
            found[str(name)] = {key: value for key, value in facts.items() if key not in SECONDS}
        else:
            found[str(name)] = file.read_bytes()
    return found


@pytest.mark.long
def test_a_plan_that_was_killed_and_moved_ends_with_the_same_files(
    prepared: tuple[list[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared, out = prepared
    problems = read_problems(out / "problems" / "gsm8k-train.jsonl")
    solved = [Trajectory(p.id, p, (Step("a"), Step("b")), answer=p.answer, correct=True) for p in problems]
    write_parquet(out / "sample-gsm8k-train.parquet", [replace(t, meta={}) for t in solved], "trajectory")
    killed, moved = tmp_path / "killed", tmp_path / "moved"
    shutil.copytree(out, killed)
    shutil.copytree(out, moved)
    file = write(tmp_path / "p.toml", *STAGES, head=HEAD)
    given = ["--model", shared[3], "--data", shared[7]]
    whole = ["run", str(file), *given, "--seconds", "900", "--workers", "2", "--out"]
    assert plan.main([*whole, str(out)]) == 0
    wanted = facts_of(out)
    assert {"prm-mc-1/adapter_model.safetensors", "scores-mc-1-gsm8k-test.jsonl.gz", "evaluate.json"} <= {*wanted}
    for place in ("label-monte-carlo-gsm8k-train.run", "prm-mc-1.run"):
        process = started(file, killed, *given)
        wait_for(killed / place, 200)
        process.kill()
        process.communicate(timeout=20)
        for group in (killed / "plan" / "lock").read_text().split():
            with suppress(ProcessLookupError):
                os.killpg(int(group), signal.SIGKILL)
    assert plan.main([*whole, str(killed), "--only", "label", "pool"]) == 0
    archive = tmp_path / "r.tar.gz"
    assert plan.main(["pack", "--out", str(killed), "--to", str(archive), "--mib", "0.02"]) == 0
    assert plan.main(["unpack", "--out", str(moved), "--from", str(archive)]) == 0
    capsys.readouterr()
    assert plan.main([*whole, str(moved)]) == 0
    assert "3 done now" in capsys.readouterr().out, "labels and pool came with the archive"
    found = facts_of(moved)
    left_behind = {name for name in wanted if name.startswith(("to-label-", "sample-gsm8k-test.jsonl"))}
    assert {*wanted} - {*found} == left_behind and not {*found} - {*wanted}
    assert [name for name in found if found[name] != wanted[name]] == []
