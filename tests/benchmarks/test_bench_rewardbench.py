"""RewardBench: weights, sections and the strict comparison, on rows that the test writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from footfall.benchmarks.rewardbench import PAIRS, SECTIONS, WEIGHTS, rewardbench, sections
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.metrics.cases import LengthJudge, Oracle, RandomJudge, always_right
from footfall.metrics.preferences import Compared


def row(i: int, subset: str, chosen: str = "short", rejected: str = "much longer") -> dict[str, Any]:
    return {"id": i, "subset": subset, "prompt": "?", "chosen": chosen, "chosen_model": "m", "rejected": rejected,
            "rejected_model": "n"}  # fmt: skip


def written(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "filtered.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_card_check_1_sizes_and_weights() -> None:
    assert sum(PAIRS.values()) == 2985
    assert {name: sum(subsets.values()) for name, subsets in SECTIONS.items()} == {
        "Chat": 358, "Chat Hard": 456, "Safety": 740, "Reasoning": 1968}  # fmt: skip


def test_card_check_2_math_weighs_as_much_as_all_code() -> None:
    subsets = SECTIONS["Reasoning"]
    rows = {s: {"accuracy": np.array([0.8 if s == "math-prm" else 0.9])} for s in subsets}
    none = Compared(np.asarray(list(subsets)), np.zeros(7, dtype=np.int64), np.zeros(7))
    found = sections(rows, none, np.ones((1, 1)))
    assert found["Reasoning"]["accuracy"] == pytest.approx([0.85])
    assert found["overall"]["accuracy"] == pytest.approx([0.85])


def test_sections_weigh_subsets_and_the_overall_is_their_plain_mean(tmp_path: Path) -> None:
    data = written(tmp_path, row(0, "math-prm"), row(1, "hep-go", "long code", "x"), row(2, "donotanswer"),
                   row(3, "donotanswer", "same", "same"))  # fmt: skip
    report = run(rewardbench(data), LengthJudge(), resamples=5)
    assert report.value("math-prm", "accuracy") == 1
    assert report.value("hep-go", "accuracy") == 0
    assert report.value("donotanswer", "accuracy") == 0.5
    assert report.value("Reasoning", "accuracy") == pytest.approx(984 / (984 + 164))
    assert report.value("Safety", "accuracy") == 0.5
    assert report.value("overall", "accuracy") == pytest.approx((984 / 1148 + 0.5) / 2)
    assert report.main_row().name == "overall"


def test_card_check_3_a_constant_judge_gets_nothing_and_the_oracle_everything(tmp_path: Path) -> None:
    data = written(tmp_path, *(row(i, subset) for i, subset in enumerate(WEIGHTS)))
    bench = rewardbench(data)
    constant = run(bench, always_right(), resamples=5)
    assert [constant.value(name, "accuracy") for name in (*SECTIONS, "overall")] == [0] * 5
    best = run(bench, Oracle(bench.cases), resamples=5)
    assert [best.value(name, "accuracy") for name in (*SECTIONS, "overall")] == [1] * 5
    guess = run(bench, RandomJudge(0), resamples=5).value("overall", "accuracy")
    assert 0.1 < guess < 0.9
    assert bench.published["INF-ORM-Llama3.1-70B"]["overall"] == 95.1


def test_responses_are_cut_at_blank_lines_and_folded_by_the_named_aggregation(tmp_path: Path) -> None:
    data = written(tmp_path, row(7, "math-prm", "a\n\nb\n\nc", "d\n\ne"))
    given = Scores.from_rows("s", [(1, {"id": "7#chosen", "scores": [0.5, 0.9, 0.9]}),
                                   (2, {"id": "7#rejected", "scores": [0.6, 0.6]})])  # fmt: skip
    assert run(rewardbench(data), given, resamples=2).value("math-prm", "accuracy") == 0
    by_mean = run(rewardbench(data, aggregation="mean"), given, resamples=2)
    assert by_mean.value("math-prm", "accuracy") == 1
    assert "mean of its step values" in by_mean.protocol
    assert run(rewardbench(data, aggregation="last"), given, resamples=2).value("overall", "accuracy") == 1


def test_a_judge_of_whole_responses_is_compared_by_its_own_value(tmp_path: Path) -> None:
    data = written(tmp_path, row(7, "math-prm", "a\n\nb", ""))
    given = Scores.from_rows("s", [(1, {"id": "7#chosen", "value": 2.5}), (2, {"id": "7#rejected", "value": -1}),])  # fmt: skip
    assert run(rewardbench(data), given, resamples=2).value("overall", "accuracy") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subset": "hep-cobol"}, 'line 2, field "subset": expected one of alpacaeval-easy'),
        ({"chosen": 3}, 'line 2, field "chosen": expected a string'),
        ({"id": None}, 'line 2, field "id": expected a string or an integer'),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    data = written(tmp_path, row(0, "math-prm"), {**row(1, "math-prm"), **change})
    with pytest.raises(ValueError, match=message):
        rewardbench(data)


def test_data_that_is_not_the_whole_benchmark_says_so(tmp_path: Path) -> None:
    note = rewardbench(written(tmp_path, row(0, "math-prm"))).notes[0]
    assert "math-prm 1 of 447" in note
    (tmp_path / "filtered.jsonl").write_text("")
    with pytest.raises(ValueError):
        rewardbench(tmp_path / "filtered.jsonl")
