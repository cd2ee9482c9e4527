"""Curves over stored candidates: joined by problem and index, and shown in the docs as they were stored."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scripts import pool_curves as script

ROOT = Path(__file__).resolve().parents[2]


def pools(folder: Path) -> Path:
    """Two problems with four candidates; the scores know which are right."""
    (folder / "step_scores").mkdir(parents=True)
    rows, scores = [], []
    for p, right in enumerate(([True, False, False, True], [False, False, True, False])):
        candidates = [
            {"steps": ["a", f"The answer is {7 if good else k}."], "chat_prefix_stripped": False, "answer": None,
             "is_correct": good, "is_correct_regraded": good}
            for k, good in enumerate(right)
        ]  # fmt: skip
        rows.append({"problem_id": f"p{p}", "question": f"Q{p}?", "gold_answer": "7", "candidates": candidates})
        scores += [
            {"problem_id": f"p{p}", "candidate_index": k, "step_scores": [1.0, 0.9 if good else 0.2]}
            for k, good in enumerate(right)
        ]  # fmt: skip
    for pool in {name for name, _, _ in script.PAIRS}:
        _write(folder / f"{pool}.jsonl.gz", rows)
    for _, name, _ in script.PAIRS:
        _write(folder / "step_scores" / f"{name}.jsonl.gz", scores)
    return folder


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))


def test_a_judge_that_knows_is_right_with_all_candidates_and_a_vote_needs_a_majority(tmp_path: Path) -> None:
    report = script.main(["--data", str(pools(tmp_path / "data")), "--out", str(tmp_path / "out.json")])
    assert json.loads((tmp_path / "out.json").read_text()) == report
    shown = report["pools"]["MATH-500, Qwen2.5-Math-PRM-7B"]
    assert shown["one sample"]["1"][0] == pytest.approx(3 / 8)
    assert shown["best of N, min"]["4"][0] == shown["any right"]["4"][0] == 1.0
    assert shown["best of N, min"]["1"][0] == pytest.approx(3 / 8)
    assert shown["majority"]["4"][0] == 0.5, "two of four say 7 in the first problem; in the second nobody agrees"
    assert shown["weighted vote, min"]["4"][0] == 1.0
    lead = report[script.LEADS]["MATH-500, Qwen2.5-Math-PRM-7B"]
    assert lead["best of N, min"] == [0.5, 0.0, 1.0], "right where the majority is not in one of two problems"
    assert "majority" not in lead and "any right" not in lead


def test_the_docs_show_what_is_stored() -> None:
    stored = json.loads((ROOT / "docs" / "pool_curves.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    for title, shown in stored["pools"].items():
        assert f"<summary>{title}: {len(shown)} rules by N</summary>\n\n{script.table(shown)}" in page
