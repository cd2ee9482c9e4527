"""A run of `footfall rl` that is killed, wherever: it goes on, and ends with the same weights."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from footfall import cli
from footfall.rl.loop import Watch
from footfall.scale import Remote
from footfall.store import Run
from tests.forked import run as run_python
from tests.rl.runs import events, model, weights, words

__all__ = ["model"]


def test_a_run_that_was_killed_after_its_last_update_makes_no_other(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, log = tmp_path / "run", tmp_path / "run" / "log.jsonl"
    assert cli.main(words(model, out, "--updates", "3")) == 0
    weights = out / "model" / "model.safetensors"
    told, before = json.loads(capsys.readouterr().out), weights.read_bytes()
    (out / "model").rename(out / "model.partial")
    (out / "result.json").unlink()
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"finished"' not in line))
    assert cli.main(words(model, out, "--updates", "3")) == 0
    assert {**json.loads(capsys.readouterr().out), "shares": 0} == {**told, "shares": 0}
    assert [row["update"] for row in events(out, "update")] == [1, 2, 3]
    assert weights.read_bytes() == before
    assert not [*out.rglob("README.md")], "a card of TRL has its tags in another order in every process"


def test_a_checkpoint_whose_optimizer_deepspeed_parted_is_refused_without_deepspeed(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Trainer would go on from its weights with a new optimizer, without a word."""
    out, log = tmp_path / "run", tmp_path / "run" / "log.jsonl"
    assert cli.main(words(model, out, "--updates", "3")) == 0
    (out / "result.json").unlink()
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"finished"' not in line))
    shutil.rmtree(out / "checkpoints" / "checkpoint-3")
    parts = out / "checkpoints" / "checkpoint-2" / "global_step2"
    parts.mkdir()
    for rank in range(2):
        (parts / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").touch()
    assert cli.main(words(model, out, "--updates", "3")) == 2
    assert "was written with DeepSpeed: go on with it" in capsys.readouterr().err


LIVES = """
import os, random, signal, sys, time
from pathlib import Path
import footfall.cli, footfall.rl.loop  # once, for all lives

log, kills, words = Path(sys.argv[1]) / "log.jsonl", int(sys.argv[2]), sys.argv[3:]

def lines():
    return log.read_text().count(chr(10)) if log.exists() else 0

def life():
    child = os.fork()
    if child:
        return child
    sys.stdout = open(os.devnull, "w")
    os._exit(footfall.cli.main(words))

rng, caught = random.Random(0), 0
for _ in range(kills):
    known, child = lines(), life()
    # Until it has told something new, so that it gets on; then a random moment more.
    while lines() < known + 3 and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
    time.sleep(rng.random() / 2)
    if log.parent.joinpath("result.json").exists():
        break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    caught += 1
code = os.waitstatus_to_exitcode(os.waitpid(life(), 0)[1])
print(caught, code)
"""
"""A program that runs a command again and again, and kills it."""


@pytest.mark.long
def test_a_run_killed_ten_times_ends_with_the_same_weights(model: Path, tmp_path: Path) -> None:
    """With a reward model that learns beside the policy."""
    given = ("--updates", "24", "--credit", "prime", "--online-lr", "1e-3")
    assert cli.main(words(model, tmp_path / "whole", *given)) == 0
    out = tmp_path / "killed"
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = run_python(["-c", LIVES, out, 10, *words(model, out, *given)], env=alone, timeout=900)
    caught, code = map(int, done.stdout.split())
    assert code == 0 and caught >= 5, done.stderr
    for name, weight in weights(tmp_path / "whole").items():
        assert torch.equal(weight, weights(out)[name]), name


class Killed(BaseException):
    """What SIGKILL leaves: nothing is done after it."""


def test_a_run_in_an_object_store_that_is_killed_while_it_is_measured_knows_how_it_was_before(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill falls between the seal of the first checkpoint and its way to the store."""
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    command = words(model, Path(f"file://{tmp_path}/bucket/run"), "--updates", "3")
    look = Watch.look

    def killed(watch: Watch, update: int) -> None:
        if update == 2:
            once.setattr(Remote, "put_all", lambda *_, **__: None)
            raise Killed
        look(watch, update)

    with monkeypatch.context() as once, pytest.raises(Killed):
        once.setattr(Watch, "look", killed)
        cli.main(command)
    there = tmp_path / "bucket" / "run"
    assert not (there / "checkpoints").exists() and list(tmp_path.glob("runs/copy-*/checkpoints/checkpoint-2"))
    assert cli.main(command) == 0
    assert [line["update"] for line in events(there, "update")] == [1, 2, 3]
    assert [line["update"] for line in events(there, "checkpoint")] == [0, 2, 3]


def test_a_checkpoint_told_before_a_kill_is_told_once_on_the_page(tmp_path: Path) -> None:
    from footfall.reports.rl_page import Arm

    with Run(tmp_path / "run", "rl", {}) as run:
        for update, accuracy in ((1, 0.1), (2, 0.2), (2, 0.3)):
            run.log("update", update=update, accuracy=accuracy, left=1)
        arm = Arm.read("a", run.logged)
    assert [row["accuracy"] for row in arm.updates] == [0.1, 0.3] and arm.left == 2
