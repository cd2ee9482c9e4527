"""Published PRMs as judges: `checkpoint("Qwen/Qwen2.5-Math-PRM-7B")`, or a folder with a fine-tune of a known family.

The family (`footfall list family`) says how the checkpoint is read; its own code is never run and its weights come from
safetensors. A canary is scored at load: a trace of three steps must not get one value thrice.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from footfall.damaged import check_sizes, naming
from footfall.gguf.container import is_gguf
from footfall.loading import load_tokenizer, local_folder, pick_device, pick_dtype
from footfall.registry import Declared, register
from footfall.render import Writer, check_round_trip
from footfall.reward.backbone import Backbone, base_of, context_length, is_adapter, load_native
from footfall.reward.config import CONFIG_FILE, FOOTFALL, PRMConfig, read_json
from footfall.reward.family import Evidence, Family, families, recognise, recognise_prm
from footfall.reward.judge import PRMJudge, TooLong
from footfall.reward.prm import PRM, published_backbone
from footfall.types import Judge


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
    initial: bool = False
    token_values: bool = False

    def judge(self, model: PRM) -> Judge:
        """A model as a judge that is run this way; in one pass, if its family does not say otherwise."""
        if model.family.judged is not None:
            _refuse_tokens(model.family, self)
            judged: Judge = model.family.judged(model, self)
            return judged
        return PRMJudge(
            model, too_long=self.too_long, token_budget=self.token_budget, cache_tokens=self.cache_tokens,
            compile=self.compile, initial=self.initial, token_values=self.token_values,
        )  # fmt: skip


@register("reward", "checkpoint", Declared(serves=("checkpoint",)))
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
    initial: bool = False,
    token_values: bool = False,
) -> Judge:
    """A published PRM of any known family, from a folder or a hub id."""
    seen = evidence(path, base)
    found = recognise(seen, family)
    options = Options(device, None, too_long, token_budget, cache_tokens, base, check, compile, initial, token_values)
    if found.open is not None:
        _refuse_tokens(found, options)
        return found.open(seen, found, options)
    return options.judge(published(seen, found, options))


def _refuse_tokens(family: Family, options: Options) -> None:
    if (options.initial or options.token_values) and not family.token_level:
        raise ValueError(f"a {family.name} has no value at the prompt's end or at other tokens than it is read at")


def evidence(path: str | Path, base: str | None = None) -> Evidence:
    """What a folder or hub id shows; of a bare adapter, with the tokenizer of its base if it brings none."""
    folder = local_folder(path)
    check_sizes(folder)

    def tokenizer() -> Any:
        own = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "tokenizer_config.json"))
        source = str(folder) if own or not is_adapter(folder) else str(base_of(folder, base))
        loaded = load_tokenizer(source)
        with naming(source):
            check_round_trip(loaded, source)
        return loaded

    return Evidence(folder, str(path), tokenizer, (lambda: base_of(folder, base)) if is_adapter(folder) else None)


def published(seen: Evidence, family: Family, options: Options) -> PRM:
    """Ready to score: bfloat16 on CUDA and float32 elsewhere unless `options` say otherwise."""
    place = pick_device(options.device)
    with naming(seen.name):
        backbone = load_native(seen.folder, options.dtype or pick_dtype(place), family.keys, options.base)
        model = _with_head(backbone, seen, family, options.base)
        model.to(place).eval()
        if options.check:
            model.check(seen.name)
    return model


def language_family(path: str | Path, asked: str | None) -> Family | None:
    """The family of language models that `asked`, or the folder of one trained here, names; `None`: it is no such one."""
    if (Path(path) / CONFIG_FILE).is_file():
        asked = read_json(Path(path)).get("family", FOOTFALL)
    found = families().get(asked or FOOTFALL)
    return found if found is not None and found.objective is not None else None


def to_train(path: str | Path, family: str | None, dtype: torch.dtype) -> PRM | None:
    """A published PRM with its layout, head and read-out, all weights trainable; None: it is a plain decoder.

    `family` None: only what is a PRM by its weights or its name is one. A GGUF file never is.
    """
    if is_gguf(path):
        return None
    seen = evidence(path)
    found = recognise_prm(seen) if family is None else recognise(seen, family)
    if found is None:
        return None
    if found.open is not None:
        how = "it cannot be trained" if found.objective is None else f"it is trained by the objective {found.objective}"
        raise ValueError(f"{seen.name} of the family {found.name} is no head on a backbone: {how}")
    backbone = published_backbone(seen.folder, found, dtype, None)
    model = _with_head(backbone, seen, found, None)
    model.requires_grad_(True)
    return model


def _with_head(backbone: Backbone, seen: Evidence, family: Family, base: str | None) -> PRM:
    writer = Writer(seen.tokenizer, seen.name)
    width: int = backbone.config.get_text_config().hidden_size
    tensors = evidence(base_of(seen.folder, base)).tensors if is_adapter(seen.folder) else seen.tensors
    head = family.head.build(tensors, writer, width, family.readout.outputs)
    known = [n for n in (family.context, context_length(backbone)) if n]
    if not known:
        raise ValueError(f"neither {family.name} nor the config of its backbone names a context length")
    config = PRMConfig(
        backbone=seen.name, family=family.name, head=head.settings, readout=family.readout, max_length=min(known)
    )
    return PRM(backbone, seen.tokenizer, config, head=head, source=seen.name)
