"""What labelling will cost, before anything is paid: the labeller itself runs, over a policy that only counts.

It is run once for each case that stand-ins can play: every trace is lost after its first step, its second, …, or never; the
completions before that are all right, every second one, the last of them, or the first alone; replies to questions have one
of the forms of the field. Then

    high        Σ_traces max_cases, or all places that any case asks for together, whichever is less
    low         Σ_problems max_traces min_cases, or all that every case asks for, whichever is more
    expected    the mean of runs in which right completions are drawn at the problems' pass rates, right traces are never
                lost, and wrong ones after a step that is drawn evenly

So calls are bounded as long as no call fails and no course is stranger than these. For tokens the bounds also allow the
completer to be `LENGTH_SLACK` times shorter or longer on the mean than the traces it goes on with, and prompts to be counted
wrong by as much where there is no tokenizer to count them. A reply to a question has from one token to `max_tokens`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeAlias

from footfall.answers import grade
from footfall.label.counting import REPLIES, Case, Rehearsal, Request, TokenCount
from footfall.types import Trajectory

LENGTH_SLACK = 1.5
"""By this factor a completer's mean length may differ from that of the given traces before the bounds on tokens break."""
MOST_TRACES = 128
MOST_TREES = 16
"""Of more, so many that are spread evenly over the problems stand for all."""
_DRAWN = 4
"""Runs that *expected* is the mean of."""
_ENOUGH = 4
"""Cases, of which the first four differ most: a labeller that asks for the same in all of them always does."""
_LOST = 12
"""Places in the longest trace at which traces are lost, at most."""
_NEVER_LOST = (Case(0.5), Case(0.2, "late"), Case(0.0, "first"))

Run: TypeAlias = Callable[[list[Trajectory]], object]
_Asked: TypeAlias = "dict[tuple[object, ...], _Place]"


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
        return Volume(*(a + b for a, b in zip(self.figures, other.figures, strict=True)))

    def times(self, factor: float) -> Volume:
        """So many times as much."""
        return Volume(*(figure * factor for figure in self.figures))

    @property
    def figures(self) -> tuple[float, ...]:
        """Its numbers in the order of the fields."""
        return tuple(getattr(self, f.name) for f in fields(Volume))


def _each(pick: Callable[[Iterable[float]], float], volumes: Iterable[Volume]) -> Volume:
    """Each figure by itself."""
    rows = [volume.figures for volume in volumes]
    return Volume(*map(pick, zip(*rows, strict=True))) if rows else Volume()


class Plan(NamedTuple):
    """What labelling takes at least, on the mean, and at most."""

    low: Volume
    expected: Volume
    high: Volume


class _Place(NamedTuple):
    """A text, and how many completions of it were asked for."""

    n: int
    prompt: float
    length: float
    limit: int
    reads: int = 0

    @property
    def volume(self) -> Volume:
        seen = self.n + self.reads
        return Volume(self.n, self.n * self.length, seen * self.prompt, max(0, seen - 1) * self.prompt)

    @property
    def most(self) -> float:
        """Tokens of its completions if each is as long as it may be."""
        return float(self.n * self.limit)


def count_tokens(policy: object, traces: Sequence[Trajectory]) -> TokenCount:
    """By the policy's tokenizer; else by what the same policy was charged for writing these traces; else characters / 4."""
    tokenizer: Any = getattr(policy, "tokenizer", None)
    if tokenizer is not None:
        return TokenCount(
            lambda text: len(tokenizer.encode(text, add_special_tokens=False)), "the policy's tokenizer", True
        )
    inner = getattr(policy, "inner", policy)
    name = getattr(inner, "name", None) if hasattr(inner, "value") else None  # a server may not be up yet
    own = [t for t in traces if t.cost.generated_tokens and t.text and name in (None, t.author)]
    if own:
        rate = sum(t.cost.generated_tokens for t in own) / sum(len(t.text) for t in own)
        return TokenCount(lambda text: rate * len(text), "what the given traces cost when they were written")
    return TokenCount(lambda text: len(text) / 4, "a token for every 4 characters")


def planned(
    rehearsal: Rehearsal,
    run: Run,
    trajectories: Sequence[Trajectory],
    tokens: TokenCount | None = None,
    chunk: int | None = None,
    stored: bool = False,
) -> Plan:
    """What `run`, a judge's `judge` over policies of this rehearsal, will ask for.

    With `chunk` it is given so many traces at a time; with `stored` no completion is paid for twice.
    """
    traces = [t if t.correct is not None or t.problem.answer is None else grade(t) for t in trajectories]
    chosen = _spread(traces, MOST_TRACES)
    rehearsal.begin(traces, tokens or count_tokens(None, traces), _pass_rates(traces))
    longest = max((len(trace.steps) for trace in chosen), default=0)
    first, *others = _NEVER_LOST
    cases = [Case(lost=-1.0), Case(), first, replace(first, lost=0.5)]
    cases += [replace(each, lost=lost) for each in others for lost in (None, 0.5)]
    cases += [Case(lost=float(good)) for good in sorted({k * longest // _LOST for k in range(_LOST)})]
    cases = [replace(case, reply=i % REPLIES) for i, case in enumerate(_padded(cases))]
    books = _Books(rehearsal, run, chosen, chunk, stored)
    return _scaled(books.plan(cases), len(traces) / max(1, len(chosen)))


def planned_trees(
    rehearsal: Rehearsal, run: Run, trajectories: Sequence[Trajectory], tokens: TokenCount | None = None
) -> Plan:
    """The same of a method that grows a tree on each problem of these traces: `run` is given the empty prefixes.

    *At most* every completion is `max_tokens` long, and solutions have many steps.
    """
    traces = [t if t.correct is not None or t.problem.answer is None else grade(t) for t in trajectories]
    tops = list({trace.prefix(0).key: trace.prefix(0) for trace in traces}.values())
    chosen = _spread(tops, MOST_TREES)
    rehearsal.begin(traces, tokens or count_tokens(None, traces), _pass_rates(traces))
    usual = round(sum(len(trace.steps) for trace in traces) / max(1, len(traces)))
    played = [Case(lost=-1.0), Case(), *_NEVER_LOST, *(Case(0.5, lost=float(good)) for good in range(usual))]
    cases = [*played, *(replace(case, long=True) for case in played)]
    books = _Books(rehearsal, run, chosen, None, False)
    return _scaled(books.plan(_padded(cases), full=True), len(tops) / max(1, len(chosen)))


def counted_on(traces: Sequence[Trajectory]) -> int:
    """How many of the traces `planned` counts on; the others are taken to be like them."""
    return len(_spread(traces, MOST_TRACES))


def _padded(cases: Sequence[Case]) -> list[Case]:
    """At least as many cases as there are forms of replies, and one with replies as long as they may be."""
    more = [Case(reply=i) for i in range(len(cases), REPLIES)]
    return [*cases, *more, Case(long=True)]


def _spread(units: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """All units of problems that are spread evenly, about `most` of them."""
    groups: dict[str, list[Trajectory]] = {}
    for unit in units:
        groups.setdefault(unit.problem.id, []).append(unit)
    wanted = max(1, round(len(groups) * min(1.0, most / max(1, len(units)))))
    picks = {i * len(groups) // wanted for i in range(wanted)}
    kept = {id for i, id in enumerate(groups) if i in picks}
    return [unit for unit in units if unit.problem.id in kept]


class _Books:
    """Requests of many runs, added up."""

    def __init__(
        self, rehearsal: Rehearsal, run: Run, units: Sequence[Trajectory], chunk: int | None, stored: bool
    ) -> None:
        self.rehearsal, self.run, self.units, self.stored = rehearsal, run, units, stored
        self.chunk = chunk or max(1, len(units))
        self.slack = 1.0 if rehearsal.tokens.exact else LENGTH_SLACK

    def plan(self, cases: Sequence[Case], full: bool = False) -> Plan:
        """Bounds over the cases, with `full` for completions of any length, and the mean of what is drawn."""
        asked = []
        for played, case in enumerate(cases, 1):
            asked.append(self._asked(self.rehearsal.play(self.run, self.units, case, apart=True)))
            if played == _ENOUGH and not full and all(each == asked[0] for each in asked):
                break
        of_units = [rollouts for rollouts, _ in asked]
        shared = self.stored or self._shares(of_units[1], cases[1])
        rollouts = self._rollouts(of_units, shared, full)
        questions = self._questions([questions for _, questions in asked])
        low, high = (a + b for a, b in zip(rollouts, questions, strict=True))
        drawn = 1 if len(asked) == _ENOUGH < len(cases) else _DRAWN
        runs = [_total(self._together(Case(order="chance", seed=seed))) for seed in range(drawn)]
        return Plan(low, _each(_middle, (low, _total(runs).times(1 / drawn), high)), high)

    def _together(self, case: Case) -> tuple[Volume, Volume]:
        """Rollouts and questions of all units in one go, a chunk at a time."""
        rollouts: _Asked = {}
        questions: _Asked = {}
        for start in range(0, len(self.units), self.chunk):
            requests = self.rehearsal.play(self.run, self.units[start : start + self.chunk], case)
            own = 0 if self.stored else start
            for found, of_rollouts in ((rollouts, True), (questions, False)):
                places = self._places(each for each in requests if (each.unit >= 0) == of_rollouts)
                for key, place in places.items():
                    whole = (own, *key)
                    found[whole] = _larger(found.get(whole), place)
        return _volume(rollouts), _volume(questions)

    def _asked(self, requests: Sequence[Request]) -> tuple[dict[int, _Asked], _Asked]:
        """What was asked for each unit, and the questions of all."""
        of_units: defaultdict[int, list[Request]] = defaultdict(list)
        for request in requests:
            of_units[request.unit].append(request)
        questions = self._places(of_units.pop(-1, []))
        return {unit: self._places(own) for unit, own in of_units.items()}, questions

    def _places(self, requests: Iterable[Request]) -> _Asked:
        indices: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        reads: defaultdict[tuple[object, ...], int] = defaultdict(int)
        known: dict[tuple[object, ...], Request] = {}
        for request in requests:
            key = (*request.place, request.limit)
            known[key] = request
            indices[key] += request.indices
            reads[key] += not request.indices
        count: Callable[[list[int]], int] = (lambda found: len(set(found))) if self.stored else len
        return {k: _Place(count(indices[k]), r.prompt, r.length, r.limit, reads[k]) for k, r in known.items()}

    def _rollouts(self, asked: Sequence[Mapping[int, _Asked]], shared: bool, full: bool) -> tuple[Volume, Volume]:
        """Bounds on what is asked after prefixes of the units."""
        units = range(len(self.units))
        alone = [[each.get(unit, {}) for each in asked] for unit in units]
        most = _total(_each(max, map(_volume, cases)) for cases in alone)
        least: dict[str, Volume] = {}
        sure: _Asked = {}
        ever: _Asked = {}
        for unit, cases in zip(units, alone, strict=True):
            problem = f"{unit // self.chunk}" * (not self.stored) + self.units[unit].problem.id
            least[problem] = _each(max, (least.get(problem, Volume()), _each(min, map(_volume, cases))))
            for key, place in _merged(cases).items():
                own = (unit // self.chunk if not self.stored else 0, *key)
                ever[own] = _larger(ever.get(own), place)
                n = min(case[key].n if key in case else 0 for case in cases)
                sure[own] = _larger(sure.get(own), place._replace(n=n, reads=0))
        if shared:
            most = _each(min, (most, _volume(ever)))
        longest = _total(
            _each(max, (Volume(generated=sum(p.most for p in c.values())) for c in cases)) for cases in alone
        )
        high = longest.generated if full else min(most.generated * LENGTH_SLACK, longest.generated)
        low = _each(max, (_total(least.values()), _volume(sure)))
        return (
            Volume(low.calls, low.generated / LENGTH_SLACK, low.prompt / self.slack, low.cached / self.slack),
            Volume(most.calls, high, most.prompt * self.slack, most.cached * self.slack),
        )

    def _shares(self, asked: Mapping[int, _Asked], case: Case) -> bool:
        """Whether the labeller asks once where two units have the same prefix."""
        apart: _Asked = {}
        for unit, places in asked.items():
            for key, place in places.items():
                own = (unit // self.chunk, *key)
                apart[own] = _larger(apart.get(own), place)
        return self._together(case)[0].calls <= _volume(apart).calls

    def _questions(self, asked: Sequence[_Asked]) -> tuple[Volume, Volume]:
        """Bounds on what judges ask, whatever the replies."""
        volumes = [_volume(places) for places in asked]
        low, high = _each(min, volumes), _each(max, volumes)
        longest = max((sum(place.most for place in places.values()) for places in asked), default=0.0)
        return (
            Volume(low.calls, low.calls, low.prompt / self.slack, low.cached / self.slack),
            Volume(high.calls, longest, high.prompt * self.slack, high.cached * self.slack),
        )


def _middle(figures: Iterable[float]) -> float:
    """The middle one of three: a mean, kept between its bounds."""
    return sorted(figures)[1]


def _volume(places: _Asked) -> Volume:
    return _total(place.volume for place in places.values())


def _total(volumes: Iterable[Volume]) -> Volume:
    return sum(volumes, Volume())


def _merged(cases: Iterable[_Asked]) -> _Asked:
    """Every place that any case asks for, as often as the one that asks most."""
    found: _Asked = {}
    for case in cases:
        for key, place in case.items():
            found[key] = _larger(found.get(key), place)
    return found


def _larger(one: _Place | None, other: _Place) -> _Place:
    return other if one is None or other.n + other.reads > one.n + one.reads else one


def _scaled(plan: Plan, factor: float) -> Plan:
    """For all units, where some stood for them."""
    return plan if factor == 1 else Plan(*(volume.times(factor) for volume in plan))


def _pass_rates(traces: Sequence[Trajectory]) -> dict[str, float]:
    """How often each problem is solved, from its traces and, as if two more had been drawn, from all of them."""
    known = [t for t in traces if t.correct is not None]
    overall = sum(bool(t.correct) for t in known) / len(known) if known else 0.5
    counts: defaultdict[str, list[float]] = defaultdict(lambda: [2 * overall, 2.0])
    for trace in traces:
        counts[trace.problem.id][0] += bool(trace.correct)
        counts[trace.problem.id][1] += trace.correct is not None
    return {problem: right / n for problem, (right, n) in counts.items()}
