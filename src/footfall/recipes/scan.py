"""SCAN: Self-Denoising Monte Carlo Annotation for Robust Process Reward Learning (Ding et al., arXiv 2509.16548).

Of N responses to a problem a share SC is right; only problems with SC >= 0.75 are used. Right responses are taken as all good
without a rollout. In a wrong one, with success rates c_t of 8 rollouts a step up to the first t* with c_t = 0,

    y_t* = 0;   y_t = min(c_t / SC, 1) for t* − 2 <= t < t*;   y_t = 1 before

and a PRM is trained by cross-entropy on y, on as many right as wrong responses.

What differs: N = 8 instead of 128; the world's scripted policy is both generator and completer. Raw Monte Carlo rolls out
every step of all responses up to the first without a success, and trains on 1[c_t > 0]; a PRM on c_t itself stands beside it.
Equal cost: SCAN goes through further problems until it has generated as many tokens, responses included, as raw Monte Carlo
on 2,400 responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import best_of_n, both_f1, misplaced
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.scan import SelfDenoising, balanced
from footfall.policy.protocol import draw_traces
from footfall.types import Cost, Judged, Judgement, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

RECIPE = Recipe(
    name="scan",
    paper="SCAN: Self-Denoising Monte Carlo Annotation for Robust Process Reward Learning",
    arxiv="2509.16548",
    year=2025,
    stage="data",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters) on scripted responses whose labels cost equally many tokens: 2,400 with "
    "raw Monte Carlo, those of up to 3,000 problems with SCAN; a seed has 8,000 solutions of 1,000 held-out problems.",
    claims=(
        Claim(
            "At equal cost, a PRM trained on self-denoised labels finds first errors better than one on raw Monte Carlo.",
            metric="F1 of the first error",
            direction="higher", baseline="raw Monte Carlo", method="SCAN",
            beside=("raw Monte Carlo at 0.5", "SCAN at 0.5"), threshold="other data",
        ),
        Claim(
            "At equal cost, it finds first errors better than one on soft Monte Carlo labels too.",
            metric="F1 of the first error",
            direction="higher", baseline="soft Monte Carlo", method="SCAN", threshold="other data",
        ),
        Claim(
            "Self-denoised labels place the error of a wrong response more often rightly than raw Monte Carlo.",
            metric="share of labelled wrong responses whose first error is misplaced",
            direction="lower", baseline="raw Monte Carlo, noise", method="SCAN, noise",
            beside=("raw Monte Carlo cut at 0.5, noise",),
        ),
        Claim(
            "At equal cost, a PRM trained on self-denoised labels gives better best-of-N than one on raw Monte Carlo.",
            metric="accuracy of best-of-8, min",
            direction="higher", baseline="raw Monte Carlo, best-of-8", method="SCAN, best-of-8",
            beside=("soft Monte Carlo, best-of-8",),
        ),
    ),
)  # fmt: skip

HARD = 1 / 16
"""Below it there was no success in 8 rollouts."""


def measure(trial: Trial) -> Outcome:
    """Misplaced first errors of raw and denoised labels of equal tokens, and PRMs trained on either."""
    trial = prms.large(trial)
    world, policy, params, pool = ArithmeticWorld(), ArithmeticPolicy(), prms.params(trial), prms.arm_pool(trial)
    prefixes = [world.prefix(problem) for problem in world.problems(trial.size(3000, 12), trial.seed)]
    drawn = draw_traces(policy, prefixes, 8, params)
    few = [trace for row in drawn[: trial.size(600, 2)] for trace in row[:4]]
    raw = MonteCarlo(policy, 8, "soft", "first-error", params=params).judge(few)
    budget = Cost.total([*(trace.cost for trace in few), *(said.cost for said in raw)])
    # The responses that SCAN asks for are these traces, drawn again: its own cost has them already.
    many = [trace for row in drawn for trace in row]
    denoised = SelfDenoising(policy, rollouts=8, responses=8, params=params).judge(many)
    spent = accumulate(judgement.cost.generated_tokens for judgement in denoised)
    paid = sum(tokens <= budget.generated_tokens for tokens in spent)
    costs = [budget, *(judgement.cost for judgement in denoised[:paid]), *(trace.cost for trace in pool)]
    rows = balanced(list(map(Judged, many[:paid], denoised)), trial.seed)
    arms: dict[str, float | list[float]] = {
        "raw Monte Carlo, noise": misplaced(*_wrong(few, raw), HARD),
        "raw Monte Carlo cut at 0.5, noise": misplaced(*_wrong(few, raw)),
        "SCAN, noise": misplaced(*_wrong(many[:paid], denoised[:paid])),
    }
    trained = {
        "raw Monte Carlo": prms.arm(trial, list(map(Judged, few, raw)), "bce", threshold=0.0),
        "soft Monte Carlo": prms.arm(trial, list(map(Judged, few, raw)), "soft-bce"),
        "SCAN": prms.arm(trial, rows, "soft-bce"),
    }
    for name, arm in trained.items():
        arms |= both_f1(pool, name, arm.said) | {f"{name}, best-of-8": best_of_n(pool, arm.said, "min")}
    return Outcome(arms, Cost.total([*costs, *(arm.cost for arm in trained.values())]))


def _wrong(traces: Sequence[Trajectory], said: Sequence[Judgement]) -> tuple[list[Trajectory], list[Judgement]]:
    """The wrong traces and their labels."""
    pairs = [(trace, labels) for trace, labels in zip(traces, said, strict=True) if not trace.correct]
    return [trace for trace, _ in pairs], [labels for _, labels in pairs]
