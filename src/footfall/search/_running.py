"""One problem's generator while it runs: its request, what of it is done, and how it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from footfall.search.board import Board
from footfall.search.choosing import chosen_index
from footfall.search.method import Ask, BudgetSpent, Choice, Course, Expand, Request, Score
from footfall.types import Cost, Trajectory

__all__ = ["Running", "Unit"]

_PATIENCE = 100
"""How often a method that goes on asking is told that the budget is spent before it is stopped."""
_HALF, _LATE = 0.5, 0.75
"""When this part of the budget is spent and nothing has ended, one path is written to its end; then all that go on."""
_STEPS = 8
"""A solution is guessed to want as many steps more: if no more are left to pay for, one path is written to its end sooner."""


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
    until: Literal["step", "end"] = "step"
    """How far this round writes, see `aim`."""
    choice: Choice | None = None
    failure: str | None = None
    stopped: str | None = None
    _drawn: dict[tuple[str, str], int] = field(default_factory=dict)
    _told: int = 0
    _brought: set[int] = field(default_factory=set)
    """Nodes that were written to the end though a step was asked for."""
    _longest: int = 0
    """Tokens of a step."""
    _hurried: int = 0
    """How often judging was left off so that a solution can be paid for."""

    def begin(self) -> None:
        self._step(None)

    def advance(self) -> None:
        """Answer the request if all of it is done."""
        while self.request is not None and not self.todo:
            self._step(self.replies)

    def aim(self) -> int:
        """How many units of the request to write next, and how far (`until`).

        A method that goes breadth first may spend all on beginnings. So if no path has ended by itself when half of the
        budget is spent, the next step asked for becomes a whole solution; when a quarter is left, all of them do.
        """
        request = self.request
        self.until = "step" if request is None or isinstance(request, Score) else request.until
        if not _spreads(request) or not self._must_end():
            return len(self.todo)
        self.until = "end"
        return len(self.todo) if self.board.account.share() >= _LATE else 1

    def params(self, request: Expand | Ask) -> Mapping[str, Any]:
        """The sampling parameters that differ; the length of a fragment is none where a whole solution is written."""
        whole = self.until != request.until
        return {name: value for name, value in request.params.items() if not whole or name != "max_tokens"}

    def _must_end(self) -> bool:
        """Whether it is time to bring paths to their end. Not if the method does, nor if whole solutions are cut."""
        account = self.board.account
        share = account.share()
        judging = account.dearest() if isinstance(self.request, Expand) and self.request.score else 0
        few = account.left().get("tokens", math.inf) < _STEPS * self._longest + judging
        if (share < _HALF and not few and not self._hurried) or (share < _LATE and self._brought):
            return False
        finishes = {node: self.board.finish(node) for node in self.board.ends()}
        own = (node for node, finish in finishes.items() if finish == "end" and node not in self._brought)
        return next(own, None) is None and not any(finishes.get(node) == "length" for node in self._brought)

    def spare(self) -> int:
        """The tokens that judging must leave, so that one solution can be written while none has ended.

        Of several traces one is judged in any case: a method that hears nothing of any has nothing to go on with.
        """
        limited = self.board.account.budget.tokens is not None
        if not limited or not isinstance(self.request, Score) or self._hurried >= _PATIENCE or self._brought:
            return 0
        if not self.touched and len(self.todo) > 1:
            return 0
        ended = any(self.board.finish(node) == "end" for node in self.board.ends())
        return 0 if ended else _STEPS * self._longest

    def hurry(self) -> None:
        """Answer a request for judgements with those that are there, since what is left has to pay for a solution."""
        self._hurried += 1
        self.stopped = "tokens"
        self.board.note("stopped", (), "no more is judged: what is left of the budget is for writing a solution")
        self.todo.clear()
        self.advance()

    def wrote(self, node: int, cost: Cost) -> None:
        """Take note of a node that was written as `aim` says."""
        if _spreads(self.request):
            if self.until == "end":
                self._brought.add(node)
            else:
                self._longest = max(self._longest, cost.generated_tokens)

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
        except ValueError as error:
            if message is None:
                raise  # nothing was searched yet: a setting is wrong, and that for all problems
            self.fail(f"{type(error).__name__}: {error}{self._judges()}")
        else:
            self._take(request)

    def _judges(self) -> str:
        """Whose values a method may have stumbled over."""
        names = dict.fromkeys(said.judge for said in self.board.judgements())
        return f" (the values are those of {', '.join(map(repr, names))})" if names else ""

    def _fallback(self) -> Choice:
        """What a method that does not care about the budget has in hand: its best finished trace."""
        ends = self.board.ends()
        if any(self.board.fold(node, self.aggregation) is not None for node in ends):
            return self.board.choose(ends, "best", self.aggregation)
        winner = chosen_index([self.board.trace(node) for node in ends], [None] * len(ends), "majority")
        return Choice(None if winner is None else ends[winner], ends, [None] * len(ends))

    def _end(self, choice: Choice) -> None:
        self.stopped = self.stopped or self.board.account.closed  # a solution was cut where the budget ends
        nothing = choice.answer is None and not any(self.board.finish(node) == "end" for node in choice.candidates)
        why = "the chosen solution goes on from it"
        if self.stopped and nothing and self.board.ends():
            choice = self._fallback()  # what was brought to its end, and given up for a beginning that scores higher
            why = "nothing else had ended"
        self.request, self.choice = None, choice
        if choice.node is not None:
            self.board.restore(choice.node, why)
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


def _spreads(request: Request | None) -> bool:
    """Whether it asks the policy for next steps of solutions: no lookahead, and no helper's word."""
    return (
        isinstance(request, Expand)
        and request.until == "step"
        and request.policy in ("policy", "resuming")
        and request.meta.get("role") != "lookahead"
    )
