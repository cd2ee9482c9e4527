"""Traces with known first errors, and how labels are measured against them."""

from __future__ import annotations

from pathlib import Path

import pytest

from footfall.lab.recipe import Trial
from footfall.lab.shared.known import WORLDS, Known, error_auc, hits, known, spent
from footfall.types import Cost, Judgement
from footfall.worlds import StepTruth

TRIAL = Trial(1, True, Path())


@pytest.mark.parametrize("world", WORLDS)
def test_the_truth_of_a_world_finds_every_first_error_and_ranks_every_step(world: str) -> None:
    given = known(TRIAL, world, 12)
    said = given.truth.judge(given.traces)
    assert hits(said, given.first_errors) == [1.0] * len(given.traces)
    no_error = [tuple(float(t is not StepTruth.WRONG) for t in given.world.check(trace)) for trace in given.traces]
    assert error_auc(given, no_error, after_error=True) in (1.0, 0.5)
    assert error_auc(given, [j.values for j in said], after_error=False) in (1.0, 0.5)
    assert all(0 <= given.policy.value(trace.prefix(1)) <= 1 for trace in given.traces)


def test_wrong_traces_are_those_with_a_wrong_answer() -> None:
    given = known(TRIAL, "arithmetic", 20, wrong=True)
    assert given.traces and not any(trace.correct for trace in given.traces)
    assert all(first >= 0 for first in given.first_errors)


def test_no_label_is_no_hit_and_a_constant_ranks_nothing() -> None:
    said = [Judgement("a", (1.0, None), "x", cost=Cost(calls=2)), Judgement("b", (1.0, 0.2), "x", cost=Cost(calls=1))]
    assert hits(said, [1, 1]) == [0.0, 1.0] and hits(said, [1, 1], below=0.1) == [0.0, 0.0]
    assert spent(said, said).calls == 6
    given = known(TRIAL, "arithmetic", 20)
    flat = [(0.5,) * len(trace.steps) for trace in given.traces]
    assert error_auc(given, flat, after_error=True) == 0.5


def test_auc_counts_the_steps_up_to_the_first_error_unless_told_otherwise() -> None:
    given = known(TRIAL, "arithmetic", 30, wrong=True)
    one = next(
        i for i, (t, e) in enumerate(zip(given.traces, given.first_errors, strict=True)) if 0 < e < len(t.steps) - 1
    )
    trace, error = given.traces[one], given.first_errors[one]
    only = Known(given.world, given.policy, given.truth, [trace], [error])
    late = [1.0 if k < error else 0.5 if k == error else 0.0 for k in range(len(trace.steps))]
    assert error_auc(only, [late]) == 1.0
    assert error_auc(only, [late], after_error=True) < 1.0


@pytest.mark.parametrize("world", ["arithmetic", "short logic", "algebra", "short code"])
def test_held_out_problems_have_right_and_wrong_traces_and_are_no_training_problems(world: str) -> None:
    held_out, others = known(TRIAL, world, 16, split="test"), known(TRIAL, world, 16)
    assert {error < 0 for error in held_out.first_errors} == {True, False}
    assert not {t.problem.prompt for t in held_out.traces} & {t.problem.prompt for t in others.traces}
