"""What a generator may ask the driver for, and the generator while it runs.

A labeller's plan or a search is a generator for one trace or problem: it yields a request, is sent what came of it, and
returns its result. The driver (`footfall.drive.driver`) runs many side by side. What can be asked for is a class here, and the
driver has a phase of its round for it: `Write` and `Reread` are put to policies, `Score` to judges.

`Task` is one generator while it runs: its request, what of it is done, and how it ends.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from footfall.drive.budget import Account
from footfall.policy.protocol import Completion
from footfall.types import Judgement, Trajectory

ROOT = -1
"""The node of the empty prefix."""
Item: TypeAlias = int | Trajectory
"""A node of the tree that grows, or a trace that is in no tree (a critic's question, a fragment, another wording)."""
Until: TypeAlias = Literal["step", "end"]


@dataclass(frozen=True, slots=True)
class Write:
    """Write after nodes or traces: `n` samples each, one step or to the end. An item named twice gets different samples.

    A sample after a node becomes a node; one after a trace stays outside the tree.
    """

    items: Sequence[Item]
    n: int = 1
    until: Until = "step"
    score: bool = False
    """Judge what was written after nodes in the same breath: a sample with its judging is then one unit of the budget."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters that differ here, e.g. `{"temperature": 0, "max_tokens": 64}`."""
    policy: str = "policy"
    """Who writes, by role."""
    judge: str = "judge"
    """Who judges, if `score`, by role."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Noted at each new node, e.g. `{"role": "lookahead"}`."""
    first: Sequence[int] | None = None
    """The index of each item's first sample. `None`: those that the generator has not used yet."""


@dataclass(frozen=True, slots=True)
class Score:
    """Judge the paths to nodes, or traces that are in no tree."""

    items: Sequence[Item]
    partial: bool = False
    """The last step is unfinished: read as such by a judge that can (`Traits.judge_partial`)."""
    judge: str = "judge"
    """Who judges, by role."""


@dataclass(frozen=True, slots=True)
class Reread:
    """What a policy thought before each token of traces, for one that can say (`footfall.label.edu_prm.TokenWriter`)."""

    items: Sequence[Item]
    policy: str = "policy"
    """Who wrote, by role."""


Request: TypeAlias = Write | Score | Reread


class Unit(NamedTuple):
    """One item of a request, or one sample of it: `slot` is the item's place, `sample` its index after the prefix `key`."""

    slot: int
    item: Item
    sample: int = 0
    key: str = ""


class BudgetSpent(Exception):
    """Thrown into a generator at its request when nothing is left. It may still answer with what it has."""


R = TypeVar("R")


class Task(Generic[R]):
    """Steps a generator from request to request. This one knows of no tree: all that is asked about are traces."""

    def __init__(self, course: Generator[Any, Any, R], account: Account) -> None:
        self.course, self.account = course, account
        self.request: Request | None = None
        """`None` when the generator has ended."""
        self.todo: list[Unit] = []
        self.replies: list[Any] = []
        """What came of the request so far, one entry an item: a list of samples, a judgement, or what was thought."""
        self.touched = False
        """Whether any of the request was granted."""
        self.until: Until = "step"
        """How far this round writes, see `aim`."""
        self.stopped: str | None = None
        """The limit of the budget that was reached."""
        self._drawn: dict[tuple[str, str], int] = {}

    # -- from request to request

    def begin(self) -> None:
        """Run to the first request that wants anything."""
        self._step(None)
        self.advance()

    def advance(self) -> None:
        """Answer the request if all of it is done."""
        while self.request is not None and not self.todo:
            self._step(self.replies)

    def spend(self, limit: str) -> None:
        """Nothing is left: send what is done of the request, or tell the generator."""
        self.stopped = limit
        if self.touched:
            self.todo.clear()
        else:
            self._step(BudgetSpent(f"the budget of {limit} is spent"))
        self.advance()

    def hurry(self) -> None:
        """Answer a request for judgements with those that are there, since what is left is spared (`spare`)."""
        self.todo.clear()
        self.advance()

    def fail(self, reason: str) -> None:
        """A call for this generator failed: it ends here, with its reason."""
        self.course.close()
        self.request = None

    def _step(self, message: Any) -> None:
        try:
            request = self.course.throw(message) if isinstance(message, BudgetSpent) else self.course.send(message)
        except StopIteration as stop:
            self.request = None
            self._end(stop.value)
        except (BudgetSpent, ValueError) as error:
            self._break_off(error, begun=message is not None)
        else:
            self._take(request)

    def _end(self, result: R) -> None:
        """The generator has returned."""
        raise NotImplementedError

    def _break_off(self, error: BudgetSpent | ValueError, begun: bool) -> None:
        """The generator has raised; whether it had asked for anything before."""
        raise error

    def _take(self, request: Any) -> None:
        """Cut a request into units. Samples of one prefix get the indices asked for, or those not used yet in any request."""
        assert isinstance(request, Request)
        self.request, self.touched = request, False
        if not isinstance(request, Write):
            self.todo = [Unit(slot, item) for slot, item in enumerate(request.items)]
            self.replies = [None] * len(self.todo)
            return
        keys = [self.key(item) for item in request.items]
        greedy = request.params.get("temperature") == 0
        self.todo = []
        for k in range(request.n):
            for slot, (item, key) in enumerate(zip(request.items, keys, strict=True)):
                if request.first is not None:
                    sample = request.first[slot] + k
                else:
                    sample = 0 if greedy else self._next(request.policy, key)
                self.todo.append(Unit(slot, item, sample, key))
        self.replies = [[] for _ in request.items]

    def _next(self, role: str, key: str) -> int:
        index = self._drawn.get((role, key), 0)
        self._drawn[role, key] = index + 1
        return index

    # -- what the driver asks of it in a round

    @property
    def scope(self) -> int:
        """Tasks of one scope share samples: the same index of the same prefix is written once."""
        return id(self)

    def aim(self) -> int:
        """How many units of the request to grant at most in this round; sets how far they are written (`until`)."""
        self.until = self.request.until if isinstance(self.request, Write) else "step"
        return len(self.todo)

    def spare(self) -> int:
        """The tokens that judging must leave for something else."""
        return 0

    def params(self, request: Write) -> Mapping[str, Any]:
        """The sampling parameters that differ."""
        return request.params

    def prefix(self, item: Item) -> Trajectory:
        """What is written after."""
        assert isinstance(item, Trajectory)
        return item

    def trace(self, item: Item) -> Trajectory:
        """What is judged."""
        return self.prefix(item)

    def key(self, item: Item) -> str:
        """The content address of the prefix."""
        return self.prefix(item).key

    def receive(self, unit: Unit, completion: Completion, author: str) -> int | None:
        """Take a sample; the node that it became, if it did."""
        self.replies[unit.slot].append(completion)
        return None

    def written(self) -> None:
        """All samples of the round were received."""

    def hear(self, item: Item, said: Judgement, judge: str) -> None:
        """Take what a judge, by role, said of a node or a trace."""
