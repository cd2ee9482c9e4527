"""RewardBench: Evaluating Reward Models for Language Modeling (Lambert et al., arXiv 2403.13787).

A pair of a chosen and a rejected response counts 1 if the chosen one is scored strictly higher, else 0: a tie is wrong. A PRM
scores a response by an aggregate of its step values, here min_k v_k.

The paper's hard pairs (LLMBar in Chat Hard) are those in which the rejected response is a fluent answer to a neighbouring
question, where many reward models are no better than chance.

What differs: both responses solve arithmetic. The plain pairs are like math-prm, a right solution of a problem against a wrong
one by the same policy. In a neighbour's pair the same right solution stands against itself with one number of the problem
stated wrongly and everything after it done right: the solution of a neighbouring problem, divisions that do not come out being
rounded. The PRM is trained on Monte Carlo labels of what the policy writes, which mistakes operations and results, not numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import credits, response_cases
from footfall.lab.shared.flaws import flawed_cases, right_traces
from footfall.lab.shared.prms import judge, pool, right_and_wrong, spent
from footfall.metrics.cases import RandomJudge
from footfall.metrics.preferences import strict_credit
from footfall.types import Cost, Judgement, Trajectory

RECIPE = Recipe(
    name="rewardbench",
    paper="RewardBench: Evaluating Reward Models for Language Modeling",
    arxiv="2403.13787",
    year=2024,
    stage="eval",
    world="arithmetic",
    scale="A PRM of 1.1M parameters on Monte Carlo labels of 600 traces; a seed has a pair of each kind of each of 100 "
    "held-out problems that has a right and a wrong one among 8 solutions.",
    claims=(
        Claim(
            "A reward model tells a right solution from one of a neighbouring problem less often than from a wrong one.",
            metric="strict accuracy on pairs",
            direction="lower", baseline="PRM, min", method="PRM, min, neighbours",
            beside=("longer wins", "shorter wins", "PRM, mean", "PRM, mean, neighbours"),
            stand_in="The paper's plain and hard pairs are chat; here both are solutions of arithmetic problems.",
        ),
        Claim(
            "On neighbours it is better than chance.",
            metric="strict accuracy on pairs",
            direction="higher", baseline="random, neighbours", method="PRM, min, neighbours",
            beside=("longer wins, neighbours", "shorter wins, neighbours"),
            stand_in="The paper counts reward models below chance on LLMBar.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy on plain pairs and on neighbours, of a PRM by aggregation, of length and of chance."""
    given = pool(trial)
    wrong = {right[0].problem.id: others[0] for right, others in right_and_wrong(given)}
    chosen = [trace for trace in right_traces(given) if trace.problem.id in wrong]
    near = {c.group: c.trajectory for c in flawed_cases(chosen, {"neighbour": "wrong operand"}, trial.seed)[::2]}
    chosen = [trace for trace in chosen if trace.id in near]
    prm = judge(trial, "monte-carlo")
    arms: dict[str, list[float]] = {}
    cost = spent(trial, "monte-carlo", used_pool="sampled")
    for suffix, rejected in (
        ("", [wrong[trace.problem.id] for trace in chosen]),
        (", neighbours", [near[trace.id] for trace in chosen]),
    ):
        pairs = response_cases([t for pair in zip(chosen, rejected, strict=True) for t in pair], "math-prm")
        traces = [case.trajectory for case in pairs]
        said = {
            "longer wins": _by_length(traces, 1),
            "shorter wins": _by_length(traces, -1),
            "random": RandomJudge(trial.seed).judge(traces),
        }
        arms |= {f"{name}{suffix}": credits(pairs, each, "min", strict_credit) for name, each in said.items()}
        scored = prm.judge(traces)
        cost += Cost.total(each.cost for each in scored)
        arms |= {f"PRM, {how}{suffix}": credits(pairs, scored, how, strict_credit) for how in ("min", "mean")}
    return Outcome(arms, cost)


def _by_length(traces: Sequence[Trajectory], sign: int) -> list[Judgement]:
    return [Judgement(t.id, (None,) * len(t.steps), "length", float(sign * len(t.text))) for t in traces]
