"""ToolComp: pairs of plans and of ReAct steps after a history that is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.benchmarks.tool_pairs import toolcomp
from footfall.metrics.cases import LengthJudge, Oracle, always_right
from footfall.search import aggregate


def react(thought: str, observation: str | None = "ok") -> dict[str, Any]:
    said: dict[str, Any] = {"thought": {"text": thought}, "action": {"text": "python"}, "action_input": {"text": "1+1"}}
    return said if observation is None else {**said, "observation": {"text": observation}}


def plan(text: str) -> dict[str, Any]:
    return {"action plan": {"text": text}}


def row(history: list[dict[str, Any]], preferred: dict[str, Any], dispreferred: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": "How warm is it?", "tools": ["google_search", "python"], "historical_date": "2024-09-03",
            "history": json.dumps(history), "preferred": preferred, "dispreferred": dispreferred}  # fmt: skip


def written(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "process.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def three(tmp_path: Path) -> Path:
    """A plan pair whose preferred plan is shorter, and two step pairs: preferred shorter, preferred longer."""
    past = [plan("search, then add"), react("search")]
    return written(
        tmp_path,
        row([], plan("add"), plan("add all of it")),
        row(past, react("a"), react("aaa")),
        row(past, react("aaa"), react("a", None)),
    )


def test_the_history_is_the_steps_before_the_candidate(tmp_path: Path) -> None:
    bench = toolcomp(three(tmp_path))
    assert [case.split for case in bench.cases[::2]] == ["plan", "react", "react"]
    assert [len(case.trajectory.steps) for case in bench.cases] == [1, 1, 3, 3, 3, 3]
    step = bench.cases[2].trajectory.steps
    assert step[0].text == "Action Plan: search, then add"
    assert step[2].text == "Thought: a\nAction: python\nAction Input: 1+1\nObservation: ok"
    assert "Observation" not in bench.cases[5].trajectory.steps[2].text
    problem = bench.cases[0].trajectory.problem
    assert problem.text == "How warm is it?\n\nThe current date is 2024-09-03."
    assert [tool["name"] for tool in problem.tools] == ["google_search", "python"]
    assert bench.notes == ("3 pairs; the published data has 1731",)


def test_sanity_judges_and_the_oracle_get_their_hand_computed_figures(tmp_path: Path) -> None:
    bench = toolcomp(three(tmp_path))
    constant = run(bench, always_right(), resamples=5)
    assert [constant.value(name, "accuracy") for name in ("plan", "react", "all")] == [0, 0, 0]
    length = run(bench, LengthJudge(), resamples=5)
    assert [length.value(name, "accuracy") for name in ("plan", "react")] == [1, 0.5]
    assert length.value("all", "accuracy") == pytest.approx(2 / 3)
    oracle = run(bench, Oracle(bench.cases), resamples=5)
    assert [oracle.value(name, "accuracy") for name in ("plan", "react", "all")] == [1, 1, 1]


def test_a_judge_of_steps_is_compared_by_the_candidate_alone(tmp_path: Path) -> None:
    past = [plan("p"), react("search")]
    data = written(tmp_path, row(past, react("a"), react("b")))
    given = Scores.from_rows("s", [(1, {"id": "toolcomp-0#preferred", "scores": [0.1, None, 0.6]}),
                                   (2, {"id": "toolcomp-0#dispreferred", "scores": [0.9, 0.9, 0.5]})])  # fmt: skip
    assert run(toolcomp(data), given, resamples=2).value("react", "accuracy") == 1


def test_card_check_2_the_aggregation_changes_the_winner() -> None:
    values = {"A": [0.9, 0.95, 0.6, 0.99], "B": [0.85, 0.8, 0.82], "C": [0.99, 0.5, 0.7]}
    by = {
        how: {name: aggregate(v, how) or 0.0 for name, v in values.items()}
        for how in ("min", "prod", "mean", "last", "max")
    }
    assert [round(by["prod"][name], 4) for name in "ABC"] == [0.5079, 0.5576, 0.3465]
    assert [round(by["mean"][name], 4) for name in "ABC"] == [0.86, 0.8233, 0.73]
    winners = {how: max(scores, key=lambda name: scores[name]) for how, scores in by.items()}
    assert winners == {"min": "B", "prod": "B", "mean": "A", "last": "A", "max": "A"}


def test_tools_may_be_the_text_of_a_list_and_history_a_list(tmp_path: Path) -> None:
    given = {**row([], plan("a"), plan("b")), "tools": "['x', 'y']", "history": [], "historical_date": None}
    problem = toolcomp(written(tmp_path, given)).cases[0].trajectory.problem
    assert ([tool["name"] for tool in problem.tools], problem.text) == (["x", "y"], "How warm is it?")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"history": "[{"}, 'field "history": expected a string that holds JSON'),
        ({"preferred": react("a")}, 'field "preferred.action plan": expected an object'),
        ({"dispreferred": {"action plan": {}}}, 'field "dispreferred.action plan.text": expected a string'),
        ({"tools": "['x'"}, 'field "tools": expected a list of tool names'),
        ({"tools": [1]}, 'field "tools": expected a list of tool names'),
        ({"history": json.dumps([plan("p"), {"thought": {"text": "a"}}])}, r'field "history\[1\].action"'),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="line 1, " + message):
        toolcomp(written(tmp_path, {**row([], plan("a"), plan("b")), **change}))
