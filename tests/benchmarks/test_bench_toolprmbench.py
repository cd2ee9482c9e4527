"""ToolPRMBench: right and wrong actions after a history, four subsets and their plain mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.benchmarks.tool_pairs import PUBLISHED, SUBSETS, both_orders, toolprmbench
from footfall.metrics.cases import LengthJudge, Oracle, always_right
from footfall.metrics.preferences import mean_row
from footfall.types import Message


def row(name: str, chosen: Any, rejected: Any, **more: Any) -> dict[str, Any]:
    history = [
        {"role": "system", "content": "You may call tools."},
        {"role": "user", "content": "Book it."},
        {"role": "assistant", "content": {"name": "search", "parameters": {"q": "a"}}},
        {"role": "tool", "content": "found"},
        {"role": "user", "content": "The first."},
    ]
    return {"sample_id": name, "history": history, "action_chosen": chosen, "action_rejected": rejected,
            "rationale": "", "error type": "wrong tool", "tools": [{"name": "search"}], **more}  # fmt: skip


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_card_check_1_published_rows_are_plain_means() -> None:
    published = {"ToolPRM-GRPO": 78.6, "GPT-5": 74.4, "ToolPRM-Base": 57.15}
    for model, mean in published.items():
        rows = {subset: {"accuracy": np.array([at])} for subset, at in zip(SUBSETS, PUBLISHED[model], strict=False)}
        assert mean_row(rows)["accuracy"] == pytest.approx([mean])
        assert PUBLISHED[model][-1] == pytest.approx(mean, abs=0.0501), "the table prints one digit"
    assert sum(SUBSETS.values()) == 445


def test_card_check_2_always_the_first_action_gets_nothing_in_both_orders() -> None:
    assert both_orders("1", "1") == both_orders("2", "2") == both_orders("2", "1") == 0
    assert both_orders("1", "2") == 1


def test_the_history_is_prompt_and_steps_and_the_action_comes_last(tmp_path: Path) -> None:
    bench = toolprmbench(written(tmp_path / "gta.jsonl", row("g", {"name": "book", "parameters": {}}, "Done!")))
    right, wrong = (case.trajectory for case in bench.cases)
    assert right.problem.prompt == (Message("system", "You may call tools."), Message("user", "Book it."))
    assert [tool["name"] for tool in right.problem.tools] == ["search"]
    assert [step.text for step in right.steps] == [
        '{"name": "search", "parameters": {"q": "a"}}\nObservation: found\nUser: The first.',
        '{"name": "book", "parameters": {}}',
    ]
    assert wrong.steps[-1].text == "Done!"
    plain = toolprmbench(written(tmp_path / "bfcl.jsonl", row("b", "a", "b", history="x, a1, o1")))
    assert (plain.cases[0].trajectory.problem.text, len(plain.cases[0].trajectory.steps)) == ("x, a1, o1", 1)


def test_sanity_judges_and_the_oracle_get_their_hand_computed_figures(tmp_path: Path) -> None:
    written(tmp_path / "gta_test.jsonl", row("0", "a", "bb"), row("1", "aa", "b"), row("2", "a", "b"))
    written(tmp_path / "tool_talk.jsonl", row("0", "a", "bb"))
    written(tmp_path / "rest.jsonl", row("3", "aa", "b", subset="BFCL"), row("4", "a", "bb", subset="tool-sandbox"))
    bench = toolprmbench(tmp_path)
    constant = run(bench, always_right(), resamples=5)
    assert [constant.value(name, "accuracy") for name in (*SUBSETS, "AVG")] == [0] * 5
    length = run(bench, LengthJudge(), resamples=5)
    found = [length.value(name, "accuracy") for name in (*SUBSETS, "AVG")]
    assert found == pytest.approx([1 / 3, 1, 0, 1, 7 / 12])
    oracle = run(bench, Oracle(bench.cases), resamples=5)
    assert [oracle.value(name, "accuracy") for name in (*SUBSETS, "AVG")] == [1] * 5
    assert "GTA 3 of 118" in bench.notes[0]
    assert bench.published["Qwen2.5-Math-PRM-7B"]["BFCL"] == 36.9


def test_an_id_of_two_files_stays_apart_and_steps_before_the_action_need_no_score(tmp_path: Path) -> None:
    written(tmp_path / "bfcl.jsonl", row("0", "a", "b"))
    written(tmp_path / "gta.jsonl", row("0", "a", "b"))
    bench = toolprmbench(tmp_path)
    assert [case.trajectory.id for case in bench.cases] == ["0#chosen", "0#rejected", "0~2#chosen", "0~2#rejected"]
    given = Scores.from_rows("s", [(1, {"id": "0#chosen", "scores": [None, 0.6]}),
                                   (2, {"id": "0#rejected", "scores": [0.9, 0.5]})])  # fmt: skip
    report = run(bench, given, resamples=2)
    assert (report.value("BFCL", "accuracy"), report.left_out) == (1, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subset": "WebArena"}, 'field "subset": expected one of GTA'),
        ({"history": 3}, 'field "history": expected a list of objects'),
        ({"history": [{"role": "user"}]}, r'field "history\[0\].content"'),
        ({"action_chosen": 3}, 'field "action_chosen": expected text, an object or a list'),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="line 1, " + message):
        toolprmbench(written(tmp_path / "gta.jsonl", {**row("0", "a", "b"), **change}))


def test_a_file_of_no_known_subset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="here or in the file's name"):
        toolprmbench(written(tmp_path / "mine.jsonl", row("0", "a", "b")))
