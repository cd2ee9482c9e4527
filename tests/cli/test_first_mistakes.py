"""Mistakes of a first hour: what was given is named as what it is, and the words to type instead do work."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from footfall import cli

LABELLED = '{{"problem": "{0} + 1 = ?", "steps": ["{0} + 1 = {1}"], "labels": [{2}]}}\n'
SCRIPTED = ["--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> str:
    """The one line on which a command line is refused."""
    capsys.readouterr()
    assert cli.main(list(words)) == 2
    (said,) = capsys.readouterr().err.splitlines()
    return said


def labelled(problems: int) -> list[str]:
    Path("rows.jsonl").write_text("".join(LABELLED.format(i, i + 1, i % 2) for i in range(problems)), encoding="utf-8")
    return ["--data", "rows.jsonl"]


@pytest.mark.parametrize("name", ["mine.csv", "mine.tsv", "table.txt"])
def test_a_table_is_named_as_one_and_the_command_given_makes_lines_of_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sign = "\t" if name.endswith("tsv") else ","
    marked = "utf-8-sig" if name.endswith("csv") else "utf-8"  # a byte order mark, as spreadsheets write it
    Path(name).write_text(f'question{sign}solution\n"1 + 1?"{sign}"1 + 1 = 2\n\nso 2"\n', encoding=marked)
    said = refusal(capsys, ["score", name, "--judge", "random"])
    assert f"{name}, line 1: expected JSON, one record a line, got a {'TSV' if sign != ',' else 'CSV'} file" in said
    assert refusal(capsys, ["sample", "--problems", name]) == said
    subprocess.run(said.partition("fix: ")[2], shell=True, check=True)
    assert cli.main(["score", "data.jsonl", "--judge", "random"]) == 0


def test_steps_that_are_a_text_are_cut_if_it_is_said_how(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.jsonl").write_text(json.dumps({"problem": "?", "steps": "1 + 1 = 2\nso 2"}), encoding="utf-8")
    words = ["score", "t.jsonl", "--judge", "random", "--json"]
    assert 'field "steps": expected a list of steps' in (said := refusal(capsys, words)) and "--segment NAME" in said
    assert cli.main([*words, "--segment", "lines"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"][0]["values"]) == 2


def test_when_all_calls_failed_that_is_said_and_nothing_of_references(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from footfall.policy.protocol import Completion
    from footfall.worlds import ArithmeticPolicy

    failed = Completion((), "error", 0, error="the server is gone")
    monkeypatch.setattr(ArithmeticPolicy, "sample", lambda self, prefixes, n=1, *_: [[failed] * n for _ in prefixes])
    assert cli.main(["sample", *SCRIPTED, "--n", "2"]) == 1
    shown = capsys.readouterr().out
    assert "not known: all 4 calls failed, the first one: the server is gone" in shown and "reference" not in shown


def test_a_labelling_run_is_no_judge_and_says_what_to_train(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["label", *labelled(2), "--method", "random", "--out", "labels"]) == 0
    assert cli.main(["sample", *SCRIPTED, "--out", "traces"]) == 0
    said = refusal(capsys, ["score", "rows.jsonl", "--judge", "labels"])
    assert "labels is a run of `footfall label` and no judge" in said
    assert said.endswith("footfall train --data labels/judged.parquet")
    said = refusal(capsys, ["search", *SCRIPTED, "--judge", "traces"])
    assert "is a run of `footfall sample` and no judge; `footfall train` and `footfall calibrate` write judges" in said


@pytest.mark.parametrize("words", [["--temperature", "0.5"], ["--temperature", "1.5"], ["--top-p", "0.9"]])
def test_a_scripted_policy_takes_no_temperature_but_0(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    commands = [["sample", *SCRIPTED], ["search", *SCRIPTED, "--method", "majority"],
                ["label", *labelled(1), "--policy", "scripted-arithmetic"]]  # fmt: skip
    for command in commands:
        assert f"'scripted-arithmetic' takes no {words[0]}: it draws from" in refusal(capsys, [*command, *words])
    assert cli.main(["sample", *SCRIPTED, "--temperature", "0", "--max-tokens", "64", "--n", "1"]) == 0


def test_too_few_problems_to_hold_some_out(capsys: pytest.CaptureFixture[str]) -> None:
    """What is advised is an option of the command line, and one that the command takes."""
    train = ["train", *labelled(3), "--epochs", "1", "--device", "cpu", "--eval-share", "0.1"]
    said = refusal(capsys, train)
    assert "3 problems cannot be split" in said and "pass --eval-share 0.33 or --eval-share 0 (in Python" in said
    calibrate = ["calibrate", *labelled(3), "--judge", "random", "--method", "temperature", "--eval-share"]
    said = refusal(capsys, [*calibrate, "0.1"])
    assert said.endswith("pass --eval-share 0.33") and cli.main([*calibrate, "0.33"]) == 0
    labelled(1)
    said = refusal(capsys, [*calibrate, "0.5", "--out", "one"])
    assert "1 problem cannot be split" in said and "label traces of other problems too" in said
    assert "--eval-share" not in said


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--objective", "bce", "--set", "treshold=1"],
            "the objective bce takes no setting treshold: did you mean threshold?",
        ),
        (
            ["--objective", "mse", "--set", "gamma=0.5"],
            "the objective mse takes no setting gamma: it takes none; gamma is a setting of td",
        ),
        (
            ["--objective", "log-ratio", "--family", "implicit", "--set", "base=/nowhere"],
            "--set base: the reference that an implicit PRM is held against is missing: /nowhere: there is no such folder",
        ),
    ],
)
def test_a_setting_that_an_objective_does_not_have_and_a_reference_that_is_not_there(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, ["train", *labelled(8), *words]).startswith(f"footfall: {line}")
    assert not Path("runs").exists(), "nothing was begun"
