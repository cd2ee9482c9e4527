"""The scripted writer of code: what it writes, and that its values are exact: by hand, by recursion, by sampling."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import create
from footfall.types import Json, Problem, Step, Trajectory
from footfall.worlds import ExactValueJudge, StepTruth
from footfall.worlds.code import CodePolicy, CodeWorld
from footfall.worlds.code.reading import START, State, advance

WORLD = CodeWorld()
POLICY = CodePolicy()
FAULTLESS = CodePolicy(0, 0, 0, 0, 0, 0, trap=0)
CLUMSY = CodePolicy(0.2, 0.15, 0.1, 0.3, 0.2, recover=0.4)


def problem_of(program: str, inputs: list[Json]) -> Problem:
    return Problem("p", "…", "?", "code", meta={"program": program.split("\n"), "inputs": inputs})


SUM = problem_of(
    "def f(xs):\n    total = 0\n    for x in xs:\n        if x > 3:\n            total += x\n    return total",
    [[[1, 4, 5, 3]], [[]], [[7, 2]]],
)
DIGITS = problem_of(
    "def f(n):\n    t = 0\n    while n > 0:\n        t += n % 10\n        n = n // 10\n    return t", [[123], [50], [7]]
)


def prefix(problem: Problem, *lines: str) -> Trajectory:
    return WORLD.prefix(problem).extend([Step(line) for line in lines])


def test_it_is_a_policy_and_a_named_part() -> None:
    policy: Policy = create("policy", "scripted-code", recover=0.5)
    assert policy == CodePolicy(recover=0.5)
    assert policy.name != POLICY.name and "recover=0.5" in policy.name


@pytest.mark.long
def test_without_mistakes_every_line_is_the_reference() -> None:
    for problem, trajectory in WORLD.traces(FAULTLESS, 40, seed=1):
        assert [step.text for step in trajectory.steps[:-1]] == problem.meta["program"]
        assert set(WORLD.check(trajectory)) == {StepTruth.RIGHT} and trajectory.correct
        assert FAULTLESS.value(WORLD.prefix(problem)) == 1


def test_the_value_of_a_function_of_one_line_by_hand() -> None:
    problem = problem_of("def f(a, b):\n    return a + b", [[2, 3]])
    policy = CodePolicy(operator=0.2, off_by_one=0.5, variable=0.1, initial=0, missing=0)
    # a + b: wrong operator a - b; wrong variable a + a or b + b; nothing to be off by one: 0.2 + 0.1 wrong.
    assert policy.value(WORLD.prefix(problem)) == pytest.approx(0.7)
    assert policy.answers(WORLD.prefix(problem)) == pytest.approx({"[5]": 0.7, "[-1]": 0.2, "[6]": 0.05, "[4]": 0.05})
    assert policy.value(prefix(problem, "def f(a, b):", "    return a - b")) == 0
    assert policy.value(prefix(problem, "def f(a, b):", "    return b + a")) == 1


def test_weak_tests_let_a_mistake_pass_and_the_value_counts_it() -> None:
    problem = problem_of("def f(a, b):\n    return a + b", [[2, 0]])
    policy = CodePolicy(operator=0.2, off_by_one=0, variable=0.1, initial=0, missing=0)
    assert policy.value(WORLD.prefix(problem)) == pytest.approx(0.7 + 0.2)


def test_a_wrong_first_value_can_be_mended_and_a_wrong_loop_cannot() -> None:
    policy = CodePolicy(0, 0, 0, initial=0.5, missing=0, recover=0.4)
    assert policy.value(prefix(SUM, "def f(xs):")) == pytest.approx(0.5 + 0.5 * 0.4)
    assert policy.value(prefix(SUM, "def f(xs):", "    total = 1")) == pytest.approx(0.4)
    assert policy.value(prefix(SUM, "def f(xs):", "    total = 1", "    total = 0")) == 1
    assert policy.value(prefix(SUM, "def f(xs):", "    total = 1", "    for x in xs:")) == 0


def test_a_trap_is_one_mistake_that_most_writers_make() -> None:
    trapped = Problem("t", "…", "?", "code", meta={**SUM.meta, "trap": 3})
    policy = CodePolicy(0, 0, 0, 0, 0, trap=0.6)
    assert policy.value(WORLD.prefix(trapped)) == pytest.approx(0.4)
    assert list(policy.answers(WORLD.prefix(trapped))) == ["[1, 0, 2]", "[9, 0, 7]"]  # `x < 3` wins the vote
    assert policy.value(WORLD.prefix(SUM)) == 1


@pytest.mark.long
def test_in_some_problems_the_vote_is_wrong_and_only_where_there_is_a_trap() -> None:
    problems = CodeWorld(trap_rate=0.5).problems(40, seed=1)
    trapped = CodePolicy(0, 0, 0, 0, 0, trap=0.65)  # nothing else goes wrong: few programs to run
    fooled = [next(iter(trapped.answers(WORLD.prefix(p)))) != p.answer for p in problems]
    assert 5 < sum(fooled) < 25
    assert all("trap" in p.meta for p, flag in zip(problems, fooled, strict=True) if flag)


def test_an_update_is_left_out_with_its_rate() -> None:
    policy = CodePolicy(0, 0, 0, 0, missing=0.3, recover=0)
    assert policy.value(WORLD.prefix(DIGITS)) == pytest.approx(0.7 * 0.7)
    lines = ("def f(n):", "    t = 0", "    while n > 0:", "        t += n % 10")
    assert policy.value(prefix(DIGITS, *lines)) == pytest.approx(0.7)
    assert policy.value(prefix(DIGITS, *lines, "    return t")) == 0


def recursive(policy: CodePolicy, problem: Problem, state: State) -> float:
    """The same value by reading each written line anew."""
    writer = policy.writer(problem)
    moves = writer.moves(state)
    if [move.kind for move in moves] == ["answer"]:
        return float(writer.task.outputs(state.program) == writer.task.expected)
    assert sum(move.probability for move in moves) == pytest.approx(1)
    after = [(move.probability, advance(writer.task, state, move.wordings[0])) for move in moves]
    return sum(p * recursive(policy, problem, then) for p, then in after)


@pytest.mark.long
@pytest.mark.parametrize("problem", [SUM, DIGITS])
def test_the_value_is_the_mean_over_the_moves_as_the_reader_places_them(problem: Problem) -> None:
    assert CLUMSY.value(WORLD.prefix(problem)) == pytest.approx(recursive(CLUMSY, problem, START), abs=1e-12)


PREFIXES = {
    "empty": (SUM, ()),
    "right": (SUM, ("def f(xs):", "    total = 0")),
    "a wrong first value": (SUM, ("def f(xs):", "    total = 1")),
    "another version of a line": (DIGITS, ("def f(n):", "    t = 0", "    while not n <= 0:")),
    "a line inserted": (DIGITS, ("def f(n):", "    k = 3", "    t = 0")),
    "an early mistake that may still pass": (
        SUM,
        ("def f(xs):", "    total = 0", "    for x in xs:", "        if x >= 4:"),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PREFIXES)
def test_the_value_agrees_with_sampled_text(name: str) -> None:
    problem, lines = PREFIXES[name]
    start = prefix(problem, *lines)
    (completions,) = CLUMSY.sample([start], 1500)
    hits = sum(WORLD.graded(c.after(start, "me")).correct is True for c in completions)
    value = CLUMSY.value(start)
    assert 0 < value < 1
    assert abs(hits - 1500 * value) < 5 * math.sqrt(1500 * value * (1 - value))


@pytest.mark.long
def test_the_mean_value_of_empty_prefixes_is_the_mean_outcome() -> None:
    pairs = list(WORLD.traces(POLICY, 50, seed=11))
    values = [POLICY.value(WORLD.prefix(problem)) for problem, _ in pairs]
    spread = math.sqrt(sum(v * (1 - v) for v in values))
    assert abs(sum(t.correct is True for _, t in pairs) - sum(values)) < 5 * spread
    assert 0.4 < sum(values) / len(values) < 0.65 and min(values) < 0.3 and max(values) > 0.75


@pytest.mark.long
@given(st.integers(0, 10_000))
@example(1671)
@settings(deadline=None, max_examples=25)
def test_the_fast_path_and_the_reader_agree_and_no_error_is_found_before_one_is_made(seed: int) -> None:
    problem = WORLD.problems(1, seed)[0]
    writer, rng = CLUMSY.writer(problem), Random(seed)
    state = START
    steps: list[Step] = []
    mistakes: list[int] = []
    while (move := writer.draw(state, rng)).kind != "answer":
        if move.kind not in ("right", "recover"):
            mistakes.append(len(steps))
        (text,) = move.wordings
        steps.append(Step(text))
        assert advance(writer.task, state, text) == move.after
        state = move.after
    first = WORLD.first_error(WORLD.prefix(problem).extend(steps))
    # A mistake may pass the tests, or be one that another mistake would have made good: then the error is the line, right
    # in itself, that ends the last chance of that (seed 1671). Before any mistake there is no error.
    assert first == -1 or (mistakes and first >= mistakes[0])


def test_a_right_line_is_the_error_where_only_another_mistake_could_have_mended_the_first() -> None:
    problem = WORLD.problems(1, 1671)[0]
    lines = ["def solve(a, high):", "    acc = high", "    if a % 5 == 0:", "        acc = acc * 5"]
    assert problem.meta["program"][1:4] == ["    acc = a", *lines[2:]]  # type: ignore[index]
    assert CLUMSY.value(prefix(problem, *lines[:3])) > 0, "a wrong third line could still pass every test"
    assert CLUMSY.value(prefix(problem, *lines)) == 0
    assert WORLD.first_error(prefix(problem, *lines)) == 3


@pytest.mark.long
def test_after_the_answer_the_value_is_the_outcome() -> None:
    for _, trajectory in WORLD.traces(CLUMSY, 30, seed=2):
        assert CLUMSY.value(trajectory) == float(trajectory.correct is True)
        assert CLUMSY.answers(trajectory) == {trajectory.answer: 1.0}


def test_final_answers_have_probability_one_together() -> None:
    for problem in WORLD.problems(4, seed=0):
        answers = POLICY.answers(WORLD.prefix(problem))
        assert sum(answers.values()) == pytest.approx(1.0)
        assert answers[str(problem.answer)] == pytest.approx(POLICY.value(WORLD.prefix(problem)))


def test_a_sample_depends_on_seed_prefix_and_index_alone() -> None:
    first, second = (WORLD.prefix(p) for p in WORLD.problems(2, seed=0))
    together = CLUMSY.sample([first, second], 6)
    assert together[1] == CLUMSY.sample([second], 6)[0]
    assert together[0][4:] == CLUMSY.sample([first], 2, first=4)[0]
    assert len({c.steps for c in together[0]}) > 1
    assert CLUMSY.sample([first], 6, SamplingParams(seed=1)) != [together[0]]


def test_until_step_writes_one_step_and_says_when_it_was_the_last() -> None:
    trajectory, finish = WORLD.prefix(SUM), "step"
    while finish == "step":
        ((completion,),) = POLICY.sample([trajectory], 1, SamplingParams(until="step"))
        assert len(completion.steps) == 1
        trajectory, finish = trajectory.extend(completion.steps), completion.finish
    assert finish == "end" and WORLD.answer(trajectory) is not None
    ((after,),) = POLICY.sample([trajectory], 1)
    assert (after.steps, after.finish, after.cost.generated_tokens) == ((), "end", 0)


def test_tokens_are_words_and_separators_and_are_limited() -> None:
    ((whole,),) = POLICY.sample([WORLD.prefix(SUM)], 1)
    words = [len(step.text.split()) + 1 for step in whole.steps]
    assert whole.cost.generated_tokens == sum(words) and whole.cost.calls == 1
    ((cut,),) = POLICY.sample([WORLD.prefix(SUM)], 1, SamplingParams(max_tokens=words[0] + words[1] + 1))
    assert (cut.steps, cut.finish) == (whole.steps[:2], "length")


def test_temperature_zero_writes_the_likeliest_line() -> None:
    ((completion,),) = POLICY.sample([WORLD.prefix(SUM)], 1, SamplingParams(temperature=0))
    assert [step.text for step in completion.steps[:-1]] == SUM.meta["program"]


def test_broken_text_is_worth_nothing_and_the_writer_still_ends() -> None:
    start = prefix(SUM, "def f(xs):", "hello there")
    assert POLICY.value(start) == 0
    ((completion,),) = POLICY.sample([start], 1)
    assert completion.steps[-1].text == "# The answer is [error, error, error]."
    assert POLICY.answers(start) == pytest.approx({"[error, error, error]": 1.0})


@pytest.mark.long
def test_monte_carlo_estimates_the_exact_values() -> None:
    traces = [trajectory for _, trajectory in WORLD.traces(CLUMSY, 4, seed=4)]
    labels = MonteCarlo(CLUMSY, 200, params=SamplingParams(seed=1)).judge(traces)
    exact = ExactValueJudge(CLUMSY).judge(traces)
    pairs = [(a, b) for x, y in zip(labels, exact, strict=True) for a, b in zip(x.values, y.values, strict=True)]
    for estimate, value in pairs:
        assert estimate is not None and value is not None
        assert abs(estimate - value) < 5 * math.sqrt(value * (1 - value) / 200) + 1e-9


def test_rates_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match=r"CodePolicy\.operator"):
        CodePolicy(operator=1.5)
    with pytest.raises(ValueError, match="add up to more than 1"):
        CodePolicy(operator=0.6, variable=0.6)
