"""Losses of implicit PRMs, whose reward of a trace is a log-ratio of two language models (card: implicit-prm).

    r(y) = β Σ_t [log π(y_t) − log π_ref(y_t)]
    cross-entropy   −l log σ(r) − (1 − l) log(1 − σ(r)),   l the outcome
    dpo             −log σ(r_w − r_l)                                                  a right and a wrong trace side by side
    nca             −log σ(r_w) − ½ log σ(−r_w) − ½ log σ(−r_l)                         likewise
    kto             1 − σ(r − z_l) of right traces, 1 − σ(z_w − r) of wrong ones

z_w and z_l are what right and wrong traces of the batch are worth on average, 0 at least and without gradient: an estimate of
the KL term from the other side, for batches that have both. Where a batch has none of a side, its z is 0.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor

from footfall.registry import Declared, StudyRow, register
from footfall.train.losses import bradley_terry_loss, labelled_mean, labelled_pairs, pairs, single_logit, soft_bce_loss
from footfall.train.objectives import Objective, outcome, probability, side

Form = Literal["cross-entropy", "dpo", "nca", "kto"]


def dpo_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """mean over pairs of −log σ(r_w − r_l): Bradley-Terry of log-ratios."""
    return bradley_terry_loss(logits, targets, mask, 0.0)


def nca_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """mean over pairs of −log σ(r_w) − ½ log σ(−r_w) − ½ log σ(−r_l): each reward is held to 0, not only their difference."""
    rewards_P2, targets_P2 = labelled_pairs(single_logit(logits), targets, mask)
    losses_P = -(targets_P2 * F.logsigmoid(rewards_P2) + 0.5 * F.logsigmoid(-rewards_P2)).sum(dim=-1)
    return losses_P.sum() / max(1, len(losses_P))


def kto_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """mean of 1 − σ(r − z_l) over right and 1 − σ(z_w − r) over wrong traces; the other side is the point of reference."""
    rewards, right = single_logit(logits), targets > 0.5
    z_right, z_wrong = (labelled_mean(rewards, mask & side).clamp(min=0).detach() for side in (right, ~right))
    gains = (rewards - z_wrong).where(right, z_right - rewards)
    return labelled_mean(1 - gains.sigmoid(), mask)


_LOSSES = {"cross-entropy": soft_bce_loss, "dpo": dpo_loss, "nca": nca_loss, "kto": kto_loss}


@register(
    "objective",
    "log-ratio",
    Declared(
        needs=("outcomes",),
        study=(
            StudyRow("implicit", fixed={"family": "implicit"}),
            StudyRow("implicit-dpo", fixed={"family": "implicit", "objective_options": {"form": "dpo"}}),
        ),
    ),
)
def log_ratio(beta: float = 0.05, base: str | None = None, form: Form = "cross-entropy") -> Objective:
    """Outcomes as log-ratios: trains implicit PRMs against `base`, by default where they begin.

    `form` is cross-entropy or kto, which take traces as they come, or dpo or nca, which take pairs: a right and a wrong trace
    of one problem side by side.
    """
    if beta <= 0:
        raise ValueError(f"beta must be above 0, not {beta}")
    if form not in _LOSSES:
        raise ValueError(f"form is one of {', '.join(get_args(Form))}, not {form!r}")
    named = f"log-ratio(beta={beta:g}{'' if form == 'cross-entropy' else f', form={form}'})"
    settings = {"beta": beta, "base": base}
    if form in ("dpo", "nca"):
        return Objective(
            named, _LOSSES[form], side, lambda label: label == 1, together=2, items=pairs, language="log-ratio",
            settings=settings,
        )  # fmt: skip
    target = outcome if form == "kto" else probability
    return Objective(named, _LOSSES[form], target, language="log-ratio", settings=settings)
