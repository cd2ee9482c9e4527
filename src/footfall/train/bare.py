"""The PRM that a training would begin with, as far as it can be known without its weights: what it reads, and its shapes.

`footfall.train.begin` makes the same model with weights; here a configuration and a tokenizer are enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from footfall.damaged import json_of, naming
from footfall.gguf.container import is_gguf
from footfall.loading import at_revision, check_folder, hub_id, load_tokenizer, quiet
from footfall.reward.backbone import Backbone, add_marker, base_of, context_length, is_adapter, load_backbone
from footfall.reward.checkpoint import evidence, language_family
from footfall.reward.config import CONFIG_FILE, FOOTFALL, PRMConfig
from footfall.reward.family import Family, families, recognise, recognise_prm
from footfall.reward.heads import Head, LinearHead, linear
from footfall.reward.prm import PRM, stored_config
from footfall.reward.publish import add_tokens, check_kind, publishable, refuse_head
from footfall.train.begin import as_published, continued, limited, refuse_unfit
from footfall.train.config import TrainConfig
from footfall.train.objectives import Objective


def bare_model(source: str, config: TrainConfig, objective: Objective) -> PRM:
    """The PRM that would be trained (`footfall.train.begin:fresh_model`): what it reads, with shapes and no weights."""
    if config.as_family is not None:
        config = as_published(config, objective, source)
    family = language_family(source, config.family)
    refuse_unfit(objective, family)
    if family is not None:
        raise ValueError(
            f"--estimate counts a head on a decoder, and a {family.name} is a language model, with a reference or critiques "
            "beside it: leave --estimate out"
        )
    if config.as_family is not None:
        if _has_weights(source):
            refuse_head(evidence(source), config.as_family)
        return limited(_of_family(source, publishable(config.as_family), config, begun=True), config)
    if (Path(source) / CONFIG_FILE).is_file():
        return continued(_stored(source), source, config, objective)
    known = _published(source, config.family)
    if known is not None:
        return continued(_of_family(source, known, config, begun=False), source, config, objective)
    return PRM.from_backbone(
        _decoder(source), load_tokenizer(source), marker=config.marker, classes=objective.classes, good=objective.good,
        heads=config.heads, head={"name": config.head, **config.head_options} if config.head else None,
        columns=objective.columns, template=config.template, view=config.view, max_length=config.max_length,
        lora_rank=config.lora_rank, lora_alpha=config.lora_alpha,
    )  # fmt: skip


def _has_weights(source: str | Path) -> bool:
    return any(Path(source).glob("*.safetensors"))


def _decoder(source: str | Path) -> Backbone:
    """Its shapes, from its configuration alone; a GGUF file has that among its weights."""
    from transformers import AutoConfig, AutoModel

    if is_gguf(source):
        return load_backbone(source, torch.bfloat16).to("meta")
    source = at_revision(source, weights=False)
    decoders: Any = AutoModel
    if _has_weights(source):
        check_folder(source)
    if is_adapter(Path(source)):  # it is merged before it is trained
        source = base_of(Path(source), None)
    with naming(source), quiet(), torch.device("meta"):
        return decoders.from_config(AutoConfig.from_pretrained(source, trust_remote_code=False))


def _stored(source: str) -> PRM:
    """A PRM that was trained here, to go on from."""
    folder = Path(source)
    known, _ = stored_config(folder)
    decoder = _decoder(known.backbone if known.lora else source)
    if known.marker_added and known.marker is not None:
        add_marker(load_tokenizer(known.backbone if known.lora else source), decoder, known.marker)
    model = PRM(decoder, load_tokenizer(source), known, source=source)
    if known.lora:
        adapters = json_of(folder / "adapter_config.json")
        model.adapt(int(adapters["r"]), int(adapters["lora_alpha"]), 0)
    return model


def _published(source: str, asked: str | None) -> Family | None:
    """The family that `footfall.reward.checkpoint:to_train` reads it as; of what has no weights here its name decides."""
    if asked == FOOTFALL:
        return None
    if _has_weights(source):
        seen = evidence(source)
        return recognise_prm(seen) if asked is None else recognise(seen, asked)
    if asked is not None:
        return families()[asked]
    return next((family for family in families().values() if hub_id(source)[0] in family.published), None)


def _of_family(source: str, family: Family, config: TrainConfig, begun: bool) -> PRM:
    """A PRM in a published family's layout; where it is `begun` here, tokens that it reads at are put into its vocabulary."""
    decoder = _decoder(source)
    tokenizer = evidence(source).tokenizer if is_adapter(Path(source)) and not begun else load_tokenizer(source)
    if begun:
        check_kind(family, decoder.config.model_type, source)
        add_tokens(family, tokenizer, decoder)
    width, outputs = decoder.config.get_text_config().hidden_size, family.readout.outputs
    if isinstance(family.head, LinearHead):
        head: Head = family.head.fresh(width, outputs, 0)
    else:
        head = linear(torch.empty(outputs, width)).requires_grad_(True)
    known = [n for n in (family.context, context_length(decoder)) if n]
    if not known:
        raise ValueError(f"neither {family.name} nor the config of {source} names a context length")
    reading = PRMConfig(source, family.name, head=head.settings, readout=family.readout, max_length=min(known))
    model = PRM(decoder, tokenizer, reading, head=head, source=source)
    if config.lora_rank is not None:
        model.adapt(config.lora_rank, config.lora_alpha, 0)
    return model
