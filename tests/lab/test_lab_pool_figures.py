"""Figures on a pool that recipes share, and arms: PRMs that are trained once for the same rows and loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from footfall.lab.recipe import Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import best_of_n, first_error_f1, misplaced, with_first_error
from footfall.label.freeprm import OutcomeLabels
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.types import Judged, Judgement, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

WORLD = ArithmeticWorld()


@pytest.fixture(scope="module")
def pool() -> list[Trajectory]:
    prefixes = [WORLD.prefix(problem) for problem in WORLD.problems(12, 3)]
    drawn = draw_traces(ArithmeticPolicy(), prefixes, 4, SamplingParams(seed=3))
    return [t for row in drawn for t in row]


def test_the_truth_is_a_perfect_finder_and_chooser(pool: list[Trajectory]) -> None:
    truth = TruthJudge().judge(pool)
    assert first_error_f1(pool, truth) == first_error_f1(pool, truth, 0.5) == 1.0
    solvable = [any(t.correct for t in pool[i : i + 4]) for i in range(0, len(pool), 4)]
    assert sum(best_of_n(pool, truth)) >= 0.9 * sum(solvable)


def test_a_tuned_threshold_makes_up_for_a_shifted_scale(pool: list[Trajectory]) -> None:
    low = [Judgement(j.trajectory_id, tuple(0.3 * (v or 0) for v in j.values), "low") for j in TruthJudge().judge(pool)]
    assert first_error_f1(pool, low, 0.5) == 0.0
    assert first_error_f1(pool, low) == 1.0


def test_labels_that_name_no_first_error_are_left_out_of_their_noise(pool: list[Trajectory]) -> None:
    wrong = [t for t in pool if WORLD.first_error(t) > 0][:4]
    truth = TruthJudge().judge(wrong)
    silent = Judgement(truth[0].trajectory_id, (None,) * len(truth[0].values), "silent")
    blind = Judgement(truth[1].trajectory_id, (1.0,) * len(truth[1].values), "blind")
    said = [silent, blind, *truth[2:]]
    assert misplaced(wrong, said) == pytest.approx(1 / 3)
    assert [row.trajectory for row in with_first_error(wrong, said)] == wrong[1:]


@pytest.mark.long
def test_an_arm_is_trained_once_for_the_same_rows_and_loss(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    trial = Trial(0, True, tmp_path)
    traces = prms.arm_traces(trial)
    rows = list(map(Judged, traces, OutcomeLabels().judge(traces)))
    first = prms.arm(trial, rows, "buffer")
    assert set(first.said[0].aspects) == {"good", "bad", "buffer"}
    models = sorted(path.name for path in (tmp_path / "shared").glob("prm-arm-*") if path.is_dir())
    again = prms.arm(trial, rows, "buffer")
    assert again.said == first.said and again.cost.scored_tokens == first.cost.scored_tokens
    other = prms.arm(trial, rows[:-2], "buffer")
    assert other.said != first.said
    found = sorted(path.name for path in (tmp_path / "shared").glob("prm-arm-*") if path.is_dir())
    assert len(models) == 1 and len(found) == 2
