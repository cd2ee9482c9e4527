"""PURE (Stop Summation, arXiv 2504.15275): a return is the minimum of the rewards to come, not their sum.

A sum pays for more good steps; the minimum does not. Within one completion, with r in [-1, 1] and a temperature τ,

    soft     w = softmax(-r / τ),   r*_k = w_k r_k,   G_k = Σ_{l≥k} r*_l      (τ → 0: min r up to the worst step, 0 after it)
    strict   G_k = min(r_k, …, r_S) for k ≤ argmin r, else 0
    mean     w = 1/S                                                          (the paper's ablation)

Baselines, both from the other completions, with R_j = Σ_k r*_jk:

    token   β_i = Σ_{j≠i} R_j / Σ_{j≠i} T_j;  β_i · (tokens of step k) is taken from r*_k; the policy's own tokens
    step    b_i = mean_{j≠i} R_j / S_j;       b_i is taken from each r*_k: favours few steps

Where all outcomes of a group are known, coef · ((R_i - 1) - mean_{j≠i} (R_j - 1)) is added at the last token.

What differs: the official code's branch for verl calls strict a running minimum over all tokens, in which tokens that end no
step have the reward 0, so that no return is positive; here it is the paper's. The official trainer gives the separator that
ends a step no advantage (`train_ends=False`); by default it is trained like any token, since the last token of a step need be
no separator here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from footfall.judging import idle_settings
from footfall.registry import Declared, Paper, register
from footfall.rl.group_relative import outcomes
from footfall.rl.groups import (
    Credit,
    Floats,
    Needs,
    Rollout,
    by_step,
    each_group,
    last_own,
    leave_one_out,
    spread,
    to_go,
)


def min_form(rewards: npt.ArrayLike, temperature: float = 0.1) -> Floats:
    """r*: step rewards whose sum is about their minimum; at temperature 0 the strict form, whose sums to go are G_k."""
    known: Floats = np.asarray(rewards, np.float64)
    if temperature == 0:
        to_worst = np.arange(len(known)) <= known.argmin()
        lowest: Floats = np.minimum.accumulate(known[::-1])[::-1] * to_worst
        found: Floats = lowest - np.append(lowest[1:], 0.0)
        return found
    _check(temperature)
    weights: Floats = np.exp(-(known - known.min()) / temperature)
    return weights / float(weights.sum()) * known


def _check(temperature: float) -> None:
    if temperature < 0:
        raise ValueError(f"temperature {temperature}: want 0 for the strict form, or more for the soft one")


def token_baseline(totals: Floats, tokens: Floats) -> Floats:
    """β_i = Σ_{j≠i} R_j / Σ_{j≠i} T_j; 0 for a rollout alone."""
    others: Floats = float(tokens.sum()) - tokens
    return (float(totals.sum()) - totals) / np.where(others > 0, others, np.inf)


def step_baseline(totals: Floats, steps: Floats) -> Floats:
    """b_i = mean_{j≠i} R_j / S_j; 0 for a rollout alone."""
    means: Floats = totals / steps
    return (float(means.sum()) - means) / max(1, len(means) - 1)


def refuse_scores(values: Floats, instead: str) -> None:
    """An error where values are no probabilities; a weighted mean of them may be above 1 by its rounding."""
    furthest = float(values[np.argmax(np.abs(values - 0.5))])
    if not -1e-9 <= furthest <= 1 + 1e-9:
        raise ValueError(f"a judge's value is {furthest:g}, which is no probability; {instead}")


def signed(each: Rollout) -> Floats:
    """Probabilities in [0, 1] as rewards in [-1, 1]."""
    rewards = each.known("rewards")
    refuse_scores(rewards, "for rewards that are in [-1, 1] already set probabilities=False")
    return 2 * rewards - 1


@register(
    "credit",
    "pure",
    Declared(
        needs=("rewards",),
        systems={"pure-strict": {"temperature": 0.0}, "pure-sum": {"form": "sum"}},
        paper=Paper("Stop Summation: Min-Form Credit Assignment Is All Process Reward Model Needs for Reasoning",
                    2025, "2504.15275"),
    ),
)  # fmt: skip
def pure(
    temperature: float = 0.1,
    form: Literal["min", "mean", "sum"] = "min",
    baseline: Literal["token", "step", "none"] = "token",
    coef: float = 1.0,
    probabilities: bool = True,
    train_ends: bool = True,
) -> Credit:
    """The minimum of the step rewards to come, less a baseline by tokens, beside the outcome where it is known (PURE)."""
    _check(temperature)

    def transformed(each: Rollout) -> Floats:
        rewards = signed(each) if probabilities else each.known("rewards")
        return min_form(rewards, temperature) if form == "min" else rewards / (each.steps if form == "mean" else 1)

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        rewards = [transformed(each) for each in group]
        totals = np.array([row.sum() for row in rewards])
        if len(group) > 1 and baseline == "token":
            own = [by_step(each.mask.astype(np.float64), each.lengths) for each in group]
            levels = token_baseline(totals, np.array([tokens.sum() for tokens in own]))
            rewards = [row - level * tokens for row, level, tokens in zip(rewards, levels, own, strict=True)]
        elif len(group) > 1 and baseline == "step":
            levels = step_baseline(totals, np.array([each.steps for each in group], np.float64))
            rewards = [row - level for row, level in zip(rewards, levels, strict=True)]
        known = coef and all(each.outcome is not None for each in group)
        ends = coef * leave_one_out(outcomes(group)) if known else np.zeros(len(group))
        rows = []
        for each, row, end in zip(group, rewards, ends, strict=True):
            found = spread(to_go(row) + end, each.lengths)
            if not train_ends:
                found[last_own(each)[each.lengths > 0]] = 0.0
            rows.append(found)
        return rows

    also: tuple[Needs, ...] = ("outcome",) if coef else ()
    return Credit(
        ("rewards",), each_group(rule), also=also, idle=idle_settings((form != "min", "temperature", "form=min"))
    )
