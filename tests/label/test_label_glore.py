"""SORM labels on the worked numbers of glore-sorm, and the labeller in a world."""

from __future__ import annotations

import pytest

from footfall.drive.rollouts import Estimate, Rollout, Tally
from footfall.label.glore import BALANCED, StepwiseORM, balanced, reachable, uses
from footfall.label.pav import best_of_k
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Judged, Judgement, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

PROBLEM = Problem("p", "How many?", "7")


def trace(*steps: str, name: str = "t") -> Trajectory:
    return Trajectory(name, PROBLEM, tuple(map(Step, steps)), separator="\n")


def label(outcomes: list[int], continuation: str = "So 3 + 4 = 7.", used: bool = True) -> float | None:
    rollouts = [Rollout(Completion((Step(continuation),), "end"), bool(right)) for right in outcomes]
    tally = Tally(successes=sum(outcomes), rollouts=len(outcomes), asked=len(outcomes))
    return StepwiseORM(ArithmeticPolicy(), used=used)._label(Estimate(trace("We have 1 + 2 = 3."), tally, rollouts))


def test_the_card_s_worked_labels_and_its_first_error() -> None:
    labels = [label(row) for row in ([1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0])]
    assert labels == [1.0, 1.0, 0.0], "soft estimates would be 0.5, 0.25, 0"
    said = Judgement("t", reachable(labels), "sorm")
    assert said.first_below(0.5) == 2, "the third step: a local refinement goes on after the second"


def test_labels_never_rise_along_a_solution_and_more_rollouts_can_only_flip_them_to_right() -> None:
    assert reachable([0.0, 1.0, 0.0]) == (1.0, 1.0, 0.0)
    assert reachable([None, 1.0, None, 0.0]) == (1.0, 1.0, None, 0.0)
    assert reachable([]) == ()
    assert 1 - best_of_k(0.2, 8) == pytest.approx(0.1678, abs=5e-5), "how often eight rollouts overlook a chance of 0.2"
    problems = ArithmeticWorld().problems(6)
    traces = [t for _, t in ArithmeticWorld().traces(ArithmeticPolicy(), 6)]
    assert {t.problem.id for t in traces} == {p.id for p in problems}
    params = SamplingParams(max_tokens=200)
    few, many = (StepwiseORM(ArithmeticPolicy(), k, used=False, params=params).judge(traces) for k in (2, 8))
    for one, two in zip(few, many, strict=True):
        assert list(two.values) == sorted((v for v in two.values if v is not None), reverse=True)
        assert all(b is not None and a is not None and b >= a for a, b in zip(one.values, two.values, strict=True))


def test_a_right_completion_that_ignores_the_step_does_not_speak_for_it() -> None:
    assert uses("We have 1 + 2 = 3.", "So 3 + 4 = 7.") and not uses("We have 1 + 2 = 5.", "So 3 + 4 = 7.")
    assert uses("Let us see.", "So 3 + 4 = 7.") and not uses("That is 1.5.", "So 15 + 4 = 19.")
    assert label([1, 1], "Starting over, 2 + 5 = 7.") == 0.0
    assert label([1, 1], "Starting over, 2 + 5 = 7.", used=False) == 1.0


def test_right_and_wrong_labels_are_as_many_at_each_length() -> None:
    rows = [
        Judged(trace(f"a{i}", f"b{i}", name=f"t{i}"), Judgement(f"t{i}", (1.0, float(i > 3)), "sorm")) for i in range(5)
    ]
    rows.append(Judged(trace("x", name="t5"), Judgement("t5", (0.0,), "sorm")))
    made = [row.judgement for row in balanced(rows)]
    for step in (0, 1):
        known = [said.values[step] for said in made if said and step < len(said.values)]
        assert known.count(1.0) == known.count(0.0) == 1
    assert sum(why is BALANCED for said in made if said for why in said.failures) == 7
    assert balanced(rows) == balanced(rows) and balanced([]) == []
