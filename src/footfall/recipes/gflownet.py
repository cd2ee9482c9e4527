"""Accurate and Diverse LLM Mathematical Reasoning via Automated PRM-Guided GFlowNets (Younsi et al., arXiv 2504.19981).

A GFlowNet samples a solution x with probability in proportion to R(x) = Π_j r_j, r_j the PRM's value of step j, where a reward
maximiser (PPO) keeps to the best one. The policy is tuned by sub-trajectory balance over all 0 ≤ i < j ≤ n of a solution,

    δ_ij = ln R(s_i) + Σ_{t=i+1..j} ln π(step_t | s_{t-1}) + ln π(end | s_j) − ln R(s_j) − ln π(end | s_i),   loss: mean of δ²

on samples from a replay buffer (1000, the lowest mean reward evicted, drawn in proportion to it and removed).

What differs: the policy is the embedded model, the PRM the lab's on Monte Carlo labels; 40 updates of 16 solutions, at a
learning rate of 1e-4 instead of 3e-6, which the model's size asks for. The maximiser is a policy gradient on the same R,
problems and number of updates, in the place of PPO. Accuracy is that of the samples themselves; similarity is the mean over
pairs of right solutions of the lines that they share (the paper: of sentence embeddings).

Without tuning, on algebra: of 4 steps that a scripted policy proposes, alike ones counted once, one is drawn in proportion to
its reward, P(a | s) = r_a / Σ_b r_b; the maximiser takes the best of as many. r is the policy's exact value, blurred so that
finished solutions are told apart with an AUC of 0.94; r^4 is a sharper reward, on the way to the maximiser. There two right
solutions are distinct if they do not write the same relations one after the other, whatever the words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.known import WORLDS
from footfall.lab.shared.routes import ByRoute, lines, route, similarity
from footfall.policy.embedded import embedded
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.search import BestOf, Method, Searcher
from footfall.search.gflownet import GFlowNet
from footfall.simulate import Blurred
from footfall.train.gflownet import BalanceConfig, tune
from footfall.types import Cost, Trajectory
from footfall.worlds import ArithmeticWorld

RECIPE = Recipe(
    name="gflownet",
    paper="Accurate and Diverse LLM Mathematical Reasoning via Automated PRM-Guided GFlowNets",
    arxiv="2504.19981", year=2025, stage="search", world="arithmetic, algebra",
    scale="Embedded Llama of 1.1M parameters tuned on 150 problems, 16 samples of each of 40 others a seed. Without tuning: "
    "scripted policy, blurred exact value as reward; 16 samples of each of 12 problems, 4 proposals a step.",
    claims=(
        Claim("A policy that is tuned by sub-trajectory balance solves more than before.",
            metric="share of right samples, tuned", direction="higher",
            baseline="embedded policy", method="tuned by balance", beside=("tuned to maximise",),
        ),
        Claim("Sampling in proportion to reward finds more distinct right solutions than maximising it.",
            metric="distinct right solutions of 16", direction="higher",
            baseline="maximiser, distinct", method="in proportion, distinct",
            beside=("policy, distinct", "in proportion to r^4, distinct"),
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


def measure(trial: Trial) -> Outcome:
    """Right solutions, different ones among them and their likeness, for samplers and maximisers."""
    world, policy, _ = WORLDS["algebra"]
    problems = world.problems(trial.size(12, 1), trial.seed)
    judge = Blurred(ByRoute(policy), seed=trial.seed)
    params = SamplingParams(seed=trial.seed, max_tokens=200)
    methods: dict[str, Method] = {
        "policy": BestOf(N, "majority"),
        "maximiser": GFlowNet(N, PROPOSALS, temperature=0),
        "in proportion": GFlowNet(N, PROPOSALS),
        "in proportion to r^4": GFlowNet(N, PROPOSALS, temperature=0.25),
    }
    figures: dict[str, Callable[[Sequence[Trajectory]], float]] = {
        "": lambda traces: sum(bool(t.correct) for t in traces) / max(1, len(traces)),
        ", distinct": lambda traces: len({route(t) for t in traces if t.correct}),
        ", similarity": similarity,
    }
    arms: dict[str, list[float]] = {}
    cost = Cost()
    for name, method in methods.items():
        searcher = Searcher(policy, judge if method.judged else None, method, params=params, separator="\n")
        found = searcher.solve(problems)
        pools = [[trace for trace, _ in result.candidates][:N] for result in found]
        arms |= {name + of: [figure(pool) for pool in pools] for of, figure in figures.items()}
        cost += Cost.total(result.cost for result in found)
    tuned, spent = _tuned(trial)
    return Outcome(arms | tuned, cost + spent)


def _tuned(trial: Trial) -> tuple[dict[str, list[float]], Cost]:
    """Share of right samples and their likeness, of the embedded policy as it is and tuned in two ways; what that cost."""
    world, judge, params = ArithmeticWorld(), prms.judge(trial, "monte-carlo"), prms.params(trial)
    train = [world.prefix(problem) for problem in world.problems(trial.size(150, 4), trial.seed)]
    tops = [world.prefix(problem) for problem in world.problems(trial.size(40, 2), trial.seed, split="test")]
    config = BalanceConfig(rounds=trial.size(40, 2), problems=trial.size(16, 4), seed=trial.seed)
    ways: dict[str, Literal["balance", "maximise"] | None] = {
        "embedded policy": None, "tuned by balance": "balance", "tuned to maximise": "maximise",
    }  # fmt: skip
    arms: dict[str, list[float]] = {}
    cost = prms.spent(trial, "monte-carlo", used_pool="no")
    for name, how in ways.items():
        policy = embedded()
        if how is not None:
            cost += tune(policy, train, judge, params, config, how).cost
        rows = draw_traces(policy, tops, trial.size(N, 3), params)
        arms[name] = [sum(bool(t.correct) for t in row) / len(row) for row in rows]
        arms[f"{name}, similarity"] = [similarity(row, lines) for row in rows]
        cost += Cost.total(t.cost for row in rows for t in row)
    return arms, cost
