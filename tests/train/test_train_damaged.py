"""Damaged files in a training's folder: each is named with the way out of it, which is tried here, or read anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from footfall import cli
from footfall.formats import write_parquet
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.train.test_train_prm import toy_rows

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    save_checkpoint(folder / "lm", "qwen2", qwen_tokenizer(), seed=1)
    write_parquet(folder / "judged.parquet", toy_rows(), "judged")
    assert cli.main(words(folder, folder / "run")) == 0
    return folder


def words(folder: Path, run: Path) -> list[str]:
    data = ["--data", str(folder / "judged.parquet"), "--backbone", str(folder / "lm")]
    return ["train", *data, "--epochs", "1", "--device", "cpu", "--out", str(run)]


def damage(file: Path, how: str) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content if how == "flipped" else content[: len(content) // 2])


@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_damaged_held_out_traces_are_told_with_what_to_do_and_that_works(
    how: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error told nothing to do, or to run the command again, which gave the same error."""
    run = shutil.copytree(finished / "run", tmp_path / "run")
    damage(run / "held_out.parquet", how)
    assert cli.main(words(finished, run)) == 2
    said = capsys.readouterr().err
    assert f"{run}/held_out.parquet: " in said
    assert "fix: take it from a copy, or delete it and run the same command" in said
    (run / "held_out.parquet").unlink()
    model = (run / "model" / "model.safetensors").stat().st_mtime_ns
    assert cli.main(words(finished, run)) == 0
    assert (run / "model" / "model.safetensors").stat().st_mtime_ns == model, "nothing was trained anew"
    assert "Held-out traces, step by step" not in (run / "report.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["train.json", "result.json"])
def test_a_damaged_plan_or_result_is_told_with_fresh_which_trains_anew(
    name: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(finished / "run", tmp_path / "run")
    damage(run / name, "cut")
    assert cli.main(words(finished, run)) == 2
    said = capsys.readouterr().err
    assert f"{run}/{name}: " in said
    assert "take it from a copy, or train anew by --fresh (in Python resume=False)" in said
    assert cli.main([*words(finished, run), "--fresh"]) == 0
    assert (run / name).is_file()
    assert "Held-out traces, step by step" in (run / "report.html").read_text("utf-8")
