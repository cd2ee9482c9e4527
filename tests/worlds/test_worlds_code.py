"""The code world: its problems, its checker by example, and that its tiny Python is Python, safely."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.answers import grade
from footfall.registry import create
from footfall.types import Json, Problem, Step, Trajectory
from footfall.worlds import StepTruth, TruthJudge
from footfall.worlds.code import CodePolicy, CodeWorld
from footfall.worlds.code.language import Line, read_line
from footfall.worlds.code.run import ERROR, build, output
from footfall.worlds.code.task import KINDS, task_of
from footfall.worlds.code.templates import FAMILIES
from footfall.worlds.code.world import in_reference_names
from footfall.worlds.world import Split

WORLD = CodeWorld()
R, W, C = StepTruth.RIGHT, StepTruth.WRONG, StepTruth.CONSEQUENT


def problem_of(program: str, inputs: list[Json], answer: str) -> Problem:
    return Problem("p", "…", answer, "code", meta={"program": program.split("\n"), "inputs": inputs})


SUM = problem_of(
    "def f(xs):\n    total = 0\n    for x in xs:\n        if x > 3:\n            total += x\n    return total",
    [[[1, 4, 5, 3]], [[]], [[7, 2]]],
    "[9, 0, 7]",
)
DIGITS = problem_of(
    "def f(n):\n    t = 0\n    while n > 0:\n        t += n % 10\n        n = n // 10\n    return t",
    [[123], [50], [7]],
    "[6, 5, 7]",
)


def trace(program: str, problem: Problem = SUM) -> Trajectory:
    return WORLD.prefix(problem).extend([Step(line) for line in program.split("\n")])


TABLE: dict[str, tuple[Problem, list[tuple[str, StepTruth]]]] = {
    "all right": (SUM, [
        ("def f(xs):", R), ("    total = 0", R), ("    for x in xs:", R), ("        if x > 3:", R),
        ("            total += x", R), ("    return total", R), ("# The answer is [9, 0, 7].", R)]),
    "spelled otherwise": (SUM, [
        ("def f( xs ):", R), ("    total=0  # start", R), ("", R), ("    # go on", R), ("    for x in xs :", R),
        ("        if (x>3):", R), ("            total+=x", R), ("    return (total)", R)]),
    "another program with the same results": (SUM, [
        ("def f(xs):", R), ("    total = 0", R), ("    for x in xs:", R), ("        if not x <= 3:", R),
        ("            total = x + total", R), ("    return total + 0", R)]),
    "a wrong operator": (SUM, [
        ("def f(xs):", R), ("    total = 0", R), ("    for x in xs:", R), ("        if x < 3:", W),
        ("            total += x", C), ("    return total", C), ("# The answer is [1, 0, 2].", C)]),
    "two mistakes": (SUM, [
        ("def f(xs):", R), ("    total = 1", W), ("    for x in xs:", C), ("        if x >= 3:", W),
        ("            total += x", C)]),
    "a wrong first value mended": (SUM, [
        ("def f(xs):", R), ("    total = 1", W), ("    total = 0", R), ("    for x in xs:", R)]),
    "a mistake that the tests do not see": (
        problem_of("def f(a, b):\n    return a + b", [[2, 0]], "[2]"),
        [("def f(a, b):", R), ("    return a - b", R), ("# The answer is [2].", R)]),
    "a mistake that they see": (
        problem_of("def f(a, b):\n    return a + b", [[2, 3]], "[5]"), [("def f(a, b):", R), ("    return a - b", W)]),
    "a behaviour-preserving change": (
        problem_of("def f(a, b):\n    return a + b", [[2, 3]], "[5]"), [("def f(a, b):", R), ("    return b + a", R)]),
    "an update left out shows where it can no longer be written": (DIGITS, [
        ("def f(n):", R), ("    t = 0", R), ("    while n > 0:", R), ("        t += n % 10", R), ("    return t", W),
        ("# The answer is [error, error, error].", C)]),
    "a header skipped": (SUM, [
        ("def f(xs):", R), ("    total = 0", R), ("    for x in xs:", R), ("            total += x", W),
        ("    return total", C), ("# The answer is [13, 0, 9].", C)]),
    "bad indentation": (SUM, [("def f(xs):", R), ("total = 0", W), ("    for x in xs:", C)]),
    "another name than the tests call": (SUM, [("def g(xs):", W), ("    total = 0", W)]),
    "several lines in one step": (SUM, [
        ("def f(xs):\n    total = 0", R), ("    # now\n    for x in xs:\n        if x > 4:", W), ("# x\nimport os", W)]),
    "no Python": (SUM, [("def f(xs):", R), ("let me think", W), ("    total = 0", C), ("    return total", W)]),
    "an early return": (SUM, [("def f(xs):", R), ("    return 0", W), ("    total = 0", W)]),
    "a line inserted that does no harm": (SUM, [("def f(xs):", R), ("    y = 5", R), ("    total = 0", R)]),
    "an answer too early": (SUM, [("def f(xs):", R), ("# The answer is [9, 0, 7].", W), ("    total = 0", W)]),
    "an answer that the program does not give": (SUM, [
        ("def f(xs):", R), ("    total = 0", R), ("    for x in xs:", R), ("        if x > 3:", R),
        ("            total += x", R), ("    return total", R), ("# The answer is [9, 0, 8].", W)]),
    "nothing written": (SUM, []),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_each_step_gets_its_class(case: str) -> None:
    problem, rows = TABLE[case]
    trajectory = WORLD.prefix(problem).extend([Step(text) for text, _ in rows])
    expected = [truth for _, truth in rows]
    assert WORLD.check(trajectory) == expected
    assert WORLD.first_error(trajectory) == (expected.index(W) if W in expected else -1)
    assert [WORLD.check(trajectory.prefix(k)) for k in range(len(rows))] == [expected[:k] for k in range(len(rows))]


def test_the_outcome_is_what_the_tests_say_and_not_what_the_trace_claims() -> None:
    right = "\n".join(text for text, _ in TABLE["all right"][1])
    graded = WORLD.graded(trace(right))
    assert (graded.answer, graded.correct) == ("[9, 0, 7]", True)
    boast = WORLD.graded(trace(right.replace("x > 3", "x < 3")))
    assert (boast.answer, boast.correct) == ("[1, 0, 2]", False)
    assert WORLD.graded(trace("def f(xs):\n    total = 0")).correct is False


def test_python_that_the_world_cannot_run_has_no_outcome_and_text_that_is_no_python_is_wrong() -> None:
    assert WORLD.graded(trace("def f(xs):\n    return sum(x for x in xs if x > 3)")).correct is None
    assert WORLD.graded(trace("def f(xs):\n    return ((xs")).correct is False
    assert WORLD.graded(trace("def f(xs):\n    return \x00")).correct is False


LINES = st.one_of(
    st.text("def return whilefor xs=+-*()[]:'#0123 \t\n", max_size=30),
    st.sampled_from([text for _, rows in TABLE.values() for text, _ in rows]),
)


@given(st.lists(LINES, max_size=7))
@settings(deadline=None, max_examples=60)
def test_any_text_has_a_class_that_later_steps_do_not_change(lines: list[str]) -> None:
    trajectory = WORLD.prefix(SUM).extend([Step(line) for line in lines])
    truths = WORLD.check(trajectory)
    assert len(truths) == len(lines)
    assert all(WORLD.check(trajectory.prefix(k)) == truths[:k] for k in range(len(lines)))
    if C in truths:
        assert W in truths[: truths.index(C)]


@pytest.mark.parametrize(
    "text",
    ["import os", "x = __import__('os')", "x = open('a')", "x = 2 ** 999999999", "x.y = 1", "x = xs.pop()",
     "x = [i for i in xs]",
     "x = lambda: 1", "exec('x = 1')", "x = 1; y = 2", "if x: y = 1", "else: y = 1", "x = xs[1:]", "def g(x=1):", "x, y = 1, 2",
     "\tx = 1", "(((((", "x = 9999999999999", "a < b < c", "return", "x = '" + "a" * 300 + "'", "@f", "while x: pass",
     "global x", "raise x", "x = f'{x}'", "x = b'a'", "x = 1.5", "x = None", "for x, y in xs:", "async def f():", "\ud800"],
)  # fmt: skip
def test_the_tiny_language_has_nothing_else(text: str) -> None:
    assert read_line(text) is None


def run(body: str, *arguments: Any) -> str:
    lines = [read_line(line) for line in ["def f(a, b):", *("    " + line for line in body.split("\n"))]]
    assert None not in lines, lines
    return output(build([line for line in lines if line is not None]), arguments)


@pytest.mark.parametrize(
    "body",
    ["while 1:\n    a += 1\nreturn a", "while 1:\n    pass\nreturn a", "for x in range(999999999999):\n    pass\nreturn a",
     "b = 'a'\nwhile 1:\n    b += b\nreturn b", "b = [1]\nwhile 1:\n    b += b\nreturn b", "return 'a' * 999999999999",
     "return [1] * 999999999999", "return '%999999999d' % 5", "b = []\nb.append(b)\nreturn b", "return [[1]]",
     "b = 2\nwhile 1:\n    b *= b\nreturn b", "return a[0]", "return [1][5]", "return c", "return a // 0", "return a % 0",
     "return a + 'x'", "b = [1]\nfor x in b:\n    b.append(x)\nreturn b", "return -'x'", "return max([])", "return len(a)",
     "for x in a:\n    pass\nreturn 1", "a.append(1)\nreturn a", "x = 1", "return 'x' in 5"],
)  # fmt: skip
def test_a_program_that_runs_wild_gives_an_error_and_nothing_else(body: str) -> None:
    assert run(body, 5, 6) == ERROR


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("return a + b * 2 - a // 2 % 2", "17"),
        ("if a > b:\n    return 1\nelif a == 5 and not b == 7:\n    return 2\nelse:\n    return 3", "2"),
        ("t = 0\nfor i in range(1, 10, 3):\n    if i == 4:\n        continue\n    t += i\nreturn t", "8"),
        ("while 1:\n    a += 1\n    if a > 9 or a == b + 2:\n        break\nreturn a", "8"),
        ("c = [a]\nd = c\nd += [b]\nc.append('x')\nreturn d", "[5, 6, 'x']"),
        ("c = 'ab'\nreturn c[-1] + c * 2 + str(len(c))", "'babab2'"),
        (
            "return [min(a, b), max([a, b]), abs(-a), sum([a, b]), -a, a in [5], 'x' not in 'xy']",
            "[5, 6, 5, 11, -5, True, False]",
        ),
    ],
)
def test_programs_run_as_in_python(body: str, result: str) -> None:
    assert run(body, 5, 6) == result


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("max = max(a, b)\nreturn max", ERROR),
        ("if a > b:\n    len = 1\nreturn len([a])", ERROR),
        ("for range in range(3):\n    pass\nreturn range", ERROR),
        ("sum = a\nsum += b\nreturn sum", "11"),
        ("c = [a]\nd = c\nd += 'xy'\nreturn c", "[5, 'x', 'y']"),
        ("c = []\nc = c + 'xy'\nreturn c", ERROR),
        ("for x in [a, b]:\n    if x > 9:\n        break\nelse:\n    return 1\nreturn 2", "1"),
        ("while a < 9:\n    a += 1\n    if a == 7:\n        break\nelse:\n    return 1\nreturn a", "7"),
        (
            "for x in [a, b]:\n    for y in [1]:\n        pass\n    else:\n        break\nelse:\n    return 1\nreturn x",
            "5",
        ),
    ],
)
def test_names_lists_and_the_else_of_a_loop_are_those_of_python(body: str, result: str) -> None:
    """A name that is set anywhere in a function is no function there; Python runs each of these with the same result."""
    assert run(body, 5, 6) == result
    defined: dict[str, Any] = {}
    exec("def f(a, b):\n" + "\n".join("    " + line for line in body.split("\n")), defined)
    try:
        said = repr(defined["f"](5, 6))
    except (UnboundLocalError, TypeError):
        said = ERROR
    assert said == result


def test_a_parameter_is_no_function() -> None:
    lines = [line for text in ("def f(max):", "    return max(1, 2)") if (line := read_line(text))]
    assert output(build(lines), [3]) == ERROR


def test_a_solution_that_fails_in_python_is_not_right_here() -> None:
    largest = problem_of("def f(xs):\n    top = max(xs)\n    return top", [[[1, 4]], [[7, 2]]], "[4, 7]")
    written = "def f(xs):\n    {0} = max(xs)\n    return {0}\n# The answer is [4, 7]."
    assert WORLD.graded(trace(written.format("best"), largest)).correct is True
    assert WORLD.graded(trace(written.format("max"), largest)).correct is False


def test_no_block_no_program() -> None:
    def lines(*texts: str) -> list[Line]:
        return [line for text in texts if (line := read_line(text)) is not None]

    assert build(lines("def f(a):", "    return a")) is not None
    for wrong in (
        [], ["return 1"], ["def f(a):"], ["def f(a):", "return a"], ["def f(a):", "    if a:", "    return a"],
        ["def f(a):", "    a = 1", "      return a"], ["def f(a):", "    else:", "        return a"],
        ["def f(a):", "    break"], ["def f(a):", "    if a:", "        return 1", "      return 2"],
        ["def f(a):", "    return a", "a = 1"], ["def f(a):", "    def g(b):", "        return b"],
    ):  # fmt: skip
        assert build(lines(*wrong)) is None


def test_the_interpreter_agrees_with_python_on_every_program_of_the_grammar_with_one_mistake() -> None:
    """The world's own programs only, in a process of their own; those that fail or never end here are left out."""
    cases: list[dict[str, object]] = []
    for problem in WORLD.problems(40, seed=3):
        task = task_of(problem)
        for at, slot in enumerate(task.slots):
            for line in slot.lines:
                program = (*task.lines[:at], line, *task.lines[at + 1 :])
                outputs = task.outputs(program)
                if ERROR not in outputs:
                    source = "\n".join(" " * text.indent + text.text for text in program)
                    name = source[4 : source.index("(")]
                    cases.append({"source": source, "name": name, "inputs": problem.meta["inputs"], "outputs": outputs})
    assert len(cases) > 300
    script = (
        "import json, sys\nbad = []\n"
        "for case in json.load(sys.stdin):\n"
        "    space = {}\n"
        "    exec(case['source'], space)\n"
        "    if [repr(space[case['name']](*given)) for given in case['inputs']] != case['outputs']: bad.append(case)\n"
        "sys.exit(repr(bad) if bad else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script],
        input=json.dumps(cases),
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_same_seed_gives_the_same_problems_however_many_are_asked_for() -> None:
    assert WORLD.problems(20, seed=3) == WORLD.problems(35, seed=3)[:20]
    assert WORLD.problems(20, seed=3) != WORLD.problems(20, seed=4)


def test_train_and_test_share_no_program_whatever_its_names() -> None:
    found: dict[Split, set[str]] = {}
    for split in get_args(Split):
        problems = [p for seed in range(3) for p in WORLD.problems(120, seed, split)]
        found[split] = {json.dumps(p.meta["program"]) for p in problems}
        assert len({p.id for p in problems}) > 350
    assert not found["train"] & found["test"]
    assert len(found["test"]) > 60


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_passing_references_and_a_small_grammar(family: str) -> None:
    for problem in CodeWorld((family,)).problems(25, seed=1):
        task = task_of(problem)
        assert problem.answer == f"[{', '.join(task.expected)}]" and task.passes(task.lines)
        assert len(task.inputs) == 6 and problem.text.count(" == ") >= 2
        size = 1
        for slot in task.slots:
            size *= len(slot.lines) + slot.omittable
            assert len(set(slot.lines)) == len(slot.lines)
        assert 2 <= size <= 5000
        json.dumps(problem.meta)


@pytest.mark.long
def test_all_kinds_of_mistakes_occur() -> None:
    slots = [slot for problem in WORLD.problems(60, seed=2) for slot in task_of(problem).slots]
    found = {kind for slot in slots for kind in slot.wrong} | {"missing" for slot in slots if slot.omittable}
    assert found == set(KINDS)


@pytest.mark.long
def test_traces_come_graded_and_the_common_grader_agrees() -> None:
    policy = CodePolicy()
    pairs = list(WORLD.traces(policy, 70, seed=5))
    assert [problem for problem, _ in pairs] == WORLD.problems(70, seed=5)
    assert 10 < sum(t.correct is True for _, t in pairs) < 65
    for _, trajectory in pairs:
        assert grade(trajectory).correct == trajectory.correct == (trajectory.answer == trajectory.problem.answer)
        assert (WORLD.check(trajectory)[-1] is R) == trajectory.correct


def test_the_truth_judge_takes_the_world() -> None:
    (judgement,) = TruthJudge(WORLD).judge([trace("def f(xs):\n    total = 1\n    total = 0")])
    assert judgement.values == (1.0, 0.0, 1.0)


def test_it_is_a_named_part_and_refuses_what_it_does_not_have() -> None:
    assert create("world", "code", tests=4) == CodeWorld(tests=4)
    with pytest.raises(ValueError, match=r"families fold, index.*got loops"):
        CodeWorld(("loops",))
    with pytest.raises(ValueError, match="shown <= tests"):
        CodeWorld(tests=1)
    with pytest.raises(ValueError, match="no split is called 'dev'"):
        WORLD.problems(1, split="dev")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'x1' is not of the code world.*CodeWorld\(\)\.problems"):
        WORLD.check(WORLD.prefix(Problem("x1", "Add.", "2")))
    with pytest.raises(ValueError, match="line 2 of meta"):
        WORLD.check(WORLD.prefix(problem_of("def f(a):\n    import os", [[1]], "[1]")))
    with pytest.raises(ValueError, match="fails on test 1"):
        WORLD.check(WORLD.prefix(problem_of("def f(a):\n    return b", [[1]], "[1]")))


def test_a_program_under_other_names_is_checked_in_the_names_of_the_reference() -> None:
    """Names swapped with those of the reference too; an error stays one, and the answer's text is left alone."""
    other = "def f(xs):\n    x = 0\n    for total in xs:\n        if total {} 3:\n            x += total\n    return x"
    right, wrong = (trace(other.format(sign) + "\n# The answer is [9, 0, 7].") for sign in (">", "<"))
    assert WORLD.graded(right).correct and W in WORLD.check(right)
    assert WORLD.check(in_reference_names(right)) == [R] * 7
    assert WORLD.first_error(in_reference_names(wrong)) == 3
    assert in_reference_names(right).steps[-1].text == right.steps[-1].text


def test_functions_keep_their_names_and_a_name_too_many_stays_apart() -> None:
    """Else `sum(xs)` would become `total(xs)`, and the fifth name here, `total`, would be taken for the third, `acc`."""
    summed = trace("def f(v):\n    t = sum(v)\n    return t")
    assert in_reference_names(summed).text.rstrip() == "def f(xs):\n    total = sum(xs)\n    return total"
    loop = "    for n in v:\n        total = n\n        if n > 3:\n            acc += total\n"
    other = trace(f"def f(v):\n    acc = 0\n{loop}    return acc\n# The answer is [9, 0, 7].")
    renamed = in_reference_names(other)
    assert "        total_ = x" in renamed.text and "            total += total_" in renamed.text
    assert WORLD.graded(other).correct is WORLD.graded(renamed).correct is True


def test_a_program_in_the_names_of_the_reference_stays_the_very_trace() -> None:
    for _, written in WORLD.traces(CodePolicy(), 8, seed=4):
        assert in_reference_names(written).text == written.text
