"""Accurate and Diverse LLM Mathematical Reasoning via Automated PRM-Guided GFlowNets (Younsi et al., arXiv 2504.19981).

A GFlowNet samples a solution x with probability in proportion to R(x) = Π_j r_j, r_j the PRM's value of step j, where a reward
maximiser (PPO) keeps to the best one:

    P(a | s) = r_a / Σ_b r_b

What differs: no policy is tuned. Of 4 steps that the scripted policy proposes, alike ones counted once, one is drawn in
proportion to its reward; the maximiser takes the best of as many. r is the policy's exact value, blurred so that finished
solutions are told apart with an AUC of 0.94. Each samples 16 solutions with the same number of proposals; r^4 is a sharper
reward, on the way to the maximiser. Accuracy is that of the samples themselves. Two right solutions are distinct if they do not
write the same relations one after the other, whatever the words; similarity is the mean over pairs of right ones of the
relations that they share (the paper: of sentence embeddings).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import WORLDS, WritesWell
from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Method, Searcher
from footfall.search.gflownet import GFlowNet
from footfall.simulate import Blurred
from footfall.types import Cost, SearchResult, Trajectory

RECIPE = Recipe(
    name="gflownet",
    paper="Accurate and Diverse LLM Mathematical Reasoning via Automated PRM-Guided GFlowNets",
    arxiv="2504.19981", year=2025, stage="search", world="algebra",
    scale="Scripted policy, blurred exact value as reward; 16 samples of each of 12 problems a seed, 4 proposals a step.",
    claims=(
        Claim("Sampling in proportion to reward finds more distinct right solutions than maximising it.",
            metric="distinct right solutions of 16", direction="higher",
            baseline="maximiser, distinct", method="in proportion, distinct",
            beside=("policy, distinct", "in proportion to r^4, distinct"),
            stand_in="The paper fine-tunes the policy by sub-trajectory balance; here proposals are drawn in "
            "proportion to an exact reward.",
        ),
        Claim("Right solutions are less alike than those of the maximiser.",
            metric="mean similarity of two right solutions", direction="lower",
            baseline="maximiser, similarity", method="in proportion, similarity",
            beside=("policy, similarity", "in proportion to r^4, similarity"),
        ),
        Claim("Its accuracy is that of the maximiser, or at most two points less.",
            metric="share of right samples", direction="higher", margin=-0.02,
            baseline="maximiser", method="in proportion", beside=("in proportion to r^4",),
        ),
        Claim("Its accuracy is higher than the policy's.",
            metric="share of right samples", direction="higher", baseline="policy", method="in proportion",
        ),
    ),
)  # fmt: skip
N, PROPOSALS = 16, 4
_RELATION = re.compile(r"[-+*/^() 0-9a-z]*=[-+*/^() 0-9a-z,=]*")


def measure(trial: Trial) -> Outcome:
    """Right solutions, different ones among them and their likeness, for samplers and maximisers."""
    world, policy, _ = WORLDS["algebra"]
    problems = world.problems(trial.size(12, 1), trial.seed)
    judge = Blurred(_ByRoute(policy), seed=trial.seed)
    params = SamplingParams(seed=trial.seed, max_tokens=200)
    methods: dict[str, Method] = {
        "policy": BestOf(N, "majority"),
        "maximiser": GFlowNet(N, PROPOSALS, temperature=0),
        "in proportion": GFlowNet(N, PROPOSALS),
        "in proportion to r^4": GFlowNet(N, PROPOSALS, temperature=0.25),
    }
    figures: dict[str, Callable[[Sequence[Trajectory]], float]] = {
        "": lambda traces: sum(bool(t.correct) for t in traces) / max(1, len(traces)),
        ", distinct": lambda traces: len({_route(t) for t in traces if t.correct}),
        ", similarity": _similarity,
    }
    arms: dict[str, list[float]] = {}
    cost = Cost()
    for name, method in methods.items():
        searcher = Searcher(policy, judge if method.judged else None, method, params=params, separator="\n")
        found = searcher.solve(problems)
        pools = [_solutions(result) for result in found]
        arms |= {name + of: [figure(pool) for pool in pools] for of, figure in figures.items()}
        cost += Cost.total(result.cost for result in found)
    return Outcome(arms, cost)


def _solutions(result: SearchResult) -> list[Trajectory]:
    """The first 16 solutions that a search ended with."""
    return [trace for trace, _ in result.candidates][:N]


class _ByRoute:
    """The policy's value of a prefix, worked out once for all wordings of the same relations."""

    def __init__(self, policy: WritesWell) -> None:
        self.policy, self.name = policy, policy.name
        self._known: dict[tuple[str, ...], float] = {}

    def value(self, prefix: Trajectory) -> float:
        key = (prefix.problem.id, *_route(prefix))
        if key not in self._known:
            self._known[key] = self.policy.value(prefix)
        return self._known[key]


def _route(trace: Trajectory) -> tuple[str, ...]:
    """What a solution says step by step: its relations without the words around them, its answer in full."""
    return tuple(_relations(step.text) for step in trace.steps)


@lru_cache(maxsize=1 << 16)
def _relations(text: str) -> str:
    found = "" if "answer" in text else "".join(_RELATION.findall(text))
    return re.sub(r"[a-z]{2,}|\s", "", found) or text


def _similarity(traces: Sequence[Trajectory]) -> float:
    """Mean Jaccard similarity of the relations in two right solutions; 1 where there are no two."""
    routes = [set(_route(trace)) for trace in traces if trace.correct]
    shared = [len(a & b) / max(1, len(a | b)) for a, b in combinations(routes, 2)]
    return sum(shared) / len(shared) if shared else 1.0
