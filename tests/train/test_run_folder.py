"""The folder of a training: what is left of one whose removal was cut short is no finished run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from footfall.reward.config import CONFIG_FILE
from footfall.train.run import CHECKPOINTS, MODEL, RESULT, open_run, remove_run

PLAN: dict[str, Any] = {"config": {"seed": 0}}


@pytest.mark.parametrize("remove", [remove_run, lambda out: open_run(out, PLAN, resume=False)], ids=["remove", "anew"])
def test_a_run_that_was_removed_in_part_is_no_finished_one(
    remove: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_run(tmp_path, PLAN, resume=True) is None
    (tmp_path / MODEL).mkdir()
    for name in (CONFIG_FILE, "tokenizer.json"):
        (tmp_path / MODEL / name).write_text("{}")
    (tmp_path / RESULT).write_text("{}")
    assert open_run(tmp_path, PLAN, resume=True) == {}

    def killed(folder: Path, **given: Any) -> None:
        (tmp_path / MODEL / "tokenizer.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as cut_short:
        cut_short.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(tmp_path)
    assert (tmp_path / MODEL / CONFIG_FILE).exists()
    assert open_run(tmp_path, PLAN, resume=True) is None


def test_checkpoints_that_a_killed_removal_left_are_not_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_run(tmp_path, PLAN, resume=True) is None
    (tmp_path / CHECKPOINTS / "checkpoint-5").mkdir(parents=True)

    def killed(folder: Path, **given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut_short:
        cut_short.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            open_run(tmp_path, PLAN, resume=False)
    assert (tmp_path / CHECKPOINTS).exists()
    assert open_run(tmp_path, PLAN, resume=True) is None
    assert not (tmp_path / CHECKPOINTS).exists()


def test_a_run_that_was_refused_does_not_hold_its_folder_against_the_corrected_one(tmp_path: Path) -> None:
    """A setting that was mended was told to choose another folder."""
    assert open_run(tmp_path, PLAN, resume=True) is None
    mended = {"config": {"seed": 1}}
    assert open_run(tmp_path, mended, resume=True) is None
    (tmp_path / CHECKPOINTS).mkdir()
    with pytest.raises(ValueError, match="holds a run with other config; choose another folder"):
        open_run(tmp_path, PLAN, resume=True)
    assert open_run(tmp_path, mended, resume=True) is None
