"""A file of ours that was damaged is refused, named and made again; it is never read as other rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from footfall.drive.rollout_store import RolloutStore
from footfall.formats import FormatError, parquet_kind, read_parquet, write_parquet
from footfall.policy.protocol import Completion, SamplingParams
from footfall.store import Run
from footfall.types import Problem, Step, Trajectory


def traces(count: int = 20) -> list[Trajectory]:
    problem = Problem("p", "What is 2 + 2?", "4")
    return [
        Trajectory(f"t{k}", problem, (Step(f"{k} + {k} = {2 * k}."), Step("The answer is 4."))) for k in range(count)
    ]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def flips_that_are_read(path: Path, bits: Sequence[int]) -> list[int]:
    """The bits whose flip is read without an error."""
    data, read = path.read_bytes(), []
    for bit in bits:
        path.write_bytes(flipped(data, bit))
        try:
            read_parquet(path, "trajectory")
        except FormatError:
            continue
        read.append(bit)
    path.write_bytes(data)
    return read


def test_no_flipped_bit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_parquet(path, traces(), "trajectory")
    size = 8 * path.stat().st_size
    assert flips_that_are_read(path, random.Random(1).sample(range(size), 400)) == []
    assert flips_that_are_read(path, range(size - 800, size)) == []


@pytest.mark.long
def test_no_bit_of_a_whole_file_can_be_flipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_parquet(path, traces(3), "trajectory")
    assert flips_that_are_read(path, range(8 * path.stat().st_size)) == []


def test_equal_rows_give_equal_bytes_and_the_rows_come_back(tmp_path: Path) -> None:
    for name in "a", "b":
        write_parquet(tmp_path / name, traces(), "trajectory", key="k")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_parquet(tmp_path / "a", "trajectory", key="k") == traces()
    with pytest.raises(FormatError, match="expected the rows of other, got those of k"):
        read_parquet(tmp_path / "a", "trajectory", key="other")
    assert parquet_kind(tmp_path / "a") == "trajectory"


def run(folder: Path, done: list[str]) -> list[Trajectory]:
    def work(part: Sequence[Trajectory]) -> list[Trajectory]:
        done.extend(trace.id for trace in part)
        return list(part)

    with Run(folder, "test", {}) as job:
        return job.map("stage", traces(6), work, key=lambda trace: trace.id, kind="trajectory", chunk=2)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "another chunk's"])
def test_a_damaged_chunk_is_set_aside_and_made_again(damage: str, tmp_path: Path) -> None:
    before = run(tmp_path, [])
    shards = sorted((tmp_path / "stage").glob("*.parquet"))
    whole = shards[1].read_bytes()
    damaged = {
        "flip": flipped(whole, 4_000),
        "cut": whole[:-9],
        "empty": b"",
        "another chunk's": shards[0].read_bytes(),
    }
    shards[1].write_bytes(damaged[damage])
    done: list[str] = []
    with pytest.warns(UserWarning, match=rf"{shards[1].name}.*made again"):
        assert run(tmp_path, done) == before
    assert done == ["t2", "t3"]
    assert shards[1].read_bytes() == whole
    assert shards[1].with_name(f"{shards[1].name}.damaged").exists()


def test_a_chunk_of_a_newer_version_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, [])
    shards = sorted((tmp_path / "stage").iterdir())
    monkeypatch.setattr("footfall.formats.parquet.VERSION", 1)
    done: list[str] = []
    with pytest.raises(FormatError, match="update footfall"):
        run(tmp_path, done)
    assert done == [] and sorted((tmp_path / "stage").iterdir()) == shards


def test_a_damaged_shard_of_the_rollout_store_is_sampled_again(tmp_path: Path) -> None:
    book = RolloutStore.book("policy", SamplingParams())
    completion = Completion((Step("The answer is 4."),), "end", 0)
    RolloutStore(tmp_path).put(book, [("address", completion)])
    (shard,) = (tmp_path / book).glob("*.parquet")
    shard.write_bytes(flipped(shard.read_bytes(), 900))
    with pytest.warns(UserWarning, match="damaged"):
        assert RolloutStore(tmp_path).get(book, "address", [0]) == {}
    RolloutStore(tmp_path).put(book, [("address", completion)])
    assert RolloutStore(tmp_path).get(book, "address", [0]) == {0: completion}
