"""ReNorm, RLFR, RLCM and PRS: the outcome with a bounded extra that can never turn it over.

PPR with ReNorm (arXiv 2509.25598): r_k + R - 1 at each step but the last, which gets R. A good step in a failed episode earns
nothing: its sum there is at most 0, however many steps there are. In general a (r_k - c) + b (R - d).

RLFR (arXiv 2510.10201): tokens whose hidden state a flow model reconstructs badly pay. Deviations of a completion are brought
to [0, 1] by min and max; of those above a threshold the largest few stay, each costing `coef`:

    A_t = a_i - coef Σ_{s≥t} s̃_s,   a = standardised R,   s̃ = kept(minmax(s))

RLCM (arXiv 2604.23333): R + λ · margin, standardised in the group. The margin is the mean confidence at prefixes from which all
forced answers are right, less that where none is; prefixes between do not count, and a trace with one kind has 0.

PRS (arXiv 2512.07478): a ladder of gates, each rung above all below it: 0 for a call that cannot be parsed, a little for one in
the wrong template, r + (1 - r) · quality for a well-formed answer. It makes an outcome reward for any credit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from footfall.judging import idle_settings
from footfall.registry import Declared, Paper, register
from footfall.rl.group_relative import constant, outcomes
from footfall.rl.groups import Baseline, Credit, Floats, Needs, Rollout, dense, each_group, standardised, to_go

Extra: TypeAlias = Literal["margin", "brier", "threshold"]


def renorm(
    scores: npt.ArrayLike, outcome: float, centre: float = 0.5, outcome_centre: float = 0.5, last: bool = True
) -> Floats:
    """(r_k - c) + (R - d) a step; with `last` the last step gets R itself."""
    found = np.asarray(scores, np.float64) - centre + outcome - outcome_centre
    if last:
        found[-1] = outcome
    return found


def deviations_kept(scores: npt.ArrayLike, threshold: float = 0.6, top: int = 15) -> Floats:
    """Min-max of a completion's deviations; 0 but for the `top` largest above the threshold."""
    scores = np.asarray(scores, np.float64)
    width = scores.max() - scores.min() if len(scores) else 0.0
    if not width:
        return np.zeros(len(scores))
    level = (scores - scores.min()) / width
    kept = np.where(level > threshold, level, 0.0)
    kept[np.argsort(-kept, kind="stable")[top:]] = 0.0
    return kept


def margin(confidence: npt.ArrayLike, solved: npt.ArrayLike) -> float:
    """mean{c : Y = 1} - mean{c : Y = 0}, 0 if either is empty. NaN: not measured there."""
    confidence, solved = np.asarray(confidence, np.float64), np.asarray(solved, np.float64)
    reached, lost = confidence[solved == 1], confidence[solved == 0]
    return float(reached.mean() - lost.mean()) if len(reached) and len(lost) else 0.0


def confidence_extra(
    confidence: npt.ArrayLike,
    solved: npt.ArrayLike,
    extra: Extra = "margin",
    corners: bool = False,
    threshold: float = 0.5,
) -> float:
    """What RLCM adds to an outcome, before its weight; the paper's own is the margin, the others are its ablations.

    `brier` is the mean of -(c - Y)²; `threshold` that of c - τ where Y = 1 and of τ - c where Y = 0. With `corners` a trace of
    one kind of prefixes has mean c, or 1 - mean c, in place of a margin of 0.
    """
    confidence, solved = np.asarray(confidence, np.float64), np.asarray(solved, np.float64)
    reached, lost = confidence[solved == 1], confidence[solved == 0]
    if extra == "brier":
        off = (confidence - solved)[np.isfinite(solved)] ** 2
        return -float(off.mean()) if len(off) else 0.0
    if extra == "threshold":
        over = np.concatenate([reached - threshold, threshold - lost])
        return float(over.mean()) if len(over) else 0.0
    if corners and len(reached) + len(lost) and not (len(reached) and len(lost)):
        return float(reached.mean()) if len(reached) else 1 - float(lost.mean())
    return margin(confidence, solved)


def ladder(parsed: bool, formed: bool, quality: float, rungs: tuple[float, float] = (0.1, 0.2)) -> float:
    """The PRS reward of an answer whose quality is in [0, 1]. The paper's own heights are not known; these are ours."""
    low, high = rungs
    if not 0 < low < high < 1 or not 0 <= quality <= 1:
        raise ValueError(f"want 0 < {low} < {high} < 1, and a quality in [0, 1], not {quality}")
    return 0.0 if not parsed else low if not formed else high + (1 - high) * quality


def short_bleu(answer: Sequence[str], reference: Sequence[str]) -> float:
    """BLEU with n-grams up to min(4, length of the reference), so that an answer of one word can be worth 1."""
    if not answer or not reference:
        return 0.0
    logs = []
    for n in range(1, min(4, len(reference)) + 1):
        ours, theirs = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (answer, reference))
        found = sum((ours & theirs).values())
        if not found:
            return 0.0
        logs.append(math.log(found / sum(ours.values())))
    return math.exp(sum(logs) / len(logs) + min(0.0, 1 - len(reference) / len(answer)))


@register(
    "credit",
    "renorm",
    Declared(
        needs=("outcome", "rewards"),
        paper=Paper(
            "Hybrid Reward Normalization for Process-supervised Non-verifiable Agentic Tasks", 2025, "2509.25598"
        ),
    ),
)
def renorm_credit(
    centre: float = 0.5, outcome_centre: float = 0.5, last: bool = True, baseline: Baseline = "step"
) -> Credit:
    """Step rewards and the outcome, both centred and added at every step (PPR with ReNorm)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        rewards = [
            renorm(each.known("rewards"), float(each.outcome or 0), centre, outcome_centre, last) for each in group
        ]
        return dense(group, rewards, baseline)

    return Credit(("outcome", "rewards"), each_group(rule))


@register(
    "credit",
    "rlfr",
    Declared(
        needs=("outcome", "flow"),
        unmeasured="its scores come from a flow model over hidden states, and a table of logits has none",
        paper=Paper("RLFR: Extending Reinforcement Learning for LLMs with Flow Environment", 2025, "2510.10201"),
    ),
)
def rlfr(coef: float = 0.01, threshold: float = 0.6, top: int = 15, eps: float = 1e-9) -> Credit:
    """GRPO less what the tokens that deviate most from a flow model cost from here on (RLFR)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        rows = []
        for each, end in zip(group, standardised(outcomes(group), eps), strict=True):
            kept = np.zeros(each.tokens)
            kept[each.mask] = deviations_kept(each.known("flow")[each.mask], threshold, top)
            rows.append(end - coef * to_go(kept))
        return rows

    idle = [(not coef, name, "a coef other than 0") for name in ("threshold", "top")]
    return Credit(("outcome", "flow"), each_group(rule), idle=idle_settings(*idle))


@register(
    "credit",
    "rlcm",
    Declared(
        needs=("outcome", "confidence"),
        paper=Paper("Process Supervision of Confidence Margin for Calibrated LLM Reasoning", 2026, "2604.23333"),
    ),
)
def rlcm(
    weight: float = 0.1,
    by: Literal["probe", "judge"] = "probe",
    extra: Extra = "margin",
    corners: bool = False,
    threshold: float = 0.5,
    solved: str = "solved",
    eps: float = 1e-6,
) -> Credit:
    """The outcome with the margin of confidence between prefixes from which it is reached and lost, standardised (RLCM).

    Confidences are a probe's, which learns beside the policy how often answers that are forced from a prefix are right, or a
    judge's step values. The aspect `solved` is the share of right ones, NaN where none was forced; a judge must give it.
    """
    source: Needs = "confidence" if by == "probe" else "rewards"

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        if any(solved not in each.aspects for each in group):
            raise ValueError(f"rlcm needs the aspect {solved!r} of each judgement: the share of right forced answers")
        added = [
            confidence_extra(each.known(source), each.aspects[solved], extra, corners, threshold) for each in group
        ]
        return constant(standardised(outcomes(group) + weight * np.array(added), eps), group)

    idle = idle_settings(
        (extra != "threshold", "threshold", "extra=threshold"),
        (extra != "margin", "corners", "extra=margin"),
        (by == "probe", "solved", "by=judge"),
    )
    return Credit(("outcome", source), each_group(rule), idle=idle)
