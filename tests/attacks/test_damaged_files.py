"""A file of ours that was damaged is refused, named and made again; it is never read as other rows."""

from __future__ import annotations

import os
import random
import resource
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from footfall.drive.rollout_store import RolloutStore
from footfall.formats import FormatError, parquet_kind, parquet_pages, read_parquet, write_parquet
from footfall.formats.parquet import read_ids
from footfall.policy.protocol import Completion, SamplingParams
from footfall.store import Run, keep_json, kept_json
from footfall.types import Problem, Step, Trajectory
from tests.sizes import SOAK


def traces(count: int = 20) -> list[Trajectory]:
    problem = Problem("p", "What is 2 + 2?", "4")
    return [
        Trajectory(f"t{k}", problem, (Step(f"{k} + {k} = {2 * k}."), Step("The answer is 4."))) for k in range(count)
    ]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def flips_that_are_read(path: Path, bits: Iterable[int]) -> list[int]:
    """The bits whose flip is read without an error. One byte is written at a time: a file that is truncated and written again
    waits for the disk."""
    data, read = path.read_bytes(), []
    with path.open("r+b", buffering=0) as stream:
        for bit in bits:
            os.pwrite(stream.fileno(), bytes([data[bit // 8] ^ 1 << bit % 8]), bit // 8)
            try:
                read_parquet(path, "trajectory")
            except FormatError:
                continue
            else:
                read.append(bit)
            finally:
                os.pwrite(stream.fileno(), data[bit // 8 : bit // 8 + 1], bit // 8)
    assert path.read_bytes() == data
    return read


def test_no_flipped_bit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_parquet(path, traces(), "trajectory")
    size = 8 * path.stat().st_size
    assert flips_that_are_read(path, random.Random(1).sample(range(size), 400)) == []
    assert flips_that_are_read(path, range(size - 800, size)) == []


@pytest.mark.long
def test_no_byte_of_a_whole_file_can_be_changed_by_a_bit(tmp_path: Path) -> None:
    """One bit of every byte, drawn by a seed; with FOOTFALL_SOAK=1 all eight."""
    path = tmp_path / "rows.parquet"
    write_parquet(path, traces(3), "trajectory")
    draw, size = random.Random(2), path.stat().st_size
    drawn = (8 * byte + draw.randrange(8) for byte in range(size))
    assert flips_that_are_read(path, range(8 * size) if SOAK else drawn) == []


def test_equal_rows_give_equal_bytes_and_the_rows_come_back(tmp_path: Path) -> None:
    for name in "a", "b":
        write_parquet(tmp_path / name, traces(), "trajectory", key="k")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_parquet(tmp_path / "a", "trajectory", key="k") == traces()
    with pytest.raises(FormatError, match="expected the rows of other, got those of k"):
        read_parquet(tmp_path / "a", "trajectory", key="other")
    assert parquet_kind(tmp_path / "a") == "trajectory"


def foreign(path: Path, table: pa.Table, **options: Any) -> Path:
    """A file that says it is one of ours, of the version that had no checksum."""
    marked = table.replace_schema_metadata({"footfall.kind": "trajectory", "footfall.version": "1"})
    pq.write_table(marked, path, compression="zstd", **options)
    return path


def test_a_bomb_of_repeated_entries_takes_no_memory(tmp_path: Path) -> None:
    """One text of 500 KB, and 400,000 times its number: 200 GB of rows in a file of a few KB."""
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(400_000, np.int32)), ["x" * 500_000])
    listed = pa.ListArray.from_arrays(pa.array([0, 400_000], pa.int32()), ids)
    for table in (pa.table({"id": ids}), pa.table({"steps": listed})):
        path = foreign(tmp_path / "bomb.parquet", table)
        assert path.stat().st_size < 10_000
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for read in (read_parquet, read_ids):
            with pytest.raises(FormatError, match=r"at most 268435456 bytes unpacked.*got 2000005"):
                read(path, "trajectory")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_bombs_of_packed_pages_empty_values_and_prefixes_are_refused(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_pages, "UNPACKED_LIMIT", 2**20)
    monkeypatch.setattr(parquet_pages, "VALUES_LIMIT", 2**16)
    path = tmp_path / "bomb.parquet"
    plain: dict[str, Any] = {"use_dictionary": False, "data_page_version": version}
    with pytest.raises(FormatError, match=r"unpacked from \d+, got 3\d{6}"):
        read_parquet(foreign(path, pa.table({"id": ["x" * (3 << 20)]}), **plain), "trajectory")
    with pytest.raises(FormatError, match="at most 65536 values"):
        read_parquet(foreign(path, pa.table({"id": pa.nulls(2**17, pa.string())}), **plain), "trajectory")
    with pytest.raises(FormatError, match="texts written as changes"):
        encoded = {"column_encoding": {"id": "DELTA_BYTE_ARRAY"}, **plain}
        read_parquet(foreign(path, pa.table({"id": ["x" * 1000] * 10}), **encoded), "trajectory")
    with pytest.raises(FormatError, match="bytes unpacked"):
        wide = pa.array([b"x" * 2000, *[None] * 2000], pa.binary(2000))
        read_parquet(foreign(path, pa.table({"id": wide}), data_page_version=version), "trajectory")


def test_rows_that_repeat_a_lot_in_several_groups_are_no_bomb(tmp_path: Path) -> None:
    """A pool of samples: names and answers recur in every group, so their repetitions have to be counted."""
    problems = [Problem(f"problem {k} " + "x" * 60, "", "7") for k in range(300)]
    traces = [
        Trajectory(f"{p.id} {k}", p, (), str(k % 9), meta={"same as": k % 9}) for p in problems for k in range(60)
    ]
    write_parquet(tmp_path / "pool.parquet", traces, "trajectory")
    assert read_parquet(tmp_path / "pool.parquet", "trajectory") == traces


def test_rows_that_repeat_a_lot_are_no_bomb(tmp_path: Path) -> None:
    """A long problem in every row: the dictionary alone would allow for far more, so it is counted."""
    problem = Problem("p", "What is 2 + 2? " * 20_000, "4")
    rows = [Trajectory(f"t{k}", problem, (Step("4"),)) for k in range(600)]
    write_parquet(tmp_path / "rows.parquet", rows, "trajectory")
    assert read_parquet(tmp_path / "rows.parquet", "trajectory") == rows


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


def test_figures_that_a_study_kept_are_read_as_they_were_or_made_again(tmp_path: Path) -> None:
    path, figures = tmp_path / "unit.json", {"arms": {"a": [0.25, 1]}, "cost": {"seconds": 2.5}}
    assert keep_json(path, figures) == figures == kept_json(path)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        path.write_bytes(flipped(whole, bit))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = kept_json(path)
        assert found == figures or (
            found is None and "unit.json.damaged" in str(told[-1].message) and not path.exists()
        )


@pytest.mark.parametrize(
    "damage", [b"", b"[]", b'{"kept": 3}', b'{"kept": {"a": NaN}, "checksum": ""}', b"[" * 100_000]
)
def test_what_is_no_figures_is_set_aside(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "unit.json"
    path.write_bytes(damage)
    with pytest.warns(UserWarning, match=r"unit.json.damaged; what it held is made again"):
        assert kept_json(path) is None
    assert not path.exists()


def test_figures_of_an_earlier_version_are_still_read(tmp_path: Path) -> None:
    (tmp_path / "unit.json").write_text('{"arms": {}}')
    assert kept_json(tmp_path / "unit.json") == {"arms": {}}


def test_a_pipe_is_no_parquet_file(tmp_path: Path) -> None:
    """`footfall show` asks for the kind of the files in a run's folder."""
    os.mkfifo(tmp_path / "rows.parquet")
    with pytest.raises(FormatError, match="a folder, pipe or device"):
        parquet_kind(tmp_path / "rows.parquet")
