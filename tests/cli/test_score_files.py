"""Files that `score` writes, whose threshold it uses, and names that are a file's where a folder is meant."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from footfall import cli
from footfall.formats import atomic_write, read, write
from footfall.judging import Traits
from footfall.metrics.cases import Constant
from tests.cli.telling import told

SCORE = ["score", "rows.jsonl", "--judge", "random", "--to", "scored.jsonl"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given(5)


def given(count: int) -> None:
    rows = [{"id": f"t{i}", "problem": f"{i}?", "steps": ["a", "b"], "labels": [1, i % 2]} for i in range(count)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def test_the_same_command_again_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(SCORE) == 0
    before = Path("scored.jsonl").read_bytes()
    assert cli.main(SCORE) == 0 and Path("scored.jsonl").read_bytes() == before
    Path("scored.jsonl").unlink()
    assert cli.main(SCORE) == 0 and Path("scored.jsonl").read_bytes() == before


def test_what_was_read_from_shards_is_written_as_what_was_judged_just_now(capsys: pytest.CaptureFixture[str]) -> None:
    """As after a kill, or where workers judged: the aspects of this judge are not in the order of the alphabet."""
    assert (
        cli.main(["sample", "--problems", "world:arithmetic:3", "--policy", "scripted-arithmetic", "--out", "s"]) == 0
    )
    words = ["score", "s/trajectories.parquet", "--judge", "truth-arithmetic", "--to", "scored.jsonl"]
    assert cli.main(words) == 0
    before = Path("scored.jsonl").read_bytes()
    assert b'"aspects": {"consequent"' in before
    Path("scored.jsonl").unlink()
    assert cli.main(words) == 0 and Path("scored.jsonl").read_bytes() == before


def test_what_is_scored_is_not_scored_again_because_the_chunks_are_cut_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With other chunks nothing that is kept fits; a run of hours would begin anew without a word."""
    assert cli.main([*SCORE[:4], "--chunk", "2"]) == 0
    assert cli.main([*SCORE[:4], "--chunk", "3"]) == 2
    assert "config.chunk: 2 there, 3 now" in capsys.readouterr().err
    assert cli.main([*SCORE[:4], "--chunk", "3", "--fresh"]) == 0


def test_a_file_that_another_run_wrote_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("scored.jsonl").write_text("mine\n", encoding="utf-8")
    for _ in range(2):
        assert cli.main(SCORE) == 2
        assert "is already there, and this run did not write it; pass --fresh" in capsys.readouterr().err
    assert Path("scored.jsonl").read_text(encoding="utf-8") == "mine\n"
    assert cli.main([*SCORE, "--fresh"]) == 0 and len(read("scored.jsonl")) == 5


def test_other_traces_do_not_replace_the_scores_of_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(SCORE) == 0
    given(6)
    assert cli.main(SCORE) == 2
    assert "already there" in capsys.readouterr().err and len(read("scored.jsonl")) == 5


def test_a_run_that_was_moved_knows_the_file_that_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(SCORE) == 0
    before = Path("scored.jsonl").read_bytes()
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    monkeypatch.chdir(moved)
    assert cli.main(SCORE) == 0 and Path("scored.jsonl").read_bytes() == before
    copied = Path(shutil.copytree(moved, moved / "copied"))
    (copied / "scored.jsonl").write_text("mine\n", encoding="utf-8")
    monkeypatch.chdir(copied)
    assert cli.main(SCORE) == 2
    assert "this run did not write it" in capsys.readouterr().err


def test_what_a_killed_writer_left_is_swept_and_a_living_ones_file_is_not(tmp_path: Path) -> None:
    writing = (
        "import os, signal; from footfall.formats import atomic_write\n"
        "with atomic_write('scored.jsonl') as stream: stream.write(b'half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with atomic_write("scored.jsonl") as stream:
        stream.write(b"")
        done = subprocess.run([sys.executable, "-c", writing], env=os.environ)
        assert done.returncode == -signal.SIGKILL and len(list(tmp_path.glob(".scored.jsonl.*.tmp"))) == 2
        write("scored.jsonl", read("rows.jsonl"), "jsonl")
        assert len(list(tmp_path.glob(".scored.jsonl.*.tmp"))) == 1, "that of this process"
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["score", "rows.jsonl", "--judge", "random", "--out", "scored.jsonl"], "pass --to scored.jsonl"),
        (
            ["label", "--data", "rows.jsonl", "--method", "random", "--out", "judged.parquet"],
            "its files are written into it",
        ),
        (
            ["bench", "steps", "--data", "rows.jsonl", "--judge", "random", "--out", "report.html"],
            "its files are written",
        ),
    ],
)
def test_a_file_name_for_a_folder_is_refused_with_the_fix(
    words: list[str], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert fix in capsys.readouterr().err and not Path(words[-1]).exists()


def test_the_judges_own_threshold_is_used_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["score", "rows.jsonl", "--judge", "always-wrong"]
    found = told(capsys, *words)
    assert (found["threshold"], found["threshold_policy"], found["rows"][0]["first_error"]) == (0.5, "usual", 0)
    monkeypatch.setattr(Constant, "traits", Traits(threshold=-1.0), raising=False)
    found = told(capsys, *words)
    assert (found["threshold"], found["threshold_policy"]) == (-1.0, "the judge's own")
    assert found["rows"][0]["first_error"] == -1
    assert told(capsys, *words, "--threshold", "0.25")["threshold_policy"] == "given"
    assert cli.main(words) == 0 and "-1 (the judge's own)" in capsys.readouterr().out


def test_the_data_themselves_are_never_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("rows.jsonl").read_bytes()
    assert cli.main(["score", "rows.jsonl", "--judge", "random", "--to", "./rows.jsonl", "--fresh"]) == 2
    assert "is the data that are scored; name another file" in capsys.readouterr().err
    assert Path("rows.jsonl").read_bytes() == before


def test_json_says_of_each_trace_why_a_step_has_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": "a", "problem": "2 + 3?", "steps": ["2 + 3 = 5", "So it is."]},
        {"problem": "?", "steps": ["1 + 1 = 2"]},
    ]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    first, second = told(capsys, "score", "rows.jsonl", "--judge", "formal")["rows"]
    assert first["values"] == [1.0, None]
    assert first["failures"][0] is None and first["failures"][1].startswith("[uncheckable] ")
    assert "failures" not in second
