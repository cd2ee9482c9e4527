"""What a step-head PRM needs to know besides its weights; stored as `step_head.json` beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import footfall
from footfall.encoding import Template
from footfall.types import Json

__all__ = ["CONFIG_FILE", "Read", "StepHeadConfig"]

CONFIG_FILE = "step_head.json"
Read = Literal["last", "marker"]


@dataclass(frozen=True)
class StepHeadConfig:
    """How a trace becomes ids, where a step's value is read and what the head's outputs mean."""

    backbone: str
    """Where the backbone came from: a folder or a hub id. With `lora` it is needed again at load."""
    read: Read = "last"
    """`last`: at the step's last token, its separator included. `marker`: at a token put after each step."""
    marker: str | None = None
    """The marker's text; one token of the vocabulary."""
    marker_added: bool = False
    """The marker is not in the backbone's own vocabulary."""
    classes: tuple[str, ...] = ()
    """Names of the head's outputs in order; empty: one logit, squashed by a sigmoid."""
    good: tuple[str, ...] = ()
    """The classes whose probabilities add up to a step's value."""
    heads: int = 0
    """So many small networks whose mean is the value (`footfall.reward.ensemble`); 0: one linear layer."""
    head_width: int = 128
    """Of the hidden layers of these networks."""
    columns: tuple[str, ...] = ()
    """Names of outputs that each have a sigmoid of their own; the first is the value (`footfall.reward.several`)."""
    template: Template = field(default_factory=Template)
    max_length: int = 0
    """Tokens that fit in the context, markers included."""
    lora: bool = False
    """The folder holds an adapter for `backbone`, not a backbone."""
    version: str = footfall.__version__
    training: Mapping[str, Json] = field(default_factory=dict)
    """Facts of the training: label judge, objective, data key, seed, separators."""

    def __post_init__(self) -> None:
        if (self.read == "marker") != (self.marker is not None):
            raise ValueError(
                f'read="marker" goes with a marker, read="last" with none; got {self.read!r}, {self.marker!r}'
            )
        if self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {self.max_length}")
        if len(set(self.classes)) != len(self.classes) or len(self.classes) == 1:
            raise ValueError(f"classes must be two or more different names, or none for a single logit: {self.classes}")
        if bool(self.classes) != bool(self.good) or not set(self.good) <= set(self.classes):
            raise ValueError(f"good classes {self.good} must be named among the classes {self.classes}")
        if self.heads < 0 or self.head_width < 1 or (self.heads and self.classes):
            raise ValueError(
                f"several heads give one logit each and go with no classes; got {self.heads} heads of width "
                f"{self.head_width} with the classes {self.classes}"
            )

        if self.columns and (self.heads or self.classes or len(set(self.columns)) != len(self.columns)):
            raise ValueError(f"the outputs {self.columns} must have different names, and go with no classes or heads")

    @property
    def outputs(self) -> int:
        return self.heads or len(self.classes) or len(self.columns) or 1

    @property
    def good_index(self) -> list[int]:
        """Positions of the good classes, looked up by name."""
        return [self.classes.index(name) for name in self.good]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], source: str) -> StepHeadConfig:
        """From parsed JSON; `source` names the file in errors."""
        unknown = sorted(set(given) - {f.name for f in fields(cls)})
        if unknown or "backbone" not in given:
            what = f"unknown field {unknown[0]!r}" if unknown else "no field 'backbone'"
            raise ValueError(f"{source}: {what}; was it written by another version of footfall?")
        values = dict(given)
        for name in ("classes", "good", "columns"):
            values[name] = tuple(values.get(name, ()))
        if "template" in values:
            values["template"] = Template(**values["template"])
        return cls(**values)


def read_json(folder: Path) -> dict[str, Any]:
    """The parsed `step_head.json` of a model folder."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no step-head model: it has no {CONFIG_FILE}")
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); the save was probably interrupted") from error
    if not isinstance(parsed, dict):
        raise ValueError(f"{path}: expected an object, found {type(parsed).__name__}")
    return parsed
