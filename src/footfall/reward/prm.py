"""A PRM: a decoder, a layout that says where each step of a trace is read, a head, and a read-out of its outputs.

    value_k = readout(head(h(p_k))),   h(p_k) the last hidden state at the read position p_k of step k

All steps are valued in one forward pass. Published checkpoints and models trained here are the same class: the family in the
config says which layout, and head and read-out are parts that are saved with the model; so what can be read can be trained.

Batches are padded on the right and a decoder looks only back, so a token never sees padding and no mask is needed: the
attention kernel that needs none is exact here, and the fastest. Logits leave in float32 whatever the backbone's type.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn

from footfall.damaged import naming
from footfall.hashing import weights_fingerprint
from footfall.loading import load_tokenizer, local_folder, pack, padded, pick_device, pick_dtype, quiet
from footfall.registry import create
from footfall.render import Reading, Template, both_ways, check_round_trip, template_for
from footfall.reward import backbone as backbones
from footfall.reward.backbone import Backbone
from footfall.reward.canary import Canary, check_canary, default_pair, make_canary, refuse_constant
from footfall.reward.config import CONFIG_FILE, FOOTFALL, PRMConfig, View, parts_for, read_json
from footfall.reward.family import Family, TraceLayout
from footfall.reward.heads import Head, Layers, load_head, make_head, repeated
from footfall.reward.last_layer import decoder_layers, only_read
from footfall.reward.readout import Columns, Readout, Several
from footfall.reward.views import ViewedLayout
from footfall.types import Trajectory, content_key

HEAD_FILE = "head.safetensors"
TOLERANCE = {torch.float32: 1e-3}
"""How far a canary value may move between machines; half precision is given `ROUGH_TOLERANCE`."""
ROUGH_TOLERANCE = 0.05
WORTH_COMPILING = 1e16
"""Parameters times tokens from which half a minute of compiling is paid back on a GPU; a token trained on counts thrice."""
READ_TOGETHER = 1024
"""Traces whose texts are tokenised in one call; what is known of each token is kept that long."""


class Batch(NamedTuple):
    """Right-padded: ids are (N, T) for N traces of T tokens, positions (N, S) for S steps."""

    input_ids: Tensor
    positions: Tensor
    prompts: Tensor
    """(N): tokens before the first step."""


def pad(readings: Sequence[Reading], pad_id: int, device: torch.device | str = "cpu", multiple: int = 1) -> Batch:
    """Ids padded on the right, to a `multiple` of tokens, and positions with 0; the caller looks at neither.

    Readings that have a mirror are followed by all mirrors, in the same order.
    """
    rows = both_ways(readings)
    ids = padded([reading.ids for reading in rows], pad_id, multiple)
    prompts = torch.tensor([reading.prompt_length for reading in rows])
    return Batch(ids.to(device), padded([reading.positions for reading in rows]).to(device), prompts.to(device))


class PRM(nn.Module):
    """Backbone, layout, head and read-out. `prm_config` says how they are read; `config` is the backbone's own."""

    multiple: int = 1
    """Lengths are padded to a multiple of this; compiled code likes few shapes."""

    def __init__(
        self, backbone: Backbone, tokenizer: Any, config: PRMConfig, *, head: Head | None = None, seed: int = 0,
        source: str = "the tokenizer",
    ) -> None:  # fmt: skip
        """`head` None: a fresh one, drawn by `seed`. `source` names the tokenizer in errors."""
        super().__init__()
        self.backbone: Backbone = backbone
        self.prm_config = config
        self.family: Family = create("family", config.family)
        layout = self.family.layout_of(tokenizer, config, source)
        self.layout: TraceLayout = layout if config.view == "all" else ViewedLayout(layout, config.view)
        self.readout = config.readout
        self.tokenizer = tokenizer
        self.pad_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        width: int = backbone.config.get_text_config().hidden_size
        decoder = backbone.config.get_text_config()
        made = head if head is not None else make_head(config.head, width, config.readout.outputs, seed, decoder)
        self.head: Head = made.to(self.device)
        if self.head.both_ways and self.layout.per_prefix:
            raise ValueError(
                f"the head {config.head['name']} reads whole traces in both orders, and the view {config.view} shows each step "
                "in a sequence of its own: leave one of them out"
            )
        if self.head.eager:
            backbone.set_attn_implementation("eager")
        if self.head.frozen:
            backbone.requires_grad_(False)

    @classmethod
    def from_backbone(
        cls,
        source: str | Path | nn.Module,
        tokenizer: Any = None,
        *,
        marker: str | None = None,
        classes: Sequence[str] = (),
        good: Sequence[str] = (),
        heads: int = 0,
        head_width: int = 128,
        head: Mapping[str, Any] | None = None,
        columns: Sequence[str] = (),
        template: Template | None = None,
        view: View = "all",
        max_length: int | None = None,
        lora_rank: int | None = None,
        lora_alpha: int | None = None,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> PRM:
        """A fresh head on a backbone: a folder, a hub id, or a model (used as it is, not copied) with its tokenizer.

        `head` is a registered one with its settings, as `Head.settings` has them; None: linear, or `heads` small ones.
        """
        if isinstance(source, nn.Module):
            if tokenizer is None:
                raise ValueError("a backbone given as a model needs its tokenizer too")
            backbone: Backbone = getattr(source, "base_model", source)
            name = str(getattr(source, "name_or_path", "")) or type(backbone).__name__
        else:
            name = str(source)
            backbone = backbones.load_backbone(name, dtype)
            tokenizer = tokenizer or load_tokenizer(name)
        check_round_trip(tokenizer, name)
        parts = parts_for(classes, good, heads, head_width, columns, head)
        added = marker is not None and backbones.add_marker(tokenizer, backbone, marker)
        decoder = backbone.config.get_text_config()
        made = make_head(parts.head, decoder.hidden_size, parts.readout.outputs, seed, decoder)
        config = PRMConfig(
            backbone=name,
            read="last" if marker is None else "marker",
            marker=marker,
            marker_added=added,
            template=template or template_for(tokenizer),
            head=parts.head,
            readout=Readout("raw", probability=True) if made.probability else parts.readout,
            max_length=_context(backbone, max_length, name),
            view=view,
        )
        model = cls(backbone, tokenizer, config, head=made)
        if lora_rank is not None:
            model.adapt(lora_rank, lora_alpha, seed)
        return model

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        device: str | None = None,
        dtype: torch.dtype | None = None,
        base: str | None = None,
        check: bool = True,
        trainable: bool = False,
    ) -> PRM:
        """A saved model, ready to score: bfloat16 on CUDA and float32 elsewhere unless `dtype` says otherwise.

        `base` replaces the stored reference to a LoRA adapter's backbone; `check=False` skips the canary.
        """
        folder = Path(folder)
        place = pick_device(device)
        with naming(folder / CONFIG_FILE):
            config, canary = stored_config(folder)
            content_key(config.address())  # else a number that is none shows only once the judge is asked for its name
        dtype = dtype or pick_dtype(place)
        tokenizer = load_tokenizer(str(folder))
        with naming(folder):
            check_round_trip(tokenizer, str(folder))
            model = cls(_stored_backbone(folder, config, base, dtype, trainable), tokenizer, config, source=str(folder))
            load_head(model.head, folder / HEAD_FILE)
            model.to(place).eval()
            if check:
                model.check_stored(canary, folder, dtype)
        return model

    def save(self, folder: str | Path, *, canary: Canary | None = None, merge: bool = False) -> None:
        """Weights as safetensors, tokenizer and config. An adapter stays one unless it is merged."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save_pretrained(folder)
        backbone, config = self.backbone, self.prm_config
        if merge and config.lora:
            backbone, config = copy.deepcopy(backbone).merge_and_unload(), replace(config, lora=False)
        # An added marker's embedding is the mean of the others and is made anew at load: no need to store them all.
        with quiet():
            backbone.save_pretrained(folder, **({"save_embedding_layers": False} if config.lora else {}))
        if config.lora:
            _in_order(folder / "adapter_config.json")
        head = {name: tensor.detach().cpu().contiguous() for name, tensor in self.head.state_dict().items()}
        safetensors.torch.save_file(head, folder / HEAD_FILE)
        canary = canary or make_canary(self, default_pair())
        stored = {**config.to_dict(), "canary": canary.to_dict()}
        (folder / CONFIG_FILE).write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def adapt(self, rank: int, alpha: int | None, seed: int) -> None:
        """Freeze the backbone and put trainable low-rank adapters on it; `alpha` None: twice the rank."""
        if self.head.frozen:
            raise ValueError(f"the head {self.prm_config.head['name']} goes with a frozen decoder: leave lora_rank out")
        self.backbone = backbones.add_lora(self.backbone, rank, alpha or 2 * rank, seed)
        self.prm_config = replace(self.prm_config, lora=True)

    def widen(self, columns: Sequence[str]) -> None:
        """Outputs of these names in place of the one value, which each of them begins as."""
        layers = self.head.linear if isinstance(self.head, Layers) else [self.head]
        last = layers[-1]
        if not isinstance(last, nn.Linear):
            raise ValueError("many small heads cannot become several named outputs; begin from a linear head")
        if not self.readout.is_chance:
            raise ValueError(
                f"a value that is read as {self.readout.value!r} is no probability that outputs can begin as"
            )
        wide = repeated(last, self.readout.classes, self.readout.good, len(columns))
        made: Head = Layers([*layers[:-1], wide]) if isinstance(self.head, Layers) else wide
        self.head, self.readout = made, Several(names=tuple(columns))
        self.prm_config = replace(self.prm_config, head=made.settings, readout=self.readout)

    @property
    def config(self) -> Any:
        """The backbone's config, where a Trainer looks for it."""
        return self.backbone.config

    @property
    def _no_split_modules(self) -> Any:
        """Classes of layers that are sharded whole, where accelerate looks for them."""
        return getattr(self.backbone, "_no_split_modules", None)

    @property
    def kind(self) -> str:
        """What stands before the fingerprint in the judge's name."""
        return "step-head" if self.prm_config.family == FOOTFALL else self.prm_config.family

    @property
    def max_length(self) -> int:
        """Tokens that fit in its context."""
        return self.prm_config.max_length

    @property
    def threshold(self) -> float | None:
        """Below it a step is an error: chosen on held-out traces when the model was trained, or its family's."""
        found = self.prm_config.training.get("threshold")
        return float(found) if isinstance(found, int | float) else self.family.threshold

    @property
    def separators(self) -> tuple[str, ...]:
        """What stood after each step of the traces it was trained on, if that is known."""
        found = self.prm_config.training.get("separators", ())
        return tuple(str(each) for each in found) if isinstance(found, list | tuple) else ()

    @property
    def trained_on(self) -> str | None:
        """The key of the data that it was trained on, if that is known."""
        found = self.prm_config.training.get("data")
        return found if isinstance(found, str) else None

    def fingerprint(self) -> str:
        """Names weights and reading by content."""
        config = self.prm_config
        if config.family == FOOTFALL:
            return content_key(config.address(), weights_fingerprint(self))[:12]
        own: list[Any] = [] if config.readout == self.family.readout else [config.readout.to_dict()]
        own += [] if config.view == "all" else [config.view]
        return content_key(config.family, config.max_length, weights_fingerprint(self), *own)[:12]

    def read(self, trajectory: Trajectory) -> Reading:
        """The ids this model sees for a trace, and where it reads each step."""
        return self.layout.read(trajectory) if not self.head.both_ways else self.reads(trajectory)[0]

    def read_each(self, trajectories: Sequence[Trajectory]) -> Iterator[Reading]:
        """`read` of many traces, whose texts are tokenised many at a time."""
        if self.layout.per_prefix:
            yield from map(self.read, trajectories)
            return
        for at in range(0, len(trajectories), READ_TOGETHER):
            yield from (reading for (reading,) in self.reads_of(trajectories[at : at + READ_TOGETHER]))

    def reads(self, trajectory: Trajectory) -> list[Reading]:
        """One sequence that is read at every step; a model that must see each prefix apart gives one a step."""
        return self.reads_of([trajectory])[0]

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        """`reads` of many traces, tokenised together; with their mirrors, of a head that reads both ways."""
        found = self.layout.reads_of(trajectories)
        if not self.head.both_ways:
            return found
        turned = self.layout.reads_of([reversed_steps(t) for t in trajectories])
        return [[_mirrored(r, m) for r, m in zip(*rows, strict=True)] for rows in zip(found, turned, strict=True)]

    @property
    def device(self) -> torch.device:
        """Where the backbone is."""
        device: torch.device = next(self.backbone.parameters()).device
        return device

    @property
    def size(self) -> int:
        """Number of parameters, head included."""
        return sum(p.numel() for p in self.parameters())

    def forward(
        self, input_ids: Tensor, positions: Tensor, position_ids: Tensor | None = None, starts: Tensor | None = None,
        prompts: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Logits (N, S, K) at `positions` (N, S) of right-padded ids (N, T); with `starts`, of N traces packed in one row
        (`packed.pack_row`, inside `packed.packing`)."""
        if starts is None:
            return self.head.at(self.head.read(self.backbone, input_ids), positions, prompts)
        if not self.head.packable:
            raise ValueError(
                f"the head {self.prm_config.head['name']} reads more than a step's last state: packing=False"
            )
        told = {"cu_seq_lens_q": starts, "max_length_q": self.max_length}
        given = {"input_ids": input_ids, "position_ids": position_ids, "use_cache": False, **told}
        hidden_1TH: Tensor = self.backbone(**given).last_hidden_state
        return self.head.of(hidden_1TH[0][positions])

    def fuse(self) -> None:
        """Compile the decoder's layers, which share one piece of code; the first batches are then slow, the rest faster."""
        layers = decoder_layers(self.backbone)
        if not layers:
            raise ValueError(f"a {type(self.backbone).__name__} has no list of layers to compile")
        for layer in layers:
            layer.compile(dynamic=True)
        self.multiple = 64

    def unfuse(self) -> None:
        """The layers as they were, for who wants a few batches only."""
        for layer in decoder_layers(self.backbone):
            layer._compiled_call_impl = None
        self.multiple = 1

    def values(self, logits_NSK: Tensor) -> Tensor:
        """One value a step."""
        return self.readout.values(logits_NSK)

    def columns(self, logits_SK: Tensor) -> Columns:
        """Values and aspects of one trace from its logits."""
        return self.readout.columns(logits_SK)

    @torch.inference_mode()
    def logits(self, readings: Sequence[Reading]) -> Tensor:
        """Logits (N, S, K) of readings that fit in one batch; entries past a trace's own steps mean nothing."""
        batch = pad(readings, self.pad_id, self.device, self.multiple)
        with self.reading([reading.positions for reading in readings], batch.input_ids.shape[1]):
            logits_NSK: Tensor = self(**batch._asdict())
        return logits_NSK

    def reading(self, positions: Sequence[Sequence[int]], width: int) -> AbstractContextManager[None]:
        """Inside, a pass over rows of `width` tokens is right at these positions, which are all that a plain head reads."""
        return only_read(self.backbone, positions, width) if self.head.plain else nullcontext()

    @property
    def token_budget(self) -> int:
        """Tokens a batch, where nobody says how many: what keeps the device busy."""
        return 65536 if self.device.type == "cuda" else 2048

    def each_logits(self, readings: Sequence[Reading], token_budget: int | None = None) -> list[Tensor]:
        """Logits (S, K) of each reading, in order, on the CPU; batches are made of traces of like length.

        Nothing is copied back before the last batch is under way, so a GPU never waits for the host in between.
        """
        groups = pack([r.tokens for r in readings], token_budget or self.token_budget)
        batches = [self.logits([readings[i] for i in group]) for group in groups]
        found: list[Tensor] = [torch.zeros(0, self.readout.outputs)] * len(readings)
        for group, logits_NSK in zip(groups, batches, strict=True):
            for i, logits_SK in zip(group, logits_NSK.cpu(), strict=True):
                found[i] = logits_SK[: len(readings[i].positions)]
        return found

    def score(self, readings: Sequence[Reading], token_budget: int | None = None) -> list[tuple[float, ...]]:
        """Values of each reading's steps, in order."""
        was_training = self.training
        self.eval()
        scores = [tuple(self.values(logits).tolist()) for logits in self.each_logits(readings, token_budget)]
        self.train(was_training)
        return scores

    def check(self, source: str) -> None:
        """Different steps must not all get one value: the canary of a checkpoint that brings none."""
        readings = [reading for t in default_pair() for reading in self.reads(t)]
        refuse_constant([value for values in self.score(readings) for value in values], source)

    def check_stored(self, canary: Canary | None, folder: Path, dtype: torch.dtype) -> None:
        """It must say of the stored traces what it said when it was saved."""
        if canary is None:
            raise ValueError(f"{folder / CONFIG_FILE} holds no canary; load it with check=False if that is meant")
        tolerance = TOLERANCE.get(dtype, ROUGH_TOLERANCE)
        check_canary(self, canary, str(folder), tolerance, self.readout.is_chance)

    def gradient_checkpointing_enable(self, **given: Any) -> None:
        """Passed on to the backbone with whatever this version of the Trainer gives."""
        self.backbone.gradient_checkpointing_enable(**given)
        # The first checkpointed layer needs an input with a gradient, and the embedding may be frozen.
        self.backbone.enable_input_require_grads()

    def gradient_checkpointing_disable(self) -> None:
        """Passed on to the backbone."""
        self.backbone.gradient_checkpointing_disable()


def reversed_steps(trajectory: Trajectory) -> Trajectory:
    """The trace with its steps in reverse order, as text: sampled ids have their separators where they were sampled."""
    steps = tuple(replace(s, token_ids=None, logprobs=None, observation_ids=None) for s in reversed(trajectory.steps))
    return replace(trajectory, steps=steps)


def _mirrored(reading: Reading, turned: Reading) -> Reading:
    return reading._replace(mirror=turned._replace(positions=turned.positions[::-1]))


def stored_config(folder: Path) -> tuple[PRMConfig, Canary | None]:
    """What a model's folder says of how it is read, and its canary."""
    stored = read_json(folder)
    canary = stored.pop("canary", None)
    config = PRMConfig.from_dict(stored, str(folder / CONFIG_FILE))
    return config, None if canary is None else Canary.from_dict(canary)


def _context(backbone: Backbone, wanted: int | None, name: str) -> int:
    known = backbones.context_length(backbone)
    if wanted is None and known is None:
        raise ValueError(f"the config of {name} names no context length; give max_length")
    if wanted is not None and known is not None and wanted > known:
        raise ValueError(f"max_length {wanted} is more than the {known} tokens of {name}")
    return wanted or known or 0


def _stored_backbone(
    folder: Path, config: PRMConfig, base: str | None, dtype: torch.dtype, trainable: bool
) -> Backbone:
    if not config.lora:
        return backbones.load_backbone(str(folder), dtype)
    source = base or config.backbone
    if config.family == FOOTFALL:
        backbone = backbones.load_backbone(source, dtype)
    else:
        backbone = published_backbone(local_folder(source), create("family", config.family), dtype, None)
    if config.marker_added and config.marker is not None:
        backbones.add_marker(load_tokenizer(source), backbone, config.marker)
    return backbones.load_adapter(backbone, folder, trainable)


def published_backbone(folder: Path, family: Family, dtype: torch.dtype, base: str | None) -> Backbone:
    """The decoder of a published checkpoint as weights that can be trained: an adapter is merged into its base."""
    backbone = backbones.load_native(folder, dtype, family.keys, base)
    return backbone.merge_and_unload() if backbones.is_adapter(folder) else backbone


def _in_order(path: Path) -> None:
    """PEFT writes sets in the order of their hashes, another one in every process: the same adapter must be the same bytes."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    ordered = {name: sorted(value) if isinstance(value, list) else value for name, value in stored.items()}
    path.write_text(json.dumps(ordered, indent=2, sort_keys=True), encoding="utf-8")
