"""What a training run is told. Light: the command line builds it without loading torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from footfall.render import Template
from footfall.reward.config import View
from footfall.types import Json, Judged

SMALL_LR, LORA_LR, LARGE_LR = 3e-4, 1e-4, 1e-5
"""Learning rates of a small model, of adapters on a large one, and of all weights of a large one."""
SMALL = 20_000_000
"""Weights below which a model is small."""


def usual_lr(weights: int, lora: bool) -> float:
    """The learning rate where none is named, for a model of so many weights; docs/training.md says what it was chosen by."""
    return SMALL_LR if weights < SMALL else LORA_LR if lora else LARGE_LR


def length_limit(wanted: int | None, *known: int | None) -> int | None:
    """Tokens at most, for nothing is cut: what was asked for (`max_length`, None: no matter) and no more than the model's known
    contexts."""
    return min((limit for limit in (wanted, *known) if limit is not None), default=None)


@dataclass(frozen=True)
class TrainConfig:
    """Settings of `train_prm`."""

    objective: str = "soft-bce"
    objective_options: Mapping[str, Json] = field(default_factory=dict)
    """Arguments of the objective, e.g. `{"threshold": 0.0}` for `bce`."""
    family: str | None = None
    """How the backbone is read. None: a published PRM as its family does, with its head, and a plain decoder with a fresh head;
    a name of `footfall list family`: as that; `footfall`: with a fresh head, whatever it is."""
    as_family: str | None = None
    """Train a plain decoder in the layout of a published family, with a fresh head of its shape, and also write the model in
    its format, which the family's own reader takes."""
    marker: str | None = None
    """Read each step at this token, put after it. None: read at the step's own last token."""
    head: str | None = None
    """A head of `footfall list head` in place of the linear one."""
    head_options: Mapping[str, Json] = field(default_factory=dict)
    """Its settings, e.g. `{"fusion": "mean"}` for `both-ways`."""
    heads: int = 0
    """So many small networks in place of one linear head; the value is their mean, their spread is told. 0: linear."""
    anchor: float = 0.5
    """With `heads`: weight of the mean squared distance of their weights from where they began."""
    view: View = "all"
    """What of each step the model is shown: all, its mathematics or words alone, … (`footfall.reward.views`)."""
    template: Template | None = None
    """None: chat where the tokenizer has a chat template, plain otherwise."""
    lr: float | None = None
    """Learning rate. None: by what is trained, `usual_lr`."""
    head_lr: float | None = None
    """Of the head alone; None: `lr`. An LLM's last states are large, and a head that learns as fast as LoRA overshoots."""
    epochs: int = 3
    batch_size: int = 16
    """Traces a forward pass; batches are of like length."""
    accumulation: int = 1
    """Forward passes an update."""
    warmup: float = 0.05
    """Share of all updates."""
    schedule: str = "linear"
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    seed: int = 0
    lora_rank: int | None = None
    lora_alpha: int | None = None
    """None: twice the rank."""
    merge_lora: bool = False
    max_length: int | None = None
    """None: the backbone's context."""
    too_long: Literal["error", "drop"] = "error"
    """What to do with a trace of more tokens; dropped ones are counted."""
    contaminated: Literal["error", "drop"] = "error"
    """What to do with rows whose problem is an evaluation problem; dropped ones are counted."""
    eval_share: float = 0.1
    """Share of the problems held out for the metrics; 0: none."""
    patience: int | None = None
    """Stop after so many epochs without a lower held-out loss, and keep the best epoch's weights."""
    gradient_checkpointing: bool = False
    packing: bool | None = None
    """Traces side by side in one row, without padding. None: on CUDA, where the backbone can be packed."""
    compile: bool | None = None
    """Compile the decoder's layers. None: on CUDA, where the training is long enough to pay it back."""
    save_steps: int | None = None
    """Updates between two checkpoints. None: by the clock, `footfall.train.checkpoints`."""
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulation", "save_steps", "max_length", "lora_rank"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.eval_share < 1 or not 0 <= self.warmup < 1:
            raise ValueError(f"eval_share and warmup lie in [0, 1); got {self.eval_share:g} and {self.warmup:g}")
        for name in ("lr", "head_lr"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name):g}")
        if self.heads < 0 or self.anchor < 0:
            raise ValueError(f"heads and anchor must not be negative; got {self.heads} and {self.anchor}")
        if self.head_options and self.head is None:
            raise ValueError(
                f"head_options {dict(self.head_options)} are settings of a head, and none is named: set head"
            )
        if self.lora_alpha is not None and self.lora_rank is None:
            raise ValueError("lora_alpha scales adapters, and there are none: set lora_rank too, or leave it out")

    def check_held_out(self, given: Sequence[Judged] = ()) -> None:
        """What goes by the held-out loss needs something held out: a share of the rows, or rows that are given for it."""
        if self.patience is not None and self.eval_share == 0 and not given:
            raise ValueError(
                "patience needs held-out problems: set --eval-share (in Python eval_share) above 0, or give train_prm "
                "held_out rows"
            )

    def to_dict(self) -> dict[str, Any]:
        """What decides the outcome, as JSON has it; what came later only where it is named, as in the plans of earlier runs."""
        later = [name for name in ("family", "packing", "compile", "head", "as_family") if getattr(self, name) is None]
        later += [] if self.head_options else ["head_options"]
        later += ["view"] if self.view == "all" else []
        left_out = ("save_steps", "log", *later)
        return {name: value for name, value in asdict(self).items() if name not in left_out}
