"""A family of PRMs as data: how it is recognised, what it reads, its head, and what the outputs mean.

A family is one registered function of about thirty lines that returns a `Family`. It is matched on what the checkpoint
holds (config, tokenizer, tensors), so a fine-tune works under any name. Where several families look the same from outside
(a causal LM that answers `+` or `-` is just a causal LM), the name decides, and if it cannot, the user does. PRMs that are
trained here on a plain decoder are a family too (`families/footfall.py`), whose layout has settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from footfall.damaged import json_of
from footfall.registry import create, parts
from footfall.render import Piece, Reading, Writer
from footfall.reward.backbone import TensorFiles
from footfall.reward.config import CONFIG_FILE, FOOTFALL, PRMConfig
from footfall.reward.heads import StoredHead, VocabularyRows
from footfall.reward.readout import Readout
from footfall.types import Judge, Judged, Trajectory

if TYPE_CHECKING:
    from footfall.reward.generative.critic import Verdict

Layout = Callable[[Writer, Trajectory], list[Piece]]
"""The whole trace as pieces, with one read for each step."""


def in_order(prompt: Callable[[str], list[Piece]], step: Callable[[int, str], list[Piece]]) -> Layout:
    """What most families write: pieces of the problem's text, then those of each step, told its number from 1 and its text."""

    def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
        numbered = enumerate(trajectory.steps, 1)
        return prompt(trajectory.problem.text) + [piece for k, each in numbered for piece in step(k, each.written)]

    return layout


def no_pieces(writer: Writer, trajectory: Trajectory) -> NoReturn:
    """In the place of a layout where there is none."""
    raise TypeError("a family that is opened as a whole, or makes its own layout, does not write traces as pieces")


class Scored(NamedTuple):
    """A trace as ids; the tokens from `first` on were written by the author, and step k ends with the token `ends[k]`."""

    ids: tuple[int, ...]
    first: int
    ends: tuple[int, ...]


Spans = Callable[[Writer, Trajectory], Scored]


class TraceLayout(Protocol):
    """How a trace becomes ids and read positions: all that a PRM knows of it."""

    tokenizer: Any
    per_prefix: bool
    """Each prefix of a trace is a sequence of its own, with one read."""
    token_level: bool
    """Any token from the prompt's end on can be read like the end of a step: nothing is put in to read at."""

    def read(self, trajectory: Trajectory) -> Reading:
        """The ids for a trace, and where each step is read; with `per_prefix` the last step only."""
        ...

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        """The sequences of each trace that together read all its steps; texts are tokenised together."""
        ...

    def prompt_end(self, trajectory: Trajectory) -> int:
        """Where the value of the empty prefix is read among the ids of `read`, of a layout at token level."""
        ...


class PieceLayout:
    """The layout of a published family: pieces, written by the tokenizer of its checkpoint."""

    def __init__(self, writer: Writer, family: Family) -> None:
        self.writer, self.token_level = writer, family.token_level
        self.tokenizer: Any = writer.tokenizer
        self.family = family
        self.per_prefix = family.per_prefix

    def read(self, trajectory: Trajectory) -> Reading:
        """The family's pieces as ids, with one read a step."""
        ((reading,),) = self._read([[trajectory]])
        return reading

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        """One sequence a trace, or one for each of its prefixes (`per_prefix`)."""
        if not self.per_prefix:
            return self._read([[t] for t in trajectories])
        return self._read([[t.prefix(k) for k in range(1, len(t.steps) + 1)] for t in trajectories])

    def prompt_end(self, trajectory: Trajectory) -> int:
        """The prompt's last token; refused where values stand at marks, for the empty prefix has none."""
        if not self.token_level:
            raise ValueError(f"the layout of {self.family.name} has no place to read the value of the empty prefix at")
        return len(self.writer.read(self.family.layout(self.writer, trajectory.prefix(0))).ids) - 1

    def _read(self, groups: Sequence[Sequence[Trajectory]]) -> list[list[Reading]]:
        """A read for every step, or an error that names the trace."""
        flat = [t for group in groups for t in group]
        found = self.writer.read_many([(self.family.layout(self.writer, t), f"trajectory {t.id!r}") for t in flat])
        for trajectory, reading in zip(flat, found, strict=True):
            expected = 1 if self.per_prefix else len(trajectory.steps)
            if len(reading.positions) != expected:
                raise ValueError(
                    f"trajectory {trajectory.id!r}: {len(reading.positions)} reads for {expected} steps; "
                    f"the layout of {self.family.name} is wrong"
                )
        rest = iter(found)
        return [[next(rest) for _ in group] for group in groups]


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
        """`config.json`, of the base model for a bare adapter; empty if there is none."""
        path = self.folder / "config.json"
        if not path.is_file():
            if self.base is None:
                return {}
            path = self.base() / "config.json"
        parsed = json_of(path)
        if not isinstance(parsed, dict):
            raise ValueError(f"{path}: expected an object, found {type(parsed).__name__}")
        return parsed

    @cached_property
    def tokenizer(self) -> Any:
        """Loaded when it is first asked for."""
        return self.load_tokenizer()

    @cached_property
    def tensors(self) -> TensorFiles:
        """Names and shapes of what is stored."""
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
    """One row of the table of PRMs."""

    name: str
    published: tuple[str, ...]
    """Hub ids of the released checkpoints."""
    licence: str
    match: Match
    layout: Layout = no_pieces
    head: StoredHead = field(default_factory=lambda: VocabularyRows(()))
    """Where its checkpoints keep it. Of no use, like layout and read-out, to a family that is opened as a whole."""
    readout: Readout = field(default_factory=Readout)
    threshold: float | None = 0.5
    """The natural one: a step valued below is an error. None: the family names none."""
    context: int | None = None
    """Tokens it was trained with; None: as many as its config says."""
    keys: Mapping[str, str] | None = None
    """Patterns that turn the stored tensor names into the backbone's, where they differ."""
    per_prefix: bool = False
    """Each prefix of a trace is a sequence of its own: the layout writes the last step's read only."""
    token_level: bool = False
    """Any token from the prompt's end on can be read like the end of a step: the layout puts nothing in to read at."""
    judged: Callable[..., Judge] | None = None
    """For a family that is read in several passes: makes the judge of (model, options). None: one pass."""
    marks: tuple[str, ...] = ()
    """Of a family whose first pass marks a step: the aspects of a label that say what the marks should be, in order."""
    taught: Callable[[Writer, Trajectory, Sequence[bool] | None], list[Piece]] | None = None
    """Its passes over the last step as they are trained: None, marks are read; with marks given, the value is."""
    open: Callable[..., Judge] | None = None
    """For families that are not one head on one backbone: makes the judge from (evidence, family, options).

    Also the way in for families that see images: a `Reading` holds ids only, and so does what a `PRM` runs.
    """
    made_layout: Callable[[Any, PRMConfig], TraceLayout] | None = None
    """For a layout that has settings: makes it from (tokenizer, config) in place of `layout`."""
    stored_as: str | None = None
    """The architecture that its folders name, where PRMs are written in its format (`publish`); {decoder}: as Qwen2."""
    objective: str | None = None
    """The objective that trains a family of language models. None: any that fits its head; without a head, none."""
    spans: Spans | None = None
    """Of the objective `log-ratio`: a trace as ids, and which of them its author wrote."""
    verdicts: Callable[[Evidence], Callable[[Judged], Sequence[Verdict]]] | None = None
    """Of the objective `verdict`: what the checkpoint is asked about each labelled step of a row, and what it should say."""

    @property
    def trained_by(self) -> str | None:
        """How it is trained: by an objective of its own, by any that fits its `head`, or (`None`) not at all."""
        return self.objective or ("head" if self.open is None or self.made_layout is not None else None)

    def layout_of(self, tokenizer: Any, config: PRMConfig, source: str) -> TraceLayout:
        """The layout of one model of this family."""
        if self.made_layout is not None:
            return self.made_layout(tokenizer, config)
        return PieceLayout(Writer(tokenizer, source), self)


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
    fitting, chosen = _candidates(seen, known)
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


def recognise_prm(seen: Evidence) -> Family | None:
    """The family of a checkpoint that is a PRM by its weights or its name, one head on one backbone; None: a plain decoder."""
    _, chosen = _candidates(seen, families())
    if len(chosen) > 1:
        raise ValueError(f"{seen.name} could be of the families {', '.join(f.name for f in chosen)}; name one of them")
    return chosen[0] if chosen and chosen[0].open is None else None


def _candidates(seen: Evidence, known: Mapping[str, Family]) -> tuple[list[Family], list[Family]]:
    """The families that a checkpoint may be of, and those of them that it is by its name or, without one, by its weights.

    A folder that was saved here says itself how it is read.
    """
    if (seen.folder / CONFIG_FILE).is_file():
        return [known[FOOTFALL]], [known[FOOTFALL]]
    fitting = [family for family in known.values() if family.match.objection(seen) is None]
    return fitting, [f for f in fitting if f.match.called(seen)] or [f for f in fitting if not f.match.named]
