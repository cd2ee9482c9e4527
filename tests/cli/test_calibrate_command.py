"""`footfall calibrate`: a judge's folder that any command takes, with figures from problems it was not fitted on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from footfall import cli
from footfall.formats import read
from tests.cli.telling import one_thread, run_chain, told

SAMPLE = ["sample", "--problems", "world:arithmetic:16", "--policy", "scripted-arithmetic", "--n", "2", "--out", "s"]
LABEL = [
    "label",
    "--data",
    "s/trajectories.parquet",
    "--policy",
    "scripted-arithmetic",
    "--rollouts",
    "4",
    "--out",
    "l",
]
TRAIN = ["train", "--data", "l/judged.parquet", "--epochs", "1", "--eval-share", "0", "--out", "t"]
CALIBRATE = ["calibrate", "--judge", "t", "--data", "l/judged.parquet", "--method", "quantile", "--out", "c"]


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with labels in `l`, a barely trained PRM in `t`, and that calibrated in `c`."""
    return run_chain(tmp_path_factory.mktemp("loop"), SAMPLE, LABEL, TRAIN, CALIBRATE)


@pytest.fixture
def here(loop: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(loop)
    with one_thread():
        yield loop


@pytest.mark.long
def test_figures_before_and_after_are_of_problems_that_were_held_out(here: Path) -> None:
    result = json.loads((here / "c" / "result.json").read_text())
    held, fitted = result["held_out"], result["fitted"]
    rows = read(here / "l" / "judged.parquet")
    assert held["traces"] + fitted["traces"] == len(rows) == 32 and held["traces"] == 10, "5 of 16 problems"
    assert held["steps"] + fitted["steps"] == sum(len(row.trajectory.steps) for row in rows)
    for name in ("ece", "brier", "brier_over"):
        figure = held["before"][name]
        assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1
    change = held["after"]["brier"]["value"] - held["before"]["brier"]["value"]
    assert held["brier_change"]["value"] == pytest.approx(change)
    assert "was trained on these labels" in result["caution"]
    assert held["before"]["brier_over"]["value"] <= held["before"]["brier"]["value"]


@pytest.mark.long
def test_a_judge_that_likes_everything_says_the_mean_label_afterwards(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "calibrate",
        "--judge",
        "always-right",
        "--data",
        "l/judged.parquet",
        "--method",
        "isotonic",
        "--out",
        "liked",
    ]
    held = told(capsys, *words)["held_out"]
    assert held["before"]["mean_value"] == 1 and held["before"]["ece"]["value"] == pytest.approx(1 - held["mean_label"])
    rows = read(here / "l" / "judged.parquet")
    labels = sum(float(v or 0) for row in rows if row.judgement for v in row.judgement.values)
    of_held = held["mean_label"] * held["steps"]
    steps = sum(len(row.trajectory.steps) for row in rows)
    assert held["after"]["mean_value"] == pytest.approx((labels - of_held) / (steps - held["steps"]))
    assert held["after"]["ece"]["value"] < held["before"]["ece"]["value"]
    assert held["after"]["brier_over"]["value"] < held["before"]["brier_over"]["value"]


def test_the_folder_is_a_judge_for_score_and_keeps_the_own_value_beside(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = told(capsys, "score", "l/judged.parquet", "--judge", "t")
    mapped = told(capsys, "score", "l/judged.parquet", "--judge", "c", "--to", "scored.jsonl", "--fresh")
    assert mapped["judge"].startswith("calibrated(quantile,") and own["judge"] in mapped["judge"]
    pairs = sorted(
        (a, b)
        for x, y in zip(own["rows"], mapped["rows"], strict=True)
        for a, b in zip(x["values"], y["values"], strict=True)
    )
    assert [b for _, b in pairs] == sorted(b for _, b in pairs), "a calibration keeps the order"
    assert any(a != pytest.approx(b, abs=0.01) for a, b in pairs)
    judgement = read(here / "scored.jsonl")[0].judgement
    assert judgement is not None and set(judgement.aspects) == {"q10", "q50", "q90", "raw"}
    assert list(judgement.aspects["raw"]) == own["rows"][0]["values"]


def test_the_folder_is_a_judge_for_search_and_bench(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "search",
        "--method",
        "adaptive-best-of-n",
        "--problems",
        "world:arithmetic:3",
        "--policy",
        "scripted-arithmetic",
    ]
    assert told(capsys, *words, "--judge", "c", "--n", "4")["problems"] == 3
    assert "calibrated" in told(capsys, "bench", "steps", "--data", "l/judged.parquet", "--judge", "c")["judge"]


@pytest.mark.long
def test_it_is_found_from_elsewhere_and_after_both_were_moved(
    loop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("t", "c"):
        shutil.copytree(loop / name, tmp_path / "moved" / name)
    monkeypatch.chdir(tmp_path)
    trace = str(loop / "l" / "judged.parquet")
    here_too = told(capsys, "score", trace, "--judge", "moved/c")
    assert here_too["rows"] == told(capsys, "score", trace, "--judge", str(loop / "c"))["rows"]


def test_what_cannot_be_is_said_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(words: list[str]) -> str:
        capsys.readouterr()
        assert cli.main(words) == 2
        return capsys.readouterr().err

    assert "`footfall label` makes them" in said(["calibrate", "--judge", "t", "--data", "s/trajectories.parquet"])
    assert "--eval-share 1" in said([*CALIBRATE[:-1], "d", "--eval-share", "1"])
    changed = json.loads((here / "c" / "calibration.json").read_text())
    (tmp_path / "other").mkdir()
    other = {**changed, "of": {"name": "always-right", "settings": {}}}
    (tmp_path / "other" / "calibration.json").write_text(json.dumps(other))
    assert "fit one to this judge" in said(["score", "l/judged.parquet", "--judge", str(tmp_path / "other")])
    del changed["of"]
    (tmp_path / "other" / "calibration.json").write_text(json.dumps(changed))
    assert "which judge it is for" in said(["score", "l/judged.parquet", "--judge", str(tmp_path / "other")])
