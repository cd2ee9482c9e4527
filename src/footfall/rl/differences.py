"""PAV, Clip and Delta, RED: what a score gained from one prefix to the next, so that a longer trace earns no more.

With V_k a judge's value of the prefix after step k, V_0 that of the bare prompt:

PAV (Rewarding Progress, arXiv 2410.08146). The outcome at the end, and progress under a prover μ at every step:

    Q_μ = 1 - (1 - V)^K   (Best-of-K of the policy that V is of),   A_μ,k = Q_μ,k - Q_μ,k-1,   reward_k = α A_μ,k + 1[k = S] R

Clip and Delta (On Designing Effective RL Reward at Training Time, arXiv 2410.15115). The success reward at the end, and α times

    Clip    c_k = min(r_k - η, 0)                              no step earns, bad ones cost
    Delta   d_k = r_k - r_k+1 (k < S-1),  r_k (k = S-1),  0 (k = S)     so that Σ_{l≥k} d_l = r_k, however many steps follow

    both: Clip first, then Delta of the clipped scores. Note the sign: Delta takes the next score away, PAV the one before.

RED (arXiv 2411.08302). A sequence reward model is read at every token; what a token adds is its reward:

    r̃_t = V_t - V_t-1,   Σ_t r̃_t = V_T - V_0,   r̂_t = β r̃_t + (1 - β) 1[t = T] V_T,   A_it = RLOO(V_T) + α (r̂_t - mean_t r̂)

PAV and Clip/Delta used a critic; here the returns to go of the group's other rollouts are the baseline (`groups.dense`). As
Σ_t r̃_t differs from V_T by a constant of the prompt alone, RED's returns change nothing under RLOO; the form above keeps each
completion's mean advantage that of RLOO and moves credit within it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from footfall.judging import idle_settings
from footfall.registry import Declared, Paper, register
from footfall.rl.groups import Baseline, Credit, Floats, Needs, Rollout, dense, each_group, leave_one_out
from footfall.rl.min_form import refuse_scores


def progress(start: float, values: npt.ArrayLike, k: int = 1) -> Floats:
    """A_μ of each step under Best-of-k; k = 1 is the policy itself, whose progress adds up to V_S - V_0."""
    known: Floats = np.append(start, np.asarray(values, np.float64))
    if k > 1:
        refuse_scores(known, "for scores of another kind set k=1, under which progress is their difference")
    return np.diff(1 - (1 - known) ** k)


def clipped(scores: npt.ArrayLike, eta: float) -> Floats:
    """min(r - η, 0)."""
    return np.minimum(np.asarray(scores, np.float64) - eta, 0.0)


def delta(scores: npt.ArrayLike) -> Floats:
    """r_k - r_k+1, the last but one as it is, the last 0: the sums to go are the scores of all steps but the last."""
    kept: Floats = np.append(np.asarray(scores, np.float64)[:-1], 0.0)
    found: Floats = kept - np.append(kept[1:], 0.0)
    return found


def redistributed(start: float, scores: npt.ArrayLike, beta: float = 1.0, end: int = -1) -> Floats:
    """r̂ of RED: differences of prefix scores, mixed with the score of the whole at the token `end`."""
    known: Floats = np.asarray(scores, np.float64)
    found: Floats = beta * np.diff(known, prepend=start)
    found[end] += (1 - beta) * known[-1]
    return found


def with_outcome(each: Rollout, rewards: Floats) -> Floats:
    """Step rewards with the outcome added to the last one."""
    last = (np.arange(each.steps) == each.steps - 1).astype(np.float64)
    found: Floats = rewards + (each.outcome or 0.0) * last
    return found


@register(
    "credit",
    "pav",
    Declared(
        needs=("outcome", "rewards", "start"),
        paper=Paper("Rewarding Progress: Scaling Automated Process Verifiers for LLM Reasoning", 2024, "2410.08146"),
    ),
)
def pav(k: int = 4, alpha: float = 3.0, advantages: bool = False, baseline: Baseline = "step") -> Credit:
    """The outcome, and at each step its progress under Best-of-k (PAV); `advantages`: the judge gives progress itself."""
    if k < 1:
        raise ValueError(f"k {k}: Best-of-k needs at least one sample")

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        gained = [
            each.known("rewards") if advantages else progress(float(each.known("start")), each.known("rewards"), k)
            for each in group
        ]
        return dense(
            group, [with_outcome(each, alpha * row) for each, row in zip(group, gained, strict=True)], baseline
        )

    needs: tuple[Needs, ...] = ("outcome", "rewards") if advantages else ("outcome", "rewards", "start")
    return Credit(needs, each_group(rule), idle=idle_settings((advantages, "k", "advantages=false")))


@register(
    "credit",
    "clip-delta",
    Declared(
        needs=("outcome", "rewards"),
        systems={"clip": {"difference": False}, "delta": {"clip": False}, "sum": {"clip": False, "difference": False}},
        paper=Paper("On Designing Effective RL Reward at Training Time for LLM Reasoning", 2024, "2410.15115"),
    ),
)
def clip_delta(
    eta: float = 0.5, alpha: float = 0.1, clip: bool = True, difference: bool = True, baseline: Baseline = "step"
) -> Credit:
    """The outcome beside step rewards that are clipped at eta and differenced; `sum` is the hackable plain form."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        rewards = []
        for each in group:
            scores = clipped(each.known("rewards"), eta) if clip else each.known("rewards")
            rewards.append(with_outcome(each, alpha * (delta(scores) if difference else scores)))
        return dense(group, rewards, baseline)

    return Credit(("outcome", "rewards"), each_group(rule), idle=idle_settings((not clip, "eta", "clip=true")))


@register(
    "credit",
    "red",
    Declared(
        needs=("token_scores", "start"),
        paper=Paper(
            "RED: Unleashing Token-Level Rewards from Holistic Feedback via Reward Redistribution", 2024, "2411.08302"
        ),
    ),
)
def red(alpha: float = 1.0, beta: float = 1.0) -> Credit:
    """A sequence reward model's score, shared out to the tokens by what each added (RED)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        ends = leave_one_out([each.known("token_scores")[-1] for each in group])
        rows = []
        for each, end in zip(group, ends, strict=True):
            written = np.flatnonzero(each.mask)
            last = int(written[-1]) if len(written) else -1  # a tool's token after it is not trained on
            gained = redistributed(float(each.known("start")), each.known("token_scores"), beta, last)
            level = gained[each.mask].mean() if each.mask.any() else 0.0
            rows.append(end + alpha * (gained - level))
        return rows

    return Credit(("token_scores", "start"), each_group(rule))
