"""EIC-Math: one planted error a case, by source and type."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from footfall import registry
from footfall.benchmarks.eic_math import SOURCES, TYPES, eic_math
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.formats import FormatError
from footfall.metrics.cases import LengthJudge, always_right, always_wrong
from footfall.types import Json

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "eic_math"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data is not here")


def case(wrong_step: Json, kind: str = "calculation_error", **more: Json) -> dict[str, Json]:
    return {
        "question": "?", "transformed_solution": "a\nb\nc\n#### 7", "wrong_step": wrong_step, "wrong_type": kind,
        "is_single_error": True, **more,
    }  # fmt: skip


def written(folder: Path, *rows: dict[str, Json], kind: str = "calculation_error", source: str = "GSM8K") -> Path:
    place = folder / f"generated_cases_{source}" / kind / f"{kind}_100"
    place.mkdir(parents=True)
    (place / "generated_cases_clean.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def scores(**values: list[float | None]) -> Scores:
    rows = [{"id": f"GSM8K/calculation_error/{name[1:]}", "scores": given} for name, given in values.items()]
    return Scores.from_rows("mine.jsonl", enumerate(rows, start=1))


def test_lines_are_steps_and_the_answer_is_none(tmp_path: Path) -> None:
    (only,) = eic_math(written(tmp_path, case(2))).cases
    assert [step.text for step in only.trajectory.steps] == ["a", "b", "c"]
    assert only.truth.values == (1, 0, None)


def test_the_sanity_judges_get_their_hand_computed_figures(tmp_path: Path) -> None:
    written(tmp_path, case(1), case(2), case(3))
    written(tmp_path, case(2, "missing_step"), kind="missing_step")
    written(tmp_path, case(1), source="MathQA")
    right, wrong = run(eic_math(tmp_path), always_right()), run(eic_math(tmp_path), always_wrong())
    split = "GSM8K/calculation_error"
    assert [right.value(split, name) for name in ("acc_step", "acc_present")] == [0, 0]
    assert [wrong.value(split, name) for name in ("acc_step", "acc_present")] == pytest.approx([1 / 3, 1])
    # All steps are of one length, and short.
    assert run(eic_math(tmp_path), LengthJudge()).table() == right.table()
    # Known steps: three right, three wrong.
    assert right.value(split, "prm_score") == pytest.approx((6 / 9) / 2)
    assert wrong.value("GSM8K", "acc_step") == pytest.approx((1 / 3 + 0) / 2)
    assert wrong.value("mean", "acc_step") == pytest.approx((1 / 3 + 0 + 1) / 3)


def test_the_oracle_is_perfect_and_an_early_alarm_is_not(tmp_path: Path) -> None:
    data, split = written(tmp_path, case(1), case(2)), "GSM8K/calculation_error"
    oracle = run(eic_math(data), scores(_1=[0, 1, 1], _2=[1, 0, 0]))
    assert {figure.value for figure in oracle.splits[0].figures.values()} == {1.0}
    early = run(eic_math(data), scores(_1=[0, 1, 1], _2=[0, 0, 1]))
    assert [early.value(split, name) for name in ("acc_step", "acc_present")] == [0.5, 1]


def test_what_is_left_out_or_odd_is_said_in_the_notes(tmp_path: Path) -> None:
    rows = [case(9), case(1, "rounding_error"), *(case(1) for _ in range(100))]
    benchmark = eic_math(written(tmp_path, *rows))
    assert len(benchmark.cases) == 100
    assert [note.split()[0] for note in benchmark.notes] == ["2", "1", "1"]
    wrong = run(benchmark, always_wrong(), resamples=5)
    assert wrong.value("GSM8K/calculation_error", "acc_step") == 1


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (case("two"), "wrong_step"),
        (case(0), "wrong_step"),
        (case(1, is_single_error="yes"), "is_single_error"),
        (case(1, transformed_solution="#### 3"), "transformed_solution"),
        (case(1, question=None), "question"),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, row: dict[str, Json], field: str) -> None:
    with pytest.raises(FormatError, match=r"generated_cases_clean.jsonl, line 2") as caught:
        eic_math(written(tmp_path, case(1), row))
    assert caught.value.field == field


def test_a_folder_without_the_benchmark_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="generated_cases_GSM8K"):
        eic_math(tmp_path)
    assert registry.load("benchmark", "eic-math") is eic_math


@needs_data
def test_the_released_benchmark_has_a_hundred_cases_of_each_source_and_type() -> None:
    benchmark = eic_math(DATA)
    assert benchmark.published["gpt-4-1106-preview (critic)"]["GSM8K"] == pytest.approx(84.33, abs=0.01)
    assert Counter(case.split for case in benchmark.cases) == {f"{s}/{kind}": 100 for s in SOURCES for kind in TYPES}
    assert [note.split()[0] for note in benchmark.notes] == ["16", "9", "39"]
    assert run(benchmark, always_wrong(), resamples=5).value("mean", "acc_present") == 1
