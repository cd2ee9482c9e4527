"""FC-RewardBench: right and wrong function calls by error type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from footfall.benchmarks.runner import run
from footfall.benchmarks.tool_pairs import ERROR_TYPES, fc_rewardbench
from footfall.metrics.cases import LengthJudge, Oracle, RandomJudge, always_wrong
from footfall.types import Message


def row(name: str, kind: str, chosen: Any, rejected: Any, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": "get", "parameters": {}}], "conversation": [{"role": "user", "content": "Get it."}],
            "chosen_output": chosen, "rejected_output": rejected, "error_type": kind, "model_name": "m",
            "test_category": "simple", "test_id": name, **more}  # fmt: skip


def written(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "fc.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_card_check_2_error_types_sum_to_all_pairs() -> None:
    assert sum(ERROR_TYPES.values()) == 1500


def test_tools_conversation_and_calls_keep_their_place(tmp_path: Path) -> None:
    bench = fc_rewardbench(written(tmp_path, row("simple_0", "parsing error", [{"get": {"n": 1}}], "get(1")))
    right, wrong = (case.trajectory for case in bench.cases)
    assert right.problem.prompt == (Message("user", "Get it."),)
    assert right.problem.tools[0]["name"] == "get"
    assert [step.text for step in right.steps] == ['[{"get": {"n": 1}}]']
    assert [step.text for step in wrong.steps] == ["get(1"]
    assert (right.id, wrong.id) == ("simple_0#chosen", "simple_0#rejected")
    assert "1 pairs; the published data has 1500: parameter value error 650" in bench.notes[0]


def test_what_the_data_holds_as_json_text_is_unpacked(tmp_path: Path) -> None:
    packed = row("0", "parsing error", "a", "b", tools=json.dumps([{"name": "x"}]),
                 conversation=json.dumps([{"role": "user", "content": "?"}]))  # fmt: skip
    problem = fc_rewardbench(written(tmp_path, packed)).cases[0].trajectory.problem
    assert (problem.tools[0]["name"], problem.text) == ("x", "?")


def test_sanity_judges_and_the_oracle_get_their_hand_computed_figures(tmp_path: Path) -> None:
    data = written(tmp_path, row("0", "parsing error", "a", "bb"), row("1", "parsing error", "aa", "b"),
                   row("2", "unexpected parameter", "a", "bb"), row("3", "unexpected parameter", "a", "bb"))  # fmt: skip
    bench = fc_rewardbench(data)
    rows = ("parsing error", "unexpected parameter", "all")
    assert [run(bench, always_wrong(), resamples=5).value(name, "accuracy") for name in rows] == [0, 0, 0]
    assert [run(bench, LengthJudge(), resamples=5).value(name, "accuracy") for name in rows] == [0.5, 1, 0.75]
    assert [run(bench, Oracle(bench.cases), resamples=5).value(name, "accuracy") for name in rows] == [1, 1, 1]
    assert run(bench, RandomJudge(), resamples=5).value("all", "accuracy") in (0, 0.25, 0.5, 0.75, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conversation": []}, 'field "conversation": expected at least one message'),
        ({"conversation": [{"role": "user", "content": 1}]}, r'field "conversation\[0\].content": expected a string'),
        ({"tools": ["get"]}, r'field "tools\[0\]": expected an object'),
        ({"error_type": 3}, 'field "error_type": expected a string'),
        ({"rejected_output": None}, 'field "rejected_output": expected text'),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="line 1, " + message):
        fc_rewardbench(written(tmp_path, row("0", "parsing error", "a", "b", **change)))
