"""What is kept in an object store beside shards, and gone on from: checkpoints and models of trainings, seeds of the lab."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footfall.cli import main
from footfall.scale import Remote
from footfall.store import Run, log_events
from tests.train.test_train_processes import FIT, judged


class Killed(BaseException):
    """What SIGKILL leaves: nothing is done after it."""


@pytest.mark.long
def test_a_training_goes_on_elsewhere_from_its_checkpoint_and_leaves_its_model_in_the_store(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = judged(tmp_path)
    words = ["train", "--data", str(data), *FIT, "--out"]
    assert main([*words, "plain"]) == 0
    keep = Run.keep
    with monkeypatch.context() as once, pytest.raises(Killed):

        def killed(run: Run) -> None:
            keep(run)
            once.setattr(Remote, "put_all", lambda *_, **__: None)  # at the end as little is put as a kill lets be
            raise Killed

        once.setattr(Run, "keep", killed)
        main([*words, bucket])
    there = tmp_path / "bucket" / "run"
    assert (there / "checkpoints" / "checkpoint-2" / "checksums.json").is_file() and not (there / "model").exists()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    capsys.readouterr()
    assert main([*words, bucket]) == 0
    result, plain = (json.loads((folder / "result.json").read_text()) for folder in (there, tmp_path / "plain"))
    assert result["curve"] == plain["curve"]
    assert [line["update"] for line in log_events(there / "log.jsonl") if line["event"] == "update"] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    models = [{path.name: path.read_bytes() for path in folder.glob("model/*.safetensors")}
              for folder in (there, tmp_path / "plain")]  # fmt: skip
    assert models[0] and models[0] == models[1]
    assert not (there / "checkpoints").exists() or not list((there / "checkpoints").rglob("*.safetensors"))


def test_seeds_of_the_lab_lie_in_the_store_and_are_not_measured_again(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert main(["lab", "run", "aurora", "--quick", "--seeds", "1", "--out", bucket]) == 0
        assert not [path for path in (tmp_path / folder).iterdir() if path.name.startswith("file")]
    there = tmp_path / "bucket" / "run"
    assert len(list(there.glob("seeds/*.json"))) == 1 and (there / "result.json").is_file()
    assert len([line for line in log_events(there / "log.jsonl") if line["event"] == "stage"]) == 1


def test_a_comparison_on_this_machine_is_not_put_into_a_store(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("trl")
    assert main(["rl", "--quick", "--out", bucket]) == 2
    assert "name a folder" in capsys.readouterr().err
