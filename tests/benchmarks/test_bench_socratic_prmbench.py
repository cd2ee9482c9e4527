"""Socratic-PRMBench: PRMBench's evaluator on another tree of categories."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from footfall import registry
from footfall.benchmarks.prmbench import PATTERNS, socratic_prmbench
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.formats import FormatError
from footfall.metrics.cases import RandomJudge, always_right, always_wrong
from footfall.metrics.steps import macro_f1, prm_score

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "socratic_prmbench"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data is not here")
RIGHT, WRONG = 17127, 8928


def written(folder: Path) -> Path:
    """Both flaws of Verification; the wrong steps are 2 of 3, and 1 of 2."""
    for flaw, steps, errors in (("detection_error", 3, [2]), ("correction_error", 2, [1, 7])):
        row = {
            "classification": flaw, "idx": "p#1", "modified_question": "?", "error_steps": errors,
            "modified_process": [f"1. goal {k}" for k in range(steps)],
        }  # fmt: skip
        (folder / f"test_{flaw}.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def test_flaws_are_splits_and_a_pattern_is_their_mean(tmp_path: Path) -> None:
    benchmark = socratic_prmbench(written(tmp_path))
    right, wrong = run(benchmark, always_right()), run(benchmark, always_wrong())
    # detection: TP 2, FP 1; correction: TP 1, FP 1.
    assert [right.value(flaw, "prm_score") for flaw in ("detection_error", "correction_error")] == pytest.approx(
        [0.4, 1 / 3]
    )
    assert right.value("Verification", "prm_score") == pytest.approx((0.4 + 1 / 3) / 2)
    # pooled TN 2, FN 3: F1_neg = 4 / 7.
    assert wrong.value("overall", "prm_score") == pytest.approx(2 / 7)
    told = [{"id": "detection_error_p#1", "scores": [1, 0, 1]}, {"id": "correction_error_p#1", "scores": [0, 0]}]
    report = run(benchmark, Scores.from_rows("mine", enumerate(told, start=1)))
    assert report.value("detection_error", "prm_score") == 1
    # correction: TN 1, FN 1.
    assert report.value("correction_error", "prm_score") == pytest.approx((0 + 2 / 3) / 2)
    assert report.value("Verification", "prm_score") == pytest.approx((1 + 1 / 3) / 2)


def test_steps_stay_as_they_stand_and_errors_past_the_end_are_noted(tmp_path: Path) -> None:
    benchmark = socratic_prmbench(written(tmp_path))
    assert benchmark.cases[0].trajectory.steps[0].text == "1. goal 0"
    assert [note.split()[0] for note in benchmark.notes] == ["1"]


def test_an_unknown_flaw_is_refused_by_line_and_field(tmp_path: Path) -> None:
    path = written(tmp_path) / "test_detection_error.jsonl"
    path.write_text(path.read_text().replace('"detection_error"', '"confidence"'))
    with pytest.raises(FormatError, match=r'line 1, field "classification"'):
        socratic_prmbench(path)


@pytest.mark.parametrize(
    ("on_right", "on_wrong", "score"), [(0.908, 0.429, 67.9), (0.826, 0.690, 75.7), (0.733, 0.560, 64.4)]
)
def test_published_recalls_give_the_published_scores(on_right: float, on_wrong: float, score: float) -> None:
    tp, tn = np.array([RIGHT * on_right]), np.array([WRONG * on_wrong])
    assert 100 * macro_f1(tp, WRONG - tn, tn, RIGHT - tp)[2][0] == pytest.approx(score, abs=0.05)


def test_constant_judges_of_as_many_steps_have_the_cards_figures() -> None:
    always, never = prm_score(RIGHT, WRONG, 0, 0), prm_score(0, 0, WRONG, RIGHT)
    assert always[:3] == pytest.approx((0.793247, 0.0, 0.396624), abs=1e-6)
    assert never.score == pytest.approx(0.255210, abs=1e-6)
    half = prm_score(RIGHT // 2, WRONG // 2, WRONG - WRONG // 2, RIGHT - RIGHT // 2)
    assert half.score == pytest.approx(0.487308, abs=2e-5), "as a coin does on average"


@pytest.mark.long
@needs_data
def test_the_released_counts_and_constant_judges_are_the_cards() -> None:
    benchmark = socratic_prmbench(DATA)
    cases = Counter(case.split for case in benchmark.cases)
    assert {name: sum(cases[flaw] for flaw in flaws) for name, flaws in PATTERNS.dimensions.items()} == {
        "Transformation": 313, "Decomposition": 463, "Regather": 463, "Deduction": 926, "Verification": 215,
        "Integration": 615,
    }  # fmt: skip
    truth = Counter(value for case in benchmark.cases for value in case.truth.values)
    assert truth == {1.0: RIGHT, 0.0: WRONG}
    assert [note.split()[0] for note in benchmark.notes] == ["80"]
    right, wrong = run(benchmark, always_right(), resamples=5), run(benchmark, always_wrong(), resamples=5)
    assert right.value("overall", "prm_score") == pytest.approx(0.396624, abs=1e-6)
    assert wrong.value("overall", "prm_score") == pytest.approx(0.255210, abs=1e-6)
    assert run(benchmark, RandomJudge(), resamples=5).value("overall", "prm_score") == pytest.approx(
        0.487308, abs=0.008
    )


def test_the_benchmark_is_found_by_name() -> None:
    assert registry.load("benchmark", "socratic-prmbench") is socratic_prmbench
