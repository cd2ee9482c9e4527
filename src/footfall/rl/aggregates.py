"""Step scores as one reward of the whole, or as dense rewards with that sum; shapes over the number of steps.

Let's Reinforce Step by Step (arXiv 2311.05821): which aggregate is rewarded decides what is learnt. It is given at the end, or
shared out to the steps so that the shares add up to it:

    sum r_k     mean r_k/S     product Π_{l≤k} r_l - Π_{l<k} r_l, and 1 at the last step     min PURE's strict transform
    log-prod log max(r_k, 1e-10)   class c_k/S, c_k = 1, 0 or -1: the likeliest class of the step

PSPO* (arXiv 2411.11681): g = (Π r_k)^(1/S) times a shape of the number of steps, at the end; 0 for a single step.

    weibull   h(S) = C (k/λ) (S/λ)^(k-1) exp(-(S/λ)^k),  k 1.5, λ 8, C 10.735: about 1 at 4 steps
    code      f(g, S) = g e^(S/2) up to 4 steps; beyond, with b = g e² and τ = σ(10 (S - 4)),  b (1 - τ) + τ b e^(x (S - 4)),
              x = 0.1 if g > 0.88433, -0.1 if g < 0.2, else 0.1 (g - 0.21159) / 0.88433;  the reward is g f(g, S)

PSGPO for code (arXiv 2410.17621): λ r_k / S at each line and the tests' verdict at the end, λ 0.025 for programs that pass and
0.25 for those that fail; r_k in [-1, 1] (of probabilities, 2p - 1), 0 for comments. However long the program, the lines earn at
most λ.

All used PPO with a critic; here the group's other rollouts are the baseline (`groups.dense`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from footfall.registry import Declared, Paper, register
from footfall.rl.differences import with_outcome
from footfall.rl.groups import Baseline, Credit, Floats, Needs, Rollout, dense, each_group
from footfall.rl.min_form import min_form, signed
from footfall.search.votes import AGGREGATIONS, LEAST, Aggregation, classes, reward_of

Shape = Literal["weibull", "code", "none"]


def shares(scores: npt.ArrayLike, how: Aggregation) -> Floats:
    """Step rewards that add up to the aggregate. Those of `last` and `max` lie on the one step that is meant."""
    known: Floats = np.asarray(scores, np.float64)
    at = np.arange(len(known))
    found: Floats = known
    if how == "mean":
        found = known / len(known)
    elif how == "class":
        found = np.array(classes(known.tolist()), np.float64) / len(known)
    elif how in ("prod", "log-prod"):
        reward_of(known.tolist(), how)  # which refuses values that no product is made of
        product = np.diff(np.cumprod(known), prepend=1.0) + (at == len(known) - 1)
        found = product if how == "prod" else np.log(np.maximum(known, LEAST))
    elif how == "min":
        found = min_form(known, 0)
    elif how in ("last", "max"):
        found = known * (at == (len(known) - 1 if how == "last" else int(known.argmax())))
    elif how != "sum":
        raise ValueError(f"{how} cannot be shared out to steps: give it at the end")
    return found


def weibull(steps: int, k: float = 1.5, lam: float = 8.0, c: float = 10.735) -> float:
    """A Weibull density over the number of steps, scaled so that its peak is about 1."""
    return c * k / lam * math.pow(steps / lam, k - 1) * math.exp(-((steps / lam) ** k))


def code_shape(g: float, steps: int) -> float:
    """The shape of the released code: growth up to 4 steps, beyond them by accuracy."""
    if steps <= 4:
        return g * math.exp(0.5 * steps)
    base, over = g * math.exp(2.0), steps - 4
    rate = 0.1 if g > 0.88433 else -0.1 if 0 < g < 0.2 else 0.1 * (g - 0.21159) / 0.88433
    part = 1 / (1 + math.exp(-10 * over))
    return base * (1 - part) + part * base * math.exp(rate * over)


def pspo_reward(scores: npt.ArrayLike, shape: Shape = "code") -> float:
    """g · f(g, S), g · h(S) or g; 0 for a single step."""
    values = np.asarray(scores, np.float64).tolist()
    if len(values) < 2:
        return 0.0
    g = AGGREGATIONS["length-aware"](values)
    if shape == "none":
        return g
    return g * (weibull(len(values)) if shape == "weibull" else code_shape(g, len(values)))


def line_rewards(scores: npt.ArrayLike, passed: bool, failing: float = 0.25, passing: float = 0.025) -> Floats:
    """λ r_k / S of PSGPO."""
    known: Floats = np.asarray(scores, np.float64)
    return (passing if passed else failing) * known / len(known)


def _at_end(each: Rollout, reward: float) -> Floats:
    found: Floats = reward * (np.arange(each.steps) == each.steps - 1)
    return found


@register(
    "credit",
    "reinforce-step",
    Declared(
        needs=("rewards",),
        paper=Paper("Let's Reinforce Step by Step", 2023, "2311.05821"),
    ),
)
def reinforce_step(
    how: Aggregation = "mean",
    placement: Literal["end", "steps"] = "end",
    outcome: float = 0.0,
    baseline: Baseline = "step",
) -> Credit:
    """An aggregate of the step scores as the reward, at the end or shared out to the steps; beside the outcome if weighted."""
    if placement == "steps":
        shares([0.5], how)  # which refuses what cannot be shared out

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        rewards = []
        for each in group:
            scores = each.known("rewards")
            whole = reward_of(scores.tolist(), how) or 0.0
            row = _at_end(each, whole) if placement == "end" else shares(scores, how)
            rewards.append(row + _at_end(each, outcome * float(each.outcome or 0)))
        return dense(group, rewards, baseline)

    needs: tuple[Needs, ...] = ("rewards", "outcome") if outcome else ("rewards",)
    return Credit(needs, each_group(rule))


@register(
    "credit",
    "pspo",
    Declared(
        needs=("rewards",),
        paper=Paper(
            "PSPO*: An Effective Process-supervised Policy Optimization for Reasoning Alignment", 2024, "2411.11681"
        ),
    ),
)
def pspo(shape: Shape = "code", baseline: Baseline = "step") -> Credit:
    """The geometric mean of the step scores times a shape of the number of steps (PSPO*, PSPO-WRS)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        return dense(group, [_at_end(each, pspo_reward(each.known("rewards"), shape)) for each in group], baseline)

    return Credit(("rewards",), each_group(rule))


@register(
    "credit",
    "psgpo",
    Declared(
        needs=("outcome", "rewards"),
        paper=Paper("Process Supervision-Guided Policy Optimization for Code Generation", 2024, "2410.17621"),
    ),
)
def psgpo(
    failing: float = 0.25, passing: float = 0.025, probabilities: bool = True, baseline: Baseline = "step"
) -> Credit:
    """Line rewards over the number of lines beside the tests' verdict, larger for programs that fail (PSGPO)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        rewards = []
        for each in group:
            scores = signed(each) if probabilities else each.known("rewards")
            rewards.append(with_outcome(each, line_rewards(scores, each.right, failing, passing)))
        return dense(group, rewards, baseline)

    return Credit(("outcome", "rewards"), each_group(rule))
