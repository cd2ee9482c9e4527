"""What a training takes of each GPU's memory, counted from the decoder's configuration before any weight is loaded.

Of M weights T are trained, by P processes; n tokens are in a process's forward pass; a decoder has L layers of width h, keys
and values of width k and an inner width i; a is the size of what is computed with: 2 bytes on CUDA (bfloat16), 4 on the CPU.

    weights        4 T + f (M - T)      f: 2 for the frozen weights under LoRA on CUDA, else 4
    gradients      4 T
    optimizer      8 T                  AdamW's two moments
    communication  2 T + 4 T            DDP: autocast's bfloat16 copies (on CUDA), the buckets of gradients (if P > 1)
                   2 (a + 4) M_unit     sharded weights: two layers, or the embeddings, whole at a time with their gradients
    activations    n L (8 h + a (4 h + 2 k + 4 i))      or  4 n L h + one layer of that, with gradient checkpointing

Sharding divides by P: the optimizer's part (ZeRO-1), also gradients (ZeRO-2), also weights (ZeRO-3, FSDP2). Activations hold
what autograd keeps of a layer: both norms' inputs in float32, and in the size of a their outputs, queries, keys, values, the
attention's output and four tensors of the gated MLP. Attention scores are not kept. The head, the allocator's waste and
CUDA's own gigabyte are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from footfall.damaged import naming
from footfall.reward.prm import PRM
from footfall.scale.processes import count
from footfall.train.config import TrainConfig
from footfall.train.data import Example, held_out_of, make_examples, refuse_nothing_to_learn
from footfall.train.objectives import Objective, fitted_to
from footfall.train.reweight import domains_of, graded_solutions, meta_of, refuse_idle_meta
from footfall.types import Judged

Sharding = Literal["none", "optimizer", "gradients", "weights"]
"""What is parted among the processes, each with all before it."""
_STAGES: tuple[Sharding, ...] = ("none", "optimizer", "gradients", "weights")


@dataclass(frozen=True)
class Size:
    """What of a model its memory follows from."""

    weights: int
    trained: int
    layers: int
    hidden: int
    keys: int
    """Width of keys, and of values, over all heads."""
    inner: int
    unit: int
    """Weights that are whole at a time where all are sharded: of a layer, or of the embeddings if they are more."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU."""

    weights: float
    gradients: float
    optimizer: float
    communication: float
    activations: float

    @property
    def total(self) -> float:
        """All of it."""
        return float(sum(asdict(self).values()))


class Layout(NamedTuple):
    """How a training is spread."""

    processes: int = 1
    sharding: Sharding = "none"
    checkpointing: bool = False
    """Whether activations within a layer are computed anew in the backward pass."""


def training_memory(size: Size, layout: Layout, tokens: int, *, half: bool = True, lora: bool = False) -> Memory:
    """Of one process whose forward pass has so many tokens; `half`: on CUDA, in bfloat16."""
    stage = _STAGES.index(layout.sharding)
    parts = [layout.processes if stage >= at else 1 for at in (3, 2, 1)]
    compute = 2 if half else 4
    frozen = 2 if lora and half else 4
    if layout.sharding == "weights":
        beside = 2.0 * (compute + 4) * size.unit
    else:
        beside = (2.0 * half + 4.0 * (layout.processes > 1)) * size.trained
    layer = tokens * (8 * size.hidden + compute * (4 * size.hidden + 2 * size.keys + 4 * size.inner))
    kept = 4 * tokens * size.layers * size.hidden + layer if layout.checkpointing else size.layers * layer
    return Memory(
        (4 * size.trained + frozen * (size.weights - size.trained)) / parts[0],
        4 * size.trained / parts[1],
        8 * size.trained / parts[2],
        beside,
        kept,
    )


def size_of(model: PRM) -> Size:
    """The sizes of a model, which may be bare."""
    shape: Any = model.config.get_text_config()
    heads = getattr(shape, "num_key_value_heads", None) or shape.num_attention_heads
    width = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    weights = {name: p.numel() for name, p in model.named_parameters()}
    layers = [name for name in weights if ".layers." in name or ".h." in name]
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    inner = getattr(shape, "intermediate_size", None) or 4 * shape.hidden_size
    deep = int(shape.num_hidden_layers)
    unit = max(
        sum(weights[name] for name in layers) // deep, *(weights[name] for name in weights if name not in layers)
    )
    return Size(sum(weights.values()), trained, deep, shape.hidden_size, heads * width, inner, unit)


def layout_of(file: Path | None) -> Layout:
    """What an accelerate configuration says; None: plain processes, as many as the launcher started."""
    if file is None:
        return Layout(count())
    from accelerate.commands.config.config_args import load_config_from_file

    with naming(file):
        given: Any = load_config_from_file(str(file))
        kind = str(given.distributed_type.value)
        if kind == "DEEPSPEED":
            return Layout(given.num_processes, _STAGES[int(given.deepspeed_config.get("zero_stage", 2))])
        if kind == "FSDP":
            kept = str(given.fsdp_config.get("fsdp_reshard_after_forward", True)).lower() in ("false", "shard_grad_op")
            saved = str(given.fsdp_config.get("fsdp_activation_checkpointing", False)).lower() == "true"
            return Layout(given.num_processes, "gradients" if kept else "weights", saved)
        return Layout(given.num_processes)


def estimate(
    model: PRM,
    rows: Sequence[Judged],
    objective: Objective,
    config: TrainConfig,
    layout: Layout,
    meta: Sequence[Judged] = (),
) -> dict[str, Any]:
    """What `footfall train --estimate` says of a bare model that would be trained on these rows, by a meta set too."""
    size = size_of(model)
    objective = fitted_to(objective, model.readout, str(model.prm_config.backbone))
    examples, _ = make_examples(rows, model, objective, config.too_long)
    refuse_nothing_to_learn(examples, objective)
    longest = max(
        example.reading.tokens for example in [*examples, *_meta_examples(model, rows, objective, config, meta)]
    )
    traces = math.ceil(config.batch_size / layout.processes)
    layout = layout._replace(checkpointing=layout.checkpointing or config.gradient_checkpointing)
    half = config.device != "cpu" and objective.weighing is None  # as in training
    found = training_memory(size, layout, traces * longest, half=half, lora=model.prm_config.lora)
    gib = {name: round(value / 2**30, 3) for name, value in {**asdict(found), "total": found.total}.items()}
    return {
        "processes": layout.processes, "sharded": layout.sharding, "parameters": size.weights, "trained": size.trained,
        "traces_a_pass": traces, "longest_trace": longest, "gib_a_gpu": gib,
    }  # fmt: skip


def _meta_examples(
    model: PRM, rows: Sequence[Judged], objective: Objective, config: TrainConfig, meta: Sequence[Judged]
) -> Sequence[Example]:
    """The graded solutions that a training would weigh its rows by, refused where it would refuse them."""
    refuse_idle_meta(meta, objective)
    if objective.weighing is None:
        return ()
    train, held = held_out_of(rows, (), config.eval_share, config.seed)
    train, meta = meta_of(train, held, meta, objective, config.seed)
    domains_of([row.trajectory for row in train], objective.weighing)
    return graded_solutions(meta, model, config.too_long)
