"""Tree search without a judge, as in rStar: actions, UCT, and the confidence of the answers themselves (card: mcts).

Node types are actions: one next step (A1), all remaining steps (A2), and, where the searcher has helpers for them, the next
sub-question with its answer (A3), that sub-question answered again (A4, only after A3), the question rephrased (A5, only at
the root). Children are picked by W_c / N_c + w √(ln N_p / N_c), those never visited first, at random. A path's value is the
confidence of the answer at its end,

    r = share of that answer among the samples of the same action at the same node that gave one;  0 without an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.registry import Declared, register, search_row
from footfall.search.mcts import Schedule, Visits, scheduled
from footfall.search.state import Course, Requests, Roles, SearchState, described
from footfall.search.votes import Rule, check_rule, group

Action = Literal["step", "rest", "subquestion", "reanswer", "rephrase"]
ACTIONS = ("step", "rest", "subquestion", "reanswer", "rephrase")
"""A1 to A5. The first two are the policy's, each other one is written by the helper of that name."""


@register(
    "searcher", "rstar", Declared(study=(search_row(3, dial="paths"),), dial="paths=N", smoke={"paths": 2, "width": 2})
)
@dataclass(frozen=True)
class RStar:
    """Tree search without a judge: UCT over reasoning actions, answers valued by their own confidence.

    At the last depth only "rest" is left, so that every path ends in an answer if the length allows it.
    """

    judged: ClassVar[bool] = False
    paths: int = 16
    width: int = 4
    """Samples of each action at a node."""
    actions: tuple[Action, ...] = ("step", "rest")
    depth: int = 5
    weight: float = 2.0
    schedule: Schedule = "const"
    rule: Rule = "weighted"

    def __post_init__(self) -> None:
        check_rule(self.rule, "last")
        object.__setattr__(self, "actions", tuple(self.actions))
        unknown = [action for action in self.actions if action not in ACTIONS]
        if unknown or not {"step", "rest"} & {*self.actions}:
            raise ValueError(
                f"rstar's actions are {', '.join(ACTIONS)}, one of the first two at least; not {self.name}"
            )
        if self.schedule not in ("const", "exponential", "linear"):
            raise ValueError(f"a schedule is const, exponential or linear, not {self.schedule!r}")
        if min(self.paths, self.width, self.depth) < 1:
            raise ValueError(f"rstar needs paths, width and depth of 1 at least, not {self.name}")

    @property
    def name(self) -> str:
        return described("rstar", self)

    @property
    def roles(self) -> Roles:
        """What the policy cannot do without help."""
        return Roles(helpers=frozenset(self.actions).difference(("step", "rest")))

    def search(self, state: SearchState) -> Course:
        """Path after path; the rule then chooses among all ends by their confidence, one vote a path."""
        tree = Visits(state)
        reached: list[int] = []
        try:
            yield from self._paths(state, tree, reached)
        except BudgetSpent:
            if not any(state.ended(leaf) for leaf in reached):
                raise  # not one path is whole: what was sampled for it still votes
        ends = [leaf for leaf in reached if state.ended(leaf)]
        return state.choose(ends, self.rule, scores=[tree[leaf].first for leaf in ends])

    def _paths(self, state: SearchState, tree: Visits, reached: list[int]) -> Requests[None]:
        for i in range(self.paths):
            weight = scheduled(self.weight, self.schedule, i, self.paths)

            def pick(node: int, weight: float = weight) -> int:
                return tree.pick_uct(node, weight)

            leaf = yield from tree.descend(ROOT, self.depth, pick, lambda node: self._expand(state, tree, node))
            if leaf == ROOT:
                return
            tree.back_up(leaf, tree[leaf].first if state.ended(leaf) else 0.0, f"path {i + 1}")
            reached.append(leaf)

    def _expand(self, state: SearchState, tree: Visits, node: int) -> Requests[None]:
        """The children of all legal actions, those that end with the confidence of their answer."""
        valued: dict[int, float] = {}
        for action in self._legal(state, tree, node):
            until: Literal["step", "end"] = "end" if action == "rest" else "step"
            role = "policy" if action in ("step", "rest") else action
            meta = {"action": action}
            [found] = yield from state.expand([node], self.width, until, policy=role, meta=meta)
            if state.ended(node):
                break
            sure = _confidences(state, found)
            kept = _leader(state, found, sure) if action == "rest" else state.prune_repeats(found)
            valued.update({child: sure.get(child, 0.0) for child in kept})
        children = list(valued)
        tree.grow(node, children, list(valued.values()), [1 / len(children)] * len(children) if children else [])

    def _legal(self, state: SearchState, tree: Visits, node: int) -> list[Action]:
        if tree[node].depth == self.depth - 1:
            return ["rest"]
        before = None if node == ROOT else state.tree.nodes[node].meta.get("action")
        barred = {*(("rephrase",) if node != ROOT else ()), *(("reanswer",) if before != "subquestion" else ())}
        return [action for action in self.actions if action not in barred]


def _confidences(state: SearchState, samples: Sequence[int]) -> dict[int, float]:
    """For each sample that gave an answer, the share of that answer among all that did."""
    ended = [node for node in dict.fromkeys(samples) if state.ended(node)]
    groups = group([state.trace(node).answer for node in ended], state.problem.domain)
    answered = [first for first in groups if first is not None]
    return {
        node: answered.count(first) / len(answered)
        for node, first in zip(ended, groups, strict=True)
        if first is not None
    }


def _leader(state: SearchState, samples: Sequence[int], sure: dict[int, float]) -> list[int]:
    """Whole solutions become one child: the first with the most frequent answer. The others voted, and are pruned."""
    kept = [max(sure, key=lambda node: sure[node])] if sure else []
    state.prune([node for node in dict.fromkeys(samples) if node not in kept], "another solution stands for these")
    return kept
