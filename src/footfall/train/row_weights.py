"""Weights of training rows that a second loss, on graded solutions, decides: DreamPRM's domains, DreamPRM-1.5's single traces.

    lower   φ' = φ − η ∇_φ Σ_k w_k ℓ_k(φ)                               the PRM, weights fixed
    upper   dL_meta(φ')/dw_k = −η ⟨∇ℓ_k(φ), ∇L_meta(φ')⟩                  one step unrolled, through the lower one

The product is a difference of losses, (ℓ_k(φ + εv) − ℓ_k(φ − εv)) / 2ε with v = ∇L_meta(φ') and ε = 0.01 / |v|: two forward
passes for all weights at once, as DARTS has it. Weights of domains are w_k = softplus(z_k) / mean_j softplus(z_j), whose mean
is 1; those of traces are clip(θ, −1, 3) or what a small network makes of the PRM's own values. On the meta set a solution is
valued as at inference, p = σ(mean_i log V_i / (1 − V_i)), and L_meta = (p − correct)²; or by the mean probability of its own
sign, L_meta = (P̄ − 1)².

The trainer that takes both steps is `footfall.train.reweight`. What differs: DreamPRM's code lets z decay by 1e-3 of the
learning rate at each step (AdamW); here nothing decays. At inference its solutions are valued by `--aggregate log-odds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from footfall.registry import Declared, register
from footfall.train.losses import traces
from footfall.train.objectives import Objective, Weighing, make_objective

CLIP = (-1.0, 3.0)


def domain_weights(z_K: Tensor) -> Tensor:
    """softplus(z_k) / mean_j softplus(z_j): positive, with the mean 1; all 1 where z is constant."""
    positive = F.softplus(z_K)
    return positive / positive.mean()


def clipped_weights(theta_N: Tensor) -> Tensor:
    """clip(θ, −1, 3): an entry beyond the range has no gradient."""
    return theta_N.clamp(*CLIP)


class Table(nn.Module):
    """One number a domain, all alike at the start, and the weights that they make."""

    def __init__(self, domains: int, by: Literal["domain", "table"]) -> None:
        super().__init__()
        self.shape = domain_weights if by == "domain" else clipped_weights
        self.numbers = nn.Parameter(torch.full((domains,), 0.0 if by == "domain" else 1.0))

    def forward(self, of_N: Tensor) -> Tensor:
        """(N) weights of traces of these domains."""
        return self.shape(self.numbers)[of_N]


class InstanceNet(nn.Module):
    """A weight in (0, 1) from a trace's own step values: Linear(2, h), LeakyReLU, Linear(h, 1), mean over steps, sigmoid.

    Its size does not depend on the data. Each step shows the probabilities of right and wrong.
    """

    def __init__(self, hidden: int = 10, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 1))

    def forward(self, values_NS: Tensor, mask_NS: Tensor) -> Tensor:
        """(N) weights."""
        told_NS = self.layers(torch.stack([values_NS, 1 - values_NS], dim=-1)).squeeze(-1).masked_fill(~mask_NS, 0.0)
        weights_N: Tensor = (told_NS.sum(dim=-1) / mask_NS.sum(dim=-1).clamp(min=1)).sigmoid()
        return weights_N


def solution_loss(logits_NS: Tensor, mask_NS: Tensor, correct_N: Tensor) -> Tensor:
    """mean of (σ(mean_i logit_i) − correct)²; the logit of a step is its log-odds."""
    mean_N = logits_NS.masked_fill(~mask_NS, 0.0).sum(dim=-1) / mask_NS.sum(dim=-1).clamp(min=1)
    return ((mean_N.sigmoid() - correct_N) ** 2).mean()


def sign_loss(logits_NS: Tensor, mask_NS: Tensor, correct_N: Tensor) -> Tensor:
    """mean of (P̄ − 1)², P̄ the mean over steps of the probability of the solution's own sign (DreamPRM-1.5)."""
    values_NS = logits_NS.sigmoid()
    own_NS = torch.where(correct_N.unsqueeze(-1) > 0.5, values_NS, 1 - values_NS).masked_fill(~mask_NS, 0.0)
    return ((own_NS.sum(dim=-1) / mask_NS.sum(dim=-1).clamp(min=1) - 1) ** 2).mean()


def losses_by_trace(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor, mask: Tensor
) -> Tensor:
    """(N): the loss of each trace by itself, such as the mean over its labelled steps."""
    return torch.stack([loss(logits[n : n + 1], targets[n : n + 1], mask[n : n + 1]) for n in range(len(mask))])


def hypergradient(
    losses_of: Callable[[], Tensor], meta_loss: Callable[[], Tensor], parameters: Sequence[nn.Parameter], weights_K: Tensor,
    rates: Sequence[float],
) -> Tensor:  # fmt: skip
    """dL_meta(φ')/dw (K), φ' one step along the weighted losses by each parameter's rate; these are left as they were.

    With rates η_p the product is Σ_p η_p ⟨∇_p ℓ_k, ∇_p L_meta⟩: the difference is taken along v_p η_p / max η.
    """
    rate = max(rates)
    if rate == 0:
        return torch.zeros_like(weights_K)
    parts = torch.autograd.grad((weights_K.detach() * losses_of()).sum(), parameters, allow_unused=True)
    step = [None if part is None else -own * part for part, own in zip(parts, rates, strict=True)]
    _move(parameters, step, 1.0)
    slopes = torch.autograd.grad(meta_loss(), parameters, allow_unused=True)
    _move(parameters, step, -1.0)
    v = [None if part is None else part * (own / rate) for part, own in zip(slopes, rates, strict=True)]
    length = math.sqrt(sum(float((part**2).sum()) for part in v if part is not None))
    if length == 0:
        return torch.zeros_like(weights_K)
    epsilon = 0.01 / length
    with torch.no_grad():
        _move(parameters, v, epsilon)
        above = losses_of()
        _move(parameters, v, -2 * epsilon)
        below = losses_of()
        _move(parameters, v, epsilon)
    return -rate * (above - below) / (2 * epsilon)


def _move(parameters: Sequence[nn.Parameter], along: Sequence[Tensor | None], scale: float) -> None:
    with torch.no_grad():
        for parameter, part in zip(parameters, along, strict=True):
            if part is not None:
                parameter.add_(part, alpha=scale)


_WHY = "its weights need graded solutions beside the labels; `footfall lab run dreamprm` measures it"


@register("objective", "domain-weights", Declared(unmeasured=_WHY))
def by_domain(
    domain: str = "domain", loss: str = "mse", meta_lr: float = 0.01, unroll: int = 5, meta_share: float = 0.2
) -> Objective:
    """DreamPRM: a weight for each domain of the data, decided by what it does for graded solutions; their mean is 1.

    The domain of a trace is that of its problem, or what this entry of its (or its problem's) `meta` says. Every `unroll`
    updates the weights make a step of `meta_lr`. The solutions are a share of the problems, or `--meta FILE`.
    """
    return _weighed(loss, Weighing("domain", solution_loss, domain, meta_lr, unroll, meta_share))


@register("objective", "instance-weights", Declared(unmeasured=_WHY))
def by_instance(
    by: Literal["table", "net"] = "table", loss: str = "soft-bce", meta_lr: float | None = None, unroll: int = 1,
    meta_share: float = 0.2,
) -> Objective:  # fmt: skip
    """DreamPRM-1.5: a weight for each trace, decided by what it does for graded solutions.

    By `table` it is a number of its own, clipped to [−1, 3]; by `net` what a small network makes of the PRM's values of it.
    A `meta_lr` of None is the paper's: 5e-3 for the table, 1e-4 for the net.
    """
    if by not in ("table", "net"):
        raise ValueError(f"weights of traces come from a table or a net, not from {by!r}")
    usual = 5e-3 if by == "table" else 1e-4
    return _weighed(loss, Weighing(by, sign_loss, None, usual if meta_lr is None else meta_lr, unroll, meta_share))


def _weighed(loss: str, weighing: Weighing) -> Objective:
    """The mean over traces of the weighted losses of an objective; unweighted where it is only measured."""
    if weighing.lr < 0 or weighing.unroll < 1 or not 0 < weighing.share < 1:
        raise ValueError(
            f"meta_lr is 0 at least, unroll 1 at least and meta_share between 0 and 1; got {weighing.lr:g}, "
            f"{weighing.unroll} and {weighing.share:g}"
        )
    base = make_objective(loss, {})
    if base.together > 1 or base.whole or base.language:
        raise ValueError(f"{base.name} is no loss of single traces, so they cannot be weighed; mse and soft-bce are")
    settings = f"{loss}, meta_lr={weighing.lr:g}, unroll={weighing.unroll}"
    return replace(
        base, name=f"weights by {weighing.by}({settings})", items=traces, whole=True, weighing=weighing,
        loss=lambda logits, targets, mask: losses_by_trace(base.loss, logits, targets, mask).mean(),
    )  # fmt: skip
