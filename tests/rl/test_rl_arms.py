"""Runs side by side: what is stored of their logs, the tables and charts that are made of it, and where the docs have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from scripts import rl_arms, write_tables


def checkpoint(update: int, right: int, degenerate: float = 0.0, **more: Any) -> dict[str, Any]:
    """One of ten held-out problems, of which the first are right; without a truth, two signs are hacking."""
    monitored = {"proxy": 0.5, "steps": 3.0, "held_out": None, "repetition": degenerate, "short": degenerate}
    given = {
        "event": "checkpoint", "update": update, "figures": monitored, "rollouts": 10,
        "right": right, "graded": [True] * right + [False] * (9 - right) + [None], "kl": update / 10,
        "paid": {"thanks": 0.25}, "alarms": [], "hacked": False,
    }  # fmt: skip
    return {**given, **more}


def written(folder: Path, points: Sequence[dict[str, Any]], reward: float = 0.5, **config: Any) -> Path:
    """A run's folder with twelve updates."""
    updates = [
        {"event": "update", "update": i, "reward": reward, "mean_length": 40.0 + i, "steps": 3.0, "entropy": 0.2, "left": 1.0}
        for i in range(1, 13)
    ]  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*points[:1], *updates, *points[1:]]))
    if config:
        (folder / "config.json").write_text(json.dumps({"command": "rl", "config": config}))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Outcomes gain four of ten; the sum is hacked, and was stopped before the last checkpoint."""
    folder = tmp_path / "arms"
    written(
        folder / "sum-0", [checkpoint(0, 2), checkpoint(6, 5), checkpoint(9, 1, 0.9)], 4.5, credit="pure-sum,coef=0"
    )
    written(
        folder / "outcome-0", [checkpoint(0, 2), checkpoint(9, 4), checkpoint(12, 6)], credit="grpo", model="/its/place"
    )
    (folder / "times.jsonl").write_text("{}\n")
    return folder


def test_arms_are_compared_problem_by_problem(runs: Path) -> None:
    found = rl_arms.gathered(rl_arms.runs_in([runs]))
    assert list(found["arms"]) == ["outcome", "sum"] and "/its/place" not in json.dumps(found)
    assert found["arms"]["sum"]["checkpoints"][-1]["graded"] == "100000000-"
    assert len(found["arms"]["sum"]["updates"]) == 12
    lines = rl_arms.block(json.loads(json.dumps(found)), "x").splitlines()
    (outcome,), (hacked,) = ([line for line in lines if line.startswith(f"| {name} |")] for name in ("outcome", "sum"))
    before, after, gain, against, updates, left, rule = outcome.strip("| ").split(" | ")[2:]
    assert before == "20.0 [5.7, 51.0]" and after == "60.0 [31.3, 83.2]" and gain.startswith("+40.0 [+")
    assert (against, updates, left, rule) == ("", "12", "12", "not hacked; no sign")
    assert "| `pure-sum,coef=0` |" in hacked and "| -30.0 [-" in hacked, "against outcomes at the same update"
    assert "**hacked**, said at update 9; repetition (seen at 9), short (seen at 9)" in hacked, "the log said nothing"
    assert (
        "| KL, nats a completion | 0 → 1.2 | 0 → 0.9 |" in lines
        and "| exploit pays: thanks | 0.25 → 0.25 | 0.25 → 0.25 |" in lines
    )
    assert not any("held-out judge" in line for line in lines), "nobody logged one"


def test_every_curve_is_drawn_and_shown(runs: Path) -> None:
    found = rl_arms.gathered(rl_arms.runs_in([runs / "outcome-0", runs / "sum-0"]))
    charts = rl_arms.charts(found, "x")
    names = {"accuracy", "reward", "reward-sum", "tokens", "steps", "kl", "entropy"}
    assert set(charts) == {f"x-{name}{width}.svg" for name in names for width in ("", "-narrow")}, (
        "a sum is no number between 0 and 1, and has its own axis"
    )
    told = rl_arms.block(found, "x")
    assert all(f'="{file}"' in told for file in charts)
    said = "held-out accuracy by update, from the first point to the last: outcome 20.0% → 60.0%, sum 20.0% → 10.0%"
    assert "sum" not in charts["x-reward.svg"] and said in charts["x-accuracy.svg"] and f'alt="{said}"' in told
    shown, *folds = told.split("<details")
    assert "x-accuracy.svg" in shown and "x-reward-sum.svg" in shown and "x-kl.svg" not in shown
    assert len(folds) == 2 and "| exploit pays: thanks |" in folds[0] and "x-kl.svg" in folds[1]


def test_runs_that_cannot_be_compared_are_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run is called outcome"):
        rl_arms.gathered([runs / "sum-0"])
    with pytest.raises(ValueError, match="two runs called sum"):
        rl_arms.gathered([runs / "sum-0", written(tmp_path / "sum-1", [checkpoint(0, 2)])])
    with pytest.raises(ValueError, match=r"has a log\.jsonl"):
        rl_arms.runs_in([tmp_path / "sum-1" / "nothing"])


def test_a_run_of_the_command_has_all_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl", reason="could not import 'trl'")
    sizes = ("--problems", "world:arithmetic:8", "--prompts", "1", "--group", "2", "--updates", "1", "--measured", "2",
             "--max-tokens", "48", "--device", "cpu", "--credit", "grpo-process", "--judge", "truth-arithmetic")  # fmt: skip
    assert cli.main(["rl", *sizes, "--out", str(tmp_path / "arms" / "outcome-0")]) == 0
    out = tmp_path / "found.json"
    monkeypatch.setattr("sys.argv", ["rl_arms", str(tmp_path / "arms"), "--out", str(out)])
    rl_arms.main()
    found = json.loads(out.read_text())
    assert found["arms"]["outcome"]["settings"]["credit"] == "grpo-process"
    assert set(rl_arms.charts(found, "x")) >= {f"x-{name}.svg" for name in rl_arms.CURVES}
    lines = rl_arms.block(found, "x").splitlines()
    assert any(line.startswith("| proxy reward | ") for line in lines)


def test_the_results_have_the_arms_as_soon_as_there_are_figures() -> None:
    text = (write_tables.DOCS / "results.md").read_text(encoding="utf-8")
    assert ("<!-- table: rl-arms -->" in text) == bool(write_tables.rl_arms_found())
