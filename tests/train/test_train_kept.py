"""What a training run keeps: checkpoints by updates or by the clock, after Ctrl-C, a SIGKILL and a full disk."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from footfall import cli
from footfall.formats import write_parquet
from footfall.train import checkpoints, train_prm
from footfall.train.checkpoints import CHECKSUMS, Saves, last_checkpoint, seal, without_lower
from tests.reward.tiny_models import backbone_folder
from tests.train.test_train_prm import QUICK, difference, toy_rows

torch.set_num_threads(1)
CLOCK = replace(QUICK, save_steps=None)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backbone_folder(tmp_path_factory.mktemp("lm"))


def kept(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "checkpoints").glob("*"))


def test_ctrl_c_keeps_the_update_it_falls_into_and_the_run_ends_the_same_to_the_bit(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = train_prm(toy_rows(), base, CLOCK, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train_prm(
            toy_rows(), base, CLOCK, tmp_path / "stopped",
            progress=lambda done, total: signal.raise_signal(signal.SIGINT) if done == 4 else None,
        )  # fmt: skip
    assert "stopping after this update" in capsys.readouterr().err
    assert kept(tmp_path / "stopped") == ["checkpoint-4"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    seen: list[int] = []
    resumed = train_prm(toy_rows(), base, CLOCK, tmp_path / "stopped", progress=lambda done, total: seen.append(done))
    assert seen[0] == 5 and difference(whole, resumed) == 0


def test_losses_after_the_lowest_are_what_patience_counts() -> None:
    assert [without_lower(losses) for losses in ([], [0.5], [0.5, 0.3], [0.5, 0.3, 0.4, 0.3])] == [0, 0, 0, 2]


@pytest.mark.parametrize("stopped", ["killed", "Ctrl-C", "after its last update"])
def test_a_resumed_run_measures_and_loses_patience_where_the_undisturbed_one_does(
    stopped: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(QUICK, lr=0.5, epochs=12, patience=2, max_grad_norm=1e9, save_steps=1)
    whole = train_prm(toy_rows(), base, config, tmp_path / "whole")
    an_epoch, epochs = whole.held_out_curve[0][0], len(whole.held_out_curve)
    assert whole.updates == an_epoch * epochs and epochs < 12, "it was stopped early"
    broken = tmp_path / "broken"
    if stopped == "after its last update":

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("footfall.train.prm.close_run", killed)
            train_prm(toy_rows(), base, config, broken)
    else:
        for at in range(3, whole.updates, 4):

            def progress(done: int, total: int, at: int = at) -> None:
                if done == at and stopped == "killed":
                    raise KeyboardInterrupt
                if done == at:
                    signal.raise_signal(signal.SIGINT)

            with pytest.raises(KeyboardInterrupt):
                train_prm(toy_rows(), base, config, broken, progress=progress)
        broken = broken.rename(tmp_path / "moved")
    measured: list[float] = []
    resumed = train_prm(toy_rows(), base, config, broken, measured=lambda facts: measured.append(facts["update"]))
    assert resumed.held_out_curve == whole.held_out_curve and resumed.updates == whole.updates
    assert all(update % an_epoch == 0 for update in measured)
    assert difference(whole, resumed) == 0


def test_checkpoints_of_a_run_that_was_killed_after_its_end_are_removed(base: Path, tmp_path: Path) -> None:
    whole = train_prm(toy_rows(), base, CLOCK, tmp_path)
    (tmp_path / "checkpoints" / "checkpoint-4").mkdir(parents=True)
    assert train_prm(toy_rows(), base, CLOCK, tmp_path) == whole and not (tmp_path / "checkpoints").exists()


def test_what_the_training_logs_is_passed_on(base: Path, tmp_path: Path) -> None:
    seen: list[Mapping[str, float]] = []
    result = train_prm(toy_rows(), base, CLOCK, tmp_path, logged=seen.append)
    assert [(row["update"], row["loss"]) for row in seen] == list(result.curve) and len(seen) == result.updates
    assert all(row["lr"] > 0 or row is seen[-1] for row in seen) and all(row["grad_norm"] > 0 for row in seen)


def test_a_second_ctrl_c_stops_at_once(base: Path, tmp_path: Path) -> None:
    def twice(done: int, total: int) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_prm(toy_rows(), base, CLOCK, tmp_path, progress=twice)
    assert kept(tmp_path) == []


def test_ctrl_c_in_the_last_update_lets_the_run_end(base: Path, tmp_path: Path) -> None:
    def last(done: int, total: int) -> None:
        if done == total:
            signal.raise_signal(signal.SIGINT)

    assert train_prm(toy_rows(), base, CLOCK, tmp_path, progress=last).folder.is_dir()


@pytest.mark.long
def test_a_command_that_was_stopped_goes_on_with_checkpoints_at_other_places(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parquet(tmp_path / "judged.parquet", toy_rows(), "judged")
    words = ["train", "--data", str(tmp_path / "judged.parquet"), "--backbone", str(base), "--lr", "3e-3"]
    words += ["--device", "cpu", "--out", str(tmp_path / "run")]
    asked = Saves.on_step_end

    def stop(self: Saves, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.asked_to_stop = state.global_step == 2
        asked(self, args, state, control, **given)

    with monkeypatch.context() as patch:
        patch.setattr(Saves, "on_step_end", stop)
        assert cli.main(words) == 130
    assert "the same command goes on" in capsys.readouterr().err and kept(tmp_path / "run") == ["checkpoint-2"]
    assert cli.main([*words, "--save-steps", "0"]) == 2
    assert cli.main([*words, "--save-steps", "3"]) == 0 and not kept(tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert {e["update"] for e in events if e["event"] == "update"} >= {1, 2, 3}


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from footfall.train import train_prm
from tests.train.test_train_prm import QUICK, toy_rows
torch.set_num_threads(1)
base, out, update, in_checkpoint = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "in-checkpoint"
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def at(done, total):
    if done == update:
        if in_checkpoint:
            torch.save = die  # the weights are written then, the optimizer is not
        else:
            die()
train_prm(toy_rows(), base, QUICK, out, progress=at)
"""


@pytest.mark.long
def test_a_run_killed_at_an_update_and_in_a_checkpoint_ends_with_the_same_weights(base: Path, tmp_path: Path) -> None:
    whole = train_prm(toy_rows(), base, QUICK, tmp_path / "whole")
    out = tmp_path / "killed"
    for update, where in ((5, "between"), (6, "in-checkpoint"), (8, "between")):
        words = [sys.executable, "-c", KILLED, str(base), str(out), str(update), where]
        assert subprocess.run(words, capture_output=True, timeout=120).returncode == -signal.SIGKILL
        torn = {"between": (), "in-checkpoint": ("checkpoint-6",)}[where]
        assert set(torn) < set(kept(out)) and len(kept(out)) <= 2
    seen: list[int] = []
    resumed = train_prm(toy_rows(), base, QUICK, out, progress=lambda done, total: seen.append(done))
    assert seen[0] == 7 and difference(whole, resumed) == 0 and not kept(out)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: writing fails in the middle, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("of_the_weights", "save_steps"),
    [
        pytest.param(0.5, 3, id="weights"),
        pytest.param(1.5, 3, id="optimizer", marks=pytest.mark.long),
        pytest.param(0.5, None, id="finished model", marks=pytest.mark.long),
    ],
)
def test_a_full_disk_is_one_error_and_the_same_call_ends_with_the_same_weights(
    of_the_weights: float, save_steps: int | None, base: Path, tmp_path: Path
) -> None:
    whole = train_prm(toy_rows(), base, QUICK, tmp_path / "whole")
    size = sum(path.stat().st_size for path in whole.folder.glob("*.safetensors"))
    config, out = replace(QUICK, save_steps=save_steps), tmp_path / "full"
    with (
        pytest.raises(OSError, match=f"no space left.*goes on.*{re.escape(str(out))}"),
        room_for(int(size * of_the_weights)),
    ):
        train_prm(toy_rows(), base, config, out)
    assert difference(whole, train_prm(toy_rows(), base, config, out)) == 0


FILES = (
    "model.safetensors",
    "optimizer.pt",
    "trainer_state.json",
    "global_step/zero_pp_rank_1_mp_rank_00_optim_states.pt",
    "global_step/.metadata",
)
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "list": lambda data: b"[]",
    "deep": lambda data: b"[" * 100_000,
}


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("basic_ios::clear: iostream error"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_full_disk_is_told_whatever_torch_calls_it(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no space left to write to"), checkpoints.full_disk_told(tmp_path):
        raise error


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [*FILES, CHECKSUMS])
def test_a_checkpoint_that_was_damaged_is_named_and_not_gone_on_from(name: str, damage: str, tmp_path: Path) -> None:
    for update in (2, 4):
        (tmp_path / f"checkpoint-{update}" / "global_step").mkdir(parents=True)
        for file in FILES:
            (tmp_path / f"checkpoint-{update}" / file).write_bytes(bytes(range(100)))
        seal(tmp_path / f"checkpoint-{update}")
    damaged = tmp_path / "checkpoint-4"
    assert last_checkpoint(tmp_path) == damaged
    (damaged / name).write_bytes(DAMAGES[damage]((damaged / name).read_bytes()))
    with pytest.warns(UserWarning, match="checkpoint-4 was damaged; it is removed"):
        assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    assert not damaged.exists()


def test_a_checkpoint_is_whole_without_what_no_object_store_is_given(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint-2"
    for name in (*FILES, "rng_state_1.pth", ".universal/zero/optimizer_state.pt"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_bytes(b"some")
    seal(checkpoint)
    (checkpoint / "rng_state_1.pth").unlink()
    (checkpoint / ".universal/zero/optimizer_state.pt").unlink()
    assert last_checkpoint(tmp_path) == checkpoint
    seal(checkpoint)
    assert last_checkpoint(tmp_path) == checkpoint, "sealed again, without a checksum of the checksums"


def test_a_damaged_checkpoint_leaves_no_trace_in_the_weights(base: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 4:
            signal.raise_signal(signal.SIGINT)

    whole = train_prm(toy_rows(), base, QUICK, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train_prm(toy_rows(), base, QUICK, tmp_path / "out", progress=stop)
    weights = tmp_path / "out" / "checkpoints" / "checkpoint-4" / "model.safetensors"
    weights.write_bytes(DAMAGES["flipped"](weights.read_bytes()))
    with pytest.warns(UserWarning, match="checkpoint-4 was damaged"):
        assert difference(whole, train_prm(toy_rows(), base, QUICK, tmp_path / "out")) == 0


def test_what_is_no_checkpoint_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-mine").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoint-7").symlink_to(tmp_path / "elsewhere")
    assert last_checkpoint(tmp_path) is None and len(list(tmp_path.iterdir())) == 3


def test_a_torn_checkpoint_is_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-9").mkdir()
    assert last_checkpoint(tmp_path) is None and not list(tmp_path.iterdir())


def updates_saved(monkeypatch: pytest.MonkeyPatch, steps: int | None, seconds: float, to_write: float) -> list[int]:
    """At which of 100 updates of so many seconds a checkpoint is asked for, if each takes so long to write."""
    clock, found = [0.0], []
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(checkpoints, "seal", lambda folder: None)
    saves = Saves(steps)
    for update in range(1, 101):
        clock[0] += seconds
        state = SimpleNamespace(global_step=update, max_steps=100, is_world_process_zero=True)
        control = SimpleNamespace(should_save=False, should_training_stop=False)
        saves.on_step_end(SimpleNamespace(world_size=1), state, control)
        if control.should_save:
            clock[0] += to_write
            saves.on_save(SimpleNamespace(output_dir="none"), state, control)
            found.append(update)
    return found


def test_checkpoints_come_after_so_many_updates_or_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    assert updates_saved(monkeypatch, 40, seconds=1, to_write=0) == [40, 80]
    assert updates_saved(monkeypatch, None, seconds=0.1, to_write=0) == [], "ten seconds are soon done again"
    assert updates_saved(monkeypatch, None, seconds=10, to_write=0)[:3] == [2, 4, 6]
    slow = updates_saved(monkeypatch, None, seconds=10, to_write=20)
    assert slow == [2, 42, 82], "writing takes at most a twentieth of the time"
