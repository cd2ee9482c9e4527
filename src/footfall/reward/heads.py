"""Heads of published PRMs as one small module in float32, built from the tensors of the checkpoint.

A vocabulary pair at a marker needs two rows of the output matrix, not all 150,000: it is a class head like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from footfall.reward.pieces import Writer
from footfall.reward.tensors import TensorFiles

__all__ = ["Head", "LinearHead", "MeanOfRows", "VocabularyRows"]


class Head(Protocol):
    """Makes the module that turns hidden states (…, H) into logits (…, K)."""

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> nn.Module: ...


def linear(weight_KH: Tensor, bias_K: Tensor | None = None) -> nn.Linear:
    """A frozen linear layer with these weights."""
    layer = nn.Linear(weight_KH.shape[1], weight_KH.shape[0], bias=bias_K is not None, device="meta")
    layer.weight = nn.Parameter(weight_KH.float(), requires_grad=False)
    if bias_K is not None:
        layer.bias = nn.Parameter(bias_K.float(), requires_grad=False)
    return layer


@dataclass(frozen=True)
class LinearHead:
    """Stored under `prefix`: one linear layer (`prefix.weight`) or several (`prefix.0.weight`, …) with ReLU between."""

    prefix: str
    activation: Callable[[], nn.Module] = nn.ReLU

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> nn.Module:
        names = self._layers(tensors)
        layers = [_stored(tensors, name) for name in names]
        taken, given = width, outputs
        for name, layer in zip(names, layers, strict=True):
            if layer.in_features != taken:
                raise ValueError(f"{tensors.folder}: {name} takes {layer.in_features} numbers, the model gives {taken}")
            taken = layer.out_features
        if taken != given:
            raise ValueError(
                f"{tensors.folder}: the head {self.prefix} gives {taken} outputs, its family has {given}; "
                "it is of another family, or the wrong tensor was stored"
            )
        between = [module for layer in layers for module in (self.activation(), layer)][1:]
        return nn.Sequential(*between)

    def _layers(self, tensors: TensorFiles) -> list[str]:
        if f"{self.prefix}.weight" in tensors:
            return [self.prefix]
        pattern = re.compile(rf"{re.escape(self.prefix)}\.(\d+)\.weight")
        numbers = sorted(int(found.group(1)) for name in tensors.names if (found := pattern.fullmatch(name)))
        if not numbers:
            raise ValueError(f"{tensors.folder} has no head called {self.prefix}")
        return [f"{self.prefix}.{n}" for n in numbers]


@dataclass(frozen=True)
class VocabularyRows:
    """The rows of the output matrix that belong to these tokens, in this order."""

    tokens: tuple[str, ...]

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> nn.Module:
        if len(self.tokens) != outputs:
            raise ValueError(f"{len(self.tokens)} tokens for {outputs} outputs")
        rows = [writer.id_of(token) for token in self.tokens]
        name = output_matrix(tensors)
        bias = f"{name.removesuffix('.weight')}.bias"
        return _fitting(
            linear(tensors.rows(name, rows), tensors.load(bias)[rows] if bias in tensors else None), width, name
        )


@dataclass(frozen=True)
class MeanOfRows:
    """One logit: the mean of the outputs of a matrix of `rows` rows, which is the output of its mean row.

    The matrix may repeat these rows down to the size of a vocabulary, which leaves the mean as it is.
    """

    rows: int

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> nn.Module:
        name = output_matrix(tensors)
        stored = tensors.shape(name)[0]
        first_RH = tensors.rows(name, list(range(min(self.rows, stored))))
        # All rows are alike or none is: a language model's own matrix shows it at once.
        repeats = stored % self.rows == 0 and all(
            torch.equal(tensors.rows(name, list(range(start, start + self.rows))), first_RH)
            for start in {0, min(self.rows, stored - self.rows), stored - self.rows}
        )
        if not repeats:
            raise ValueError(
                f"{tensors.folder}: {name} has {stored} rows that do not repeat {self.rows}; "
                "its family has one reward head of that many rows there"
            )
        return _fitting(linear(first_RH.mean(dim=0, keepdim=True)), width, name)


def output_matrix(tensors: TensorFiles) -> str:
    """The language model's output matrix, or the embedding that it is tied to."""
    for name in ("lm_head.weight", "model.embed_tokens.weight", "embed_tokens.weight"):
        if name in tensors:
            return name
    raise ValueError(f"{tensors.folder} has no output matrix: it is no causal language model")


def _stored(tensors: TensorFiles, name: str) -> nn.Linear:
    bias = f"{name}.bias"
    weight = tensors.load(f"{name}.weight")
    if weight.dim() != 2:
        raise ValueError(f"{tensors.folder}: {name}.weight has {weight.dim()} axes, a linear layer has 2")
    if not torch.isfinite(weight).all():
        raise ValueError(f"{tensors.folder}: {name}.weight holds numbers that are not finite")
    return linear(weight, tensors.load(bias) if bias in tensors else None)


def _fitting(layer: nn.Linear, width: int, name: str) -> nn.Linear:
    if layer.in_features != width:
        raise ValueError(f"{name} takes {layer.in_features} numbers, the model gives {width}")
    return layer
