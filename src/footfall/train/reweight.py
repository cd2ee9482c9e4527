"""Training data that is weighted by what it does for a meta set: DreamPRM's domains and DreamPRM-1.5's single traces.

    lower   φ' = φ − η ∇_φ Σ_k w_k ℓ_k(φ)                               the PRM, weights fixed
    upper   dL_meta(φ')/dw_k = −η ⟨∇ℓ_k(φ), ∇L_meta(φ')⟩                  one step unrolled, through the lower one

The product is a difference of losses, (ℓ_k(φ + εv) − ℓ_k(φ − εv)) / 2ε with v = ∇L_meta(φ') and ε = 0.01 / |v|: two forward
passes for all weights at once, as DARTS has it. Weights of domains are w_k = softplus(z_k) / mean_j softplus(z_j), whose mean
is 1; those of traces are clip(θ, −1, 3) or what a small network makes of the PRM's own values. On the meta set a solution is
valued as at inference, p = σ(mean_i log V_i / (1 − V_i)), and L_meta = (p − correct)².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from footfall.reward.prm import PRM
from footfall.train.data import Example, collate, make_examples
from footfall.train.objectives import make_objective
from footfall.types import Judged

CLIP = (-1.0, 3.0)


def domain_weights(z_K: Tensor) -> Tensor:
    """softplus(z_k) / mean_j softplus(z_j): positive, with the mean 1; all 1 where z is constant."""
    positive = F.softplus(z_K)
    return positive / positive.mean()


def clipped_weights(theta_N: Tensor) -> Tensor:
    """clip(θ, −1, 3): an entry beyond the range has no gradient."""
    return theta_N.clamp(*CLIP)


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


def sign_loss(values_NS: Tensor, mask_NS: Tensor, correct_N: Tensor) -> Tensor:
    """mean of (P̄ − 1)², P̄ the mean over steps of the probability of the solution's own sign (DreamPRM-1.5)."""
    own_NS = torch.where(correct_N.unsqueeze(-1) > 0.5, values_NS, 1 - values_NS).masked_fill(~mask_NS, 0.0)
    return ((own_NS.sum(dim=-1) / mask_NS.sum(dim=-1).clamp(min=1) - 1) ** 2).mean()


def hypergradient(
    losses_of: Callable[[], Tensor], meta_loss: Callable[[], Tensor], parameters: Sequence[nn.Parameter], weights_K: Tensor,
    rate: float,
) -> Tensor:  # fmt: skip
    """dL_meta(φ')/dw (K), φ' one step of the rate along the weighted losses; the parameters are left as they were."""
    parts = torch.autograd.grad((weights_K.detach() * losses_of()).sum(), parameters, allow_unused=True)
    step = [None if part is None else -rate * part for part in parts]
    _move(parameters, step, 1.0)
    v = torch.autograd.grad(meta_loss(), parameters, allow_unused=True)
    _move(parameters, step, -1.0)
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


class Table(nn.Module):
    """One number a domain, all alike at the start, and the weights that they make."""

    def __init__(self, domains: int, by: Literal["domain", "table"]) -> None:
        super().__init__()
        self.shape = domain_weights if by == "domain" else clipped_weights
        self.numbers = nn.Parameter(torch.full((domains,), 0.0 if by == "domain" else 1.0))

    def forward(self, of_N: Tensor) -> Tensor:
        """(N) weights of traces of these domains."""
        return self.shape(self.numbers)[of_N]


class Reweighted(NamedTuple):
    """The weight of each domain at the end, and the meta loss before each change of them."""

    weights: dict[Hashable, float]
    meta_losses: tuple[float, ...]
    tokens: int = 0
    """Read in all, by the updates and by the changes of the weights."""


By = Literal["domain", "table", "net"]


def train_reweighted(
    model: PRM,
    rows: Sequence[Judged],
    domains: Sequence[Hashable],
    meta: Sequence[Judged],
    *,
    by: By = "domain",
    updates: int = 200,
    unroll: int = 5,
    batch_size: int = 16,
    lr: float = 3e-4,
    meta_lr: float = 0.05,
    seed: int = 0,
) -> Reweighted:
    """Fit the PRM in place to rows of these domains, with weights that a meta set of graded solutions decides.

    After every `unroll` updates the weights make one step. `by` domain is DreamPRM: squared errors, and solutions valued by
    their mean log-odds. By table (one clipped weight a domain, which is a row's own where each row has one) or by net
    (`InstanceNet`) is DreamPRM-1.5: cross-entropy, and the loss of signs. A `meta_lr` of 0 leaves all weights alike.
    """
    if len(rows) != len(domains):
        raise ValueError(f"{len(rows)} rows have {len(domains)} domains: one each is needed")
    if any(row.trajectory.correct is None for row in meta) or not meta:
        raise ValueError("the meta set needs graded solutions: `correct` of each says whether its answer is right")
    mse = make_objective("mse", {})
    train, judged = make_examples(rows, model, mse, "error")[0], make_examples(meta, model, mse, "error")[0]
    names = list(dict.fromkeys(domains))
    index = torch.tensor([names.index(domain) for domain in domains])
    bilevel = _Bilevel(model, by, len(names), lr, meta_lr, seed)
    generator = torch.Generator().manual_seed(seed)
    losses: list[float] = []
    model.train()
    for update in range(updates):
        chosen = torch.randint(len(train), (batch_size,), generator=generator)
        batch, of = [train[i] for i in chosen.tolist()], index[chosen]
        if update % unroll == unroll - 1:
            some = [judged[i] for i in torch.randint(len(judged), (batch_size,), generator=generator).tolist()]
            losses.append(bilevel.change_weights(batch, of, some))
        bilevel.update(batch, of)
    model.eval()
    with torch.no_grad():
        found = torch.cat([bilevel.weights([e], k.view(1)) for e, k in zip(train, index, strict=True)])
    shares = [float(found[index == k].mean()) for k in range(len(names))]
    return Reweighted(dict(zip(names, shares, strict=True)), tuple(losses), bilevel.tokens)


class _Bilevel:
    """Both levels: the PRM and its optimizer, the weights and theirs."""

    def __init__(self, model: PRM, by: By, domains: int, lr: float, meta_lr: float, seed: int) -> None:
        self.model, self.by, self.rate, self.tokens = model, by, lr, 0
        self.weighing = InstanceNet(seed=seed) if by == "net" else Table(domains, by)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.upper = torch.optim.Adam(self.weighing.parameters(), lr=meta_lr)
        self.lower = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=0.0)

    def weights(self, batch: Sequence[Example], of_N: Tensor) -> Tensor:
        """(N) weights of traces of these domains, on the CPU."""
        if isinstance(self.weighing, Table):
            by_domain: Tensor = self.weighing(of_N)
            return by_domain
        with torch.no_grad():
            logits_NS, _, mask_NS = self._read(batch)
        by_values: Tensor = self.weighing(logits_NS.sigmoid().cpu(), mask_NS.cpu())
        return by_values

    def update(self, batch: Sequence[Example], of_N: Tensor) -> None:
        """One step of the PRM along the weighted losses."""
        weights_N = self.weights(batch, of_N).detach().to(self.model.device)
        loss = (weights_N * self._losses(batch)).mean()
        self.lower.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.lower.step()

    def change_weights(self, batch: Sequence[Example], of_N: Tensor, meta: Sequence[Example]) -> float:
        """One step of the weights along the meta loss, which is returned."""
        weights_N = self.weights(batch, of_N)
        found: list[float] = []

        def meta_loss() -> Tensor:
            loss = self._meta_loss(meta)
            found.append(loss.item())
            return loss

        fixed_N = weights_N.detach().to(self.model.device)
        slope_N = hypergradient(
            lambda: self._losses(batch) / len(batch), meta_loss, self.parameters, fixed_N, self.rate
        )
        self.upper.zero_grad(set_to_none=True)
        torch.autograd.backward([(weights_N * slope_N.cpu()).sum()])
        self.upper.step()
        return found[0]

    def _losses(self, batch: Sequence[Example]) -> Tensor:
        """(N): the mean over each trace's labelled steps of squared errors, or of cross-entropies."""
        logits_NS, targets_NS, mask_NS = self._read(batch)
        if self.by == "domain":
            errors_NS = (logits_NS.sigmoid() - targets_NS) ** 2
        else:
            errors_NS = F.binary_cross_entropy_with_logits(logits_NS, targets_NS, reduction="none")
        return errors_NS.masked_fill(~mask_NS, 0.0).sum(dim=-1) / mask_NS.sum(dim=-1).clamp(min=1)

    def _meta_loss(self, batch: Sequence[Example]) -> Tensor:
        logits_NS, _, _ = self._read(batch)
        steps = torch.tensor([len(e.reading.positions) for e in batch], device=logits_NS.device)
        own_NS = torch.arange(logits_NS.shape[1], device=logits_NS.device) < steps.unsqueeze(-1)
        correct_N = torch.tensor([float(bool(e.trajectory.correct)) for e in batch], device=logits_NS.device)
        if self.by == "domain":
            return solution_loss(logits_NS, own_NS, correct_N)
        return sign_loss(logits_NS.sigmoid(), own_NS, correct_N)

    def _read(self, batch: Sequence[Example]) -> tuple[Tensor, Tensor, Tensor]:
        self.tokens += sum(e.reading.tokens for e in batch)
        given = {name: t.to(self.model.device) for name, t in collate(batch, self.model.pad_id).items()}
        targets, mask = given.pop("targets"), given.pop("mask")
        return self.model.readout.log_odds(self.model(**given)), targets, mask
