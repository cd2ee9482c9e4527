"""MR-Ben: correctness by MCC, the first error by the step number that the text names."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from footfall import registry
from footfall.benchmarks.mr_ben import matthews, merged_steps, mr_ben
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.formats import FormatError
from footfall.metrics.cases import LengthJudge, always_right, always_wrong
from footfall.types import Json, Judgement, Trajectory

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "mr_ben"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data is not here")


def solution(model: str, first: str, **more: Json) -> dict[str, Json]:
    return {
        "Question": "Which?", "Options": "A: x\nB: y", "Ground_Truth_Answer": "A", "Sampled_Model": model,
        "Model_Solution_Steps": ["Step 1: a", "aside", "Step 2: b", "Solution: A"],
        "Model_Solution_Correctness": "correct" if first == "N/A" else "incorrect",
        "Model_Solution_First_Error_Step": first, **more,
    }  # fmt: skip


def written(folder: Path, *rows: dict[str, Json], subject: str = "math") -> Path:
    (folder / f"{subject}.json").write_text(json.dumps({"uuid": rows}, indent=1))
    return folder


def small(folder: Path) -> Path:
    """Labels 1, 2, 2 and two correct solutions."""
    labels = {"a": "1", "b": "2", "c": "2", "d": "N/A", "e": "N/A"}
    return written(folder, *(solution(model, first) for model, first in labels.items()))


def scores(**values: list[float | None]) -> Scores:
    rows = [{"id": f"uuid/{name}", "scores": given} for name, given in values.items()]
    return Scores.from_rows("mine.jsonl", enumerate(rows, start=1))


def test_lines_join_into_the_steps_that_the_text_names() -> None:
    assert merged_steps(["Step 1: a", "more", "", "Step 2: b", "Step 2.1: c", "Step 3: d", "Solution: A"]) == [
        "Step 1: a\nmore", "Step 2: b\nStep 2.1: c", "Step 3: d\nSolution: A"]  # fmt: skip
    assert merged_steps(["Here it is.", "Step 1: a", "Step 2: b"]) == ["Here it is.\nStep 1: a", "Step 2: b"]
    assert merged_steps(["tep 1: a", "Step 2: b"]) == ["tep 1: a", "Step 2: b"]
    assert len(merged_steps(["Step 1: A", "Step 2: A", "Step 1: B", "Step 2: B"])) == 2


def test_the_sanity_judges_know_nothing_of_correctness(tmp_path: Path) -> None:
    data = small(tmp_path)
    right, wrong = run(mr_ben(data), always_right()), run(mr_ben(data), always_wrong())
    assert [right.value("math", name) for name in ("mcc", "acc_step")] == [0, 0]
    assert [wrong.value("math", name) for name in ("mcc", "acc_step")] == pytest.approx([0, 1 / 3])
    # All steps are short, so length calls everything right.
    assert run(mr_ben(data), LengthJudge()).splits == right.splits


def test_mcc_and_first_step_accuracy_are_as_computed_by_hand(tmp_path: Path) -> None:
    told = scores(a=[0, 0], b=[0, 0], c=[1, 1], d=[1, 1], e=[1, 0])
    report = run(mr_ben(small(tmp_path)), told)
    # TP 1 (d), FP 1 (c), TN 2 (a, b), FN 1 (e); of three errors only a's is found.
    assert report.value("math", "mcc") == pytest.approx((2 - 1) / math.sqrt(2 * 2 * 3 * 3))
    assert report.value("math", "acc_step") == pytest.approx(1 / 3)
    oracle = run(mr_ben(small(tmp_path)), scores(a=[0, 1], b=[1, 0], c=[1, 0], d=[1, 1], e=[1, 1]))
    assert [oracle.value("math", name) for name in ("mcc", "acc_step")] == [1, 1]
    assert "mr_score" not in oracle.splits[0].figures and "acc_reason" not in oracle.splits[0].figures


def test_who_cannot_say_is_wrong_in_either_class(tmp_path: Path) -> None:
    told = scores(a=[None, 0], b=[None, 0], c=[None, 1], d=[None, 1], e=[1, 1])
    report = run(mr_ben(small(tmp_path)), told)
    # TP 1 (e), FP 3 (a, b, c), TN 0, FN 1 (d).
    assert [report.value("math", name) for name in ("mcc", "acc_step")] == pytest.approx([-3 / math.sqrt(24), 0])


class Whole:
    """Low steps everywhere, but the solution as a whole is fine."""

    name = "whole"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (0.0,) * len(t.steps), self.name, value=0.9) for t in trajectories]


def test_a_judges_own_word_on_the_whole_goes_before_its_steps(tmp_path: Path) -> None:
    assert run(mr_ben(small(tmp_path)), Whole()).value("math", "acc_step") == 0


def test_coding_has_no_step_accuracy_and_the_means_are_over_subjects(tmp_path: Path) -> None:
    code = {"Model_Solution_Steps": "def f():\n\n    return 1", "Options": None}
    rows = [solution("a", "    return 1", **code), solution("b", "N/A", **code), solution("b", "N/A", **code)]
    written(small(tmp_path), *rows, subject="coding")
    benchmark = mr_ben(tmp_path)
    assert [len(case.trajectory.steps) for case in benchmark.cases if case.split == "coding"] == [2, 2, 2]
    assert benchmark.cases[-1].trajectory.id == "uuid/b~2"
    report = run(benchmark, always_wrong())
    assert {row.name: list(row.figures) for row in report.splits}["coding"] == ["mcc"]
    assert report.value("mean", "acc_step") == pytest.approx(1 / 3)


def test_an_error_step_that_the_text_does_not_have_counts_in_mcc_alone(tmp_path: Path) -> None:
    benchmark = mr_ben(written(tmp_path, solution("a", "7"), solution("b", "1"), solution("c", "N/A")))
    assert [note.split()[0] for note in benchmark.notes] == ["MR-Score", "1"]
    assert run(benchmark, always_wrong()).value("math", "acc_step") == 1


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"Model_Solution_Correctness": "maybe"}, "Model_Solution_Correctness"),
        ({"Model_Solution_First_Error_Step": "second"}, "Model_Solution_First_Error_Step"),
        ({"Model_Solution_First_Error_Step": "N/A"}, "Model_Solution_First_Error_Step"),
        ({"Model_Solution_Correctness": "correct"}, "Model_Solution_First_Error_Step"),
        ({"Model_Solution_Steps": "one"}, "Model_Solution_Steps"),
    ],
)
def test_a_bad_row_is_refused_by_file_and_field(tmp_path: Path, more: dict[str, Json], field: str) -> None:
    with pytest.raises(FormatError, match=r"math.json, line 1") as caught:
        mr_ben(written(tmp_path, solution("a", "1"), solution("b", "2") | more))
    assert caught.value.field == f"uuid[1].{field}"


def test_mcc_is_zero_for_one_word_answers_and_absent_without_a_second_class() -> None:
    arrays = [np.array([float(n)]) for n in (3, 2, 0, 0)]
    assert matthews(*arrays)[0] == 0
    assert np.isnan(matthews(*(np.array([float(n)]) for n in (3, 0, 0, 1)))[0])


@needs_data
def test_the_released_subjects_have_the_known_numbers_of_solutions() -> None:
    benchmark = mr_ben(DATA)
    assert Counter(case.split for case in benchmark.cases) == {
        "math": 918, "physics": 667, "chemistry": 848, "biology": 1035, "medicine": 828, "coding": 238}  # fmt: skip
    assert len({case.trajectory.id for case in benchmark.cases}) == 4534
    assert benchmark.notes[1].startswith("4 incorrect")
    wrong = run(benchmark, always_wrong(), resamples=5)
    # Of chemistry's 466 incorrect solutions 111 go wrong in their first step.
    assert wrong.value("chemistry", "acc_step") == pytest.approx(111 / 466)
    assert wrong.value("mean", "mcc") == 0


def test_the_benchmark_is_found_by_name() -> None:
    assert registry.load("benchmark", "mr-ben") is mr_ben
