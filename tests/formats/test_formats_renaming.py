"""Field names of one's own: `names` in Python, `--map` on the command line, and the `--map` that errors suggest."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.formats import FormatError, read, read_problems
from footfall.types import Judged
from tests.cli.telling import told

OWN = {"uid": 7, "question_text": "2 + 3 = ?", "cot": "It is 5.\n\nSo 5.", "gold_label": "5", "ok": [1, 0.5]}
NAMES = {"id": "uid", "problem": "question_text", "steps": "cot", "reference": "gold_label", "labels": "ok"}


def one(record: dict[str, Any], **names: str) -> Judged:
    (row,) = read(io.BytesIO(json.dumps(record).encode()), names=names)
    return row


def test_names_say_which_field_holds_what() -> None:
    row = one(OWN, **NAMES)
    assert (row.trajectory.id, row.trajectory.problem.prompt) == ("7", "2 + 3 = ?")
    assert [step.text for step in row.trajectory.steps] == ["It is 5.", "So 5."]
    assert row.trajectory.problem.answer == "5"
    assert row.judgement is not None and row.judgement.values == (1.0, 0.5)
    assert row.trajectory.meta == {}


@pytest.mark.parametrize("steps", [["a", "b"], "a\n\nb", '["a", "b"]', "Step 1: a Step 2: b"])
def test_steps_may_be_a_list_or_a_text(steps: Any) -> None:
    assert len(one({"problem": "?", "out": steps}, steps="out").trajectory.steps) == 2


def test_a_name_with_dots_leads_into_a_field_as_logs_of_evaluations_have_them() -> None:
    logged = {"doc": {"question": "2 + 3?"}, "resps": [["It is 5.\n\nSo 5."]], "info": {"gold": 5}, "a.b": "kept"}
    row = one(logged, problem="doc.question", steps="resps.0.0", reference="info.gold")
    assert (row.trajectory.problem.prompt, row.trajectory.problem.answer) == ("2 + 3?", "5")
    assert [step.text for step in row.trajectory.steps] == ["It is 5.", "So 5."]
    assert set(row.trajectory.meta) == set(logged)
    assert one({"a.b": "?", "steps": ["x"]}, problem="a.b").trajectory.problem.prompt == "?"
    for wrong in ("doc.query", "resps.1.0", "resps.x", "doc.question.more"):
        with pytest.raises(FormatError, match=f'field "{wrong}": expected the field that holds "steps"'):
            one(logged, problem="doc.question", steps=wrong)
    with pytest.raises(FormatError, match=r'field "info\.gold\[0\]"'):
        one({**logged, "steps": ["x"], "info": {"gold": ["wrong"]}}, problem="doc.question", labels="info.gold")


def test_a_number_for_labels_is_the_index_of_the_first_error() -> None:
    row = one({"problem": "?", "steps": ["a", "b"], "bad_at": 1}, labels="bad_at")
    assert row.judgement is not None and row.judgement.values == (1.0, 0.0)


def test_a_field_that_has_to_give_way_is_kept() -> None:
    row = one({"problem": "gsm8k/3", "text": "?", "steps": 2, "cot": ["a", "b"]}, problem="text", steps="cot")
    assert row.trajectory.problem.prompt == "?" and len(row.trajectory.steps) == 2
    assert row.trajectory.meta == {"problem": "gsm8k/3", "steps": 2}


def test_problems_are_found_by_their_own_names_too() -> None:
    lines = b'{"exercise": "1 + 1", "sol": "2"}\n{"exercise": "2 + 2", "sol": "4"}'
    found = read_problems(io.BytesIO(lines), names={"problem": "exercise", "answer": "sol"})
    assert [(p.prompt, p.answer) for p in found] == [("1 + 1", "2"), ("2 + 2", "4")]


def test_a_field_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(FormatError, match=r'line 1, field "qestion".*did you mean problem=question\?'):
        one({"question": "?", "steps": ["a"]}, problem="qestion")
    with pytest.raises(ValueError, match="no part of a trace is called 'stops'; did you mean 'steps'"):
        one({"question": "?"}, stops="x")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (OWN, "--map problem=question_text steps=cot"),
        ({"Problem Text": "?", "chain_of_thought": ["a"], "step_scores": [1]},
         "--map 'problem=Problem Text' steps=chain_of_thought labels=step_scores"),
        ({"question": "?", "model_output": "a\n\nb"}, "--map steps=model_output"),
        ({"problm": "?", "steps": ["a"]}, "--map problem=problm"),
    ],
)  # fmt: skip
def test_an_unknown_record_gets_the_map_that_would_fit(record: dict[str, Any], words: str) -> None:
    with pytest.raises(FormatError) as caught:
        one(record)
    assert f"pass {words}" in str(caught.value)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"exercise_text": "1 + 1", "sol": "2"}, "--map problem=exercise_text reference=sol"),
        ({"qestion": "1 + 1", "answer": "2"}, "--map problem=qestion"),
        ({"Task text": "1 + 1", "n": 3}, "--map 'problem=Task text'"),
        ({"aufgabe": "1 + 1", "n": 3}, "--map problem=aufgabe"),
        ({"a": "1 + 1", "b": "2"}, "--map problem=FIELD, the field that holds it"),
    ],
)
def test_an_unknown_problem_gets_the_map_that_would_fit(
    record: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(record), encoding="utf-8")
    for command in ("sample", "search"):
        assert cli.main([command, "--problems", str(file)]) == 2
        said = capsys.readouterr().err
        assert f"fix: pass {words}\n" in said and "line 1: expected a problem" in said
    if "FIELD" not in words:
        names = dict(word.split("=") for word in shlex.split(words)[1:])
        assert read_problems(file, names=names)[0].prompt == "1 + 1", "and with what is suggested it is read"


def test_nothing_is_suggested_where_names_tell_nothing() -> None:
    with pytest.raises(FormatError) as caught:
        one({"a": "?", "b": ["x"]})
    assert "--map" not in str(caught.value)


def test_a_slip_in_the_full_form_is_told_the_nearest_field() -> None:
    with pytest.raises(FormatError, match=r'field "corect".*rename it to correct'):
        one({"problem": {"prompt": "?"}, "steps": ["a"], "corect": True})


MAP = ["--map", *(f"{name}={own}" for name, own in NAMES.items())]
COMMANDS = [
    ["info", "own.jsonl"],
    ["score", "--judge", "random", *MAP, "own.jsonl"],
    ["label", "--data", "own.jsonl", "--method", "random"],
    ["calibrate", "--data", "own.jsonl", "--judge", "random", "--method", "temperature"],
    ["bench", "steps", "--data", "own.jsonl", "--judge", "oracle"],
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{**OWN, "uid": i, "question_text": f"{i}?", "ok": [1, i % 2]} for i in range(6)]
    Path("own.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


@pytest.mark.parametrize("words", COMMANDS, ids=[words[0] for words in COMMANDS])
def test_every_command_that_reads_takes_a_map(words: list[str], here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, *words, *([] if "--map" in words else MAP))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--map", "steps="], "takes NAME=FIELD"),
        (["--map", "steps=a", "steps=b"], "named twice"),
        (["--map", "step=cot"], "did you mean 'steps'"),
        (["--map", "steps=cut"], "did you mean steps=cot"),
    ],
)
def test_a_map_that_cannot_be_is_refused(
    words: list[str], why: str, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["score", "own.jsonl", "--judge", "random", *words]) == 2
    assert why in capsys.readouterr().err.splitlines()[-1]


def test_what_a_run_wrote_has_its_own_names(here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["score", "own.jsonl", "--judge", "random", *MAP, "--to", "own.parquet"]) == 0
    assert cli.main(["score", "own.parquet", "--judge", "random", *MAP]) == 2
    assert "--map means nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"q": "?", "cot": ["a"], "right": ["0.1"]}, 'field "right[0]": expected a finite number'),
        ({"q": "?", "cot": ["a"], "right": [1, 1]}, 'field "right": expected one entry for each of the 1 steps'),
        ({"q": "?", "cot": ["a", 7], "right": [1, 1]}, 'field "cot[1]": expected a step as text, or as an object'),
        ({"q": "?", "cot": [{"text": 3}], "right": [1]}, 'field "cot[0].text": expected a string'),
        ({"q": 5, "cot": ["a"], "right": [1]}, 'field "q": expected'),
    ],
)
def test_errors_name_fields_as_the_record_does(record: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as error:
        one(record, problem="q", steps="cot", labels="right")
    assert message in str(error.value)
