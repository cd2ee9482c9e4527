"""What labelling will cost, before anything runs: from each method's own courses and the lengths of the given traces.

    generated = Σ_prefixes rollouts · (mean tokens that the given traces have after that prefix)
    prompt    = Σ_prefixes rollouts · (tokens of the prefix), of which all but the first reading can come from a cache

`low` and `high` bound the number of calls whatever the rollouts will show, as long as no call fails. For tokens they also
allow the completer to be `LENGTH_SLACK` times shorter or longer on the mean than the traces it goes on with, and prompts to
be counted wrong by as much where there is no tokenizer to count them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from footfall.answers import grade
from footfall.drive.tally import ungradable
from footfall.label._courses import Course, Courses, Place, courses_of
from footfall.types import Trajectory

__all__ = ["LENGTH_SLACK", "Plan", "TokenCount", "Volume", "courses_of", "count_tokens", "planned"]

LENGTH_SLACK = 1.5
"""By this factor a completer's mean length may differ from that of the given traces before the bounds on tokens break."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What is asked of a policy. Numbers are means, so they need not be whole."""

    calls: float = 0.0
    generated: float = 0.0
    prompt: float = 0.0
    """Of all calls together."""
    cached: float = 0.0
    """So many of the prompt tokens have been read for an earlier call."""

    def __add__(self, other: Volume) -> Volume:
        return Volume(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Volume)))

    def times(self, factor: float) -> Volume:
        return Volume(*(getattr(self, f.name) * factor for f in fields(Volume)))


class Plan(NamedTuple):
    """What labelling takes at least, on the mean, and at most."""

    low: Volume
    expected: Volume
    high: Volume

    def plus(self, other: Plan) -> Plan:
        return Plan(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Plan(Volume(), Volume(), Volume())


class TokenCount(NamedTuple):
    """How texts are counted, and in words how that is done."""

    of: Callable[[str], float]
    how: str
    exact: bool = False


def count_tokens(policy: object, traces: Sequence[Trajectory]) -> TokenCount:
    """By the policy's tokenizer; else by what the same policy was charged for writing these traces; else characters / 4."""
    tokenizer: Any = getattr(policy, "tokenizer", None)
    if tokenizer is not None:
        return TokenCount(
            lambda text: len(tokenizer.encode(text, add_special_tokens=False)), "the policy's tokenizer", True
        )
    name = getattr(policy, "name", None) if hasattr(policy, "value") else None  # a server may not be up yet
    own = [t for t in traces if t.cost.generated_tokens and t.text and name in (None, t.author)]
    if own:
        rate = sum(t.cost.generated_tokens for t in own) / sum(len(t.text) for t in own)
        return TokenCount(lambda text: rate * len(text), "what the given traces cost when they were written")
    return TokenCount(lambda text: len(text) / 4, "a token for every 4 characters")


def planned(
    judge: object, trajectories: Sequence[Trajectory], tokens: TokenCount | None = None, chunk: int | None = None
) -> Plan | None:
    """The plan of a judge for these traces; `None` if it tells none. With `chunk`, nothing is shared between chunks.

    A judge may have its own `planned(trajectories, tokens)`; one made of others takes what they take together.
    """
    traces = [t if t.correct is not None or t.problem.answer is None else grade(t) for t in trajectories]
    count = tokens or count_tokens(getattr(judge, "policy", None), traces)
    if chunk is not None and chunk < len(traces):
        parts = [planned(judge, traces[i : i + chunk], count) for i in range(0, len(traces), chunk)]
        return _sum(parts)
    own = getattr(judge, "planned", None)
    if own is not None:
        made: Plan = own(traces, count)
        return made
    inner = _judges_of(judge)
    if inner:
        return _sum(planned(each, traces, count) for each in inner)
    return _of_courses(judge, traces, count)


def _judges_of(judge: object) -> Sequence[object]:
    """Those that a judge is made of: of a consensus, of a transform of success rates, of noise over the truth."""
    for name in ("judges", "rates", "truth"):
        found = getattr(judge, name, None)
        if found is not None:
            return tuple(found) if name == "judges" else (found,)
    return ()


def _sum(plans: Iterable[Plan | None]) -> Plan | None:
    total = NOTHING
    for plan in plans:
        if plan is None:
            return None
        total = total.plus(plan)
    return total


class _Prefix(NamedTuple):
    """Tokens of a prefix, and how many the traces that have it go on with on the mean."""

    before: float
    after: float


def _of_courses(judge: object, traces: Sequence[Trajectory], tokens: TokenCount) -> Plan | None:
    rates = _pass_rates(traces)
    found = [_courses(judge, trace, rates[trace.problem.id]) for trace in traces]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    model = _Model(traces, tokens, known)
    low, high = (model.bound(pick) for pick in (min, max))
    expected = model.volume([model.mean(each.ways) for each in known])
    limit = max((each.params.max_tokens for each in known), default=0)
    slack = 1.0 if tokens.exact else LENGTH_SLACK
    low = Volume(low.calls, low.generated / LENGTH_SLACK, low.prompt / slack, low.cached / slack)
    longest = min(high.generated * LENGTH_SLACK, high.calls * limit) if not model.asks else high.generated
    high = Volume(high.calls, longest, high.prompt * slack, high.cached * slack)
    return Plan(low, expected, high)


def _courses(judge: object, trace: Trajectory, rate: float) -> Courses | None:
    """The courses of a trace; nothing is rolled out where no rollout can be graded."""
    found = courses_of(judge, trace, rate)
    if found is None or not ungradable(trace.problem):
        return found
    return found._replace(ways=[replace(way, rollouts={}) for way in found.ways])


class _Model:
    """Courses turned into volumes: lengths of the traces, and rollouts shared by equal prefixes."""

    def __init__(self, traces: Sequence[Trajectory], tokens: TokenCount, courses: Sequence[Courses]) -> None:
        self.traces, self.tokens, self.courses = traces, tokens, courses
        self.asks = any(way.questions for each in courses for way in each.ways)
        self.keys = [[trace.prefix(k).key for k in range(len(trace.steps) + 1)] for trace in traces]
        self.whole: list[float] = []
        self.prefixes = self._measured()
        self.rate = sum(self.whole) / max(1, sum(len(trace.text) for trace in traces))

    def _measured(self) -> dict[str, _Prefix]:
        after: defaultdict[str, list[float]] = defaultdict(list)
        before: dict[str, float] = {}
        for trace, keys in zip(self.traces, self.keys, strict=True):
            sizes = [self.tokens.of(step.written + trace.separator) for step in trace.steps]
            prompt, total = self.tokens.of(trace.problem.text), sum(sizes)
            self.whole.append(total)
            mean_step = total / len(sizes) if sizes else prompt
            for k, key in enumerate(keys):
                before[key] = prompt + sum(sizes[:k])
                after[key].append(max(total - sum(sizes[:k]), mean_step))
        return {key: _Prefix(before[key], sum(rest) / len(rest)) for key, rest in after.items()}

    def bound(self, pick: Callable[[Sequence[float]], float]) -> Volume:
        """Each figure by itself: the courses that make it smallest or largest."""
        most, found = pick is max, {}
        single = [[self._of_one(i, way, most) for way in each.ways] for i, each in enumerate(self.courses)]
        apart = [most and not each.nested for each in self.courses]
        for figure in (f.name for f in fields(Volume)):
            picked = []
            for each, volumes in zip(self.courses, single, strict=True):
                sizes = [getattr(volume, figure) for volume in volumes]
                picked.append(each.ways[sizes.index(pick(sizes))])
            found[figure] = getattr(self.volume(picked, apart, most=most, least=not most), figure)
        return Volume(**found)

    def mean(self, ways: Sequence[Course]) -> Course:
        """Rollouts and questions weighted by how likely they are."""
        weight = sum(way.weight for way in ways) or 1.0
        rollouts: defaultdict[Place, float] = defaultdict(float)
        for way in ways:
            for place, n in way.rollouts.items():
                rollouts[place] += n * way.weight / weight
        likely = max(ways, key=lambda way: way.weight)
        return Course(rollouts, likely.questions, 1.0)

    def _of_one(self, index: int, way: Course, most: bool) -> Volume:
        rolled = {(self.keys[index][p.steps], p.policy): n for p, n in way.rollouts.items()}
        return self._rollouts(rolled, self.courses[index]) + self._questions(index, way, most, not most)

    def volume(
        self, ways: Sequence[Course], apart: Sequence[bool] = (), most: bool = False, least: bool = False
    ) -> Volume:
        """Of one course a trace: equal prefixes are rolled out once, but for traces that are kept `apart`."""
        wanted: dict[tuple[object, ...], float] = {}
        total = Volume()
        for i, way in enumerate(ways):
            own = i if apart and apart[i] else -1
            for place, n in way.rollouts.items():
                key = (self.keys[i][place.steps], place.policy, own)
                wanted[key] = max(wanted.get(key, 0.0), n)
            total += self._questions(i, way, most, least)
        return total + (self._rollouts(wanted, self.courses[0]) if self.courses else Volume())

    def _rollouts(self, wanted: Mapping[tuple[Any, ...], float], courses: Courses) -> Volume:
        total = Volume()
        for (key, *_), n in wanted.items():
            before, after = self.prefixes[key]
            length = min(after, courses.params.max_tokens)
            total += Volume(n, n * length, n * before, max(0.0, n - 1) * before)
        return total

    def _questions(self, index: int, way: Course, most: bool, least: bool) -> Volume:
        total = Volume()
        for question in way.questions:
            usual = self.whole[index] if question.expected is None else question.expected
            length = question.most if most else 1.0 if least else min(usual, question.most)
            prompt, n = question.characters * self.rate, question.n
            total += Volume(n, n * length, n * prompt, (n - 1) * prompt)
        return total


def _pass_rates(traces: Sequence[Trajectory]) -> dict[str, float]:
    """How often each problem is solved, from its traces and, as if two more had been drawn, from all of them."""
    known = [t for t in traces if t.correct is not None]
    overall = sum(bool(t.correct) for t in known) / len(known) if known else 0.5
    counts: defaultdict[str, list[float]] = defaultdict(lambda: [2 * overall, 2.0])
    for trace in traces:
        counts[trace.problem.id][0] += bool(trace.correct)
        counts[trace.problem.id][1] += trace.correct is not None
    return {problem: right / n for problem, (right, n) in counts.items()}
