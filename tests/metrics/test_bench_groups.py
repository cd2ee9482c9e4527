"""Comparisons of responses: scores, credit, means, and what happens to a response that was not scored."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from footfall.benchmarks.records import Names, data_files, records
from footfall.benchmarks.runner import Benchmark, run
from footfall.benchmarks.scores import Scores
from footfall.metrics.cases import Case, LengthJudge, Oracle, always_right, always_wrong
from footfall.metrics.preferences import (
    compare,
    comparison,
    last_step_score,
    mean_row,
    measure_by,
    pooled_row,
    response_score,
    size_notes,
    strict_credit,
    swapped_score,
    tie_credit,
)
from footfall.types import Judgement, Problem, Step


def said(*values: float | None, value: float | None = None) -> Judgement:
    return Judgement("t", values, "j", value)


def pair(split: str, name: str, chosen: str, rejected: str) -> list[Case]:
    return comparison(split, Problem(name, "?"), {"chosen": (Step(chosen),)}, {"rejected": (Step(rejected),)})


def small() -> Benchmark:
    """Three pairs in a, one in b; the shorter response is chosen in the first and the last."""
    cases = [
        *pair("a", "0", "x", "xx"),
        *pair("a", "1", "xx", "x"),
        *pair("a", "2", "xxx", "x"),
        *pair("b", "3", "x", "xx"),
    ]
    measure = measure_by(response_score, summary=lambda rows, compared, weights: {
        "mean": mean_row(rows), "all": pooled_row(compared, weights)})  # fmt: skip
    return Benchmark("small", cases, measure, "strict", "accuracy", "r")


def scores(**given: list[float | None]) -> Scores:
    rows = [{"id": name.replace("_", "#")[1:], "scores": values} for name, values in given.items()]
    return Scores.from_rows("mine", enumerate(rows, start=1))


def test_a_response_is_scored_by_the_judges_own_value_else_by_its_steps() -> None:
    assert response_score(said(0.9, 0.4, 0.8), "min") == 0.4
    assert response_score(said(0.9, 0.4, 0.8), "last") == 0.8
    assert response_score(said(0.9, 0.4, value=-3.0), "min") == -3.0
    assert response_score(said(0.9, None), "mean") is None


def test_a_last_step_needs_no_value_of_the_steps_before_it() -> None:
    assert last_step_score(said(None, None, 0.3)) == 0.3
    assert last_step_score(said(0.3, None, value=0.7)) == 0.7
    assert last_step_score(said(0.3, 0.2, value=0.7)) == 0.2
    assert last_step_score(said(0.3, None)) is None


def test_a_tie_is_wrong_when_the_comparison_is_strict() -> None:
    assert [strict_credit([a], [b]) for a, b in ((2, 1), (1, 1), (1, 2))] == [1, 0, 0]
    assert strict_credit([3, 2], [1, 1.5]) == 1
    assert strict_credit([3, 1.5], [1, 1.5]) == 0


def test_rewardbench2_card_check_2_credit_is_shared_among_the_highest() -> None:
    assert tie_credit([2.0], [1.0, 2.0, 0.5]) == 0.5
    assert tie_credit([2], [1, 0, 0]) == 1
    assert tie_credit([1], [2, 0, 0]) == 0
    assert tie_credit([1], [1, 1, 1]) == 0.25


def test_toolcomp_card_check_1_both_orders_of_a_pairwise_judge() -> None:
    given = [("1", "2"), ("1", "1"), ("2", "1"), ("tie", "2"), ("1", "2"), ("unknown", "2")]
    found = [swapped_score(*labels) for labels in given]
    assert found == [1, 0.5, 0, 0.5, 1, 0.5]
    assert sum(found) / len(found) == pytest.approx(0.583333, abs=1e-6)
    assert swapped_score("1", "1") == swapped_score("tie", "tie") == 0.5


def test_sanity_judges_and_the_oracle_get_their_hand_computed_figures() -> None:
    for constant in (always_right(), always_wrong()):
        report = run(small(), constant, resamples=5)
        assert [report.value(row, "accuracy") for row in ("a", "b", "mean", "all")] == [0, 0, 0, 0]
    report = run(small(), LengthJudge(), resamples=5)
    assert report.value("a", "accuracy") == pytest.approx(1 / 3)
    assert report.value("b", "accuracy") == 1
    assert report.value("mean", "accuracy") == pytest.approx(2 / 3)
    assert report.value("all", "accuracy") == 0.5
    best = run(small(), Oracle(small().cases), resamples=5)
    assert [best.value(row, "accuracy") for row in ("a", "b", "mean", "all")] == [1, 1, 1, 1]


def test_a_comparison_with_an_unscored_member_is_left_out_and_its_share_is_shown() -> None:
    given = scores(i0_chosen=[0.9], i0_rejected=[0.1], i1_chosen=[None], i1_rejected=[0.1], i2_chosen=[0.1],
                   i2_rejected=[0.2], i3_chosen=[1.0], i3_rejected=[0.0])  # fmt: skip
    report = run(small(), given, resamples=5)
    assert report.value("a", "accuracy") == 0.5
    assert report.value("a", "unscored") == pytest.approx(1 / 3)
    assert "unscored" not in next(row for row in report.splits if row.name == "b").figures
    assert report.value("all", "accuracy") == pytest.approx(2 / 3)


def test_a_split_without_a_single_score_has_no_accuracy_and_is_not_in_the_mean() -> None:
    given = scores(i0_chosen=[0.9], i0_rejected=[0.1], i1_chosen=[1.0], i1_rejected=[0.1], i2_chosen=[0.1],
                   i2_rejected=[0.2], i3_chosen=[None], i3_rejected=[0.0])  # fmt: skip
    report = run(small(), given, resamples=5)
    assert math.isnan(report.value("b", "accuracy"))
    assert report.value("b", "unscored") == 1
    assert report.value("mean", "accuracy") == report.value("a", "accuracy") == pytest.approx(2 / 3)


def test_a_comparison_weighs_as_its_first_member() -> None:
    cases = small().cases[:6]
    compared = compare(cases, LengthJudge().judge([case.trajectory for case in cases]), response_score)
    assert compared.credits.tolist() == [1, 0, 0]
    weights = np.array([[1, 1, 1, 1, 1, 1], [2, 2, 1, 1, 0, 0]], dtype=float)
    assert pooled_row(compared, weights)["accuracy"] == pytest.approx([1 / 3, 2 / 3])


def test_a_mean_of_rows_may_weigh_them() -> None:
    rows = {"math-prm": {"accuracy": np.array([0.8])}, "code": {"accuracy": np.array([0.9])}}
    assert mean_row(rows)["accuracy"] == pytest.approx([0.85])
    assert mean_row(rows, {"math-prm": 447, "code": 984})["accuracy"] == pytest.approx([0.868763], abs=1e-6)


def test_data_of_another_size_than_the_published_is_noted() -> None:
    assert size_notes(small().cases, {"a": 3, "b": 1}, "splits") == ()
    assert "a 3 of 5" in size_notes(small().cases, {"a": 5, "b": 1}, "splits")[0]


def test_records_come_from_json_lines_and_parquet_with_their_place(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    pq.write_table(pa.table({"id": [3], "prompt": ["?"]}), tmp_path / "b.parquet")
    table = pa.table({"id": [4]})
    with pa.OSFile(str(tmp_path / "c.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found = [fields for path in data_files(tmp_path) for fields in records(path)]
    assert [fields.integer("id") for fields in found] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match=r'b\.parquet, row 1, field "subset"'):
        found[2].text("subset")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"b\.parquet: expected a whole table file"):
        list(records(tmp_path / "b.parquet"))
    with pytest.raises(FileNotFoundError, match="neither a file nor a folder"):
        data_files(tmp_path / "absent")


def test_an_id_that_occurs_again_gets_a_number() -> None:
    names = Names()
    assert [names.unique(name) for name in ("a", "a", "b", "a")] == ["a", "a~2", "b", "a~3"]
