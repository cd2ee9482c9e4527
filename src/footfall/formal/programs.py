"""Programs judged by execution in the sandbox: a program that passes its tests has no wrong line.

One that fails has its wrong line searched for: every line is replaced by small variants of itself (another operator, another
number, left out), one line at a time. If exactly one line can be mended so that all tests pass, that line is wrong and the
others are right; otherwise execution does not say which line is wrong, and the steps stay unlabelled.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence

from footfall.formal.verdict import ANSWER, Verdict, answer_verdict
from footfall.tools import Sandbox, SandboxError
from footfall.types import Json, Problem, Trajectory

_EXAMPLE = re.compile(r"^\s*(?:assert\s+|>>>\s*)?(\w+\(.*\)) == (.+?)\s*$", re.MULTILINE)
_ASKED = re.compile(r"lists what it gives for (.+?)\.?\s*$", re.MULTILINE)
_SWAPS = (
    (r"<=", ("<", ">", ">=")), (r">=", (">", "<", "<=")), (r"(?<![<>=!+\-*/])<(?![=<])", ("<=", ">", ">=")),
    (r"(?<![<>=!\-])>(?![=>])", (">=", "<", "<=")), (r"==", ("!=",)), (r"!=", ("==",)), (r"\+=", ("-=",)),
    (r"-=", ("+=",)), (r"(?<=[\w)\]] )\+(?= )", ("-", "*")), (r"(?<=[\w)\]] )-(?= )", ("+", "*")),
    (r"(?<=[\w)\]] )\*(?= )", ("+", "-")),
    (r"\band\b", ("or",)), (r"\bor\b", ("and",)), (r"//", ("%",)), (r"%", ("//",)),
)  # fmt: skip
_SWAPPED = tuple((re.compile(pattern), others) for pattern, others in _SWAPS)
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_DRIVER = """
import json, signal, sys
job = json.load(sys.stdin)
def late(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, late)
def passes(program):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        names = {}
        exec(program, names)
        for test in job["tests"]:
            exec(test, names)
        return True
    except BaseException:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
print(json.dumps([passes(program) for program in job["programs"]]))
"""


def tests_of(problem: Problem) -> list[str]:
    """Assert statements: `meta["tests"]`, else the examples in the problem, else the calls asked for with the reference."""
    given = problem.meta.get("tests")
    if isinstance(given, list | tuple):
        return [str(test) for test in given]
    found = [f"assert {call} == {result}" for call, result in _EXAMPLE.findall(problem.text)]
    asked = _ASKED.search(problem.text)
    if asked and problem.answer:
        calls, results = _items(f"[{asked[1]}]"), _items(problem.answer)
        if len(calls) == len(results):
            found += [f"assert {call} == {result}" for call, result in zip(calls, results, strict=True)]
    return list(dict.fromkeys(found))


def _items(text: str) -> list[str]:
    """The elements of a list display, as text; nothing is evaluated."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    return [ast.unparse(item) for item in tree.elts] if isinstance(tree, ast.List) else []


def judge_programs(trajectories: Sequence[Trajectory], sandbox: Sandbox) -> list[list[Verdict]]:
    """A verdict on each step of each program."""
    return [_judge_program(trajectory, sandbox) for trajectory in trajectories]


def _judge_program(trajectory: Trajectory, sandbox: Sandbox) -> list[Verdict]:
    steps = [step.text for step in trajectory.steps]
    tests = tests_of(trajectory.problem)
    answers = {i: match[1] for i, text in enumerate(steps) if (match := _answer_comment(text))}
    lines = {i: text for i, text in enumerate(steps) if i not in answers}
    if not tests:
        verdicts = dict.fromkeys(lines, Verdict(None, "the problem has no tests that can be read"))
    else:
        try:
            verdicts = _judge_lines(lines, tests, sandbox)
        except SandboxError as error:
            verdicts = dict.fromkeys(lines, Verdict(None, str(error)))
    said = {i: answer_verdict(trajectory.problem, answer) for i, answer in answers.items()}
    return [(verdicts | said)[i] for i in range(len(steps))]


def _answer_comment(text: str) -> re.Match[str] | None:
    return ANSWER.search(text) if text.lstrip().startswith("#") else None


def _judge_lines(lines: dict[int, str], tests: Sequence[str], sandbox: Sandbox) -> dict[int, Verdict]:
    results = sandbox.run_tests("\n".join(lines.values()), tests)
    failed = next((result for result in results if result.status != "pass"), None)
    if failed is None:
        return dict.fromkeys(lines, Verdict(True, "the program passes its tests"))
    mended = _mended(lines, tests, sandbox)
    if len(mended) != 1:
        why = "no change of one line mends it" if not mended else f"a change of any of {len(mended)} lines mends it"
        return dict.fromkeys(lines, Verdict(None, f"fails `{failed.test[:80]}`, and {why}"))
    ((wrong, variant),) = mended.items()
    right = Verdict(True, "the program fails its tests, but by another line")
    return dict.fromkeys(lines, right) | {wrong: Verdict(False, f"all tests pass with `{variant.strip()}` instead")}


def _mended(lines: dict[int, str], tests: Sequence[str], sandbox: Sandbox) -> dict[int, str]:
    """Each line that has a variant with which the program passes, with the first such variant."""
    tried = [(i, variant) for i, line in lines.items() for variant in variants(line)]
    programs = ["\n".join((lines | {i: variant}).values()) for i, variant in tried]
    job: Json = {"tests": list(tests), "programs": programs}
    result = sandbox.run(_DRIVER, stdin=json.dumps(job))
    try:
        passed = json.loads(result.stdout)
    except ValueError:
        return {}
    found: dict[int, str] = {}
    for (i, variant), good in zip(tried, passed, strict=True):
        if good:
            found.setdefault(i, variant)
    return found


def variants(line: str) -> Iterator[str]:
    """Small changes of a line: one operator, one number by one either way, or nothing done there."""
    for pattern, others in _SWAPPED:
        for match in pattern.finditer(line):
            for other in others:
                yield line[: match.start()] + other + line[match.end() :]
    for match in _NUMBER.finditer(line):
        for change in (1, -1):
            yield f"{line[: match.start()]}{int(match[0]) + change}{line[match.end() :]}"
    if not line.rstrip().endswith(":"):
        yield line[: len(line) - len(line.lstrip())] + "pass"
