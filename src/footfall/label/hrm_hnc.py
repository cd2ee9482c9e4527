"""HRM and HNC (arXiv 2503.13551): labels for pairs of steps, and node compression, which makes more data of a tree.

A step that is wrong but repaired by the next one should not sink a trace. So a model is trained on single steps and on
merged pairs of consecutive steps, where the pair has the later step's label. Hierarchical node compression merges a node
with its parent and hangs it one level higher: new examples without one more generated token, at the price of some label
noise, for the parent loses a child.

    score of a node = right leaves / leaves below it; a leaf that is no finished answer counts as wrong
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from footfall.answers import grade
from footfall.label.tally import ungradable
from footfall.label.trees import top_of
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Cost, Judged, Judgement, Problem, Step, Trajectory, Tree

__all__ = ["balanced_nodes", "compress", "expand", "merge_steps", "merged_pairs", "score_nodes", "tree_samples"]


def merge_steps(first: Step, second: Step, separator: str) -> Step:
    """Two steps as one: texts with the separator between, ids joined (those of the first hold the separator)."""
    ids = None if first.token_ids is None or second.token_ids is None else first.token_ids + second.token_ids
    logprobs = None if first.logprobs is None or second.logprobs is None else first.logprobs + second.logprobs
    return Step(first.text + separator + second.text, token_ids=ids, logprobs=logprobs)


def expand(
    problems: Sequence[Problem],
    policy: Policy,
    branch: int = 5,
    depth: int = 5,
    params: SamplingParams = SamplingParams(temperature=0.1),
    separator: str = "\n\n",
) -> tuple[list[Tree], Cost]:
    """Full trees, level by level: `branch` steps after every open node, for all problems together.

    The tree of a problem without a reference answer stays empty.
    """
    trees = [Tree(problem, separator=separator) for problem in problems]
    params = replace(params, until="step")
    open_nodes = [(tree, -1) for tree in trees if not ungradable(tree.problem)]
    cost = Cost()
    for _ in range(depth):
        prefixes = [top_of(tree) if node < 0 else tree.trajectory(node) for tree, node in open_nodes]
        sampled = _next_steps(policy, prefixes, branch, params)
        cost += Cost.total(completion.cost for row in sampled for completion in row)
        grown = [_add_children(tree, node, row) for (tree, node), row in zip(open_nodes, sampled, strict=True)]
        open_nodes = [(tree, child) for (tree, _), row in zip(open_nodes, grown, strict=True) for child in row]
    for tree in trees:
        score_nodes(tree)
    return trees, cost


def _next_steps(
    policy: Policy, prefixes: Sequence[Trajectory], branch: int, params: SamplingParams
) -> list[list[Completion]]:
    """`branch` steps after each prefix. Siblings with one text are different nodes: each has samples of its own.

    One call for all prefixes that occur once, one for those that occur twice, and so on.
    """
    different = {prefix.key: prefix for prefix in prefixes}
    copies = Counter(prefix.key for prefix in prefixes)
    drawn: dict[str, list[Completion]] = {}
    for times in sorted(set(copies.values())):
        keys = [key for key in different if copies[key] == times]
        rows = policy.sample([different[key] for key in keys], branch * times, params)
        drawn.update(zip(keys, rows, strict=True))
    given: Counter[str] = Counter()
    result = []
    for prefix in prefixes:
        first = given[prefix.key]
        given[prefix.key] += branch
        result.append(drawn[prefix.key][first : first + branch])
    return result


def _add_children(tree: Tree, node: int, completions: Sequence[Completion]) -> list[int]:
    """Put the written steps below `node`; those that can go on. A node after which every call failed says so.

    Most models end a text with nothing more to say: where no sample adds a step and one ends, the node is the end.
    """
    going_on = []
    for completion in completions:
        if completion.finish == "error" or not completion.steps:
            continue
        tree.tokenizer = tree.tokenizer or completion.tokenizer
        child = tree.add(node, completion.steps[0], terminal=completion.finish == "end")
        if completion.finish == "end":
            tree.update(child, value=float(bool(grade(tree.trajectory(child)).correct)))
        elif completion.finish == "step":
            going_on.append(child)
    finishes = [completion.finish for completion in completions]
    if node >= 0 and "end" in finishes and not tree.children(node):
        tree.update(node, terminal=True, value=float(bool(grade(tree.trajectory(node)).correct)))
    elif node >= 0 and finishes and all(finish == "error" for finish in finishes):
        tree.update(node, meta={**tree.nodes[node].meta, "failure": completions[-1].error})
    return going_on


def score_nodes(tree: Tree) -> None:
    """Value every node by its leaves, in place; a terminal node keeps its outcome.

    A leaf that is one only because every call after it failed is not counted; a node with no other leaf has no value.
    """
    right: defaultdict[int, float] = defaultdict(float)
    leaves: defaultdict[int, int] = defaultdict(int)
    inner = {node.parent for node in tree.nodes}
    for i, node in enumerate(tree.nodes):
        if i not in inner and "failure" not in node.meta:
            won = (node.value or 0.0) if node.terminal else 0.0
            for above in (-1, *tree.path(i)):
                right[above] += won
                leaves[above] += 1
    for i in range(len(tree.nodes)):
        tree.update(i, value=right[i] / leaves[i] if leaves[i] else None)
    tree.value = right[-1] / leaves[-1] if leaves[-1] else None


def compress(tree: Tree, generator: np.random.Generator, share: float = 0.5, min_children: int = 4) -> Tree:
    """HNC: a copy of the tree in which some children are merged with their parents and hang one level higher.

    From the top down, of each node with at least `min_children` children that was not itself moved, one child moves with
    probability `share`. Then all scores are computed anew.
    """
    new = Tree(tree.problem, list(tree.nodes), tree.separator, tree.value, tree.tokenizer)
    moved: set[int] = set()
    for parent in sorted(range(len(new.nodes)), key=lambda i: len(new.path(i))):
        children = new.children(parent)
        if parent in moved or len(children) < min_children or generator.random() >= share:
            continue
        child = children[int(generator.integers(len(children)))]
        above = new.nodes[parent]
        new.update(child, parent=above.parent, step=merge_steps(above.step, new.nodes[child].step, tree.separator))
        moved.add(child)
    score_nodes(new)
    return new


def merged_pairs(row: Judged) -> list[Judged]:
    """The pair view of a labelled trace: each step after the first, merged with the one before, with its own label.

    Steps without a label give no pair; a pair's row is valued at its last, merged step alone.
    """
    trajectory, judgement = row
    if judgement is None:
        return []
    pairs = []
    for k in range(1, len(trajectory.steps)):
        value = judgement.check(trajectory).values[k]
        if value is not None:
            pairs.append(_sample(_merged_end(trajectory.prefix(k + 1)), value, judgement.judge))
    return pairs


def _merged_end(prefix: Trajectory) -> Trajectory:
    merged = merge_steps(prefix.steps[-2], prefix.steps[-1], prefix.separator)
    return replace(prefix, id=f"{prefix.id}+{len(prefix.steps)}", steps=(*prefix.steps[:-2], merged))


def _sample(trajectory: Trajectory, value: float, judge: str) -> Judged:
    n = len(trajectory.steps)
    failures = (*["valued in another row"] * (n - 1), None) if n > 1 else ()
    return Judged(trajectory, Judgement(trajectory.id, (*[None] * (n - 1), value), judge, failures=failures))


def tree_samples(
    trees: Sequence[Tree], judge: str = "hrm-hnc", nodes: Sequence[Sequence[int]] | None = None
) -> list[Judged]:
    """Each node's last step with its score and, from depth 2 on, the merged pair with the same score; no sample twice.

    Give a tree and its compressed copy together for their union; `nodes` are those to take of each tree (else all).
    """
    found: dict[tuple[str, float], Judged] = {}
    for t, tree in enumerate(trees):
        for i in range(len(tree.nodes)) if nodes is None else nodes[t]:
            trajectory, value = tree.trajectory(i), tree.nodes[i].value
            if value is None:
                continue
            views = [trajectory] if len(trajectory.steps) < 2 else [trajectory, _merged_end(trajectory)]
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
