"""PRMs in the format of a published family: begun from a plain decoder, and written so that the family's own reader takes them.

A family says which architecture its folders name (`Family.stored_as`), and its `StoredHead` where the head's tensors lie. What
is written holds weights, config and tokenizer as a hub holds them, and nothing of ours; read back, it gives the same scores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from footfall.loading import load_tokenizer, quiet
from footfall.render import Writer, check_round_trip
from footfall.reward import backbone as backbones
from footfall.reward.checkpoint import evidence
from footfall.reward.config import CONFIG_FILE, PRMConfig
from footfall.reward.family import Evidence, Family, families
from footfall.reward.heads import Head, LinearHead, VocabularyRows, linear, output_matrix
from footfall.reward.prm import PRM


def publishable(name: str) -> Family:
    """The family of this name, if PRMs are written in its format here."""
    known = families()
    can = [each for each, family in known.items() if family.stored_as is not None]
    if name not in can:
        what = "is no family" if name not in known else "is a family that is only read here"
        raise ValueError(f"{name!r} {what}; PRMs are written as {', '.join(can)}")
    return known[name]


def begin_as(source: str | Path, name: str, dtype: torch.dtype, seed: int) -> PRM:
    """A plain decoder in a family's layout, with a fresh head of the family's shape and its read-out."""
    family, seen = publishable(name), evidence(source)
    refuse_head(seen, name)
    check_kind(family, seen.config.get("model_type"), source)
    backbone = backbones.load_backbone(str(source), dtype)
    if family.match.architectures and (made := _architecture(family, backbone)) not in family.match.architectures:
        raise ValueError(f"{source} would be stored as {made}, which no reader of {name} takes")
    tokenizer = load_tokenizer(str(source))
    check_round_trip(tokenizer, str(source))
    width: int = backbone.config.get_text_config().hidden_size
    add_tokens(family, tokenizer, backbone)
    writer = Writer(tokenizer, str(source))
    check_vocabulary(family, writer)
    head: Head
    if isinstance(family.head, VocabularyRows):
        if family.marks:
            matrix_VH = _with_added(seen.tensors.load(output_matrix(seen.tensors)), backbone)
            head = linear(matrix_VH[[writer.id_of(token) for token in family.head.tokens]])
        else:
            head = family.head.build(seen.tensors, writer, width, family.readout.outputs)
        head.requires_grad_(True)
    else:
        assert isinstance(family.head, LinearHead)
        head = family.head.fresh(width, family.readout.outputs, seed)
    known = [n for n in (family.context, backbones.context_length(backbone)) if n]
    if not known:
        raise ValueError(f"neither {name} nor the config of {source} names a context length")
    config = PRMConfig(
        backbone=str(source), family=name, head=head.settings, readout=family.readout, max_length=min(known)
    )
    return PRM(backbone, tokenizer, config, head=head, source=str(source))


def check_kind(family: Family, kind: str | None, source: str | Path) -> None:
    """The decoder is of the kind that the family's readers take."""
    kinds = family.match.model_types
    if kinds and kind not in kinds:
        raise ValueError(
            f"a {family.name} is a {' or '.join(kinds)} decoder, and {source} a {kind}: begin from such a decoder"
        )


def check_vocabulary(family: Family, writer: Writer) -> None:
    """The vocabulary has what the family is known by, which its folders cannot add: its reader would refuse what is written."""
    for token in family.match.tokens:
        try:
            writer.id_of(token)
        except ValueError as error:
            like = f", as the decoder of {family.published[0]} does" if family.published else ""
            raise ValueError(
                f"no reader of {family.name} would take what is made of {writer.source}: {token!r} is not one token of its "
                f"vocabulary; begin from a decoder that has it{like}"
            ) from error


def add_tokens(family: Family, tokenizer: Any, backbone: backbones.Backbone) -> None:
    """The tokens that the family reads at, where the vocabulary lacks them and its folders can hold new ones."""
    if isinstance(family.head, LinearHead) or family.marks:
        for token in family.match.tokens:
            backbones.add_marker(tokenizer, backbone, token)


def refuse_head(seen: Evidence, name: str) -> None:
    """A PRM's trained head would be lost without a word."""
    own = CONFIG_FILE if (seen.folder / CONFIG_FILE).is_file() else None
    own = own or next((tensor for tensor in seen.tensors.names if tensor.startswith(("score.", "v_head."))), None)
    if own is not None:
        raise ValueError(
            f"{seen.name} has a head of its own ({own}), and a {name} is begun from a plain decoder: leave --as out to go on "
            "from it, or name the decoder that it was trained from"
        )


def _with_added(matrix_VH: Tensor, backbone: Any) -> Tensor:
    """An output matrix with a row for each token that was added to the vocabulary: the mean of the others."""
    lacking = backbone.get_input_embeddings().weight.shape[0] - len(matrix_VH)
    return torch.cat([matrix_VH, matrix_VH.float().mean(dim=0).to(matrix_VH).expand(max(0, lacking), -1)])


def _architecture(family: Family, backbone: Any) -> str:
    """The class that the config names: `{decoder}` is the decoder's own name, as Qwen2."""
    decoder = backbone.get_base_model() if hasattr(backbone, "get_base_model") else backbone
    return str(family.stored_as).format(decoder=type(decoder).__name__.removesuffix("Model"))


def publish(model: PRM, folder: Path) -> None:
    """Write a model of a family as its published checkpoints are: weights under `model.`, the head where the family has it."""
    family = publishable(model.prm_config.family)
    if model.prm_config.lora:
        raise ValueError("an adapter is no published checkpoint: fold it in with merge_lora")
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {f"model.{name}": tensor for name, tensor in model.backbone.state_dict().items()}
    config = json.loads(model.backbone.config.to_json_string(use_diff=False))
    config |= {"architectures": [_architecture(family, model.backbone)], "dtype": "float32"}
    if isinstance(family.head, LinearHead):
        tensors |= family.head.stored(model.head)
        config |= {"num_labels": family.readout.outputs}
    else:
        assert isinstance(family.head, VocabularyRows)
        tensors["lm_head.weight"] = _output_matrix(model, family.head)
        config["tie_word_embeddings"] = False
    config.pop("_name_or_path", None)
    kept = {name: tensor.detach().float().cpu().contiguous().clone() for name, tensor in tensors.items()}
    safetensors.torch.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    with quiet():
        model.tokenizer.save_pretrained(folder)


def _output_matrix(model: PRM, head: VocabularyRows) -> Tensor:
    """That of the decoder, with the trained rows in the place of the tokens that are read."""
    tensors = evidence(model.prm_config.backbone).tensors
    name = output_matrix(tensors)
    tied = name != "lm_head.weight"
    matrix_VH = (
        (model.backbone.get_input_embeddings().weight if tied else tensors.load(name)).detach().float().cpu().clone()
    )
    matrix_VH = _with_added(matrix_VH, model.backbone)
    writer = Writer(model.tokenizer, model.prm_config.backbone)
    rows_KH: Tensor = model.head.state_dict()["weight"]
    matrix_VH[[writer.id_of(token) for token in head.tokens]] = rows_KH.float().cpu()
    return matrix_VH
