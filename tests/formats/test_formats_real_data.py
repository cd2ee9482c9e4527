"""The field's real files, read where they lie; skipped where they are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from footfall import formats
from footfall.types import Judged

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")


@pytest.mark.parametrize(
    ("split", "rows", "errors"),
    [("gsm8k", 400, 207), ("math", 1000, 594), ("olympiadbench", 1000, 661), ("omnimath", 1000, 759)],
)
def test_processbench_has_the_published_counts(split: str, rows: int, errors: int) -> None:
    found = formats.read(DATA / "processbench" / f"{split}.json.gz")
    labels = [row.judgement.first_below(0.5) for row in found if row.judgement is not None]
    assert (len(found), sum(label != -1 for label in labels)) == (rows, errors)
    assert found[0].trajectory.id == f"{split}-0"


@pytest.mark.long
def test_prmbench_has_the_published_counts_and_reports_error_steps_past_the_end() -> None:
    rows = formats.read(DATA / "prmbench" / "prmbench_all_6216.jsonl.gz")
    assert len(rows) == 6216
    assert sum("error_steps_outside" in row.trajectory.meta for row in rows) == 100
    assert sum("~" in row.trajectory.id for row in rows) == 5  # the published files repeat five cases
    circular = [row for row in rows if row.trajectory.meta["classification"] == "circular"]
    assert (len(circular), sum(len(row.trajectory.steps) for row in circular)) == (758, 7813)


@pytest.mark.parametrize(("name", "paths"), [("phase1-test", 1), ("phase1-train", 3), ("phase2-test", 1)])
def test_raw_prm800k_records_are_read_and_written_back(tmp_path: Path, name: str, paths: int) -> None:
    rows = formats.read(DATA / "prm800k" / "raw_examples" / f"prm800k-{name}-example.json")
    main = [row for row in rows if "alternative" not in row.trajectory.meta]
    assert len(main) == paths
    formats.write(tmp_path / "raw.jsonl", rows, "prm800k")
    assert formats.read(tmp_path / "raw.jsonl") == rows


def test_a_prm800k_record_that_found_an_error_ends_in_it() -> None:
    main, *others = formats.read(DATA / "prm800k" / "raw_examples" / "prm800k-phase2-test-example.json")
    assert main.trajectory.meta["finish_reason"] == "found_error"
    assert main.judgement is not None and main.judgement.first_below(0.5) == len(main.trajectory.steps) - 1
    assert all(len(row.trajectory.steps) <= len(main.trajectory.steps) for row in others)


def test_decoded_prm800k_has_the_published_ratings() -> None:
    rows = formats.read(DATA / "prm800k" / "prm800k_validation_1818_decoded.jsonl.gz")
    ratings = [rating for row in rows if row.judgement is not None for rating in row.judgement.aspects["rating"]]
    assert (len(rows), ratings.count(1.0), ratings.count(0.0), ratings.count(-1.0)) == (1818, 8596, 639, 1566)


@pytest.mark.parametrize("name", ["samples_math-aps", "samples_math-aps-tree"])
def test_math_aps_samples_become_trees_and_rows_and_go_back(tmp_path: Path, name: str) -> None:
    path = DATA / "math_aps_samples" / f"{name}.jsonl.gz"
    trees, rows = formats.read_trees(path), formats.read(path)
    assert len(trees) == 3
    assert len(rows) == sum(len(tree.leaves()) for tree in trees)
    assert all(_values_in_unit_interval(row) for row in rows)
    formats.write(tmp_path / "aps.jsonl", rows, "math-aps")
    assert formats.read(tmp_path / "aps.jsonl") == rows


def _values_in_unit_interval(row: Judged) -> bool:
    return row.judgement is not None and all(v is not None and 0 <= v <= 1 for v in row.judgement.values)


def test_problems_of_the_usual_sets_have_ids_and_answers() -> None:
    gsm8k = formats.read_problems(DATA / "gsm8k" / "test.jsonl.gz")
    math = formats.read_problems(DATA / "math" / "math500.jsonl.gz")
    assert (len(gsm8k), gsm8k[0].answer) == (1319, "18")
    assert (len(math), math[0].id) == (500, "test/precalculus/807.json")
    assert all(problem.answer for problem in gsm8k + math)
