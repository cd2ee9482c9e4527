"""What `--trees N` will ask for, before anything runs: the size of the trees, from their bounds and from the given traces.

    omegaprm   k rollouts of the problem, then at most N binary searches of ⌈log₂(L + 1)⌉ probes, k rollouts each
    edu-prm    at most N solutions, each a completion of a prefix that another one has
    hrm-hnc    at most N + N² + … + N^depth steps
    grounded-prm   at most N rounds of a few completions each

*At most* takes every completion for `max_tokens` long and every token for a step (L = max_tokens); *about* takes lengths and
numbers of steps from the given traces; *at least* is a tree that ends where it began.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from footfall.drive.tally import ungradable
from footfall.label.estimate import LENGTH_SLACK, Plan, TokenCount, Volume
from footfall.label.grounded_tree import GroundedTrees
from footfall.label.hrm_hnc import FullTrees
from footfall.label.omegaprm import OmegaPRM
from footfall.types import Trajectory

__all__ = ["planned_trees"]


@dataclass(frozen=True)
class _Usual:
    """Tokens of a problem, and tokens and steps of a solution, on the mean over the given traces."""

    prompt: float
    length: float
    steps: float


def planned_trees(method: object, traces: Sequence[Trajectory], tokens: TokenCount) -> Plan | None:
    """For all problems of these traces together; a problem without a reference answer has no tree. `None`: nobody knows."""
    written = [tokens.of(trace.text) for trace in traces]
    length = sum(written) / max(1, len(traces))
    steps = sum(len(trace.steps) for trace in traces) / max(1, len(traces))
    total = Plan(Volume(), Volume(), Volume())
    for problem in {trace.prefix(0).key: trace.problem for trace in traces}.values():
        one = _of_one(method, _Usual(tokens.of(problem.text), max(length, 1.0), max(steps, 1.0)))
        if one is None:
            return None
        total = total if ungradable(problem) else total.plus(one)
    return total


def _of_one(method: Any, usual: _Usual) -> Plan | None:
    if isinstance(method, OmegaPRM):
        return _searched(method, usual)
    if hasattr(method, "trees"):
        return _branched(method.trees.leaves, method.trees.max_tokens, usual)
    if isinstance(method, GroundedTrees):
        return _simulated(method, usual)
    if isinstance(method, FullTrees):
        return _full(method.branch, method.depth, method.params.max_tokens, usual)
    return None


def _searched(method: OmegaPRM, usual: _Usual) -> Plan:
    k, searches, limit = method.rollouts, method.searches, method.params.max_tokens
    length, half = min(usual.length, limit), min(usual.length, limit) / 2
    probes = k * searches * _probes(usual.steps)
    expected = _volume(k, length, usual.prompt) + _volume(probes, half, usual.prompt + half)
    most = k * _probes(limit)
    # A search goes on from where an earlier one was, at most a whole completion further.
    read = sum(most * (usual.prompt + s * limit) for s in range(1, searches + 1))
    calls = k + searches * most
    prompt = k * usual.prompt + read
    high = Volume(calls, calls * limit, prompt, prompt * (k - 1) / k)
    return Plan(_volume(k, length / LENGTH_SLACK, usual.prompt), expected, high)


def _probes(steps: float) -> int:
    """Of a binary search for the first error among so many steps, at most."""
    return max(1, math.ceil(math.log2(steps + 1)))


def _branched(leaves: int, limit: int, usual: _Usual) -> Plan:
    length = min(usual.length, limit)
    first = _volume(1, length, usual.prompt)
    low = _volume(1, length / LENGTH_SLACK, usual.prompt)
    expected = first + _volume(leaves - 1, length / 2, usual.prompt + length / 2)
    # A solution goes on from another one, at most a whole completion further; a model in this process reads it all once more.
    high = Volume()
    for k in range(leaves):
        high += _volume(1, limit, usual.prompt + (2 * k + 1) * limit)
    return Plan(low, expected, high + Volume(cached=high.prompt * (leaves - 1) / leaves))


def _simulated(method: GroundedTrees, usual: _Usual) -> Plan:
    """Each round completes a prefix that is at most a step longer than that of the one before."""
    n, limit, length = method.children, method.params.max_tokens, min(usual.length, method.params.max_tokens)
    expected = _volume(n, length, usual.prompt)
    expected += _volume(n * (method.rounds - 1), length / 2, usual.prompt + length / 2)
    high = Volume()
    for k in range(method.rounds):
        high += _volume(n, limit, usual.prompt + min(k, method.depth) * limit)
    return Plan(_volume(n, length / LENGTH_SLACK, usual.prompt), expected, high)


def _full(branch: int, depth: int, limit: int, usual: _Usual) -> Plan:
    """Level by level: `branch` steps after each node of the one before."""
    step = min(usual.length / usual.steps, limit)
    expected, high = Volume(), Volume()
    for level in range(1, depth + 1):
        if level <= max(1, round(usual.steps)):
            expected += _volume(branch**level, step, usual.prompt + (level - 1) * step)
        high += _volume(branch**level, limit, usual.prompt + (level - 1) * limit)
    return Plan(_volume(branch, min(1.0, step), usual.prompt), expected, high)


def _volume(calls: float, length: float, prompt: float) -> Volume:
    return Volume(calls, calls * length, calls * prompt, max(0.0, calls - 1) * prompt)
