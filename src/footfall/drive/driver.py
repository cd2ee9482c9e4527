"""The driver: runs many generators side by side, and puts what they want in one round to each policy and judge as one batch.

In a round, all that the tasks want written goes to the policies, then all that they want reread, and all that they want judged
goes to the judges; a task that wants more than its budget has room for gets it in several rounds. What a task is sent depends
on nothing but its own requests (and on the rollouts that it shares), so the same seed gives the same results however many run
together.

A request of another kind (an action that an environment answers, say) is one more class in `footfall.drive.requests` and one
more phase in `Driver.round`, which takes the units granted to that class, makes its call, and hands what came of it to the
tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from footfall.drive.budget import Load, Pace
from footfall.drive.requests import Item, Request, Reread, Score, Task, Unit, Until, Write
from footfall.drive.rollout_store import StoredPolicy
from footfall.judging import all_parts, bound_of, traits
from footfall.policy.protocol import Completion, Policy, Run, SamplingParams, runs_of, sample_runs
from footfall.types import Cost, Judge, Judgement, Reason, Trajectory, Unjudged, failures_of

CALL_ERRORS = (ArithmeticError, LookupError, OSError, RuntimeError, ValueError)
"""What a policy or a judge may raise about its input or its surroundings; a TypeError is a bug and goes through."""
T = TypeVar("T")
R = TypeVar("R")
N = TypeVar("N")
_Task: TypeAlias = Task[Any]
_Granted: TypeAlias = Sequence[tuple[_Task, list[Unit]]]


class _Address(NamedTuple):
    """Names a sample: who may share it, the prefix's content, and its index there."""

    scope: int
    key: str
    sample: int


class _Wanted(NamedTuple):
    prefix: Trajectory
    task: _Task


class _Call(NamedTuple):
    """Samples that can share a call of the policy: same writer, same parameters."""

    role: str
    params: SamplingParams


@dataclass(slots=True)
class _Sample:
    completion: Completion
    paid: bool = False


class _Reading(NamedTuple):
    """One judgement that a task wants of a node or a trace."""

    task: _Task
    item: Item
    trace: Trajectory
    role: str
    slot: int | None = None
    """Where it stands in the reply; `None` if it goes with a sample."""
    partial: bool = False


@dataclass(frozen=True)
class Driver:
    """Runs tasks with these policies and judges, by role."""

    policies: Mapping[str, Policy]
    judges: Mapping[str, Judge] = field(default_factory=dict)
    params: SamplingParams = SamplingParams()
    pace: Pace = field(default_factory=Pace)
    apart: bool = True
    """Whether a call that fails fails the tasks whose call it was, and no others. If not, it is an error of the whole run."""
    timed: bool = False
    """Whether costs keep their seconds, which differ from run to run and make two equal searches unequal."""

    def run(self, tasks: Sequence[_Task]) -> None:
        """Run all tasks to their end."""
        for task in tasks:
            task.begin()
        live = [task for task in tasks if task.request is not None]
        while live:
            self.round(live)
            live = [task for task in live if task.request is not None]

    def round(self, live: Sequence[_Task]) -> None:
        """Advance every task by what its budget has room for: grant, write, reread, judge, answer."""
        granted = [(task, self._grant(task, len(live))) for task in live]
        readings = self._write(granted) + self._asked(granted)
        self._reread(granted)
        self._judge([reading for reading in readings if reading.task.request is not None])
        for task, _ in granted:
            task.advance()

    # -- granting

    def _grant(self, task: _Task, sharing: int) -> list[Unit]:
        """The units of this round, which so many tasks share; none if this one was told that its budget is spent."""
        limit = task.account.spent()
        if limit is not None:
            task.spend(limit)
            return []
        request = task.request
        assert request is not None
        size = task.aim()
        room = task.account.units((self._load(task, request, unit) for unit in task.todo[:size]), task.spare())
        if room == 0:
            task.hurry()
            return []
        if room is not None:
            size = min(size, room)
        if (seconds := task.account.left().get("seconds")) is not None:
            size = min(size, self.pace.fits(_kinds(request, task.until), seconds / sharing))
        units, task.todo = task.todo[:size], task.todo[size:]
        task.touched = True
        return units

    def _load(self, task: _Task, request: Request, unit: Unit) -> Load:
        """The most that a unit can generate, and what is judged with it."""
        if isinstance(request, Score):
            trace = task.prefix(unit.item)
            bound = bound_of(self.judges.get(request.judge), len(trace.steps))
            return Load(0, trace, _judging(request.judge, request.partial), 0, bound)
        if isinstance(request, Reread):
            return Load(0)
        most = self._most(task, request)
        if not request.score:
            return Load(most)
        trace = task.prefix(unit.item)
        new = 1 if task.until == "step" else None
        bound = bound_of(self.judges.get(request.judge), None if new is None else len(trace.steps) + new)
        return Load(most, trace, _judging(request.judge), new, bound)

    def _most(self, task: _Task, request: Write) -> int:
        """The most tokens that a sample may have where the budget does not end before."""
        most: int = task.params(request).get("max_tokens", self.params.max_tokens)
        return most

    # -- writing

    def _write(self, granted: _Granted) -> list[_Reading]:
        """Sample, give the samples to who asked for them, and say which are to be judged."""
        wanted: defaultdict[_Call, dict[_Address, _Wanted]] = defaultdict(dict)
        asked: list[tuple[_Task, _Call, list[tuple[Unit, _Address]]]] = []
        for task, units in granted:
            if units and isinstance(task.request, Write):
                call = _Call(task.request.policy, self._params(task, task.request))
                own = [(unit, _Address(task.scope, unit.key, unit.sample)) for unit in units]
                asked.append((task, call, own))
                wanted[call].update({address: _Wanted(task.prefix(unit.item), task) for unit, address in own})
        written = {call: self._sample(call, samples) for call, samples in wanted.items()}
        readings: list[_Reading] = []
        for task, call, own in asked:
            request, samples = task.request, written[call]
            if not isinstance(request, Write):  # its call has failed
                continue
            policy, cuts = self.policies[call.role], call.params.max_tokens < self._most(task, request)
            author = policy.name
            if task.account.budget.tokens is not None and not getattr(policy, "counts_tokens", True):
                raise ValueError(_counts_no_tokens(author))
            for unit, address in own:
                sample = samples[address]
                if cuts and sample.completion.finish == "length":
                    task.account.closed = "tokens"
                readings += self._deliver(task, request, unit, sample, author)
            task.written()
        return readings

    def _params(self, task: _Task, request: Write) -> SamplingParams:
        """A whole solution is cut where the budget ends; a step may be finished."""
        params = replace(self.params, **task.params(request), until=task.until)
        left = task.account.left().get("tokens")
        if left is None or task.until == "step":
            return params
        return replace(params, max_tokens=min(params.max_tokens, int(left)))

    def _sample(self, call: _Call, wanted: Mapping[_Address, _Wanted]) -> dict[_Address, _Sample]:
        """Each sample once, all in one call."""
        policy = _named(self.policies, call.role, "policy", "helpers")
        indices: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        prefixes: dict[tuple[int, str], _Wanted] = {}
        for address, one in wanted.items():
            indices[address[:2]].append(address.sample)
            prefixes[address[:2]] = one
        runs = [
            (place, Run(prefixes[place].prefix, n, first))
            for place, of_prefix in indices.items() for first, n in runs_of(sorted(of_prefix))
        ]  # fmt: skip

        def sample(part: Sequence[tuple[tuple[int, str], Run]]) -> list[list[Completion]]:
            return sample_runs(policy, [run for _, run in part], call.params)

        owners = [prefixes[place].task for place, _ in runs]
        with self.pace.timed(
            _writing(call.role, call.params.until), [one.task for one in wanted.values()], lambda: _made(policy)
        ):
            rows = self._called(sample, runs, owners)
        found = zip(runs, rows, strict=True)
        return {_Address(*place, c.index): _Sample(c) for (place, _), row in found for c in row or ()}

    def _deliver(self, task: _Task, request: Write, unit: Unit, sample: _Sample, author: str) -> Sequence[_Reading]:
        """Give a sample to who asked for it. Who asks for the same one twice in a round pays once."""
        completion = sample.completion
        if sample.paid:
            completion = replace(completion, cost=Cost())
        elif not self.timed:
            completion = replace(completion, cost=replace(completion.cost, seconds=0.0))
        sample.paid = True
        task.account.write(completion.cost, author)
        node = task.receive(unit, completion, author)
        return [_Reading(task, node, task.trace(node), request.judge)] if request.score and node is not None else ()

    # -- rereading

    def _reread(self, granted: _Granted) -> None:
        """What policies thought before each token; the tokens are read once more, as a prompt."""
        asked: defaultdict[str, list[tuple[_Task, Unit]]] = defaultdict(list)
        for task, units in granted:
            if isinstance(task.request, Reread):
                asked[task.request.policy] += [(task, unit) for unit in units]
        for role, rows in asked.items():
            policy: Any = _named(self.policies, role, "policy", "helpers")
            tasks = [task for task, _ in rows]
            with self.pace.timed(_rereading(role), tasks):
                found = self._called(policy.thoughts, [task.trace(unit.item) for task, unit in rows], tasks)
            for (task, unit), thought in zip(rows, found, strict=True):
                if thought is not None:
                    task.account.write(Cost(prompt_tokens=len(thought.entropy)), policy.name)
                    task.replies[unit.slot] = thought

    # -- judging

    def _asked(self, granted: _Granted) -> list[_Reading]:
        """The judgements that were asked for by themselves."""
        return [
            _Reading(task, unit.item, task.trace(unit.item), task.request.judge, unit.slot, task.request.partial)
            for task, units in granted if isinstance(task.request, Score) for unit in units
        ]  # fmt: skip

    def _judge(self, readings: Sequence[_Reading]) -> None:
        groups: defaultdict[tuple[str, bool], list[_Reading]] = defaultdict(list)
        for reading in readings:
            if reading.trace.steps:
                groups[reading.role, reading.partial].append(reading)
        for (role, partial), group in groups.items():
            judge = _named(self.judges, role, "judge", "judges")
            tasks = [reading.task for reading in group]
            with self.pace.timed(_judging(role, partial), tasks):
                found = self._called(self._reader(judge, partial), group, tasks)
            limited = any(task.account.budget.tokens is not None for task in tasks)
            if limited and (who := _uncounting(judge)) is not None:  # a server shows it in its first reply
                raise ValueError(_counts_no_tokens(who))
            for reading, said in zip(group, found, strict=True):
                if said is not None:
                    self._hear(reading, said)

    def _reader(self, judge: Judge, partial: bool) -> Callable[[Sequence[_Reading]], list[Judgement]]:
        """Judging in which every trace gets a judgement and every step a value, or it is an error."""
        read = (traits(judge).judge_partial if partial else None) or judge.judge

        def reads(part: Sequence[_Reading]) -> list[Judgement]:
            try:
                said = read([reading.trace for reading in part])
            except ValueError as error:
                raise ValueError(f"judge {judge.name!r}: {error}") from error
            if len(said) != len(part):
                raise ValueError(f"judge {judge.name!r} gave {len(said)} judgements for {len(part)} trajectories")
            checked = [carried(judgement.check(reading.trace)) for judgement, reading in zip(said, part, strict=True)]
            if self.timed:
                return checked
            return [replace(judgement, cost=replace(judgement.cost, seconds=0.0)) for judgement in checked]

        return reads

    def _hear(self, reading: _Reading, said: Judgement) -> None:
        task = reading.task
        task.account.read(said.cost, reading.trace, _judging(reading.role, reading.partial), said.judge)
        if reading.slot is not None:
            task.replies[reading.slot] = said
        task.hear(reading.item, said, reading.role)

    # -- calls that fail

    def _called(
        self, call: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T], tasks: Sequence[_Task]
    ) -> list[R | None]:
        """`call` on all items at once. If that fails, each task's by themselves, and who fails alone has failed."""
        try:
            return list(call(items))
        except CALL_ERRORS as error:
            if not self.apart:
                raise
            if len({id(task) for task in tasks}) == 1:
                tasks[0].fail(f"{type(error).__name__}: {error}")
                return [None] * len(items)
        found: dict[int, R | None] = {}
        for task in {id(task): task for task in tasks}.values():
            own = [i for i, other in enumerate(tasks) if other is task]
            found.update(zip(own, self._called(call, [items[i] for i in own], [task] * len(own)), strict=True))
        return [found[i] for i in range(len(items))]


def carried(said: Judgement) -> Judgement:
    """The judgement of a judge that stops at the first error, with the error's value on the steps after it.

    A critic names the first wrong step and leaves those after it unjudged. That is a verdict on the whole trace, not a call
    that failed: what follows from a wrong step is worth no more than it,

        v_k = v_e   for the steps k after the first error e that the judge left out for that reason

    Unchanged if nothing was left out for that.
    """
    if not any(map(_after_error, said.failures)):
        return said
    values, failures = list(said.values), list(said.failures)
    known: float | None = None
    for k, value in enumerate(said.values):
        if value is None and known is not None and _after_error(failures[k]):
            values[k], failures[k] = known, None
        else:
            known = value
    return replace(said, values=tuple(values), failures=failures_of(failures))


def _after_error(why: Unjudged | None) -> bool:
    return why is not None and why.reason is Reason.AFTER_ERROR


def _kinds(request: Request, until: Until) -> list[Hashable]:
    """What a unit consists of, as the pace knows it."""
    if isinstance(request, Score):
        return [_judging(request.judge, request.partial)]
    if isinstance(request, Reread):
        return [_rereading(request.policy)]
    return [_writing(request.policy, until), *([_judging(request.judge)] if request.score else [])]


def _writing(role: str, until: str) -> Hashable:
    return "writing", role, until


def _rereading(role: str) -> Hashable:
    return "rereading", role


def _judging(role: str, partial: bool = False) -> Hashable:
    return "judging", role, partial


def _made(policy: Policy) -> int | None:
    """How many samples a policy with a store has made so far; `None` if nobody counts."""
    return policy.counts.misses if isinstance(policy, StoredPolicy) else None


def _uncounting(judge: Judge) -> str | None:
    """Who does not count the tokens that a judge takes, by name: the judge, or a part of it."""
    uncounting = (
        part for part in all_parts(judge) if not (traits(part).counts_tokens and getattr(part, "counts_tokens", True))
    )
    return next((str(getattr(part, "name", part)) for part in uncounting), None)


def _counts_no_tokens(who: str) -> str:
    return (
        f"{who} counts no tokens, so a budget of tokens cannot hold; let the server send its usage, or give a "
        "budget of calls instead (--budget-calls)"
    )


def _named(known: Mapping[str, N], role: str, kind: str, option: str) -> N:
    if role not in known:
        raise TypeError(
            f"the method asks for a {kind} called {role!r}; there are {', '.join(known) or 'none'}; "
            f"give the searcher {option}={{{role!r}: …}}"
        )
    return known[role]
