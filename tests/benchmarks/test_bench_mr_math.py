"""MR-MATH: invalid steps by value, redundant steps by aspect."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from footfall import registry
from footfall.benchmarks.mr_math import mr_math
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.formats import FormatError
from footfall.metrics.cases import LengthJudge, always_right, always_wrong
from footfall.types import Json, Judgement, Trajectory

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "reasoneval"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data is not here")


def invalid(number: int, first: int | str, **more: Json) -> dict[str, Json]:
    return {
        "id": number, "question": "?", "ground_truth_answer": "1", "generator": "Abel",
        "model_output_step_format": [["1. a", "aside"], ["2. b"], ["3. c"]],
        "model_output_solution_correctness": "correct" if first == "N/A" else "wrong",
        "model_output_solution_first_error_step": first, **more,
    }  # fmt: skip


def redundant(number: int, rating: list[Json]) -> dict[str, Json]:
    steps: list[Json] = [["a"] for _ in rating]
    return {"id": number, "question": "?", "model_output_step_format": steps, "rating": rating}


def written(folder: Path, name: str, *rows: dict[str, Json]) -> Path:
    path = folder / f"mr-math_{name}_errors.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def small(folder: Path) -> Path:
    """Invalid: the second step of the first, nothing of the second solution; redundant: one step of three."""
    written(folder, "invalid", invalid(0, 2), invalid(1, "N/A"))
    return written(folder, "redundant", redundant(0, [1, 0]), redundant(1, [1]))


class Redundancy:
    """Gives each step of a trajectory the redundancy that it is told; everything is valid."""

    name = "redundancy"

    def __init__(self, aspect: str = "redundancy", **given: tuple[float, ...]) -> None:
        self.aspect, self.given = aspect, given

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [
            Judgement(t.id, (1.0,) * len(t.steps), self.name,
                      aspects={self.aspect: self.given.get(t.id.replace("-", "_"), (0.0,) * len(t.steps))})
            for t in trajectories
        ]  # fmt: skip


def test_steps_in_several_lines_are_one_step_and_steps_after_the_error_have_no_truth(tmp_path: Path) -> None:
    first, second, *_ = mr_math(small(tmp_path)).cases
    assert [step.text for step in first.trajectory.steps] == ["1. a\naside", "2. b", "3. c"]
    assert (first.truth.values, second.truth.values) == ((1, 0, None), (1, 1, 1))


def test_the_sanity_judges_get_their_hand_computed_figures(tmp_path: Path) -> None:
    right, wrong = run(mr_math(small(tmp_path)), always_right()), run(mr_math(small(tmp_path)), always_wrong())
    # Steps: four right, one wrong. Solutions: one right, one wrong.
    assert right.value("invalid", "step_f1") == pytest.approx((8 / 9) / 2)
    assert wrong.value("invalid", "step_f1") == pytest.approx((2 / 6) / 2)
    assert right.value("invalid", "solution_f1") == wrong.value("invalid", "solution_f1") == pytest.approx(1 / 3)
    assert [right.value("invalid", name) for name in ("step_auc", "solution_auc")] == [0.5, 0.5]
    # All steps are short, so length calls everything right; the longest, a right one, is the lowest.
    length = run(mr_math(small(tmp_path)), LengthJudge())
    assert length.value("invalid", "step_f1") == right.value("invalid", "step_f1")
    # The wrong step "2. b" ties with the two other right ones and beats the two long ones.
    assert length.value("invalid", "step_auc") == pytest.approx((0 + 0 + 0.5 + 0.5) / 4)


def test_the_oracle_is_perfect_and_a_late_low_step_costs_nothing_by_step(tmp_path: Path) -> None:
    rows = [{"id": "invalid-0", "scores": [0.9, 0.1, 0.0]}, {"id": "invalid-1", "scores": [0.9, 0.8, 0.7]}]
    report = run(mr_math(small(tmp_path)), Scores.from_rows("mine", enumerate(rows, start=1)))
    assert {figure.value for figure in report.splits[0].figures.values()} == {1.0}
    assert (report.used, report.left_out) == (2, 2)


def test_redundancy_is_measured_only_for_judges_that_have_it(tmp_path: Path) -> None:
    data = small(tmp_path)
    assert [row.name for row in run(mr_math(data), always_right()).splits] == ["invalid"]
    oracle = run(mr_math(data), Redundancy(redundant_0=(0.1, 0.2)))
    names = ("step_f1", "step_auc", "solution_f1", "solution_auc")
    assert [oracle.value("redundant", name) for name in names] == [1, 1, 1, 1]
    # Both steps of the first are called redundant: TP 1, FN 1, TN 1, so F1 2/3 twice.
    over = run(mr_math(data), Redundancy("redundant", redundant_0=(1.0, 1.0)))
    assert over.value("redundant", "step_f1") == pytest.approx(2 / 3)
    assert over.value("redundant", "solution_f1") == 1


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (invalid(1, 4), "model_output_solution_first_error_step"),
        (invalid(1, "N/A", model_output_solution_correctness="wrong"), "model_output_solution_first_error_step"),
        (invalid(1, 0), "model_output_solution_first_error_step"),
        (invalid(1, "N/A", model_output_solution_correctness="?"), "model_output_solution_correctness"),
        (invalid(1, "N/A", model_output_step_format=["a"]), "model_output_step_format[0].step"),
        (redundant(1, [1, -1]), "rating"),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, row: dict[str, Json], field: str) -> None:
    with pytest.raises(FormatError, match="line 2") as caught:
        mr_math(written(tmp_path, "invalid", invalid(0, "N/A"), row))
    assert caught.value.field == field


@needs_data
def test_the_released_cases_are_the_papers() -> None:
    benchmark = mr_math(DATA)
    assert Counter((case.split, case.truth.value) for case in benchmark.cases) == {
        ("invalid", 0): 83, ("invalid", 1): 76, ("redundant", 0): 150, ("redundant", 1): 150}  # fmt: skip
    right = run(benchmark, always_right(), resamples=5)
    # 76 of 159 solutions are right: F1 = 152 / 235.
    assert right.value("invalid", "solution_f1") == pytest.approx(152 / 235 / 2)


def test_the_benchmark_is_found_by_name() -> None:
    assert registry.load("benchmark", "mr-math") is mr_math
