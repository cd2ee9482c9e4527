"""Right traces of the arithmetic world, rewritten so that they carry one flaw of a known kind and place.

A flaw replaces the equation k of a trace by other steps; then the trace goes on with its own steps (the flaw did no
harm), as a careful writer would from the wrong state, or ends. Steps are judged by the world's checker; what is built on
a flaw is right or wrong as one likes and is not counted; steps put in beside a sound trace are wrong, as they do no
work. Each flawed trace comes with its unmodified twin, so that all kinds are measured on the same right steps: a score that
depends on the share of wrong steps would otherwise compare where flaws lie rather than how well they are seen.

Pairs of next steps after one history, a right and a wrong one, are made from the pool in ToolPRMBench's two ways:

    offline   golden history (a right solution up to step k), its own step k, and a wrong one that the policy writes there
    online    the policy's own history up to its first error, the step of a careful writer, and its own wrong step
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, NamedTuple

from footfall.drive.rollouts import write
from footfall.lab.recipe import Trial
from footfall.lab.shared.prms import params, pool
from footfall.metrics.cases import Case
from footfall.policy.protocol import SamplingParams
from footfall.types import Judgement, Step, Trajectory, content_key
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, OpRates, TruthJudge

_NEVER = OpRates(0.0, 0.0, 0.0, 0.0)
CAREFUL = ArithmeticPolicy(slip=_NEVER, misread=_NEVER, misread_tricky=_NEVER, recover=0.0)
"""Makes no error of its own, and does not see those of others."""

_EQUATION = re.compile(r"(\d+) ([+\-*/]) (\d+) = (\d+)")
_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv,
}  # fmt: skip
_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}


class Line(NamedTuple):
    """A step that holds one equation."""

    text: str
    left: int
    symbol: str
    right: int
    result: int

    @classmethod
    def read(cls, text: str) -> Line | None:
        """The first equation of a text, `None` if there is none."""
        match = _EQUATION.search(text)
        return match and cls(text, int(match[1]), match[2], int(match[3]), int(match[4]))

    def say(self, left: int | None = None, symbol: str | None = None, right: int | None = None,
            result: int | None = None) -> str:  # fmt: skip
        """The step with other numbers; without a result, with the true one."""
        a, b = self.left if left is None else left, self.right if right is None else right
        op = symbol or self.symbol
        c = _OPERATIONS[op](a, b) if result is None else result
        return _EQUATION.sub(f"{a} {op} {b} = {c}", self.text, count=1)


Rewrite = Callable[[Sequence[Line], int, Random], list[str]]
"""The equations of a right trace, the place k, and chance -> the steps that stand there instead."""


@dataclass(frozen=True)
class Flaw:
    """One kind of flaw: what is written at equation k, how the trace goes on, and where k may lie."""

    rewrite: Rewrite
    then: Literal["own", "careful", "end"] = "careful"
    first: int = 0
    last: int | None = None
    """None: the last equation but for `before_last` ones."""
    before_last: int = 0
    """How many equations must follow."""
    drops: int = 1
    """How many equations of the trace are replaced."""


def _off(number: int, rng: Random, by: Sequence[int] = (1, -1, 10, -10)) -> int:
    """Another number that is not negative."""
    return rng.choice([number + delta for delta in by if number + delta >= 0])


def _slip(by: Sequence[int]) -> Rewrite:
    return lambda lines, k, rng: [lines[k].say(result=_off(lines[k].result, rng, by))]


def _other_operation(lines: Sequence[Line], k: int, rng: Random) -> list[str]:
    line = lines[k]
    others = [s for s in _OPERATIONS if s != line.symbol and 0 <= _OPERATIONS[s](line.left, line.right) <= 9999]
    return [line.say(symbol=rng.choice(others))]


def _other_left(lines: Sequence[Line], k: int, rng: Random) -> list[str]:
    return [lines[k].say(left=_off(lines[k].left, rng) + lines[k].right * (lines[k].symbol == "-"))]


def _other_right(lines: Sequence[Line], k: int, rng: Random) -> list[str]:
    operand = lines[k].right + rng.choice((1, 2))
    return [lines[k].say(right=operand, result=max(0, _OPERATIONS[lines[k].symbol](lines[k].left, operand)))]


def _skipped(lines: Sequence[Line], k: int, rng: Random) -> list[str]:
    left = lines[k].left
    return [lines[k + 1].say(left=left, result=max(0, _OPERATIONS[lines[k + 1].symbol](left, lines[k + 1].right)))]


def _swapped(lines: Sequence[Line], k: int, rng: Random) -> list[str]:
    first = max(0, _OPERATIONS[lines[k + 1].symbol](lines[k].left, lines[k + 1].right))
    second = max(0, _OPERATIONS[lines[k].symbol](first, lines[k].right))
    return [*_skipped(lines, k, rng), lines[k].say(left=first, result=second)]


def _circle(lines: Sequence[Line], k: int, rng: Random) -> list[str]:
    line = lines[k]
    back = line.say(left=line.result, symbol=_INVERSE[line.symbol], result=line.left)
    return [line.text, back, line.text]


def _again(line: Line, rng: Random) -> str:
    wording = rng.choice(("Wait, it should be %s.", "No, that was wrong: %s.", "Let me do that again: %s."))
    wrong = _off(line.result, rng)
    return wording % f"{line.left} {line.symbol} {line.right} = {wrong}"


FLAWS: Mapping[str, Flaw] = {
    "repeated step": Flaw(lambda lines, k, rng: [lines[k].text] * 2, "own"),
    "circle": Flaw(_circle, "own"),
    "wrong result": Flaw(_slip((10, -10))),
    "slightly wrong result": Flaw(_slip((1, -1))),
    "wrong operation": Flaw(_other_operation),
    "contradicts the step before": Flaw(_other_left, first=1),
    "wrong start": Flaw(_other_left, last=0),
    "wrong operand": Flaw(_other_right),
    "left out": Flaw(_skipped, before_last=1, drops=2),
    "wrong order": Flaw(_swapped, before_last=1, drops=2),
    "false alarm": Flaw(lambda lines, k, rng: [lines[k].text, _again(lines[k], rng)]),
    "wrong correction": Flaw(lambda lines, k, rng: [*_slip((1, -1))(lines, k, rng), _again(lines[k], rng)]),
    "answer too early": Flaw(lambda lines, k, rng: [f"The answer is {lines[k].left}."], "end", first=1),
    "wrong answer": Flaw(
        lambda lines, k, rng: [*(line.text for line in lines[k:]), f"The answer is {_off(lines[-1].result, rng)}."],
        "end",
    ),
}
"""By name. "wrong start" and "wrong operand" state a number of the problem wrongly."""


def right_traces(traces: Sequence[Trajectory], per_problem: int = 1) -> list[Trajectory]:
    """The first traces of each problem without any wrong step, one equation a step and the answer at the end."""
    found: dict[str, list[Trajectory]] = {}
    for trace, truth in zip(traces, TruthJudge().judge(traces), strict=True):
        kept = found.setdefault(trace.problem.id, [])
        if all(truth.values) and len(kept) < per_problem and all(Line.read(step.text) for step in trace.steps[:-1]):
            kept.append(trace)
    return [trace for kept in found.values() for trace in kept]


def flawed_cases(traces: Sequence[Trajectory], splits: Mapping[str, str], seed: int) -> list[Case]:
    """For each split its flaw (a name of `FLAWS`) in each right trace that has room for it, and the trace itself."""
    cases: list[Case] = []
    for split, name in splits.items():
        for trace in traces:
            flawed = _flawed(trace, split, FLAWS[name], seed)
            cases += [] if flawed is None else [flawed, _twin(trace, split)]
    return cases


def _twin(trace: Trajectory, split: str) -> Case:
    return Case(split, trace, Judgement(trace.id, (1.0,) * len(trace.steps), "unmodified"), trace.id)


def _flawed(trace: Trajectory, split: str, flaw: Flaw, seed: int) -> Case | None:
    """The rewritten trace, or None if it is too short or what was written happens to be right."""
    lines = [line for step in trace.steps if (line := Line.read(step.text)) is not None]
    places = range(flaw.first, len(lines) - flaw.before_last)[: None if flaw.last is None else flaw.last + 1]
    if not places:
        return None
    rng = Random(int(content_key("flaw", seed, split, trace.key), 16))
    k = rng.choice(places)
    return _case(trace, split, flaw, k, flaw.rewrite(lines, k, rng), seed)


def _case(trace: Trajectory, split: str, flaw: Flaw, k: int, written: Sequence[str], seed: int) -> Case | None:
    name = f"{split}:{trace.id}"
    head = (*(step.text for step in trace.steps[:k]), *written)
    rest = [step.text for step in trace.steps[k + flaw.drops :]] if flaw.then == "own" else []
    made = Trajectory(name, trace.problem, tuple(map(Step, (*head, *rest))), separator=trace.separator)
    if flaw.then == "careful":
        ((completion,),) = write(CAREFUL, [made], 1, SamplingParams(seed=seed))
        made = made.extend(completion.steps)
    (truth,) = TruthJudge().judge([made])
    values = truth.values[: len(head)] + (None,) * (len(made.steps) - len(head))
    if flaw.then == "own":
        values = tuple(float(not k < i < len(head)) for i in range(len(made.steps)))
    return Case(split, made, Judgement(name, values, truth.judge), trace.id) if 0.0 in values else None


def offline_pairs(trial: Trial) -> list[Case]:
    """A right solution of every second problem, cut at each step; of two steps drawn there, the first that is wrong."""
    from footfall.policy.embedded import embedded

    places = [(golden, k) for golden in right_traces(pool(trial))[::2] for k in range(len(golden.steps))]
    histories = [golden.prefix(k) for golden, k in places]
    drawn = write(embedded(), histories, 2, replace(params(trial), until="step"))
    pairs: list[Case] = []
    for (golden, k), history, completions in zip(places, histories, drawn, strict=True):
        wrong = next((c.steps for c in completions if _is_wrong(history, c.steps)), None)
        pairs += _pair("offline", f"{golden.id}@{k}", history, golden.steps[k], wrong[0]) if wrong else []
    return pairs


def online_pairs(trial: Trial) -> list[Case]:
    """The first failed solution of each problem, at its first error."""
    world, pairs = ArithmeticWorld(), list[Case]()
    failed = {trace.problem.id: trace for trace in reversed(pool(trial)) if not trace.correct}
    for trace in failed.values():
        k = world.first_error(trace)
        if k >= 0:
            history = trace.prefix(k)
            ((completion,),) = write(CAREFUL, [history], 1, replace(params(trial), until="step"))
            pairs += _pair("online", f"{trace.id}@{k}", history, completion.steps[0], trace.steps[k])
    return pairs


def _is_wrong(history: Trajectory, steps: Sequence[Step]) -> bool:
    return bool(steps) and ArithmeticWorld().first_error(_text_only(history, steps[0])) == len(history.steps)


def _pair(split: str, group: str, history: Trajectory, right: Step, wrong: Step) -> list[Case]:
    cases = []
    for name, step, value in (("right", right, 1.0), ("wrong", wrong, 0.0)):
        trace = replace(_text_only(history, step), id=f"{group}#{name}")
        cases.append(Case(split, trace, Judgement(trace.id, (None,) * len(trace.steps), "reference", value), group))
    return cases


def _text_only(history: Trajectory, step: Step) -> Trajectory:
    """Ids as sampled are left behind: the two steps of a pair may have different writers."""
    steps = tuple(Step(each.text) for each in (*history.steps, step))
    return Trajectory(history.id, history.problem, steps, separator=history.separator)
