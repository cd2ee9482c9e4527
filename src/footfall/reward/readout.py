"""What a head's outputs mean: from logits at the read positions to one value a step and its aspects.

    good      value = Σ_{c good} softmax(logits)_c          named classes
    margin    value = Σ_{good} p − Σ_{other} p, in [−1, 1]     named classes
    sigmoid   value = σ(logit)                              one output
    raw       value = logit                                 one output

The same two logits (0.3, 2.1) read .858 as `good`, .716 as `margin` and, averaged as llemma does, .769 as `sigmoid`:
the reading belongs to the family and is never guessed. Logits come in float32. A read-out is a registered part, saved with its
model as JSON. No torch is needed to name one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from footfall.registry import create, register, stored

if TYPE_CHECKING:
    from torch import Tensor

_NEAR = 1e-6
"""How near to 0 and 1 an output that is a probability itself is taken when its log-odds are asked for."""


class Columns(NamedTuple):
    """One value a step, and further numbers a step by name."""

    values: tuple[float, ...]
    aspects: Mapping[str, tuple[float, ...]]


@register("readout", "outputs")
@dataclass(frozen=True)
class Readout:
    """Named classes, or one output that is squashed or taken as it is."""

    part: ClassVar[str] = "outputs"

    value: Literal["good", "margin", "sigmoid", "raw"] = "sigmoid"
    classes: tuple[str, ...] = ()
    """Names of the outputs in order; empty: one logit."""
    good: tuple[str, ...] = ()
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further aspects as sums of class probabilities: `{"redundancy": ("neutral",)}`."""
    labels: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """Aspects that are labels, 1 where another aspect is above a threshold: `{"redundant": ("redundancy", 0.15)}`."""
    probability: bool = False
    """The one output is a probability already; with `raw`."""

    def __post_init__(self) -> None:
        if bool(self.classes) != (self.value in ("good", "margin")):
            raise ValueError(f"the value {self.value!r} does not go with the classes {self.classes}")
        named = [*self.good, *(name for names in self.sums.values() for name in names)]
        unknown = [name for name in named if name not in self.classes]
        if unknown or bool(self.good) != bool(self.classes):
            raise ValueError(f"good classes {self.good} and sums must be named among the classes {self.classes}")
        if len(set(self.classes)) != len(self.classes) or len(self.classes) == 1:
            raise ValueError(f"classes must be two or more different names, or none for a single logit: {self.classes}")

    @property
    def outputs(self) -> int:
        """How many outputs the head must have: one a class, or one."""
        return len(self.classes) or 1

    def probabilities(self, logits_SK: Tensor) -> Tensor:
        """Softmax over classes, or the squashed (or bare) single logit."""
        if self.classes:
            return logits_SK.softmax(dim=-1)
        return logits_SK.sigmoid() if self.value == "sigmoid" else logits_SK

    def values(self, logits_SK: Tensor) -> Tensor:
        """One value in place of the last axis."""
        probabilities_SK = self.probabilities(logits_SK)
        if not self.classes:
            return probabilities_SK.squeeze(-1)
        good = probabilities_SK[..., [self.classes.index(name) for name in self.good]].sum(dim=-1)
        return good if self.value == "good" else 2 * good - probabilities_SK.sum(dim=-1)

    def log_odds(self, logits_SK: Tensor) -> Tensor:
        """log p − log(1 − p), p the probability that the step is good: what a loss of one output is fitted to.

        Of classes: logsumexp(good) − logsumexp(other). A raw output is its own log-odds unless it is a probability.
        """
        if self.classes:
            good = [name in self.good for name in self.classes]
            sides = ([k for k, is_good in enumerate(good) if is_good is side] for side in (True, False))
            above, below = (logits_SK[..., side].logsumexp(dim=-1) for side in sides)
            return above - below
        return logits_SK.squeeze(-1).logit(eps=_NEAR) if self.probability else logits_SK.squeeze(-1)

    @property
    def is_chance(self) -> bool:
        """Whether a value is itself the probability that the step is good."""
        return self.value in ("good", "sigmoid")

    def chances(self, logits_SK: Tensor) -> Tensor:
        """The probability that the step is good: the value itself where it is one."""
        return self.values(logits_SK) if self.is_chance else self.log_odds(logits_SK).sigmoid()

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

    def to_dict(self) -> dict[str, Any]:
        """Its name, and the settings that are not the default: what `readout_from` takes."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        default = {f.name: f.default_factory() if f.default_factory is not MISSING else f.default for f in fields(self)}
        return {"name": self.part, **{name: value for name, value in given.items() if value != default[name]}}


@register("readout", "mean-of-heads")
@dataclass(frozen=True)
class MeanOfHeads(Readout):
    """Each output is one head's logit; the value is the mean of their probabilities, the aspect `spread` their deviation.

    p_e = σ(logit_e),   value = mean_e p_e,   spread = √(Σ_e (p_e − value)² / (n − 1)),   0 for one head (card: actprm)
    """

    part: ClassVar[str] = "mean-of-heads"

    members: int = 1

    @property
    def outputs(self) -> int:
        """One a head."""
        return self.members

    def values(self, logits_SK: Tensor) -> Tensor:
        """mean_e σ(logit_e)."""
        return self.probabilities(logits_SK).mean(dim=-1)

    def log_odds(self, logits_SK: Tensor) -> Tensor:
        """Refused: each head has its own."""
        raise ValueError("several heads have a log-odds each, and are fitted one by one")

    def columns(self, logits_SK: Tensor) -> Columns:
        """The mean as value, the spread as aspect."""
        return Columns(tuple(self.values(logits_SK).tolist()), {"spread": tuple(self.spread(logits_SK).tolist())})

    def spread(self, logits_SK: Tensor) -> Tensor:
        """The sample standard deviation over heads."""
        probabilities_SK = self.probabilities(logits_SK)
        if self.members == 1:
            return probabilities_SK.new_zeros(probabilities_SK.shape[:-1])
        return probabilities_SK.std(dim=-1)


@register("readout", "several")
@dataclass(frozen=True)
class Several(Readout):
    """Each output has a sigmoid of its own and is an aspect, as quantiles of one number are; the first is the value too."""

    part: ClassVar[str] = "several"

    names: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        """One a name."""
        return len(self.names)

    def values(self, logits_SK: Tensor) -> Tensor:
        """σ of the first output."""
        return self.probabilities(logits_SK)[..., 0]

    def log_odds(self, logits_SK: Tensor) -> Tensor:
        """The first output's logit."""
        return logits_SK[..., 0]

    def columns(self, logits_SK: Tensor) -> Columns:
        """The first output as value, all of them as aspects."""
        of = self.probabilities(logits_SK)
        aspects = {name: tuple(of[:, k].tolist()) for k, name in enumerate(self.names)}
        return Columns(tuple(self.values(logits_SK).tolist()), aspects)


def readout_from(given: Mapping[str, Any]) -> Readout:
    """The read-out that `to_dict` wrote; JSON's lists are tuples again."""
    settings = {name: _tuples(value) for name, value in given.items() if name != "name"}
    made: Readout = create("readout", given["name"], **stored(settings, "the read-out of a PRM"))
    return made


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tuples(inner) for name, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
