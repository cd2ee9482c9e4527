"""The flow of RLFR (arXiv 2510.10201): tokens whose hidden states a model of good text finds hard to reconstruct.

A small network learns the velocity from noise to the hidden states of right completions, given that
of the token before, c:

    x_τ = τ h + (1 - τ) ε,   u = h - ε,   loss = mean_d (v(x_τ, τ, c, layer) - u)²,   τ = σ(N(0, 1))
    score of a token = τ/(1 - τ) · mean_d (v - u)²  at τ = 0.8, the mean over layers at 25, 50 and 75% of the depth

The policy is not trained through it. What differs: the paper pre-trains the flow on expert solutions (`learn` takes any
sequences, so this can be done); in a run it learns from the right completions of every batch, after they were scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from footfall.rl.online import Sequences, load_learned, save_learned

TIME = 0.8
_FRACTIONS = (0.25, 0.5, 0.75)


class _Block(nn.Module):
    """A residual step whose scale, shift and gate follow from time, neighbour and layer (AdaLN)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.told = nn.Linear(width, 3 * width)

    def forward(self, x_ND: Tensor, told_ND: Tensor) -> Tensor:
        scale, shift, gate = self.told(told_ND).chunk(3, dim=-1)
        found: Tensor = x_ND + gate * self.inner(self.norm(x_ND) * (1 + scale) + shift)
        return found


class Flow(nn.Module):
    """v(x, τ, c, layer): the velocity at a point between noise and a hidden state. Its last layer begins with zeros."""

    def __init__(self, width: int, blocks: int = 4) -> None:
        super().__init__()
        self.near, self.when = nn.Linear(width, width), nn.Linear(2, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(blocks))
        self.last = nn.Linear(width, width)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x_ND: Tensor, time_N: Tensor, near_ND: Tensor, layer_N: Tensor) -> Tensor:
        told_ND = nn.functional.silu(self.near(near_ND) + self.when(torch.stack([time_N, layer_N], dim=-1)))
        for block in self.blocks:
            x_ND = block(x_ND, told_ND)
        found: Tensor = self.last(x_ND)
        return found


def errors(flow: Any, target_ND: Tensor, near_ND: Tensor, layer_N: Tensor, time_N: Tensor, noise_ND: Tensor) -> Tensor:
    """(N,) mean over dimensions of (v - u)²."""
    x_ND = time_N[:, None] * target_ND + (1 - time_N[:, None]) * noise_ND
    found: Tensor = (flow(x_ND, time_N, near_ND, layer_N) - (target_ND - noise_ND)).square().mean(dim=-1)
    return found


@torch.no_grad()
def neighbours(model: Any, batch: Sequences) -> tuple[Tensor, Tensor]:
    """(K, B, T, D) hidden states of the completions' tokens at K layers, and those of the tokens before them."""
    positions_BL = (batch.mask_BL.cumsum(dim=-1) - 1).clamp(min=0)
    states = model(
        input_ids=batch.ids_BL, attention_mask=batch.mask_BL, position_ids=positions_BL, use_cache=False,
        output_hidden_states=True, logits_to_keep=1,
    ).hidden_states  # fmt: skip
    depth = len(states) - 1
    taken = torch.stack([states[min(round(share * depth), depth)].float() for share in _FRACTIONS])
    return taken[:, :, -batch.kept :], taken[:, :, -batch.kept - 1 : -1]


class FlowReward:
    """The flow with its optimizer, beside a policy of this width."""

    def __init__(self, width: int, device: Any = "cpu", blocks: int = 4, lr: float = 1e-4, seed: int = 0) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.flow = Flow(width, blocks).to(device)
        self.optimizer = torch.optim.AdamW(self.flow.parameters(), lr=lr, weight_decay=0.0)

    @torch.no_grad()
    def scores(self, states: tuple[Tensor, Tensor], own_BT: Tensor, seed: int) -> Tensor:
        """(B, T) how far each token deviates; 0 where another wrote."""
        target, near, layers = self._flat(states)
        time = torch.full_like(layers, TIME)
        found = errors(self.flow, target, near, layers, time, self._noise(target, seed)) * TIME / (1 - TIME)
        return found.view(len(_FRACTIONS), *own_BT.shape).mean(dim=0) * own_BT

    def learn(self, states: tuple[Tensor, Tensor], own_BT: Tensor, right: Sequence[bool], seed: int) -> float | None:
        """One step on the tokens of right completions; the loss, or `None` where there is none."""
        rows = own_BT.bool() & torch.tensor(list(right), device=own_BT.device)[:, None]
        if not rows.any():
            return None
        chosen = rows[None].expand(len(_FRACTIONS), -1, -1).reshape(-1)
        target, near, layers = (part[chosen] for part in self._flat(states))
        time = self._noise(layers[:, None], seed + 1)[:, 0].sigmoid()
        loss = errors(self.flow, target, near, layers, time, self._noise(target, seed)).mean()
        if not torch.isfinite(loss):
            raise ValueError(f"the loss of the flow model is {float(loss)}; lower its learning rate")
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        self.optimizer.step()
        return float(loss.detach())

    @staticmethod
    def _flat(states: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        target, near = (each.reshape(-1, each.shape[-1]) for each in states)
        layers = torch.tensor(_FRACTIONS).repeat_interleave(len(target) // len(_FRACTIONS))
        return target, near, layers.to(target)

    @staticmethod
    def _noise(like: Tensor, seed: int) -> Tensor:
        return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed)).to(like)

    def save(self, folder: Path) -> None:
        """Weights and optimizer, beside a checkpoint of the policy."""
        save_learned(folder, "flow", self.flow, self.optimizer)

    def load(self, folder: Path) -> None:
        """Go on from there."""
        load_learned(folder, "flow", self.flow, self.optimizer)
