"""Rows that are too many for memory: the same sequence, files and pages, however few of them are held."""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from footfall.cli import main
from footfall.formats import (
    FormatError,
    Mapped,
    Spool,
    ids,
    iter_read,
    read_parquet,
    spool,
    spooled,
    write,
    write_parquet,
)
from footfall.metrics import Interval
from footfall.terminal import json_parts
from footfall.types import Judged, Problem, Step, Trajectory, content_key, content_key_of

TRACES = [
    Trajectory(
        f"t{i}", Problem(f"p{i // 3}", f"{i // 3} + 4?", "7"), (Step(f"step {i}"), Step("so 7")), correct=i % 2 == 0
    )
    for i in range(50)
]
LENGTHS = """
from footfall.types import Judgement
class Lengths:
    name = 'lengths'
    def judge(self, traces):
        return [Judgement(t.id, tuple(1 / len(s.text) for s in t.steps), self.name) for t in traces]
"""
SEVEN = """
from footfall.policy.protocol import Completion
from footfall.types import Step
class Seven:
    name = 'seven'
    def sample(self, prefixes, n=1, params=None, first=0):
        return [[Completion((Step('The answer is 7.'),), 'end', first + i) for i in range(n)] for _ in prefixes]
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than 20 rows are a list, and a file holds 8."""
    monkeypatch.setattr(spool, "IN_MEMORY", 20)
    monkeypatch.setattr(spool, "_A_FILE", 8)


def test_many_rows_are_a_sequence_like_their_list(few: None) -> None:
    assert spooled(iter(TRACES[:20]), "trajectory") == TRACES[:20], "few are one"
    rows = spooled(iter(TRACES), "trajectory")
    assert isinstance(rows, Spool) and len(rows) == 50
    assert list(rows) == TRACES and list(rows) == TRACES
    assert [rows[0], rows[8], rows[-1]] == [TRACES[0], TRACES[8], TRACES[49]] and rows[6:11] == TRACES[6:11]
    with pytest.raises(IndexError):
        rows[50]


def test_rows_are_written_as_they_come_with_the_bytes_of_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "whole.parquet", TRACES, "trajectory", key="k")
    monkeypatch.setattr("footfall.formats.parquet._AT_ONCE", 16)
    write_parquet(tmp_path / "some.parquet", iter(TRACES), "trajectory", key="k")
    assert (tmp_path / "some.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert read_parquet(tmp_path / "some.parquet", "trajectory", key="k") == TRACES


@pytest.mark.long
def test_the_rows_of_a_large_parquet_file_are_not_all_in_memory(tmp_path: Path) -> None:
    """Twice as many rows take no more memory, but for the file's bytes and what tells ids apart."""
    peaks = []
    for many in (8192, 16384):
        file = tmp_path / f"{many}.parquet"
        write_parquet(file, (TRACES[i % 50] for i in range(many)), "trajectory")
        tracemalloc.start()
        assert sum(len(row.trajectory.steps) for row in iter_read(file)) == 2 * many
        peaks.append(tracemalloc.get_traced_memory()[1] - file.stat().st_size)
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 128 * 8192, "a row takes more than a kilobyte, its id less than a hundred bytes"


def test_what_is_made_of_rows_side_by_side_is_a_sequence() -> None:
    made = Mapped(lambda trace, n: (trace.id, n), TRACES, range(50))
    assert len(made) == 50 and list(made)[49] == made[49] == made[-1] == ("t49", 49)
    assert made[3:5] == [("t3", 3), ("t4", 4)]


def test_rows_of_a_result_are_written_one_by_one_with_the_text_of_all_at_once() -> None:
    rows = [{"id": "a\nb", "values": [0.5, None]}, {"id": "ü", "values": []}, 3]
    for held in (rows, []):
        result = {"judge": "x", "nested": {"a": [1, {}]}, "rows": held, "cost": {}}
        lazily = {**result, "rows": Mapped(lambda row: row, held)}
        parts = list(json_parts(lazily))
        assert "".join(parts) == json.dumps(result, indent=2)
        assert "".join(json_parts(lazily, safe=True)) == json.dumps(result, indent=2, ensure_ascii=False)
        assert sum('"id"' in part for part in parts) == (2 if held else 0), "a row is a part"
    assert "".join(json_parts({})) == "{}"


def test_the_key_of_many_items_is_that_of_their_list() -> None:
    for items in ([], ["a"], [["ü", 1], {"b": None, "a": 2.5}]):
        assert content_key_of(iter(items)) == content_key(items)


def test_a_labelling_of_many_traces_is_that_of_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    again = TRACES[3]  # an id that occurs twice, for another trace
    write(
        tmp_path / "traces.jsonl",
        [Judged(t, None) for t in (*TRACES, Trajectory(again.id, again.problem, (Step("no"),)))],
        "jsonl",
    )
    (tmp_path / "judge.py").write_text(LENGTHS)
    words = [
        "label",
        "--data",
        "traces.jsonl",
        "--method",
        "judge.py:Lengths",
        "--chunk",
        "4",
        "--limit",
        "48",
        "--json",
    ]
    assert main([*words, "--out", "aaaa"]) == 0
    as_list = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(spool, "IN_MEMORY", 20)
    monkeypatch.setattr(spool, "_A_FILE", 8)
    assert main([*words, "--out", "bbbb"]) == 0
    as_spool = json.loads(capsys.readouterr().out)
    assert as_list["limited"] == as_spool["limited"] == {"used": 48, "of": 51}
    differ = ("file", "page", "seconds")
    assert {k: v for k, v in as_spool.items() if k not in differ} == {
        k: v for k, v in as_list.items() if k not in differ
    }
    assert Path("bbbb/judged.parquet").read_bytes() == Path("aaaa/judged.parquet").read_bytes()
    pages = [Path(name, "report.html").read_text().replace(name, "") for name in ("aaaa", "bbbb")]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("file", ["scored.jsonl", pytest.param("scored.parquet", marks=pytest.mark.long)])
@pytest.mark.parametrize("data", ["traces.jsonl", "traces.parquet"])
def test_scores_of_many_traces_are_those_of_a_list(
    file: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge.py").write_text(LENGTHS)
    write(data, [Judged(t, None) for t in TRACES], data.partition(".")[2])
    words = ["score", data, "--judge", "judge.py:Lengths", "--chunk", "4", "--limit", "48"]
    assert main([*words, "--out", "aaaa", "--to", f"aaaa-{file}", "--json"]) == 0
    as_list = capsys.readouterr().out
    assert main([*words, "--out", "aaaa", "--to", f"aaaa-{file}", "--show", "30"]) == 0
    shown = capsys.readouterr().out
    monkeypatch.setattr(spool, "IN_MEMORY", 20)
    monkeypatch.setattr(spool, "_A_FILE", 8)
    assert main([*words, "--out", "bbbb", "--to", f"bbbb-{file}", "--json"]) == 0
    assert capsys.readouterr().out == as_list and len(json.loads(as_list)["rows"]) == 48
    assert Path("bbbb/result.json").read_bytes() == Path("aaaa/result.json").read_bytes()
    assert Path(f"bbbb-{file}").read_bytes() == Path(f"aaaa-{file}").read_bytes()
    (lost, *_) = Path("bbbb/judgements").glob("00003-*")
    lost.unlink()
    assert main([*words, "--out", "bbbb", "--to", f"bbbb-{file}", "--show", "30"]) == 0, "it goes on"
    assert capsys.readouterr().out.replace("bbbb", "aaaa") == shown
    assert Path(f"bbbb-{file}").read_bytes() == Path(f"aaaa-{file}").read_bytes()


def test_many_samples_are_those_of_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "sample",
        "--problems",
        "world:arithmetic:10",
        "--n",
        "3",
        "--policy",
        "scripted-arithmetic",
        "--chunk",
        "4",
    ]
    found = []
    monkeypatch.setattr(spool, "_A_FILE", 3)
    for folder, most in (("aaaa", 20_000), ("bbbb", 20), ("cccc", 5)):  # a list; spooled traces; spooled problems too
        monkeypatch.setattr(spool, "IN_MEMORY", most)
        assert main([*words, "--out", folder, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        found.append(({k: v for k, v in told.items() if k not in ("file", "seconds")}, Path(told["file"]).read_bytes()))
    assert found[0] == found[1] == found[2] and found[0][0]["traces"] == 30


def test_four_times_the_problems_are_sampled_in_the_same_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each problem has 8 kB of text: held in memory, 180 more of them would show."""
    monkeypatch.chdir(tmp_path)
    for name in ("IN_MEMORY", "_A_FILE"):
        monkeypatch.setattr(spool, name, 16)
    monkeypatch.setattr("footfall.formats.parquet._AT_ONCE", 16)
    monkeypatch.setattr("footfall.metrics.intervals.share_right", lambda rates, seed: Interval(len(rates), 0.0, 0.0))
    (tmp_path / "policy.py").write_text(SEVEN)
    peaks = []
    for many in (8, 60, 240):  # the first one for what is imported, which takes long if memory is traced
        lines = (json.dumps({"id": f"p{i}", "problem": f"{i} " * 2000, "answer": "7"}) for i in range(many))
        Path("problems.jsonl").write_text("\n".join(lines))
        words = ["--problems", "problems.jsonl", "--policy", "policy.py:Seven", "--n", "2", "--chunk", "8"]
        if many > 8:
            tracemalloc.start()
        assert main(["sample", *words, "--store", "none", "--out", str(many), "--json"]) == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        told = json.loads(capsys.readouterr().out)
        assert told["traces"] == 2 * many and told["accuracy"]["value"] == many
    assert peaks[2] < 1.5 * peaks[1]


def test_a_large_file_is_read_where_it_lies_and_refused_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "traces.parquet"
    write_parquet(file, TRACES, "trajectory")
    monkeypatch.setattr("footfall.formats.parquet._MAPPED_BYTES", 1000)
    assert file.stat().st_size > 3000 and read_parquet(file, "trajectory") == TRACES
    assert [row.trajectory for row in iter_read(file)] == TRACES
    whole = file.read_bytes()
    for place in (500, len(whole) // 2, len(whole) - 300):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FormatError):
            read_parquet(file, "trajectory")


def test_memory_does_not_grow_with_the_bytes_of_a_file(tmp_path: Path) -> None:
    """By VmHWM: the ru_maxrss of a process begins with that of the one that started it."""
    code = """
import re, sys
from footfall.formats import iter_parquet, parquet, write_parquet
from footfall.types import Problem, Trajectory
import random
text, file = random.Random(0).randbytes, sys.argv[1]
rows = (Trajectory(f"t{i}", Problem(f"p{i}", text(8000).hex(), "7")) for i in range(8000))
parquet._GROUP_BYTES = parquet._MAPPED_BYTES = 1 << 20
if sys.argv[2] == "write":
    write_parquet(file, rows, "trajectory")
else:
    parquet._MAPPED_BYTES, parquet._AT_ONCE = int(sys.argv[2]), 64
    assert sum(1 for _ in iter_parquet(file, "trajectory")) == 8000
    print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""
    file = str(tmp_path / "traces.parquet")
    words = [sys.executable, "-c", code, file]
    subprocess.run([*words, "write"], check=True)
    saved = []
    for _ in range(3):  # what else is in memory at the highest point differs from run to run
        held, mapped = (int(subprocess.check_output([*words, str(most)])) for most in (1 << 40, 1 << 20))
        saved.append(held - mapped)
        if saved[-1] > 0.5 * Path(file).stat().st_size / 1024:
            return
    pytest.fail(f"a mapped file of {Path(file).stat().st_size // 1024} kB saves {saved} kB")


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    code = """
import os, signal
from footfall.formats import spool, spooled
from tests.formats.test_formats_spool import TRACES
spool.IN_MEMORY = 3
kept = spooled(TRACES, "trajectory")
print("ready", flush=True)
WHAT
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def start(then: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", code.replace("WHAT", then)]
        process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    with start("os.kill(os.getpid(), signal.SIGKILL)") as killed:
        killed.wait()
    with start("input()") as living:
        (dead, own) = sorted(tmp_path.iterdir(), key=lambda folder: folder.stat().st_mtime)
        for folder in (dead, own):
            os.utime(folder, (1, 1))
        with start("pass") as third:
            third.communicate()
        assert list(tmp_path.iterdir()) == [own], "the one that is in use stays"
        living.communicate("\n")
    assert not list(tmp_path.iterdir())


def test_rows_of_another_machine_and_of_a_link_stay_and_a_rest_without_a_lock_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    mine = tmp_path / "mine"
    rest, elsewhere = (tmp_path / "tmp" / f"footfall-rows-{name}" for name in ("rest", "elsewhere"))
    for folder in (mine, rest, elsewhere):
        folder.mkdir(parents=True)
        (folder / "0000000.parquet").write_text("rows")
    (elsewhere / ".lock").write_text("another machine")
    (tmp_path / "tmp" / "footfall-rows-link").symlink_to(mine)
    for path in (rest, elsewhere, tmp_path / "tmp" / "footfall-rows-link"):
        os.utime(path, (1, 1), follow_symlinks=False)
    made = spool._Folder()
    assert not rest.exists() and (elsewhere / "0000000.parquet").exists()
    assert [path.name for path in mine.iterdir()] == ["0000000.parquet"]
    assert (made.path / ".lock").read_text() == socket.gethostname()


def test_files_of_a_run_are_held_by_some_bytes_each(tmp_path: Path) -> None:
    keys = [content_key(number)[:16] for number in range(20_000)]
    shards = spool.Shards(tmp_path)
    tracemalloc.start()
    for key in keys:
        shards.add(key)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 12 * len(keys), "where a path takes hundreds"
    names = [path.name for path in shards]
    assert names == [f"{number:05d}-{key}.parquet" for number, key in enumerate(keys)]
    assert shards[-1] == tmp_path / names[-1] and shards[3:5] == [tmp_path / name for name in names[3:5]]


def test_a_full_disk_under_many_ids_is_told_with_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def small(*words: Any, **given: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(*words, **given)
        database.execute("PRAGMA max_page_count = 2")
        return database

    monkeypatch.setattr(ids, "_IDS_IN_MEMORY", 1000)
    monkeypatch.setattr(sqlite3, "connect", small)
    monkeypatch.setattr(tempfile, "gettempdir", iter(["the folder", "another that is not full"]).__next__)
    once = ids.Once()
    with pytest.raises(OSError, match="no space left for ids") as full:
        for number in range(2000):
            once.put(f"id {number}", number)
    assert full.value.filename == "the folder" and full.value.errno == errno.ENOSPC


def test_another_fault_under_many_ids_is_not_told_as_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: Any, **given: Any) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(ids, "_IDS_IN_MEMORY", 1)
    monkeypatch.setattr(sqlite3, "connect", refused)
    with pytest.raises(OSError, match=r"temporary file of ids failed .unable to open database file.; TMPDIR") as failed:
        ids.Once().put("id", 1)
    assert failed.value.errno == errno.EIO and failed.value.filename == tempfile.gettempdir()
