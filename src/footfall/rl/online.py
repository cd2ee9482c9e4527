"""Reward models that are language models and learn beside the policy: PRIME's and OPRL's, inside the loop.

A batch of rollouts is scored first, log π_φ(y_t) for every token, and then the model takes one step on the batch's outcomes
(`footfall.train.online` has both losses). Which one follows from what the credit reads: against the frozen reference it is
PRIME's cross-entropy of whole completions, against the policy that sampled it is OPRL's pairs of step sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from footfall.train.online import implicit_outcome_loss, step_pair_loss

_ROWS = 16
"""Completions in one pass."""
_MOST = 10.0
"""Norm of a gradient; both papers' code clips there."""


class Sequences(NamedTuple):
    """A batch as a trainer holds it: prompts padded on the left, completions on the right."""

    ids_BL: Tensor
    mask_BL: Tensor
    kept: int
    """Tokens of the padded completions, the last ones."""

    def rows(self, rows: slice) -> Sequences:
        """Some of its rows."""
        return Sequences(self.ids_BL[rows], self.mask_BL[rows], self.kept)


def logprobs(model: PreTrainedModel, batch: Sequences, temperature: float = 1.0) -> Tensor:
    """(B, T) of the completions' tokens under a model."""
    positions_BL = (batch.mask_BL.cumsum(dim=-1) - 1).clamp(min=0)
    logits_BTV = model(
        input_ids=batch.ids_BL, attention_mask=batch.mask_BL, position_ids=positions_BL, use_cache=False,
        logits_to_keep=batch.kept + 1,
    ).logits[:, :-1]  # fmt: skip
    wanted_BT = batch.ids_BL[:, -batch.kept :]
    found: Tensor = (logits_BTV.float() / temperature).log_softmax(dim=-1).gather(2, wanted_BT[..., None])[..., 0]
    return found


@torch.no_grad()
def scored(model: PreTrainedModel, batch: Sequences, temperature: float = 1.0) -> Tensor:
    """The same without a gradient, a few rows at a time."""
    parts = [
        logprobs(model, batch.rows(slice(at, at + _ROWS)), temperature) for at in range(0, len(batch.ids_BL), _ROWS)
    ]
    return torch.cat(parts)


class OnlineReward:
    """π_φ with its optimizer. It begins as the policy does, and is trained on outcomes alone."""

    def __init__(
        self,
        model: PreTrainedModel,
        lr: float = 1e-6,
        beta: float = 0.05,
        pairs: bool = False,
        temperature: float = 1.0,
    ) -> None:
        """`temperature` divides its logits, as those of the log-probabilities that it is held against."""
        self.model, self.beta, self.pairs, self.temperature = model.train(False), beta, pairs, temperature
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)

    def scores(self, batch: Sequences) -> Tensor:
        """(B, T) log π_φ of the completions' tokens."""
        return scored(self.model, batch, self.temperature)

    def update(
        self,
        batch: Sequences,
        scores_BT: Tensor,
        against_BT: Tensor,
        own_BT: Tensor,
        lengths: Sequence[Sequence[int]],
        outcomes: Sequence[float | None],
        tasks: Sequence[str],
    ) -> float:
        """One step; the loss. `scores_BT` is what `scores` gave, `own_BT` is 1 at the policy's tokens.

        `lengths` are tokens of steps. A rollout without outcome has no part. The loss is taken of the scores that are known,
        so that completions can go through the model a few at a time.
        """
        known = [i for i, outcome in enumerate(outcomes) if outcome is not None]
        if not known:
            return 0.0
        whole, own_BT = Sequences(batch.ids_BL[known], batch.mask_BL[known], batch.kept), own_BT[known]
        ratios_BT = ((scores_BT[known] - against_BT[known]) * own_BT).requires_grad_()
        right_B = torch.tensor([float(outcomes[i] or 0) for i in known], device=ratios_BT.device)
        if ((right_B < 0) | (right_B > 1)).any():
            off = float(right_B[(right_B - 0.5).abs().argmax()])
            raise ValueError(f"an outcome is {off:g}: a reward model that learns them wants outcomes in [0, 1]")
        if self.pairs:
            ratios_BS, mask_BS = _by_step(ratios_BT, [lengths[i] for i in known])
            loss = step_pair_loss(ratios_BS, mask_BS, right_B > 0.5, [tasks[i] for i in known], self.beta)
        else:
            loss = implicit_outcome_loss(ratios_BT.sum(dim=-1), right_B, self.beta)
        if not torch.isfinite(loss):
            raise ValueError(f"the loss of the online reward model is {float(loss)}; lower its learning rate")
        self.optimizer.zero_grad(set_to_none=True)
        (pull_BT,) = torch.autograd.grad(loss, [ratios_BT])
        for at in range(0, len(known), _ROWS):
            rows = slice(at, at + _ROWS)
            found_BT = logprobs(self.model, whole.rows(rows), self.temperature)
            torch.autograd.backward([found_BT * own_BT[rows]], [pull_BT[rows]])
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), _MOST)
        self.optimizer.step()
        return float(loss.detach())

    def save(self, folder: Path) -> None:
        """Weights and optimizer, beside a checkpoint of the policy."""
        save_learned(folder, "online", self.model, self.optimizer)

    def load(self, folder: Path) -> None:
        """Go on from there."""
        load_learned(folder, "online", self.model, self.optimizer)


def save_learned(folder: Path, name: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Of what learns beside the policy: two files of this name in a folder of its checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_model(model, str(folder / f"{name}.safetensors"))
    torch.save(optimizer.state_dict(), folder / f"{name}_optimizer.pt")


def load_learned(folder: Path, name: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """What `save_learned` kept, into these."""
    safetensors.torch.load_model(model, str(folder / f"{name}.safetensors"))
    optimizer.load_state_dict(torch.load(folder / f"{name}_optimizer.pt", weights_only=True))


def _by_step(values_BT: Tensor, lengths: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Sums over each step's tokens, and which steps there are."""
    most = max(map(len, lengths))
    step_BT = torch.full(values_BT.shape, most, dtype=torch.long)
    for row, own in enumerate(lengths):
        at = [k for k, count in enumerate(own) for _ in range(count)]
        step_BT[row, : len(at)] = torch.tensor(at)
    sums_BS = values_BT.new_zeros(len(values_BT), most + 1).scatter_add(1, step_BT.to(values_BT.device), values_BT)
    there = torch.tensor([[k < len(own) for k in range(most)] for own in lengths], device=values_BT.device)
    return sums_BS[:, :most], there.to(values_BT)
