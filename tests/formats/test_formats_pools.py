"""Pools: several solutions of one problem in a record, read as traces and written from them."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from footfall import formats
from footfall.formats import FormatError
from footfall.types import Judged, Judgement, Problem, Step, Trajectory

POOL: dict[str, Any] = {
    "id": "q1",
    "problem": "2 + 3?",
    "answer": "5",
    "level": 1,
    "candidates": [
        {"steps": ["2 + 3 = 5.", "It is 5."], "answer": "5", "correct": True, "labels": [1, 1]},
        {"text": "2 + 3 = 6.\n\nIt is 6.", "id": "mine"},
        ["It is 5."],
        "Step 1: 2 + 3 = 5. Step 2: It is 5.",
    ],
}


def read(record: dict[str, Any], **names: str) -> list[Judged]:
    return formats.read(io.BytesIO(json.dumps(record).encode()), names=names)


def test_each_candidate_is_a_trace_of_the_same_problem() -> None:
    rows = read(POOL)
    assert [row.trajectory.id for row in rows] == ["q1#0", "mine", "q1#2", "q1#3"]
    assert {row.trajectory.problem.id for row in rows} == {"q1"}
    assert rows[0].trajectory.problem.meta == {"level": 1}
    assert [len(row.trajectory.steps) for row in rows] == [2, 2, 1, 2]
    first = rows[0]
    assert (first.trajectory.problem.answer, first.trajectory.answer, first.trajectory.correct) == ("5", "5", True)
    assert first.judgement is not None and first.judgement.values == (1.0, 1.0)
    assert rows[1].judgement is None


def test_errors_name_the_candidate() -> None:
    with pytest.raises(FormatError, match=r'field "candidates\[0\].labels"'):
        read({"problem": "?", "candidates": [{"steps": ["a"], "labels": [1, 0]}]})
    with pytest.raises(FormatError, match=r'field "candidates\[1\]": expected an object, got 7'):
        read({"problem": "?", "candidates": ["a", 7]})


def test_search_and_learn_and_the_harness_are_read_by_name() -> None:
    """The record of search-and-learn holds the reference solution too, which must not be taken for the model's."""
    sal = {
        "problem": "2 + 3?",
        "solution": "2 + 3 = 5",
        "answer": "5",
        "unique_id": "u",
        "completions": ["It is 5.", "6"],
    }
    with pytest.raises(FormatError, match="pass --map candidates=completions, or --map steps=solution"):
        read(sal)
    assert [row.trajectory.text.strip() for row in read(sal, candidates="completions")] == ["It is 5.", "6"]
    assert [row.trajectory.text.strip() for row in read(sal, steps="solution")] == ["2 + 3 = 5"]

    logged = {
        "doc_id": 0,
        "doc": {"question": "2 + 3?"},
        "target": "#### 5",
        "resps": [["It is 5.", "6"]],
        "doc_hash": "f",
    }
    with pytest.raises(FormatError, match=r"pass --map problem=doc.question candidates=resps.0"):
        read(logged)
    rows = read(logged, problem="doc.question", candidates="resps.0")
    assert [row.trajectory.problem.answer for row in rows] == ["5", "5"]


def test_the_log_of_a_request_to_a_server_is_a_pool_of_its_choices() -> None:
    """As proxies log them: the request beside the answer, which has n choices."""
    choices = [
        {"index": k, "message": {"role": "assistant", "content": text}} for k, text in enumerate(["It is 5.", "6"])
    ]
    asked = {"model": "m", "messages": [{"role": "user", "content": "2 + 3?"}]}
    logged = {"request": asked, "response": {"id": "c1", "choices": choices}}
    with pytest.raises(FormatError, match=r"pass --map problem=request\.messages candidates=response\.choices"):
        read(logged)
    rows = read(logged, problem="request.messages", candidates="response.choices")
    assert [row.trajectory.text.strip() for row in rows] == ["It is 5.", "6"]
    assert {row.trajectory.problem.text for row in rows} == {"2 + 3?"}

    batch = {"custom_id": "q1", "response": {"body": {"choices": choices}}, "error": None}
    with pytest.raises(FormatError, match=r"pass --map problem=custom_id candidates=response\.body\.choices"):
        read(batch)
    choices[1] = {"index": 1, "message": {"role": "assistant", "content": None, "refusal": "no"}}
    with pytest.raises(FormatError, match=r"response\.choices\[1\]\.message\.content.*expected a string, got null"):
        read(logged, problem="request.messages", candidates="response.choices")


def test_a_document_with_its_records_inside_says_where_they_are() -> None:
    with pytest.raises(FormatError, match='write what "samples" holds, one record a line'):
        read({"version": 2, "samples": [{"id": 1, "input": "?"}]})


def test_a_log_of_inspect_is_read_by_its_samples(tmp_path: Path) -> None:
    log = tmp_path / "log.eval"
    said = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "2 + 3 = 5.\n\nIt is 5."}]
    with zipfile.ZipFile(log, "w") as packed:
        packed.writestr("header.json", "{}")
        for k in (1, 2):
            sample: dict[str, Any] = {
                "id": k,
                "epoch": 1,
                "input": "2 + 3?",
                "target": "5",
                "messages": said,
                "scores": {},
            }
            packed.writestr(f"samples/{k}_epoch_1.json", json.dumps(sample, indent=1))
    with pytest.raises(FormatError, match=r"take its samples: unzip -p .*log.eval 'samples/\*' > data.json"):
        formats.read(log)
    with zipfile.ZipFile(log) as packed:  # what that command writes
        held = [packed.read(name) for name in packed.namelist() if name.startswith("samples/")]
    (tmp_path / "data.json").write_bytes(b"".join(held))
    rows = formats.read(tmp_path / "data.json")
    assert [(row.trajectory.id, row.trajectory.problem.answer) for row in rows] == [("1", "5"), ("2", "5")]


@pytest.mark.parametrize(
    ("target", "answer"),
    [(["Amsterdam"], "Amsterdam"), ([], None), ("", None), (["Amsterdam", "The Hague"], "refused")],
)
def test_a_target_of_several_answers_is_not_one_answer(target: str | list[str], answer: str | None) -> None:
    """To inspect_ai any of them is right; joined to "Amsterdam, The Hague" neither was."""
    record = {
        "target": target,
        "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "It is Amsterdam."}],
    }
    if answer != "refused":
        assert [row.trajectory.problem.answer for row in read(record)] == [answer]
        return
    with pytest.raises(
        FormatError, match="one reference answer, got a list of 2, any of which may be right; fix: keep the one"
    ):
        read(record)


def test_traces_are_written_as_pools_and_read_again(tmp_path: Path) -> None:
    one, other = Problem("a", "1 + 1?", "2", meta={"level": 1}), Problem("b", "1 + 2?")
    traces = [
        Trajectory("a#0", one, (Step("2"),), "2", True, "m"),
        Trajectory("t", one, (Step("look", action="f()", observation="2"), Step("2")), correct=False, separator="\n"),
        Trajectory("b#0", other, (Step("3"),)),
    ]
    rows = [Judged(traces[0], Judgement("a#0", (0.25,), "j")), Judged(traces[1], None), Judged(traces[2], None)]
    formats.write(tmp_path / "pool.jsonl", rows, "pool")
    assert (tmp_path / "pool.jsonl").read_text().count("\n") == 2
    assert formats.read(tmp_path / "pool.jsonl") == rows


def test_ids_of_tokens_have_no_place_in_it(tmp_path: Path) -> None:
    trace = Trajectory("a#0", Problem("a", "?"), (Step("2", token_ids=(1,)),), tokenizer="t")
    with pytest.raises(FormatError, match="token_ids"):
        formats.write(tmp_path / "pool.jsonl", [Judged(trace, None)], "pool")
    (record,) = formats.records([Judged(trace, None)], "pool", drop=["step.token_ids", "trajectory.tokenizer"])
    assert record["candidates"] == [{"steps": ["2"]}]
