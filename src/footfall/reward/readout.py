"""What a head's outputs mean: from logits at the read positions to one value a step and its aspects.

    good      value = Σ_{c good} softmax(logits)_c          named classes
    margin    value = Σ_{good} p − Σ_{other} p, in [−1, 1]     named classes
    sigmoid   value = σ(logit)                              one output
    raw       value = logit                                 one output

The same two logits (0.3, 2.1) read .858 as `good`, .716 as `margin` and, averaged as llemma does, .769 as `sigmoid`:
the reading belongs to the family and is never guessed. Logits come in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torch import Tensor

__all__ = ["Columns", "Readout"]


class Columns(NamedTuple):
    """One value a step, and further numbers a step by name."""

    values: tuple[float, ...]
    aspects: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Readout:
    """Names the outputs; nothing is positional but this one tuple."""

    value: Literal["good", "margin", "sigmoid", "raw"] = "sigmoid"
    classes: tuple[str, ...] = ()
    """Names of the outputs in order; empty: one logit."""
    good: tuple[str, ...] = ()
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further aspects as sums of class probabilities: `{"redundancy": ("neutral",)}`."""
    labels: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """Aspects that are labels, 1 where another aspect is above a threshold: `{"redundant": ("redundancy", 0.15)}`."""

    def __post_init__(self) -> None:
        if bool(self.classes) != (self.value in ("good", "margin")):
            raise ValueError(f"the value {self.value!r} does not go with the classes {self.classes}")
        named = [*self.good, *(name for names in self.sums.values() for name in names)]
        unknown = [name for name in named if name not in self.classes]
        if unknown or bool(self.good) != bool(self.classes):
            raise ValueError(f"good classes {self.good} and sums must be named among the classes {self.classes}")

    @property
    def outputs(self) -> int:
        return len(self.classes) or 1

    def probabilities(self, logits_SK: Tensor) -> Tensor:
        """Softmax over classes, or the squashed (or bare) single logit."""
        if self.classes:
            return logits_SK.softmax(dim=-1)
        return logits_SK.sigmoid() if self.value == "sigmoid" else logits_SK

    def values(self, logits_SK: Tensor) -> Tensor:
        """The last axis folded into one value."""
        probabilities_SK = self.probabilities(logits_SK)
        if not self.classes:
            return probabilities_SK.squeeze(-1)
        good = probabilities_SK[..., [self.classes.index(name) for name in self.good]].sum(dim=-1)
        return good if self.value == "good" else 2 * good - probabilities_SK.sum(dim=-1)

    def columns(self, logits_SK: Tensor) -> Columns:
        """Values and aspects of one trace."""
        aspects: dict[str, tuple[float, ...]] = {}
        probabilities_SK = self.probabilities(logits_SK)
        if self.classes:
            of = {name: probabilities_SK[:, k] for k, name in enumerate(self.classes)}
            aspects = {name: tuple(column.tolist()) for name, column in of.items()}
            for name, members in self.sums.items():
                aspects[name] = tuple(sum((of[m] for m in members[1:]), of[members[0]]).tolist())
            for name, (source, threshold) in self.labels.items():
                aspects[name] = tuple(float(p > threshold) for p in aspects[source])
        return Columns(tuple(self.values(logits_SK).tolist()), aspects)
