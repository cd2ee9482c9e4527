"""`train_prm`: judged traces in, a PRM folder out. Killed and started again with the same `out`, it goes on."""

from __future__ import annotations

import json
import math
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import footfall
from footfall.loading import pick_device, quiet
from footfall.reward.canary import Canary, Place, make_canary
from footfall.reward.config import CONFIG_FILE
from footfall.reward.step_head import StepHeadModel
from footfall.train.config import TrainConfig
from footfall.train.data import DataReport, Example, data_key, make_examples, split_by_problem
from footfall.train.decontaminate import Overlap, find_overlaps, normalise
from footfall.train.metrics import evaluate
from footfall.train.objectives import Objective, make_objective
from footfall.train.trainer import Progress, StepTrainer, callbacks_for, last_checkpoint, training_arguments
from footfall.types import Cost, Judged, Problem

__all__ = ["TrainResult", "train_prm"]

CANARY_FROM = 64
"""Examples among which the canary's pair is looked for."""
PLAN, RESULT, MODEL, CHECKPOINTS = "train.json", "result.json", "model", "checkpoints"


@dataclass(frozen=True)
class TrainResult:
    """Where the model is, how training went and what it cost."""

    folder: Path
    """Of the model, for `StepHeadModel.load` or `create("reward", "step-head", path=…)`."""
    metrics: Mapping[str, float]
    """Of the held-out problems: loss, step_auc, accuracy_at_0.5, brier, steps; empty if none were held out."""
    curve: tuple[tuple[int, float], ...]
    """(update, training loss since the one before)."""
    train: DataReport
    held_out: DataReport
    contaminated: int
    """Rows dropped because their problem is an evaluation problem."""
    updates: int
    tokens_per_second: float
    """Real tokens trained on a second, in this call."""
    cost: Cost
    """Of the whole training, but for `seconds`: those of the call that finished it."""
    held_out_curve: tuple[tuple[int, float], ...] = ()
    """(update, held-out loss) after each epoch, with `patience`: the weights of the lowest were kept."""

    def to_dict(self) -> dict[str, Any]:
        given = asdict(self)
        return {**given, "folder": MODEL, "train": self.train.to_dict(), "held_out": self.held_out.to_dict()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], out: Path) -> TrainResult:
        def report(stored: Mapping[str, Any]) -> DataReport:
            return DataReport(**{k: v for k, v in stored.items() if k != "unlabelled_share"})

        values = {
            **given,
            "folder": out / given["folder"],
            "curve": tuple((int(step), float(loss)) for step, loss in given["curve"]),
            "held_out_curve": tuple((int(step), float(loss)) for step, loss in given.get("held_out_curve", ())),
            "train": report(given["train"]),
            "held_out": report(given["held_out"]),
            "cost": Cost(**given["cost"]),
        }
        return cls(**values)


def train_prm(
    rows: Sequence[Judged],
    backbone: str | Path | StepHeadModel,
    config: TrainConfig,
    out: str | Path,
    *,
    held_out: Sequence[Judged] = (),
    against: Sequence[Problem] = (),
    resume: bool = True,
    progress: Progress | None = None,
) -> TrainResult:
    """Fit a step head to the rows' judgements. `backbone` is a decoder, a step-head folder to go on from, or a model
    that was made in memory and is trained in place (its own reading and adapter hold, not the config's).

    `held_out` rows take the place of a held-out share of `rows`; the two must not share a problem. `against` are
    evaluation problems: rows about them are refused or dropped, as the config says. With `resume` the same call
    continues an interrupted run and returns the stored result of a finished one.
    """
    out = Path(out)
    rows, dropped = _decontaminate(rows, against, config)
    name = backbone.step_config.backbone if isinstance(backbone, StepHeadModel) else str(backbone)
    objective = make_objective(config.objective, config.objective_options)
    plan = {"version": footfall.__version__, "backbone": name, "data": data_key(rows, objective.beside)}
    plan |= {"held_out": data_key(held_out, objective.beside)} if held_out else {}
    plan["config"] = json.loads(json.dumps(config.to_dict()))
    finished = _open(out, plan, resume)
    if finished is not None:
        return TrainResult.from_dict(finished, out)
    if config.batch_size % objective.together:
        raise ValueError(f"batch_size {config.batch_size} parts the {objective.together} rows that are compared")
    model = _fresh_model(backbone, config, objective)
    objective = _for_heads(objective, model.step_config.heads)
    train_rows, held_rows = _split(rows, held_out, config)
    train, train_report = make_examples(train_rows, model, objective, config.too_long)
    held, held_report = make_examples(held_rows, model, objective, config.too_long)
    _refuse_nothing_to_learn(train, objective)
    model.step_config = replace(model.step_config, training=_facts(rows, objective, plan["data"], config))
    trainer, seconds, done = _fit(model, objective, config, train, held, out / CHECKPOINTS, progress)
    tokens = train_report.tokens * trainer.state.global_step / _updates(len(train), config) * config.epochs
    result = TrainResult(
        folder=out / MODEL,
        metrics=evaluate(model, held, objective) if held else {},
        curve=_curve(trainer, "loss"),
        train=train_report,
        held_out=held_report,
        contaminated=dropped,
        updates=trainer.state.global_step,
        tokens_per_second=tokens * done / max(1, trainer.state.global_step) / max(seconds, 1e-9),
        cost=Cost(
            scored_tokens=round(tokens), flops=_flops(model, tokens), seconds=seconds, calls=trainer.state.global_step
        ),
        held_out_curve=_curve(trainer, "eval_loss"),
    )
    _close(out, model, _canary(model, held + train, objective), config, result)
    return result


def _curve(trainer: StepTrainer, name: str) -> tuple[tuple[int, float], ...]:
    return tuple((int(log["step"]), log[name]) for log in trainer.state.log_history if name in log)


def _decontaminate(
    rows: Sequence[Judged], against: Sequence[Problem], config: TrainConfig
) -> tuple[Sequence[Judged], int]:
    """The clean rows and how many were not."""
    if not against:
        return rows, 0
    overlaps = find_overlaps((row.trajectory.problem for row in rows), against)
    bad = {overlap.train_id for overlap in overlaps}
    clean = [row for row in rows if row.trajectory.problem.id not in bad]
    if bad and config.contaminated == "error":
        raise ValueError(_contamination(overlaps, len(rows) - len(clean)))
    return clean, len(rows) - len(clean)


def _contamination(overlaps: Sequence[Overlap], rows: int) -> str:
    first = overlaps[0]
    return (
        f"{rows} training rows are about evaluation problems, e.g. problem {first.train_id!r} matches {first.eval_id!r} "
        f'({first.kind}, overlap {first.overlap:.2f}); remove them, or use contaminated="drop"'
    )


def _open(out: Path, plan: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """The stored result of a finished run with this plan, or None with `out` ready for work."""
    if out.exists() and not resume:
        for name in (MODEL, CHECKPOINTS, f"{MODEL}.partial"):
            shutil.rmtree(out / name, ignore_errors=True)
        for name in (PLAN, RESULT):
            (out / name).unlink(missing_ok=True)
    stored = out / PLAN
    if stored.is_file():
        known = json.loads(stored.read_text(encoding="utf-8"))
        if known != plan:
            different = sorted(k for k in {*known, *plan} if known.get(k) != plan.get(k))
            raise ValueError(
                f"{out} holds a run with other {', '.join(different)}; choose another folder, or resume=False to start over"
            )
        if (out / RESULT).is_file() and (out / MODEL / CONFIG_FILE).is_file():
            finished: dict[str, Any] = json.loads((out / RESULT).read_text(encoding="utf-8"))
            return finished
    out.mkdir(parents=True, exist_ok=True)
    _write_json(stored, plan)
    return None


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def _split(
    rows: Sequence[Judged], held_out: Sequence[Judged], config: TrainConfig
) -> tuple[Sequence[Judged], Sequence[Judged]]:
    """Training and held-out rows: those given, or a share of the problems."""
    if not held_out:
        return split_by_problem(rows, config.eval_share, config.seed)
    texts = {normalise(row.trajectory.problem.text) for row in rows}
    for row in held_out:
        if normalise(row.trajectory.problem.text) in texts:
            raise ValueError(f"the held-out row {row.trajectory.id!r} is about a problem that is trained on too")
    return rows, held_out


def _fresh_model(backbone: str | Path | StepHeadModel, config: TrainConfig, objective: Objective) -> StepHeadModel:
    if isinstance(backbone, StepHeadModel):
        if _outputs(backbone) != (objective.classes, objective.columns):
            raise ValueError(
                f"the model has the classes {backbone.step_config.classes} and the outputs {backbone.step_config.columns}, "
                f"not those of {objective.name}"
            )
        return backbone
    if (Path(backbone) / CONFIG_FILE).is_file():
        return _continued(Path(backbone), config, objective)
    # A frozen base may be half precision; weights that are trained stay float32 under autocast.
    frozen_half = config.lora_rank is not None and pick_device(config.device).type == "cuda"
    return StepHeadModel.from_backbone(
        backbone,
        marker=config.marker,
        classes=objective.classes,
        good=objective.good,
        heads=config.heads,
        columns=objective.columns,
        template=config.template,
        max_length=config.max_length,
        lora_rank=config.lora_rank,
        lora_alpha=config.lora_alpha,
        dtype=torch.bfloat16 if frozen_half else torch.float32,
        seed=config.seed,
    )


def _for_heads(objective: Objective, heads: int) -> Objective:
    """The objective of several heads: each is fitted to the same labels, all weigh the same."""
    if not heads:
        return objective
    if objective.classes or objective.columns or objective.together > 1:
        raise ValueError(f"several heads give one logit each; {objective.name} needs classes, outputs or pairs")

    def loss(logits_NSE: Tensor, targets_NS: Tensor, mask_NS: Tensor) -> Tensor:
        targets, mask = (given.unsqueeze(-1).expand_as(logits_NSE) for given in (targets_NS, mask_NS))
        return objective.loss(logits_NSE.unsqueeze(-1), targets, mask)

    return replace(objective, name=f"{objective.name} on {heads} heads", loss=loss)


def _continued(folder: Path, config: TrainConfig, objective: Objective) -> StepHeadModel:
    """A trained step head to go on from; its reading stays what it was."""
    model = StepHeadModel.load(folder, device="cpu", dtype=torch.float32, trainable=True)
    if objective.columns and not model.step_config.columns:
        model.widen(objective.columns)
    known = model.step_config
    if _outputs(model) != (objective.classes, objective.columns):
        raise ValueError(
            f"{folder} has the classes {known.classes} and the outputs {known.columns}, the objective {objective.name} "
            f"needs {objective.classes} and {objective.columns}"
        )
    if config.marker not in (None, known.marker) or (config.lora_rank is not None and not known.lora):
        raise ValueError(
            f"{folder} reads at {known.marker!r} with lora={known.lora}; a further training cannot change that"
        )
    if config.heads not in (0, known.heads):
        raise ValueError(f"{folder} has {known.heads} small heads; a further training cannot make them {config.heads}")
    if config.max_length is not None:
        model.step_config = replace(known, max_length=min(known.max_length, config.max_length))
    return model


def _outputs(model: StepHeadModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return model.step_config.classes, model.step_config.columns


def _refuse_nothing_to_learn(examples: Sequence[Example], objective: Objective) -> None:
    targets = {t for e in examples for t, m in zip(e.targets, e.mask, strict=True) if m}
    if len(targets) < 2:
        raise ValueError(
            f"nothing to learn for {objective.name}: the {len(examples)} usable training rows have "
            f"{'no labels' if not targets else 'only one label value'}"
        )


def _facts(rows: Sequence[Judged], objective: Objective, key: str, config: TrainConfig) -> dict[str, Any]:
    return {
        "labels_by": sorted({row.judgement.judge for row in rows if row.judgement is not None}),
        "objective": objective.name,
        "data": key,
        "seed": config.seed,
        "separators": sorted({row.trajectory.separator for row in rows}),
    }


def _updates(examples: int, config: TrainConfig) -> int:
    return math.ceil(math.ceil(examples / config.batch_size) / config.accumulation) * config.epochs


def _fit(
    model: StepHeadModel, objective: Objective, config: TrainConfig, train: Sequence[Example], held: Sequence[Example],
    folder: Path, progress: Progress | None,
) -> tuple[StepTrainer, float, int]:  # fmt: skip
    """Train, from the last whole checkpoint if there is one; the trainer, seconds and updates of this call."""
    cuda = pick_device(config.device).type == "cuda"
    args = training_arguments(config, folder, _updates(len(train), config), cuda)
    checkpoint = last_checkpoint(folder)
    before = 0 if checkpoint is None else int(checkpoint.name.partition("-")[2])
    start = time.perf_counter()
    with quiet(), _own_randomness():
        callbacks = callbacks_for(config, progress)
        trainer = StepTrainer(model, objective, args, train, held, callbacks, config.head_lr, config.anchor)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    model.eval()
    return trainer, time.perf_counter() - start, trainer.state.global_step - before


@contextmanager
def _own_randomness() -> Iterator[None]:
    """The Trainer seeds every global generator; the caller gets them back as they were."""
    python, array = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(array)


def _flops(model: StepHeadModel, tokens: float) -> float:
    """2 forward and 2 backward a parameter and token, and 2 more for each one that is trained."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return (4.0 * model.size + 2.0 * trained) * tokens


def _canary(model: StepHeadModel, examples: Sequence[Example], objective: Objective) -> Canary:
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


def _close(out: Path, model: StepHeadModel, canary: Canary, config: TrainConfig, result: TrainResult) -> None:
    """The finished model appears at once; checkpoints are needed no more."""
    partial = out / f"{MODEL}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(out / MODEL, ignore_errors=True)
    model.save(partial, canary=canary, merge=config.merge_lora)
    partial.replace(out / MODEL)
    _write_json(out / RESULT, result.to_dict())
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
