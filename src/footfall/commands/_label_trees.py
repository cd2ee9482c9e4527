"""`footfall label --trees N`: process data from the problems of a file, by methods that grow trees of traces of their own.

omegaprm      N binary searches a problem: rows of the nodes that were probed
edu-prm       N solutions that branch where the writer is unsure: a row a solution, valued at the end of each fragment
hrm-hnc       N steps after every node, some nodes merged with their parents: a row a step, and a row a pair of steps
grounded-prm  N rounds of simulations whose steps a tool verifies: a row a clean path, with rationales (also: grounded)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from footfall.commands._judges import without_seconds
from footfall.commands._options import PolicyOptions
from footfall.commands._parts import call_factory, open_policy, served_tokenizer
from footfall.drive.rollouts import drawn, ungradable
from footfall.drive.trees import Harvest, charged
from footfall.label.counting import CountingPolicy
from footfall.label.edu_prm import EntropyTrees
from footfall.label.grounded import GroundedTrees
from footfall.label.hrm_hnc import FullTrees, compress, tree_samples
from footfall.label.omegaprm import BinarySearch, OmegaPRM
from footfall.policy.protocol import Policy, SamplingParams
from footfall.store import Run
from footfall.types import Cost, Judge, Judged, Problem, Trajectory, Tree, content_key

if TYPE_CHECKING:
    from footfall.policy.http import HttpPolicy

__all__ = ["GROWERS", "Grower", "grower", "harvested", "tree_search", "without_answer"]


@runtime_checkable
class Grower(Protocol):
    """Makes judged rows from problems alone, and says what was asked for them and which problems gave none."""

    @property
    def name(self) -> str: ...

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest: ...


def tree_search(judge: Judge, searches: int) -> OmegaPRM:
    """The tree search with the policy and the rollouts of the binary search that `--method omegaprm` is."""
    if not isinstance(judge, BinarySearch):
        *others, last = GROWERS
        raise ValueError(
            f"--trees grows the trees of --method omegaprm, {', '.join(others)} or {last}; {judge.name} has none"
        )
    if judge.lost or judge.estimate != "hard":
        raise ValueError("--trees values nodes by their success rates: it takes no --values and no --set lost=…")
    return OmegaPRM(judge.policy, judge.rollouts, searches, params=judge.params)


@dataclass(frozen=True)
class _Branching:
    """EDU-PRM's trees. What is written goes through no store, which would not keep what the writer thought."""

    trees: EntropyTrees

    @property
    def name(self) -> str:
        return self.trees.name

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest:
        found = Harvest()
        for each in replace(self.trees, separator=separator or "\n").grow(problems):
            found += _of_tree(each.tree, each.rows(self.name), each.cost)
        return found


@dataclass(frozen=True)
class _ServedBranching:
    """The same over a server, which counts by itself what it is asked; a problem of which a request failed has no tree."""

    trees: EntropyTrees
    policy: HttpPolicy

    @property
    def name(self) -> str:
        return self.trees.name

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest:
        from footfall.policy.http_tokens import HttpTokens

        writer = HttpTokens(self.policy, separator or "\n")
        found = Harvest()
        for each in replace(self.trees, policy=writer).grow(problems):
            cost, reason = writer.spent(each.tree.problem), writer.failure(each.tree.problem)
            if reason is None:
                found += _of_tree(each.tree, each.rows(self.name), cost)
            else:
                found += Harvest(cost=cost, barren=((each.tree.problem, reason),))
        return found


def _of_tree(tree: Tree, rows: Sequence[Judged], cost: Cost) -> Harvest:
    """The rows of one tree; its leaves count as rollouts."""
    barren = () if rows else ((tree.problem, ungradable(tree.problem) or "no solution was written"),)
    leaves = [tree.nodes[leaf] for leaf in tree.leaves()]
    return Harvest(charged(rows, cost), cost, barren, len(leaves), sum("cut" in leaf.meta for leaf in leaves))


@dataclass(frozen=True)
class _Hierarchical(FullTrees):
    """HRM's full trees together with their compressed copies; a problem's copy does not depend on the others."""

    share: float = 0.5

    @property
    def name(self) -> str:
        size = f"branch={self.branch},depth={self.depth},share={self.share:g}"
        return f"hrm-hnc({self.policy.name},{size},{drawn(self.params)})"

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest:
        grown = self.grow(problems, separator)
        both = [each for tree in grown.trees for each in (tree, self._compressed(tree))]
        rows = charged(tree_samples(both, self.name, silent=True), grown.cost)
        barren = tuple((problems[t], reason) for t, reason in grown.silences.items())
        return Harvest(rows, grown.cost, barren, grown.written, grown.unfinished)

    def _compressed(self, tree: Tree) -> Tree:
        own = int(content_key("hrm-hnc", tree.problem.id)[:12], 16)
        return compress(tree, np.random.default_rng([self.params.seed, own]), self.share)


def _edu_prm(
    policy: Policy, trees: int, threshold: float = 1.0, max_tokens: int = 512
) -> _Branching | _ServedBranching:
    from footfall.policy.http import HttpPolicy

    writer = getattr(policy, "inner", policy)
    if isinstance(writer, HttpPolicy):
        served_tokenizer("edu-prm", writer)
    if isinstance(policy, CountingPolicy) and (writer is policy or isinstance(writer, HttpPolicy)):
        return _Branching(EntropyTrees(policy, trees, threshold, max_tokens))
    if isinstance(policy, HttpPolicy):
        from footfall.policy.http_tokens import HttpTokens

        return _ServedBranching(EntropyTrees(HttpTokens(policy), trees, threshold, max_tokens), policy)
    from footfall.policy.torch_policy import TorchPolicy

    if not isinstance(policy, TorchPolicy):
        raise ValueError(
            "edu-prm reads the distribution before every token: it needs a model in this process as --policy (embedded, a "
            "folder or a hub id), or a server with --tokenizer"
        )
    return _Branching(EntropyTrees(policy, trees, threshold, max_tokens))


def _hrm_hnc(
    policy: Policy,
    trees: int,
    depth: int = 5,
    share: float = 0.5,
    params: SamplingParams = SamplingParams(temperature=0.1),
) -> _Hierarchical:
    if trees < 1 or depth < 1 or not 0 <= share <= 1:
        raise ValueError("hrm-hnc needs --trees and depth of 1 at least, and a share from 0 to 1")
    return _Hierarchical(policy, trees, depth, params, share)


def _grounded_prm(
    policy: Policy,
    trees: int,
    children: int = 3,
    depth: int = 9,
    wanted: int = 3,
    select: Literal["uct", "random"] = "uct",
    params: SamplingParams = SamplingParams(),
) -> GroundedTrees:
    return GroundedTrees(
        policy, rounds=trees, children=children, depth=depth, wanted=wanted, select=select, params=params
    )


GROWERS: dict[str, Callable[..., Grower]] = {
    "edu-prm": _edu_prm,
    "hrm-hnc": _hrm_hnc,
    "grounded-prm": _grounded_prm,
    "grounded": _grounded_prm,
}
"""Methods of --trees beside the tree search of omegaprm, whose settings are those of its labeller."""


def grower(
    name: str,
    trees: int,
    asked: Mapping[str, Any],
    offered: Mapping[str, Any],
    opening: Callable[[PolicyOptions], Policy],
) -> Grower:
    """The method with the options that were given."""
    opening = open_policy if name == "edu-prm" and not hasattr(opening, "rehearsal") else opening
    made: Grower = call_factory(GROWERS[name], "method", name, {**asked, "trees": trees}, offered, opening)
    return made


def harvested(run: Run, method: Grower, traces: Sequence[Trajectory], chunk: int) -> Harvest:
    """What the trees of these traces' problems gave, each problem once, in order; the run is charged for all of it.

    Chunks are not saved, for a tree has any number of rows: after a kill the rollout store has what was paid for.
    """
    found = Harvest()
    tops = list({trace.prefix(0).key: (trace.problem, trace.separator) for trace in traces}.values())
    for index, start in enumerate(range(0, len(tops), chunk)):
        begun, part = time.monotonic(), tops[start : start + chunk]
        for separator in dict.fromkeys(separator for _, separator in part):
            found += method.harvest([problem for problem, own in part if own == separator], separator)
        seconds = round(time.monotonic() - begun, 3)
        run.log("chunk", stage="trees", index=index, items=len(part), seconds=seconds)
    rows = [Judged(trace, said and without_seconds(said)) for trace, said in found.rows]
    run.cost += replace(found.cost, seconds=0.0)
    return replace(found, rows=rows)


def without_answer(traces: Sequence[Trajectory]) -> int:
    """How many different problems have no tree, for nobody could say which rollouts are right."""
    return len({trace.problem.id for trace in traces if ungradable(trace.problem)})
