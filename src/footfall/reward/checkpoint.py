"""Published PRMs as judges: `checkpoint("Qwen/Qwen2.5-Math-PRM-7B")`, or a folder with a fine-tune of a known family.

The family (`footfall list family`) says how the checkpoint is read; its own code is never run and its weights come from
safetensors. A canary is scored at load: a trace of three steps must not get one value thrice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from footfall.encoding import check_round_trip
from footfall.hashing import weights_fingerprint
from footfall.loading import load_tokenizer, pick_device, pick_dtype, quiet
from footfall.registry import register
from footfall.reward.backbone import Backbone, context_length, graft_adapter
from footfall.reward.canary import default_pair, refuse_constant
from footfall.reward.family import Evidence, Family, recognise
from footfall.reward.judge import StepHeadJudge
from footfall.reward.pieces import Writer
from footfall.reward.reading import Reading
from footfall.reward.running import TooLong
from footfall.reward.step_model import StepModel
from footfall.reward.tensors import local_folder
from footfall.types import Judge, Trajectory, content_key

__all__ = ["CheckpointModel", "Options", "checkpoint", "evidence", "load_native"]

_ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class Options:
    """How a checkpoint is run; the same for every family."""

    device: str | None = None
    dtype: torch.dtype | None = None
    too_long: TooLong = "error"
    token_budget: int | None = None
    cache_tokens: int = 0
    base: str | None = None
    """Replaces the base model that an adapter names, or the reference of an implicit PRM."""
    check: bool = True
    compile: bool | None = None

    def judge(self, model: StepModel) -> StepHeadJudge:
        """A model of one pass as a judge that is run this way."""
        return StepHeadJudge(
            model, too_long=self.too_long, token_budget=self.token_budget, cache_tokens=self.cache_tokens,
            compile=self.compile,
        )  # fmt: skip


@register("reward", "checkpoint")
def checkpoint(
    path: str | Path,
    family: str | None = None,
    device: str | None = None,
    too_long: TooLong = "error",
    token_budget: int | None = None,
    cache_tokens: int = 0,
    base: str | None = None,
    check: bool = True,
    compile: bool | None = None,
) -> Judge:
    """A published PRM of any known family, from a folder or a hub id."""
    seen = evidence(path, base)
    found = recognise(seen, family)
    options = Options(device, None, too_long, token_budget, cache_tokens, base, check, compile)
    if found.open is not None:
        return found.open(seen, found, options)
    return options.judge(CheckpointModel.load(seen, found, options))


def evidence(path: str | Path, base: str | None = None) -> Evidence:
    """What a folder or hub id shows; of a bare adapter, with the tokenizer of its base if it brings none."""
    folder = local_folder(path)

    def tokenizer() -> Any:
        own = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "tokenizer_config.json"))
        source = str(folder) if own or not _is_adapter(folder) else str(_base_of(folder, base))
        loaded = load_tokenizer(source)
        check_round_trip(loaded, source)
        return loaded

    return Evidence(folder, str(path), tokenizer, (lambda: _base_of(folder, base)) if _is_adapter(folder) else None)


class CheckpointModel(StepModel):
    """A published PRM: native backbone, its own head, and its family's layout."""

    def __init__(self, backbone: Backbone, head: torch.nn.Module, writer: Writer, family: Family) -> None:
        super().__init__()
        self.backbone: Backbone = backbone
        self.head = head
        self.writer = writer
        self.family = family
        self.readout = family.readout
        pad = writer.tokenizer.pad_token_id
        self.pad_id: int = pad if pad is not None else 0

    @classmethod
    def load(cls, seen: Evidence, family: Family, options: Options) -> CheckpointModel:
        """Ready to score: bfloat16 on CUDA and float32 elsewhere unless `options` say otherwise."""
        place = pick_device(options.device)
        writer = Writer(seen.tokenizer, seen.name)
        backbone = load_native(seen.folder, options.dtype or pick_dtype(place), family.keys, options.base)
        width: int = backbone.config.get_text_config().hidden_size
        tensors = (
            seen.tensors if not _is_adapter(seen.folder) else evidence(_base_of(seen.folder, options.base)).tensors
        )
        head = family.head.build(tensors, writer, width, family.readout.outputs)
        model = cls(backbone, head, writer, family)
        model.to(place).eval()
        if options.check:
            model.check(seen.name)
        return model

    @property
    def kind(self) -> str:
        return self.family.name

    @property
    def max_length(self) -> int:
        known = [n for n in (self.family.context, context_length(self.backbone)) if n]
        if not known:
            raise ValueError(f"neither {self.family.name} nor the config of its backbone names a context length")
        return min(known)

    @property
    def threshold(self) -> float | None:
        return self.family.threshold

    def read(self, trajectory: Trajectory) -> Reading:
        """The family's layout as ids; a read for every step, or an error that names the trace."""
        ((reading,),) = self._read([[trajectory]])
        return reading

    def reads(self, trajectory: Trajectory) -> list[Reading]:
        return self.reads_of([trajectory])[0]

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        if not self.family.per_prefix:
            return self._read([[t] for t in trajectories])
        return self._read([[t.prefix(k) for k in range(1, len(t.steps) + 1)] for t in trajectories])

    def _read(self, groups: Sequence[Sequence[Trajectory]]) -> list[list[Reading]]:
        flat = [t for group in groups for t in group]
        found = self.writer.read_many([(self.family.layout(self.writer, t), f"trajectory {t.id!r}") for t in flat])
        for trajectory, reading in zip(flat, found, strict=True):
            expected = 1 if self.family.per_prefix else len(trajectory.steps)
            if len(reading.positions) != expected:
                raise ValueError(
                    f"trajectory {trajectory.id!r}: {len(reading.positions)} reads for {expected} steps; "
                    f"the layout of {self.family.name} is wrong"
                )
        rest = iter(found)
        return [[next(rest) for _ in group] for group in groups]

    def check(self, source: str) -> None:
        """Different steps must not all get one value."""
        readings = [reading for t in default_pair() for reading in self.reads(t)]
        refuse_constant([value for values in self.score(readings) for value in values], source)

    def fingerprint(self) -> str:
        return content_key(self.family.name, self.max_length, weights_fingerprint(self))[:12]


def load_native(folder: Path, dtype: torch.dtype, keys: Mapping[str, str] | None, base: str | None) -> Backbone:
    """The decoder of a checkpoint in transformers' own code; of an adapter, its base with the adapter in it."""
    if _is_adapter(folder):
        return graft_adapter(load_native(_base_of(folder, base), dtype, keys, None), folder)
    with quiet():
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        model, info = AutoModel.from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True,
            **({"key_mapping": dict(keys)} if keys else {}),
        )  # fmt: skip
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise ValueError(f"{folder} lacks {len(missing)} weights of a {type(model).__name__}, {missing[0]} first")
    return model


def _base_of(folder: Path, base: str | None) -> Path:
    stored = json.loads((folder / _ADAPTER).read_text(encoding="utf-8"))
    name = base or stored.get("base_model_name_or_path")
    if not name:
        raise ValueError(f"{folder / _ADAPTER} names no base model; give it: --set base=…")
    return local_folder(name)


def _is_adapter(folder: Path) -> bool:
    """A bare adapter: its base model is elsewhere."""
    return (folder / _ADAPTER).is_file() and not (folder / "config.json").is_file()
