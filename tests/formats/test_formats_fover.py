"""FoVer's published records in and out: the schema of the method card, on the sample of the data set's own page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from footfall import formats
from footfall.formats import FormatError
from footfall.formats.chats import conversation
from footfall.types import Judged, Judgement, Problem, Step, Trajectory

PROBLEM = "$hypothesis$: ¬{A}\n\n$context$:\nfact11: {C} -> ({B} & ¬{A})"
RECORD: dict[str, Any] = {
    "id": "fldx2-1",
    "problem": PROBLEM,
    "solution_steps": ["fact11 -> int1: {B} & ¬{A}", "int1 -> int2: ¬{A}", "The final answer is PROVED"],
    "error_labels": [False, True, True],
    "messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "incorrect"}],
    "messages_for_prediction": [],
    "base_dataset": "fldx2_symbol",
}


def read(tmp_path: Path, record: dict[str, Any], format: str = "auto") -> Judged:
    path = tmp_path / "fover.jsonl"
    path.write_text(json.dumps(record) + "\n")
    (row,) = formats.read(path, format)
    return row


def written(tmp_path: Path, row: Judged, **options: Any) -> dict[str, Any]:
    path = tmp_path / "out.jsonl"
    formats.write(path, [row], "fover", **options)
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def test_a_label_that_is_true_means_right_and_a_right_step_may_follow_a_wrong_one(tmp_path: Path) -> None:
    trajectory, judgement = read(tmp_path, RECORD)
    assert judgement is not None and judgement.values == (0.0, 1.0, 1.0) and judgement.judge == "fover"
    assert trajectory.id == "fldx2-1" and trajectory.problem.prompt == PROBLEM
    assert [step.text for step in trajectory.steps] == RECORD["solution_steps"]
    assert trajectory.meta == {"base_dataset": "fldx2_symbol"}


def test_the_schema_is_that_of_the_card_and_reads_back_as_the_same_row(tmp_path: Path) -> None:
    row = read(tmp_path, RECORD)
    record = written(tmp_path, row)
    assert record.keys() >= {
        "id", "problem", "solution_steps", "error_labels", "messages", "messages_for_prediction"
    }  # fmt: skip
    assert record["error_labels"] == [False, True, True]
    assert read(tmp_path, record) == row


def test_turns_hold_a_step_each_and_the_history_of_a_prediction_is_always_correct(tmp_path: Path) -> None:
    record = written(tmp_path, read(tmp_path, RECORD))
    said = [turn["content"] for turn in record["messages"] if turn["role"] == "assistant"]
    assert said == ["incorrect", "correct", "correct"]
    asked = [turn["content"] for turn in record["messages"] if turn["role"] == "user"]
    assert asked[0].startswith(f"** Problem **\n{PROBLEM}\n\n** Task **\n")
    assert asked[0].endswith("\n" + RECORD["solution_steps"][0]) and asked[1:] == RECORD["solution_steps"][1:]
    blind = record["messages_for_prediction"]
    assert [turn["content"] for turn in blind if turn["role"] == "assistant"] == ["correct"] * 3
    assert [turn for turn in blind if turn["role"] == "user"] == record["messages"][::2]


def test_braces_in_a_problem_or_a_step_are_only_text() -> None:
    first = conversation("{step} {problem}", ["{problem} {step}"])[0]
    assert isinstance(first, dict)
    text = str(first["content"])
    assert text.startswith("** Problem **\n{step} {problem}\n") and text.endswith("\n{problem} {step}")


def test_a_step_without_a_label_is_null_and_leaves_no_training_conversation(tmp_path: Path) -> None:
    row = read(tmp_path, {**RECORD, "error_labels": [True, False, None]})
    assert row.judgement is not None and row.judgement.failures == (None, None, "not judged")
    record = written(tmp_path, row)
    assert record["error_labels"] == [True, False, None] and "messages" not in record
    assert read(tmp_path, record) == row


def test_soft_labels_need_a_threshold(tmp_path: Path) -> None:
    trajectory = Trajectory("t", Problem("p", "1 + 2?"), (Step("3"), Step("4")))
    row = Judged(trajectory, Judgement("t", (0.75, 0.25), "mc"))
    with pytest.raises(FormatError, match=r"judgement\.values\[0\].*0 or 1.*threshold"):
        written(tmp_path, row)
    assert written(tmp_path, row, threshold=0.5)["error_labels"] == [True, False]
    with pytest.raises(FormatError, match=r"at least one step"):
        written(tmp_path, Judged(replace(trajectory, steps=()), Judgement("t", (), "mc")))
    with pytest.raises(FormatError, match=r"label the trajectories first"):
        written(tmp_path, Judged(trajectory, None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"error_labels": [True]}, r"line 1.*error_labels.*each of the 3 steps"),
        ({"error_labels": [True, 1, False]}, r"error_labels\[1\]"),
        ({"solution_steps": "one text"}, r"solution_steps"),
        ({"problem": None}, r"problem"),
    ],
)
def test_a_malformed_record_is_an_error_that_names_line_and_field(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        read(tmp_path, {**RECORD, **change})


def test_prm800ks_own_sample_gives_the_path_and_every_rated_alternative(tmp_path: Path) -> None:
    """The README's record: two chosen steps, then one with the ratings -1, 0, -1, 0, 0 where nothing was chosen."""

    def step(*ratings: int, chosen: int | None) -> dict[str, Any]:
        offers = [{"text": f"{chosen}: {k}", "rating": rating, "flagged": False} for k, rating in enumerate(ratings)]
        return {"completions": offers, "human_completion": None, "chosen_completion": chosen}

    record = {
        "labeler": "340d89bc-f5b7-45e9-b272-909ba68ee363",
        "timestamp": "2023-01-22T04:34:27.052924",
        "generation": 9,
        "is_quality_control_question": False,
        "is_initial_screening_question": False,
        "question": {
            "problem": "What is the greatest common factor of 20 factorial and 200,000?", "ground_truth_answer": "40,000",
            "ground_truth_solution": "…", "pre_generated_steps": ["a", "b"], "pre_generated_answer": "5",
            "pre_generated_verifier_score": 0.5,
        },
        "label": {
            "steps": [step(1, chosen=0), step(0, chosen=0), step(-1, 0, -1, 0, 0, chosen=None)],
            "total_time": 278270, "finish_reason": "found_error",
        },
    }  # fmt: skip
    path = tmp_path / "prm800k.jsonl"
    path.write_text(json.dumps(record) + "\n")
    main, *others = formats.read(path)
    assert main.judgement is not None and main.judgement.values == (1.0, 1.0, 0.0)
    last = [row.judgement.aspects["rating"][-1] for row in (main, *others) if row.judgement is not None]
    assert last == [-1, 0, -1, 0, 0]
    assert main.trajectory.meta["chosen"] == [0, 0, None]
    assert all(rating is not None and rating >= 0 for rating in main.judgement.aspects["rating"][:-1])
    assert main.trajectory.problem.answer == "40,000" and main.trajectory.meta["generation"] == 9
