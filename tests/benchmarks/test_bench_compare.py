"""Paired comparison of runs: the arithmetic by hand, files that come back, and pairs that are refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from footfall.benchmarks.compare import RESAMPLES_FILE, Kept, case_hash, compare, read_kept, write_kept
from footfall.benchmarks.processbench import measure
from footfall.benchmarks.runner import Benchmark, Tuned, measured
from footfall.benchmarks.scores import Scores
from footfall.metrics.cases import Case, Oracle, RandomJudge, always_right, always_wrong
from footfall.metrics.intervals import paired_resamples
from footfall.reports.bench_page import comparison_page, comparison_tables
from footfall.types import Judge, Judgement, Problem, Step, Trajectory


def cases() -> list[Case]:
    """Split a: eight traces that err at their first step and eight without error; split b: one of each."""
    made = []
    for split, count in (("a", 8), ("b", 1)):
        for k in range(2 * count):
            name = f"{split}-{k}"
            truth = Judgement(name, (float(k % 2), 1.0 if k % 2 else None), "human")
            made.append(Case(split, Trajectory(name, Problem(name, "?"), (Step("x"), Step("y"))), truth))
    return made


SMALL = Benchmark("small", cases(), measure, "first below", "f1", "r1")


def kept(tmp_path: Path, name: str, judge: Judge | Scores, benchmark: Benchmark = SMALL, **given: object) -> Kept:
    folder = tmp_path / name
    folder.mkdir()
    options = {"seed": 0, "resamples": 99, **given}
    write_kept(folder / RESAMPLES_FILE, measured(benchmark, judge, **options))  # type: ignore[arg-type]
    return read_kept(folder)


def test_a_difference_is_taken_resample_by_resample() -> None:
    baseline = np.asarray([0.5, *np.linspace(0.0, 0.9, 39)])
    interval, p = paired_resamples(baseline + 0.1, baseline)
    # Always +0.1, however much both vary: the interval is a point and p the least that 39 resamples can say.
    assert interval == pytest.approx((0.1, 0.1, 0.1))
    assert p == pytest.approx(2 * 1 / 40)


def test_p_is_twice_the_rarer_side_with_one_added() -> None:
    difference = np.asarray([0.1] + [0.2] * 15 + [-0.1] * 3 + [0.0])
    interval, p = paired_resamples(difference, np.zeros(20))
    assert p == pytest.approx(2 * (4 + 1) / 20)  # three below and one tie
    assert interval.value == 0.1
    assert paired_resamples(np.zeros(20), difference)[1] == p
    assert paired_resamples(difference[:1], np.zeros(1))[1] == 1.0


def test_resamples_without_a_value_are_left_out_of_both_sides() -> None:
    judge = np.asarray([0.6, math.nan, 0.7, 0.8])
    interval, p = paired_resamples(judge, np.asarray([0.5, 0.1, 0.5, 0.5]))
    assert interval.value == pytest.approx(0.1) and 0.2 <= interval.low <= interval.high <= 0.3
    assert p == pytest.approx(2 * 1 / 3)


def test_equal_judges_differ_by_nothing(tmp_path: Path) -> None:
    found = compare([kept(tmp_path, "one", RandomJudge(1)), kept(tmp_path, "two", RandomJudge(1))])
    assert [(d.row, *d.difference, d.p) for d in found.differences[0]] == [
        (row, 0.0, 0.0, 0.0, 1.0) for row in ("a", "b", "mean")
    ]
    assert len(set(found.names)) == 2, "runs of one judge are told apart by their folders"


def test_a_judge_is_called_as_it_was_typed_where_the_run_kept_that(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    write_kept(tmp_path / "new" / RESAMPLES_FILE, measured(SMALL, always_wrong(), resamples=99), "runs/prm")
    old = kept(tmp_path, "old", always_right())
    found = compare([old, read_kept(tmp_path / "new")])
    assert found.names == ("always-right", "runs/prm")
    said = "".join(ElementTree.fromstring(comparison_page(found)).itertext())
    assert "runs/prm" in said and "always-wrong" in said


def test_the_first_run_is_the_baseline_of_all_others(tmp_path: Path) -> None:
    runs = [
        kept(tmp_path, "r", always_right()),
        kept(tmp_path, "o", Oracle(cases())),
        kept(tmp_path, "w", always_wrong()),
    ]
    found = compare(runs)
    better, same = found.differences
    assert [(d.row, d.judge.value, d.baseline.value) for d in better] == [("a", 1, 0), ("b", 1, 0), ("mean", 1, 0)]
    assert better[0].difference == (1.0, 1.0, 1.0) and better[0].p == pytest.approx(2 / 100)
    assert {d.difference.value for d in same} == {0.0}
    said = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert said["baseline"] == "always-right" and said["runs"][2]["judge"] == "always-wrong"
    assert said["differences"]["always-wrong"]["mean"]["p"] == 1.0


def test_what_is_written_comes_back_without_pickle(tmp_path: Path) -> None:
    found = measured(SMALL, RandomJudge(3), 0.4, seed=5, resamples=7)
    write_kept(tmp_path / RESAMPLES_FILE, found)
    back = read_kept(tmp_path)
    assert (back.judge, back.threshold, back.seed, back.resamples) == ("random(seed=3)", 0.4, 5, 7)
    assert back.cases == case_hash(SMALL.cases)
    for (row, figure), values in back.figures.items():
        np.testing.assert_array_equal(values, found.figures[row][figure])
    with np.load(tmp_path / RESAMPLES_FILE, allow_pickle=False) as held:
        assert all(held[name].dtype != object for name in held)
    before = (tmp_path / RESAMPLES_FILE).read_bytes()
    write_kept(tmp_path / RESAMPLES_FILE, found)
    assert (tmp_path / RESAMPLES_FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"benchmark": replace(SMALL, name="other")}, "benchmarks differ: small and other"),
        ({"benchmark": replace(SMALL, revision="r2")}, "data revisions differ: r1 and r2"),
        ({"benchmark": replace(SMALL, cases=cases()[:-1])}, "their cases"),
        ({"seed": 1}, "seeds differ: 0 and 1"),
        ({"resamples": 50}, "numbers of resamples differ: 99 and 50"),
        ({"threshold": Tuned("b")}, "a split tuned on"),
    ],
)
def test_runs_that_cannot_be_paired_are_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    first = kept(tmp_path, "one", RandomJudge(1))
    second = kept(tmp_path, "two", RandomJudge(2), **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=said):
        compare([first, second])


def test_a_comparison_needs_two_different_runs(tmp_path: Path) -> None:
    one = kept(tmp_path, "one", RandomJudge(1))
    with pytest.raises(ValueError, match="two runs or more"):
        compare([one])
    with pytest.raises(ValueError, match="named twice"):
        compare([one, one])


def test_a_folder_without_figures_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no finished run of a benchmark.*measure the judge there again"):
        read_kept(tmp_path)
    kept(tmp_path, "inner", RandomJudge(1))
    with pytest.raises(ValueError, match=r"there are .*inner"):
        read_kept(tmp_path)
    (tmp_path / RESAMPLES_FILE).write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="damaged or not of this program"):
        read_kept(tmp_path)


def test_the_page_says_how_many_cases_were_compared_and_that_they_are_the_same(tmp_path: Path) -> None:
    runs = [kept(tmp_path, "r", RandomJudge(1)), kept(tmp_path, "o", Oracle(cases()))]
    the_same = f"the same in every run ({runs[0].cases})"
    assert f"{len(cases())}, {the_same}" in comparison_page(compare(runs))
    earlier = [replace(run, count=0) for run in runs]
    assert f">{the_same}" in comparison_page(compare(earlier))


def test_the_page_shows_differences_and_survives_hostile_names(tmp_path: Path) -> None:
    evil = Scores("<script>alert(1)</script>", {(None, c.trajectory.id): (0.0, 0.0) for c in cases()})
    found = compare([kept(tmp_path, "r", RandomJudge(1)), kept(tmp_path, "e", evil)])
    text = comparison_page(found)
    root = ElementTree.fromstring(text)
    assert not list(root.iter("script")) and "&lt;script&gt;" in text
    figures, differences = comparison_tables(found)
    shown = {" ".join("".join(cell.itertext()).split()) for cell in root.iter("td")}
    assert {row[2] for row in differences[1:]} <= shown and {row[1] for row in figures[1:]} <= shown
