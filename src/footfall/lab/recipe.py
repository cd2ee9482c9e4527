"""What a recipe is: a header that states its claims, and a function that measures both sides of them on one seed.

    RECIPE = Recipe(name="best-of-n", …, claims=(Claim("…", baseline="majority vote", method="weighted vote", …),))

    def measure(trial: Trial) -> Outcome:
        return Outcome({"majority vote": […], "weighted vote": […]}, cost)

A measurement yields named arms; a claim compares two of them, so one costly experiment can answer several claims.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from footfall.types import Cost

__all__ = ["Arm", "Claim", "Outcome", "Recipe", "Trial"]

Arm: TypeAlias = "float | Sequence[float]"
"""One figure a problem, or a single figure for a metric that is no mean over problems (F1, AUC)."""
_SLUG = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)*")


class Trial(NamedTuple):
    """One run of an experiment: all randomness comes from `seed`, each seed draws its own problems."""

    seed: int
    quick: bool
    """A smoke test of a few seconds; its figures mean nothing."""
    folder: Path
    """For what must outlive a kill (a training run); removed when the outcome is stored."""
    shared: Path | None = None
    """For what other recipes use too (`footfall.lab.shared`); stays. None: nothing is shared."""

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper as a comparison of two arms. The effect is method − baseline."""

    claim: str
    metric: str
    direction: Literal["higher", "lower"]
    """Which way is better."""
    baseline: str
    method: str
    margin: float = 0.0
    """By how much the method must win, in units of the metric; negative: by how much it may lose ("no worse")."""
    beside: tuple[str, ...] = ()
    """Further arms of this metric whose means are reported with the result."""

    def __post_init__(self) -> None:
        if self.direction not in ("higher", "lower"):
            raise ValueError(f'direction is "higher" or "lower", not {self.direction!r}')
        if self.baseline == self.method:
            raise ValueError(f"baseline and method are the same arm, {self.method!r}")


@dataclass(frozen=True)
class Recipe:
    """The header of a recipe file: which paper, which stage of the loop, what is claimed, at what scale."""

    name: str
    """The slug of the method's card; the file is called the same with `_` for `-` and `.`."""
    paper: str
    arxiv: str | None
    year: int
    stage: str
    world: str
    scale: str
    """What the lab scale is, in one sentence."""
    claims: tuple[Claim, ...]

    def __post_init__(self) -> None:
        if not _SLUG.fullmatch(self.name):
            raise ValueError(f"name {self.name!r} is no slug: small letters, digits and - are wanted")
        if not self.claims:
            raise ValueError(f"{self.name} claims nothing: give at least one Claim")
        for text in ("paper", "stage", "world", "scale"):
            if not getattr(self, text):
                raise ValueError(f"{self.name}: {text} is empty")

    @property
    def module(self) -> str:
        return re.sub("[-.]", "_", self.name)


@dataclass(frozen=True)
class Outcome:
    """What one seed gave: the figures of each arm, problem by problem in the same order, and what all of it cost."""

    arms: Mapping[str, Arm]
    cost: Cost = field(default_factory=Cost)
    problems: tuple[str, ...] = ()
    """Ids of the problems, if other seeds have the same ones (a fixed benchmark); the interval needs to know."""

    def __post_init__(self) -> None:
        for name in self.arms:
            values = self.values(name)
            if not values or not all(math.isfinite(value) for value in values):
                raise ValueError(f"arm {name!r} has no figures or one that is not finite")
            if self.problems and len(values) != len(self.problems):
                raise ValueError(f"arm {name!r} has {len(values)} figures for {len(self.problems)} problems")

    def values(self, arm: str) -> list[float]:
        """The figures of an arm; a single figure is a list of one."""
        if arm not in self.arms:
            raise ValueError(f"the measurement has no arm {arm!r}; it has {', '.join(map(repr, self.arms))}")
        figures = self.arms[arm]
        return [float(figures)] if isinstance(figures, int | float) else [float(value) for value in figures]

    def differences(self, claim: Claim) -> list[float]:
        """method − baseline, problem by problem."""
        method, baseline = self.values(claim.method), self.values(claim.baseline)
        if len(method) != len(baseline):
            raise ValueError(
                f"{claim.method!r} has {len(method)} figures and {claim.baseline!r} {len(baseline)}; "
                "both arms must be measured on the same problems"
            )
        return [m - b for m, b in zip(method, baseline, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        arms = {name: self.values(name) for name in self.arms}
        return {"arms": arms, "cost": self.cost.to_dict(), "problems": list(self.problems)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Outcome:
        cost = Cost(**given["cost"])
        return cls({name: tuple(values) for name, values in given["arms"].items()}, cost, tuple(given["problems"]))
