"""Programs judged by execution in the sandbox: a program that passes its tests has no wrong line.

One that fails has its wrong line searched for: every line is replaced by small variants of itself (another operator, another
number, left out), one line at a time. If exactly one line can be mended so that all tests pass, that line is wrong and the
others are right; otherwise execution does not say which line is wrong, and the steps stay unlabelled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from footfall.formal.verdict import ANSWER, Verdict, answer_verdict
from footfall.tools import Sandbox, SandboxError
from footfall.types import Problem, Trajectory

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
_NUMBER = re.compile(r"(?<![\w.])\d{1,30}(?![\w.])")
_MOST_TRIED = 2000
"""Changed lines that are tried; text that is made of operators has no end of them."""
_MOST_CHARACTERS = 1 << 20


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
    if mended is None or len(mended) != 1:
        why = f"a change of any of {len(mended)} lines mends it" if mended else "no change of one line mends it"
        why = "its changes are too many to try" if mended is None else why
        return dict.fromkeys(lines, Verdict(None, f"fails `{failed.test[:80]}`, and {why}"))
    ((wrong, variant),) = mended.items()
    right = Verdict(True, "the program fails its tests, but by another line")
    return dict.fromkeys(lines, right) | {wrong: Verdict(False, f"all tests pass with `{variant.strip()}` instead")}


def _mended(lines: dict[int, str], tests: Sequence[str], sandbox: Sandbox) -> dict[int, str] | None:
    """Each line that has a variant with which the program passes, with the first such; `None` if not all could be tried."""
    places, tried, length = list(lines), list[tuple[int, str]](), 0
    for at, line in enumerate(lines.values()):
        for variant in variants(line):
            tried.append((at, variant))
            length += len(variant)
            if len(tried) > _MOST_TRIED or length > _MOST_CHARACTERS:
                return None
    results = sandbox.run_variants(list(lines.values()), tried, tests)
    if not all(result.judged for result in results):
        return None
    found: dict[int, str] = {}
    for (at, variant), result in zip(tried, results, strict=True):
        if result.passed:
            found.setdefault(places[at], variant)
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
