"""PRMBench: the card's worked numbers, rows written here, then the released data where it is."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from footfall import registry
from footfall.benchmarks.prmbench import CATEGORIES, CLASSES, prmbench
from footfall.benchmarks.runner import Benchmark, run
from footfall.benchmarks.scores import Scores
from footfall.formats import FormatError
from footfall.metrics.cases import LengthJudge, RandomJudge, always_right, always_wrong
from footfall.types import Json, Judgement, Trajectory

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "prmbench"
needs_data = pytest.mark.skipif(not (DATA / "prmbench_all_6216.jsonl.gz").is_file(), reason="the data is not here")


def record(classification: str, idx: str, errors: list[int], steps: int = 4, **more: Json) -> dict[str, Json]:
    return {
        "classification": classification, "idx": idx, "modified_question": "?", "original_question": "?",
        "modified_process": [f"{k}. step {k}" for k in range(1, steps + 1)], "original_process": ["1. one", "2. two"],
        "error_steps": [*errors], **more,
    }  # fmt: skip


def written(folder: Path, *records: dict[str, Json]) -> Path:
    path = folder / "prmbench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in records))
    return path


def scores(**values: list[float | None]) -> Scores:
    rows = [{"id": name, "scores": given} for name, given in values.items()]
    return Scores.from_rows("mine.jsonl", enumerate(rows, start=1))


class WithRedundancy:
    """Finds every step valid, and the second one redundant."""

    name = "redundancy"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [
            Judgement(t.id, (1.0,) * len(t.steps), self.name,
                      aspects={"redundant": tuple(float(k == 1) for k in range(len(t.steps)))})
            for t in trajectories
        ]  # fmt: skip


def test_the_cards_two_cases_give_its_worked_figures(tmp_path: Path) -> None:
    data = written(tmp_path, record("confidence", "a", [3, 4, 5], 7), record("confidence", "b", [2]))
    report = run(prmbench(data), scores(confidence_a=[1, 1, 0, 1, 0, 1, 1], confidence_b=[1, 0, 1, 0]))
    assert report.value("CI", "f1") == pytest.approx(0.857143, abs=1e-6)
    assert report.value("CI", "f1_neg") == pytest.approx(0.75)
    assert report.value("CI", "prm_score") == pytest.approx(0.803571, abs=1e-6)
    assert report.value("CI", "accuracy") == pytest.approx(9 / 11)
    assert (report.value("CI", "acc_right"), report.value("CI", "acc_wrong")) == pytest.approx((6 / 7, 3 / 4))
    assert report.value("CI", "first_error") == 1


def small(folder: Path) -> Benchmark:
    """NR: wrong steps 2 of 4; ES: 1 and 2 of 4; MS: none of 4; a twin of two steps."""
    rows = record("redundency", "x", [2]), record("counterfactual", "x", [1, 2]), record("multi_solutions", "x", [])
    return prmbench(written(folder, *rows))


def test_the_sanity_judges_get_their_hand_computed_figures(tmp_path: Path) -> None:
    right, wrong = run(small(tmp_path), always_right()), run(small(tmp_path), always_wrong())
    # NR: TP 3, FP 1; ES: TP 2, FP 2; pooled with MS: TP 9, FP 3.
    assert [right.value(row, "prm_score") for row in ("NR", "ES", "MS", "overall")] == pytest.approx(
        [3 / 7, 1 / 3, 1.0, 9 / 21]
    )
    # TN 3, FN 9: F1_neg = 6 / 15.
    assert wrong.value("overall", "prm_score") == pytest.approx(0.2)
    assert [wrong.value(row, "first_error") for row in ("NR", "ES")] == [1, 1]
    assert (right.value("correct", "acc_right"), wrong.value("correct", "acc_right")) == (1, 0)
    assert right.value("overall", "similarity") == 0
    assert run(small(tmp_path), LengthJudge()).splits == right.splits  # all steps are short


def test_the_oracle_is_perfect_and_only_the_twin_shows_in_similarity(tmp_path: Path) -> None:
    told = scores(redundency_x=[1, 0, 1, 1], counterfactual_x=[0, 0, 1, 1], multi_solutions_x=[1, 1, 1, 1],
                  correct_x=[1, 1])  # fmt: skip
    report = run(small(tmp_path), told)
    assert [report.value(row, "prm_score") for row in ("NR", "ES", "MS", "overall")] == [1, 1, 1, 1]
    assert [report.value(row, "similarity") for row in ("NR", "ES", "MS")] == [0.25, 0.5, 0]
    assert report.value("overall", "similarity") == 0.25
    assert "Simplicity" not in [row.name for row in report.splits]  # NCL has no case here


def test_a_value_at_the_threshold_is_called_wrong_and_a_missing_one_is_not_counted(tmp_path: Path) -> None:
    report = run(small(tmp_path), scores(redundency_x=[0.6, 0.5, None, 0.5]), threshold=0.5)
    # Step 1 TP, step 2 TN, step 3 not judged, step 4 FN.
    assert report.value("NR", "accuracy") == pytest.approx(2 / 3)
    assert report.value("NR", "prm_score") == pytest.approx(2 / 3)
    assert (report.unjudged_steps, report.left_out) == (1, 3)


def test_redundancy_counts_in_the_simplicity_categories_alone(tmp_path: Path) -> None:
    report = run(small(tmp_path), WithRedundancy())
    assert report.value("NR", "prm_score") == 1
    assert report.value("ES", "acc_wrong") == 0
    # NR: both the case and its twin are judged by redundancy, 3/4 and 1/2; MS by validity.
    assert (report.value("NR", "similarity"), report.value("MS", "similarity")) == (0.25, 0)


def test_repeated_ids_and_errors_past_the_end_are_said_in_the_notes(tmp_path: Path) -> None:
    again = record("deception", "x", [1], 3)
    benchmark = prmbench(written(tmp_path, record("deception", "x", [2, 9]), again, record("deception", "y", [1])))
    assert [case.trajectory.id for case in benchmark.cases] == ["deception_x", "deception_y"]
    assert list(benchmark.cases[0].truth.values) == [1, 0, 1, 1]
    assert [note[:6] for note in benchmark.notes] == ["1 rows", "1 rows"]


def test_only_a_steps_own_number_is_stripped(tmp_path: Path) -> None:
    row = record("circular", "x", [1], modified_process=["1. one", "3. not mine", "3.5 is a number"])
    (case,) = prmbench(written(tmp_path, row)).cases
    assert [step.text for step in case.trajectory.steps] == ["one", "3. not mine", "3.5 is a number"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"classification": "typo"}, "classification"),
        ({"error_steps": ["1"]}, "error_steps[0]"),
        ({"modified_process": []}, "modified_process"),
        ({"idx": None}, "idx"),
    ],
)
def test_a_bad_row_is_refused_by_file_line_and_field(tmp_path: Path, more: dict[str, Json], field: str) -> None:
    path = written(tmp_path, record("deception", "x", [1]), record("deception", "y", [1]) | more)
    with pytest.raises(FormatError, match=r"prmbench.jsonl, line 2") as caught:
        prmbench(path)
    assert caught.value.field == field


def test_the_benchmark_is_found_by_name_and_a_wrong_folder_is_an_error(tmp_path: Path) -> None:
    assert registry.load("benchmark", "prmbench") is prmbench
    with pytest.raises(FileNotFoundError, match="prmtest_classified"):
        prmbench(tmp_path)


@cache
def released() -> Benchmark:
    return prmbench(DATA)


@pytest.mark.long
@needs_data
def test_the_released_cases_steps_and_errors_are_the_cards() -> None:
    benchmark = released()
    cases, steps, errors = Counter[str](), Counter[str](), Counter[str]()
    for case in benchmark.cases:
        cases[case.split] += 1
        steps[case.split] += len(case.trajectory.steps)
        errors[case.split] += case.truth.values.count(0.0)
    assert {split: (cases[split], steps[split], errors[split]) for split in cases} == {
        "NR": (758, 11613, 1537), "NCL": (758, 7813, 2135), "ES": (757, 10477, 2074), "SC": (758, 10765, 1192),
        "DC": (757, 10031, 1338), "CI": (757, 10748, 1304), "PS": (756, 9613, 1869), "DR": (750, 10070, 1700),
        "MS": (160, 2241, 0), "correct": (758, 10832, 0),
    }  # fmt: skip
    assert sum(cases[split] for split in CLASSES.values()) == 6211
    assert [note.split()[0] for note in benchmark.notes] == ["5", "100"]


@pytest.mark.long
@needs_data
def test_constant_judges_get_the_cards_figures_on_the_released_data() -> None:
    right = run(released(), always_right(), resamples=5)
    # What a coin can expect.
    assert run(released(), RandomJudge(), resamples=5).value("overall", "prm_score") == pytest.approx(
        0.433647, abs=0.004
    )
    assert right.value("overall", "f1") == pytest.approx(0.914391, abs=1e-6)
    assert right.value("overall", "prm_score") == pytest.approx(0.457195, abs=1e-6)
    assert run(released(), always_wrong(), resamples=5).value("overall", "prm_score") == pytest.approx(
        0.136231, abs=1e-6
    )


@cache
def rprm() -> Scores:
    """The released scores of R-PRM; of the five repeated ids the first row is taken, as the benchmark does."""
    with gzip.open(DATA / "rprm_step_scores_6216.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    first = {row["idx"]: row["scores"]["step_level_validity_scores"] for row in reversed(rows)}
    return scores(**first)


@pytest.mark.long
@needs_data
def test_the_released_scores_give_the_known_figures_at_the_threshold_of_their_labels() -> None:
    report = run(released(), rprm(), threshold=0.6)
    figures = [100 * report.value("overall", name) for name in ("prm_score", "f1", "f1_neg")]
    assert figures == pytest.approx([64.92, 85.10, 44.75], abs=0.005)
    low, high = report.figure("overall", "prm_score")[1:]
    assert 0.64 < low < 0.6492 < high < 0.66
    assert (report.used, report.left_out, report.unjudged_steps) == (6211, 758, 0)
    assert {name: round(100 * report.value(name, "prm_score"), 1) for name in (*CATEGORIES.splits, *CATEGORIES.dimensions)} == {
        "NR": 52.7, "NCL": 64.7, "ES": 70.1, "SC": 62.7, "DC": 63.4, "CI": 69.5, "PS": 61.4, "DR": 67.4, "MS": 98.3,
        "Simplicity": 58.7, "Soundness": 66.4, "Sensitivity": 75.7,
    }  # fmt: skip


@needs_data
def test_the_released_labels_are_the_scores_above_six_tenths_and_half_would_give_more() -> None:
    with gzip.open(DATA / "rprm_step_scores_6216.jsonl.gz", "rt") as lines:
        rows = [json.loads(line)["scores"] for line in lines]
    pairs = [pair for row in rows for pair in zip(*row.values(), strict=True)]
    assert all((score > 0.6) == label for score, label in pairs)
    assert run(released(), rprm(), threshold=0.5, resamples=5).value("overall", "prm_score") == pytest.approx(
        0.6596, abs=1e-4
    )
