"""RewardBench: Evaluating Reward Models for Language Modeling (Lambert et al., arXiv 2403.13787).

A pair of a chosen and a rejected response counts 1 if the chosen one is scored strictly higher, else 0: a tie is wrong. A PRM
scores a response by an aggregate of its step values, here min_k v_k.

What differs: one subset, like math-prm (a right solution of a problem against a wrong one), and both by the same policy, so
that style tells nothing. The PRM is trained on Monte Carlo labels. Length may win either way round: the better one of each
seed is the baseline.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import Said, credits, response_cases
from footfall.lab.shared.prms import judged_pool, pool, right_and_wrong, spent
from footfall.metrics.cases import RandomJudge, always_right
from footfall.metrics.preferences import strict_credit
from footfall.types import Judge, Judgement

RECIPE = Recipe(
    name="rewardbench",
    paper="RewardBench: Evaluating Reward Models for Language Modeling",
    arxiv="2403.13787",
    year=2024,
    stage="eval",
    world="arithmetic",
    scale="A PRM of 1.1M parameters on Monte Carlo labels of 600 traces; a seed has a pair of each of 100 held-out problems "
    "that has a right and a wrong one among 8 solutions.",
    claims=(
        Claim(
            "A reward model tells chosen from rejected better than length does.",
            metric="strict accuracy on pairs",
            direction="higher", baseline="length", method="PRM, min",
            beside=("longer wins", "shorter wins", "PRM, prod", "PRM, mean", "PRM, last"),
            stand_in="The paper's pairs are chat, safety and code; here they are right and wrong arithmetic solutions.",
        ),
        Claim(
            "A constant scorer gets nothing, not one half as chance does.",
            metric="strict accuracy on pairs",
            direction="lower", baseline="random", method="constant",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy on pairs of a PRM by aggregation, and of length, chance and a constant."""
    pairs = response_cases(
        [t for right, wrong in right_and_wrong(pool(trial)) for t in (right[0], wrong[0])], "math-prm"
    )
    traces = [case.trajectory for case in pairs]

    def by_length(sign: int) -> Judge:
        values = [Judgement(t.id, (None,) * len(t.steps), "length", float(sign * len(t.text))) for t in traces]
        return Said.of("length", values)

    judges: dict[str, Judge] = {
        "longer wins": by_length(1), "shorter wins": by_length(-1), "random": RandomJudge(trial.seed),
        "constant": always_right(),
    }  # fmt: skip
    arms = {name: credits(pairs, judge.judge(traces), "min", strict_credit) for name, judge in judges.items()}
    arms["length"] = max(arms["longer wins"], arms["shorter wins"], key=sum)
    said = Said.of("PRM", judged_pool(trial, "monte-carlo")).judge(traces)
    arms |= {f"PRM, {how}": credits(pairs, said, how, strict_credit) for how in ("min", "prod", "mean", "last")}
    return Outcome(arms, spent(trial, "monte-carlo"))
