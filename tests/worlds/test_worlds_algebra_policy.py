"""The scripted solver of equations: what it writes, and that its values are exact."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import create
from footfall.types import Step, Trajectory
from footfall.worlds import AlgebraPolicy, AlgebraWorld, ExactValueJudge, StepTruth
from footfall.worlds._algebra_reading import State, read_step
from footfall.worlds._algebra_script import AlgebraScript, Work
from footfall.worlds._scripted import Writer

WORLD = AlgebraWorld()
POLICY = AlgebraPolicy()
FAULTLESS = AlgebraPolicy(0, 0, 0, 0, 0, 0, 0)
CLUMSY = AlgebraPolicy(0.3, 0.15, 0.15, 0.15, 0.2, 0.2, 0.3)


def sigmas(hits: int, n: int, p: float) -> float:
    return abs(hits - n * p) / math.sqrt(max(n * p * (1 - p), 1e-9))


def test_it_is_a_policy_and_a_named_part() -> None:
    policy: Policy = create("policy", "scripted-algebra", sign=0.5)
    assert policy == AlgebraPolicy(sign=0.5) and "sign=0.5" in policy.name
    with pytest.raises(ValueError, match=r"AlgebraPolicy\.recover"):
        AlgebraPolicy(recover=-0.1)


def test_without_error_rates_every_step_is_right() -> None:
    for _, trajectory in WORLD.traces(FAULTLESS, 40, seed=1):
        assert set(WORLD.check(trajectory)) == {StepTruth.RIGHT} and trajectory.correct
        assert FAULTLESS.value(trajectory.prefix(0)) == 1


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_the_checker_finds_the_first_error_and_stands_where_the_script_stands(seed: int) -> None:
    problem = WORLD.problems(1, seed)[0]
    writer, script = CLUMSY.writer(problem), AlgebraScript(CLUMSY.rates, problem)
    read, state, rng = State(), Work(), Random(seed)
    steps: list[Step] = []
    errors: list[int] = []
    while state.answer is None:
        move = writer.draw(state, rng)
        if move.kind not in ("right", "skip", "recover", "answer"):
            errors.append(len(steps))
        for text in move.wordings:
            assert script.work(read_step(script.problem, read, text)[1]) == move.after, text
        steps.append(Step(rng.choice(move.wordings)))
        read = read_step(script.problem, read, steps[-1].text)[1]
        state = move.after
    trajectory = Trajectory("t", problem, tuple(steps), separator="\n")
    assert WORLD.first_error(trajectory) == (errors[0] if errors else -1)
    assert None not in WORLD.check(trajectory)
    assert all(WORLD.check(trajectory)[i] is StepTruth.WRONG for i in errors)


def simulate(writer: Writer[Work], state: Work, n: int) -> int:
    rng, hits = Random(0), 0
    for _ in range(n):
        at = state
        while at.answer is None:
            at = writer.draw(at, rng).after
        hits += at.answer == writer.script.reference
    return hits


def prefixes() -> list[Trajectory]:
    """One prefix of every length of a few clumsy traces."""
    traces = [trace for _, trace in WORLD.traces(CLUMSY, 4, seed=6)]
    return [trace.prefix(i) for trace in traces for i in range(len(trace.steps))]


def test_the_value_agrees_with_simulated_completions() -> None:
    for prefix in prefixes():
        writer = CLUMSY.writer(prefix.problem)
        hits = simulate(writer, writer.script.state_after(prefix), 2000)
        assert sigmas(hits, 2000, CLUMSY.value(prefix)) < 5


def test_the_value_agrees_with_sampled_text() -> None:
    for prefix in prefixes()[:4]:
        (completions,) = CLUMSY.sample([prefix], 500)
        hits = sum(WORLD.graded(c.after(prefix, "me")).correct is True for c in completions)
        assert sigmas(hits, 500, CLUMSY.value(prefix)) < 5


def test_final_answers_have_probability_one_together() -> None:
    for problem in WORLD.problems(10, seed=2):
        answers = CLUMSY.answers(WORLD.prefix(problem))
        assert sum(answers.values()) == pytest.approx(1)
        assert list(answers.values()) == sorted(answers.values(), reverse=True)
        assert answers[str(problem.answer)] == CLUMSY.value(WORLD.prefix(problem))


def test_the_exact_value_judge_values_each_prefix() -> None:
    trajectory = next(trace for _, trace in WORLD.traces(CLUMSY, 20, seed=3) if not trace.correct)
    (judgement,) = ExactValueJudge(CLUMSY).judge([trajectory])
    assert judgement.values == tuple(CLUMSY.value(trajectory.prefix(i + 1)) for i in range(len(trajectory.steps)))
    assert judgement.values[-1] == 0


def test_it_goes_on_after_text_that_it_did_not_write() -> None:
    problem = WORLD.problems(1, seed=0)[0]
    odd = WORLD.prefix(problem).extend([Step("Hm, let me see."), Step("Well.")])
    assert FAULTLESS.value(odd) == 1
    ((completion,),) = FAULTLESS.sample([odd])
    assert WORLD.graded(completion.after(odd, "me")).correct


def test_a_sample_depends_on_seed_prefix_and_index_alone() -> None:
    first, second = (WORLD.prefix(p) for p in WORLD.problems(2, seed=0))
    together = POLICY.sample([first, second], 6)
    assert together[1] == POLICY.sample([second], 6)[0]
    assert together[0][4:] == POLICY.sample([first], 2, first=4)[0]
    assert len({c.steps for c in together[0]}) > 1
    assert POLICY.sample([first], 6, SamplingParams(seed=1)) != [together[0]]


def test_until_step_writes_one_step_and_max_tokens_cuts_between_steps() -> None:
    prefix = WORLD.prefix(WORLD.problems(1, seed=0)[0])
    ((completion,),) = POLICY.sample([prefix], 1, SamplingParams(until="step"))
    assert len(completion.steps) == 1 and completion.finish == "step"
    ((cut,),) = POLICY.sample([prefix], 1, SamplingParams(max_tokens=3))
    assert (cut.steps, cut.finish, cut.cost.generated_tokens) == ((), "length", 0)
    greedy = POLICY.sample([prefix], 3, SamplingParams(temperature=0))[0]
    assert len({c.steps for c in greedy}) == 1


def test_default_difficulty_is_as_documented() -> None:
    values: dict[str, list[float]] = {}
    for problem in WORLD.problems(40, seed=7, split="test"):
        values.setdefault(str(problem.meta["kind"]), []).append(POLICY.value(WORLD.prefix(problem)))
    means = {kind: sum(found) / len(found) for kind, found in values.items()}
    assert means["system"] < means["linear"] < means["quadratic"]
    assert means["system"] > 0.45 and means["quadratic"] < 0.8


def test_it_makes_every_kind_of_error_it_names() -> None:
    kinds: set[str] = set()
    rng = Random(0)
    for problem in WORLD.problems(60, seed=1):
        writer, state = CLUMSY.writer(problem), Work()
        while state.answer is None:
            move = writer.draw(state, rng)
            kinds.add(move.kind)
            state = move.after
    assert kinds == {"right", "misread", "sign", "slip", "division", "lost-root", "skip", "recover", "answer"}
