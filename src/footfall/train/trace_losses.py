"""Losses that look along a trace: its steps are ranked, bootstrapped from later ones, or filtered by what the model says.

    q-ranking        l_t = −log e^{Q_t} / (e^{Q_t} + 1 + Σ_{right q<t} e^{Q_q} + N + ε),  N = Σ_wrong e^{Q_w + ζ}  (card: pqm)
    td               y_t = clamp(Σ_{k<n} γ^k r_{t+k} + γ^n V(s_{t+n}), 0, 1), no gradient through y_t  (card: tdrm)
    self-agreement   steps with whose outcome the model agrees already, right and wrong balanced  (card: sprm-metastone)
    step-and-trajectory   λ_s (1/T) Σ_t (R_t − r_t)² + λ_f (R − r_final)²  (card: reasonflux-prm)

Shapes are those of `objectives`: logits (..., S, 1), targets and mask (..., S); the last labelled step of a trace is its end.
Steps without a label have no part in any of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from footfall.registry import Declared, register
from footfall.train.losses import labelled_mean, last_labelled, single_logit, traces
from footfall.train.objectives import Objective, outcome

_NOTHING = -1e9
"""A logit whose exponential is 0, and whose gradient is 0 rather than undefined."""


def q_ranking_loss(logits: Tensor, targets: Tensor, mask: Tensor, margin: float, eps: float = 1e-5) -> Tensor:
    """PQM's ranking of Q values: right steps rise along the trace, above 0 and, by the margin ζ, above all wrong ones.

    A trace with a wrong step has the further term l_0 = −log 1 / (1 + N + ε), which keeps 0, the question's own value, above
    them. The mean over a trace's terms, then over traces. Wrong steps are not ordered among themselves.
    """
    q = single_logit(logits)
    right, wrong = mask & (targets > 0.5), mask & (targets <= 0.5)
    log_n = torch.where(wrong, q + margin, _NOTHING).logsumexp(dim=-1, keepdim=True)
    floor = torch.logaddexp(log_n, torch.full_like(log_n, math.log1p(eps)))
    up_to_here = torch.where(right, q, _NOTHING).logcumsumexp(dim=-1)
    terms = torch.where(right, torch.logaddexp(up_to_here, floor) - q, 0.0).sum(dim=-1)
    any_wrong = wrong.any(dim=-1)
    terms = terms + torch.where(any_wrong, floor.squeeze(-1), 0.0)
    return (terms / (right.sum(dim=-1) + any_wrong).clamp(min=1)).mean()


def cosine_reward(step: Tensor, steps: Tensor, first: float, last: float) -> Tensor:
    """last + ½ (first − last)(1 + cos(π t / T)): from `first` at t = 0 smoothly to `last` at t = T."""
    return last + 0.5 * (first - last) * (1 + torch.cos(torch.pi * step / steps))


def td_targets(values: Tensor, rewards: Tensor, mask: Tensor, gamma: float, n: int) -> Tensor:
    """y_t = clamp(Σ_{k<m} γ^k r_{t+k} + γ^m V(s_{t+m}), 0, 1), m = n or as many steps as there are to the last labelled one.

    Steps are the labelled ones of each trace, in order: one without a label earns nothing, takes no time and lends no value.
    """
    order = (~mask).long().argsort(dim=-1, stable=True)  # the labelled steps first
    at = torch.arange(mask.shape[-1], device=mask.device)
    ahead = (mask.sum(dim=-1, keepdim=True) - 1 - at).clamp(0, n)
    later = F.pad((rewards * mask).gather(-1, order), (0, n))
    earned = sum((gamma**k * later[..., k : k + len(at)] * (k < ahead) for k in range(n)), torch.zeros_like(rewards))
    wanted = (earned + gamma**ahead * values.detach().gather(-1, order).gather(-1, at + ahead)).clamp(0, 1)
    return torch.zeros_like(wanted).scatter(-1, order, wanted)


def td_loss(
    logits: Tensor, targets: Tensor, mask: Tensor, rewards: Tensor, gamma: float, n: int, last_weight: float = 1.0
) -> Tensor:
    """Cross-entropy with the n-step targets of the model being trained; the end has its label, `last_weight` times."""
    logit, end = single_logit(logits), last_labelled(mask)
    wanted = torch.where(end, targets, td_targets(logit.sigmoid(), rewards, mask, gamma, n))
    losses = F.binary_cross_entropy_with_logits(logit, wanted, reduction="none")
    return labelled_mean(torch.where(end, last_weight * losses, losses), mask)


def self_agreement_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """SPRM's loss on outcomes: only steps whose logit has the outcome's sign, each side weighted by the other's count.

        w_right = 1.5 M / (P + M),  w_wrong = P / (P + M),   loss = Σ w BCE / (Σ w + 1e−5)

    P and M are one more than the right and wrong steps that are kept in the batch. A step that disagrees gets no gradient.
    """
    logit = single_logit(logits)
    up, down = mask & (targets > 0.5) & (logit > 0), mask & (targets <= 0.5) & (logit < 0)
    right, wrong = up.sum() + 1, down.sum() + 1
    weights = torch.where(up, 1.5 * wrong, torch.where(down, 1.0 * right, 0.0)) / (right + wrong)
    losses = F.binary_cross_entropy_with_logits(logit, (targets > 0.5).to(logit), reduction="none")
    return (weights * losses).sum() / (weights.sum() + 1e-5)


def step_and_trajectory_loss(logits: Tensor, targets: Tensor, mask: Tensor, step: float, final: float) -> Tensor:
    """Squared errors of the steps, their mean over a trace, and of the trajectory; then the mean over traces.

    All shapes are (..., S, 2): the first output is fitted to the steps' labels, the second to that of the trajectory, which
    stands at one step.
    """
    errors_N2 = ((logits.sigmoid() - targets) ** 2).masked_fill(~mask, 0.0).sum(dim=-2) / mask.sum(dim=-2).clamp(min=1)
    return (step * errors_N2[..., 0] + final * errors_N2[..., 1]).mean()


@register("objective", "step-and-trajectory", Declared(unmeasured="its second output needs labels of its own"))
def step_and_trajectory(step: float = 1.0, final: float = 1.0) -> Objective:
    """ReasonFlux-PRM: a reward of each step and one of the trajectory, the aspect `trajectory` of the same labels."""
    if step < 0 or final < 0 or step + final == 0:
        raise ValueError(f"step and final are weights, 0 at least and not both 0; got {step:g} and {final:g}")
    return Objective(
        f"step-and-trajectory(step={step:g}, final={final:g})",
        lambda logits, targets, mask: step_and_trajectory_loss(logits, targets, mask, step, final),
        columns=("step", "trajectory"), beside=("trajectory",), items=traces, along=True,
        labels_by="the labeller `reasonflux` writes it",
    )  # fmt: skip


@register("objective", "q-ranking")
def q_ranking(margin: float = 4.0, threshold: float = 0.0) -> Objective:
    """PQM: Q values of a trace's steps are ranked, right ones by order and by a margin above wrong ones.

    A step is right if its label is above the threshold; the default 0 is Math-Shepherd's hard estimate.
    """
    if margin < 0:
        raise ValueError(f"the margin keeps wrong steps below right ones and is 0 at least, not {margin:g}")
    return Objective(
        f"q-ranking(margin={margin:g}, threshold={threshold:g})",
        lambda logits, targets, mask: q_ranking_loss(logits, (targets > threshold).to(logits), mask, margin),
        is_good=lambda label: label > threshold,
        items=traces,
        along=True,
    )


@register("objective", "td")
def td(
    n: int = 2,
    gamma: float = 0.8,
    right: Sequence[float] = (0.2, 0.1),
    wrong: Sequence[float] = (0.0, 0.0),
    last_weight: float = 1.0,
) -> Objective:
    """TDRM: values bootstrapped n steps ahead from the model being trained; the last label counts as the outcome.

    r_t goes from the first to the second number of `right` along a trace (of `wrong` at a wrong step) by a cosine, and lies
    between the two by the step's label. Right steps of constant reward 1 − γ have the value 1.
    """
    if n < 1 or not 0 <= gamma <= 1 or last_weight <= 0:
        raise ValueError(f"td looks 1 or more steps ahead and discounts by 0 to 1; got n={n}, gamma={gamma:g}")
    if len(right) != 2 or len(wrong) != 2:
        raise ValueError(
            f"right and wrong are two rewards each, of the first step and of the last; got {right} and {wrong}"
        )
    (first, last), (low, lowest) = right, wrong

    def loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        step, steps = mask.cumsum(dim=-1), mask.sum(dim=-1, keepdim=True).clamp(min=1)
        good, bad = cosine_reward(step, steps, first, last), cosine_reward(step, steps, low, lowest)
        return td_loss(logits, targets, mask, targets * good + (1 - targets) * bad, gamma, n, last_weight)

    rewards = f"right={first:g} to {last:g}, wrong={low:g} to {lowest:g}"
    weight = "" if last_weight == 1 else f", last_weight={last_weight:g}"
    return Objective(f"td(n={n}, gamma={gamma:g}, {rewards}{weight})", loss, along=True)


@register("objective", "self-agreement", Declared(needs=("outcomes",)))
def self_agreement() -> Objective:
    """SPRM: outcome labels on every step, of which those count that the model agrees with already."""
    return Objective("self-agreement", self_agreement_loss, outcome, whole=True, one_label=True)
