"""The few numbers a training run reports about itself; benchmarks live elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from footfall.reward.batching import pack
from footfall.reward.step_head import StepHeadModel
from footfall.train.data import Example, collate, members
from footfall.train.objectives import Objective

__all__ = ["evaluate", "roc_auc"]


def roc_auc(scores: Sequence[float], good: Sequence[bool]) -> float | None:
    """P(score of a good step > score of a bad one), ties count half; None if one of the two is absent."""
    truth = np.asarray(good, dtype=bool)
    n_good, n_bad = int(truth.sum()), int((~truth).sum())
    if not n_good or not n_bad:
        return None
    values, rank_of = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    counts = np.bincount(rank_of, minlength=len(values))
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[rank_of]
    return float((ranks[truth].sum() - n_good * (n_good + 1) / 2) / (n_good * n_bad))


@torch.inference_mode()
def evaluate(
    model: StepHeadModel, examples: Sequence[Example], objective: Objective, token_budget: int = 2048
) -> dict[str, float]:
    """Loss, step ROC-AUC, accuracy at 0.5 and Brier score over the labelled steps."""
    was_training = model.training
    model.eval()
    loss, counted = 0.0, 0
    values: list[float] = []
    labels: list[float] = []
    size = objective.together
    lengths = [len(e.reading.ids) for e in examples]
    longest = [max(lengths[at : at + size]) for at in range(0, len(lengths), size)]
    for packed in pack(longest, max(1, token_budget // size)):
        group = [examples[i] for i in members(packed, size)]
        batch = {name: tensor.to(model.device) for name, tensor in collate(group, model.pad_id).items()}
        targets, mask = batch.pop("targets"), batch.pop("mask")
        logits = model(**batch)
        items = int(objective.items(mask))
        loss += float(objective.loss(logits, targets, mask)) * items
        counted += items
        own = mask if mask.dim() == 2 else mask[..., 0]
        values.extend(model.values(logits)[own].tolist())
        labels.extend(label for e in group for label, m in zip(e.labels, e.mask, strict=True) if m)
    model.train(was_training)
    return {"loss": loss / max(1, counted), **_metrics(values, labels, objective)}


def _metrics(values: Sequence[float], labels: Sequence[float], objective: Objective) -> dict[str, float]:
    good = [objective.is_good(label) for label in labels]
    metrics = {
        "accuracy_at_0.5": float(np.mean([(v > 0.5) == g for v, g in zip(values, good, strict=True)])),
        "brier": float(np.mean([(v - g) ** 2 for v, g in zip(values, good, strict=True)])),
        "steps": float(len(labels)),
    }
    auc = roc_auc(values, good)
    return metrics if auc is None else {"step_auc": auc, **metrics}
