"""HRM and HNC (arXiv 2503.13551): labels for pairs of steps, and node compression, which makes more data of a tree.

A step that is wrong but repaired by the next one should not sink a trace. So a model is trained on single steps and on
merged pairs of consecutive steps, where the pair has the later step's label. Hierarchical node compression merges a node
with its parent and hangs it one level higher: new examples without one more generated token, at the price of some label
noise, for the parent loses a child.

    score of a node = right leaves / leaves below it; a leaf that is no finished answer counts as wrong

A node of which nobody can say, for all that was asked below it failed or was cut at max_tokens, has the reason and no score.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from footfall.answers import grade
from footfall.drive.requests import ROOT, Write
from footfall.drive.rollouts import Course, drawn, run_courses, ungradable
from footfall.drive.trees import ELSEWHERE, charged, leaf_rows, score_nodes, silence_of, top_of
from footfall.judging import Traits
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import NEVER, Declared, label_row, register
from footfall.types import (
    Barren,
    Cost,
    Harvest,
    Judged,
    Judgement,
    Problem,
    Reason,
    Step,
    Trajectory,
    Tree,
    Unjudged,
    content_key,
)


@dataclass
class Expansion:
    """Full trees, what they cost, and what became of the steps that were asked for."""

    trees: list[Tree]
    cost: Cost = field(default_factory=Cost)
    silences: dict[int, str] = field(default_factory=dict)
    """Why a tree, by its place, has no node."""
    written: int = 0
    unfinished: int = 0
    """So many of the written steps were cut at max_tokens."""

    def add(self, completions: Sequence[Completion]) -> None:
        """Count completions in."""
        self.written += sum(completion.finish != "error" for completion in completions)
        self.unfinished += sum(completion.finish == "length" for completion in completions)


def can_merge(first: Step, second: Step) -> bool:
    """Whether two steps are one text by one author: an action, an observation or an image has its place between texts."""
    return first.is_plain and second.is_plain and not first.images and not second.images


def merge_steps(first: Step, second: Step, separator: str) -> Step:
    """Two steps as one: texts with the separator between, ids joined (those of the first hold the separator)."""
    ids = None if first.token_ids is None or second.token_ids is None else first.token_ids + second.token_ids
    logprobs = None if first.logprobs is None or second.logprobs is None else first.logprobs + second.logprobs
    return Step(first.text + separator + second.text, token_ids=ids, logprobs=logprobs)


@dataclass(frozen=True)
class FullTrees:
    """Grows full trees, level by level: `branch` steps after every open node, all problems side by side."""

    policy: Policy
    branch: int = 5
    depth: int = 5
    params: SamplingParams = SamplingParams(temperature=0.1)

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("trees", self.branch),))

    def grow(self, problems: Sequence[Problem], separator: str = "\n\n") -> Expansion:
        """One tree a problem, its nodes scored. That of a problem without a reference answer stays empty."""
        found = Expansion([Tree(problem, separator=separator) for problem in problems])
        given: Counter[str] = Counter()
        courses = [self._course(found, t, given) for t in range(len(problems))]
        done = run_courses(courses, self.policy, self.params)
        found.silences = {t: each.result for t, each in enumerate(done) if each.result is not None}
        found.cost = Cost.total(each.cost for each in done)
        for tree in found.trees:
            score_nodes(tree)
        return found

    def _course(self, found: Expansion, t: int, given: Counter[str]) -> Course[str | None]:
        """Grow one tree; why it has no node, if it has none.

        Siblings with one text are different nodes: each has samples of its own, after those `given` for their text already.
        """
        tree = found.trees[t]
        silence: str | None = ungradable(tree.problem)
        open_nodes = [] if silence is not None else [ROOT]
        for _ in range(self.depth):
            prefixes = [_prefix(tree, node) for node in open_nodes]
            first = []
            for prefix in prefixes:
                first.append(given[prefix.key])
                given[prefix.key] += self.branch
            sampled = yield Write(prefixes, self.branch, first=first)
            going_on = []
            for node, row in zip(open_nodes, sampled, strict=True):
                found.add(row)
                going_on += _add_children(tree, node, row)
                silence = None if tree.nodes else _silence(row)
            open_nodes = going_on
        return silence


def _prefix(tree: Tree, node: int) -> Trajectory:
    return top_of(tree) if node == ROOT else tree.trajectory(node)


def _silence(completions: Sequence[Completion]) -> str:
    """Why samples without a step say nothing of what they follow."""
    if any(completion.finish != "error" for completion in completions):
        return "no next step was written"
    return f"all {len(completions)} next steps failed: {completions[-1].error}"


def _add_children(tree: Tree, node: int, completions: Sequence[Completion]) -> list[int]:
    """Put the written steps below `node`; those that can go on. A node after which nothing came says so.

    Most models end a text with nothing more to say: where no sample adds a step and one ends, the node is the end.
    """
    going_on = []
    for completion in completions:
        if completion.finish == "error" or not completion.steps:
            continue
        tree.tokenizer = tree.tokenizer or completion.tokenizer
        meta = {"cut": True} if completion.finish == "length" else {}
        child = tree.add(node, completion.steps[0], terminal=completion.finish == "end", meta=meta)
        if completion.finish == "end":
            tree.update(child, value=float(bool(grade(tree.trajectory(child)).correct)))
        elif completion.finish == "step":
            going_on.append(child)
    finishes = [completion.finish for completion in completions]
    if node >= 0 and "end" in finishes and not tree.children(node):
        tree.update(node, terminal=True, value=float(bool(grade(tree.trajectory(node)).correct)))
    elif node >= 0 and completions and not tree.children(node):
        silence = _silence(completions)
        tree.update(node, meta={**tree.nodes[node].meta, "failure": silence})
    return going_on


def compress(tree: Tree, generator: np.random.Generator, share: float = 0.5, min_children: int = 4) -> Tree:
    """HNC: a copy of the tree in which some children are merged with their parents and hang one level higher.

    From the top down, of each node with at least `min_children` children that was not itself moved, at most one child moves:
    each is drawn in turn with probability `share` until one is, as in the authors' code, so that one of five does in 31 cases
    of 32. Then all scores are computed anew.
    """
    new = Tree(tree.problem, list(tree.nodes), tree.separator, tree.value, tree.tokenizer)
    moved: set[int] = set()
    for parent in sorted(range(len(new.nodes)), key=lambda i: len(new.path(i))):
        children, above = new.children(parent), new.nodes[parent]
        if parent in moved or len(children) < min_children:
            continue
        able = (child for child in children if can_merge(above.step, new.nodes[child].step))
        child = next((child for child in able if generator.random() < share), None)
        if child is not None:
            merged = merge_steps(above.step, new.nodes[child].step, tree.separator)
            new.update(child, parent=above.parent, step=merged)
            moved.add(child)
    score_nodes(new)
    return new


def merged_pairs(row: Judged) -> list[Judged]:
    """The pair view of a labelled trace: each step after the first, merged with the one before, with its own label.

    Steps without a label, or with actions, observations, images or other authors, give no pair. A pair's row is valued at its
    last, merged step alone.
    """
    trajectory, judgement = row
    if judgement is None:
        return []
    pairs = []
    for k in range(1, len(trajectory.steps)):
        value = judgement.check(trajectory).values[k]
        if value is not None and can_merge(*trajectory.steps[k - 1 : k + 1]):
            pairs.append(_sample(_merged_end(trajectory.prefix(k + 1)), value, judgement.judge))
    return pairs


def _merged_end(prefix: Trajectory) -> Trajectory:
    merged = merge_steps(prefix.steps[-2], prefix.steps[-1], prefix.separator)
    return replace(prefix, id=f"{prefix.id}+{len(prefix.steps)}", steps=(*prefix.steps[:-2], merged))


def _sample(trajectory: Trajectory, value: float | None, judge: str, reason: Unjudged | None = None) -> Judged:
    n = len(trajectory.steps)
    failures = (*[ELSEWHERE] * (n - 1), reason) if n > 1 or reason is not None else ()
    return Judged(trajectory, Judgement(trajectory.id, (*[None] * (n - 1), value), judge, failures=failures))


def tree_samples(
    trees: Sequence[Tree],
    judge: str = "hrm-hnc",
    nodes: Sequence[Sequence[int]] | None = None,
    silent: bool = False,
) -> list[Judged]:
    """Each node's last step with its score and, from depth 2 on, the merged pair with the same score; no sample twice.

    Give a tree and its compressed copy together for their union; `nodes` are those to take of each tree (else all). With
    `silent` also each node without a score, once, with the reason.
    """
    found: dict[tuple[str, float | None], Judged] = {}
    for t, tree in enumerate(trees):
        for i in range(len(tree.nodes)) if nodes is None else nodes[t]:
            trajectory, value = tree.trajectory(i), tree.nodes[i].value
            if value is None:
                if silent:
                    reason = silence_of(tree.nodes[i], Unjudged(Reason.NOT_ASKED, "not scored"))
                    found.setdefault((trajectory.key, None), _sample(trajectory, None, judge, reason))
                continue
            paired = len(trajectory.steps) > 1 and can_merge(*trajectory.steps[-2:])
            views = [trajectory, *([_merged_end(trajectory)] if paired else [])]
            for view in views:
                found.setdefault((view.key, value), _sample(view, value, judge))
    return list(found.values())


def balanced_nodes(tree: Tree, generator: np.random.Generator, few: int = 5, share: float = 0.1) -> list[int]:
    """Nodes to train on: of each depth, as many of every score as of the rarest (or `share` of it, if that is more).

    A depth on which all nodes have one score gives at most `few`.
    """
    depths: defaultdict[int, defaultdict[float, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, node in enumerate(tree.nodes):
        if node.value is not None:
            depths[len(tree.path(i))][node.value].append(i)
    chosen: list[int] = []
    for groups in depths.values():
        smallest = min(map(len, groups.values()))
        for members in groups.values():
            size = min(few, len(members)) if len(groups) == 1 else max(smallest, int(share * len(members)))
            chosen += (int(i) for i in generator.choice(members, size=size, replace=False))
    return sorted(chosen)


@dataclass(frozen=True)
class HierarchicalTrees(FullTrees):
    """HRM's full trees together with their compressed copies; a problem's copy does not depend on the others."""

    share: float = 0.5

    @property
    def name(self) -> str:
        size = f"branch={self.branch},depth={self.depth},share={self.share:g}"
        return f"hrm-hnc({self.policy.name},{size},{drawn(self.params)})"

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest:
        """Rows of single steps and of merged pairs."""
        grown = self.grow(problems, separator)
        both = [each for tree in grown.trees for each in (tree, self._compressed(tree))]
        rows = charged(tree_samples(both, self.name, silent=True), grown.cost)
        barren = tuple(Barren(problems[t], reason) for t, reason in grown.silences.items())
        return Harvest(rows, grown.cost, barren, grown.written, grown.unfinished)

    def _compressed(self, tree: Tree) -> Tree:
        own = int(content_key("hrm-hnc", tree.problem.id)[:12], 16)
        return compress(tree, np.random.default_rng([self.params.seed, own]), self.share)


@dataclass(frozen=True)
class WholeTraces:
    """The trees' leaves as whole traces, as studies measure them: without merged pairs, for the truth is about single steps."""

    trees: FullTrees

    @property
    def name(self) -> str:
        size = f"branch={self.trees.branch},depth={self.trees.depth}"
        return f"hrm-tree({self.trees.policy.name},{size},{drawn(self.trees.params)})"

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Expansion]:
        return [self.trees.grow(problems, separator)]

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        trees = [tree for each in self.grow(problems, separator) for tree in each.trees]
        rows = [row for tree in trees for row in leaf_rows(tree, self.name)]
        # Siblings may have one text: an answer has one wording.
        return list({(row.trajectory.key, row.judgement and row.judgement.values): row for row in rows}.values())


def _study_trees(setting: Any, budget: float) -> WholeTraces:
    return WholeTraces(FullTrees(setting.policy, branch=2, depth=int(budget), params=setting.params))


@register(
    "tree-labeller",
    "hrm-hnc",
    Declared(
        study=(
            # The paper's five steps after each would be thousands of traces a problem; its depth is 5, where many are open.
            label_row(
                160, "hrm-tree", "depth", (5.0, 6.0, 7.0, 8.0), make=_study_trees, threshold=NEVER, kind="own traces",
                value="values",
            ),
        )
    ),
)  # fmt: skip
def hrm_hnc_trees(
    policy: Policy,
    trees: int,
    depth: int = 5,
    share: float = 0.5,
    params: SamplingParams = SamplingParams(temperature=0.1),
) -> HierarchicalTrees:
    """A row a step and a row a pair of steps of trees with so many steps after every node, some nodes merged (HRM, HNC)."""
    if trees < 1 or depth < 1 or not 0 <= share <= 1:
        raise ValueError("hrm-hnc needs --trees and depth of 1 at least, and a share from 0 to 1")
    return HierarchicalTrees(policy, trees, depth, params, share)
