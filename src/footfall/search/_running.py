"""One problem's generator while it runs: its request, what of it is done, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from footfall.search.board import Board
from footfall.search.choosing import chosen_index
from footfall.search.method import BudgetSpent, Choice, Course, Expand, Request, Score
from footfall.types import Trajectory

__all__ = ["Running", "Unit"]

_PATIENCE = 100
"""How often a method that goes on asking is told that the budget is spent before it is stopped."""


class Unit(NamedTuple):
    """One sample or one judgement of a request: `slot` is the item's place, `sample` its index there."""

    slot: int
    item: int | Trajectory
    sample: int = 0


@dataclass(slots=True)
class Running:
    """Steps a method's generator from request to request."""

    board: Board
    course: Course
    aggregation: str
    request: Request | None = None
    todo: list[Unit] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    """What came of the request so far, one entry an item: a list of samples, or a judgement."""
    touched: bool = False
    choice: Choice | None = None
    failure: str | None = None
    stopped: str | None = None
    _drawn: dict[tuple[str, str], int] = field(default_factory=dict)
    _told: int = 0

    def begin(self) -> None:
        self._step(None)

    def advance(self) -> None:
        """Answer the request if all of it is done."""
        while self.request is not None and not self.todo:
            self._step(self.replies)

    def spend(self, limit: str) -> None:
        """Nothing is left: send what is done of the request, or tell the method."""
        self.stopped = limit
        if self.touched:
            self.todo.clear()
            self.advance()
            return
        self._told += 1
        self.board.note("stopped", (), f"the budget of {limit} is spent")
        self._step(BudgetSpent(f"the budget of {limit} is spent"))
        while self.request is not None and not self.todo:
            self._step(self.replies)

    def fail(self, reason: str) -> None:
        """A call for this problem failed: the search ends here, with its reason."""
        self.course.close()
        self.request, self.failure = None, reason
        self.board.note("failed", (), reason)

    def _step(self, message: Any) -> None:
        try:
            if isinstance(message, BudgetSpent):
                if self._told > _PATIENCE:
                    self.course.close()
                    raise message
                request = self.course.throw(message)
            else:
                request = self.course.send(message)
        except StopIteration as stop:
            self._end(stop.value)
        except BudgetSpent:
            self._end(self._fallback())
        else:
            self._take(request)

    def _fallback(self) -> Choice:
        """What a method that does not care about the budget has in hand: its best finished trace."""
        ends = self.board.ends()
        if any(self.board.fold(node, self.aggregation) is not None for node in ends):
            return self.board.choose(ends, "best", self.aggregation)
        winner = chosen_index([self.board.trace(node) for node in ends], [None] * len(ends), "majority")
        return Choice(None if winner is None else ends[winner], ends, [None] * len(ends))

    def _end(self, choice: Choice) -> None:
        self.request, self.choice = None, choice
        at = [i for i, node in enumerate(choice.candidates) if node == choice.node]
        scores = [choice.scores[i] for i in at[:1]] if choice.scores else []
        self.board.note("chosen", () if choice.node is None else (choice.node,), "", scores)

    def _take(self, request: Request) -> None:
        """Cut a request into units. Samples of one prefix get indices that it has not used yet, in any request."""
        self.request, self.touched = request, False
        if isinstance(request, Score):
            self.todo = [Unit(slot, item) for slot, item in enumerate(request.items)]
            self.replies = [None] * len(self.todo)
            return
        items: Sequence[int | Trajectory] = request.nodes if isinstance(request, Expand) else request.prefixes
        keys = [self.key(item) for item in items]
        greedy = request.params.get("temperature") == 0
        self.todo = []
        for _ in range(request.n):
            for slot, item in enumerate(items):
                self.todo.append(Unit(slot, item, 0 if greedy else self._next(request.policy, keys[slot])))
        self.replies = [[] for _ in items]

    def prefix(self, item: int | Trajectory) -> Trajectory:
        return item if isinstance(item, Trajectory) else self.board.prefix(item)

    def key(self, item: int | Trajectory) -> str:
        return item.key if isinstance(item, Trajectory) else self.board.key(item)

    def _next(self, role: str, key: str) -> int:
        index = self._drawn.get((role, key), 0)
        self._drawn[role, key] = index + 1
        return index
