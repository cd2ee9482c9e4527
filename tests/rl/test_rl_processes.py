"""`footfall rl` by several processes: they write what one writes, and learn the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from tests.forked import Job, run
from tests.rl.runs import events, model, weights, words
from tests.train import fsdp_on_cpu
from tests.train.test_train_processes import FSDP2, MODULE, kill_main_at, launch

__all__ = ["model"]


PARTED = (
    "rl", "--problems", "world:arithmetic:24", "--prompts", "4", "--group", "4", "--updates", "5", "--measured", "6",
    "--max-tokens", "96", "--lr", "3e-4", "--device", "cpu", "--credit", "grpo,scale=batch", "--filter", "vspo", "--loss",
    "bnpo", "--checkpoint-every", "2", "--json", "--out",
)  # fmt: skip
"""VSPO puts groups with spread in the place of others, and GRPO scales by the batch, whoever wrote it."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run by one process."""
    folder = tmp_path_factory.mktemp("parted") / "alone"
    done = run([*MODULE, *PARTED, folder])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_a_launcher_of_one_process_trains(model: Path, tmp_path: Path) -> None:
    job = launch(1, *words(model, tmp_path / "run", "--updates", "1", "--measured", "2"))
    said = job.communicate(timeout=300)[1]
    assert job.returncode == 0, said
    assert len(events(tmp_path / "run", "update")) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("processes", "sharded"), [((2,), False), ((4, 2), False), ((2, 2), True), ((2, 1), True)],
    ids=["two", "four, killed, and then two", "two with parts of the weights, killed, and then the same",
         "two with parts of the weights, killed, and then one"],
)  # fmt: skip
def test_several_processes_write_what_one_writes_and_learn_the_same(
    processes: tuple[int, ...], sharded: bool, alone: Path, tmp_path: Path
) -> None:
    parted = tmp_path / "parted"
    program = [str(Path(fsdp_on_cpu.__file__))] if sharded else MODULE

    def start(number: int) -> Job:
        return Job(number, [*program, *PARTED, parted], **(FSDP2 if sharded else {}))

    for number in processes[:-1]:
        kill_main_at(parted / "checkpoints" / "checkpoint-2", start(number))
        assert not (parted / "result.json").exists()
    job = start(processes[-1])
    printed, said = job.communicate(timeout=300)
    assert job.returncode == 0, said
    one, other = json.loads((alone / "result.json").read_text()), json.loads(printed)
    assert other["before"] == one["before"] and other["after"] == one["after"]
    updates = [events(folder, "update") for folder in (alone, parted)]
    assert [row["update"] for row in updates[1]][-3:] == [3, 4, 5]
    assert any(row["grad_norm"] > 1e-2 for row in updates[0]), "there was something to learn"
    last = [{row["update"]: row for row in rows} for rows in updates]  # a killed one may have been at the third
    assert list(last[1]) == [1, 2, 3, 4, 5]
    for name in ("loss", "reward", "accuracy", "mean_length", "left", "steps", "grad_norm"):
        figures = [[row[name] for row in rows.values()] for rows in last]
        assert figures[1] == pytest.approx(figures[0], rel=1e-3, abs=2e-5), name
    shown = [{each["update"]: [row["tokens"] for row in each["rows"]] for each in events(folder, "traces")}
             for folder in (alone, parted)]  # fmt: skip
    # A kill right after a checkpoint may have come before its completions were told.
    told = {update: shown[0][update] for update in shown[1]}
    assert shown[1] == told and max(told) == 5, "the same completions, token by token"
    before, after = weights(alone), weights(parted)
    assert max(float((before[name] - after[name]).abs().max()) for name in before) < 1e-4, (
        "an update moves them by 3e-4"
    )
    if sharded:  # as if it had been killed before the last weights were saved
        shutil.rmtree(parted / "model")
        made = len(events(parted, "update"))
        job = start(processes[-1])
        assert job.communicate(timeout=300) and job.returncode == 0
        saved = weights(parted)
        assert all(torch.equal(saved[name], after[name]) for name in after) and len(events(parted, "update")) == made
