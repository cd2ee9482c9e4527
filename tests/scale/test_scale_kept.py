"""What is kept in an object store beside shards, and gone on from: checkpoints and models of trainings, seeds of the lab."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from footfall.cli import main
from footfall.scale import Remote
from footfall.store import Run, log_events
from tests.train.test_train_processes import FIT, judged


class Killed(BaseException):
    """What SIGKILL leaves: nothing is done after it."""


def train(bucket: str, seed: int, updates: int, fresh: bool = False, killed: bool = False) -> list[int]:
    """A run that goes on from the last checkpoint, as far as it has logged; the updates in the log. A killed one has sealed its
    checkpoint and put nothing of it."""
    place = Remote(bucket)
    with Run(place.folder, "rl", {"seed": seed}, fresh=fresh, place=place) as run:
        checkpoints = run.folder / "checkpoints"
        begun = max((int(path.parent.name) for path in checkpoints.glob("*/checksums.json")), default=0)
        for update in range(begun + 1, begun + updates + 1):
            run.log("update", update=update, seed=seed)
        last = checkpoints / str(begun + updates)
        last.mkdir(parents=True)
        (last / "checksums.json").write_text(f"seed {seed}")
        if killed:
            place.put_all = lambda at_end=False: None  # type: ignore[method-assign]
            raise Killed
        run.keep()
        assert {line["seed"] for line in run.logged("update")} == {seed}, "no other run's"
        return [line["update"] for line in run.logged("update")]


def test_the_index_of_a_sharded_checkpoint_is_carried_and_what_is_half_written_is_not(
    tmp_path: Path, bucket: str, machines: Callable[[str], None]
) -> None:
    machines("a")
    place = Remote(bucket)
    with Run(place.folder, "train", {}, place=place) as run:
        shards = run.folder / "checkpoints" / "checkpoint-2" / "pytorch_model_fsdp_0"
        (shards / ".universal").mkdir(parents=True)
        for name in (
            ".metadata",
            "__0_0.distcp",
            ".__1_0.distcp.0123456789ab.tmp",
            ".universal/zero.pt",
            "rng_state_1.pth",
        ):
            (shards / name).write_bytes(name.encode())
        run.keep()
    machines("b")
    place = Remote(bucket)
    with Run(place.folder, "train", {}, place=place) as run:
        shards = run.folder / "checkpoints" / "checkpoint-2" / "pytorch_model_fsdp_0"
        assert {path.name: path.read_bytes() for path in shards.iterdir()} == {
            ".metadata": b".metadata",
            "__0_0.distcp": b"__0_0.distcp",
        }


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Work on the machine of this name: each has copies of its own."""

    def on(name: str) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)

    return on


@pytest.mark.parametrize("fresh", [True, False])
def test_a_checkpoint_that_a_killed_run_left_is_not_gone_on_from_by_the_next_run_there(
    tmp_path: Path, bucket: str, machines: Callable[[str], None], fresh: bool
) -> None:
    machines("a")
    with pytest.raises(Killed):
        train(bucket, seed=1, updates=12, killed=True)
    machines("b")
    if not fresh:
        shutil.rmtree(tmp_path / "bucket")
    assert train(bucket, seed=2, updates=4, fresh=fresh) == [1, 2, 3, 4]
    machines("a")
    assert train(bucket, seed=2, updates=1) == [1, 2, 3, 4, 5]
    there = tmp_path / "bucket" / "run" / "checkpoints"
    assert {path.name: (path / "checksums.json").read_text() for path in there.iterdir()} == {
        "4": "seed 2",
        "5": "seed 2",
    }


def test_fresh_leaves_nothing_to_go_on_from_in_the_copy(bucket: str) -> None:
    assert train(bucket, seed=1, updates=12) == list(range(1, 13))
    assert train(bucket, seed=1, updates=2, fresh=True) == [1, 2]


def test_a_removal_that_was_killed_is_finished_by_another_machine(
    bucket: str, machines: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machines("a")
    assert train(bucket, seed=1, updates=3) == [1, 2, 3]

    def killed(place: Remote) -> None:
        raise Killed

    monkeypatch.setattr(Remote, "_forget", killed)
    with pytest.raises(Killed):
        train(bucket, seed=1, updates=1, fresh=True)
    monkeypatch.undo()
    machines("b")
    assert train(bucket, seed=1, updates=2) == [1, 2], "not from the checkpoint that was being thrown away"
    assert train(bucket, seed=1, updates=1) == [1, 2, 3]


def test_a_checkpoint_that_was_sealed_and_not_put_keeps_its_lines_of_the_log(bucket: str) -> None:
    with pytest.raises(Killed):
        train(bucket, seed=1, updates=3, killed=True)
    assert train(bucket, seed=1, updates=2) == [1, 2, 3, 4, 5]
    with pytest.raises(Killed):
        train(bucket, seed=1, updates=1, killed=True)
    assert train(bucket, seed=1, updates=1) == [1, 2, 3, 4, 5, 6, 7], "also where the store has the first lines"


def test_where_another_machine_has_gone_on_its_checkpoint_and_its_log_count(
    bucket: str, machines: Callable[[str], None]
) -> None:
    machines("a")
    with pytest.raises(Killed):
        train(bucket, seed=1, updates=12, killed=True)
    machines("b")
    assert train(bucket, seed=1, updates=4) == [1, 2, 3, 4]
    machines("a")
    assert train(bucket, seed=1, updates=1) == [1, 2, 3, 4, 5], "not from 12, of whose lines the store has four"


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
