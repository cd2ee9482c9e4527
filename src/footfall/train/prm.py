"""`train_prm`: judged traces in, a PRM folder out. Killed and started again with the same `out`, it goes on.

    train.json    the plan: data, backbone, settings
    checkpoints/  while the run goes on
    model/        the finished model with its canary
    held_out.parquet  traces that were held out, with the model's values and their labels
    result.json   how training went

A second call with the same folder refuses another plan, reads a finished run back and goes on with an unfinished one. Plan,
model and result appear whole or not at all, so that a kill at any moment leaves a folder that one can go on with.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

import footfall
from footfall.formats import atomic_write, write_parquet
from footfall.loading import pick_device, quiet
from footfall.reward.backbone import half_precision_adapters
from footfall.reward.canary import Canary, Place, make_canary
from footfall.reward.checkpoint import language_family, to_train
from footfall.reward.config import CONFIG_FILE, FOOTFALL
from footfall.reward.family import Family, families
from footfall.reward.packed import packable, packing
from footfall.reward.prm import PRM, WORTH_COMPILING
from footfall.train.checkpoints import Saves, full_disk_told, last_checkpoint, stopping_between_updates, update_of
from footfall.train.config import TrainConfig, usual_lr
from footfall.train.data import DataReport, Example, data_key, make_examples, split_by_problem
from footfall.train.decontaminate import find_overlaps, normalise
from footfall.train.first_error import HeldOutErrors, held_out_errors
from footfall.train.language import train_language_prm
from footfall.train.objectives import Objective, fitted_to, make_objective
from footfall.train.trainer import Logged, Measurer, Progress, StepTrainer, callbacks_for, evaluate, training_arguments
from footfall.types import Cost, Judged, Judgement, Problem

CANARY_FROM = 64
"""Examples among which the canary's pair is looked for."""
PLAN, RESULT, MODEL, CHECKPOINTS = "train.json", "result.json", "model", "checkpoints"
HELD_OUT = "held_out.parquet"
HELD_OUT_ROWS = 2000
"""Held-out traces that are kept with what the model says of them."""


@dataclass(frozen=True)
class TrainResult:
    """Where the model is, how training went and what it cost."""

    folder: Path
    """Of the model, for `PRM.load` or `create("reward", "step-head", path=…)`."""
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
    first_error: HeldOutErrors | None = None
    """Whether it finds first errors on the held-out problems; None where that cannot be measured."""
    lr: float | None = None
    """The learning rate that was used; None: of a run that did not note it."""

    def to_dict(self) -> dict[str, Any]:
        """As `result.json` keeps it; the folder is relative to the run."""
        given = asdict(self)
        given |= {"folder": MODEL, "train": self.train.to_dict(), "held_out": self.held_out.to_dict()}
        return given | {"first_error": self.first_error and self.first_error.to_dict()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], out: Path) -> TrainResult:
        """What `to_dict` gave, of the run in `out`."""

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
            "first_error": HeldOutErrors.from_dict(found) if (found := given.get("first_error")) else None,
        }
        return cls(**values)


def train_prm(
    rows: Sequence[Judged],
    backbone: str | Path | PRM,
    config: TrainConfig,
    out: str | Path,
    *,
    held_out: Sequence[Judged] = (),
    against: Sequence[Problem] = (),
    resume: bool = True,
    progress: Progress | None = None,
    logged: Logged | None = None,
    measured: Logged | None = None,
) -> TrainResult:
    """Fit a PRM to the rows' judgements. `backbone` is a decoder, a published PRM or a folder of a trained one to go on from
    (layout, head and read-out stay theirs), or a model that was made in memory and is trained in place (its own reading and
    adapter hold, not the config's).

    `held_out` rows take the place of a held-out share of `rows`; the two must not share a problem. `against` are
    evaluation problems: rows about them are refused or dropped, as the config says. With `resume` the same call
    continues an interrupted run and returns the stored result of a finished one.

    `progress` and `logged` are told how training goes, `measured` the held-out figures after each epoch. A language model is
    told of when it is trained: the mean loss of each epoch, and the held-out figures.
    """
    out = Path(out)
    rows, dropped = _decontaminate(rows, against, config)
    objective = make_objective(config.objective, config.objective_options)
    family = None if isinstance(backbone, PRM) else language_family(backbone, config.family)
    if objective.language != (family and family.objective):
        raise ValueError(_unfit(objective, family))
    plan = _make_plan(rows, held_out, backbone, objective, config)
    finished = _open_run(out, plan, resume)
    if finished is not None:
        return TrainResult.from_dict(finished, out)
    if family is not None and not isinstance(backbone, PRM):
        made = _train_language_model(rows, held_out, family, backbone, objective, config, out, plan, dropped, progress)
        if logged is not None:
            for update, loss in made.curve:
                logged({"update": update, "loss": loss})
        if measured is not None and made.metrics:
            measured({"update": made.updates, **made.metrics})
        return made
    if config.batch_size % objective.together:
        raise ValueError(f"batch_size {config.batch_size} parts the {objective.together} rows that are compared")
    model = _fresh_model(backbone, config, objective)
    if config.merge_lora and not model.prm_config.lora:
        raise ValueError("merge_lora: there are no adapters to fold into the weights; lora_rank makes them")
    lr = config.lr or usual_lr(model.size, model.prm_config.lora)
    objective = fitted_to(objective, model.readout, str(model.prm_config.backbone))
    train_rows, held_rows = _split(rows, held_out, config)
    train, train_report = make_examples(train_rows, model, objective, config.too_long)
    held, held_report = make_examples(held_rows, model, objective, config.too_long)
    _refuse_nothing_to_learn(train, objective)
    model.prm_config = replace(model.prm_config, training=_training_facts(rows, objective, plan["data"], config))
    callbacks = callbacks_for(config, progress, logged)
    if measured is not None and held:
        callbacks.append(Measurer(partial(evaluate, model, held, objective), measured))
    with full_disk_told(out):
        trainer, seconds, done = _fit(model, objective, config, lr, train, held, out / CHECKPOINTS, callbacks)
    updates = trainer.state.global_step
    tokens = train_report.tokens * updates / _updates(len(train), config) * config.epochs
    result = TrainResult(
        folder=out / MODEL,
        metrics=evaluate(model, held, objective) if held else {},
        curve=_curve(trainer, "loss"),
        train=train_report,
        held_out=held_report,
        contaminated=dropped,
        updates=updates,
        tokens_per_second=tokens * done / max(1, updates) / max(seconds, 1e-9),
        cost=Cost(scored_tokens=round(tokens), flops=_flops(model, tokens), seconds=seconds, calls=updates),
        held_out_curve=_curve(trainer, "eval_loss"),
        first_error=held_out_errors(model, held_rows, objective.is_good, config.seed),
        lr=lr,
    )
    with full_disk_told(out):
        write_parquet(out / HELD_OUT, _told(model, held, objective), "judged")
        canary = _find_canary(model, held + train, objective)
        save = partial(model.save, canary=canary, merge=config.merge_lora)
        _close_run(out, save, result.to_dict())
    return result


def _unfit(objective: Objective, family: Family | None) -> str:
    if family is not None:
        own = family.objective
        return f"a {family.name} is trained by the objective {own} (--objective {own}), not by {objective.name}"
    fitting = ", ".join(name for name, known in families().items() if known.objective == objective.language)
    return f"{objective.name} trains no head, but a language model of the families {fitting}: name one (--family)"


def _train_language_model(
    rows: Sequence[Judged], held_out: Sequence[Judged], family: Family, backbone: str | Path, objective: Objective,
    config: TrainConfig, out: Path, plan: Mapping[str, Any], contaminated: int, progress: Progress | None,
) -> TrainResult:  # fmt: skip
    """A run of `footfall.train.language`; killed, it begins anew."""
    began = time.perf_counter()
    with quiet():
        trained = train_language_prm(
            *_split(rows, held_out, config), str(backbone), family, objective, config, progress
        )
    seconds = time.perf_counter() - began
    result = TrainResult(
        out / MODEL, trained.metrics, trained.curve, trained.train, trained.held_out, contaminated, trained.updates,
        trained.tokens / max(seconds, 1e-9),
        Cost(scored_tokens=trained.tokens, flops=trained.flops, seconds=seconds, calls=trained.updates),
    )  # fmt: skip
    with full_disk_told(out):
        write_parquet(out / HELD_OUT, trained.told, "judged")
        facts = _training_facts(rows, objective, plan["data"], config)
        _close_run(out, lambda folder: trained.save(folder, facts), result.to_dict())
    return result


def _make_plan(
    rows: Sequence[Judged],
    held_out: Sequence[Judged],
    backbone: str | Path | PRM,
    objective: Objective,
    config: TrainConfig,
) -> dict[str, Any]:
    """All that a run's outcome depends on, as JSON has it: runs with equal plans are the same run."""
    name = backbone.prm_config.backbone if isinstance(backbone, PRM) else str(backbone)
    plan = {"version": footfall.__version__, "backbone": name, "data": data_key(rows, objective.beside)}
    plan |= {"held_out": data_key(held_out, objective.beside)} if held_out else {}
    plan["config"] = json.loads(json.dumps(config.to_dict()))
    return plan


def _open_run(out: Path, plan: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """The stored result of a finished run with this plan, or None with `out` ready for work."""
    if out.exists() and not resume:
        for name in (MODEL, CHECKPOINTS, f"{MODEL}.partial"):
            shutil.rmtree(out / name, ignore_errors=True)
        for name in (PLAN, RESULT, HELD_OUT):
            (out / name).unlink(missing_ok=True)
    stored = out / PLAN
    if stored.is_file():
        known = json.loads(stored.read_text(encoding="utf-8"))
        known["config"].pop("save_every", None)  # written by earlier versions
        if known != plan:
            different = sorted(k for k in {*known, *plan} if known.get(k) != plan.get(k))
            raise ValueError(
                f"{out} holds a run with other {', '.join(different)}; choose another folder, or resume=False to start over"
            )
        if (out / RESULT).is_file() and (out / MODEL / CONFIG_FILE).is_file():
            finished: dict[str, Any] = json.loads((out / RESULT).read_text(encoding="utf-8"))
            shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)  # of a run that was killed after its end
            return finished
    out.mkdir(parents=True, exist_ok=True)
    _write_json(stored, plan)
    return None


def _close_run(out: Path, save: Callable[[Path], None], result: Mapping[str, Any]) -> None:
    """The finished model appears at once; checkpoints are needed no more."""
    made = out / f"{MODEL}.partial"
    shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(out / MODEL, ignore_errors=True)
    save(made)
    made.replace(out / MODEL)
    _write_json(out / RESULT, result)
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with atomic_write(path) as stream:
        stream.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def _training_facts(rows: Sequence[Judged], objective: Objective, key: str, config: TrainConfig) -> dict[str, Any]:
    """What the model's own configuration says of its training; `key` names the rows."""
    return {
        "labels_by": sorted({row.judgement.judge for row in rows if row.judgement is not None}),
        "objective": objective.name,
        "data": key,
        "seed": config.seed,
        "separators": sorted({row.trajectory.separator for row in rows}),
    }


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
    shown = held[:: math.ceil(len(held) / HELD_OUT_ROWS) or 1]
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


def _decontaminate(
    rows: Sequence[Judged], against: Sequence[Problem], config: TrainConfig
) -> tuple[Sequence[Judged], int]:
    """The clean rows and how many were not."""
    if not against:
        return rows, 0
    overlaps = find_overlaps((row.trajectory.problem for row in rows), against)
    bad = {overlap.train_id for overlap in overlaps}
    clean = [row for row in rows if row.trajectory.problem.id not in bad]
    dropped = len(rows) - len(clean)
    if bad and config.contaminated == "error":
        first = overlaps[0]
        raise ValueError(
            f"{dropped} training rows are about evaluation problems, e.g. problem {first.train_id!r} matches "
            f'{first.eval_id!r} ({first.kind}, overlap {first.overlap:.2f}); remove them, or use contaminated="drop"'
        )
    return clean, dropped


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


def _fresh_model(backbone: str | Path | PRM, config: TrainConfig, objective: Objective) -> PRM:
    """The model that training begins with: one that is a PRM already, or a plain decoder with a fresh head."""
    if isinstance(backbone, PRM):
        return backbone
    # A frozen base may be half precision; weights that are trained stay float32 under autocast.
    frozen_half = config.lora_rank is not None and pick_device(config.device).type == "cuda"
    dtype = torch.bfloat16 if frozen_half else torch.float32
    known: PRM | None = None
    if (Path(backbone) / CONFIG_FILE).is_file():
        known = PRM.load(backbone, device="cpu", dtype=torch.float32, trainable=True)
        if config.lora_rank is not None and not known.prm_config.lora:
            raise ValueError(f"{backbone} was trained without lora; a further training cannot change that")
        known.head.requires_grad_(True)
    elif config.family != FOOTFALL:
        known = to_train(backbone, config.family, dtype)
        if known is not None and config.lora_rank is not None:
            known.adapt(config.lora_rank, config.lora_alpha, config.seed)
    if known is not None:
        return _continued(known, str(backbone), config, objective)
    return PRM.from_backbone(
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
        dtype=dtype,
        seed=config.seed,
    )


def _continued(model: PRM, source: str, config: TrainConfig, objective: Objective) -> PRM:
    """A PRM to go on from; its layout and head stay what they were, but named outputs may take the place of its value."""
    known = model.prm_config
    if config.marker not in (None, known.marker):
        raise ValueError(f"{source} reads at {known.marker!r}; a further training cannot change that")
    if config.heads not in (0, known.heads):
        raise ValueError(f"{source} has {known.heads} small heads; a further training cannot make them {config.heads}")
    if config.family not in (None, known.family):
        raise ValueError(
            f"{source} is of the family {known.family}; a further training cannot read it as {config.family}"
        )
    if objective.columns and not known.columns:
        model.widen(objective.columns)
    if config.max_length is not None:
        model.prm_config = replace(model.prm_config, max_length=min(known.max_length, config.max_length))
    return model


def _refuse_nothing_to_learn(examples: Sequence[Example], objective: Objective) -> None:
    targets = {t for e in examples for t, m in zip(e.targets, e.mask, strict=True) if m}
    if len(targets) < 2:
        raise ValueError(
            f"nothing to learn for {objective.name}: the {len(examples)} usable training rows have "
            f"{'no labels' if not targets else 'only one label value'}"
        )


def _updates(examples: int, config: TrainConfig) -> int:
    return math.ceil(math.ceil(examples / config.batch_size) / config.accumulation) * config.epochs


def _fit(
    model: PRM, objective: Objective, config: TrainConfig, lr: float, train: Sequence[Example],
    held: Sequence[Example], folder: Path, callbacks: Sequence[TrainerCallback],
) -> tuple[StepTrainer, float, int]:  # fmt: skip
    """Train, from the last whole checkpoint if there is one; the trainer, seconds and updates of this call."""
    cuda = pick_device(config.device).type == "cuda"
    packed = _packed(model, config, cuda)
    args = training_arguments(config, lr, folder, _updates(len(train), config), cuda)
    checkpoint = last_checkpoint(folder)
    before = 0 if checkpoint is None else update_of(checkpoint)
    start = time.perf_counter()
    saves = Saves(config.save_steps)
    with quiet(), _own_randomness(), stopping_between_updates(saves), ExitStack() as stack:
        if config.compile or (config.compile is None and cuda and _worth_compiling(model, train, config)):
            model.fuse()
            stack.callback(model.unfuse)
        if packed:
            stack.enter_context(packing(model.backbone))
        if cuda and model.prm_config.lora:
            stack.enter_context(half_precision_adapters(model.backbone))
        every = [*callbacks, saves]
        trainer = StepTrainer(model, objective, args, train, held, every, config.head_lr, config.anchor, packed)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    model.eval()
    return trainer, time.perf_counter() - start, trainer.state.global_step - before


def _worth_compiling(model: PRM, train: Sequence[Example], config: TrainConfig) -> bool:
    return 3 * model.size * config.epochs * sum(len(e.reading.ids) for e in train) >= WORTH_COMPILING


def _packed(model: PRM, config: TrainConfig, cuda: bool) -> bool:
    """Whether traces are packed: as the config says, or on CUDA wherever that can be."""
    can = packable(model.backbone, model.max_length)
    if config.packing and not can:
        raise ValueError(
            f"a {type(model.backbone).__name__} cannot be packed (its attention is its own, or its window shorter than "
            f"{model.max_length} tokens): leave packing out, or lower max_length"
        )
    return can and (cuda if config.packing is None else config.packing)


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


def _flops(model: PRM, tokens: float) -> float:
    """2 forward and 2 backward a parameter and token, and 2 more for each one that is trained."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return (4.0 * model.size + 2.0 * trained) * tokens
