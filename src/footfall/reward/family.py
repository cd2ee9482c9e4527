"""A family of published PRMs as data: how it is recognised, what it reads, its head, and what the outputs mean.

A family is one registered function of about thirty lines that returns a `Family`. It is matched on what the checkpoint
holds (config, tokenizer, tensors), so a fine-tune works under any name. Where several families look the same from outside
(a causal LM that answers `+` or `-` is just a causal LM), the name decides, and if it cannot, the user does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from footfall.registry import create, parts
from footfall.reward.heads import Head
from footfall.reward.pieces import Piece, Writer
from footfall.reward.readout import Readout
from footfall.reward.tensors import TensorFiles
from footfall.types import Trajectory

if TYPE_CHECKING:
    from footfall.types import Judge

__all__ = ["Evidence", "Family", "Layout", "Match", "families", "recognise"]

Layout = Callable[[Writer, Trajectory], list[Piece]]
"""The whole trace as pieces, with one read for each step."""


@dataclass(frozen=True)
class Evidence:
    """What a checkpoint shows of itself. Tokenizer and tensors are looked at only when a family asks."""

    folder: Path
    name: str
    """As the user named it, which may hold the family's name."""
    load_tokenizer: Callable[[], Any]
    base: Callable[[], Path] | None = None
    """Where the base model of a bare adapter is: its config says what the adapter belongs to."""

    @cached_property
    def config(self) -> Mapping[str, Any]:
        path = self.folder / "config.json"
        if not path.is_file():
            if self.base is None:
                return {}
            path = self.base() / "config.json"
        parsed = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(parsed, dict):
            raise ValueError(f"{path}: expected an object, found {type(parsed).__name__}")
        return parsed

    @cached_property
    def tokenizer(self) -> Any:
        return self.load_tokenizer()

    @cached_property
    def tensors(self) -> TensorFiles:
        return TensorFiles(self.folder)

    def knows(self, token: str) -> bool:
        """The text is one token of the vocabulary."""
        writer = Writer(self.tokenizer)
        try:
            writer.id_of(token)
        except ValueError:
            return False
        return True


@dataclass(frozen=True)
class Match:
    """What a checkpoint must have to belong to a family. Everything given must hold."""

    model_types: tuple[str, ...] = ()
    """`model_type` of the config, any of them."""
    architectures: tuple[str, ...] = ()
    """`architectures` of the config, any of them."""
    tensors: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """Tensors that it must not have."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of stored matrices, which tells heads of one name but other widths apart."""
    tokens: tuple[str, ...] = ()
    """Texts that are one token each."""
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Parts of published names, lower case. With `named` one of them must occur; otherwise they break ties only."""
    named: bool = False
    """Nothing else tells the family from a plain language model, so the name must."""

    def objection(self, seen: Evidence) -> str | None:
        """Why a checkpoint is not of this family, its name aside; None if it may be."""
        if self.model_types and seen.config.get("model_type") not in self.model_types:
            return f"its model type is {seen.config.get('model_type')!r}, not {' or '.join(self.model_types)}"
        has = seen.config.get("architectures") or []
        if self.architectures and not set(self.architectures) & set(has):
            return f"its architecture is {', '.join(has) or 'not stated'}, not {' or '.join(self.architectures)}"
        for file in self.files:
            if not (seen.folder / file).is_file():
                return f"it has no file {file}"
        for tensor in self.tensors:
            if tensor not in seen.tensors:
                return f"it has no tensor {tensor}"
        for tensor in self.absent:
            if tensor in seen.tensors:
                return f"it has a tensor {tensor}"
        for tensor, rows in self.rows.items():
            if tensor not in seen.tensors:
                return f"it has no tensor {tensor}"
            if seen.tensors.shape(tensor)[0] != rows:
                return f"its {tensor} has {seen.tensors.shape(tensor)[0]} rows, not {rows}"
        for token in self.tokens:
            if not seen.knows(token):
                return f"{token!r} is not one token of its vocabulary"
        return None

    def called(self, seen: Evidence) -> bool:
        """Its name, or the name in its config, holds one of ours."""
        names = f"{seen.name} {seen.config.get('_name_or_path', '')}".lower()
        return any(part in names for part in self.names)


@dataclass(frozen=True)
class Family:
    """One row of the table of published PRMs."""

    name: str
    published: tuple[str, ...]
    """Hub ids of the released checkpoints."""
    licence: str
    match: Match
    layout: Layout
    head: Head
    readout: Readout
    threshold: float | None = 0.5
    """The natural one: a step valued below is an error. None: the family names none."""
    context: int | None = None
    """Tokens it was trained with; None: as many as its config says."""
    keys: Mapping[str, str] | None = None
    """Patterns that turn the stored tensor names into the backbone's, where they differ."""
    per_prefix: bool = False
    """Each prefix of a trace is a sequence of its own: the layout writes the last step's read only."""
    open: Callable[..., Judge] | None = None
    """For families that are not one head on one backbone: makes the judge from (evidence, family, options).

    Also the way in for families that see images: a `Reading` holds ids only, and so does what `StepModel` runs.
    """


def families() -> dict[str, Family]:
    """All registered families by name."""
    return {name: create("family", name) for name in parts("family")}


def recognise(seen: Evidence, asked: str | None = None) -> Family:
    """The one family of a checkpoint. `asked` names it; then only its objection is heard."""
    known = families()
    if asked is not None:
        if asked not in known:
            raise ValueError(f"no family is called {asked!r}; there are {', '.join(known)}")
        objection = known[asked].match.objection(seen)
        if objection:
            raise ValueError(f"{seen.name} is not of the family {asked}: {objection}")
        return known[asked]
    objections = {name: family.match.objection(seen) for name, family in known.items()}
    fitting = [family for name, family in known.items() if objections[name] is None]
    chosen = [f for f in fitting if f.match.called(seen)] or [f for f in fitting if not f.match.named]
    if len(chosen) == 1:
        return chosen[0]
    if chosen or fitting:
        names = ", ".join(f.name for f in chosen or fitting)
        raise ValueError(
            f"{seen.name} could be of the families {names}, and neither its weights nor its name say which; "
            "name it: --set family=…"
        )
    kind = seen.config.get("architectures") or [seen.config.get("model_type", "no config")]
    raise ValueError(f"{seen.name} ({', '.join(map(str, kind))}) fits none of the known families: {', '.join(known)}")
