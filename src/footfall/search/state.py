"""What a search method is, and what it has in hand for one problem: the tree so far, ways to grow and judge it, decisions.

A method is written for one problem, as a generator: it yields requests, mostly through the helpers of its `SearchState`, is
sent what came of them, and returns its `Choice`. It never sees another problem, draws random numbers from `state.rng` alone,
and so grows the same tree however many problems run together (`footfall.search.searcher`).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from footfall.answers import extract, grade
from footfall.drive.budget import Account
from footfall.drive.requests import ROOT, BudgetSpent, Request, Score, Until, Write
from footfall.drive.trees import GrowingTree
from footfall.policy.protocol import Completion
from footfall.search.votes import Rule, aggregate, chosen_index
from footfall.types import Cost, Decision, Judgement, Problem, Step, Trajectory, Tree, content_key

R = TypeVar("R")
OWN_POLICIES = frozenset({"policy", "resuming"})
OWN_JUDGES = frozenset({"judge"})
"""Roles that every search fills by itself."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A method's answer: the node it chose, and the nodes it chose among with their scores."""

    node: int | None
    candidates: Sequence[int] = ()
    scores: Sequence[float | None] = ()
    answer: str | None = None
    """Only if it is not the one that the chosen trace states."""
    with_lost: bool = False
    """Put samples that are empty where they were drawn, and those that failed behind the candidates: all that was drawn is
    there, and the first n are what drawing n would have given."""


Course: TypeAlias = Generator[Request, Any, Choice]
"""One problem's search."""
Requests: TypeAlias = Generator[Request, Any, R]
"""A part of a course, which ends in an R: `children = yield from state.expand([node], 4)`."""


class SearchState(GrowingTree):
    """One problem's search as its method sees it. Nodes are named by their index in `tree`; `ROOT` is the empty prefix."""

    def __init__(self, problem: Problem, separator: str, account: Account, seed: int, judged: bool) -> None:
        super().__init__(Tree(problem, separator=separator))
        self.problem, self.account, self.judged = problem, account, judged
        """`judged`: whether there is a judge and the method needs it."""
        self.decisions: list[Decision] = []
        self.rng = np.random.default_rng(int(content_key("search", seed, problem.id, problem.text)[:16], 16))
        """The only randomness that a method may use."""
        self.lost: list[Trajectory] = []
        """Samples that failed (with `meta["error"]`) or are empty."""
        self.empty: list[tuple[int, Trajectory]] = []
        """Those of the lost that are empty solutions of the whole problem, with their sample index."""
        self._finish: dict[int, str] = {}
        self._author: dict[int, str] = {}
        self._written: dict[int, Cost] = {}
        self._graded: dict[int, Trajectory] = {}
        self._judgements: dict[tuple[int, str], Judgement] = {}

    # -- requests: `children = yield from state.expand([node], 4)`

    def expand(
        self,
        nodes: Sequence[int],
        n: int = 1,
        until: Until = "step",
        *,
        score: bool = False,
        policy: str = "policy",
        judge: str = "judge",
        meta: Mapping[str, Any] | None = None,
        **params: Any,
    ) -> Requests[list[list[int]]]:
        """For each node its new children, `n` of them unless calls failed or the budget ran out on the way.

        With `until="end"` a child is the last node of a chain. A child that is the node itself says that the writer had
        nothing to add: the node has ended. When the budget is half spent and nothing has ended, a step may come as a whole
        solution (`footfall.search.searcher`). Further keywords are sampling parameters (`temperature=0`).
        """
        found: list[list[int]] = yield Write(nodes, n, until, score, params, policy, judge, meta or {})
        return found

    def samples(self, n: int, score: bool = True) -> Requests[list[int]]:
        """`n` whole solutions side by side; none where the budget was spent before."""
        drawn: list[list[int]] = [[]]
        with suppress(BudgetSpent):
            drawn = yield from self.expand([ROOT], n, "end", score=score)
        return drawn[0]

    def score(
        self, items: Sequence[int | Trajectory], *, partial: bool = False, judge: str = "judge"
    ) -> Requests[list[Judgement | None]]:
        """One judgement an item; `None` where the budget ran out on the way. Those of nodes are remembered."""
        found: list[Judgement | None] = yield Score(items, partial, judge)
        return found

    def ask(
        self,
        prefixes: Sequence[Trajectory],
        n: int = 1,
        until: Until = "end",
        *,
        policy: str = "policy",
        **params: Any,
    ) -> Requests[list[list[Completion]]]:
        """For each prefix its completions, outside the tree; failed ones are among them, with their reason."""
        found: list[list[Completion]] = yield Write(prefixes, n, until, params=params, policy=policy)
        return found

    def look_ahead(self, nodes: Sequence[int], steps: int, aggregation: str) -> Requests[list[float | None]]:
        """A score for each node: that of the path to it and up to `steps` greedy steps more, aggregated.

        The further steps are really judged, and given up. With `steps` = 0 the score is that of the path itself. Paths that are
        judged already are not judged again.
        """
        tips = list(nodes)
        for _ in range(steps):
            open_ = [i for i, tip in enumerate(tips) if not self.ended(tip)]
            found = yield from self.expand([tips[i] for i in open_], meta={"role": "lookahead"}, temperature=0)
            for i, children in zip(open_, found, strict=True):
                tips[i] = children[0] if children else tips[i]
        unread = sorted({tip for tip in tips if self.judgement(tip) is None})
        if unread:
            yield from self.score(unread)
        scores = [self.aggregate(tip, aggregation) for tip in tips]
        if steps:
            self.note("looked-ahead", nodes, f"scored {steps} greedy steps further", scores)
        return scores

    # -- what is known of a node

    def trace(self, node: int) -> Trajectory:
        """The path to `node` as a graded trace, with what writing it has cost."""
        if node not in self._graded:
            finish = self._finish.get(node, "step")
            cost = Cost.total(self._written.get(i, Cost()) for i in self.tree.path(node))
            meta = {} if finish == "end" else {"finish": finish}
            whole = replace(self.prefix(node), cost=cost, meta=meta, author=self._author.get(node))
            self._graded[node] = grade(whole)
        return self._graded[node]

    def finish(self, node: int) -> str:
        """How writing stopped there: "step", "end" (of the text, or an answer is stated), "length" (cut)."""
        return self._finish.get(node, "step")

    def ended(self, node: int) -> bool:
        """Whether nothing more can be written: the writer ended, an answer is stated, or the text was cut."""
        return self.finish(node) != "step"

    def ends(self) -> list[int]:
        """All nodes that have ended and are no mere lookahead."""
        nodes = self.tree.nodes
        return [i for i in range(len(nodes)) if self.ended(i) and nodes[i].meta.get("role") != "lookahead"]

    def judgement(self, node: int, judge: str = "judge") -> Judgement | None:
        """What was said of the path to `node`, if it was judged."""
        return self._judgements.get((node, judge))

    def judgements(self) -> list[Judgement]:
        """All that was said of nodes, in order."""
        return list(self._judgements.values())

    def values(self, node: int, judge: str = "judge") -> tuple[float | None, ...]:
        """The step values of the path to `node`; empty if it was not judged."""
        said = self.judgement(node, judge)
        return () if said is None else said.values

    def aggregate(self, node: int, how: str = "last", judge: str = "judge") -> float | None:
        """The step values of the path to `node` as one score; `None` if any is missing."""
        return aggregate(self.values(node, judge), how)

    def left(self) -> dict[str, float]:
        """What is left of the budget, by the names of its limits."""
        return self.account.left()

    # -- decisions

    def note(self, what: str, nodes: Sequence[int], why: str = "", values: Sequence[float | None] = ()) -> None:
        """Write down what was decided."""
        self.decisions.append(Decision(what, tuple(nodes), why, tuple(values)))

    def keep(self, nodes: Sequence[int], why: str, values: Sequence[float | None] = ()) -> None:
        """Write down which nodes go on."""
        self.note("kept", nodes, why, values)

    def prune(self, nodes: Sequence[int], why: str, values: Sequence[float | None] = ()) -> None:
        """Give nodes up: they are marked in the tree."""
        if nodes:
            for node in nodes:
                self.tree.update(node, pruned=True)
            self.note("pruned", nodes, why, values)

    def prune_repeats(self, children: Sequence[int], taken: Collection[str] = ()) -> list[int]:
        """The first child of each text that is not `taken`; the others, and those cut at the length limit, are pruned.

        So nobody pays for judging them.
        """
        first: dict[str, int] = {}
        cut: list[int] = []
        for child in dict.fromkeys(children):
            text = self.tree.nodes[child].step.written
            if self.finish(child) == "length":
                cut.append(child)
            elif text not in taken:
                first.setdefault(text, child)
        kept = list(first.values())
        self.prune(cut, "cut at the length limit")
        self.prune([c for c in dict.fromkeys(children) if c not in kept and c not in cut], "the text is there already")
        return kept

    def distinct(self, nodes: Sequence[int]) -> list[int]:
        """The first node of each text, from the top on."""
        first: dict[str, int] = {}
        for node in nodes:
            first.setdefault(self.prefix(node).text, node)
        return list(first.values())

    def restore(self, node: int, why: str) -> None:
        """Take up again what was given up on the path to `node`, which is chosen after all."""
        if given_up := [i for i in self.tree.path(node) if self.tree.nodes[i].pruned]:
            for i in given_up:
                self.tree.update(i, pruned=False)
            self.note("taken-up", given_up, f"taken up again: {why}")

    def back_up(self, node: int, visits: int, value: float, why: str = "") -> None:
        """Set a node's visits and value, as a tree search does on its way back to the root."""
        if node == ROOT:
            self.tree.value = value
        else:
            self.tree.update(node, visits=visits, value=value)
        self.note("backed-up", (node,), why, (value,))

    def choose(
        self,
        candidates: Sequence[int],
        rule: Rule = "best",
        aggregation: str = "last",
        *,
        scores: Sequence[float | None] | None = None,
        with_lost: bool = False,
    ) -> Choice:
        """The choice that the rule makes among nodes; scores are aggregated step values unless they are given."""
        found = [self.aggregate(node, aggregation) for node in candidates] if scores is None else list(scores)
        winner = chosen_index([self.trace(node) for node in candidates], found, rule)
        node = None if winner is None else candidates[winner]
        return Choice(node, candidates, found, with_lost=with_lost)

    # -- for the searcher, and for methods that write a step themselves

    def add(
        self,
        parent: int,
        steps: Sequence[Step],
        finish: str = "step",
        *,
        author: str = "",
        tokenizer: str | None = None,
        cost: Cost = Cost(),
        meta: Mapping[str, Any] | None = None,
    ) -> int:
        """Put steps under `parent`; the node of the last one. The whole cost is that node's."""
        if not self.tree.nodes:
            self.tree.tokenizer = tokenizer
        foreign = tokenizer != self.tree.tokenizer
        node = parent
        for step in steps:
            own = step.without_ids() if foreign else step
            node = self.add_step(node, own, meta=dict(meta or {}))
            self._author[node] = author
        if finish == "step" and extract(self.tree.nodes[node].step.solution, self.problem.domain) is not None:
            finish = "end"
        self._finish[node] = finish
        self._written[node] = cost
        self.tree.update(node, cost=cost, terminal=finish != "step")
        return node

    def place(self, parent: int, completion: Completion, author: str, meta: Mapping[str, Any]) -> int | None:
        """Take a sample into the tree: its node, or `None` if there is nothing in it."""
        if completion.finish == "error":
            reason = completion.error or "the policy gave no reason"
            failed = completion.after(self.prefix(parent), author)
            self.lost.append(replace(failed, meta={**failed.meta, "error": reason}))
            self.note("failed", (parent,), reason)
            return None
        if completion.steps:
            return self.add(
                parent, completion.steps, completion.finish, author=author, tokenizer=completion.tokenizer,
                cost=completion.cost, meta={**meta, "sample": completion.index},
            )  # fmt: skip
        if parent == ROOT or completion.finish == "length":
            self.lost.append(grade(completion.after(self.prefix(parent), author)))
            if parent == ROOT:
                self.empty.append((completion.index, self.lost[-1]))
            self.note("empty", (parent,), f"nothing was written (finish={completion.finish})")
            return None
        self._finish[parent] = "end"
        self._graded.pop(parent, None)
        self._written[parent] = self._written.get(parent, Cost()) + completion.cost
        self.tree.update(parent, terminal=True, cost=self.tree.nodes[parent].cost + completion.cost)
        return parent

    def made_whole(self, node: int, completion: Completion) -> int | None:
        """Put the whole step where its fragment was (see `footfall.policy.resuming`); what it cost more is added.

        The node, or the last one if more than the step was written; `None` if writing failed. A score stays what it was.
        """
        if completion.finish == "error" or not completion.steps:
            self.note("failed", (node,), completion.error or "nothing was written")
            return None
        whole, *more = completion.steps
        self._graded.pop(node, None)
        self._written[node] = self._written.get(node, Cost()) + completion.cost
        finish: str = "step" if more else completion.finish
        if finish == "step" and extract(whole.solution, self.problem.domain) is not None:
            finish = "end"
        self._finish[node] = finish
        cost = self.tree.nodes[node].cost + completion.cost
        self.rewrite(node, whole, cost=cost, terminal=finish != "step")
        self.note("finished", (node,), "the rest of its step was written")
        if not more or finish == "end":
            return node
        return self.add(node, more, completion.finish, author=self._author[node], tokenizer=completion.tokenizer)

    def hear(self, node: int, said: Judgement, judge: str) -> None:
        """Remember what a judge said of the path to `node`; steps that had no value get theirs."""
        self._judgements[node, judge] = said
        for i, value in zip(self.tree.path(node), said.values, strict=True):
            if i == node or self.tree.nodes[i].value is None:
                self.tree.update(i, value=value)
        if node != ROOT:
            self.tree.update(node, cost=self.tree.nodes[node].cost + said.cost)


class Method(Protocol):
    """A way to search; its settings are its fields. Registered as `@register("searcher", NAME)`."""

    @property
    def name(self) -> str:
        """The method with its settings: two of one name search alike."""
        ...

    @property
    def judged(self) -> bool:
        """Whether it needs a judge. If not, none is asked, though there be one."""
        ...

    def search(self, state: SearchState) -> Course:
        """The search for one problem."""
        ...


class Roles(NamedTuple):
    """Whom a method asks beside the policy and the judge of the search, by role."""

    helpers: frozenset[str] = frozenset()
    """Policies."""
    judges: frozenset[str] = frozenset()


def roles_of(method: Method) -> Roles:
    """The roles that somebody else has to fill: a method that asks others says whom by a property `roles`."""
    said: Roles = getattr(method, "roles", Roles())
    return Roles(said.helpers - OWN_POLICIES, said.judges - OWN_JUDGES)


def draws_independently(method: Method) -> bool:
    """Whether its candidates are independent samples of the policy, as many as it was told to draw, none selected.

    A method says so by an attribute `independent` that is true. One that steers, refines, or stops by what it has seen does not
    have it: the mean over its candidates is not the accuracy of one sample.
    """
    return bool(getattr(method, "independent", False))


def unused_by(method: Method) -> frozenset[str]:
    """The settings that play no part beside its others: a method that has such, as a majority vote folds no step values, says
    which, and what they are for, by a property `idle` (`footfall.judging.IdleSettings`)."""
    return frozenset(name for name, _ in getattr(method, "idle", ()))


def described(word: str, method: Any) -> str:
    """`beam-search(n=16,expansions=4)`: a name made of a dataclass's fields, for `Method.name`."""
    return f"{word}({','.join(f'{f.name}={getattr(method, f.name)}' for f in fields(method))})"
