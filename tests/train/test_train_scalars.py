"""`footfall train --log`: figures by update in TensorBoard and Weights & Biases, here by modules that only remember."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from footfall import cli
from footfall.formats import write_parquet
from footfall.train.checkpoints import Saves
from footfall.train.scalars import Log, Scalars
from tests.train.test_train_prm import base as base  # a fixture
from tests.train.test_train_prm import toy_rows


class Remembered:
    """Stands in for either package: what was opened, written and closed."""

    def __init__(self) -> None:
        self.opened: list[dict[str, Any]] = []
        self.scalars: dict[tuple[str, int], float] = {}
        self.closed: list[Any] = []

    def SummaryWriter(self, folder: str, purge_step: int) -> Remembered:  # noqa: N802
        self.opened.append({"folder": folder, "from": purge_step})
        return self

    def add_scalar(self, name: str, value: float, update: int) -> None:
        self.scalars[name, update] = value

    def close(self) -> None:
        self.closed.append(None)

    def init(self, **given: Any) -> Remembered:
        self.opened.append(given)
        return self

    def log(self, figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            self.add_scalar(name, value, step)

    def finish(self, exit_code: int) -> None:
        self.closed.append(exit_code)


def stand_in(monkeypatch: pytest.MonkeyPatch, to: Log) -> Remembered:
    remembered = Remembered()
    name = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}[to]
    module = ModuleType(name)
    module.__dict__.update(SummaryWriter=remembered.SummaryWriter, init=remembered.init)
    monkeypatch.setitem(sys.modules, name, module)
    return remembered


@pytest.fixture
def words(base: Path, tmp_path: Path) -> list[str]:
    write_parquet(tmp_path / "judged.parquet", toy_rows(), "judged")
    given = ["train", "--data", str(tmp_path / "judged.parquet"), "--backbone", str(base), "--lr", "3e-3"]
    return [*given, "--device", "cpu", "--epochs", "2", "--out", str(tmp_path / "run")]


@pytest.mark.long
def test_either_log_has_loss_and_rate_by_update_and_held_out_figures_by_epoch(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(words) == 0
    plain = json.loads((tmp_path / "run" / "result.json").read_text())
    updates, logs = plain["updates"], dict[str, Remembered]()
    for to in ("tensorboard", "wandb"):
        logs[to] = stand_in(monkeypatch, to)
        assert cli.main([*words[:-1], str(tmp_path / to), "--log", to]) == 0
        result = json.loads((tmp_path / to / "result.json").read_text())
        assert (result["metrics"], result["curve"]) == (plain["metrics"], plain["curve"])
        seen = logs[to].scalars
        assert [[u, seen["train/loss", u]] for u in range(1, updates + 1)] == plain["curve"]
        assert seen["train/lr", 1] > 0
        assert sorted(u for name, u in seen if name == "held_out/step_auc") == [updates // 2, updates]
        assert {n: seen[f"held_out/{n}", updates] for n in plain["metrics"]} == pytest.approx(plain["metrics"])
    assert logs["tensorboard"].opened == [{"folder": str(tmp_path / "tensorboard" / "tensorboard"), "from": 1}]
    (opened,) = logs["wandb"].opened
    assert (opened["project"], opened["name"], opened["config"]["lr"]) == ("footfall", "wandb", 0.003)
    assert logs["tensorboard"].closed == [None] and logs["wandb"].closed == [0]


def test_a_training_that_was_stopped_goes_on_in_its_log_and_a_finished_one_opens_none(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Saves.on_step_end

    def stop(self: Saves, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.asked_to_stop = state.global_step == 2
        asked(self, args, state, control, **given)

    log = stand_in(monkeypatch, "tensorboard")
    with monkeypatch.context() as patch:
        patch.setattr(Saves, "on_step_end", stop)
        assert cli.main([*words, "--log", "tensorboard"]) == 130
    wandb = stand_in(monkeypatch, "wandb")
    assert cli.main([*words, "--log", "tensorboard"]) == 0
    assert [opened["from"] for opened in log.opened] == [1, 3] and log.closed == [None, None]
    assert cli.main([*words, "--log", "wandb"]) == 0  # it is finished
    assert wandb.opened == []


def test_weights_and_biases_that_refuse_are_told_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their errors are of a class of their own, which the command line does not know."""

    class Refused(Exception):
        pass

    def init(**_: object) -> None:
        raise Refused("No API key configured.")

    stand_in(monkeypatch, "wandb")
    sys.modules["wandb"].__dict__.update(init=init, Error=Refused)
    with pytest.raises(ValueError, match=r"^--log wandb: .*No API key.*WANDB_MODE=offline"):
        Scalars("wandb", tmp_path, {}).write("train", {"update": 1, "loss": 0.5})


@pytest.mark.long
def test_what_transformers_says_of_an_offline_mode_stays_out_of_the_output() -> None:
    script = "from footfall import cli; cli.main(['--version']); import footfall.train.trainer"
    offline = {**os.environ, "WANDB_MODE": "offline"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=offline, check=True)
    assert done.stdout.count("\n") == 1 and done.stdout.startswith("footfall ")


@pytest.mark.parametrize("to", ["tensorboard", "wandb"])
def test_without_the_package_one_line_says_how_to_install_it(
    to: Log, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}[to], None)
    assert cli.main([*words, "--log", to]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.endswith(f"--log {to} needs the package {to}; install it with: pip install {to}")
    assert not (tmp_path / "run").exists()
