"""What tuning changed in a model, read out of its activations as a reward (card: irm-divergence, arXiv 2310.08164).

1. Layers whose weights moved most: d_l = ‖W_l(tuned) − W_l(base)‖₂ over the MLP of layer l.
2. A sparse autoencoder of their outputs, with tied weights: f = ReLU(W x + b), x̂ = Wᵀ f + b', rows of W of length 1.
3. Contrasts: the same trace with a good, a bad and a neutral last step, with the features F+, F−, F0 where it ends.
4. Targets that know no reward: +‖F+ − F0‖ of the good point, −‖F− − F0‖ of the bad one.
5. Ridge regression from features to targets, on half of the contrasts: the implied reward of any point.

Whether it agrees with the reward that the model was tuned for, or with a PRM's values, shows what was learned instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from footfall.reward.prm import PRM
from footfall.types import Trajectory

Values = npt.NDArray[np.float64]
_MLP = re.compile(r"(?:^|\.)layers\.([0-9]+)\.mlp(?=\.|$)")


class Contrast(NamedTuple):
    """The same trace with a good, a bad and a neutral last step."""

    good: Trajectory
    bad: Trajectory
    neutral: Trajectory


class Probe(NamedTuple):
    """A linear reward: w · f + c."""

    weights: Values
    intercept: float

    def __call__(self, features_NF: Values) -> Values:
        """The implied reward of each point."""
        found: Values = features_NF @ self.weights + self.intercept
        return found


class ReadOut(NamedTuple):
    """What was found: how far each layer moved, those that were read, and the implied rewards of the held-out points."""

    divergence: Mapping[int, float]
    layers: tuple[int, ...]
    probe: Probe
    points: tuple[Trajectory, ...]
    """Held-out good and bad traces, each good one before its bad one."""
    implied: Values
    chance: Values
    """The same points by a probe with random weights: what a correlation is worth by chance."""


def layer_divergence(base: nn.Module, tuned: nn.Module) -> dict[int, float]:
    """‖W(tuned) − W(base)‖₂ over the MLP weights of each layer; 0 everywhere of a model and itself."""
    before, squares = dict(base.named_parameters()), dict[int, float]()
    for name, after in tuned.named_parameters():
        if (found := _MLP.search(name)) is not None:
            if name not in before or before[name].shape != after.shape:
                raise ValueError(
                    f"{name} of the tuned model is not in the base, or of another shape: they are not a pair"
                )
            moved = (after.detach().float().cpu() - before[name].detach().float().cpu()).square().sum()
            squares[int(found[1])] = squares.get(int(found[1]), 0.0) + float(moved)
    if not squares:
        raise ValueError("no MLP layers are found (`layers.N.mlp`): the decoder is of a kind that is not known here")
    return {layer: total**0.5 for layer, total in sorted(squares.items())}


def signed_targets(good_NF: Values, bad_NF: Values, neutral_NF: Values) -> tuple[Values, Values]:
    """+‖F+ − F0‖ of each good point and −‖F− − F0‖ of each bad one, in turns: points (2N, F) and targets (2N)."""
    points = np.stack([good_NF, bad_NF], axis=1)
    lengths = np.linalg.norm(points - neutral_NF[:, None], axis=-1) * np.array([1.0, -1.0])
    return points.reshape(-1, good_NF.shape[1]), lengths.reshape(-1)


def ridge(points_NF: Values, targets_N: Values, alpha: float = 1.0) -> Probe:
    """argmin |X w + c − y|² + α |w|², c not penalised."""
    middle_F, mean = points_NF.mean(axis=0), float(targets_N.mean())
    x, y = points_NF - middle_F, targets_N - mean
    # The dual form: there are far fewer points than features.
    dual = np.linalg.solve(x @ x.T + alpha * np.eye(len(x)), y)
    weights: Values = x.T @ dual
    return Probe(weights, mean - float(middle_F @ weights))


def rescaled(values: Values, low: float, high: float, percentile: float = 90.0) -> Values:
    """Into [low, high]: the range between the outer percentiles becomes the new one, and what lies outside its ends."""
    bottom, top = np.percentile(values, [100 - percentile, percentile])
    shares = (values - bottom) / (top - bottom) if top > bottom else np.full_like(values, 0.5)
    found: Values = low + (high - low) * np.clip(shares, 0.0, 1.0)
    return found


class SparseCoder(nn.Module):
    """f = ReLU(W x + b), x̂ = Wᵀ f + b', rows of W of length 1."""

    def __init__(self, width: int, features: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(features, width, generator=generator))
        self.bias, self.middle = nn.Parameter(torch.zeros(features)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and reconstruction."""
        unit = nn.functional.normalize(self.weight, dim=-1)
        found = (x @ unit.T + self.bias).relu()
        return found, found @ unit + self.middle

    def fit(self, x_NH: Tensor, updates: int = 200, lr: float = 1e-2, penalty: float = 1e-3) -> SparseCoder:
        """Least |x − x̂|² + penalty |f|₁."""
        optimizer = torch.optim.Adam(self.parameters(), lr=lr)
        for _ in range(updates):
            found, made = self(x_NH)
            loss = (made - x_NH).square().sum(dim=-1).mean() + penalty * found.abs().sum(dim=-1).mean()
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward([loss])
            optimizer.step()
        return self


@torch.no_grad()
def activations(model: PRM, traces: Sequence[Trajectory], layers: Sequence[int]) -> list[Tensor]:
    """The MLP's output of each layer where the last step of each trace is read, (N, H) each, on the CPU."""
    found: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    seen: dict[int, Tensor] = {}
    modules = {
        int(m[1]): module
        for name, module in model.backbone.named_modules()
        if (m := _MLP.search(name)) and m.end() == len(name)
    }
    hooks = [modules[layer].register_forward_hook(_keep(seen, layer)) for layer in layers]
    try:
        for trace in traces:
            reading = model.reads(trace)[-1]
            model.logits([reading])
            for layer in layers:
                found[layer].append(seen[layer][0, reading.positions[-1]].float().cpu())
    finally:
        for hook in hooks:
            hook.remove()
    return [torch.stack(found[layer]) for layer in layers]


def _keep(seen: dict[int, Tensor], layer: int) -> Any:
    def hook(module: nn.Module, given: Any, output: Tensor) -> None:
        seen[layer] = output

    return hook


def read_out(
    base: PRM, tuned: PRM, contrasts: Sequence[Contrast], *, top: int = 2, features: int = 64, updates: int = 200,
    of: PRM | None = None, seed: int = 0,
) -> ReadOut:  # fmt: skip
    """The implied reward of the tuned model (or of the model `of`, at the same layers), fitted to half of the contrasts."""
    if len(contrasts) < 4:
        raise ValueError(f"{len(contrasts)} contrasts cannot be parted: four at least are needed")
    divergence = layer_divergence(base.backbone, tuned.backbone)
    layers = tuple(sorted(sorted(divergence, key=lambda layer: -divergence[layer])[:top]))
    traces = [trace for contrast in contrasts for trace in contrast]
    coded = []
    for x_NH in activations(of or tuned, traces, layers):
        scaled = (x_NH - x_NH.mean(dim=0)) / x_NH.std().clamp(min=1e-6)
        coder = SparseCoder(scaled.shape[-1], features, seed).fit(scaled, updates)
        with torch.no_grad():
            coded.append(coder(scaled)[0])
    found: Values = torch.cat(coded, dim=-1).numpy().astype(np.float64).reshape(len(contrasts), 3, -1)
    half = len(contrasts) // 2
    probe = ridge(*signed_targets(*(found[:half, k] for k in range(3))))
    points, _ = signed_targets(*(found[half:, k] for k in range(3)))
    drawn: Values = np.random.default_rng(seed).normal(size=(points.shape[1],))
    chance = Probe(drawn, 0.0)
    held = tuple(trace for contrast in contrasts[half:] for trace in contrast[:2])
    return ReadOut(divergence, layers, probe, held, probe(points), chance(points))
