"""The runner, the sanity judges and ProcessBench: hand-computed rows first, then the real data where it is."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from footfall import registry
from footfall.benchmarks.processbench import measure, processbench
from footfall.benchmarks.records import records
from footfall.benchmarks.runner import Benchmark, Tuned, content_revision, run
from footfall.benchmarks.scores import Scores
from footfall.benchmarks.steps import steps
from footfall.formats import FormatError
from footfall.metrics.cases import Case, LengthJudge, RandomJudge, Rows, always_right, always_wrong
from footfall.metrics.preferences import comparison
from footfall.types import Cost, Judged, Judgement, Problem, Step, Trajectory

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
SCORES = DATA / "processbench_prm_scores" / "published_prm_scores.jsonl.gz"


def truth_of(label: int, n_steps: int) -> tuple[float | None, ...]:
    """1 before the first error, 0 at it, unknown after it."""
    return tuple(1.0 if label < 0 or k < label else 0.0 if k == label else None for k in range(n_steps))


def row(name: str, label: int, n_steps: int = 4) -> Judged:
    lines = tuple(Step("x" * (10 if k else 1000)) for k in range(n_steps))
    trajectory = Trajectory(name, Problem(name, "?"), lines)
    return Judged(trajectory, Judgement(name, truth_of(label, n_steps), "human"))


def small() -> Benchmark:
    """Split a: labels 0, 2, −1, −1; split b: 1, −1."""
    rows = [("a", row("a-0", 0)), ("a", row("a-1", 2)), ("a", row("a-2", -1)), ("a", row("a-3", -1)),
            ("b", row("b-0", 1)), ("b", row("b-1", -1))]  # fmt: skip
    cases = [Case(split, r.trajectory, r.judgement) for split, r in rows if r.judgement is not None]
    return Benchmark("small", cases, measure, "first below", "f1", content_revision(cases))


def scores(**values: list[float | None]) -> Scores:
    rows = [{"id": name.replace("_", "-"), "scores": given} for name, given in values.items()]
    return Scores.from_rows("mine.jsonl", enumerate(rows, start=1))


PERFECT = scores(a_0=[0, 0, 0, 0], a_1=[1, 1, 0, None], a_2=[1, 1, 1, 1], a_3=[1, 1, 1, 1], b_0=[1, 0, 0, 0],
                 b_1=[1, 1, 1, 1])  # fmt: skip


def test_the_sanity_judges_get_their_hand_computed_figures() -> None:
    right = run(small(), always_right())
    assert [right.value("a", name) for name in ("acc_err", "acc_cor", "f1")] == [0, 1, 0]
    wrong = run(small(), always_wrong())
    assert [wrong.value("a", name) for name in ("acc_err", "acc_cor", "f1")] == [0.5, 0, 0]
    assert wrong.value("b", "acc_err") == 0
    # The first step is the only long one, so length says 0 everywhere, as always-wrong does.
    assert run(small(), LengthJudge()).splits == wrong.splits


def test_the_oracle_gets_everything_and_the_mean_is_over_splits() -> None:
    report = run(small(), PERFECT)
    assert [report.value(split, "f1") for split in ("a", "b", "mean")] == [1, 1, 1]
    half = run(small(), scores(a_0=[0, 1, 1, 1], a_1=[0, 1, 1, 1], a_2=[1, 1, 1, 1], a_3=[1, 1, 1, 1],
                               b_0=[1, 1, 1, 1], b_1=[1, 1, 1, 1]))  # fmt: skip
    assert half.value("a", "f1") == pytest.approx(2 / 3)
    assert half.value("b", "f1") == 0
    assert half.value("mean", "f1") == pytest.approx(1 / 3)


def test_the_random_judge_depends_on_seed_and_content_alone() -> None:
    trajectories = [case.trajectory for case in small().cases]
    said = RandomJudge(1).judge(trajectories)
    assert RandomJudge(1).judge(trajectories[::-1]) == said[::-1]
    assert RandomJudge(2).judge(trajectories) != said
    assert said[0].values != said[1].values


def test_sanity_judges_and_benchmarks_are_found_by_name() -> None:
    assert {"always-right", "always-wrong", "random", "length"} <= set(registry.parts("labeller"))
    assert {"processbench", "steps"} <= set(registry.parts("benchmark"))
    assert registry.create("labeller", "random", seed=3).name == "random(seed=3)"


def test_ids_without_scores_are_left_out_and_counted() -> None:
    report = run(small(), scores(a_0=[0.1, 1, 1, 1], a_2=[1, 1, 1, 1]))
    assert (report.used, report.left_out) == (2, 4)
    assert report.value("a", "f1") == 1
    assert [row.name for row in report.splits] == ["a"]


def test_a_step_without_score_is_harmless_after_the_error_and_wrong_before_it() -> None:
    report = run(small(), scores(a_0=[0.1, None, None, None], a_1=[1, None, 0, 0], a_2=[1, 1, 1, None]))
    assert [report.value("a", name) for name in ("acc_err", "acc_cor")] == [0.5, 0]
    assert report.unjudged_steps == 5


def test_a_row_that_names_its_split_belongs_to_it_alone() -> None:
    given = Scores.from_rows("s", [(1, {"id": "a-0", "split": "b", "scores": [0, 0, 0, 0]}),
                                   (2, {"id": "a-2", "split": "a", "scores": [1, 1, 1, 1]})])  # fmt: skip
    assert run(small(), given).used == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: an object"),
        ('{"scores": []}', "line 2, field id"),
        ('{"id": "b", "scores": 3}', "line 2, field scores"),
        ('{"id": "b", "scores": [1, NaN]}', "step 2: a finite number or null"),
        ('{"id": "b", "scores": [true]}', "step 1: a finite number or null"),
        ('{"id": "b", "split": 3, "scores": []}', "line 2, field split"),
        ('{"id": "a-0", "scores": [1]}', "'a-0' was scored before"),
    ],
)
def test_a_bad_scores_file_is_refused_by_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text('{"id": "a-0", "scores": [1, 1, 1, 1]}\n' + line)
    with pytest.raises(ValueError, match=message):
        Scores.read(path)


def test_integer_ids_of_scores_are_read_as_text() -> None:
    given = Scores.from_rows("s", [(1, {"id": 7, "scores": [1]})])
    assert given.unknown([("a", "7")]) == [] and given.unknown([("a", "8")]) == ["7"]


def test_a_git_lfs_pointer_is_no_scores_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n")
    with pytest.raises(ValueError, match="git lfs pull"):
        Scores.read(path)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_length_that_is_no_measure_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale of the labeller 'length' is a finite number above 0"):
        LengthJudge(scale)


def test_scores_of_the_wrong_length_or_of_other_data_are_refused() -> None:
    with pytest.raises(ValueError, match="'a-0' has 4 steps but 2 scores"):
        run(small(), scores(a_0=[1, 1]))
    with pytest.raises(ValueError, match=r"none of its 1 ids \('z-0', …\) is .* its ids are 'a-0', 'a-1', "):
        run(small(), scores(z_0=[1, 1]))
    with pytest.raises(ValueError, match="there is no row with scores in it"):
        run(small(), scores())


def test_a_tuned_threshold_is_never_reported_on_its_own_split() -> None:
    shifted = scores(a_0=[0.8, 1, 1, 1], a_1=[1, 1, 0.8, 1], a_2=[1, 1, 1, 1], a_3=[1, 1, 1, 1], b_0=[1, 0.8, 1, 1],
                     b_1=[1, 1, 1, 1])  # fmt: skip
    assert run(small(), shifted).value("b", "f1") == 0
    report = run(small(), shifted, Tuned("a"))
    assert [row.name for row in report.splits] == ["b"]
    assert report.threshold == pytest.approx(0.9)
    assert (report.used, report.tuned_away) == (2, 4)
    assert report.threshold_policy == "tuned for f1 on a, which is not reported"
    assert report.value("b", "f1") == 1
    with pytest.raises(ValueError, match="no split 'c'"):
        run(small(), shifted, Tuned("c"))


def test_there_is_nothing_to_tune_on_a_split_without_the_figure_or_where_responses_are_compared() -> None:
    def aside(cases: Sequence[Case], *others: object) -> Rows:
        return {"a": {"other": np.ones(1)}}

    with pytest.raises(ValueError, match="small: f1 has no value on 'a'; tune on another split"):
        run(replace(small(), measure=aside), RandomJudge(), Tuned("a"))
    with pytest.raises(ValueError, match="small: f1 has no value on 'b'; tune on another split"):
        run(replace(small(), measure=aside), RandomJudge(), Tuned("b"))
    pair = comparison("chat", Problem("p", "?"), {"chosen": (Step("x"),)}, {"rejected": (Step("y"),)})
    with pytest.raises(ValueError, match="pairs compares responses by their scores: it has no threshold to tune"):
        run(Benchmark("pairs", pair, measure, "", "accuracy", "r"), RandomJudge(), Tuned("chat"))


def test_a_report_names_all_that_its_numbers_depend_on() -> None:
    report = run(small(), PERFECT, threshold=0.4, seed=7, resamples=50)
    said = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (said["threshold"], said["threshold_policy"], said["seed"]) == (0.4, "fixed", 7)
    assert said["judge"] == "mine.jsonl"
    assert said["revision"] == small().revision
    assert said["splits"]["a"]["f1"] == {"value": 1.0, "ci95": [1.0, 1.0]}
    assert report.table()[0] == ["split", "n", "acc_err", "acc_cor", "f1"]
    assert report.table()[-1] == ["mean", "", "", "", "100.0 [100.0, 100.0]"]
    assert report == run(small(), PERFECT, threshold=0.4, seed=7, resamples=50)


def test_a_judge_s_cost_is_in_the_report_and_a_missing_judgement_is_an_error() -> None:
    class Paid:
        name = "paid"

        def judge(self, trajectories: list[Trajectory]) -> list[Judgement]:
            return [Judgement(t.id, (1.0,) * 4, "paid", cost=Cost(scored_tokens=5)) for t in trajectories[:6]]

    assert run(small(), Paid()).cost.scored_tokens == 30  # type: ignore[arg-type]
    twice = small()
    doubled = Benchmark("double", [*twice.cases, *twice.cases], measure, "", "f1", "r")
    with pytest.raises(ValueError, match="6 judgements for 12"):
        run(doubled, Paid())  # type: ignore[arg-type]


def test_steps_measures_first_errors_order_and_calibration() -> None:
    rows = [row("0", 1, 2), row("1", -1, 2)]
    judge = Scores.from_rows("j", [(1, {"id": "0", "scores": [0.9, 0.2]}), (2, {"id": "1", "scores": [0.9, 0.1]})])
    report = run(steps(rows), judge)
    # Wrong: .2. Right: .9, .9, .1. Two of three pairs in order.
    assert report.value("all", "auc") == pytest.approx(2 / 3)
    assert report.value("all", "brier") == pytest.approx((0.01 + 0.04 + 0.01 + 0.81) / 4)
    assert report.value("all", "ece") == pytest.approx((0.2 + 0.2 + 0.9) / 4)
    assert [report.value("all", name) for name in ("acc_err", "acc_cor", "f1")] == [1, 0, 0]


def test_steps_leaves_out_steps_without_truth_and_calibration_of_signed_values() -> None:
    report = run(steps([row("0", 0, 3), row("1", -1, 1)]), Scores.from_rows("j", [
        (1, {"id": "0", "scores": [-2, 5, 5]}), (2, {"id": "1", "scores": [3]})]))  # fmt: skip
    assert set(report.splits[0].figures) == {"acc_err", "acc_cor", "f1", "auc"}
    assert report.value("all", "auc") == 1


def test_steps_without_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="'t' has no step labels"):
        steps([Judged(Trajectory("t", Problem("p", "?"), (Step("x"),)), None)])


def of_problem(problem: str, number: int) -> Judged:
    """A trace of one right step that ends right."""
    name = f"{problem}-{number}"
    trajectory = Trajectory(name, Problem(problem, f"{problem}?"), (Step("x"),))
    return Judged(trajectory, Judgement(name, (1.0,), "human", value=1.0))


def test_traces_of_one_problem_are_resampled_together() -> None:
    """Three of p, all flagged, and three of q, none: a resample has p twice, q twice or both once."""
    rows = [of_problem(problem, k) for problem in "pq" for k in range(3)]
    judge = Scores.from_rows(
        "j", [(i, {"id": row.trajectory.id, "scores": [float(i > 2)]}) for i, row in enumerate(rows)]
    )
    (split,) = run(steps(rows), judge).splits
    assert split.n == 2 and split.figures["acc_cor"] == (0.5, 0.0, 1.0)
    (alone,) = run(steps(rows[:2]), judge).splits
    assert alone.n == 2, "of a single problem the traces are all that can be drawn"


def test_a_trace_without_scores_leaves_the_others_of_its_problem_where_steps_are_measured() -> None:
    rows = [of_problem(problem, k) for problem in "pq" for k in range(2)]
    some = Scores.from_rows("j", [(1, {"id": "p-0", "scores": [0.9]}), (2, {"id": "q-0", "scores": [0.1]})])
    report = run(steps(rows), some)
    assert (report.used, report.left_out, report.value("all", "acc_cor")) == (2, 2, 0.5)


def test_a_trace_without_a_step_is_left_out_and_said(tmp_path: Path) -> None:
    """There is nothing to find in it and nothing to pass: it would be right by every judge."""
    report = run(steps([row("0", -1, 2), row("1", -1, 0)]), always_wrong())
    assert (report.used, report.value("all", "acc_cor")) == (1, 0.0)
    assert report.notes == ("1 traces have no step and are left out",)
    given = [{"id": str(k), "generator": "g", "problem": "?", "steps": ["a"] * k, "final_answer_correct": True,
              "label": -1} for k in (0, 1)]  # fmt: skip
    (tmp_path / "math.json").write_text(json.dumps(given))
    found = processbench(tmp_path)
    assert [case.trajectory.id for case in found.cases] == ["1"] and "1 traces have no step" in found.notes[0]


def test_data_without_a_case_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "math.json").write_text("[]")
    with pytest.raises(ValueError, match="processbench: the data has no case to measure a judge on"):
        run(processbench(tmp_path), always_wrong())


def test_a_folder_without_the_benchmark_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gsm8k\.json"):
        processbench(tmp_path)


def test_a_processbench_file_is_one_split_named_by_its_file(tmp_path: Path) -> None:
    rows = [
        {"id": f"gsm8k-{i}", "generator": "g", "problem": "?", "steps": ["a", "b"], "final_answer_correct": True,
         "label": label} for i, label in enumerate((1, -1))
    ]  # fmt: skip
    path = tmp_path / "gsm8k.json"
    path.write_text(json.dumps(rows))
    report = run(processbench(path), always_wrong())
    assert [(r.name, r.n) for r in report.splits] == [("gsm8k", 2)]
    assert report.revision.startswith("sha256:")
    by_step = run(steps(path), always_wrong())
    assert (by_step.splits[0].name, by_step.value("gsm8k", "auc")) == ("gsm8k", 0.5)
    rows[0]["problem"] = "changed"
    path.write_text(json.dumps(rows))
    assert processbench(path).revision != report.revision


@pytest.fixture(scope="module")
def full() -> Benchmark:
    if not (DATA / "processbench").is_dir():
        pytest.skip("the ProcessBench data is not here")
    return processbench(DATA / "processbench")


def test_processbench_card_check_3_on_the_full_data(full: Benchmark) -> None:
    wrong = run(full, always_wrong(), resamples=20)
    assert [(r.name, r.n) for r in wrong.splits[:4]] == [
        ("gsm8k", 400), ("math", 1000), ("olympiadbench", 1000), ("omnimath", 1000)]  # fmt: skip
    errors = [round(100 * r.figures["acc_err"].value, 1) for r in wrong.splits[:4]]
    assert errors == [17.9, 19.4, 7.3, 9.5]
    assert wrong.value("mean", "f1") == 0
    right = run(full, always_right(), resamples=20)
    assert [r.figures["acc_cor"].value for r in right.splits[:4]] == [1, 1, 1, 1]
    assert right.value("mean", "f1") == 0
    wrong_cases = [sum(0.0 in c.truth.values for c in full.cases if c.split == r.name) for r in wrong.splits[:4]]
    assert wrong_cases == [207, 594, 661, 759]


@pytest.mark.skipif(not SCORES.is_file(), reason="the published scores are not here")
@pytest.mark.parametrize(
    ("model", "f1"),
    [("Qwen2.5-Math-PRM-7B", [83.7, 74.5, 66.6, 67.6]), ("Qwen2.5-Math-7B-PRM800K", [66.8, 61.9, 56.7, 47.4])],
)
def test_published_scores_give_the_published_subset_f1(full: Benchmark, model: str, f1: list[float]) -> None:
    with gzip.open(SCORES, "rt", encoding="utf-8") as lines:
        published = [row for row in map(json.loads, lines) if row["model"] == model]
    rows = []
    for number, given in enumerate(published, start=1):
        values = given["scores_to_first_error"]
        padded = values + [None] * (given["n_steps"] - len(values))
        rows.append((number, {"id": given["id"], "split": given["split"], "scores": padded}))
    report = run(full, Scores.from_rows(model, rows), threshold=0.5, resamples=200)
    assert [round(100 * r.figures["f1"].value, 1) for r in report.splits[:4]] == f1
    assert (report.used, report.left_out) == (1000, 2400)
    interval = report.figure("mean", "f1")
    assert interval.low < interval.value < interval.high
    assert math.isclose(interval.value, sum(r.figures["f1"].value for r in report.splits[:4]) / 4)


@pytest.mark.parametrize("name", ["data.parquet", "data.arrow", "data.jsonl"])
def test_a_git_lfs_pointer_is_no_data_of_a_benchmark(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n")
    with pytest.raises(FormatError, match=rf"{name}.*a Git LFS pointer.*git lfs pull"):
        list(records(path))
