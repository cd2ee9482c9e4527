"""The scripted policy: what it writes, that it is a function of seed, prefix and index, and what it is worth."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import create
from footfall.types import Json, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, OpRates, StepTruth
from footfall.worlds.arithmetic.world import read_step, start_of

WORLD = ArithmeticWorld(max_ops=8, trap_rate=0.2)
POLICY: ArithmeticPolicy = ArithmeticPolicy()
NEVER = OpRates(0, 0, 0, 0)
FAULTLESS = ArithmeticPolicy(NEVER, NEVER, NEVER)
CLUMSY = ArithmeticPolicy(OpRates(0.3, 0.3, 0.3, 0.3), OpRates(0.3, 0.3, 0.3, 0.3), recover=0.4)
EQUATION = re.compile(r"-?\d+ [-+*/] \d+ = -?\d+")


def one(policy: Policy, prefix: Trajectory, **params: object) -> Trajectory:
    ((completion,),) = policy.sample([prefix], 1, SamplingParams(**params))  # type: ignore[arg-type]
    return WORLD.graded(completion.after(prefix, policy.name))


def test_it_is_a_policy_and_a_named_part() -> None:
    policy: Policy = create("policy", "scripted-arithmetic", recover=0.5)
    assert policy == ArithmeticPolicy(recover=0.5)
    assert policy.name != POLICY.name and "recover=0.5" in policy.name


@pytest.mark.long
@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=40)
def test_without_error_rates_every_step_is_right(seed: int) -> None:
    for _, trajectory in WORLD.traces(FAULTLESS, 3, seed):
        assert set(WORLD.check(trajectory)) == {StepTruth.RIGHT}
        assert trajectory.correct


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=80)
def test_the_checker_finds_exactly_the_first_error_that_the_script_makes(seed: int) -> None:
    problem = WORLD.problems(1, seed)[0]
    writer = CLUMSY.writer(problem)
    state, rng = start_of(writer.program), Random(seed)
    steps: list[Step] = []
    errors: list[int] = []
    while state.answer is None:
        move = writer.draw(state, rng)
        for wording in move.wordings:
            after = read_step(writer.program, state, move.text(wording))[1]
            assert after == move.after, "the fast path and the reader must agree"
        if move.kind in ("slip", "misread"):
            errors.append(len(steps))
        steps.append(Step(move.text(rng.choice(move.wordings))))
        state = move.after
    trajectory = Trajectory("t", problem, tuple(steps), separator="\n")
    assert WORLD.first_error(trajectory) == (errors[0] if errors else -1)
    truths = WORLD.check(trajectory)
    assert all(truths[i] is StepTruth.WRONG for i in errors)


def test_each_step_holds_one_equation_and_the_last_one_the_answer() -> None:
    for _, trajectory in WORLD.traces(CLUMSY, 200, seed=1):
        *work, last = [step.text for step in trajectory.steps]
        assert all(len(EQUATION.findall(text)) == 1 and "\n" not in text for text in work)
        assert re.fullmatch(r"The answer is -?\d+\.", last)


@pytest.mark.long
def test_wordings_vary_and_do_not_depend_on_being_right() -> None:
    traces = [t for _, t in WORLD.traces(CLUMSY, 1500, seed=2)]
    frames: dict[StepTruth, set[str]] = {truth: set() for truth in StepTruth}
    for trajectory in traces:
        item = str(trajectory.problem.meta["item"])
        for step, truth in zip(trajectory.steps, WORLD.check(trajectory), strict=True):
            frame = EQUATION.sub("#", step.text).replace(item, "things").replace("She", "He")
            if "So" not in frame and "answer" not in frame:
                frames[truth].add(frame)
    assert len(frames[StepTruth.RIGHT]) >= 15
    assert frames[StepTruth.WRONG] < frames[StepTruth.RIGHT]  # recoveries are said only when they are right


def test_a_sample_depends_on_seed_prefix_and_index_alone() -> None:
    first, second = (WORLD.prefix(p) for p in WORLD.problems(2, seed=0))
    together = POLICY.sample([first, second], 6)
    assert together[1] == POLICY.sample([second], 6)[0]
    assert together[0][4:] == POLICY.sample([first], 2, first=4)[0]
    assert len({c.steps for c in together[0]}) > 1
    assert POLICY.sample([first], 6, SamplingParams(seed=1)) != [together[0]]


def test_until_step_writes_one_step_and_says_when_it_was_the_last() -> None:
    trajectory = WORLD.prefix(WORLD.problems(1, seed=0)[0])
    finish = "step"
    while finish == "step":
        ((completion,),) = POLICY.sample([trajectory], 1, SamplingParams(until="step"))
        assert len(completion.steps) == 1
        trajectory, finish = trajectory.extend(completion.steps), completion.finish
    assert finish == "end" and WORLD.answer(trajectory) is not None
    ((after,),) = POLICY.sample([trajectory], 1, SamplingParams(until="step"))
    assert (after.steps, after.finish, after.cost.generated_tokens) == ((), "end", 0)


def test_tokens_are_words_and_separators_and_are_limited() -> None:
    prefix = WORLD.prefix(WORLD.problems(1, seed=0)[0])
    ((whole,),) = POLICY.sample([prefix], 1)
    words = [len(step.text.split()) + 1 for step in whole.steps]
    assert whole.cost.generated_tokens == sum(words) and whole.cost.calls == 1
    ((cut,),) = POLICY.sample([prefix], 1, SamplingParams(max_tokens=words[0] + words[1] + 1))
    assert (cut.steps, cut.finish) == (whole.steps[:2], "length")


def test_temperature_zero_takes_the_likeliest_move_so_a_tricky_clause_is_misread() -> None:
    ops: list[Json] = [["+", 5], ["-", 3]]
    plain = Problem("a", "…", "12", meta={"start": 10, "ops": ops, "tricky": [False, False]})
    tricky = Problem("b", "…", "12", meta={"start": 10, "ops": ops, "tricky": [True, False]})
    assert one(POLICY, WORLD.prefix(plain), temperature=0).answer == "12"
    assert one(POLICY, WORLD.prefix(tricky), temperature=0).answer == "2"
    assert one(POLICY, WORLD.prefix(plain), temperature=0, seed=9) == one(POLICY, WORLD.prefix(plain), temperature=0)


def test_it_goes_on_from_where_the_checker_says_the_prefix_stands() -> None:
    problem = Problem("a", "…", "36", meta={"start": 10, "ops": [["+", 5], ["-", 3], ["*", 3]], "tricky": [False] * 3})
    stubborn = ArithmeticPolicy(NEVER, NEVER, NEVER, recover=0)

    def equations(*lines: str) -> list[str]:
        prefix = WORLD.prefix(problem).extend([Step(line) for line in lines])
        return EQUATION.findall(one(stubborn, prefix).text)[len(EQUATION.findall("\n".join(lines))) :]

    assert equations("Well, hm.") == ["10 + 5 = 15", "15 - 3 = 12", "12 * 3 = 36"]
    assert equations("10 + 5 = 16") == ["16 - 3 = 13", "13 * 3 = 39"]
    assert equations("10 - 3 = 7") == ["7 * 3 = 21"]  # skipped the addition


def test_rates_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ArithmeticPolicy\.slip"):
        ArithmeticPolicy(slip=OpRates(0, 0, 2, 0))
    with pytest.raises(ValueError, match=r"ArithmeticPolicy\.recover"):
        ArithmeticPolicy(recover=-0.1)


@pytest.mark.long
def test_default_difficulty_is_as_documented() -> None:
    world = ArithmeticWorld()
    problems = world.problems(600, seed=7, split="test")
    outcomes = [POLICY.answers(world.prefix(problem)) for problem in problems]
    values = [answers.get(str(problem.answer), 0.0) for problem, answers in zip(problems, outcomes, strict=True)]
    fooled = [next(iter(answers)) != p.answer for p, answers in zip(problems, outcomes, strict=True)]
    assert 0.58 < sum(values) / len(values) < 0.67
    assert min(values) < 0.2 and max(values) > 0.93
    assert 0.15 < sum(fooled) / len(fooled) < 0.27
    assert all(any(p.meta["tricky"]) for p, f in zip(problems, fooled, strict=True) if f)  # type: ignore[arg-type]
