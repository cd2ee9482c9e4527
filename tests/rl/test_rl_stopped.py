"""Ctrl-C in `footfall rl`: the update that is under way is kept, nobody waits for measurements, and the run goes on as if it
had not been stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from footfall import cli
from footfall.rl.loop import Watch
from tests.rl.runs import events, model, weights, words

__all__ = ["model"]


@pytest.mark.parametrize(
    ("at", "kept", "looked"),
    [("update 1", "checkpoint-1", [0]), ("update 2", "checkpoint-2", [0]), ("look 0", None, []),
     ("look 2", "checkpoint-2", [0])],
)  # fmt: skip
def test_a_stopped_run_keeps_its_update_and_measures_when_it_goes_on(
    at: str, kept: str | None, looked: list[int], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It measured the policy before it ended, for a minute where the model is slow, and one time more than undisturbed."""
    assert cli.main(words(model, tmp_path / "whole", "--updates", "3")) == 0
    out, look = tmp_path / "run", Watch.look

    def looking(watch: Watch, update: int) -> None:
        if at == f"look {update}":
            signal.raise_signal(signal.SIGINT)
        look(watch, update)

    def stepping(watch: Watch, args: Any, state: Any, control: Any, **given: Any) -> None:
        if at == f"update {state.global_step + 1}":
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as once:
        once.setattr(Watch, "look", looking)
        once.setattr(Watch, "on_step_begin", stepping)
        assert cli.main(words(model, out, "--updates", "3")) == 130
    assert [path.name for path in (out / "checkpoints").glob("*")] == ([] if kept is None else [kept])
    assert [line["update"] for line in events(out, "checkpoint")] == looked
    assert cli.main(words(model, out, "--updates", "3")) == 0
    assert [line["update"] for line in events(out, "update")] == [1, 2, 3]
    seen = [[{**line, "time": 0} for line in events(tmp_path / name, "checkpoint")] for name in ("whole", "run")]
    assert [line["update"] for line in seen[0]] == [0, 2, 3]
    assert seen[0] == seen[1]
    for name, weight in weights(tmp_path / "whole").items():
        assert torch.equal(weight, weights(out)[name]), name


@pytest.mark.long
def test_ctrl_c_while_both_arms_of_quick_measure_ends_them_without_a_wait(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "footfall", "rl", "--quick", "--out", str(tmp_path / "q")]
    begun = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    logs = [tmp_path / "q" / arm / "log.jsonl" for arm in ("outcome", "process")]
    until = time.monotonic() + 300
    while not all(log.exists() for log in logs) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(5)  # now they load, or write the samples of the first measurement
    os.killpg(begun.pid, signal.SIGINT)
    _, said = begun.communicate(timeout=60)
    assert begun.returncode == 130
    assert said.splitlines()[-1].startswith("footfall: stopped;") and "Traceback" not in said
