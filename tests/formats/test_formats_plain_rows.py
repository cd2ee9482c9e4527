"""Rows under the names that people and data sets give: which answer is the reference, where the steps and their labels are."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from footfall import formats
from footfall.formats import FormatError
from footfall.types import Judged, Step

AFTER = "after the first error"


def read(*records: dict[str, Any], format: str = "auto") -> list[Judged]:
    return formats.read(io.BytesIO(b"".join(json.dumps(record).encode() + b"\n" for record in records)), format)


def values(row: Judged) -> tuple[float | None, ...]:
    assert row.judgement is not None
    return row.judgement.values


REFERENCES = [
    "target", "expected_answer", "final_answer", "gold", "gold_answer", "ground_truth", "ground_truth_answer",
    "reference_answer", "reference", "correct_answer", "gt",
]  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_beside_a_reference_the_answer_is_the_models_own(name: str) -> None:
    (row,) = read({"problem": "?", "steps": ["a"], "answer": 7, name: "8"})
    assert (row.trajectory.problem.answer, row.trajectory.answer) == ("8", "7")
    assert row.trajectory.meta == {}
    (problem,) = formats.read_problems(io.BytesIO(json.dumps({"question": "?", "answer": "7", name: "8"}).encode()))
    assert (problem.answer, problem.meta) == ("8", {"answer": "7"})


def test_it_is_so_in_every_format() -> None:
    (row,) = read({"prompt": "?", "completions": ["a"], "labels": [True], "answer": "7", "target": 8, "level": 3})
    assert (row.trajectory.problem.answer, row.trajectory.answer) == ("8", "7")
    assert row.trajectory.meta == {"level": 3}


def test_a_null_beside_an_answer_is_no_reference() -> None:
    (row,) = read({"problem": "?", "steps": ["a"], "answer": "7", "target": None})
    assert (row.trajectory.problem.answer, row.trajectory.answer) == ("7", None)


@pytest.mark.parametrize("blank", ["", " \n"])
def test_an_empty_text_beside_an_answer_is_no_reference(blank: str) -> None:
    (row,) = read({"problem": "?", "steps": ["a"], "answer": "7", "target": blank})
    assert (row.trajectory.problem.answer, row.trajectory.answer) == ("7", None)
    (row,) = read({"problem": "?", "steps": ["a"], "answer": "7", "target": blank, "gold": "8"})
    assert (row.trajectory.problem.answer, row.trajectory.answer) == ("8", "7")


@pytest.mark.parametrize("working", ["3 + 4 = 7\n#### 7", "So it is \\boxed{7}.", "3 + 4 = 7. The answer is 7."])
def test_of_a_working_beside_a_reference_the_stated_answer_is_the_models_own(working: str) -> None:
    (row,) = read({"problem": "?", "steps": ["a"], "answer": working, "final_answer": "8"})
    assert (row.trajectory.problem.answer, row.trajectory.answer) == ("8", "7")
    (row,) = read({"problem": "?", "steps": ["a"], "answer": "seven, I think", "final_answer": "8"})
    assert row.trajectory.answer == "seven, I think"


def test_a_prediction_is_the_models_own_and_the_answer_may_repeat_either() -> None:
    for answer in ("8", "7"):
        (row,) = read({"problem": "?", "steps": ["a"], "answer": answer, "prediction": 7, "target": "8"})
        assert (row.trajectory.problem.answer, row.trajectory.answer) == ("8", "7")


@pytest.mark.parametrize(
    ("answers", "field"),
    [({"target": "8", "gold": "9"}, "target"), ({"target": "8", "prediction": "7", "answer": "6"}, "answer")],
)
def test_answers_that_contradict_each_other_are_named_with_a_way_out(answers: dict[str, str], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read({"problem": "?", "steps": ["a"], **answers})
    assert caught.value.field == field
    assert caught.value.fix
    assert all(name in str(caught.value) for name in answers)


def test_equal_references_under_two_names_are_one() -> None:
    (row,) = read({"problem": "?", "steps": ["a"], "ground_truth": "4 + 4 = 8\n#### 8", "gt": 8})
    assert row.trajectory.problem.answer == "8"


def test_a_row_of_big_bench_mistake_is_a_judged_trace() -> None:
    record = {"input": "?", "steps": ["a", "b", "c"], "answer": "7", "target": "8"}
    wrong, right = read({**record, "mistake_index": 1}, {**record, "mistake_index": None})
    assert (values(wrong), values(right)) == ((1.0, 0.0, None), (1.0, 1.0, 1.0))
    assert wrong.judgement is not None and wrong.judgement.failures == (None, None, AFTER)
    assert (wrong.trajectory.problem.answer, wrong.trajectory.answer, wrong.trajectory.meta) == ("8", "7", {})


@pytest.mark.parametrize("steps", ["steps", "process", "chain_of_thoughts"])
@pytest.mark.parametrize("index", ["label", "mistake_index"])
@pytest.mark.parametrize(("label", "said"), [(-1, (1.0, 1.0)), (0, (0.0, None)), (1, (1.0, 0.0))])
def test_a_first_error_index_is_read_wherever_the_steps_are(
    steps: str, index: str, label: int, said: tuple[float | None, ...]
) -> None:
    (row,) = read({"question": "?", steps: ["a", "b"], index: label})
    assert row.trajectory.steps == (Step("a"), Step("b"))
    assert (values(row), row.trajectory.meta) == (said, {})


@pytest.mark.parametrize("name", ["process", "chain_of_thoughts"])
def test_steps_may_be_a_text_or_a_list_in_a_text(name: str) -> None:
    record = {"question": "?", "labels": "[1, -1]"}
    (cut,) = read({**record, name: "a\n\nb"})
    (listed,) = read({**record, name: '["a", "b"]'})
    assert cut == listed
    assert values(cut) == (1.0, 0.0)
    assert cut.judgement is not None and cut.judgement.aspects["rating"] == (1.0, -1.0)


def test_the_reasons_of_unlabelled_steps_are_kept_where_steps_are_objects() -> None:
    (row,) = read({"question": "?", "steps": [{"text": "a", "action": "go"}, "b", "c"], "mistake_index": 0})
    assert row.judgement is not None and row.judgement.failures == (None, AFTER, AFTER)


NOT_UNDERSTOOD = [
    ({"mistake_index": 2}, "mistake_index"),
    ({"mistake_index": "1"}, "mistake_index"),
    ({"mistake_index": 0, "label": 1}, "label"),
    ({"label": True}, "label"),
    ({"label": "good"}, "label"),
    ({"label": 0, "labels": [1, 0]}, "label"),
    ({"process": ["c"]}, "process"),
    ({"labels": "[1, 0"}, "labels"),
    ({"first_error_step": 2}, "first_error_step"),
    ({"error_steps": [2]}, "error_steps"),
    ({"step_labels": [True, False]}, "step_labels"),
    ({"rewards": [0.5, None]}, "rewards"),
    ({"rewards": [0, 0]}, "rewards"),
    ({"is_step_correct": [1, 0]}, "is_step_correct"),
    ({"is_correct_steps": [True, True]}, "is_correct_steps"),
    ({"is_correct_steps": [False, False]}, "is_correct_steps"),
    ({"is_correct": [True, False]}, "is_correct"),
    ({"correct": [1, 0]}, "correct"),
]


@pytest.mark.parametrize(("more", "field"), NOT_UNDERSTOOD, ids=[str(more) for more, _ in NOT_UNDERSTOOD])
def test_what_looks_like_steps_or_labels_but_is_not_understood_is_an_error(more: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read({"question": "?", "steps": ["a", "b"], **more})
    assert caught.value.field == field
    assert caught.value.fix or caught.value.got


@pytest.mark.parametrize("name", ["is_step_correct", "is_correct_steps", "is_correct"])
def test_verdicts_of_steps_are_refused_with_the_name_that_is_read(name: str) -> None:
    with pytest.raises(FormatError, match='rename it to "labels"'):
        read({"question": "?", "steps": ["a", "b"], name: [True, False]})


def test_what_is_called_correct_but_is_no_verdict_is_metadata() -> None:
    (row,) = read({"question": "?", "steps": ["a", "b"], "correct_numbers": [3, 4], "correct_for": [None, None]})
    assert row.judgement is None
    assert row.trajectory.meta == {"correct_numbers": [3, 4], "correct_for": [None, None]}


@pytest.mark.parametrize("steps", [["a"], [{"solution_prefix": "?\n\na", "mc_value": 1}, "a"], "a\n\nb"])
def test_reasoning_steps_that_are_texts_are_refused_with_the_fix(steps: Any) -> None:
    with pytest.raises(FormatError, match=r'rename "reasoning_steps" to "(steps|solution)"'):
        read({"question": "?", "reasoning_steps": steps})


def test_two_kinds_of_labels_are_refused_in_processbench_too() -> None:
    with pytest.raises(FormatError, match='"label" and "labels"'):
        read({"problem": "?", "steps": ["a"], "label": -1, "labels": [0]})


def test_labels_beside_known_labels_are_kept_as_metadata() -> None:
    (row,) = read({"question": "?", "steps": ["a"], "labels": [1], "step_scores": [0.3], "label": "math"})
    assert (values(row), row.trajectory.meta) == ((1.0,), {"step_scores": [0.3], "label": "math"})


def test_steps_under_an_unknown_name_are_named_in_the_error() -> None:
    with pytest.raises(FormatError, match='rename "reasoning_chain" to "steps"'):
        read({"question": "?", "reasoning_chain": ["a", "b"]})
    with pytest.raises(FormatError, match='rename "reasoning_chain" to "steps"'):
        read({"question": "?", "reasoning_chain": ["a", "b"]}, format="jsonl")


def conversation(*turns: str) -> dict[str, Any]:
    return {"conversations": [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]}


def test_an_rlhflow_conversation_without_step_1_has_a_step_a_turn(tmp_path: Path) -> None:
    first, second = read(
        conversation("What is 1 + 2? It is 3.", "+", "So 4.", "-"), conversation("Else?\n\na\n\nb", "+")
    )
    assert [step.text for step in first.trajectory.steps] == ["What is 1 + 2? It is 3.", "So 4."]
    assert (values(first), first.trajectory.problem.text) == ((1.0, 0.0), "")
    assert [step.text for step in second.trajectory.steps] == ["Else?\n\na\n\nb"]
    assert first.trajectory.problem.id != second.trajectory.problem.id
    formats.write(tmp_path / "back.jsonl", [first, second], "rlhflow")
    assert formats.read(tmp_path / "back.jsonl") == [first, second]


def test_an_rlhflow_conversation_with_step_1_is_still_checked() -> None:
    with pytest.raises(FormatError, match='add the text of the problem as the field "problem"'):
        read(conversation("Step 1: what? Step 1: this.", "+"))


INTEGER_IDS: list[dict[str, Any]] = [
    {"id": 7, "problem_id": 3, "problem": "?", "steps": ["a"]},
    {"id": 7, "problem_id": 3, "prompt": "?", "completions": ["a"], "labels": [True]},
    {"case_id": 7, "problem_id": 3, "modified_question": "?", "modified_process": ["a"], "error_steps": []},
    {"id": 7, "problem": {"id": 3, "prompt": "?"}, "steps": ["a"],
     "judgement": {"judge": "j", "values": [1], "trajectory_id": 7}},
    {"id": 7, "question": {"id": 3, "problem": "?"}, "label": {"steps": [{"completions": [{"text": "a", "rating": 1}]}]}},
]  # fmt: skip


@pytest.mark.parametrize("record", INTEGER_IDS)
def test_integer_ids_are_read_as_text(record: dict[str, Any]) -> None:
    (row,) = read(record)
    assert (row.trajectory.id, row.trajectory.problem.id) == ("7", "3")
    assert row.judgement is None or row.judgement.trajectory_id == "7"


def test_integer_ids_of_cases_and_trees_are_read_as_text() -> None:
    case = {
        "idx": 7,
        "classification": "circular",
        "modified_question": "?",
        "modified_process": ["a"],
        "error_steps": [],
    }
    assert read(case)[0].trajectory.id == "circular_7"
    prefix = {"solution_prefix": "?\n\na", "mc_value": 1}
    tree = {"question": "?", "problem_id": 3, "final_answer": "1", "reasoning_steps": [prefix]}
    assert read(tree)[0].trajectory.problem.id == "3"


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 12345\n"


@pytest.mark.parametrize("name", ["traces.jsonl", "traces.json", "traces.parquet"])
def test_a_git_lfs_pointer_is_called_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(POINTER)
    with pytest.raises(FormatError, match=r"a Git LFS pointer.*git lfs pull"):
        formats.read(tmp_path / name)
    with pytest.raises(FormatError, match=r"a Git LFS pointer.*git lfs pull"):
        formats.read_problems(tmp_path / name)


def test_lines_that_are_no_records_can_be_passed_over_too() -> None:
    good = b'{"problem": "?", "steps": ["a"], "id": %d}\n'
    data = b"not JSON\n[1]\n" + b'{"foo": 1}\n' + good % 1 + b'{"problem": "?", "steps": 3}\n' + b"\xff\n" + good % 2
    bad: list[FormatError] = []
    rows = formats.read(io.BytesIO(data), bad=bad)
    assert [row.trajectory.id for row in rows] == ["1", "2"]
    assert [error.line for error in bad] == [1, 2, 3, 5, 6]


def test_a_record_that_cannot_be_read_does_not_fix_the_format() -> None:
    trl = b'{"prompt": "?", "completions": ["a"], "labels": [true, false]}\n'
    bad: list[FormatError] = []
    (row,) = formats.read(io.BytesIO(trl + b'{"problem": "?", "steps": ["a"], "id": 1}\n'), bad=bad)
    assert row.trajectory.id == "1" and [error.line for error in bad] == [1]
    bad = []
    data = io.BytesIO(b'{"problem": 3}\n{"problem": {"prompt": "?"}, "steps": ["a"]}\n')
    assert [problem.text for problem in formats.read_problems(data, bad=bad)] == ["?"]
    assert [error.line for error in bad] == [1]


def test_problems_that_cannot_be_read_can_be_passed_over() -> None:
    bad: list[FormatError] = []
    problems = formats.read_problems(io.BytesIO(b'{"problem": "?"}\n{"problem": 3}\n{\n{"problem": "!"}\n'), bad=bad)
    assert [problem.text for problem in problems] == ["?", "!"]
    assert [error.line for error in bad] == [2, 3]


def test_a_line_beyond_the_limit_ends_the_reading_even_so() -> None:
    with pytest.raises(FormatError, match="at most 100 bytes"):
        formats.read(io.BytesIO(b'{"problem": "?", "steps": ["a"]}\n' + b"a" * 1000), line_limit=100, bad=[])


def test_plus_and_minus_are_labels() -> None:
    """As OpenR's training data has them: a `label` that is a list is named by --map, not taken for an index."""
    (row,) = read({"question": "?", "process": ["a", "b"], "labels": ["+", "-"]})
    assert values(row) == (1.0, 0.0)
    with pytest.raises(FormatError, match="--map labels=label"):
        read({"question": "?", "process": ["a", "b"], "label": ["+", "-"]})
    with pytest.raises(FormatError, match="--map labels=step_labels"):
        read({"problem": "?", "steps": ["a", "b"], "step_labels": ["+", "-"]})


def test_other_words_are_refused_with_what_to_write() -> None:
    with pytest.raises(
        FormatError, match="write 1 for a right step and 0 for a wrong one, null for one without a label"
    ):
        read({"problem": "?", "steps": ["a", "b"], "labels": ["good", "bad"]})


def test_a_completion_may_be_the_assistants_message() -> None:
    """TRL's conversational data sets of prompts and completions."""
    said = {"role": "assistant", "content": "2 + 3 = 5.\n\nIt is 5."}
    (row,) = read({"prompt": [{"role": "user", "content": "2 + 3?"}], "completion": [said]})
    assert (row.trajectory.problem.text, row.trajectory.text) == ("2 + 3?", "2 + 3 = 5.\n\nIt is 5.\n\n")
    with pytest.raises(FormatError, match='field "completion": expected a text, or the one message of the assistant'):
        read({"prompt": "2 + 3?", "completion": [said, said]})
