"""One round of many searches: what they want written in one batch, then what they want judged in one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from footfall.drive.after_error import carried
from footfall.drive.budget import Load, Pace
from footfall.drive.stored_policy import StoredPolicy
from footfall.judging import Bound, bound_of, traits
from footfall.policy.protocol import Completion, Policy, Run, SamplingParams, runs_of, sample_runs
from footfall.search._running import Running, Unit
from footfall.search.method import Ask, Expand, Score
from footfall.types import Cost, Judge, Judgement, Trajectory

__all__ = ["Rounds"]

CALL_ERRORS = (ArithmeticError, LookupError, OSError, RuntimeError, ValueError)
"""What a policy or a judge may raise about its input or its surroundings; a TypeError is a bug and goes through."""
T = TypeVar("T")
R = TypeVar("R")
N = TypeVar("N")


class _Address(NamedTuple):
    """Names a sample: whose it is, the prefix's content, and its index there."""

    search: int
    key: str
    sample: int


class _Reading(NamedTuple):
    """One judgement that somebody wants; of a node if `node` is one."""

    search: Running
    trace: Trajectory
    node: int | None
    slot: int | None
    """Where it stands in the reply; `None` if it goes with a sample."""
    role: str
    partial: bool = False


class _Call(NamedTuple):
    """Samples that can share a call of the policy: same writer, same parameters."""

    role: str
    params: SamplingParams


@dataclass(frozen=True)
class Rounds:
    """Runs rounds with these policies and judges, by role."""

    policies: Mapping[str, Policy]
    judges: Mapping[str, Judge]
    params: SamplingParams
    pace: Pace = field(default_factory=Pace)

    def run(self, live: Sequence[Running]) -> None:
        """Advance every search by what its budget has room for."""
        granted = [(search, self._grant(search, len(live))) for search in live]
        readings = self._write(granted) + self._asked(granted)
        self._judge([reading for reading in readings if reading.search.request is not None])
        for search, _ in granted:
            search.advance()

    def _grant(self, search: Running, sharing: int) -> list[Unit]:
        """The units of this round, which so many searches share; none if this one was told that its budget is spent."""
        search.advance()
        limit = search.board.account.spent() if search.request is not None else None
        if limit is not None:
            search.spend(limit)
            return []
        if search.request is None:
            return []
        size = search.aim()
        account = search.board.account
        loads = (self._load(search, search.request, unit) for unit in search.todo[:size])
        room = account.units(loads, search.spare())
        if room == 0:
            search.hurry()
            return []
        if room is not None:
            size = min(size, room)
        if (seconds := account.left().get("seconds")) is not None:
            size = min(size, self.pace.fits(self._kinds(search, search.request), seconds / sharing))
        units, search.todo = search.todo[:size], search.todo[size:]
        search.touched = True
        return units

    def _load(self, search: Running, request: Expand | Score | Ask, unit: Unit) -> Load:
        """The most that a unit can generate, and what is judged with it."""
        if isinstance(request, Score):
            trace = search.prefix(unit.item)
            reader = _judging(request.judge, request.partial)
            return Load(0, trace, reader, 0, self._bound(request.judge, len(trace.steps)))
        most = self._most(search, request)
        if isinstance(request, Ask) or not request.score:
            return Load(most)
        trace = search.prefix(unit.item)
        new = 1 if search.until == "step" else None
        bound = self._bound(request.judge, None if new is None else len(trace.steps) + new)
        return Load(most, trace, _judging(request.judge, False), new, bound)

    def _bound(self, role: str, steps: int | None) -> Bound | None:
        """What the judge, or the one inside of it, says that it writes at most; `None` if it says nothing."""
        return bound_of(self.judges.get(role), steps)

    def _most(self, search: Running, request: Expand | Ask) -> int:
        """The most tokens that a sample may have where the budget does not end before."""
        most: int = search.params(request).get("max_tokens", self.params.max_tokens)
        return most

    def _kinds(self, search: Running, request: Expand | Score | Ask) -> list[Hashable]:
        """What a unit consists of, as the pace knows it."""
        if isinstance(request, Score):
            return [_judging(request.judge, request.partial)]
        kinds: list[Hashable] = [_writing(request.policy, search.until)]
        return kinds + ([_judging(request.judge, False)] if isinstance(request, Expand) and request.score else [])

    def _write(self, granted: Sequence[tuple[Running, list[Unit]]]) -> list[_Reading]:
        """Sample, put the samples where they belong, and say which are to be judged."""
        calls: defaultdict[_Call, dict[_Address, Trajectory]] = defaultdict(dict)
        of: dict[tuple[int, int, int], tuple[_Call, _Address]] = {}
        for search, units in granted:
            request = search.request
            if units and isinstance(request, Expand | Ask):
                call = _Call(request.policy, self._params(search, request))
                for unit in units:
                    address = _Address(id(search), search.key(unit.item), unit.sample)
                    calls[call][address] = search.prefix(unit.item)
                    of[id(search), unit.slot, unit.sample] = call, address
        searches = {id(search): search for search, _ in granted}
        written = {call: self._sample(call, wanted, searches) for call, wanted in calls.items()}
        readings: list[_Reading] = []
        for search, units in granted:
            if search.request is None or isinstance(search.request, Score):
                continue
            before = [len(reply) for reply in search.replies]
            for unit in units:
                call, address = of[id(search), unit.slot, unit.sample]
                cut = written[call][address].finish == "length"
                if cut and call.params.max_tokens < self._most(search, search.request):
                    search.board.account.closed = "tokens"
                readings += self._take(search, unit, written[call], address)
            _tell(search, before)
        return readings

    def _params(self, search: Running, request: Expand | Ask) -> SamplingParams:
        """A whole solution is cut where the budget ends; a step may be finished."""
        params = replace(self.params, **search.params(request), until=search.until)
        left = search.board.account.left().get("tokens")
        if left is None or search.until == "step":
            return params
        return replace(params, max_tokens=min(params.max_tokens, int(left)))

    def _sample(
        self, call: _Call, wanted: Mapping[_Address, Trajectory], searches: Mapping[int, Running]
    ) -> dict[_Address, Completion]:
        """Each sample once, all in one call."""
        policy = _named(self.policies, call.role, "policy", "helpers")
        indices: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        prefixes: dict[tuple[int, str], Trajectory] = {}
        for address, prefix in wanted.items():
            indices[address[:2]].append(address.sample)
            prefixes[address[:2]] = prefix
        runs = [
            (place, Run(prefixes[place], n, first))
            for place, of_prefix in indices.items() for first, n in runs_of(sorted(of_prefix))
        ]  # fmt: skip

        def sample(part: Sequence[tuple[tuple[int, str], Run]]) -> list[list[Completion]]:
            return sample_runs(policy, [run for _, run in part], call.params)

        kind, owners = _writing(call.role, call.params.until), [searches[address.search] for address in wanted]
        with self.pace.timed(kind, owners, lambda: _made(policy)):
            rows = _apart(sample, runs, [searches[place[0]] for place, _ in runs])
        return {_Address(*place, c.index): c for (place, _), row in zip(runs, rows, strict=True) for c in row or ()}

    def _take(
        self, search: Running, unit: Unit, written: dict[_Address, Completion], address: _Address
    ) -> list[_Reading]:
        """Give a sample to who asked for it. Who asks for the same one twice in a round pays once."""
        completion = replace(written[address], cost=_timeless(written[address].cost))
        written[address] = replace(completion, cost=Cost())
        request = search.request
        assert isinstance(request, Expand | Ask)
        _counted(search, self.policies[request.policy])
        search.board.account.write(completion.cost, self.policies[request.policy].name)
        if not isinstance(request, Expand):
            search.replies[unit.slot].append(completion)
            return []
        parent = unit.item
        assert isinstance(parent, int)
        node = search.board.place(parent, completion, self.policies[request.policy].name, request.meta)
        if node is None:
            return []
        search.wrote(node, completion.cost)
        search.replies[unit.slot].append(node)
        return [_reading(search, node, request.judge)] if request.score else []

    def _asked(self, granted: Sequence[tuple[Running, list[Unit]]]) -> list[_Reading]:
        """The judgements that were asked for by themselves."""
        readings = []
        for search, units in granted:
            request = search.request
            if isinstance(request, Score):
                readings += [_reading(search, u.item, request.judge, u.slot, request.partial) for u in units]
        return readings

    def _judge(self, readings: Sequence[_Reading]) -> None:
        groups: defaultdict[tuple[str, bool], list[_Reading]] = defaultdict(list)
        for reading in readings:
            if reading.trace.steps:
                groups[reading.role, reading.partial].append(reading)
        for (role, partial), group in groups.items():
            judge = _named(self.judges, role, "judge", "judges")
            read = (traits(judge).judge_partial if partial else None) or judge.judge
            owners = [reading.search for reading in group]
            with self.pace.timed(_judging(role, partial), owners):
                found = _apart(_checked(judge, read), group, owners)
            for reading, said in zip(group, found, strict=True):
                if said is not None:
                    self._hear(reading, said)

    def _hear(self, reading: _Reading, said: Judgement) -> None:
        board = reading.search.board
        _counted(reading.search, getattr(self.judges[reading.role], "policy", None))
        board.account.read(said.cost, reading.trace, _judging(reading.role, reading.partial), said.judge)
        if reading.slot is not None:
            reading.search.replies[reading.slot] = said
        if reading.node is not None:
            board.hear(reading.node, said, reading.role)
            if reason := next(filter(None, said.failures), None):
                board.note("failed", (reading.node,), reason)
            board.note("scored", (reading.node,), "" if reading.role == "judge" else reading.role, said.values[-1:])


def _counted(search: Running, who: Policy | None) -> None:
    """Refuse a budget of tokens where nobody counts them."""
    if search.board.account.budget.tokens is not None and who is not None and not getattr(who, "counts_tokens", True):
        raise ValueError(
            f"{who.name} counts no tokens, so a budget of tokens cannot hold; let the server send its usage, or give a "
            "budget of calls instead (--budget-calls)"
        )


def _made(policy: Policy) -> int | None:
    """How many samples a policy with a store has made so far; `None` if nobody counts."""
    return policy.counts.misses if isinstance(policy, StoredPolicy) else None


def _writing(role: str, until: str) -> Hashable:
    return "writing", role, until


def _judging(role: str, partial: bool) -> Hashable:
    return "judging", role, partial


def _tell(search: Running, before: Sequence[int]) -> None:
    """Write down which children each node has got in this round."""
    request = search.request
    if isinstance(request, Expand):
        for node, children, old in zip(request.nodes, search.replies, before, strict=True):
            if len(children) > old:
                search.board.note("expanded", (node, *children[old:]), f"until {search.until}, by {request.policy}")


def _reading(
    search: Running, item: int | Trajectory, role: str, slot: int | None = None, partial: bool = False
) -> _Reading:
    """A finished path is judged with its answer, an open one as a prefix."""
    if isinstance(item, Trajectory):
        return _Reading(search, item, None, slot, role, partial)
    trace = search.board.trace(item) if search.board.ended(item) else search.board.prefix(item)
    return _Reading(search, trace, item, slot, role, partial)


def _checked(
    judge: Judge, read: Callable[[list[Trajectory]], list[Judgement]]
) -> Callable[[Sequence[_Reading]], list[Judgement]]:
    """Judging in which every trace gets a judgement and every step a value, or it is an error."""

    def reads(part: Sequence[_Reading]) -> list[Judgement]:
        try:
            said = read([reading.trace for reading in part])
        except ValueError as error:
            raise ValueError(f"judge {judge.name!r}: {error}") from error
        if len(said) != len(part):
            raise ValueError(f"judge {judge.name!r} gave {len(said)} judgements for {len(part)} trajectories")
        checked = [carried(judgement.check(reading.trace)) for judgement, reading in zip(said, part, strict=True)]
        return [replace(judgement, cost=_timeless(judgement.cost)) for judgement in checked]

    return reads


def _apart(call: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T], owners: Sequence[Running]) -> list[R | None]:
    """`call` on all items at once. If that fails, each owner's by themselves, and who fails alone has failed."""
    try:
        return list(call(items))
    except CALL_ERRORS as error:
        if len({id(owner) for owner in owners}) == 1:
            owners[0].fail(f"{type(error).__name__}: {error}")
            return [None] * len(items)
    found: dict[int, R | None] = {}
    for owner in {id(owner): owner for owner in owners}.values():
        own = [i for i, other in enumerate(owners) if other is owner]
        found.update(zip(own, _apart(call, [items[i] for i in own], [owner] * len(own)), strict=True))
    return [found[i] for i in range(len(items))]


def _timeless(cost: Cost) -> Cost:
    """Without seconds, which differ from run to run and would make two equal searches unequal."""
    return replace(cost, seconds=0.0)


def _named(known: Mapping[str, N], role: str, kind: str, option: str) -> N:
    if role not in known:
        raise TypeError(
            f"the method asks for a {kind} called {role!r}; there are {', '.join(known) or 'none'}; "
            f"give the searcher {option}={{{role!r}: …}}"
        )
    return known[role]
