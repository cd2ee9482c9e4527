"""A training whose numbers stop being numbers stops, and nothing of it is kept.

One loss or gradient that is NaN or infinite makes all weights so with the next step of the optimiser, and all that such a model
says is NaN. So both are looked at before that step: what was saved up to then is whole, and a run goes on from there with other
settings. Finite gradients ruin weights too where the learning rate is far too high: weights are looked at before they are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

FIX = "lower the learning rate, clip the gradient (max_grad_norm), or train in float32; or go on from an earlier checkpoint"


class NotFinite(ValueError):
    """A number of a training is NaN or infinite."""


def refuse_not_finite(value: float, what: str, update: int) -> None:
    """`update` is the number of updates done, `what` the number that would have decided the next: the loss, say."""
    if not math.isfinite(value):
        raise NotFinite(f"update {update}: {what} is {value}; {FIX}")


def refuse_ruined(weights: Iterable[tuple[str, Tensor]]) -> None:
    """Weights by their names, of which those that a process has are looked at."""
    for name, weight in weights:
        own: Tensor = getattr(weight, "to_local", lambda kept=weight: kept)().detach()
        if own.is_floating_point() and not bool(torch.isfinite(own).all()):
            raise NotFinite(f"the weights {name} are not finite any more, so nothing of them is saved; {FIX}")


class Finite:
    """Put before a `transformers.Trainer`: it stops before an update by what is not finite, and saves no ruined weights."""

    _losses: Tensor | None = None
    """The sum over an update's batches; it is read once an update, for a GPU waits for who reads."""

    def train(self, *given: Any, **named: Any) -> Any:
        """The Trainer's; weights that it leaves are finite."""
        trainer: Any = super()
        found = trainer.train(*given, **named)
        self._refuse_ruined()
        return found

    def training_step(self, *given: Any, **named: Any) -> Any:
        """The Trainer's, whose loss is kept to be looked at."""
        trainer: Any = super()
        loss = trainer.training_step(*given, **named)
        self._losses = loss.detach() if self._losses is None else self._losses + loss.detach()
        return loss

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The Trainer's; a loss or norm that is not finite stops the run while weights and checkpoint still are."""
        trainer: Any = super()
        own: Any = self
        norm = trainer._get_grad_norm(model, grad_norm=grad_norm)
        losses, self._losses = self._losses, None
        if losses is not None:
            refuse_not_finite(float(losses), "the loss", self._updates_done)
        # In float16 the scaler of losses leaves such a step out, and tries smaller ones.
        if norm is not None and own.accelerator.scaler is None:
            refuse_not_finite(float(norm), "the gradient's norm", self._updates_done)
        return norm

    def _save_checkpoint(self, *given: Any, **named: Any) -> None:
        self._refuse_ruined()
        trainer: Any = super()
        trainer._save_checkpoint(*given, **named)

    def _refuse_ruined(self) -> None:
        own: Any = self
        refuse_ruined((name, weight) for name, weight in own.model.named_parameters() if weight.requires_grad)

    @property
    def _updates_done(self) -> int:
        own: Any = self
        return int(own.state.global_step)
