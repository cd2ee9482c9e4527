"""The demo at toy size: the report has the promised shape, is the same for the same seed, and resumes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from footfall.cli import main

TINY = [
    *("--train-problems", "6", "--traces", "2", "--rollouts", "2", "--epochs", "1"),
    *("--test-problems", "8", "--n", "4", "--quality-traces", "6"),
]


def run_demo(out: Path, *more: str) -> dict[str, Any]:
    assert main(["demo", "--out", str(out), *TINY, *more]) == 0
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    return report


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "run"
    run_demo(out)
    return out


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    return {**report, "cost": {**report["cost"], "seconds": None}}


def test_report_json_has_the_promised_fields(finished: Path) -> None:
    report = json.loads((finished / "report.json").read_text())
    assert set(report["accuracy"]) == {"single", "majority", "best_of_n", "weighted_vote", "oracle"}
    for figure in report["accuracy"].values():
        low, high = figure["ci95"]
        assert 0 <= low <= figure["value"] <= high <= 1
    assert report["n"] == 4 and report["problems"] == 8 and report["seed"] == 0
    assert 0 <= report["first_error_f1"] <= 1 and 0 < report["label_mae"] < 0.5
    assert report["cost"]["generated_tokens"] > 0 and report["cost"]["scored_tokens"] > 0
    assert report["accuracy"]["oracle"]["value"] >= report["accuracy"]["weighted_vote"]["value"]


@pytest.mark.long
def test_the_same_seed_gives_the_same_report_but_for_times(finished: Path, tmp_path: Path) -> None:
    first = json.loads((finished / "report.json").read_text())
    again = run_demo(tmp_path / "again")
    assert without_times(again) == without_times(first)


@pytest.mark.long
def test_another_seed_gives_another_report(finished: Path, tmp_path: Path) -> None:
    first = json.loads((finished / "report.json").read_text())
    other = run_demo(tmp_path / "other", "--seed", "5")
    assert other["label_mae"] != first["label_mae"]


def test_it_says_which_stage_of_how_many_it_is_in(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run_demo(finished)
    told = re.findall(r"^footfall: stage (\d+) of (\d+): \w", capsys.readouterr().err, re.MULTILINE)
    assert len(told) >= 5
    assert told == [(str(n), str(len(told))) for n in range(1, len(told) + 1)]


def test_a_finished_demo_does_nothing_twice(finished: Path) -> None:
    shards = {p: p.stat().st_mtime_ns for p in finished.rglob("*.parquet")}
    before = (finished / "report.json").read_text()
    run_demo(finished)
    assert {p: p.stat().st_mtime_ns for p in finished.rglob("*.parquet")} == shards
    assert json.loads((finished / "report.json").read_text())["accuracy"] == json.loads(before)["accuracy"]


def test_the_page_is_one_file_that_needs_no_network(finished: Path) -> None:
    page = (finished / "report.html").read_text()
    assert "<script" not in page
    assert set(re.findall(r"https?://[^\"'\s<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_its_prm_scores_a_trace_of_ones_own(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "mine.jsonl"
    own.write_text(
        '{"problem": "Mia has 3 nuts. She buys 4 more.", "steps": ["First, 3 + 4 = 7.", "The answer is 7."]}\n'
    )
    capsys.readouterr()
    assert main(["score", str(own), "--judge", str(finished / "prm" / "model"), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    rows = scored["traces"] if "traces" in scored else scored["rows"]
    assert len(rows[0]["values"]) == 2
