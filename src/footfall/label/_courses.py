"""The ways in which a labeller may go through one trace: which prefixes it rolls out, how often, and what it asks besides.

Where a method's next rollouts depend on the last ones, what matters is from where on the trace is lost. So there is one
course for each number of good steps e = 0..n, and its weight is how likely it is: a right trace is never lost, a wrong one
anywhere. A new labeller adds its own courses:

    @courses_of.register
    def _(judge: Mine, trace: Trajectory, rate: float) -> Courses: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, NamedTuple

from footfall.drive.tally import finished
from footfall.label.binary_search import BinarySearch, bisect
from footfall.label.grounded import Grounded
from footfall.label.monte_carlo import MonteCarlo, wilson_half_width
from footfall.label.pav import StepAdvantage
from footfall.label.prompted import FIRST_ERROR, PROMPTS, STEP_PROMPT, PromptedJudge
from footfall.label.relative_progress import RelativeProgress, rollouts_for
from footfall.label.scan import SelfDenoising
from footfall.label.unprm import Uncertain, probe_order, step_uncertainty
from footfall.policy.protocol import SamplingParams
from footfall.types import Trajectory
from footfall.worlds.judges import ExactValueJudge

__all__ = ["Course", "Courses", "Place", "Question", "courses_of"]


class Place(NamedTuple):
    """A prefix of the trace, by its number of steps, and which of the method's policies completes it."""

    steps: int
    policy: int = 0


class Question(NamedTuple):
    """Something asked about the trace, `n` times, and how long a reply may be, in tokens. `None`: as long as the trace."""

    characters: int
    n: int
    expected: float | None
    most: float


@dataclass(frozen=True)
class Course:
    """One way to go: rollouts by place, and questions."""

    rollouts: Mapping[Place, float] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    weight: float = 0.0
    """How likely it is; 0 for one that only serves as a bound."""


class Courses(NamedTuple):
    """All ways to go through a trace."""

    ways: Sequence[Course]
    nested: bool = True
    """Whether the longest way holds every other. If not, what two traces share cannot be told beforehand."""
    params: SamplingParams = SamplingParams()


def _nothing(params: SamplingParams = SamplingParams()) -> Courses:
    return Courses((Course(weight=1.0),), params=params)


def _lost_after(trace: Trajectory) -> Iterator[tuple[int, float]]:
    """e, the number of steps before the trace is lost, and how likely that is."""
    n = len(trace.steps)
    for good in range(n + 1):
        yield good, float(good == n) if trace.correct or not n else (good < n) / n


def _rolled(sizes: Sequence[int], rollouts: float) -> dict[Place, float]:
    return {Place(size): rollouts for size in sizes}


@singledispatch
def courses_of(judge: object, trace: Trajectory, rate: float) -> Courses | None:
    """What `judge` may ask for one graded trace of a problem that is solved at `rate`; `None` if nobody knows.

    A judge without a policy asks for nothing.
    """
    ways = _CRITICS.get(getattr(judge, "kind", ""))
    if ways is not None:
        return Courses(ways(judge, trace), params=judge.params)  # type: ignore[attr-defined]
    return None if hasattr(judge, "policy") else _nothing()


def _one_critique(judge: Any, trace: Trajectory) -> list[Course]:
    """The whole trace in one question."""
    size = 900 + len(trace.problem.text) + len(trace.text) + 35 * len(trace.steps)
    asked = (Question(size, judge.n, None, judge.params.max_tokens),) if trace.steps else ()
    return [Course(questions=asked, weight=1.0)]


def _critiques(judge: Any, trace: Trajectory) -> list[Course]:
    """A question for each prefix (or the whole), gone on with in further rounds, then one token: yes or no. A critique that is
    cut is not asked for its verdict."""
    instruction = sum(map(len, getattr(judge, "prompt", ()))) or 900
    whole = getattr(judge, "steps", "prefixes") == "verdicts"
    limit, rounds = judge.params.max_tokens, getattr(judge, "rounds", 1)
    least: list[Question] = []
    usual: list[Question] = []
    most: list[Question] = []
    for k in range(len(trace.steps) if whole else 1, len(trace.steps) + 1) if trace.steps else ():
        size = instruction + len(trace.problem.text) + len(trace.prefix(k).text) + 9 * k
        first = Question(size, judge.n, None, limit)
        least.append(first)
        for ways, written in ((usual, len(trace.text)), (most, 4 * limit)):
            further = [Question(size + r * written, judge.n, None, limit) for r in range(1, rounds)]
            ways += [first, *further, Question(size + rounds * written, judge.n, 1.0, 1.0)]
    return [Course({}, tuple(least)), Course({}, tuple(usual), 1.0), Course({}, tuple(most))]


def _dialogue(judge: Any, trace: Trajectory) -> list[Course]:
    """A turn a step, after those of the steps before it: an analysis, code where it runs any, a short verdict and one token.

    A step without a critique ends it."""
    limit, n, turns = judge.params.max_tokens, judge.n, range(1, len(trace.steps) + 1)
    ways = []
    for written, rounds, weight in ((len(trace.text), 0, 1.0), (4 * limit, 3 * (judge.kind == "genprm"), 0.0)):
        asked: list[Question] = []
        for k in turns:
            size = 200 + len(trace.problem.text) + len(trace.prefix(k).text) + (k - 1) * written
            asked.append(Question(size, n, None, limit))
            asked += [Question(size + written, n, None, limit) for _ in range(rounds)]
            asked += [Question(size + written, n, 10.0, 20.0), Question(size + written, n, 1.0, 1.0)]
        ways.append(Course({}, tuple(asked), weight))
    return [*ways, Course({}, ways[0].questions[:1])]


_CRITICS: dict[str, Callable[[Any, Trajectory], list[Course]]] = {
    "critic": _one_critique, "prmbench-critic": _one_critique, "thinkprm": _critiques, "r-prm": _critiques,
    "genprm": _dialogue, "genprm-without-code": _dialogue,
}  # fmt: skip
"""Judges that write critiques (`footfall.reward.generative`), by their kind: their modules load torch."""


@courses_of.register
def _exact_value(judge: ExactValueJudge, trace: Trajectory, rate: float) -> Courses:
    return _nothing()  # it reads its policy's mind


@courses_of.register
def _monte_carlo(judge: MonteCarlo, trace: Trajectory, rate: float) -> Courses:
    sizes = range(1, len(trace.steps) - finished(trace) + 1)
    least, usual, most = (_until_narrow(judge, p) for p in (0.0, rate, 0.5))
    ways = []
    for good, weight in _lost_after(trace):
        reached = sizes if judge.until == "all" else sizes[: good + 1]
        before, after = _rolled(reached[:good], usual), _rolled(reached[good:], least)
        ways += [Course(_rolled(reached, least)), Course(_rolled(reached, most)), Course(before | after, (), weight)]
    return Courses(ways, params=judge.params)


@courses_of.register
def _grounded(judge: Grounded, trace: Trajectory, rate: float) -> Courses:
    sizes = range(1, len(trace.steps) - finished(trace) + 1)
    return Courses((Course(_rolled(sizes, judge.rollouts), (), 1.0),), params=judge.params)


def _until_narrow(judge: MonteCarlo, p: float) -> int:
    """Rollouts until a prefix of value p has an interval that is narrow enough."""
    if judge.half_width is None:
        return judge.rollouts
    for n in range(judge.round, judge.rollouts, judge.round):
        if wilson_half_width(int(p * n), n) <= judge.half_width:
            return n
    return judge.rollouts


@courses_of.register
def _binary_search(judge: BinarySearch, trace: Trajectory, rate: float) -> Courses:
    if trace.correct or not trace.steps:
        return _nothing(judge.params)
    ways = [Course(_rolled(_probed(trace, good), judge.rollouts), (), w) for good, w in _lost_after(trace)]
    return Courses(ways, nested=False, params=judge.params)


def _probed(trace: Trajectory, good: int) -> list[int]:
    """The prefixes that a binary search looks at; the whole of a finished trace is not rolled out, for it is lost."""
    search, sizes = bisect(len(trace.steps)), []
    try:
        size = next(search) + 1
        while True:
            known = finished(trace) and size == len(trace.steps)
            if not known:
                sizes.append(size)
            size = search.send(known or size > good) + 1
    except StopIteration:
        return sizes


@courses_of.register
def _pav(judge: StepAdvantage, trace: Trajectory, rate: float) -> Courses:
    sizes = range(len(trace.steps) - finished(trace) + 1)
    policies = (0,) if judge.prover is None else (0, 1)
    ways = []
    for good, weight in _lost_after(trace):
        reached = sizes if judge.until == "all" else sizes[: good + 2]
        ways.append(Course({Place(k, who): judge.rollouts for k in reached for who in policies}, (), weight))
    return Courses(ways, params=judge.params)


@courses_of.register
def _relative_progress(judge: RelativeProgress, trace: Trajectory, rate: float) -> Courses:
    sizes = range(1, len(trace.steps) - finished(trace) + 1)
    start = _rolled([0], judge.pass_rollouts)
    ways = [Course(start)]
    for good, weight in _lost_after(trace):
        for a_prefix in (judge.rollouts,) if judge.rollouts else (32, 64, 128):
            usual = a_prefix == (judge.rollouts or rollouts_for(rate))
            ways.append(Course(start | _rolled(sizes[: good + 1], a_prefix), (), weight * usual))
    return Courses(ways, params=judge.params)


@courses_of.register
def _scan(judge: SelfDenoising, trace: Trajectory, rate: float) -> Courses:
    start = _rolled([0], judge.responses)
    if trace.correct:
        return Courses((Course(start, (), 1.0),), params=judge.params)
    sure = rate >= judge.confidence
    sizes = range(1, len(trace.steps) - finished(trace) + 1)
    on = [Course(start | _rolled(sizes[: good + 1], judge.rollouts), (), w * sure) for good, w in _lost_after(trace)]
    return Courses([Course(start, (), float(not sure)), *on], params=judge.params)


@courses_of.register
def _unprm(judge: Uncertain, trace: Trajectory, rate: float) -> Courses:
    reached = _suspects(judge, trace)
    if trace.correct or not finished(trace) or reached is None:
        return _nothing(judge.params)
    solved = rate * judge.draws > judge.enough
    usual = max(16.0, min(judge.draws, judge.enough / rate)) if solved else 0.0
    ways = [Course(_rolled([0], judge.draws), (), float(not solved))]
    for budget in (16, max(16, -(-judge.draws // 8) * 8), *((usual,) if solved else ())):
        weight = float(budget == usual)
        ways += [Course(_rolled([0], judge.draws + budget) | _rolled(sizes, budget), (), weight) for sizes in reached]
    return Courses(ways, judge.order != "binary", judge.params)


def _suspects(judge: Uncertain, trace: Trajectory) -> list[list[int]] | None:
    """The prefixes that may be probed, in all ways to go; `None` if the trace lacks what the order goes by."""
    before_last = len(trace.steps) - 1
    if judge.order == "binary":
        return [_probed(trace.prefix(before_last), good) for good in range(before_last + 1)]
    logprobs = [step.logprobs for step in trace.steps]
    if judge.order != "sequential" and not all(logprobs):
        return None
    uncertain = [step_uncertainty(each, judge.measure) if each else 0.0 for each in logprobs]
    sizes = [i + 1 for i in probe_order(uncertain, judge.order) if i < before_last]
    return [sizes[:stop] for stop in range(min(1, len(sizes)), len(sizes) + 1)]


@courses_of.register
def _prompted(judge: PromptedJudge, trace: Trajectory, rate: float) -> Courses:
    asked = list(_questions(judge, trace))
    limit = float(judge.params.max_tokens)
    checks = [Question(q.characters + 4 * judge.params.max_tokens, 1, 20.0, limit) for q in asked for _ in range(q.n)]
    ways = [Course({}, tuple(asked), float(not judge.meta))]
    if judge.meta:
        ways.append(Course({}, (*asked, *checks), 1.0))
    return Courses(ways, params=judge.params)


def _questions(judge: PromptedJudge, trace: Trajectory) -> Iterator[Question]:
    known = len(trace.problem.text) + len(trace.problem.answer or "")
    limit = float(judge.params.max_tokens)
    if judge.form == "trace" and trace.steps:
        for name in judge.prompts:
            size = len(PROMPTS[name]) + known + len(trace.text) + 9 * len(trace.steps)
            yield Question(size, judge.n, 3.0 * len(trace.steps) if name == "list" else None, limit)
    elif judge.form == "first-error" and trace.steps:
        yield Question(len(FIRST_ERROR) + known + len(trace.text) + 9 * len(trace.steps), judge.n, None, limit)
    elif judge.form == "step":
        for k in range(1, len(trace.steps) + 1):
            size = len(STEP_PROMPT) + known + len(trace.prefix(k).text) + 9 * k
            yield Question(size, judge.n, None, limit)
