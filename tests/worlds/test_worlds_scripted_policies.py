"""What every scripted policy of a drawn world must do, whatever its language: exact values, samples by seed, cuts."""

from __future__ import annotations

import math
from random import Random
from typing import Any, NamedTuple

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.types import Step, Trajectory
from footfall.worlds import AlgebraPolicy, AlgebraWorld, ExactValueJudge, LogicPolicy, LogicWorld
from footfall.worlds.scripted import Writer


class Kit(NamedTuple):
    """A world with its policy as it is, without errors, and with many."""

    world: Any
    policy: Any
    faultless: Any
    clumsy: Any
    sampled: int
    """Prefixes whose value is compared with sampled text."""
    odd: tuple[str, ...]
    """Steps that the policy would not write."""

    def prefixes(self) -> list[Trajectory]:
        """One prefix of every length of a few clumsy traces."""
        traces = [trace for _, trace in self.world.traces(self.clumsy, 4, seed=6)]
        return [trace.prefix(i) for trace in traces for i in range(len(trace.steps))]


KITS = {
    "algebra": Kit(
        AlgebraWorld(), AlgebraPolicy(), AlgebraPolicy(0, 0, 0, 0, 0, 0, 0),
        AlgebraPolicy(0.3, 0.15, 0.15, 0.15, 0.2, 0.2, 0.3), 4, ("Hm, let me see.", "Well."),
    ),
    "logic": Kit(
        LogicWorld(max_depth=4, max_distractors=3), LogicPolicy(), LogicPolicy(0, 0, 0, 0),
        LogicPolicy(wrong_rule=0.3, flip=0.3, skip=0.2, recover=0.4), 6, ("Hm, let me see.", "= = ="),
    ),
}  # fmt: skip


@pytest.fixture(params=list(KITS))
def kit(request: pytest.FixtureRequest) -> Kit:
    return KITS[request.param]


def sigmas(hits: int, n: int, p: float) -> float:
    return abs(hits - n * p) / math.sqrt(max(n * p * (1 - p), 1e-9))


def simulate(writer: Writer[Any], state: Any, n: int) -> int:
    rng, hits = Random(0), 0
    for _ in range(n):
        at = state
        while at.answer is None:
            at = writer.draw(at, rng).after
        hits += at.answer == writer.reference
    return hits


@pytest.mark.long
def test_the_value_agrees_with_simulated_completions(kit: Kit) -> None:
    for prefix in kit.prefixes():
        writer = kit.clumsy.writer(prefix.problem)
        hits = simulate(writer, writer.state_after(prefix), 2000)
        assert sigmas(hits, 2000, kit.clumsy.value(prefix)) < 5


@pytest.mark.long
def test_the_value_agrees_with_sampled_text(kit: Kit) -> None:
    for prefix in kit.prefixes()[: kit.sampled]:
        (completions,) = kit.clumsy.sample([prefix], 500)
        hits = sum(kit.world.graded(c.after(prefix, "me")).correct is True for c in completions)
        assert sigmas(hits, 500, kit.clumsy.value(prefix)) < 5


def test_final_answers_have_probability_one_together(kit: Kit) -> None:
    for problem in kit.world.problems(10, seed=2):
        answers = kit.clumsy.answers(kit.world.prefix(problem))
        assert sum(answers.values()) == pytest.approx(1)
        assert list(answers.values()) == sorted(answers.values(), reverse=True)
        assert answers[str(problem.answer)] == kit.clumsy.value(kit.world.prefix(problem))


def test_the_exact_value_judge_values_each_prefix(kit: Kit) -> None:
    trajectory = next(trace for _, trace in kit.world.traces(kit.clumsy, 20, seed=3) if not trace.correct)
    (judgement,) = ExactValueJudge(kit.clumsy).judge([trajectory])
    assert judgement.values == tuple(kit.clumsy.value(trajectory.prefix(i + 1)) for i in range(len(trajectory.steps)))
    assert judgement.values[-1] == 0


def test_it_goes_on_after_text_that_it_did_not_write(kit: Kit) -> None:
    problem = kit.world.problems(1, seed=0)[0]
    odd = kit.world.prefix(problem).extend([Step(text) for text in kit.odd])
    assert kit.faultless.value(odd) == 1
    ((completion,),) = kit.faultless.sample([odd])
    assert kit.world.graded(completion.after(odd, "me")).correct


def test_a_sample_depends_on_seed_prefix_and_index_alone(kit: Kit) -> None:
    first, second = (kit.world.prefix(p) for p in kit.world.problems(2, seed=0))
    together = kit.policy.sample([first, second], 6)
    assert together[1] == kit.policy.sample([second], 6)[0]
    assert together[0][4:] == kit.policy.sample([first], 2, first=4)[0]
    assert len({c.steps for c in together[0]}) > 1
    assert kit.policy.sample([first], 6, SamplingParams(seed=1)) != [together[0]]


def test_until_step_writes_one_step_and_max_tokens_cuts_between_steps(kit: Kit) -> None:
    prefix = kit.world.prefix(kit.world.problems(1, seed=0)[0])
    ((completion,),) = kit.policy.sample([prefix], 1, SamplingParams(until="step"))
    assert len(completion.steps) == 1 and completion.finish == "step"
    ((cut,),) = kit.policy.sample([prefix], 1, SamplingParams(max_tokens=3))
    assert (cut.steps, cut.finish, cut.cost.generated_tokens) == ((), "length", 0)
    greedy = kit.policy.sample([prefix], 3, SamplingParams(temperature=0))[0]
    assert len({c.steps for c in greedy}) == 1
