"""A step-head PRM: a decoder and a head that values each step of a trace in one forward pass.

    value_k = sigmoid(w·h(p_k) + b)              one logit
    value_k = Σ_{c good} softmax(W h(p_k) + b)_c     named classes
    value_k = mean_e sigmoid(f_e(h(p_k)))            several small networks (`footfall.reward.ensemble`)
    value_k = sigmoid(w_1·h(p_k) + b_1)              several named outputs (`footfall.reward.several`)

h(p_k) is the last hidden state where step k is read: at its last token, or at a marker token put after it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from footfall.encoding import Template, check_round_trip, template_for, texts_to_tokenise
from footfall.hashing import weights_fingerprint
from footfall.loading import load_tokenizer, pick_device, quiet
from footfall.reward import backbone as backbones
from footfall.reward.backbone import Backbone
from footfall.reward.canary import Canary, check_canary, default_pair, make_canary
from footfall.reward.config import CONFIG_FILE, StepHeadConfig, read_json
from footfall.reward.ensemble import Heads, MeanOfHeads
from footfall.reward.reading import PlainText, Reading, read_trace
from footfall.reward.readout import Readout
from footfall.reward.several import Several, repeated
from footfall.reward.step_model import StepModel
from footfall.types import Trajectory, content_key

__all__ = ["StepHeadModel"]

HEAD_FILE = "head.safetensors"
TOLERANCE = {torch.float32: 1e-3}
"""How far a canary value may move between machines; half precision is given `ROUGH_TOLERANCE`."""
ROUGH_TOLERANCE = 0.05


class StepHeadModel(StepModel):
    """Backbone, head and tokenizer of a PRM. `step_config` says how to read them; `config` is the backbone's own."""

    def __init__(self, backbone: Backbone, tokenizer: Any, step_config: StepHeadConfig, seed: int = 0) -> None:
        super().__init__()
        self.backbone: Backbone = backbone
        self.step_config = step_config
        self.readout = _readout(step_config)
        self.tokenizer = tokenizer
        self.text = PlainText(tokenizer, step_config.marker if step_config.marker_added else None)
        self.marker_id = None if step_config.marker is None else _single_id(tokenizer, step_config.marker)
        self.pad_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        width: int = backbone.config.get_text_config().hidden_size
        self.head: nn.Linear | Heads = _new_head(step_config, width, seed).to(self.device)

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
        columns: Sequence[str] = (),
        template: Template | None = None,
        max_length: int | None = None,
        lora_rank: int | None = None,
        lora_alpha: int | None = None,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> StepHeadModel:
        """A fresh head on a backbone: a folder, a hub id, or a model (used as it is, not copied) with its tokenizer."""
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
        added = marker is not None and backbones.add_marker(tokenizer, backbone, marker)
        config = StepHeadConfig(
            backbone=name,
            read="last" if marker is None else "marker",
            marker=marker,
            marker_added=added,
            classes=tuple(classes),
            good=tuple(good),
            heads=heads,
            head_width=head_width,
            columns=tuple(columns),
            template=template or template_for(tokenizer),
            max_length=_context(backbone, max_length, name),
            lora=lora_rank is not None,
        )
        if lora_rank is not None:
            backbone = backbones.add_lora(backbone, lora_rank, lora_alpha or 2 * lora_rank, seed)
        return cls(backbone, tokenizer, config, seed)

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
    ) -> StepHeadModel:
        """A saved model, ready to score: bfloat16 on CUDA and float32 elsewhere unless `dtype` says otherwise.

        `base` replaces the stored reference to a LoRA adapter's backbone; `check=False` skips the canary.
        """
        folder = Path(folder)
        stored = read_json(folder)
        canary = stored.pop("canary", None)
        config = StepHeadConfig.from_dict(stored, str(folder / CONFIG_FILE))
        place = pick_device(device)
        dtype = dtype or (torch.bfloat16 if place.type == "cuda" else torch.float32)
        tokenizer = load_tokenizer(str(folder))
        check_round_trip(tokenizer, str(folder))
        model = cls(_stored_backbone(folder, config, base, dtype, trainable), tokenizer, config)
        model.head.load_state_dict(_stored_head(folder, model.head))
        model.to(place).eval()
        if check and canary is not None:
            tolerance = TOLERANCE.get(dtype, ROUGH_TOLERANCE)
            check_canary(model, Canary.from_dict(canary), str(folder), tolerance)
        elif check:
            raise ValueError(f"{folder / CONFIG_FILE} holds no canary; load it with check=False if that is meant")
        return model

    def save(self, folder: str | Path, *, canary: Canary | None = None, merge: bool = False) -> None:
        """Weights as safetensors, tokenizer and config. An adapter stays one unless it is merged."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save_pretrained(folder)
        backbone, config = self.backbone, self.step_config
        if merge and config.lora:
            backbone, config = copy.deepcopy(backbone).merge_and_unload(), replace(config, lora=False)
        # An added marker's embedding is the mean of the others and is made anew at load: no need to store them all.
        with quiet():
            backbone.save_pretrained(folder, **({"save_embedding_layers": False} if config.lora else {}))
        head = {name: tensor.detach().cpu().contiguous() for name, tensor in self.head.state_dict().items()}
        safetensors.torch.save_file(head, folder / HEAD_FILE)
        canary = canary or make_canary(self, default_pair())
        stored = {**config.to_dict(), "canary": canary.to_dict()}
        (folder / CONFIG_FILE).write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def widen(self, columns: Sequence[str]) -> None:
        """Outputs of these names in place of the one value, which each of them begins as."""
        if not isinstance(self.head, nn.Linear):
            raise ValueError("many small heads cannot become several named outputs; begin from a linear head")
        known = self.step_config
        self.head = repeated(self.head, known.classes, known.good, len(columns))
        self.step_config = replace(known, classes=(), good=(), columns=tuple(columns))
        self.readout = _readout(self.step_config)

    @property
    def config(self) -> Any:
        """The backbone's config, where a Trainer looks for it."""
        return self.backbone.config

    @property
    def max_length(self) -> int:
        return self.step_config.max_length

    @property
    def threshold(self) -> float | None:
        """Chosen on held-out traces when the model was trained, if it was."""
        found = self.step_config.training.get("threshold")
        return float(found) if isinstance(found, int | float) else None

    @property
    def separators(self) -> tuple[str, ...]:
        found = self.step_config.training.get("separators", ())
        return tuple(found) if isinstance(found, list | tuple) else ()

    @property
    def kind(self) -> str:
        return "step-head"

    def read(self, trajectory: Trajectory) -> Reading:
        """The ids this model sees for a trace, and where it reads each step."""
        return read_trace(self.text, trajectory, self.step_config.template, self.marker_id)

    def reads_of(self, trajectories: Sequence[Trajectory]) -> list[list[Reading]]:
        prompts = {t.problem.text + self.step_config.template.prompt_end for t in trajectories}
        with self.text.ahead([*prompts, *(text for t in trajectories for text in texts_to_tokenise(self.text, t))]):
            return super().reads_of(trajectories)

    def gradient_checkpointing_enable(self, **given: Any) -> None:
        """Passed on to the backbone with whatever this version of the Trainer gives."""
        self.backbone.gradient_checkpointing_enable(**given)
        # The first checkpointed layer needs an input with a gradient, and the embedding may be frozen.
        self.backbone.enable_input_require_grads()

    def gradient_checkpointing_disable(self) -> None:
        self.backbone.gradient_checkpointing_disable()

    def fingerprint(self) -> str:
        """Names weights and reading by content."""
        config = replace(self.step_config, backbone="", version="", training={}).to_dict()
        if not self.step_config.heads:
            # A single head is named as it was before there were several.
            config = {name: value for name, value in config.items() if name not in ("heads", "head_width")}
        if not self.step_config.columns:
            del config["columns"]
        return content_key(config, weights_fingerprint(self))[:12]


def _readout(config: StepHeadConfig) -> Readout:
    if config.heads:
        return MeanOfHeads(members=config.heads)
    if config.columns:
        return Several(names=config.columns)
    return Readout("good" if config.classes else "sigmoid", config.classes, config.good)


def _new_head(config: StepHeadConfig, width: int, seed: int) -> nn.Linear | Heads:
    if config.heads:
        return Heads(width, config.heads, config.head_width, seed)
    head: nn.Linear = nn.Linear(width, config.outputs, dtype=torch.float32, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        head.weight.normal_(0.0, 0.02, generator=torch.Generator().manual_seed(seed))
        head.bias.zero_()
    return head


def _single_id(tokenizer: Any, marker: str) -> int:
    found = backbones.marker_id(tokenizer, marker)
    if found is None:
        raise ValueError(f"the marker {marker!r} is not one token of the vocabulary")
    return found


def _context(backbone: Backbone, wanted: int | None, name: str) -> int:
    known = backbones.context_length(backbone)
    if wanted is None and known is None:
        raise ValueError(f"the config of {name} names no context length; give max_length")
    if wanted is not None and known is not None and wanted > known:
        raise ValueError(f"max_length {wanted} is more than the {known} tokens of {name}")
    return wanted or known or 0


def _stored_backbone(
    folder: Path, config: StepHeadConfig, base: str | None, dtype: torch.dtype, trainable: bool
) -> Backbone:
    if not config.lora:
        return backbones.load_backbone(str(folder), dtype)
    source = base or config.backbone
    backbone = backbones.load_backbone(source, dtype)
    if config.marker_added and config.marker is not None:
        backbones.add_marker(load_tokenizer(source), backbone, config.marker)
    return backbones.load_adapter(backbone, folder, trainable)


def _stored_head(folder: Path, head: nn.Module) -> dict[str, Tensor]:
    path = folder / HEAD_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no {HEAD_FILE}")
    state = safetensors.torch.load_file(path)
    for name, made in head.state_dict().items():
        if name not in state:
            raise ValueError(f"{path} holds no tensor {name!r}, the config says that the head has one")
        shape, expected = tuple(state[name].shape), tuple(made.shape)
        if shape != expected:
            raise ValueError(f"{path} holds a head of shape {shape}, the config and backbone say {expected}")
    return state
