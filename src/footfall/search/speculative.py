"""Speculative reward model: a cheap judge's preference is tested against the policy's own before a branch is grown (card:
speculative-rm).

At a node with K candidate steps, p_k is what the policy gives step k and q_k what the reward model gives it, each normalised
over the K:

    accept k with probability min(1, q_k / p_k)     (or exactly if q_k >= τ p_k);  if none is accepted, argmax_k q_k
    reward consistency  RC_k = min(q_k / p_k, c):  accepted steps are grown in descending order of it

Rejected steps are pruned with all that could grow from them. The host is a search level by level (a tree of thoughts): of
the accepted steps of a level the best `keep` by score go on, each with K candidates. With q = p all is accepted and the host
runs as without the test. p_k is exp of the mean log-probability of the step's tokens; where the policy tells none, each of
its K samples stands for 1 / K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from footfall.drive.requests import ROOT, BudgetSpent
from footfall.judging import IdleSettings, idle_settings
from footfall.registry import Declared, register, search_row
from footfall.search.beam import keep_best
from footfall.search.state import Course, SearchState, described
from footfall.search.votes import Aggregation, Rule, check_rule

_ROUNDING = 1e-9
"""So much is nothing: five equal rewards are not always a fifth each, to the last digit."""


def normalised(weights: Sequence[float]) -> list[float]:
    """Weights as shares of their sum; all alike if all are 0."""
    total = math.fsum(weights)
    return [weight / total for weight in weights] if total > 0 else [1 / len(weights)] * len(weights)


def consistency(q: Sequence[float], p: Sequence[float], clip: float = math.inf) -> list[float]:
    """RC_k = q_k / p_k, at most `clip`: above 1 the reward model likes the step better than the policy does."""
    return [min(liked / given, clip) if given > 0 else clip for liked, given in zip(q, p, strict=True)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the candidates of one node: the accepted ones in the order in which to grow them."""

    accepted: list[int]
    chances: list[float]
    """min(1, q / p) of each candidate."""
    consistency: list[float]


def verify(
    rewards: Sequence[float],
    given: Sequence[float],
    rng: np.random.Generator | None = None,
    tau: float = 1.0,
    clip: float = 10.0,
) -> Verdict:
    """The speculative test of some candidates by their rewards and the policy's weights; exact without a generator."""
    q, p = normalised(rewards), normalised(given)
    ratios = consistency(q, p)
    chances = [min(1.0, ratio) for ratio in ratios]
    if rng is None:
        passed = [k for k, ratio in enumerate(ratios) if ratio >= tau - _ROUNDING]
    else:
        drawn = rng.random(len(q))
        passed = [k for k, chance in enumerate(chances) if drawn[k] < chance]
    if not passed:
        passed = [max(range(len(q)), key=lambda k: (q[k], -k))]
    clipped = consistency(q, p, clip)
    return Verdict(sorted(passed, key=lambda k: (-clipped[k], k)), chances, clipped)


@register(
    "searcher",
    "speculative-rm",
    Declared(
        study=(search_row(22, "", "width", (2, 4, 8), settings=lambda k: {"width": k, "keep": k}),),
        dial="width=N keep=N",
        smoke={"width": 2, "keep": 2},
    ),
)
@dataclass(frozen=True)
class Speculative:
    """Speculative reward model: a step is grown only if the judge likes it about as well as the policy does."""

    judged: ClassVar[bool] = True
    width: int = 4
    """K, the candidates of a node."""
    keep: int = 4
    """How many nodes of a level go on at most."""
    test: bool = True
    """Whether candidates are tested; if not, this is the host search."""
    drawn: bool = True
    """Accept by chance, min(1, q / p); if not, exactly where q >= tau p."""
    tau: float = 1.0
    clip: float = 10.0
    aggregation: Aggregation = "last"
    rule: Rule = "best"
    iterations: int = 40

    def __post_init__(self) -> None:
        check_rule(self.rule, self.aggregation)
        if self.width < 1 or self.keep < 1 or self.iterations < 1 or self.tau < 0 or self.clip <= 0:
            raise ValueError(
                f"speculative search needs width, keep and iterations >= 1, tau >= 0 and clip > 0, not {self.name}"
            )

    @property
    def name(self) -> str:
        return described("speculative-rm", self)

    @property
    def idle(self) -> IdleSettings:
        """Without the test nothing of it; by chance, without the threshold."""
        return idle_settings(
            (not self.test, "drawn", "test=true"),
            (not self.test, "clip", "test=true"),
            (self.drawn or not self.test, "tau", "test=true with drawn=false"),
        )

    def search(self, state: SearchState) -> Course:
        """Level by level until nothing is open, the iterations are over or the budget is spent."""
        live, done = [ROOT], list[int]()
        try:
            for i in range(self.iterations):
                last = i == self.iterations - 1
                found = yield from state.expand(live, self.width, "end" if last else "step", score=True)
                grown = [node for children in found for node in self._accepted(state, children)]
                done += [node for node in grown if state.ended(node)]
                going = [node for node in grown if not state.ended(node)]
                live = keep_best(state, {node: state.aggregate(node, self.aggregation) for node in going}, self.keep)
                if not live:
                    break
        except BudgetSpent:
            pass
        return state.choose(done, self.rule, self.aggregation)

    def _accepted(self, state: SearchState, children: Sequence[int]) -> list[int]:
        """The children of one node that pass the test, those first that the judge likes most beyond the policy."""
        scored = {node: r for node in children if (r := state.aggregate(node, "last")) is not None}
        state.prune([node for node in dict.fromkeys(children) if node not in scored], "could not be judged")
        if not self.test or not scored:
            return list(scored)
        nodes, rng = list(scored), state.rng if self.drawn else None
        verdict = verify([max(r, 0.0) for r in scored.values()], _given(state, nodes), rng, self.tau, self.clip)
        passed = [nodes[k] for k in verdict.accepted]
        state.keep(passed, "accepted, by reward consistency", [verdict.consistency[k] for k in verdict.accepted])
        lost = [k for k in range(len(nodes)) if k not in verdict.accepted]
        rejected, ratios = [nodes[k] for k in lost], [verdict.consistency[k] for k in lost]
        state.prune(rejected, "rejected: the policy likes it better than the reward model does", ratios)
        return passed


def _given(state: SearchState, nodes: Sequence[int]) -> list[float]:
    """The weight that the policy gives each candidate."""
    logprobs = [state.tree.nodes[node].step.logprobs for node in nodes]
    if not all(logprobs):
        return [1.0] * len(nodes)
    return [math.exp(math.fsum(row) / len(row)) for row in logprobs if row]
