"""CAPO, TP-GRPO and SPARK: a judge's verdicts, right or wrong, that only ever take away from what the outcome says.

A step's reward is the share of critiques that call it right, so with several critiques of a trace it is their vote.

CAPO (arXiv 2508.02298). Tokens of a step that the vote calls wrong pay a penalty below the outcome's weight, and all tokens of
the group are compared:

    R_it = W · R_i - w · 1[t in a wrong step],   A_it = (R_it - mean) / std over all tokens of all rollouts of the group
    a step is wrong by   intersection: all say so   majority: half or more   union: any   average: w times the share that does

TP-GRPO (Good Learners Think Their Thinking, arXiv 2507.23317). a_i is the outcome as ±1, standardised in the group;
r_c = α · (share of right rollouts): the better the policy already is, the more a wrong thought costs. Key tokens keep what
GRPO gives them:

    right completion   a thought that is right  a_i     wrong  a_i - r_c
    wrong completion   a thought that is wrong  a_i     one that is not  0

SPARK (Stepwise Process-Aware Rewards for Reference-Free RL). The outcome y is the judge's own verdict on the whole, gated by
the form F of the completion; a token carries the completion's advantage only where its step's verdict goes with the sign:

    r_i = F y, or F (0.4 k/n + 0.6 y) with k of n steps right,   A_i = (r_i - mean) / (population's) std of the group
    A_it = A_i where A_i >= 0 and the step is right, or A_i < 0 and it is wrong; else 0

A thought is a run of steps with one verdict, so nothing changes if a step is cut in two. In a wrong completion only what the
answer adopted is wrong, the rest is not punished: the judge must say so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from footfall.registry import Declared, Paper, register
from footfall.rl.group_relative import outcomes
from footfall.rl.groups import Credit, Floats, Rollout, deviation, each_group, spread, standardised
from footfall.rl.min_form import refuse_scores

Vote = Literal["intersection", "majority", "union", "average"]


def share_right(critiques: Sequence[Collection[int] | None], steps: int) -> Floats | None:
    """Step rewards from critiques, each the steps (0-based) that it calls wrong; one that could not be read is `None`.

    Such a critique has no vote. `None` if no critique could be read.
    """
    read = [set(critique) for critique in critiques if critique is not None]
    return np.array([sum(k not in wrong for wrong in read) / len(read) for k in range(steps)]) if read else None


def called_wrong(rewards: Floats, vote: Vote = "majority") -> Floats:
    """1 for a step that the vote calls wrong, 0 for others; under `average` the share that does."""
    refuse_scores(
        rewards,
        "a step's value is the share of critiques that call it right: give scores of another kind to clip-delta",
    )
    share = 1 - rewards
    if vote == "average":
        return share
    return {"intersection": share >= 1, "majority": share >= 0.5, "union": share > 0}[vote].astype(np.float64)


@register(
    "credit",
    "capo",
    Declared(
        needs=("outcome", "rewards"),
        paper=Paper("CAPO: Towards Enhancing LLM Reasoning through Generative Credit Assignment", 2025, "2508.02298"),
    ),
)
def capo(whole: float = 2.0, process: float = 1.0, vote: Vote = "majority", eps: float = 0.0) -> Credit:
    """The outcome less a penalty on tokens of steps that critiques call wrong, over all tokens of the group (CAPO)."""
    if not whole > process > 0:
        raise ValueError(f"whole {whole} must exceed process {process}: a wrong step may not outweigh the answer")

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        rows = [
            spread(whole * each.share - process * called_wrong(each.known("rewards"), vote), each.lengths)
            for each in group
        ]
        pooled = np.concatenate([row[each.mask] for row, each in zip(rows, group, strict=True)])
        width = deviation(pooled)
        return [(row - pooled.mean()) / (width + eps) if width else np.zeros_like(row) for row in rows]

    return Credit(("outcome", "rewards"), each_group(rule))


@register(
    "credit",
    "tp-grpo",
    Declared(
        needs=("outcome", "rewards"),
        paper=Paper("Good Learners Think Their Thinking: Generative PRM Makes Large Reasoning Model More Efficient Math "
                    "Learner", 2025, "2507.23317"),
    ),
)  # fmt: skip
def tp_grpo(alpha: float = 0.5, threshold: float = 0.5, answer: bool = False, eps: float = 1e-6) -> Credit:
    """GRPO whose wrong thoughts in right completions get less, and whose harmless ones in wrong completions get nothing.

    With `answer` the last step states the answer and always keeps a_i.
    """

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        right = np.array([each.right for each in group])
        ends = standardised(np.where(right, 1.0, -1.0), eps)
        cost = alpha * right.mean()
        rows = []
        for each, end in zip(group, ends, strict=True):
            rows.append(
                spread(thoughts(each.known("rewards") < threshold, each.right, end, cost, answer), each.lengths)
            )
        return rows

    return Credit(("outcome", "rewards"), each_group(rule))


@register(
    "credit",
    "spark",
    Declared(
        needs=("outcome", "rewards"),
        unmeasured="its outcome is a judge's verdict on the whole completion",
        paper=Paper("SPARK: Stepwise Process-Aware Rewards for Reference-Free Reinforcement Learning", 2025),
    ),
)
def spark(threshold: float = 0.5) -> Credit:
    """GRPO's advantage on those tokens alone whose step's verdict goes with its sign (SPARK's selective advantage)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        paid = outcomes(group)
        width = deviation(paid, ddof=0)
        ends = (paid - paid.mean()) / width if width else np.zeros(len(paid))
        return [
            spread(selective(float(end), each.known("rewards") >= threshold), each.lengths)
            for each, end in zip(group, ends, strict=True)
        ]

    return Credit(("outcome", "rewards"), each_group(rule))


def selective(advantage: float, right: np.ndarray) -> Floats:
    """A completion's advantage at each of its steps: at right ones if it is not negative, at wrong ones if it is."""
    return np.where(right == (advantage >= 0), advantage, 0.0)


def step_augmented(right: int, steps: int, whole: bool, formed: bool = True, share: float = 0.4) -> float:
    """F (0.4 k/n + 0.6 y). Cutting a solution into trivial steps raises k/n, and so does leaving one step: watch `steps`."""
    return formed * (share * right / steps + (1 - share) * whole) if steps else 0.0


def well_formed(text: str) -> bool:
    """F: exactly one answer tag, exactly one box inside it and nothing after it, so that no second, solved problem pays."""
    _, opened, rest = text.partition("<answer>")
    inside, closed, after = rest.partition("</answer>")
    tags = text.count("<answer>"), text.count("</answer>")
    return bool(opened and closed) and tags == (1, 1) and inside.count("\\boxed{") == 1 and not after.strip()


def thoughts(wrong: np.ndarray, right: bool, end: float, cost: float, answer: bool = False) -> Floats:
    """Advantages of the steps of one completion, from which of them are wrong."""
    found = np.where(wrong, end - cost, end) if right else np.where(wrong, end, 0.0)
    if answer:
        found[-1] = end
    return found
