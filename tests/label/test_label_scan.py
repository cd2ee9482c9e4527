"""SCAN's robust stage: which traces are trained on, and that its labels are less noisy than the rollouts they come from."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from footfall import cli
from footfall.formats import read, write_parquet
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.scan import balanced, evened, label_noise, scan
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.types import Judged, Judgement
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import trace

WORLD, POLICY = ArithmeticWorld(), ArithmeticPolicy()


def row(answer: int, n: int, label: float | None) -> Judged:
    """A one-step trace; 7 is right."""
    made = WORLD.graded(trace(f"The answer is {answer}.", id=f"{answer}-{n}"))
    return Judged(made, Judgement(made.id, (label,), "test"))


def test_as_many_right_as_wrong_traces_are_kept_in_order() -> None:
    rows = [row(7, n, 1.0) for n in range(6)] + [row(8, n, 0.0) for n in range(2)] + [row(9, 0, None)]
    kept = balanced(rows, seed=1)
    assert [bool(r.trajectory.correct) for r in kept] == [True, True, False, False]
    assert [rows.index(r) for r in kept] == sorted(rows.index(r) for r in kept)
    assert balanced(rows, seed=1) == kept
    assert any(balanced(rows, seed) != kept for seed in range(2, 9)), "which ones is drawn"


def test_labels_to_spare_are_taken_away_in_place() -> None:
    rows = [row(7, n, 1.0) for n in range(6)] + [row(8, n, 0.0) for n in range(2)] + [row(9, 0, None)]
    found = list(evened(rows, seed=1))
    kept = [r for r in found if r.judgement is not None and r.judgement.values != (None,)]
    assert [r.trajectory for r in found] == [r.trajectory for r in rows] and kept == balanced(rows, seed=1)
    (why,) = {r.judgement.failures[0] for r in found[:6] if r not in kept and r.judgement and r.judgement.failures[0]}
    unsaid = [r._replace(trajectory=replace(r.trajectory, correct=None)) for r in rows]  # as of a file without outcomes
    assert [r.judgement for r in evened(unsaid, seed=1)] == [r.judgement for r in found]
    assert why == "left out for balance: 2 right and as many wrong traces keep their labels (--set balance=false: all)"


def test_the_command_labels_as_many_right_as_wrong_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = draw_traces(POLICY, [WORLD.prefix(problem) for problem in WORLD.problems(12, 5)], 8, SamplingParams(seed=5))
    write_parquet(tmp_path / "traces.parquet", [trace for traces in drawn for trace in traces], "trajectory")
    words = [
        "label",
        "--data",
        "traces.parquet",
        "--method",
        "scan",
        "--policy",
        "scripted-arithmetic",
        "--json",
        "--rollouts",
        "4",
    ]

    def labelled(*more: str) -> Counter[bool | None]:
        assert cli.main([*words, "--set", "responses=8", "confidence=0.4", *more]) == 0
        rows = read(json.loads(capsys.readouterr().out)["file"])
        return Counter(
            r.trajectory.correct for r in rows if r.judgement and any(v is not None for v in r.judgement.values)
        )

    whole, even = labelled("balance=false"), labelled()
    assert whole[True] > whole[False] > 0 and even == {True: whole[False], False: whole[False]}


def test_without_wrong_traces_nothing_is_left() -> None:
    assert balanced([row(7, 0, 1.0)]) == [] and balanced([]) == []


def test_denoised_labels_place_errors_better_than_the_rollouts_they_come_from() -> None:
    params = SamplingParams(seed=5)
    drawn = draw_traces(POLICY, [WORLD.prefix(problem) for problem in WORLD.problems(80, 5)], 8, params)
    wrong = [t for traces in drawn for t in traces if not t.correct]
    said = scan(POLICY, rollouts=8, responses=8, params=params).judge(wrong)
    kept = [(t, j) for t, j in zip(wrong, said, strict=True) if j.values[0] is not None]
    raw = MonteCarlo(POLICY, 8, "hard", "first-error", params=params).judge([t for t, _ in kept])
    truth = [WORLD.first_error(t) for t, _ in kept]
    found = {
        name: [j.first_below(0.5) for j in labels] for name, labels in (("raw", raw), ("scan", [j for _, j in kept]))
    }
    noise = {name: label_noise([-1 if e is None else e for e in errors], truth) for name, errors in found.items()}
    assert noise["scan"].rate < noise["raw"].rate / 2
    assert noise["raw"].over_rated > 10 * noise["raw"].under_rated, "rollouts that repair an error are what misleads"
