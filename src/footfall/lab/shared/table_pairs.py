"""DPO with several output heads where the policy is a table: its rows are the hidden states h, and z_i = W_i h.

W_1 begins as the identity and the others as noisy copies; a pair is compared under the head of its objective
(`footfall.train.online.multi_head_dpo_loss`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from footfall.lab.shared.tables import Kinds
from footfall.rl.exact import Trace
from footfall.train.online import multi_head_dpo_loss

BETA, LR, BATCH = 0.1, 0.05, 32


class Compared(NamedTuple):
    """Two traces of a problem, of which an objective prefers the first."""

    objective: int
    kinds: Kinds
    chosen: Trace
    rejected: Trace


def dpo(first: np.ndarray, pairs: Sequence[Compared], heads: int, passes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows (kinds + 1, 2, 4) and heads (H, 4, 4) after training; of one head all pairs are compared under it."""
    rng = np.random.default_rng([seed, 43])
    identity = np.repeat(np.eye(4)[None], heads, axis=0)
    identity[1:] += 1e-3 * rng.normal(0, 1, (heads - 1, 4, 4))
    hidden, output = (torch.tensor(each, requires_grad=True) for each in (first, identity))
    before = hidden.detach().clone(), output.detach().clone()
    optimizer = torch.optim.Adam([hidden, output], lr=LR)
    for _ in range(passes):
        order = rng.permutation(len(pairs))
        for at in range(0, len(order), BATCH):
            batch = [pairs[i] for i in order[at : at + BATCH]]
            head_B = torch.tensor([min(pair.objective, heads - 1) for pair in batch])
            chosen_B, rejected_B = _logps(hidden, output, batch, head_B)
            before_B, worse_B = _logps(*before, batch, head_B)
            optimizer.zero_grad()
            loss = multi_head_dpo_loss(chosen_B, rejected_B, before_B, worse_B, head_B, BETA)
            torch.autograd.backward([loss])
            optimizer.step()
    return hidden, output


def _logps(hidden: Tensor, heads: Tensor, batch: Sequence[Compared], head_B: Tensor) -> list[Tensor]:
    """(B,) log-probability of the chosen traces, and of the rejected ones, each under the head of its objective."""
    found = []
    for traces in ([pair.chosen for pair in batch], [pair.rejected for pair in batch]):
        owner_N = torch.tensor(np.repeat(np.arange(len(batch)), [len(trace.states) for trace in traces]))
        kind_N = np.concatenate([pair.kinds[trace.states // 2] for pair, trace in zip(batch, traces, strict=True)])
        error_N, step_N = (
            np.concatenate(each) for each in zip(*((t.states % 2, t.actions) for t in traces), strict=True)
        )
        logits_NA = torch.einsum("nd,nad->na", hidden[kind_N, error_N], heads[head_B[owner_N]])
        logps_N = logits_NA.log_softmax(dim=-1)[np.arange(len(step_N)), step_N]
        found.append(logps_N.new_zeros(len(batch)).index_add(0, owner_N, logps_N))
    return found
