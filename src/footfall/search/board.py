"""What a method has in hand for one problem: the tree so far, the ways to grow and judge it, and a record of decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from footfall.answers import extract, grade
from footfall.drive.budget import Account
from footfall.policy.protocol import Completion
from footfall.search.aggregate import aggregate
from footfall.search.choosing import Rule, chosen_index
from footfall.search.method import ROOT, Ask, Choice, Expand, Score, Wish
from footfall.types import Cost, Decision, Judgement, Problem, Step, Trajectory, Tree, content_key

__all__ = ["Board"]


class Board:
    """One problem's search as its method sees it. Nodes are named by their index in `tree`; `ROOT` is the empty prefix."""

    def __init__(self, problem: Problem, separator: str, account: Account, seed: int, judged: bool) -> None:
        self.problem, self.account, self.judged = problem, account, judged
        """`judged`: whether there is a judge and the method needs it."""
        self.tree = Tree(problem, separator=separator)
        self.decisions: list[Decision] = []
        self.rng = np.random.default_rng(int(content_key("search", seed, problem.id, problem.text)[:16], 16))
        """The only randomness that a method may use."""
        self.lost: list[Trajectory] = []
        """Samples that failed (with `meta["error"]`) or are empty."""
        self._finish: dict[int, str] = {}
        self._author: dict[int, str] = {}
        self._written: dict[int, Cost] = {}
        self._prefixes: dict[int, Trajectory] = {ROOT: Trajectory(problem.id, problem, separator=separator)}
        self._keys: dict[int, str] = {}
        self._graded: dict[int, Trajectory] = {}
        self._judgements: dict[tuple[int, str], Judgement] = {}

    # -- wishes: `children = yield from board.expand([node], 4)`

    def expand(
        self,
        nodes: Sequence[int],
        n: int = 1,
        until: Literal["step", "end"] = "step",
        *,
        score: bool = False,
        policy: str = "policy",
        judge: str = "judge",
        meta: Mapping[str, Any] | None = None,
        **params: Any,
    ) -> Wish[list[list[int]]]:
        """For each node its new children, `n` of them unless calls failed or the budget ran out on the way.

        With `until="end"` a child is the last node of a chain. A child that is the node itself says that the writer had
        nothing to add: the node has ended. When the budget is half spent and nothing has ended, a step may come as a whole
        solution (`footfall.search._running`). Further keywords are sampling parameters (`temperature=0`).
        """
        found: list[list[int]] = yield Expand(nodes, n, until, score, params, policy, judge, meta or {})
        return found

    def score(
        self, items: Sequence[int | Trajectory], *, partial: bool = False, judge: str = "judge"
    ) -> Wish[list[Judgement | None]]:
        """One judgement an item; `None` where the budget ran out on the way. Those of nodes are remembered."""
        found: list[Judgement | None] = yield Score(items, partial, judge)
        return found

    def ask(
        self,
        prefixes: Sequence[Trajectory],
        n: int = 1,
        until: Literal["step", "end"] = "end",
        *,
        policy: str = "policy",
        **params: Any,
    ) -> Wish[list[list[Completion]]]:
        """For each prefix its completions, outside the tree; failed ones are among them, with their reason."""
        found: list[list[Completion]] = yield Ask(prefixes, n, until, params, policy)
        return found

    # -- what is known of a node

    def prefix(self, node: int) -> Trajectory:
        """The path to `node` as a prefix to write on from or to judge."""
        if node not in self._prefixes:
            self._prefixes[node] = self.tree.trajectory(node)
        return self._prefixes[node]

    def key(self, node: int) -> str:
        """The content address of that prefix."""
        if node not in self._keys:
            self._keys[node] = self.prefix(node).key
        return self._keys[node]

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

    def fold(self, node: int, how: str = "last", judge: str = "judge") -> float | None:
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
        self.note("kept", nodes, why, values)

    def prune(self, nodes: Sequence[int], why: str, values: Sequence[float | None] = ()) -> None:
        """Give nodes up: they are marked in the tree."""
        if nodes:
            for node in nodes:
                self.tree.update(node, pruned=True)
            self.note("pruned", nodes, why, values)

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
        """The choice that the rule makes among nodes; scores are folded step values unless they are given."""
        found = [self.fold(node, aggregation) for node in candidates] if scores is None else list(scores)
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
            node = self.tree.add(node, own, meta=dict(meta or {}))
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
        for known in (self._prefixes, self._keys, self._graded):
            known.pop(node, None)
        self._written[node] = self._written.get(node, Cost()) + completion.cost
        finish: str = "step" if more else completion.finish
        if finish == "step" and extract(whole.solution, self.problem.domain) is not None:
            finish = "end"
        self._finish[node] = finish
        cost = self.tree.nodes[node].cost + completion.cost
        self.tree.update(node, step=whole, cost=cost, terminal=finish != "step")
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
