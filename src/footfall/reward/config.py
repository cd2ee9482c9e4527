"""What a PRM needs to know besides its weights; stored as `step_head.json` beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from footfall._version import __version__
from footfall.damaged import json_of
from footfall.render import Template
from footfall.reward.readout import MeanOfHeads, Readout, Several, readout_from
from footfall.types import Json

CONFIG_FILE = "step_head.json"
FOOTFALL = "footfall"
"""The family of PRMs that are trained here on a plain decoder."""
Read = Literal["last", "marker"]
View = Literal["all", "math", "words", "last-math", "next-thought"]


@dataclass(frozen=True)
class PRMConfig:
    """How a trace becomes ids, where a step's value is read and what the head's outputs mean."""

    backbone: str
    """Where the backbone came from: a folder or a hub id. With `lora` it is needed again at load."""
    family: str = FOOTFALL
    """Whose layout it has (`footfall list family`); the next four settings are those of the family `footfall`."""
    read: Read = "last"
    """`last`: at the step's last token, its separator included. `marker`: at a token put after each step."""
    marker: str | None = None
    """The marker's text; one token of the vocabulary."""
    marker_added: bool = False
    """The marker is not in the backbone's own vocabulary."""
    template: Template = field(default_factory=Template)
    head: Mapping[str, Any] = field(default_factory=lambda: {"name": "linear"})
    """The head as a registered part: its name and settings (`Head.settings`)."""
    readout: Readout = field(default_factory=Readout)
    """What the head's outputs mean, as a registered part."""
    max_length: int = 0
    """Tokens that fit in the context, markers included."""
    view: View = "all"
    """What of each step it is shown (`footfall.reward.views`)."""
    lora: bool = False
    """The folder holds an adapter for `backbone`, not a backbone."""
    version: str = __version__
    training: Mapping[str, Json] = field(default_factory=dict)
    """Facts of the training: label judge, objective, data key, seed, separators."""

    def __post_init__(self) -> None:
        if (self.read == "marker") != (self.marker is not None):
            raise ValueError(
                f'read="marker" goes with a marker, read="last" with none; got {self.read!r}, {self.marker!r}'
            )
        if isinstance(self.max_length, bool) or self.max_length < 1:
            raise ValueError(f"max_length must be a whole number of at least 1, not {self.max_length}")

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the head's outputs, if they are classes."""
        return self.readout.classes

    @property
    def good(self) -> tuple[str, ...]:
        """Those of them that speak for a step."""
        return self.readout.good

    @property
    def heads(self) -> int:
        """Small networks whose mean is the value; 0: one head."""
        return self.readout.members if isinstance(self.readout, MeanOfHeads) else 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of outputs that each have a sigmoid of their own; the first is the value."""
        return self.readout.names if isinstance(self.readout, Several) else ()

    def to_dict(self) -> dict[str, Any]:
        """As the model's folder keeps it."""
        shallow = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "view" or self.view != "all"}
        return {
            **shallow, "template": self.template.to_dict(), "head": dict(self.head), "readout": self.readout.to_dict(),
            "training": dict(self.training),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], source: str) -> PRMConfig:
        """From parsed JSON, of earlier versions too; `source` names the file in errors."""
        values = _from_earlier(given)
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown or "backbone" not in values:
            what = f"unknown field {unknown[0]!r}" if unknown else "no field 'backbone'"
            raise ValueError(f"{source}: {what}; was it written by another version of footfall?")
        for name in ("template", "head", "training"):
            if not isinstance(values.get(name, {}), Mapping):
                raise ValueError(f"{source}: {name} is an object, not {type(values[name]).__name__}")
        if "template" in values:
            values["template"] = Template(**values["template"])
        if isinstance(values.get("readout"), Mapping):
            values["readout"] = readout_from(values["readout"])
        return cls(**values)

    def address(self) -> dict[str, Any]:
        """What of it is part of a model's name: all but where the backbone came from and how it was trained.

        It is spelled as the first version did, field by field, so that models keep their names.
        """
        spelled: dict[str, Any] = {
            "backbone": "", "read": self.read, "marker": self.marker, "marker_added": self.marker_added,
            "classes": self.classes, "good": self.good, "template": self.template.to_dict(), "max_length": self.max_length,
            "lora": self.lora, "version": "", "training": {},
        }  # fmt: skip
        if self.heads:
            spelled |= {"heads": self.heads, "head_width": self.head.get("hidden", 128)}
        if self.columns:
            spelled["columns"] = self.columns
        if self.view != "all":
            spelled["view"] = self.view
        if self.head.get("name") not in ("linear", "layers", "heads"):
            spelled["head"] = dict(self.head)
        return spelled


class Parts(NamedTuple):
    """A head and a read-out that go together."""

    head: Mapping[str, Any]
    readout: Readout


def parts_for(
    classes: Sequence[str] = (), good: Sequence[str] = (), heads: int = 0, head_width: int = 128,
    columns: Sequence[str] = (), head: Mapping[str, Any] | None = None,
) -> Parts:  # fmt: skip
    """A linear head (or `head`) with one logit, named classes or named outputs; or so many small networks of this width."""
    if heads < 0 or head_width < 1 or (heads and classes):
        raise ValueError(
            f"several heads give one logit each and go with no classes; got {heads} heads of width "
            f"{head_width} with the classes {tuple(classes)}"
        )
    if columns and (heads or classes or len(set(columns)) != len(columns)):
        raise ValueError(f"the outputs {tuple(columns)} must have different names, and go with no classes or heads")
    if head is not None and heads:
        raise ValueError(f"{heads} small heads are a head of their own: leave heads or {head['name']} out")
    own = head or {"name": "linear"}
    if heads:
        return Parts({"name": "heads", "hidden": head_width}, MeanOfHeads(members=heads))
    if columns:
        return Parts(own, Several(names=tuple(columns)))
    return Parts(own, Readout("good" if classes else "sigmoid", tuple(classes), tuple(good)))


def _from_earlier(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of today. Head and read-out were told by five fields before they were parts."""
    values = dict(given)
    old = {name: values.pop(name) for name in ("classes", "good", "heads", "head_width", "columns") if name in values}
    if old:
        values["head"], values["readout"] = parts_for(**old)
    return values


def read_json(folder: Path) -> dict[str, Any]:
    """The parsed `step_head.json` of a model folder."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no step-head model: it has no {CONFIG_FILE}")
    try:
        parsed = json_of(path)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); the save was probably interrupted") from error
    if not isinstance(parsed, dict):
        raise ValueError(f"{path}: expected an object, found {type(parsed).__name__}")
    if not isinstance(family := parsed.get("family", ""), str):
        raise ValueError(f"{path}: family: expected a name, found {type(family).__name__}")
    return parsed
