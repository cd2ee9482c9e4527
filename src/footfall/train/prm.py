"""`train_prm`: judged traces in, a PRM folder out (`footfall.train.run`). Started again with the same `out`, it goes on."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from footfall.formats import write_parquet
from footfall.loading import pick_device, quiet
from footfall.reward.backbone import half_precision_adapters
from footfall.reward.canary import Canary, Place, make_canary
from footfall.reward.checkpoint import language_family
from footfall.reward.config import CONFIG_FILE
from footfall.reward.family import Family
from footfall.reward.heads import Heads
from footfall.reward.packed import IMPLEMENTATION, IN_FULL, packable, packing
from footfall.reward.prm import PRM, WORTH_COMPILING
from footfall.reward.publish import publish
from footfall.scale.processes import agreed, is_main, join
from footfall.train.begin import as_published, fresh_model, refuse_unfit
from footfall.train.checkpoints import (
    EpochEnds,
    Kept,
    Saves,
    full_disk_told,
    last_checkpoint,
    stopping_between_updates,
    update_of,
)
from footfall.train.config import TrainConfig, usual_lr
from footfall.train.data import (
    Example,
    held_out_of,
    make_examples,
    refuse_nothing_to_learn,
)
from footfall.train.decontaminate import without_evaluated
from footfall.train.first_error import HeldOutErrors, held_out_errors
from footfall.train.language import train_language_prm
from footfall.train.later_steps import refuse_cut_traces
from footfall.train.marked import by_own_marks, reads_by_own_marks
from footfall.train.objectives import Objective, fitted_to, make_objective
from footfall.train.parted import ready_to_go_on
from footfall.train.planned import Keeping
from footfall.train.reweight import ReweightingTrainer, domains_of, graded_solutions, meta_of, refuse_idle_meta
from footfall.train.run import (
    CHECKPOINTS,
    HELD_OUT,
    MODEL,
    PUBLISHED,
    REFERENCE,
    RESULT,
    ROW_WEIGHTS,
    TrainResult,
    as_written,
    close_run,
    make_plan,
    open_run,
    whole,
)
from footfall.train.trainer import (
    Logged,
    Measurer,
    Progress,
    StepTrainer,
    callbacks_for,
    evaluate,
    own_randomness,
    training_arguments,
)
from footfall.types import Cost, Judged, Judgement, Problem

CANARY_FROM = 64
"""Examples among which the canary's pair is looked for."""
HELD_OUT_ROWS = 2000
"""Held-out traces that are kept with what the model says of them."""


def train_prm(
    rows: Sequence[Judged],
    backbone: str | Path | PRM,
    config: TrainConfig,
    out: str | Path,
    *,
    held_out: Sequence[Judged] = (),
    meta: Sequence[Judged] = (),
    against: Sequence[Problem] = (),
    resume: bool = True,
    progress: Progress | None = None,
    logged: Logged | None = None,
    measured: Logged | None = None,
    saved: Callable[[], None] = lambda: None,
) -> TrainResult:
    """Fit a PRM to the rows' judgements. `backbone` is a decoder, a published PRM or a folder of a trained one to go on from
    (layout, head and read-out stay theirs), or a model that was made in memory and is trained in place (its own reading and
    adapter hold, not the config's).

    `held_out` rows take the place of a held-out share of `rows`; the two must not share a problem. `meta` are graded solutions
    for an objective that weighs rows by them, in place of a share of `rows`. `against` are evaluation problems: rows about
    them are refused or dropped, as the config says. With `resume` the same call continues an interrupted run and returns the
    stored result of a finished one.

    `progress` and `logged` are told how training goes, `measured` the held-out figures after each epoch, `saved` that there
    is a checkpoint. A language model is told of when it is trained: the mean loss of each epoch, and the held-out figures.

    Under `torchrun` or `accelerate launch` every process makes the same call: they share out each batch, and the loss and the
    weights are those of one process within rounding. The main one alone writes, measures and is told; all return its result.
    """
    out = Path(out)
    config.check_held_out(held_out)
    rows, dropped = without_evaluated(rows, against, config.contaminated)
    meta, also_dropped = without_evaluated(meta, against, config.contaminated)
    objective = make_objective(config.objective, config.objective_options)
    if config.as_family is not None:
        config = as_published(config, objective, backbone)
    family = None if isinstance(backbone, PRM) else language_family(backbone, config.family)
    refuse_unfit(objective, family)
    refuse_idle_meta(meta, objective)
    if family is None:
        refuse_cut_traces(rows, backbone, config, objective)
    join(pick_device(config.device).type == "cpu")
    plan = make_plan(rows, held_out, backbone, objective, config, meta)
    finished = agreed(open_run(out, plan, resume) if is_main() else None)
    if finished is not None:
        with as_written(out / RESULT):
            return TrainResult.from_dict(finished, out)
    job = _Job(
        rows, held_out, meta, backbone, objective, config, out, plan["data"], dropped + also_dropped, progress, logged,
        measured, saved,
    )  # fmt: skip
    return _train_head(job) if family is None else _train_language_model(job, family)


@dataclass(frozen=True)
class _Job:
    """What is trained on what, and who is told."""

    rows: Sequence[Judged]
    held_out: Sequence[Judged]
    meta: Sequence[Judged]
    backbone: str | Path | PRM
    objective: Objective
    config: TrainConfig
    out: Path
    data: str
    """The key of the rows."""
    contaminated: int
    progress: Progress | None
    logged: Logged | None
    measured: Logged | None
    saved: Callable[[], None]

    def split(self) -> tuple[Sequence[Judged], Sequence[Judged]]:
        """Training and held-out rows."""
        return held_out_of(self.rows, self.held_out, self.config.eval_share, self.config.seed)

    def facts(self) -> dict[str, Any]:
        """What the model's own configuration says of its training."""
        return {
            "labels_by": sorted({row.judgement.judge for row in self.rows if row.judgement is not None}),
            "objective": self.objective.name,
            "data": self.data,
            "seed": self.config.seed,
            "separators": sorted({row.trajectory.separator for row in self.rows}),
        }


def _train_head(job: _Job) -> TrainResult:
    """A decoder with a head. On several processes all train, and the main one goes on alone from `_finish` on."""
    config, model = job.config, _begin(job)
    lr = config.lr or _usual_lr(model)
    objective = fitted_to(job.objective, model.readout, str(model.prm_config.backbone))
    train_rows, held_rows = job.split()
    train_rows, meta_rows = meta_of(train_rows, held_rows, job.meta, objective, config.seed)
    train, train_report = make_examples(train_rows, model, objective, config.too_long)
    meta = graded_solutions(meta_rows, model, config.too_long) if objective.weighing else ()
    held, held_report = make_examples(held_rows, model, objective, config.too_long)
    held = [example for example in held if not example.marks]
    refuse_nothing_to_learn(train, objective)
    if config.patience is not None and not held:
        raise ValueError(
            f"patience goes by the held-out loss, and none of {len(held_rows)} held-out traces has a label that can be used: "
            "hold out more (eval_share), label those, or leave patience out"
        )
    model.prm_config = replace(model.prm_config, training=replace(job, objective=objective).facts())
    callbacks = callbacks_for(config, *((job.progress, job.logged) if is_main() else (None, None)))
    if job.measured is not None and held:
        told = job.measured if is_main() else lambda facts: None  # all measure: sharded weights are whole together only
        callbacks.append(Measurer(partial(evaluate, model, held, objective), told))
    with full_disk_told(job.out):
        kept = job.out / CHECKPOINTS
        trainer, seconds, done = _fit(model, objective, config, lr, train, held, meta, kept, callbacks, job.saved)
    whole_weights = trainer.whole_weights()
    if not is_main():
        return TrainResult.from_dict(agreed({}), job.out)
    if whole_weights is not None:
        model = _gathered(job, model, whole_weights, trainer.args.device)
    updates = trainer.state.global_step
    tokens = train_report.tokens * updates / _updates(len(train), config) * config.epochs
    if isinstance(trainer, ReweightingTrainer):
        trainer.write_weights(job.out / ROW_WEIGHTS)
        tokens = trainer.tokens_read
    result = TrainResult(
        folder=job.out / MODEL,
        metrics=evaluate(model, held, objective) if held else {},
        curve=_curve(trainer, "loss"),
        train=train_report,
        held_out=held_report,
        contaminated=job.contaminated,
        updates=updates,
        tokens_per_second=tokens * done / max(1, updates) / max(seconds, 1e-9),
        cost=Cost(scored_tokens=round(tokens), flops=_flops(model, tokens), seconds=seconds, calls=updates),
        held_out_curve=_curve(trainer, "eval_loss"),
        first_error=_first_errors(model, held_rows, objective, config.seed),
        lr=lr,
    )
    canary = _find_canary(model, [e for e in held + train if not e.marks], objective)
    published = partial(publish, model)
    _finish(
        job,
        result,
        _told(model, held, objective),
        partial(model.save, canary=canary, merge=config.merge_lora),
        published,
    )
    agreed(result.to_dict())
    return result


def _first_errors(model: PRM, held: Sequence[Judged], objective: Objective, seed: int) -> HeldOutErrors | None:
    """How first errors are found on held-out rows; outcomes say of no step whether it is the one."""
    if objective.one_label:
        return None
    marking = bool(model.family.marks) and model.family.marks == objective.beside
    reads = partial(reads_by_own_marks, model) if marking else None
    return held_out_errors(model, held, objective.is_good, seed, reads)


def _usual_lr(model: PRM) -> float:
    """By what is trained: of a decoder that is frozen, its head alone."""
    trained = model.head.parameters() if model.head.frozen else model.parameters()
    return usual_lr(sum(weight.numel() for weight in trained), model.prm_config.lora)


def _begin(job: _Job) -> PRM:
    """The model that training begins with, if it and the settings go together."""
    config, together = job.config, job.objective.together
    if config.accumulation > 1 and job.objective.weighing is not None:
        raise ValueError("accumulation: rows are weighed by an update of one forward pass; raise batch_size instead")
    if config.accumulation > 1 and job.objective.whole:
        raise ValueError(
            f"accumulation: {job.objective.name} weighs the steps of an update together; raise batch_size instead"
        )
    if config.batch_size % together:
        raise ValueError(f"batch_size {config.batch_size} parts the {together} rows that are compared")
    model = fresh_model(job.backbone, config, job.objective)
    if config.anchor != TrainConfig.anchor and not isinstance(model.head, Heads):
        raise ValueError("anchor holds several small networks to where they began: set heads too, or leave it out")
    if config.merge_lora and not model.prm_config.lora:
        raise ValueError("merge_lora: there are no adapters to fold into the weights; lora_rank makes them")
    return model


def _gathered(job: _Job, trained: PRM, weights: Mapping[str, Tensor], device: torch.device) -> PRM:
    """A model on one device with the weights that processes had parted among them."""
    # Under ZeRO-3 transformers would load it in parts, by all processes together, and this one is alone here.
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]
    model = fresh_model(job.backbone, job.config, job.objective)
    model.prm_config = trained.prm_config
    model.load_state_dict(weights)
    return model.to(device).eval()


def _train_language_model(job: _Job, family: Family) -> TrainResult:
    """A run of `footfall.train.language`; killed, it goes on from its last checkpoint, with what the reference had said."""
    began, config = time.perf_counter(), job.config
    keeping = Keeping(job.out / CHECKPOINTS, config.save_steps, job.saved)
    with quiet(), full_disk_told(job.out):
        trained = train_language_prm(
            *job.split(), str(job.backbone), family, job.objective, config, job.progress, job.out / REFERENCE, keeping
        )
    seconds = time.perf_counter() - began
    result = TrainResult(
        job.out / MODEL, trained.metrics, trained.curve, trained.train, trained.held_out, job.contaminated,
        trained.updates, trained.tokens / max(seconds, 1e-9),
        Cost(scored_tokens=trained.tokens, flops=trained.flops, seconds=seconds, calls=trained.updates),
    )  # fmt: skip
    facts = job.facts()
    published = partial(_without_ours, trained.save)
    _finish(job, result, trained.told, lambda folder: trained.save(folder, facts), published)
    if job.logged is not None:
        for update, loss in result.curve:
            job.logged({"update": update, "loss": loss})
    if job.measured is not None and result.metrics:
        job.measured({"update": result.updates, **result.metrics})
    return result


def _finish(
    job: _Job, result: TrainResult, told: Sequence[Judged], save: Callable[[Path], None], published: Callable[[Path], None]
) -> None:  # fmt: skip
    """All that a finished run leaves; its result comes last."""
    with full_disk_told(job.out):
        write_parquet(job.out / HELD_OUT, told, "judged")
        if job.config.as_family is not None:
            whole(job.out / PUBLISHED, published)
        close_run(job.out, save, result.to_dict())


def _without_ours(save: Callable[[Path, Mapping[str, Any]], None], folder: Path) -> None:
    """A language model as a hub holds it: what says how it was trained here stays out."""
    save(folder, {})
    (folder / CONFIG_FILE).unlink()


def _find_canary(model: PRM, examples: Sequence[Example], objective: Objective) -> Canary:
    """The good step valued highest and the bad step valued lowest among the first examples, with their traces.

    Kept as text without the sampled ids, so that the tokenizer is checked too. A model that puts them the wrong way
    round is stored without the pair: what it says is then only compared with itself.
    """
    examples = examples[:CANARY_FROM]
    scores = model.score([e.reading for e in examples])
    places = [
        (value, Place(n, k), objective.is_good(e.labels[k]))
        for n, e in enumerate(examples) for k, value in enumerate(scores[n]) if e.mask[k]
    ]  # fmt: skip
    good = max((p for p in places if p[2]), default=None)
    bad = min((p for p in places if not p[2]), default=None)
    if good is None or bad is None:
        return make_canary(model, [examples[places[0][1].trace].trajectory])
    traces = [examples[good[1].trace].trajectory, examples[bad[1].trace].trajectory]
    canary = make_canary(model, traces)
    pair = Place(0, good[1].step), Place(1, bad[1].step)
    in_order = canary.value(pair[0]) > canary.value(pair[1])
    return replace(canary, good=pair[0], bad=pair[1]) if in_order else canary


def _told(model: PRM, held: Sequence[Example], objective: Objective) -> list[Judged]:
    """Held-out traces, evenly chosen, with the model's values; their labels, and whether these are good, as aspects."""
    shown = by_own_marks(model, held[:: math.ceil(len(held) / HELD_OUT_ROWS) or 1])
    rows = []
    for example, said in zip(shown, model.score([e.reading for e in shown]), strict=True):
        # An example that is one prefix of a trace has the value of its last step alone.
        blank = (None,) * (len(example.trajectory.steps) - len(example.mask))
        labels = [label if m else None for label, m in zip(example.labels, example.mask, strict=True)]
        good = [None if label is None else float(objective.is_good(label)) for label in labels]
        aspects = {"label": (*blank, *labels), "good": (*blank, *good)}
        values = (*blank, *said)
        rows.append(Judged(example.trajectory, Judgement(example.trajectory.id, values, MODEL, aspects=aspects)))
    return rows


def _curve(trainer: StepTrainer, name: str) -> tuple[tuple[int, float], ...]:
    return tuple((int(log["step"]), log[name]) for log in trainer.state.log_history if name in log)


def _updates(examples: int, config: TrainConfig) -> int:
    return math.ceil(math.ceil(examples / config.batch_size) / config.accumulation) * config.epochs


def _fit(
    model: PRM, objective: Objective, config: TrainConfig, lr: float, train: Sequence[Example], held: Sequence[Example],
    meta: Sequence[Example], folder: Path, callbacks: Sequence[TrainerCallback], saved: Callable[[], None],
) -> tuple[StepTrainer, float, int]:  # fmt: skip
    """Train, from the last whole checkpoint if there is one; the trainer, seconds and updates of this call."""
    cuda = pick_device(config.device).type == "cuda"
    half = cuda and objective.weighing is None  # a difference of losses is lost in half precision
    packed = _packed(model, config, half)
    updates = _updates(len(train), config)
    args = training_arguments(config, lr, folder, updates, cuda, half)
    checkpoint = agreed(last_checkpoint(folder) if is_main() else None)
    before = 0 if checkpoint is None else update_of(checkpoint)
    start = time.perf_counter()
    saves = Saves(config.save_steps)
    with quiet(), own_randomness(), stopping_between_updates(saves), ExitStack() as stack:
        if config.compile or (config.compile is None and cuda and _worth_compiling(model, train, config)):
            model.fuse()
            stack.callback(model.unfuse)
        if packed:
            stack.enter_context(packing(model.backbone, IMPLEMENTATION if half or not cuda else IN_FULL))
        if half and model.prm_config.lora:
            stack.enter_context(half_precision_adapters(model.backbone))
        every = [*callbacks, saves, EpochEnds(saves), Kept(saved)]
        own = config.head_lr, config.anchor, packed, config.batch_size
        kind: Callable[..., StepTrainer] = StepTrainer
        if objective.weighing is not None:
            domains = domains_of([example.trajectory for example in train], objective.weighing)
            kind = partial(ReweightingTrainer, domains=domains, meta=meta, updates=updates)
        trainer = kind(model, objective, args, train, held, every, *own)
        if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" and not trainer.is_fsdp_enabled:
            raise ValueError("accelerate shards weights on GPUs only (FSDP): leave that out for the CPU")
        if checkpoint is not None:
            ready_to_go_on(checkpoint, trainer)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    # accelerate leaves half precision around the forward pass, in which the canary would be written down.
    trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    model.eval()
    return trainer, time.perf_counter() - start, trainer.state.global_step - before


def _worth_compiling(model: PRM, train: Sequence[Example], config: TrainConfig) -> bool:
    return 3 * model.size * config.epochs * sum(len(e.reading.ids) for e in train) >= WORTH_COMPILING


def _packed(model: PRM, config: TrainConfig, half: bool) -> bool:
    """Whether traces are packed: as the config says, or in half precision on CUDA wherever that can be."""
    can = packable(model.backbone, model.max_length) and model.head.packable
    if config.packing and not can:
        raise ValueError(
            f"a {type(model.backbone).__name__} cannot be packed (its attention is its own, its window shorter than "
            f"{model.max_length} tokens, or its head reads more than a step's last state): leave packing out, or lower "
            "max_length"
        )
    return can and (half if config.packing is None else config.packing)


def _flops(model: PRM, tokens: float) -> float:
    """2 forward and 2 backward a parameter and token, and 2 more for each one that is trained."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return (4.0 * model.size + 2.0 * trained) * tokens
