"""Trees that branch where the writer could have gone either way (EDU-PRM): steps, solutions and labels in one go.

Decode greedily. Where the next-token distribution has H = -Σ p ln p > τ and the token is no mere symbol, close the fragment
before it and go on with both of the two likeliest tokens, until there are `leaves` solutions, earliest places first. Then

    score(fragment) = right leaves below it / leaves below it

Between branches decoding is greedy, so the first child goes on as its parent did: only second children are written anew. The
distributions are read from finished texts in a pass of its own, whose tokens are counted as `prompt_tokens`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from footfall.answers import grade
from footfall.label.tally import ungradable
from footfall.label.trees import leaf_rows, tree_of
from footfall.policy.protocol import SamplingParams
from footfall.segment.entropy import is_symbol
from footfall.types import Cost, Judged, Problem, Step, Trajectory, Tree

if TYPE_CHECKING:
    from footfall.policy.any_cut import NextTokens
    from footfall.policy.torch_policy import TorchPolicy

__all__ = ["EntropyTrees", "Grown", "score_fragments"]


class Grown(NamedTuple):
    """The tree of a problem, its solutions with their own line steps, and what they cost."""

    tree: Tree
    solutions: tuple[Trajectory, ...]
    cost: Cost

    def rows(self, judge: str) -> list[Judged]:
        """One row a solution, valued at the end of each fragment."""
        return leaf_rows(self.tree, judge)


class _Anchor(NamedTuple):
    """A place where a branch can begin: token `at` of leaf `leaf`, and the second likeliest token there."""

    at: int
    leaf: int
    token: int
    logprob: float


@dataclass
class _Growing:
    """The leaves of one problem so far; `cuts[k]` are the tokens of leaf k at which fragments begin."""

    prefix: Trajectory
    ids: list[tuple[int, ...]] = field(default_factory=list)
    logprobs: list[tuple[float, ...]] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    cuts: list[set[int]] = field(default_factory=list)
    anchors: list[_Anchor] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)

    def branch(self) -> tuple[tuple[int, ...], tuple[float, ...], set[int]]:
        """The earliest place not used yet: what a new leaf begins with, and where it is cut."""
        anchor = heapq.heappop(self.anchors)
        old = anchor.leaf
        shared = {cut for cut in self.cuts[old] if cut < anchor.at} | ({anchor.at} if anchor.at else set())
        self.cuts[old] |= {anchor.at} if anchor.at else set()
        begin = (*self.ids[old][: anchor.at], anchor.token)
        return begin, (*self.logprobs[old][: anchor.at], anchor.logprob), shared


@dataclass(frozen=True)
class EntropyTrees:
    """Grows trees with a model in this process, all problems side by side."""

    policy: TorchPolicy
    leaves: int = 8
    threshold: float = 1.0
    """τ, in nats; infinity gives the greedy solution alone."""
    max_tokens: int = 200
    separator: str = "\n"

    def __post_init__(self) -> None:
        if self.leaves < 1 or self.threshold < 0:
            raise ValueError(
                f"at least one leaf and a threshold from 0 on are needed, not {self.leaves}, {self.threshold}"
            )

    @property
    def name(self) -> str:
        return f"edu-prm({self.policy.name},leaves={self.leaves},threshold={self.threshold:g},max_tokens={self.max_tokens})"

    def grow(self, problems: Sequence[Problem]) -> list[Grown]:
        """A tree for each problem, with fragments scored by the answers of its leaves.

        The tree of a problem without a reference answer stays empty.
        """
        growing = [_Growing(Trajectory(problem.id, problem, separator="")) for problem in problems]
        answered = [each for each in growing if not ungradable(each.prefix.problem)]
        self._write(answered, [((), (), set()) for _ in answered])
        while ready := [each for each in growing if each.anchors and len(each.ids) < self.leaves]:
            self._write(ready, [each.branch() for each in ready])
        return [self._grown(each) for each in growing]

    def _write(
        self, growing: Sequence[_Growing], begun: Sequence[tuple[tuple[int, ...], tuple[float, ...], set[int]]]
    ) -> None:
        """Finish one new leaf of each problem, greedily, and note where others could branch off."""
        from footfall.policy.any_cut import AnyCut, next_tokens

        prefixes = [self._trace(each.prefix, ids, probs) for each, (ids, probs, _) in zip(growing, begun, strict=True)]
        params = SamplingParams(temperature=0.0, max_tokens=self.max_tokens)
        written = [row[0] for row in AnyCut(self.policy, self.separator).sample(prefixes, 1, params)]
        for each, (ids, probs, cuts), completion in zip(growing, begun, written, strict=True):
            more = completion.steps[0] if completion.steps else Step("", token_ids=(), logprobs=())
            each.ids.append(ids + (more.token_ids or ()))
            each.logprobs.append(probs + (more.logprobs or ()))
            each.ended.append(completion.finish == "end")
            each.cuts.append(cuts)
            each.cost += completion.cost + Cost(generated_tokens=int(bool(ids)))
        whole = [self._trace(each.prefix, each.ids[-1], each.logprobs[-1]) for each in growing]
        thoughts = next_tokens(self.policy, whole)
        for each, (ids, _, _), thought in zip(growing, begun, thoughts, strict=True):
            each.cost += Cost(prompt_tokens=len(thought.entropy))
            self._note_anchors(each, thought, len(ids))

    def _note_anchors(self, growing: _Growing, thought: NextTokens, first: int) -> None:
        """The places from token `first` on where the last leaf could have gone either way."""
        leaf = len(growing.ids) - 1
        for at in range(first, len(thought.entropy)):
            goes_on = thought.second[at] not in self.policy.engine.eos
            if (
                thought.entropy[at] > self.threshold
                and goes_on
                and not is_symbol(self._text(growing.ids[leaf][at : at + 1]))
            ):
                anchor = _Anchor(at, leaf, thought.second[at], thought.second_logprob[at])
                heapq.heappush(growing.anchors, anchor)

    def _grown(self, growing: _Growing) -> Grown:
        fragments = [self._leaf(growing, leaf) for leaf in range(len(growing.ids))]
        if not fragments:
            return Grown(Tree(growing.prefix.problem, separator=""), (), growing.cost)
        tree = score_fragments(tree_of(fragments))
        return Grown(tree, tuple(map(self._in_lines, fragments)), growing.cost)

    def _leaf(self, growing: _Growing, leaf: int) -> Trajectory:
        """A solution in fragments, graded; one that was cut at `max_tokens` is wrong."""
        ids, probs = growing.ids[leaf], growing.logprobs[leaf]
        ends = [*sorted(growing.cuts[leaf]), len(ids)]
        steps = [
            Step(self._text(ids[a:b]), token_ids=ids[a:b], logprobs=probs[a:b])
            for a, b in zip([0, *ends], ends, strict=False)
        ]
        trace = self._trace(growing.prefix, (), ()).extend(steps)
        graded = grade(replace(trace, id=f"{trace.id}/{leaf}", author=self.policy.name))
        return graded if growing.ended[leaf] else replace(graded, correct=False)

    def _in_lines(self, leaf: Trajectory) -> Trajectory:
        from footfall.policy.any_cut import in_lines

        return in_lines(self.policy, leaf, self.separator)

    def _trace(self, prefix: Trajectory, ids: tuple[int, ...], logprobs: tuple[float, ...]) -> Trajectory:
        steps = (Step(self._text(ids), token_ids=ids, logprobs=logprobs),) if ids else ()
        return replace(prefix, steps=steps, tokenizer=self.policy.vocabulary)

    def _text(self, ids: Sequence[int]) -> str:
        return str(
            self.policy.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )


def score_fragments(tree: Tree) -> Tree:
    """Give every fragment the share of right ones among the leaves below it, and the tree that of all leaves."""
    right, below = [0.0] * len(tree.nodes), [0] * len(tree.nodes)
    leaves = tree.leaves()
    for leaf in leaves:
        for node in tree.path(leaf):
            right[node] += tree.nodes[leaf].value or 0.0
            below[node] += 1
    for node in range(len(tree.nodes)):
        tree.update(node, value=right[node] / below[node])
    tree.value = sum(tree.nodes[leaf].value or 0.0 for leaf in leaves) / len(leaves) if leaves else None
    return tree
