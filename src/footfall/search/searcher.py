"""Policy + judge + method + budget -> answers: a hundred searches advance together and share every batch.

Each problem's method is a generator (see `footfall.search.method`). In a round, all that the problems want written goes to
the policy, and all that they want judged goes to the judge, each as one batch; a problem that wants more than its budget has
room for gets it in several rounds. What a problem is sent depends on nothing but its own requests, so the same seed grows
the same tree however many problems run together (costs hold no seconds, which differ from run to run). A call that fails
fails the problems whose call it was, no others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from footfall.drive.budget import Account, Budget, Pace, uncounted
from footfall.policy.protocol import Policy, SamplingParams
from footfall.policy.resuming import resuming
from footfall.search._rounds import Rounds
from footfall.search._running import Running
from footfall.search.board import Board
from footfall.search.method import Choice, Method
from footfall.types import Judge, Judged, Problem, SearchResult

__all__ = ["Searcher"]


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
        searches = [self._begin(problem) for problem in problems]
        judges = {**({} if self.judge is None else {"judge": self.judge}), **self.judges}
        policies = {"policy": self.policy, "resuming": resuming(self.policy), **self.helpers}
        rounds = Rounds(policies, judges, self.params, Pace(self.clock))
        live = [search for search in searches if search.request is not None]
        while live:
            rounds.run(live)
            live = [search for search in live if search.request is not None]
        return [_result(search) for search in searches]

    def _begin(self, problem: Problem) -> Running:
        judged = self.judge is not None and self.method.judged  # whose answer needs no judge asks none
        board = Board(problem, self.separator, Account(self.budget, clock=self.clock), self.params.seed, judged)
        running = Running(board, self.method.search(board), getattr(self.method, "aggregation", "last"))
        running.begin()
        return running


def _result(search: Running) -> SearchResult:
    board, choice = search.board, search.choice or Choice(None)
    candidates = [Judged(board.trace(node), board.judgement(node)) for node in choice.candidates]
    scores = list(choice.scores) or [None] * len(candidates)
    if choice.with_lost:
        candidates += [Judged(trace, None) for trace in board.lost]
        scores += [None] * len(board.lost)
    chosen = None if choice.node is None else board.trace(choice.node)
    answer = choice.answer or (None if chosen is None else chosen.answer)
    account = board.account
    return SearchResult(
        problem=board.problem,
        answer=answer,
        chosen=chosen,
        candidates=tuple(candidates),
        tree=board.tree,
        scores=tuple(scores),
        failure=search.failure or (_no_answer(search, candidates, scores) if answer is None else None),
        cost=account.total,
        decisions=tuple(board.decisions),
        policy_cost=account.policy,
        judge_cost=account.judge,
        stopped=search.stopped,
    )


def _no_answer(search: Running, candidates: Sequence[Judged], scores: Sequence[float | None]) -> str:
    """Why there is no answer, with the first reason that the policy or the judge gave."""
    errors = [str(t.meta["error"]) for t in search.board.lost if "error" in t.meta]
    refused = [reason for j in search.board.judgements() for reason in j.failures if reason]
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
