"""`footfall train`: judged steps in, a PRM out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from tyro.conf import arg

from footfall.commands._options import ReadOptions, RunOptions
from footfall.commands._output import emit, facts, next_command, spent
from footfall.commands._parts import settings
from footfall.commands._running import REPORT, open_run, run_folder, run_settings
from footfall.commands._sources import read_source, read_traces, world_source
from footfall.commands._values import check_values
from footfall.formats import DamagedError, read_parquet
from footfall.registry import load, no_hub_id, serving
from footfall.reports.pages import limited_in_words, write_page
from footfall.reports.train_page import train_page
from footfall.reward.config import View
from footfall.scale.processes import agreed, count, is_main, joined
from footfall.store import Run
from footfall.terminal import Progress
from footfall.train.config import TrainConfig as Settings
from footfall.train.scalars import Log, Scalars
from footfall.types import Judged, Problem

if TYPE_CHECKING:
    from footfall.train import TrainResult


_FOR_SHOW = ("save_steps", "log", "estimate", "accelerate")
"""Options that leave no trace in the weights."""


@dataclass(frozen=True)
class TrainConfig:
    """Train a process reward model: a head on any decoder, or a published PRM, fitted to the labels of judged traces.

    On the model that ships with the package, in a minute on a laptop:
        footfall train --data runs/label-…/judged.parquet

    On a model of your own, with LoRA, and with the evaluation problems kept out of the training data:
        footfall train --data judged.parquet --backbone ./Qwen2.5-0.5B --lora-rank 16 --against test.jsonl

    A published PRM of a known family, fine-tuned with its own layout, head and read-out:
        footfall train --data judged.parquet --backbone Qwen/Qwen2.5-Math-PRM-7B --objective ce --lora-rank 16

    The run directory holds the PRM in model/ (`footfall score`, `search` and `bench` take it as --judge) and a page,
    report.html.
    """

    data: str
    """Judged traces in any supported format or Parquet (`footfall label` writes them); - is standard input."""
    format: str = "auto"
    """The format of the data; auto knows it by the first record."""
    backbone: str = serving("policy")
    """embedded, a folder or hub id (or OWNER/NAME@REVISION) of any decoder or published PRM, a decoder's GGUF file, or a PRM's
    folder to go on from."""
    family: str | None = None
    """How the backbone is read. None: a published PRM as its family (`footfall list family`) does, with its head, and a plain
    decoder with a fresh one; footfall: with a fresh head, whatever it is."""
    objective: str = serving("objective")
    """A training loss of `footfall list objective`: soft-bce keeps soft labels soft, bce makes them hard. Or mine.py:my_loss,
    of a file of yours: my_loss(logits, targets, mask)."""
    set: tuple[str, ...] = ()
    """Settings of the objective, e.g. --set threshold=0.5 for bce."""
    meta: str | None = None
    """Graded solutions (`correct` says whether the answer is right) by which domain-weights and instance-weights weigh the
    training rows. None: a share of the training problems, --set meta_share=0.2."""
    epochs: int = 3
    """Passes over the data."""
    lr: float | None = None
    """Learning rate. None: by what is trained (a small model, adapters, all weights), and told at the end; docs/training.md has
    the rates and what they were chosen by."""
    batch_size: int = 16
    """Traces a forward pass."""
    accumulation: int = 1
    """Forward passes an update."""
    as_family: Annotated[str | None, arg(name="as")] = None
    """Train a plain decoder in the layout of this family (qwen2.5-math-prm, trl, rlhflow, eurus-prm, genprm, …) and also write
    it to published/ in the family's own format, for any reader of it."""
    head: str | None = None
    """A head of `footfall list head`, with its settings: --head both-ways,fusion=mean. None: linear."""
    view: View = "all"
    """What of each step the PRM is shown: math, words, last-math (the step's own mathematics alone) or next-thought (the step
    before its mathematics); the judge that is made of it reads the same."""
    marker: str | None = None
    """Read each step's value at this token, put after it. None: at the step's own last token."""
    lora_rank: int | None = None
    """Train low-rank adapters of this rank (needs footfall[lora]). None: train all weights."""
    merge_lora: bool = False
    """Fold the adapters into the stored weights."""
    max_length: int | None = None
    """Longest trace in tokens. None: the backbone's context."""
    too_long: Literal["error", "drop"] = "error"
    """What to do with a longer trace; dropped ones are counted."""
    eval_share: float = 0.1
    """Share of the problems held out to measure the PRM on."""
    patience: int | None = None
    """Stop after so many epochs without a lower held-out loss."""
    against: str | None = None
    """Evaluation problems (a file, or world:arithmetic:N of the split test) that must not be trained on."""
    contaminated: Literal["error", "drop"] = "error"
    """What to do with training rows about those; dropped ones are counted."""
    save_steps: int | None = None
    """Updates between two checkpoints; the older ones are removed. None: by the clock, at most one in 20 s and a twentieth of
    the time. Ctrl-C writes one too."""
    log: Log | None = None
    """Also write loss, learning rate and held-out figures by update to TensorBoard (tensorboard/ in the run directory) or to
    Weights & Biases; each is an extra, footfall[tensorboard] and footfall[wandb]."""
    estimate: bool = False
    """Say what memory each GPU would need, by what, and stop; no weights are loaded, so that a configuration is enough."""
    accelerate: Path | None = None
    """With --estimate: the file of `accelerate launch --config_file` that it is for. None: processes that shard nothing."""
    device: str | None = None
    """cpu, cuda, … None: CUDA where there is one."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: TrainConfig) -> int:
    """Train, or go on training, and report."""
    _check_objective(config.objective, settings(config.set))
    if config.head is not None:
        name, *options = config.head.split(",")
        check_values(f"the head {name!r}", load("head", name), settings(options))
    from footfall.loading import pick_device
    from footfall.policy.embedded import EMBEDDED
    from footfall.train import train_prm
    from footfall.train.data import data_key
    from footfall.train.run import HELD_OUT, OWN

    if why := no_hub_id(config.backbone):
        raise ValueError(f"--backbone {why}")
    if config.contaminated != "error" and config.against is None:
        raise ValueError("--contaminated is about the problems of --against, and none are named")
    if config.accelerate is not None and not config.estimate:
        raise ValueError(
            "--accelerate is the file that --estimate reckons with; to train with it, begin the command with "
            f"accelerate launch --config_file {config.accelerate} -m footfall train"
        )
    # An error about the settings, the device, or a package that lacks, should not wait for the data.
    _settings(config).check_held_out()
    cpu = pick_device(config.device).type == "cpu"
    scalars = _scalars(config)
    if config.data == "-" and count() > 1:
        raise ValueError("--data -: several processes cannot read one standard input; name a file")
    rows = read_traces(config.data, config.format, config.reading)
    unjudged = sum(row.judgement is None for row in rows)
    if unjudged == len(rows):
        raise ValueError(f"{config.data}: none of its {len(rows)} traces has labels; `footfall label` makes them")
    against = _against(config.against, config) if config.against else []
    meta = read_traces(config.meta, config.format, config.reading) if config.meta else []
    backbone = str(EMBEDDED) if config.backbone == serving("policy") else config.backbone
    if config.estimate:
        if is_main():
            found = _estimate(config, backbone, rows, meta, against)
            each = {name: f"{value:,.3f} GiB" for name, value in found["gib_a_gpu"].items()}
            emit(found, config.run.json, lambda console: facts(console, {**found, "gib_a_gpu": None, **each}))
        return 0
    with joined(cpu), ExitStack() as stack:
        train = partial(train_prm, rows, backbone, _settings(config), meta=meta, against=against)
        if not is_main():
            train(agreed(Path()), measured=(lambda facts: None) if scalars else None)
            return 0
        run = stack.enter_context(open_run("train", config, {"data_key": data_key(rows)}, _FOR_SHOW, beside=OWN))
        shown = _Shown(stack, run, scalars)
        trained = train(
            agreed(run.folder), resume=not run.fresh, progress=shown.update, logged=shown.logged, saved=run.keep,
            measured=shown.measured if scalars else None,
        )  # fmt: skip
        run.log("stage", stage="train", updates=trained.updates, seconds=trained.cost.seconds)
        page = write_page(run.folder / REPORT, _page(config, trained, run.folder / HELD_OUT))
    # train_prm writes result.json itself, with more than is printed here.
    result = {**_summary(trained), **_published(trained, config.as_family), **rows.limited, "page": str(page)}
    emit(result, config.run.json, lambda console: _show(console, trained, result))
    return 0


def _check_objective(name: str, asked: Mapping[str, Any]) -> None:
    """Before any data are read: settings that it has, of their kinds, and a reference that is there."""
    from footfall.gguf.container import is_gguf
    from footfall.loading import local_folder
    from footfall.train.objectives import make_objective

    check_values(f"the objective {name!r}", load("objective", name), asked)
    base = make_objective(name, asked).settings.get("base")
    if base is None or is_gguf(base):
        return
    try:
        local_folder(base)
    except FileNotFoundError as error:
        raise ValueError(
            f"--set base: the reference that an implicit PRM is held against is missing: {error}"
        ) from error


def _estimate(
    config: TrainConfig, backbone: str, rows: Sequence[Judged], meta: Sequence[Judged], against: Sequence[Problem]
) -> dict[str, Any]:
    from footfall.train.bare import bare_model
    from footfall.train.decontaminate import without_evaluated
    from footfall.train.memory import estimate, layout_of
    from footfall.train.objectives import make_objective

    own, layout = _settings(config), layout_of(config.accelerate)
    objective = make_objective(own.objective, own.objective_options)
    used, _ = without_evaluated(rows, against, own.contaminated)
    weighing, _ = without_evaluated(meta, against, own.contaminated)
    return estimate(bare_model(backbone, own, objective), used, objective, own, layout, weighing)


def _against(source: str, config: TrainConfig) -> list[Problem]:
    """The evaluation problems, all of them: what else is said of reading is about the training data."""
    options = ReadOptions(skip_bad=config.reading.skip_bad and world_source(source, "test") is None)
    return read_source(source, config.run.seed, "test", options)


def _settings(config: TrainConfig) -> Settings:
    shared = {name: value for name, value in asdict(config).items() if name in Settings.__dataclass_fields__}
    name, *options = (config.head or "").split(",")
    shared |= {"head": name or None, "head_options": settings(options)}
    return Settings(**shared, seed=config.run.seed, objective_options=settings(config.set))


def _scalars(config: TrainConfig) -> Scalars | None:
    if config.log is None:
        return None
    return Scalars(config.log, run_folder("train", config, _FOR_SHOW), run_settings(config, _FOR_SHOW))


class _Shown:
    """Shows updates with loss and learning rate, and writes these to the run's log, and to another if one was asked for.

    How many updates there will be is known only when the first is done.
    """

    def __init__(self, stack: ExitStack, run: Run, scalars: Scalars | None) -> None:
        self.stack, self.run = stack, run
        self.scalars = scalars and stack.enter_context(scalars)
        self.bar: Progress | None = None

    def update(self, done: int, total: int) -> None:
        if self.bar is None:
            self.bar = self.stack.enter_context(Progress("train", total, done - 1))
        self.bar.advance(done - self.bar.done)

    def logged(self, facts: Mapping[str, float]) -> None:
        self.run.log("update", **facts)
        if self.scalars is not None:
            self.scalars.write("train", facts)
        if self.bar is not None and "lr" in facts:
            self.bar.note = f"loss {facts['loss']:.3f}, lr {facts['lr']:.1e}"

    def measured(self, facts: Mapping[str, float]) -> None:
        self.run.log("held-out", **facts)
        if self.scalars is not None:
            self.scalars.write("held_out", facts)


def _published(trained: TrainResult, family: str | None) -> dict[str, str]:
    """The folder in a family's format, and how it is read: not all of these say of which family they are."""
    from footfall.train.run import PUBLISHED

    if family is None:
        return {}
    folder = trained.folder.parent / PUBLISHED
    return {"published": str(folder), "read_by": f"--judge {folder} --set family={family}"}


def _summary(trained: TrainResult) -> dict[str, Any]:
    stored = trained.to_dict()
    kept = ("metrics", "first_error", "train", "held_out", "contaminated", "updates", "lr", "tokens_per_second")
    return {"model": str(trained.folder), **{name: stored[name] for name in kept}, "cost": trained.cost.to_dict()}


def _page(config: TrainConfig, trained: TrainResult, held_out: Path) -> str:
    """The run as a page; a run that an earlier version finished has no held-out traces."""
    try:
        rows = read_parquet(held_out, "judged") if held_out.is_file() else []
    except DamagedError as error:
        fix = (
            "take it from a copy, or delete it and run the same command: model and figures stand, and the page shows no "
            "held-out traces; --fresh trains anew, and writes it"
        )
        raise DamagedError(error.path, error.expected, got=error.got, fix=fix) from error
    return train_page(trained, rows, config.backbone, seed=config.run.seed, config=run_settings(config, _FOR_SHOW))


def _show(console: Console, trained: TrainResult, result: dict[str, Any]) -> None:
    report = trained.train
    facts(console, {
        "limit": limited_in_words(result, "traces"),
        "trained on": f"{report.used} of {report.rows} traces, {report.steps - report.unlabelled} labelled steps, "
        f"{trained.updates} updates" + (f" at a learning rate of {trained.lr:g}" if trained.lr else ""),
        "left out": "; ".join(f"{count}: {reason}" for reason, count in report.dropped.items()),
        "decontaminated": f"{trained.contaminated} rows about evaluation problems" if trained.contaminated else None,
        "held out": ", ".join(f"{name} {value:.3g}" for name, value in trained.metrics.items()),
        **_worth(trained),
        "cost": spent(trained.cost, trained.cost.seconds),
        "model": trained.folder,
        "page": result["page"],
        "published": result.get("published"),
        "read by": result.get("read_by"),
    })  # fmt: skip
    next_command(console, "score", "--judge", trained.folder, "traces.jsonl")
    next_command(console, "serve", "--judge", trained.folder, first="or")


def _worth(trained: TrainResult) -> dict[str, str]:
    """Whether it finds first errors on the held-out problems, in words; a step AUC does not show that."""
    found = trained.first_error
    if found is None:
        from footfall.reward.checkpoint import language_family

        unknown = (
            "not measured: it takes labels of steps, and held-out traces of two problems, with an error and without"
            if language_family(trained.folder, None) is None
            else "not measured in the training of a language model; `footfall bench` measures it"
        )
        return {"first error": unknown} if trained.metrics else {}
    beside = ", ".join(f"{name} {f1:.3f}" for name, f1 in found.sanity.items())
    told = {
        "first error": f"F1 {found.f1:.3f} [{found.ci95[0]:.3f}, {found.ci95[1]:.3f}] on {found.traces} held-out traces, "
        f"{found.erroneous} with an error (a label of {'' if found.error_up_to == 0 else 'at most '}{found.error_up_to:g}); "
        f"judges that know nothing: {beside}",
    }
    return told if found.caution is None else {**told, "caution": found.caution}
