"""Backbones of PRMs: any decoder that transformers knows, from safetensors only, without pickles and without remote code.

Also the tensors of a checkpoint folder by name, which need no model to be loaded: heads are read from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoModel

from footfall.damaged import json_of, naming
from footfall.gguf.container import is_gguf
from footfall.loading import check_folder, check_weights, load_model, merge_adapter, quiet, why_not_fetched

Backbone: TypeAlias = Any
"""A `PreTrainedModel` or the `PeftModel` around one; peft is optional, so there is no common type to name."""

_IN_LM, _IN_DECODER = "base_model.model.model.", "base_model.model."
_INDEX, _ADAPTER, _ADAPTER_WEIGHTS = "model.safetensors.index.json", "adapter_config.json", "adapter_model.safetensors"
_PATTERNS = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]


def local_folder(source: str | Path) -> Path:
    """The folder itself, or the downloaded snapshot of a hub id; of `owner/name@revision` that branch, tag or commit."""
    folder = Path(source)
    if folder.is_dir():
        return folder
    if is_gguf(folder) and folder.is_file():
        made = f"[each.save_pretrained('FOLDER') for each in load_model({str(source)!r}, 'cpu')]"
        raise ValueError(
            f"{source} is a GGUF file, and a folder as hubs have it is needed here (config.json, safetensors); this makes one "
            f'of it: python -c "from footfall.loading import load_model; {made}"'
        )
    name, _, revision = str(source).partition("@")
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise FileNotFoundError(f"{source}: there is no such folder, and it is no hub id (owner/name)")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=_PATTERNS))
    except (OSError, ValueError) as error:
        raise FileNotFoundError(f"{source} is no folder here; taken for a hub id, {why_not_fetched(error)}") from error


class TensorFiles:
    """Names, shapes and single tensors of all safetensors files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = _files_by_tensor(folder)

    def __contains__(self, name: str) -> bool:
        return name in self._file

    @property
    def names(self) -> list[str]:
        """All tensors of the checkpoint, whichever file they are in."""
        return sorted(self._file)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, which is not loaded for that."""
        with safe_open(self.folder / self._file[name], framework="pt") as file:
            return tuple(file.get_slice(name).get_shape())

    def load(self, name: str) -> Tensor:
        """One tensor in float32."""
        with safe_open(self.folder / self._file[name], framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor.float()

    def rows(self, name: str, rows: list[int]) -> Tensor:
        """Some rows of a matrix in float32, without reading the others."""
        with safe_open(self.folder / self._file[name], framework="pt") as file:
            part = file.get_slice(name)
            count = part.get_shape()[0]
            if max(rows) >= count:
                raise ValueError(f"{self.folder}: {name} has {count} rows, none for token {max(rows)}")
            return torch.cat([part[row : row + 1] for row in rows]).float()


def _files_by_tensor(folder: Path) -> Mapping[str, str]:
    index = folder / _INDEX
    if index.is_file():
        with naming(index):
            stored = json_of(index)["weight_map"]
            outside = [file for file in stored.values() if Path(file).name != file]
        if outside:
            raise ValueError(f"{index} names the file {outside[0]!r} outside its folder")
        if missing := sorted({file for file in stored.values() if not (folder / file).is_file()}):
            raise FileNotFoundError(
                f"{folder} lacks {len(missing)} of its files with weights, {missing[0]} first: the download is not whole"
            )
        return {str(name): str(file) for name, file in stored.items()}
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with naming(path), safe_open(path, framework="pt") as file:
            found.update(dict.fromkeys(file.keys(), path.name))
    if not found:
        pickles = sorted(p.name for p in [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
        hint = (
            f"; {pickles[0]} is a pickle, which can run code: convert it with a tool that you trust in a place apart"
            if pickles
            else ""
        )
        raise FileNotFoundError(f"{folder} holds no safetensors weights{hint}")
    return found


def load_backbone(source: str | Path, dtype: torch.dtype, keys: Mapping[str, str] | None = None) -> Backbone:
    """The decoder without its language-model head, from a folder, a hub id or a GGUF file; `keys` turn stored names into its
    own."""
    if is_gguf(source):
        return load_model(source, dtype=dtype)[0].base_model
    check_folder(source)
    with quiet(), naming(source):
        model, info = AutoModel.from_pretrained(
            source, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True,
            **({"key_mapping": dict(keys)} if keys else {}),
        )  # fmt: skip
    merge_adapter(model)
    check_weights(model, info["missing_keys"], source)
    return model


def load_native(folder: Path, dtype: torch.dtype, keys: Mapping[str, str] | None, base: str | None) -> Backbone:
    """The decoder of a published checkpoint; of a bare adapter, its base with the adapter in it."""
    if is_adapter(folder):
        return graft_adapter(load_native(base_of(folder, base), dtype, keys, None), folder)
    return load_backbone(folder, dtype, keys)


def base_of(folder: Path, base: str | None) -> Path:
    """The folder of the model that a bare adapter belongs to: `base`, or the one that it names."""
    with naming(folder / _ADAPTER):
        name = base or json_of(folder / _ADAPTER).get("base_model_name_or_path")
    if not name:
        raise ValueError(f"{folder / _ADAPTER} names no base model; give it: --set base=…")
    return local_folder(name)


def is_adapter(folder: Path) -> bool:
    """A bare adapter: its base model is elsewhere."""
    return (folder / _ADAPTER).is_file() and not (folder / "config.json").is_file()


def context_length(backbone: Backbone) -> int | None:
    """Tokens the backbone was built for, if its config says so."""
    length = getattr(backbone.config.get_text_config(), "max_position_embeddings", None)
    return int(length) if length else None


def marker_id(tokenizer: Any, marker: str) -> int | None:
    """The one id that stands for `marker`, if the vocabulary has one."""
    known: int | None = tokenizer.get_vocab().get(marker)
    if known is not None:
        return known
    ids = tokenizer.encode(marker, add_special_tokens=False)
    return ids[0] if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None


def add_marker(tokenizer: Any, backbone: Backbone, marker: str) -> bool:
    """Make `marker` one token of the vocabulary; True if it was none before. A new one starts as the mean embedding."""
    if marker_id(tokenizer, marker) is not None:
        return False
    tokenizer.add_tokens([marker], special_tokens=True)
    row = tokenizer.convert_tokens_to_ids(marker)
    embedding = backbone.get_input_embeddings()
    rows = embedding.weight.shape[0]
    mean = embedding.weight.detach()[: min(rows, row)].float().mean(dim=0)
    if row >= rows:
        with torch.random.fork_rng():
            backbone.resize_token_embeddings(row + 1, mean_resizing=False)
        embedding = backbone.get_input_embeddings()
    with torch.no_grad():
        embedding.weight[row] = mean.to(embedding.weight)
    return True


def _peft(folder: Path | None = None) -> Any:
    """The package, which is optional; `folder` holds the adapter that it is needed for."""
    try:
        import peft
    except ImportError as error:
        held = "" if folder is None else f"{folder} holds a LoRA adapter. "
        raise ModuleNotFoundError(f"{held}LoRA needs the package peft; install it with: pip install peft") from error
    return peft


def check_rank(model: Backbone, rank: int) -> None:
    """Refuse a rank that is more than the model's layers are wide: it could say nothing more, and would take any memory."""
    width = model.config.get_text_config().hidden_size
    if not 1 <= rank <= width:
        raise ValueError(f"lora_rank {rank}: from 1 to {width}, the width of this model; a higher rank adds nothing")


def add_lora(backbone: Backbone, rank: int, alpha: int, seed: int) -> Backbone:
    """The backbone frozen, with trainable low-rank adapters on all its linear layers."""
    check_rank(backbone, rank)
    peft = _peft()
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="FEATURE_EXTRACTION")
    # peft draws from torch's global generator: lend it a seeded one.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        adapted: Backbone = peft.get_peft_model(backbone, config)
    return adapted


@contextmanager
def half_precision_adapters(backbone: Backbone) -> Iterator[None]:
    """Adapters take what the layers before them give, under autocast: peft would make it float32 first, in memory."""
    with _peft().helpers.disable_input_dtype_casting(backbone):
        yield


def load_adapter(backbone: Backbone, folder: Path, trainable: bool) -> Backbone:
    """The backbone with the adapter stored in `folder`."""
    peft = _peft(folder)
    _check_adapter(folder)
    with naming(folder):
        adapted: Backbone = peft.PeftModel.from_pretrained(backbone, folder, is_trainable=trainable)
    return adapted


def _check_adapter(folder: Path) -> None:
    """Weights in safetensors, where peft would take a pickle too, and no rank that they do not have."""
    weights = folder / _ADAPTER_WEIGHTS
    if not weights.is_file():
        raise FileNotFoundError(
            f"{folder} has no {_ADAPTER_WEIGHTS}; an adapter_model.bin is a pickle, which can run code, and is never read"
        )
    with naming(weights), safe_open(weights, framework="pt") as file:
        widest = max((min(file.get_slice(name).get_shape(), default=0) for name in file.keys()), default=0)  # noqa: SIM118
    with naming(folder / _ADAPTER):
        stored = json_of(folder / _ADAPTER)
        ranks = [stored["r"], *(stored.get("rank_pattern") or {}).values()]
        if not all(isinstance(rank, int) and 0 < rank <= widest for rank in ranks):
            raise ValueError(f"{folder / _ADAPTER} claims the ranks {str(ranks)[:60]}; its weights have {widest}")
        _check_adapter_settings(stored, folder / _ADAPTER)


def _check_adapter_settings(stored: Mapping[str, Any], path: Path) -> None:
    """Versions of peft import what `megatron_core` names, or unpickle what `corda_config` names; all match patterns."""
    if stored.get("peft_type") != "LORA":
        raise ValueError(f"{path}: an adapter of the type {str(stored.get('peft_type'))[:40]} is not read, only LORA")
    if found := next((name for name, value in stored.items() if name.endswith("_config") and value), None):
        raise ValueError(f"{path} sets {found[:40]}, which can load code; delete it if the adapter is plain LoRA")
    patterns = [stored.get(name) for name in ("target_modules", "exclude_modules", "layers_pattern")]
    patterns += [name for field in ("rank_pattern", "alpha_pattern") for name in stored.get(field) or {}]
    for pattern in patterns:
        if isinstance(pattern, str) and (
            _REPEATED_GROUP.search(pattern) or len(_REPEATS.findall(pattern)) > _MOST_REPEATS
        ):
            raise ValueError(f"{path}: the pattern {pattern[:60]!r} could take for ever to match")


_REPEATED_GROUP, _REPEATS, _MOST_REPEATS = re.compile(r"\)[*+{]"), re.compile(r"[*+{]"), 6


def graft_adapter(backbone: Backbone, folder: Path) -> Backbone:
    """The decoder with an adapter that was trained on the whole language model around it.

    There every name has one more `model.`; peft would find none of them and go on with an adapter of zeros.
    """
    peft = _peft(folder)
    _check_adapter(folder)
    stored = {name.replace(_IN_LM, _IN_DECODER, 1) for name in TensorFiles(folder).names}
    with naming(folder):
        config = peft.PeftConfig.from_pretrained(str(folder))
        config.task_type = None
        adapted: Backbone = peft.PeftModel.from_pretrained(
            backbone, folder, config=config, key_mapping={r"^model\.": ""}
        )
    lost = sorted(stored - set(peft.get_peft_model_state_dict(adapted)))
    if lost:
        raise ValueError(f"{folder} adapts what is not part of a {type(backbone).__name__}: {lost[0]}")
    return adapted
