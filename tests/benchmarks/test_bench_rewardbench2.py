"""RewardBench 2: best of four with shared credit, and the ties score of the card's worked example."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from footfall.benchmarks.rewardbench2 import PROMPTS, rewardbench2, spread, ties_score
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.metrics.cases import LengthJudge, Oracle, always_right

REF = {"1": ([5.0], [1.0, 0.5]), "2": ([2.0], [1.8, 3.0])}
TIED = {"1": ([4.0, 3.5, 3.8], [1.0, 2.0]), "2": ([3.0, 1.0], [0.5, 0.2])}


def row(name: str, subset: str, chosen: list[str], rejected: list[str]) -> dict[str, Any]:
    return {"id": name, "prompt": "?", "chosen": chosen, "rejected": rejected, "num_correct": len(chosen),
            "num_incorrect": len(rejected), "total_completions": 4, "models": [], "subset": subset}  # fmt: skip


def written(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "test.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def ties_rows() -> list[dict[str, Any]]:
    return [
        row(f"{kind}:{number}", "Ties", ["right"] * len(correct), ["wrong"] * len(wrong))
        for kind, prompts in (("ref", REF), ("tied", TIED))
        for number, (correct, wrong) in prompts.items()
    ]


def ties_scores() -> list[tuple[int, dict[str, Any]]]:
    found = [
        {"id": f"{kind}:{number}#{which}-{i}", "scores": [score]}
        for kind, prompts in (("ref", REF), ("tied", TIED))
        for number, both in prompts.items()
        for which, given in zip(("chosen", "rejected"), both, strict=True)
        for i, score in enumerate(given)
    ]
    return list(enumerate(found, start=1))


def test_card_check_1_sizes() -> None:
    assert sum(PROMPTS.values()) == 1865


def test_card_check_3_the_worked_example_of_ties() -> None:
    ref = {number: spread(*both) for number, both in REF.items()}
    tied = {number: spread(*both) for number, both in TIED.items()}
    assert [tied[n].spread for n in "12"] == pytest.approx([0.5, 2.0])
    assert [tied[n].margin for n in "12"] == pytest.approx([1.5, 0.5])
    assert [ref[n].margin for n in "12"] == pytest.approx([4.0, -1.0])
    assert float(ties_score(ref, tied)[0]) == pytest.approx(0.650294, abs=1e-6)


def test_the_worked_example_through_the_benchmark(tmp_path: Path) -> None:
    report = run(rewardbench2(written(tmp_path, *ties_rows())), Scores.from_rows("s", ties_scores()), resamples=20)
    assert report.value("Ties", "score") == pytest.approx(0.650294, abs=1e-6)
    assert report.value("overall", "score") == report.value("Ties", "score")


def test_equal_right_scores_far_above_the_wrong_ones_reach_1_01_and_equal_scores_nothing() -> None:
    apart = {"1": spread([5.0, 5.0], [1.0])}
    assert float(ties_score({"1": spread([5.0], [1.0])}, apart)[0]) == pytest.approx(1.01)
    flat = {"1": spread([1.0, 1.0], [1.0])}
    assert float(ties_score(flat, flat)[0]) == 0


def test_ties_weighs_prompts_by_resample() -> None:
    ref = {number: spread(*both) for number, both in REF.items()}
    tied = {number: spread(*both) for number, both in TIED.items()}
    only_first = {"1": np.array([1.0, 2.0]), "2": np.array([1.0, 0.0])}
    found = ties_score(ref, tied, only_first)
    assert found[0] == pytest.approx(0.650294, abs=1e-6)
    assert found[1] == pytest.approx(0.3 + 0.3 + 0.2 + 0.2 + 0.01 * math.tanh(2.0))


def test_card_check_2_a_constant_judge_gets_a_quarter_of_each_best_of_four(tmp_path: Path) -> None:
    rows = [row(name, name, ["a"], ["b", "c", "d"]) for name in PROMPTS if name != "Ties"]
    bench = rewardbench2(written(tmp_path, *rows, *ties_rows()))
    report = run(bench, always_right(), resamples=5)
    assert [report.value(r["id"], "score") for r in rows] == [0.25] * 5
    assert report.value("Ties", "score") == 0
    assert report.value("overall", "score") == pytest.approx(5 * 0.25 / 6)
    best = run(bench, Oracle(bench.cases), resamples=5)
    assert [best.value(r["id"], "score") for r in rows] == [1] * 5
    assert best.value("Ties", "score") == pytest.approx(1.01)


def test_the_length_judge_is_right_where_the_chosen_response_is_shortest(tmp_path: Path) -> None:
    data = written(tmp_path, row("0", "Math", ["a"], ["bb", "cc", "dd"]), row("1", "Math", ["aa"], ["bb", "c", "dd"]),
                   row("2", "Focus", ["a"], ["b", "cc", "dd"]))  # fmt: skip
    report = run(rewardbench2(data), LengthJudge(), resamples=5)
    assert [report.value(name, "score") for name in ("Math", "Focus", "overall")] == [0.5, 0.5, 0.5]


def test_a_prompt_with_an_unscored_response_is_left_out_and_counted(tmp_path: Path) -> None:
    given = ties_scores()
    given[0][1]["scores"] = [None]  # the right answer of ref:1
    plain = [(100 + i, {"id": f"q#{name}", "scores": [None if i == 3 else 0.5]})
             for i, name in enumerate(("chosen-0", "rejected-0", "rejected-1", "rejected-2"))]  # fmt: skip
    data = written(tmp_path, row("q", "Math", ["a"], ["b", "c", "d"]), *ties_rows())
    report = run(rewardbench2(data), Scores.from_rows("s", [*given, *plain]), resamples=5)
    assert (report.value("Ties", "unscored"), report.value("Math", "unscored")) == (0.25, 1)
    assert math.isnan(report.value("Math", "score"))
    # Left: ref 2 (not accurate), tied 1 and 2; pair 2 has CP 0, CPh 0 and M = tanh(-1.5).
    assert report.value("Ties", "score") == pytest.approx(0.3 + 0.01 * math.tanh(-1.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subset": "Humour"}, 'field "subset": expected one of Factuality'),
        ({"subset": "Ties"}, 'field "id": expected an id of Ties'),
        ({"chosen": []}, 'field "chosen": expected at least one response'),
        ({"rejected": ["b", 2]}, r'field "rejected\[1\]": expected a string'),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    data = written(tmp_path, {**row("0", "Math", ["a"], ["b"]), **change})
    with pytest.raises(ValueError, match="line 1, " + message):
        rewardbench2(data)
