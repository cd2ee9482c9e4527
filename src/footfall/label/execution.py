"""Execution labels (PRLCoder): a line of code is good if the tests still pass with the reference's lines after it.

    label_k = 1[ tests pass for  s_1..s_k  +  the rest of the reference program ]

A trace is a program, one line a step. Where step k stands in the reference is found by aligning the two; a line that was
left out is noticed at the next line. No rollouts: one execution a step, or none where all lines are the reference's own.
Weak tests pass wrong lines, so the number of tests is reported with each label. Before a line is blamed the reference is run
by itself: one that fails its own tests says nothing.

Programs run in the sandbox. For the code world's own problems its interpreter may run them instead (`run="world"`): the same
verdicts, thousands of times faster; what it cannot read still goes to the sandbox.

Lines of code in three classes, by mutation and execution (HGS-PRM's PRM-Code data).

the reference's own line                positive   value 1
a changed line, the tests fail          negative   value 0
a changed line, the tests still pass    neutral    value 0.5

Dense rewards for the tokens of a program from values of its lines (PRLCoder, arXiv 2502.01715).

With line ends at tokens T_1..T_k, values R_i of the lines and ρ_t = ln π(a_t | s_t) / π_old(a_t | s_t):

    process   r_t^P = Σ_i R_i · 1[t = T_i]          outcome   r_t^O = R · 1[t = T]
    shaped    r_t = r_t^P - β · ρ_t                 π_old is the policy before reinforcement learning
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from footfall.drive.rollouts import unlabelled
from footfall.label.mutation import Variant, VariantKind, normal, variants
from footfall.registry import Declared, StudyRow, register
from footfall.tools import Sandbox
from footfall.types import (
    Cost,
    Judged,
    Judgement,
    Problem,
    Reason,
    Step,
    Trajectory,
    Unjudged,
    content_key,
    failures_of,
)
from footfall.worlds import CodeWorld

_AFTER = Unjudged(Reason.AFTER_ERROR, "after the changed line")


_CODE = ("program", "tests", "inputs")


class Report(NamedTuple):
    """Whether a program passed all tests, how many there are, and the first that it failed."""

    good: bool
    tests: int
    detail: str = ""


class Sample(NamedTuple):
    """One labelled line: the row for training, what kind of line it is, and how its program did."""

    row: Judged
    kind: VariantKind
    line: int
    report: Report


def reference_of(problem: Problem) -> tuple[str, ...]:
    """The lines of the reference program, from the problem's `meta["program"]` (a text or a list of lines)."""
    program = problem.meta.get("program")
    if isinstance(program, str):
        program = [line for line in program.splitlines() if line.strip()]
    if isinstance(program, Sequence) and program:
        return tuple(map(str, program))
    raise ValueError(
        f"problem {problem.id!r} has no reference program; put its lines into the field program of its row"
    )


def asserts_of(problem: Problem) -> tuple[str, ...]:
    """Assert statements: `meta["tests"]`, or for the code world its inputs with the outputs in the answer."""
    tests = problem.meta.get("tests")
    if isinstance(tests, Sequence) and not isinstance(tests, str) and tests:
        return tuple(map(str, tests))
    inputs = problem.meta.get("inputs")
    if not isinstance(inputs, Sequence) or problem.answer is None:
        raise ValueError(f"problem {problem.id!r} has no tests; put assert statements into the field tests of its row")
    name = reference_of(problem)[0].removeprefix("def ").partition("(")[0]
    calls = [f"{name}({', '.join(map(repr, given))})" for given in inputs if isinstance(given, Sequence)]
    return tuple(f"assert {call} == ({problem.answer})[{k}]" for k, call in enumerate(calls))


@dataclass(frozen=True)
class Execution:
    """Labels lines of code by running the program with the reference's lines behind them.

    Needs `program`, and `tests` or `inputs`, in the `meta` of the problem or of the trace.
    """

    sandbox: Sandbox = field(default_factory=Sandbox)
    run: Literal["sandbox", "world"] = "sandbox"
    """`world`: problems of the code world are run by its interpreter where it can read the program."""
    _known: dict[tuple[str, str], Report] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        return f"execution({self.run},seconds={self.sandbox.limits.seconds:g})"

    def forget(self) -> None:
        """Drop the results of programs that have been run."""
        self._known.clear()

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Whether the tests pass with the reference's lines after each step; one execution a step."""
        return [self._judge(trajectory) for trajectory in trajectories]

    def report(self, problem: Problem, lines: Sequence[str]) -> Report:
        """How a whole program does on the problem's tests; one that was run on these before is not run again."""
        tested = content_key("tests", problem.id, [problem.meta.get(name) for name in _CODE], problem.answer)
        key = tested, "\n".join(lines)
        if key not in self._known:
            read = self._in_world(problem, lines) if self.run == "world" and _is_of_world(problem) else None
            self._known[key] = read or self._in_sandbox(problem, key[1])
        return self._known[key]

    def fault(self, problem: Problem) -> str:
        """What is wrong with a reference that fails its own tests; nothing where it passes them."""
        own = self.report(problem, reference_of(problem))
        return (
            "" if own.good else f"problem {problem.id!r}: the reference program fails a test of its own, {own.detail}"
        )

    def _in_world(self, problem: Problem, lines: Sequence[str]) -> Report | None:
        steps = (*map(Step, lines), Step("# The answer is [].")) if lines else ()
        graded = CodeWorld().graded(Trajectory(problem.id, problem, steps, separator="\n"))
        if graded.correct is None:
            return None
        return Report(graded.correct, len(asserts_of(problem)), "" if graded.correct else "the tests do not all pass")

    def _in_sandbox(self, problem: Problem, program: str) -> Report:
        results = self.sandbox.run_tests(program, asserts_of(problem), "\n".join(reference_of(problem)))
        failed = [result for result in results if not result.passed]
        detail = f"{failed[0].test[:200]}: {failed[0].status} {failed[0].detail}".strip() if failed else ""
        return Report(not failed, len(results), detail.encode("utf-8", "replace").decode())

    def _judge(self, trajectory: Trajectory) -> Judgement:
        problem = _with_code(trajectory)
        try:
            reference, n_tests = reference_of(problem), len(asserts_of(problem))
        except ValueError as error:
            return unlabelled(trajectory, self.name, Unjudged(Reason.NO_REFERENCE, str(error)))
        lines = [step.text for step in trajectory.steps]
        ours, theirs = [normal(line) for line in lines], [normal(line) for line in reference]
        alike = next((k for k, pair in enumerate(zip(ours, theirs, strict=False)) if len(set(pair)) > 1), len(theirs))
        reports = [
            Report(True, n_tests) if k <= alike else self.report(problem, [*lines[:k], *reference[due:]])
            for k, due in enumerate(_due(ours, theirs), 1)
        ]
        if not all(report.good for report in reports) and (fault := self.fault(problem)):
            return unlabelled(trajectory, self.name, Unjudged(Reason.NO_REFERENCE, fault))
        return Judgement(
            trajectory.id,
            tuple(float(report.good) for report in reports),
            self.name,
            aspects={"tests": tuple(float(report.tests) for report in reports)},
            rationales=tuple(report.detail or None for report in reports),
            cost=Cost(scored_tokens=sum(len(line.split()) + 1 for line in lines), calls=len(reports)),
        ).check(trajectory)


def _with_code(trajectory: Trajectory) -> Problem:
    """The problem with its program and tests; a row of the short form has them in the trace's `meta`, as all unknown fields."""
    problem = trajectory.problem
    own = {name: trajectory.meta[name] for name in _CODE if name in trajectory.meta and name not in problem.meta}
    return replace(problem, meta={**problem.meta, **own}) if own else problem


def _is_of_world(problem: Problem) -> bool:
    return "inputs" in problem.meta and "tests" not in problem.meta


def _due(ours: Sequence[str], theirs: Sequence[str]) -> list[int]:
    """For each line the index of the reference's line that is due after it; comments and added lines move nothing.

    Both are in normal spelling.
    """
    due = [0] * len(ours)
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for i in range(i1, i2):
            if tag == "delete":
                due[i] = j1
            else:
                due[i] = j2 if i == i2 - 1 else min(j1 + i - i1 + 1, j2)
    return due


def mutation_rows(problem: Problem, labeller: Execution, separator: str = "\n") -> list[Sample]:
    """Every line of the reference (good), and each of its versions put in its place, labelled by execution.

    A row is the whole changed program. Lines before the changed one are good, it has its label, and those after it have none.
    """
    reference = reference_of(problem)
    if fault := labeller.fault(problem):
        raise ValueError(f"{fault}: mend the tests, or leave the problem out")
    samples = [_sample(problem, reference, None, labeller.report(problem, reference), labeller.name, separator)]
    for at in range(len(reference)):
        for variant in variants(reference, at):
            changed = (*reference[:at], variant.text, *reference[at + 1 :])
            samples.append(
                _sample(problem, changed, variant, labeller.report(problem, changed), labeller.name, separator)
            )
    return samples


def _sample(
    problem: Problem, lines: Sequence[str], variant: Variant | None, report: Report, judge: str, separator: str
) -> Sample:
    """The row of a program; without a variant it is the reference itself, and all its lines are good."""
    n, at = len(lines), len(lines) - 1 if variant is None else variant.line
    kind: VariantKind = "original" if variant is None else variant.kind
    name = f"{problem.id}/{kind}" + ("" if variant is None else f"/{at + 1}/{variant.text.strip()}")
    trajectory = Trajectory(name, problem, tuple(map(Step, lines)), correct=report.good, separator=separator)
    values = (*[1.0] * at, float(report.good), *[None] * (n - at - 1))
    failures = (*[None] * (at + 1), *[_AFTER] * (n - at - 1))
    columns: Mapping[str, tuple[float | None, ...]] = {"tests": (float(report.tests),) * n}
    cost = Cost(scored_tokens=sum(len(line.split()) + 1 for line in lines), calls=1)
    said = Judgement(name, values, judge, float(report.good), columns, failures=failures_of(failures), cost=cost)
    return Sample(Judged(trajectory, said), kind, at, report)


@register(
    "labeller",
    "execution",
    Declared(
        study=(StudyRow(fixed={"run": "world"}, kind="reference", worlds=("code",), place=190),),
        systems={"prlcoder": {}},
        smoke={"run": "world"},
        switches=("allow_unsandboxed",),
    ),
)
def execution(run: Literal["sandbox", "world"] = "sandbox", allow_unsandboxed: bool = False) -> Execution:
    """Run each program with the reference's lines after the step (PRLCoder); needs meta with program and tests."""
    return Execution(Sandbox(allow_unsandboxed=allow_unsandboxed), run)


_VALUES = {"positive": 1.0, "neutral": 0.5, "negative": 0.0}


def line_class(sample: Sample) -> str:
    """The class of the changed line of a program; of the reference itself, "positive"."""
    if sample.kind == "original":
        return "positive"
    return "neutral" if sample.report.good else "negative"


def class_rows(problem: Problem, labeller: Execution, separator: str = "\n") -> list[Judged]:
    """The reference and its changed programs, with the value of each class and one 0/1 column a class."""
    return [_classed(sample) for sample in mutation_rows(problem, labeller, separator)]


def _classed(sample: Sample) -> Judged:
    said = sample.row.judgement
    assert said is not None
    of_line = line_class(sample)
    values = tuple(_VALUES[of_line] if i == sample.line else value for i, value in enumerate(said.values))
    columns = {
        name: tuple(None if value is None else float(value == own) for value in values) for name, own in _VALUES.items()
    }
    judged = replace(said, values=values, aspects={**said.aspects, **columns}, judge=f"hgs-prm({said.judge})")
    return Judged(sample.row.trajectory, judged)


def process_rewards(tokens: int, ends: Sequence[int], values: Sequence[float]) -> list[float]:
    """r^P: the value of each line at its last token (0-based), zero elsewhere."""
    if any(not 0 <= end < tokens for end in ends) or list(ends) != sorted(set(ends)):
        raise ValueError(f"lines must end at growing tokens from 0 to {tokens - 1}, not at {list(ends)}")
    rewards = [0.0] * tokens
    for end, value in zip(ends, values, strict=True):
        rewards[end] = value
    return rewards


def outcome_rewards(tokens: int, value: float) -> list[float]:
    """r^O: the value of the whole program at its last token."""
    return process_rewards(tokens, [tokens - 1], [value])


def shaped_rewards(rewards: Sequence[float], log_ratios: Sequence[float], beta: float = 0.1) -> list[float]:
    """r_t - β · ρ_t: what the policy gradient is given. The paper's β was not found; 0.1 is a common one."""
    return [reward - beta * ratio for reward, ratio in zip(rewards, log_ratios, strict=True)]
