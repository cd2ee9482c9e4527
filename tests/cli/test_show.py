"""`footfall show`: what there is to see of a file or a run, in the terminal or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footfall import cli
from footfall.formats import read, write, write_parquet
from footfall.types import Judgement, Problem, Step, Tree
from tests.cli.telling import told

ROWS = [
    {"id": f"t{i}", "problem": f"{i} + 1 = ?", "answer": str(i + 1), "prediction": "7", "correct": i == 6,
     "steps": ["one line", f"two\nlines {i}"], "labels": [1, None if i % 2 else 0.25]}
    for i in range(30)
]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert cli.main(["show", *words]) == 0
    return capsys.readouterr().out


def test_traces_stand_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "rows.jsonl", "--id", "t6").splitlines()
    assert lines[0] == "t6 6 + 1 = ?"
    assert lines[1:4] == ["   1 1.000  one line", "   2 0.250  two", "            lines 6"]
    assert any("answer" in line and "7, right" in line for line in lines)


def test_the_first_are_shown_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "rows.jsonl")
    assert "t19" in out and "t20" not in out and "traces  20 of 30; --limit 30 shows all" in out
    assert "t2 " in shown(capsys, "rows.jsonl", "--limit", "3") and "t3 " not in shown(
        capsys, "rows.jsonl", "--limit", "3"
    )
    assert len(told(capsys, "show", "rows.jsonl")["traces"]) == 30


def test_the_judge_is_named_as_it_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """The name by content, which tells two settings apart, stands beside it."""
    arithmetic = ["--policy", "scripted-arithmetic"]
    assert cli.main(["sample", "--problems", "world:arithmetic:1", "--n", "1", "--out", "s", *arithmetic]) == 0
    data = ["--data", "s/trajectories.parquet"]
    assert cli.main(["label", *data, "--method", "monte-carlo", "--rollouts", "2", "--out", "l", *arithmetic]) == 0
    for place in ("l", "l/judged.parquet"):
        assert "judge      monte-carlo (monte-carlo(" in shown(capsys, place)
    words = ["s/trajectories.parquet", "--judge", "length", "--to", "scored.jsonl"]
    assert cli.main(["score", *words]) == 0
    by_content = told(capsys, "score", *words)["judge"]
    assert by_content != "length" and f"judge      length ({by_content})" in shown(capsys, "scored.jsonl")
    (trace,) = told(capsys, "show", "scored.jsonl")["traces"]
    assert (trace["judge"], trace["judge_given"]) == (by_content, "length")
    (shard,) = Path("runs").glob("score-*/judgements/*.parquet")
    assert f"judge  length ({by_content})" in shown(capsys, str(shard))


def test_a_score_file_that_does_not_know_the_typed_name_is_found_in_the_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Files of before had no field for it; the run that wrote one has both the file and the judge in its records."""
    assert cli.main(["score", "rows.jsonl", "--judge", "length", "--to", "scored.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("scored.jsonl").read_text(encoding="utf-8").splitlines()]
    assert all(row["meta"].pop("judge_given") == "length" for row in rows)
    for file in ("scored.jsonl", "moved.jsonl"):
        Path(file).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert "judge      length (length(" in shown(capsys, "scored.jsonl")
    assert "judge      length(" in shown(capsys, "moved.jsonl")  # nobody knows of it


def test_a_score_file_in_the_folder_of_another_run_keeps_its_own_judge(capsys: pytest.CaptureFixture[str]) -> None:
    arithmetic = ["--policy", "scripted-arithmetic"]
    assert cli.main(["sample", "--problems", "world:arithmetic:1", "--n", "1", "--out", "s", *arithmetic]) == 0
    data = "s/trajectories.parquet"
    assert (
        cli.main(["label", "--data", data, "--method", "monte-carlo", "--rollouts", "2", "--out", "l", *arithmetic])
        == 0
    )
    assert cli.main(["score", data, "--judge", "length", "--to", "l/scored.jsonl"]) == 0
    assert "judge      length (" in shown(capsys, "l/scored.jsonl")


def test_json_has_all_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (trace,) = told(capsys, "show", "rows.jsonl", "--id", "t6")["traces"]
    assert trace == {
        "id": "t6", "problem": "6 + 1 = ?", "reference": "7", "answer": "7", "correct": True, "judge": "jsonl",
        "value": None, "steps": [{"text": "one line", "value": 1.0}, {"text": "two\nlines 6", "value": 0.25}],
    }  # fmt: skip


def test_colours_only_where_there_are_any(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in shown(capsys, "rows.jsonl")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[3" in shown(capsys, "rows.jsonl")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(capsys, "rows.jsonl")


def test_an_unknown_id_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "rows.jsonl", "--id", "t66"]) == 2
    assert "no trace and no problem is called 't66'; did you mean 't6'" in capsys.readouterr().err


def test_runs_are_shown_by_what_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    policy = ["--policy", "scripted-arithmetic"]
    assert cli.main(["sample", "--problems", "world:arithmetic:2", "--n", "2", *policy, "--out", "s"]) == 0
    assert cli.main(["label", "--data", "s/trajectories.parquet", "--method", "random", "--out", "l"]) == 0
    assert cli.main(["score", "rows.jsonl", "--judge", "random", "--out", "c"]) == 0
    search = ["search", "--problems", "world:arithmetic:2", "--method", "majority", "--n", "3", *policy]
    assert cli.main([*search, "--out", "b"]) == 0
    counts = {name: len(told(capsys, "show", name)["traces"]) for name in ("s", "l", "c", "b")}
    assert counts == {"s": 4, "l": 4, "c": 30, "b": 6}
    assert all("value" in step for trace in told(capsys, "show", "l")["traces"] for step in trace["steps"])
    chosen = [trace for trace in told(capsys, "show", "b")["traces"] if trace.get("chosen")]
    assert len(chosen) == 2 and "chosen by the search" in shown(capsys, "b")
    Path("t").mkdir()
    write_parquet("t/held_out.parquet", read("l/judged.parquet"), "judged")
    assert len(told(capsys, "show", "t")["traces"]) == 4, "what a training held out"
    Path("empty").mkdir()
    assert cli.main(["show", "empty"]) == 2


def test_a_runs_folder_given_as_data_is_answered_with_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    policy = ["--policy", "scripted-arithmetic"]
    assert cli.main(["sample", "--problems", "world:arithmetic:2", "--n", "1", *policy, "--out", "s"]) == 0
    assert cli.main(["label", "--data", "s", "--method", "random"]) == 2
    assert f"fix: pass {Path('s/trajectories.parquet')}" in capsys.readouterr().err


def test_every_kind_of_file_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree(Problem("p", "2 + 2"), separator="\n\n")
    top = tree.add(-1, Step("add"), value=0.5)
    tree.add(top, Step("4"), value=1.0)
    tree.add(top, Step("5"), value=0.0)
    write_parquet("tree.parquet", [tree], "tree")
    write_parquet("problem.parquet", [Problem("p", "2 + 2", "4")], "problem")
    write_parquet("judgement.parquet", [Judgement("t", (0.5, None), "j")], "judgement")
    write("trl.jsonl", [row for row in read("rows.jsonl") if row.judgement and None not in row.judgement.values], "trl",
          threshold=0.5)  # fmt: skip
    Path("problems.jsonl").write_text('{"question": "1 + 1 = ?", "answer": "2"}\n', encoding="utf-8")
    counts = {"tree.parquet": 2, "problem.parquet": 1, "judgement.parquet": 1, "trl.jsonl": 15, "problems.jsonl": 1}
    assert {name: len(told(capsys, "show", name)["traces"]) for name in counts} == counts
    assert "0.500" in shown(capsys, "judgement.parquet") and "1 + 1 = ?" in shown(capsys, "problems.jsonl")
