"""The head of RLCM's probe (arXiv 2604.23333): how sure a policy's own states are, at a step's end, of a right answer.

    c = σ(W₂ dropout(ReLU(W₁ m + b₁)) + b₂),   m the mean of the last layer's states at the last 4 tokens up to the step's end

W₁ narrows to a quarter of the width. The decoder is frozen: the probe tells what is in the states of the policy that writes.
`footfall rl --credit rlcm` trains one beside the policy; `footfall train --head confidence-probe` trains one afterwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from footfall.registry import register
from footfall.reward.heads import Head

STATES = 4
"""Hidden states that are averaged."""


def probe_net(width: int, outputs: int = 1, dropout: float = 0.1, seed: int = 0) -> nn.Sequential:
    """D → D/4 → ReLU → dropout → outputs, drawn by the seed without a trace in the global generator."""
    inner = max(1, width // 4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, outputs))


class ConfidenceProbe(Head):
    """Reads the last tokens up to a step's end, on a frozen decoder."""

    frozen = True

    def __init__(self, width: int, outputs: int, seed: int = 0, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = dropout
        self.net = probe_net(width, outputs, dropout, seed)

    @property
    def settings(self) -> dict[str, Any]:
        """Dropout while it is trained."""
        return {"name": "confidence-probe", "dropout": self.dropout}

    def at(self, states_NTH: Tensor, positions_NS: Tensor, prompts_N: Tensor | None = None) -> Tensor:
        """The mean of up to four states, of which the last is at the step's end."""
        back_NSW = positions_NS.unsqueeze(-1) - torch.arange(STATES, device=positions_NS.device)
        rows_N11 = torch.arange(len(states_NTH), device=states_NTH.device)[:, None, None]
        states_NSWH = states_NTH.float()[rows_N11, back_NSW.clamp(min=0)]
        there_NSW1 = (back_NSW >= 0).unsqueeze(-1)
        return self.of((states_NSWH * there_NSW1).sum(dim=-2) / there_NSW1.sum(dim=-2))

    def forward(self, states: Tensor) -> Tensor:
        """The logits of a mean."""
        logits: Tensor = self.net(states)
        return logits


@register("head", "confidence-probe")
def confidence_probe(width: int, outputs: int, seed: int = 0, dropout: float = 0.1) -> ConfidenceProbe:
    """A small network on the mean of a frozen decoder's last four states (RLCM)."""
    if not 0 <= dropout < 1:
        raise ValueError(f"the head confidence-probe: dropout is a share from 0 to below 1, not {dropout:g}")
    return ConfidenceProbe(width, outputs, seed, dropout)
