"""`--skip-bad`: bad records are left out, counted and told; without it the first one ends the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footfall import cli

GOOD = '{"id": "t%d", "problem": "%d + 1 = ?", "steps": ["a", "b"], "answer": "2", "labels": [1, %d]}\n'
BAD = '{"problem": "?", "steps": 3}\n'
FILE = "".join(GOOD % (i, i, i % 2) for i in range(6)) + BAD + "not JSON\n" + BAD * 6


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traces.jsonl").write_text(FILE, encoding="utf-8")


COMMANDS = [
    ["info", "traces.jsonl"],
    ["score", "traces.jsonl", "--judge", "random"],
    ["label", "--data", "traces.jsonl", "--method", "random"],
    ["calibrate", "--data", "traces.jsonl", "--judge", "random", "--method", "temperature"],
    ["bench", "steps", "--data", "traces.jsonl", "--judge", "random"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=[words[0] for words in COMMANDS])
def test_bad_records_are_left_out_only_if_that_is_asked_for(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert 'traces.jsonl, line 7, field "steps"' in capsys.readouterr().err
    assert cli.main([*words, "--skip-bad", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)
    assert "--skip-bad left out 8 bad records" in shown.err
    assert all(f"traces.jsonl, line {line}" in shown.err for line in range(7, 12))
    assert "and 3 more" in shown.err


def test_info_counts_what_it_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "traces.jsonl", "--skip-bad", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["judged"], told["skipped"]["records"]) == (6, 6, 8)
    assert "line 7" in told["skipped"]["first"][0]


def test_info_finds_the_format_behind_a_bad_first_record(capsys: pytest.CaptureFixture[str]) -> None:
    Path("late.jsonl").write_text('not JSON\n{"foo": 1}\n' + GOOD % (0, 0, 0), encoding="utf-8")
    assert cli.main(["info", "late.jsonl", "--skip-bad", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["rows"], told["skipped"]["records"]) == ("jsonl", 1, 2)


@pytest.mark.parametrize("first", ['{"problem": 3}\n', BAD, '{"messages": 3}\n'])
def test_a_record_that_cannot_be_read_does_not_name_the_format(first: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("late.jsonl").write_text(first + GOOD % (0, 0, 0), encoding="utf-8")
    assert cli.main(["info", "late.jsonl", "--skip-bad", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["format"]) == ("data: trajectory", "jsonl")
    assert (told["rows"], told["skipped"]["records"]) == (1, 1)


def test_a_bad_image_is_skipped_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    image = '{"problem": "?", "images": ["data:image/png;base64,@@@"], "steps": ["a"]}\n'
    Path("images.jsonl").write_text(GOOD % (0, 0, 0) + image + GOOD % (1, 1, 1), encoding="utf-8")
    assert cli.main(["info", "images.jsonl", "--skip-bad", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["skipped"]["records"]) == (2, 1) and "line 2" in told["skipped"]["first"][0]


def test_a_file_with_nothing_bad_is_told_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.jsonl").write_text(GOOD % (0, 0, 0), encoding="utf-8")
    assert cli.main(["score", "good.jsonl", "--judge", "random", "--skip-bad", "--json"]) == 0
    assert "--skip-bad" not in capsys.readouterr().err


def test_the_run_is_the_same_with_and_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.jsonl").write_text(GOOD % (0, 0, 0), encoding="utf-8")
    for more in ([], ["--skip-bad"]):
        assert cli.main(["score", "good.jsonl", "--judge", "random", *more]) == 0
    assert len(list(Path("runs").glob("score-*"))) == 1
    capsys.readouterr()


def test_problems_with_bad_records_among_them_are_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    Path("problems.jsonl").write_text('{"problem": "1 + 1 ="}\n{"problem": 3}\n', encoding="utf-8")
    words = ["sample", "--problems", "problems.jsonl", "--n", "1", "--max-tokens", "4"]
    assert cli.main(words) == 2
    capsys.readouterr()
    cli.main([*words, "--skip-bad", "--json"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["problems"] == 1
    assert "left out 1 bad record" in shown.err and 'problems.jsonl, line 2, field "problem"' in shown.err


def test_a_benchmark_with_its_own_data_leaves_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "processbench", "--data", "x", "--judge", "random", "--skip-bad"]) == 2
    shown = capsys.readouterr().err
    assert "--skip-bad means nothing for `footfall bench processbench`: it is for `footfall bench steps`" in shown


def test_info_tells_of_steps_that_it_does_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"question": "1 + 1?", "answer": "2", "reasoning_chain": ["a", "b"]}
    Path("odd.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert cli.main(["info", "odd.jsonl", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["format"] == "problems"
    assert told["not_read"] == [
        '"reasoning_chain": if it holds steps, rename it to "steps" or pass --map steps=reasoning_chain'
    ]


def test_steps_are_measured_over_a_folder_whose_files_are_splits(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("data/one.jsonl", "data/more/two.jsonl"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("".join(GOOD % (i, i, i % 2) for i in range(6)), encoding="utf-8")
    assert cli.main(["bench", "steps", "--data", "data", "--judge", "oracle", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["splits"]) == ["more/two", "one", "mean"]
    assert told["used"] == 12


def test_two_files_of_one_split_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data").mkdir()
    for name in ("data/one.jsonl", "data/one.json"):
        Path(name).write_text(GOOD % (0, 0, 0), encoding="utf-8")
    assert cli.main(["bench", "steps", "--data", "data", "--judge", "oracle"]) == 2
    assert "would be one split" in capsys.readouterr().err
