"""Policy + judge + method + budget -> answers: a hundred searches advance together and share every batch.

Each problem's method is a generator (see `footfall.search.state`), run by the driver (`footfall.drive.driver`). A call that
fails fails the problems whose call it was, no others. Costs hold no seconds, which differ from run to run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from footfall.drive.budget import Account, Budget, Pace, uncounted
from footfall.drive.driver import Driver
from footfall.drive.requests import BudgetSpent, Item, Request, Score, Task, Unit, Write
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.policy.resuming import resuming
from footfall.search.state import Choice, Course, Method, SearchState
from footfall.search.votes import chosen_index
from footfall.types import Decision, Judge, Judged, Judgement, Problem, SearchResult, Trajectory, Tree

_PATIENCE = 100
"""How often a method that goes on asking is told that the budget is spent before it is stopped."""
_HALF, _LATE = 0.5, 0.75
"""When this part of the budget is spent and nothing has ended, one path is written to its end; then all that go on."""
_STEPS = 8
"""A solution is guessed to want as many steps more: if no more are left to pay for, one path is written to its end sooner."""


class _Search(Task[Choice]):
    """One problem's search while it runs. It sees to it that a small budget ends in a solution."""

    def __init__(self, state: SearchState, course: Course, aggregation: str) -> None:
        super().__init__(course, state.account)
        self.state, self.aggregation = state, aggregation
        self.choice: Choice | None = None
        self.failure: str | None = None
        self._told = 0
        self._fresh: dict[int, list[int]] = {}
        """The children that each item has got in this round."""
        self._brought: set[int] = set()
        """Nodes that were written to the end though a step was asked for."""
        self._longest = 0
        """Tokens of a step."""
        self._hurried = 0
        """How often judging was left off so that a solution can be paid for."""

    # -- a budget that ends in a solution

    def aim(self) -> int:
        """How many units of the request to write next, and how far (`until`).

        A method that goes breadth first may spend all on beginnings. So if no path has ended by itself when half of the
        budget is spent, the next step asked for becomes a whole solution; when a quarter is left, all of them do.
        """
        size = super().aim()
        if not _spreads(self.request) or not self._must_end():
            return size
        self.until = "end"
        return size if self.account.share() >= _LATE else 1

    def params(self, request: Write) -> Mapping[str, Any]:
        """The sampling parameters that differ; the length of a fragment is none where a whole solution is written."""
        whole = self.until != request.until
        return {name: value for name, value in request.params.items() if not whole or name != "max_tokens"}

    def _must_end(self) -> bool:
        """Whether it is time to bring paths to their end. Not if the method does, nor if whole solutions are cut."""
        share = self.account.share()
        judging = self.account.dearest() if isinstance(self.request, Write) and self.request.score else 0
        few = self.account.left().get("tokens", math.inf) < _STEPS * self._longest + judging
        if (share < _HALF and not few and not self._hurried) or (share < _LATE and self._brought):
            return False
        finishes = {node: self.state.finish(node) for node in self.state.ends()}
        own = (node for node, finish in finishes.items() if finish == "end" and node not in self._brought)
        return next(own, None) is None and not any(finishes.get(node) == "length" for node in self._brought)

    def spare(self) -> int:
        """The tokens that judging must leave, so that one solution can be written while none has ended.

        Of several traces one is judged in any case: a method that hears nothing of any has nothing to go on with.
        """
        limited = self.account.budget.tokens is not None
        if not limited or not isinstance(self.request, Score) or self._hurried >= _PATIENCE or self._brought:
            return 0
        if not self.touched and len(self.todo) > 1:
            return 0
        ended = any(self.state.finish(node) == "end" for node in self.state.ends())
        return 0 if ended else _STEPS * self._longest

    def hurry(self) -> None:
        self._hurried += 1
        self.stopped = "tokens"
        self.state.note("stopped", (), "no more is judged: what is left of the budget is for writing a solution")
        super().hurry()

    def spend(self, limit: str) -> None:
        if not self.touched:
            self._told += 1
            self.state.note("stopped", (), f"the budget of {limit} is spent")
            if self._told > _PATIENCE:
                self.course.close()
                self.stopped = limit
                self._end(self._fallback())
                return
        super().spend(limit)

    # -- the tree

    def prefix(self, item: Item) -> Trajectory:
        return item if isinstance(item, Trajectory) else self.state.prefix(item)

    def trace(self, item: Item) -> Trajectory:
        """A finished path is judged with its answer, an open one as a prefix."""
        if isinstance(item, Trajectory):
            return item
        return self.state.trace(item) if self.state.ended(item) else self.state.prefix(item)

    def key(self, item: Item) -> str:
        return item.key if isinstance(item, Trajectory) else self.state.key(item)

    def receive(self, unit: Unit, completion: Completion, author: str) -> int | None:
        """Put what was written after a node into the tree."""
        if isinstance(unit.item, Trajectory):
            return super().receive(unit, completion, author)
        assert isinstance(self.request, Write)
        node = self.state.place(unit.item, completion, author, self.request.meta)
        if node is None:
            return None
        if _spreads(self.request):
            if self.until == "end":
                self._brought.add(node)
            else:
                self._longest = max(self._longest, completion.cost.generated_tokens)
        self.replies[unit.slot].append(node)
        self._fresh.setdefault(unit.slot, []).append(node)
        return node

    def written(self) -> None:
        """Write down which children each node has got in this round."""
        assert isinstance(self.request, Write)
        for slot, node in enumerate(self.request.items):
            if isinstance(node, int) and slot in self._fresh:
                why = f"until {self.until}, by {self.request.policy}"
                self.state.note("expanded", (node, *self._fresh[slot]), why)
        self._fresh.clear()

    def hear(self, item: Item, said: Judgement, judge: str) -> None:
        if isinstance(item, Trajectory):
            return
        self.state.hear(item, said, judge)
        if reason := next(filter(None, said.failures), None):
            self.state.note("failed", (item,), reason)
        self.state.note("scored", (item,), "" if judge == "judge" else judge, said.values[-1:])

    # -- ends

    def fail(self, reason: str) -> None:
        super().fail(reason)
        self.failure = reason
        self.state.note("failed", (), reason)

    def _break_off(self, error: BudgetSpent | ValueError, begun: bool) -> None:
        if isinstance(error, BudgetSpent):
            self._end(self._fallback())
        elif not begun:
            raise error  # nothing was searched yet: a setting is wrong, and that for all problems
        else:
            self.fail(f"{type(error).__name__}: {error}{self._judges()}")

    def _judges(self) -> str:
        """Whose values a method may have stumbled over."""
        names = dict.fromkeys(said.judge for said in self.state.judgements())
        return f" (the values are those of {', '.join(map(repr, names))})" if names else ""

    def _fallback(self) -> Choice:
        """What a method that does not care about the budget has in hand: its best finished trace.

        Those that state an answer go before what was cut, judged or not: if none of them was judged, they vote.
        """
        ends = self.state.ends()
        traces = [self.state.trace(node) for node in ends]
        scores = [self.state.aggregate(node, self.aggregation) for node in ends]
        answered = [score for score, trace in zip(scores, traces, strict=True) if trace.answer is not None]
        unjudged = bool(answered) and not any(score is not None for score in answered)
        winner = chosen_index(traces, scores, "majority" if unjudged else "best")
        return Choice(None if winner is None else ends[winner], ends, scores)

    def _end(self, choice: Choice) -> None:
        state = self.state
        self.stopped = self.stopped or self.account.closed  # a solution was cut where the budget ends
        nothing = choice.answer is None and not any(state.finish(node) == "end" for node in choice.candidates)
        why = "the chosen solution goes on from it"
        if self.stopped and nothing and state.ends():
            choice = self._fallback()  # what was brought to its end, and given up for a beginning that scores higher
            why = "nothing else had ended"
        self.request, self.choice = None, choice
        if choice.node is not None:
            state.restore(choice.node, why)
        at = [i for i, node in enumerate(choice.candidates) if node == choice.node]
        scores = [choice.scores[i] for i in at[:1]] if choice.scores else []
        state.note("chosen", () if choice.node is None else (choice.node,), "", scores)


def _spreads(request: Request | None) -> bool:
    """Whether it asks the policy for next steps of solutions: no lookahead, and no helper's word."""
    return (
        isinstance(request, Write)
        and request.until == "step"
        and request.policy in ("policy", "resuming")
        and request.meta.get("role") != "lookahead"
        and all(isinstance(item, int) for item in request.items)
    )


@dataclass(frozen=True)
class Searcher:
    """Runs one method over many problems. `helpers` and `judges` are further policies and judges that it may name."""

    policy: Policy
    judge: Judge | None
    """Not asked by a method that needs none."""
    method: Method
    budget: Budget = field(default_factory=Budget)
    """Of each problem."""
    params: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.8, max_tokens=2048))
    """`until` is the method's to say. A `max_tokens` not far above a solution's length keeps batches large under a budget."""
    separator: str = "\n\n"
    """What the policy puts after each step."""
    helpers: Mapping[str, Policy] = field(default_factory=dict)
    judges: Mapping[str, Judge] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    """What a budget of seconds is measured by."""

    def __post_init__(self) -> None:
        if self.judge is None and self.method.judged:
            raise ValueError(f"{self.method.name} needs a judge")
        for policy in (self.policy, *self.helpers.values()):
            if self.budget.flops is not None and not getattr(policy, "counts_flops", True):
                raise ValueError(uncounted(policy.name))

    def solve(self, problems: Sequence[Problem]) -> list[SearchResult]:
        """One result a problem, in order."""
        searches = [self._search(problem) for problem in problems]
        judges = {**({} if self.judge is None else {"judge": self.judge}), **self.judges}
        policies = {"policy": self.policy, "resuming": resuming(self.policy), **self.helpers}
        Driver(policies, judges, self.params, Pace(self.clock)).run(searches)
        return [_result(search) for search in searches]

    def _search(self, problem: Problem) -> _Search:
        judged = self.judge is not None and self.method.judged  # whose answer needs no judge asks none
        account = Account(self.budget, clock=self.clock)
        state = SearchState(problem, self.separator, account, self.params.seed, judged)
        return _Search(state, self.method.search(state), getattr(self.method, "aggregation", "last"))


def _result(search: _Search) -> SearchResult:
    state, choice = search.state, search.choice or Choice(None)
    candidates = [Judged(state.trace(node), state.judgement(node)) for node in choice.candidates]
    scores = list(choice.scores) or [None] * len(candidates)
    if choice.with_lost:
        for at, trace in _places(state, choice.candidates):
            candidates.insert(at, Judged(trace, None))
            scores.insert(at, None)
    chosen = None if choice.node is None else state.trace(choice.node)
    answer = choice.answer or (None if chosen is None else chosen.answer)
    account = state.account
    return SearchResult(
        problem=state.problem,
        answer=answer,
        chosen=chosen,
        candidates=tuple(candidates),
        tree=state.tree,
        scores=tuple(scores),
        failure=search.failure or (_no_answer(search, candidates, scores) if answer is None else None),
        cost=account.total,
        decisions=tuple(state.decisions),
        policy_cost=account.policy,
        judge_cost=account.judge,
        stopped=search.stopped,
    )


def _places(state: SearchState, nodes: Sequence[int]) -> Iterator[tuple[int, Trajectory]]:
    """The samples that are no nodes, each with its place among the candidates and those put there before it.

    An empty one stands before the first candidate that was drawn after it, all others at the end.
    """
    first_steps = ([state.tree.nodes[i] for i in state.tree.path(node)[:1]] for node in nodes)
    drawn = [max((int(str(step.meta.get("sample", 0))) for step in steps), default=0) for steps in first_steps]
    for index, trace in sorted(state.empty, key=lambda one: one[0]):
        at = next((k for k, other in enumerate(drawn) if other > index), len(drawn))
        drawn.insert(at, index)
        yield at, trace
    placed = [trace for _, trace in state.empty]
    rest = [trace for trace in state.lost if not any(trace is other for other in placed)]
    yield from ((len(drawn) + k, trace) for k, trace in enumerate(rest))


def _no_answer(search: _Search, candidates: Sequence[Judged], scores: Sequence[float | None]) -> str:
    """Why there is no answer, with the first reason that the policy or the judge gave."""
    errors = [str(t.meta["error"]) for t in search.state.lost if "error" in t.meta]
    refused = [reason for j in search.state.judgements() for reason in j.failures if reason]
    listed = sum("error" in t.meta for t, _ in candidates)
    unanswered = sum(t.answer is None for t, _ in candidates) - listed
    drawn = len(candidates) - listed + len(errors)
    counts = (
        "no solution was finished"
        if not candidates and not errors
        else (
            f"{len(errors)} of {drawn} samples failed, {unanswered} gave no answer, "
            f"{sum(s is None for s in scores) - listed} could not be scored"
        )
    )
    spent = [f"the budget of {search.stopped} ran out"] if search.stopped else []
    return "; ".join([counts, *spent, *(errors + refused)[:1]])


# A search told again: each decision as a line that a person can follow, and the tree as it stood after it.


@dataclass(frozen=True, slots=True)
class Scene:
    """The state after one decision: which nodes there were by then, which of them were given up, and their values."""

    number: int
    decision: Decision
    nodes: frozenset[int]
    pruned: frozenset[int]
    values: dict[int, float | None]


def replay(result: SearchResult) -> Iterator[Scene]:
    """The scenes of a search in order. The last one holds the whole tree."""
    if result.tree is None:
        raise ValueError(f"the result for problem {result.problem.id!r} has no tree to replay")
    nodes: frozenset[int] = frozenset()
    pruned: frozenset[int] = frozenset()
    values: dict[int, float | None] = {}
    for number, decision in enumerate(result.decisions, 1):
        named = frozenset(i for node in decision.nodes for i in result.tree.path(node))
        nodes |= named
        if decision.what == "pruned":
            pruned |= frozenset(decision.nodes)
        if decision.what == "taken-up":
            pruned -= frozenset(decision.nodes)
        if decision.what in ("scored", "backed-up"):
            values = {**values, **dict(zip(decision.nodes, decision.values, strict=True))}
        yield Scene(number, decision, nodes, pruned, values)


def told(result: SearchResult, width: int = 60) -> Iterator[str]:
    """One line a decision: `3. pruned #4 "So x = 2." (0.12): not among the 2 best`."""
    if result.tree is None:
        raise ValueError(f"the result for problem {result.problem.id!r} has no tree to tell of")
    for number, decision in enumerate(result.decisions, 1):
        shown = [_shown(result.tree, node, width) for node in decision.nodes]
        if len(decision.values) == len(shown):
            shown = [f"{text} ({_number(v)})" for text, v in zip(shown, decision.values, strict=True)]
        why = f": {decision.why}" if decision.why else ""
        yield f"{number}. {decision.what} {', '.join(shown)}".rstrip() + why


def _shown(tree: Tree, node: int, width: int) -> str:
    if node < 0:
        return "the empty prefix"
    text = " ".join(tree.nodes[node].step.written.split())
    return f'#{node} "{text if len(text) <= width else text[: width - 1] + "…"}"'


def _number(value: float | None) -> str:
    return "not judged" if value is None else f"{value:.3g}"
