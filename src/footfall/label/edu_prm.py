"""Trees that branch where the writer could have gone either way (EDU-PRM): steps, solutions and labels in one go.

Decode greedily. Where the next-token distribution has H = -Σ p ln p > τ and the token is no mere symbol, close the fragment
before it and go on with both of the two likeliest tokens, until there are `leaves` solutions, earliest places first. Then

    score(fragment) = right leaves below it / leaves below it

Between branches decoding is greedy, so the first child goes on as its parent did: only second children are written anew. The
distributions are read from finished texts in a pass of its own, whose tokens are counted as `prompt_tokens`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from footfall.answers import grade
from footfall.drive.requests import Reread, Write
from footfall.drive.rollouts import Course, run_courses, ungradable
from footfall.drive.trees import GrowingTree, charged, leaf_rows, score_nodes, tree_of
from footfall.label.counting import CountingPolicy, CountingTokens
from footfall.policy.http import HttpPolicy
from footfall.policy.http_tokens import HttpTokens, served_tokenizer
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import NEVER, Declared, StudyRow, label_row, register
from footfall.render import decoded
from footfall.segment.tokens import is_symbol
from footfall.types import Barren, Cost, Harvest, Judged, Problem, Step, Trajectory, Tree, failures_of
from footfall.worlds.word_writer import WordWriter

if TYPE_CHECKING:
    from footfall.policy.torch_policy import TorchPolicy


class Thoughts(Protocol):
    """What a writer thought before each token of a text."""

    @property
    def entropy(self) -> Sequence[float]:
        """In nats."""
        ...

    @property
    def second(self) -> Sequence[int]:
        """The second likeliest token."""
        ...

    @property
    def second_logprob(self) -> Sequence[float]:
        """The log-probability of the second likeliest token, in each place."""
        ...


@runtime_checkable
class TokenWriter(Protocol):
    """What a tree needs of its writer: greedy texts in tokens, and the distribution before each of them."""

    @property
    def name(self) -> str:
        """Who writes, as of a policy."""
        ...

    @property
    def vocabulary(self) -> str:
        """The fingerprint of its tokenizer."""
        ...

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """As a policy: the greedy rest of each text, as one step; a prefix is cut anywhere."""
        ...

    def thoughts(self, trajectories: Sequence[Trajectory]) -> Sequence[Thoughts]:
        """What it thought before each token of each trace."""
        ...

    def ends(self, token: int) -> bool:
        """Whether the token is the end of a text."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """What the ids say."""
        ...

    def in_lines(self, trajectory: Trajectory) -> Trajectory:
        """A text that is cut anywhere, cut into its lines."""
        ...


@dataclass(frozen=True)
class _ModelWriter:
    """A model in this process."""

    policy: TorchPolicy
    separator: str

    @property
    def name(self) -> str:
        return self.policy.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        from footfall.policy.torch_policy import AnyCut

        return AnyCut(self.policy, self.separator).sample(prefixes, n, params, first)

    @property
    def vocabulary(self) -> str:
        return self.policy.vocabulary

    def thoughts(self, trajectories: Sequence[Trajectory]) -> Sequence[Thoughts]:
        from footfall.policy.torch_policy import next_tokens

        return next_tokens(self.policy, trajectories)

    def ends(self, token: int) -> bool:
        return token in self.policy.engine.eos

    def text(self, ids: Sequence[int]) -> str:
        return decoded(self.policy.tokenizer, ids)

    def in_lines(self, trajectory: Trajectory) -> Trajectory:
        from footfall.policy.splitting import in_lines

        return in_lines(trajectory, self.policy.tokenizer, self.separator)


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


class _Begun(NamedTuple):
    """What a new leaf begins with, and where it is cut."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cuts: set[int]


@dataclass
class _Growing:
    """The leaves of one problem so far; `cuts[k]` are the tokens of leaf k at which fragments begin."""

    prefix: Trajectory
    ids: list[tuple[int, ...]] = field(default_factory=list)
    logprobs: list[tuple[float, ...]] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    cuts: list[set[int]] = field(default_factory=list)
    anchors: list[_Anchor] = field(default_factory=list)

    def branch(self) -> _Begun:
        """The earliest place not used yet."""
        anchor = heapq.heappop(self.anchors)
        old = anchor.leaf
        shared = {cut for cut in self.cuts[old] if cut < anchor.at} | ({anchor.at} if anchor.at else set())
        self.cuts[old] |= {anchor.at} if anchor.at else set()
        begin = (*self.ids[old][: anchor.at], anchor.token)
        return _Begun(begin, (*self.logprobs[old][: anchor.at], anchor.logprob), shared)


@dataclass(frozen=True)
class EntropyTrees:
    """Grows trees with a model in this process, or another writer of tokens, all problems side by side."""

    policy: TorchPolicy | TokenWriter
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

    @cached_property
    def writer(self) -> TokenWriter:
        """The policy as one that writes after any token."""
        return self.policy if isinstance(self.policy, TokenWriter) else _ModelWriter(self.policy, self.separator)

    def grow(self, problems: Sequence[Problem]) -> list[Grown]:
        """A tree for each problem, with fragments scored by the answers of its leaves.

        The tree of a problem without a reference answer stays empty.
        """
        growing = [_Growing(Trajectory(problem.id, problem, separator="")) for problem in problems]
        params = SamplingParams(temperature=0.0, max_tokens=self.max_tokens)
        done = run_courses([self._course(each) for each in growing], self.writer, params)
        return [self._grown(each, ended.cost) for each, ended in zip(growing, done, strict=True)]

    def _course(self, growing: _Growing) -> Course[None]:
        """Write leaf after leaf, greedily, and note after each where others could branch off."""
        if ungradable(growing.prefix.problem):
            return
        ids, logprobs, cuts = _Begun((), (), set())
        while True:
            ((completion,),) = yield Write([self._trace(growing.prefix, ids, logprobs)], until="end")
            more = completion.steps[0] if completion.steps else Step("", token_ids=(), logprobs=())
            growing.ids.append(ids + (more.token_ids or ()))
            growing.logprobs.append(logprobs + (more.logprobs or ()))
            growing.ended.append(completion.finish == "end")
            growing.cuts.append(cuts)
            (thought,) = yield Reread([self._trace(growing.prefix, growing.ids[-1], growing.logprobs[-1])])
            self._note_anchors(growing, thought, len(ids))
            if not growing.anchors or len(growing.ids) >= self.leaves:
                return
            ids, logprobs, cuts = growing.branch()

    def _note_anchors(self, growing: _Growing, thought: Thoughts, first: int) -> None:
        """The places from token `first` on where the last leaf could have gone either way."""
        leaf = len(growing.ids) - 1
        for at in range(first, len(thought.entropy)):
            goes_on = not self.writer.ends(thought.second[at])
            if (
                thought.entropy[at] > self.threshold
                and goes_on
                and not is_symbol(self.writer.text(growing.ids[leaf][at : at + 1]))
            ):
                anchor = _Anchor(at, leaf, thought.second[at], thought.second_logprob[at])
                heapq.heappush(growing.anchors, anchor)

    def _grown(self, growing: _Growing, written: Cost) -> Grown:
        """`written`: the cost of all but the second likeliest tokens, which leaves after the first begin with."""
        cost = written + Cost(generated_tokens=max(0, len(growing.ids) - 1))
        fragments = [self._leaf(growing, leaf) for leaf in range(len(growing.ids))]
        if not fragments:
            return Grown(Tree(growing.prefix.problem, separator=""), (), cost)
        tree = tree_of(fragments)
        for fragment, ended in zip(fragments, growing.ended, strict=True):
            if not ended:
                tree.update(GrowingTree(tree).path(-1, fragment.steps)[-1], meta={"cut": True})
        score_fragments(tree)
        return Grown(tree, tuple(map(self.writer.in_lines, fragments)), cost)

    def _leaf(self, growing: _Growing, leaf: int) -> Trajectory:
        """A solution in fragments, graded; one that was cut at `max_tokens` is not right."""
        ids, probs = growing.ids[leaf], growing.logprobs[leaf]
        ends = [*sorted(growing.cuts[leaf]), len(ids)]
        steps = [
            Step(self.writer.text(ids[a:b]), token_ids=ids[a:b], logprobs=probs[a:b])
            for a, b in zip([0, *ends], ends, strict=False)
        ]
        trace = self._trace(growing.prefix, (), ()).extend(steps)
        graded = grade(replace(trace, id=f"{trace.id}/{leaf}", author=self.policy.name))
        return graded if growing.ended[leaf] else replace(graded, correct=False)

    def _trace(self, prefix: Trajectory, ids: tuple[int, ...], logprobs: tuple[float, ...]) -> Trajectory:
        steps = (Step(self.writer.text(ids), token_ids=ids, logprobs=logprobs),) if ids else ()
        return replace(prefix, steps=steps, tokenizer=self.writer.vocabulary)


def score_fragments(tree: Tree) -> Tree:
    """Give every fragment the share of right ones among the leaves below it, and the tree that of all leaves.

    A fragment after which every leaf was cut at `max_tokens` has the reason instead.
    """
    score_nodes(tree)
    return tree


@dataclass(frozen=True)
class EntropyHarvest:
    """Rows of the trees. What is written goes through no store, which would not keep what the writer thought."""

    trees: EntropyTrees

    @property
    def name(self) -> str:
        return self.trees.name

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest:
        """A row a solution."""
        found = Harvest()
        for each in replace(self.trees, separator=separator or "\n").grow(problems):
            found += _of_tree(each.tree, each.rows(self.name), each.cost)
        return found


@dataclass(frozen=True)
class ServedHarvest:
    """The same over a server, which counts by itself what it is asked; a problem of which a request failed has no tree."""

    trees: EntropyTrees
    policy: HttpPolicy

    @property
    def name(self) -> str:
        return self.trees.name

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest:
        """A row a solution."""
        writer = HttpTokens(self.policy, separator or "\n")
        found = Harvest()
        for each in replace(self.trees, policy=writer).grow(problems):
            cost, reason = writer.spent(each.tree.problem), writer.failure(each.tree.problem)
            if reason is None:
                found += _of_tree(each.tree, each.rows(self.name), cost)
            else:
                found += Harvest(cost=cost, barren=(Barren(each.tree.problem, reason),))
        return found


def _of_tree(tree: Tree, rows: Sequence[Judged], cost: Cost) -> Harvest:
    """The rows of one tree; its leaves count as rollouts."""
    barren = () if rows else (Barren(tree.problem, ungradable(tree.problem) or "no solution was written"),)
    leaves = [tree.nodes[leaf] for leaf in tree.leaves()]
    return Harvest(charged(rows, cost), cost, barren, len(leaves), sum("cut" in leaf.meta for leaf in leaves))


@dataclass(frozen=True)
class WholeTraces:
    """The trees' solutions in lines with a label each, as studies measure them."""

    trees: EntropyTrees

    @property
    def name(self) -> str:
        return self.trees.name

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Grown]:
        return replace(self.trees, separator=separator).grow(problems)

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        rows = [row for each in self.grow(problems, separator) for row in each.rows(self.name)]
        return [by_lines(row, self.trees.writer.in_lines(row.trajectory)) for row in rows]


def by_lines(row: Judged, lines: Trajectory) -> Judged:
    """The same text in lines: nothing branches within a fragment, so a line has the value of the fragment it ends in."""
    trajectory, said = row
    assert said is not None
    ends = list(accumulate(len(step.token_ids or ()) for step in trajectory.steps))
    closed = accumulate(len(step.token_ids or ()) for step in lines.steps)
    fragments = [bisect_left(ends, end) for end in closed]
    values = tuple(said.values[at] for at in fragments)
    failures = failures_of(said.failure(at) for at in fragments)
    return Judged(lines, replace(said, values=values, failures=failures).check(lines))


def whole_traces(threshold: float = 1.0) -> Callable[[Any, float], WholeTraces]:
    """Of a study: so many solutions each by its scripted writer, word by word, branching above `threshold` nats."""

    def make(setting: Any, budget: float) -> WholeTraces:
        writer = WordWriter(setting.scripted)
        return WholeTraces(EntropyTrees(writer, int(budget), threshold, setting.params.max_tokens))

    return make


def _row(place: int, name: str, threshold: float) -> StudyRow:
    return label_row(
        place, name, "solutions", make=whole_traces(threshold), threshold=NEVER, kind="own traces", value="values",
        worlds=("arithmetic", "logic", "algebra"),  # their lines are their words; a line of code has its indentation too
    )  # fmt: skip


@register(
    "tree-labeller",
    "edu-prm",
    # A slip is worth some tenths of a nat to the studies' writers, the wording of a line one or two.
    Declared(study=(_row(170, "edu-prm-tree", 1.0), _row(171, "edu-prm-tree-0.2", 0.2)), stored=False),
)
def edu_prm_trees(
    policy: Policy, trees: int, threshold: float = 1.0, max_tokens: int = 512
) -> EntropyHarvest | ServedHarvest:
    """A row a solution of up to so many that branch where the writer is unsure, valued at each fragment's end (EDU-PRM)."""
    writer = getattr(policy, "inner", policy)
    if isinstance(writer, HttpPolicy):
        served_tokenizer("edu-prm", writer)
    if isinstance(policy, CountingPolicy) and (writer is policy or isinstance(writer, HttpPolicy)):
        return EntropyHarvest(EntropyTrees(CountingTokens(policy), trees, threshold, max_tokens))
    if isinstance(policy, HttpPolicy):
        return ServedHarvest(EntropyTrees(HttpTokens(policy), trees, threshold, max_tokens), policy)
    from footfall.policy.torch_policy import TorchPolicy

    if not isinstance(policy, TorchPolicy):
        raise ValueError(
            "edu-prm reads the distribution before every token: it needs a model in this process as --policy (embedded, a "
            "folder or a hub id), or a server with --tokenizer"
        )
    return EntropyHarvest(EntropyTrees(policy, trees, threshold, max_tokens))
