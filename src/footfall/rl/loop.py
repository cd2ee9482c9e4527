"""A policy is trained with process rewards, kept, measured and watched: from a model and problems to a better model.

    checkpoints/   the newest two; a killed run goes on from the last one and ends with the same weights (on the CPU)
    model/         the trained policy, or its adapter
    probe/         with the credit rlcm, its probe: a PRM with the policy's weights

At every checkpoint the policy writes one sample for each of some problems that it is not trained on. The figures of
`footfall.rl.monitors`, what known exploits would be paid, and the signs of hacking go to whoever is `told`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig

from footfall.judging import forget
from footfall.loading import quiet
from footfall.policy.protocol import SamplingParams
from footfall.render import Template, prompt_ids
from footfall.reward.backbone import check_rank
from footfall.rl.batches import Rolled
from footfall.rl.confidence import Forcing, states_at
from footfall.rl.monitors import Alarm, Checkpoint, Limits, Logged, alarms, hacked, measure
from footfall.rl.online import Sequences, scored
from footfall.rl.parts import Parts
from footfall.rl.probes import pays
from footfall.rl.rewards import Reward
from footfall.rl.settings import RlSettings
from footfall.rl.shown import is_shown, shown
from footfall.rl.trainer import CreditTrainer
from footfall.rl.writing import Writer
from footfall.scale.processes import agreed, count, is_main, join
from footfall.search.votes import reward_of
from footfall.train.checkpoints import (
    Kept,
    Saves,
    full_disk_told,
    last_checkpoint,
    stopping_between_updates,
    update_of,
)
from footfall.train.parted import ready_to_go_on
from footfall.types import Judge, Judgement, Problem, Trajectory

Told = Callable[[str, Mapping[str, Any]], None]
"""Of an event (`update`, `checkpoint`, `traces`) and its facts, among them the update."""
_PROBED, _COMPARED = 16, 64
"""Traces that exploits are made of, and completions that the KL is estimated on."""
_FIGURES = ("loss", "reward", "accuracy", "left", "filtered", "steps", "entropy", "kl", "online_loss", "flow_loss",
            "probe_loss", "calibration", "grad_norm", "completions/mean_length")  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Who is trained on what, and how completions are drawn."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    problems: Sequence[Problem]
    held_out: Sequence[Problem]
    reward: Reward
    sampling: SamplingParams
    separator: str
    template: Template | None = None
    writer: Writer = "engine"
    vllm: Mapping[str, Any] | None = None
    """If given, TRL's vLLM writes, with these settings: `GRPOConfig`'s `vllm_…`, named without that."""
    truth: Judge | None = None
    """Says whether steps are truly right, where that is known; the policy is not trained on it."""
    held_out_judge: Judge | None = None
    """Values the same held-out samples for the monitors; the policy is not trained on it either."""
    log: str | None = None
    parts: Parts | None = None
    """How the engine cuts a batch, and who writes the parts. None: all at once, in this process."""


@dataclass(frozen=True)
class Trained:
    """What came of it."""

    folder: Path
    checkpoints: tuple[Checkpoint, ...]
    alarms: tuple[Alarm, ...]
    hacked: bool
    updates: int
    seconds: Mapping[str, float]
    """Of this process: writing, judging, crediting, whole steps."""


def train_policy(
    given: Setting,
    settings: RlSettings,
    folder: Path,
    *,
    told: Told = lambda *_: None,
    known: Iterable[Checkpoint] = (),
    saved: Callable[[], None] = lambda: None,
) -> Trained:
    """Train, or go on training. `known` are checkpoints that an earlier process told (`point_of`); `saved` is told that
    there is one more.

    Under a launcher every process makes the same call; the main one alone measures, tells and writes.
    """
    join(given.model.device.type == "cpu")
    kept = folder / "checkpoints"
    last = agreed(last_checkpoint(kept) if is_main() and kept.is_dir() else None)
    begun = 0 if last is None else update_of(last)
    saves = _Saves(settings)
    watch = Watch(given, settings, told, [point for point in known if point.update <= begun], saves)
    marks = _special_ids(given.model)
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder / "tensorboard")
    with quiet():
        trainer = make_trainer(given, settings, kept, [saves, watch, Kept(saved)])
        watch.trainer = trainer
        with full_disk_told(folder), stopping_between_updates(saves):
            if last is not None and (begun >= settings.updates or watch.stops):
                # Killed after its last update; the trainer would make one more before it looks.
                trainer.load_ended(last)
                trainer.state.global_step = begun
                watch.on_train_begin(trainer.args, trainer.state, trainer.control)
            else:
                if last is not None:
                    ready_to_go_on(last, trainer)
                trainer.train(resume_from_checkpoint=None if last is None else str(last))
        with trainer.whole():
            if is_main():
                _save(trainer, given, marks, folder)
    told_of, seconds = trainer.state.global_step, dict(trainer.seconds)
    signs = alarms(watch.run, watch.limits) if is_main() else []
    return agreed(
        Trained(folder / "model", tuple(watch.run), tuple(signs), is_main() and watch.hacked, told_of, seconds)
    )


def _save(trainer: CreditTrainer, given: Setting, marks: Sequence[tuple[Any, dict[str, Any]]], folder: Path) -> None:
    """The trained policy, whole or not at all."""
    made = folder / "model.partial"
    shutil.rmtree(made, ignore_errors=True)
    model = trainer.unwrapped
    if trainer.beside.probe is not None:
        # Before the policy, whose folder says that a run has ended.
        trainer.beside.probe.save_prm(
            folder / "probe", model, given.tokenizer, given.template or trainer.template, given.separator
        )
    for config, ids in marks:
        vars(config).update(ids)
    model.save_pretrained(made)
    given.tokenizer.save_pretrained(made)
    shutil.rmtree(folder / "model", ignore_errors=True)
    made.rename(folder / "model")


def _special_ids(model: PreTrainedModel) -> list[tuple[Any, dict[str, Any]]]:
    """What the model's configs say of its special tokens.

    `Trainer.train` puts the tokenizer's in their place, and a run that was killed after its last update never calls it: a
    policy is saved with its own.
    """
    configs = [model.config.get_text_config(), model.generation_config]
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    return [(config, {name: getattr(config, name, None) for name in names}) for config in configs if config is not None]


def make_trainer(
    given: Setting, settings: RlSettings, folder: Path, callbacks: Sequence[TrainerCallback] = ()
) -> CreditTrainer:
    """The trainer with TRL's arguments for these settings."""
    cuda = given.model.device.type == "cuda"
    if settings.prompts % count() or settings.prompts * settings.group % (settings.accumulation * count()):
        raise ValueError(
            f"{count()} processes share out --prompts {settings.prompts}, and --accumulation {settings.accumulation} cuts "
            "what each has: choose a multiple of the processes and a divisor of that"
        )
    args = GRPOConfig(
        str(folder),
        per_device_train_batch_size=settings.prompts * settings.group // (settings.accumulation * count()),
        gradient_accumulation_steps=settings.accumulation,
        num_generations=settings.group,
        num_iterations=settings.iterations,
        max_steps=settings.updates,
        learning_rate=settings.lr,
        lr_scheduler_type="constant",
        beta=settings.beta,
        loss_type=settings.loss,
        max_completion_length=given.sampling.max_tokens,
        temperature=given.sampling.temperature,
        top_p=given.sampling.top_p,
        top_k=given.sampling.top_k,
        seed=given.sampling.seed,
        bf16=cuda,
        use_cpu=not cuda,
        gradient_checkpointing=False,
        save_strategy="no",
        save_total_limit=2,
        logging_steps=1,
        report_to=given.log or "none",
        run_name=folder.parent.name,
        disable_tqdm=True,
        **({} if given.vllm is None else vllm_arguments(given.vllm)),
    )
    if settings.lora_rank is not None:
        check_rank(given.model, settings.lora_rank)
    peft = None if settings.lora_rank is None else adapters(settings.lora_rank)
    made = CreditTrainer(
        given.model, given.tokenizer, given.problems, given.reward, args, writer=given.writer, separator=given.separator,
        template=given.template, online_lr=settings.online_lr, callbacks=callbacks, peft_config=peft, keep_reference=True,
        parts=given.parts, forcing=Forcing(settings.forced),
    )  # fmt: skip
    if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" and not made.is_fsdp_enabled:
        raise ValueError("accelerate shards weights on GPUs only (FSDP): leave that out for the CPU")
    made.remove_callback(PrinterCallback)
    for config in getattr(made.model, "peft_config", {}).values():
        # PEFT writes a set in the order of its hashes, another one in every process: the same adapter must be the same bytes.
        if isinstance(config.target_modules, set):
            config.target_modules = sorted(config.target_modules)
    return made


def vllm_arguments(own: Mapping[str, Any]) -> dict[str, Any]:
    """What TRL is told so that its vLLM writes."""
    start = "vllm_"
    known = sorted(each.name.removeprefix(start) for each in fields(GRPOConfig) if each.name.startswith(start))
    if unknown := sorted(set(own) - set(known)):
        raise ValueError(f"vllm has no setting {unknown[0]!r}; TRL's are {', '.join(known)}")
    return {"use_vllm": True, **{f"{start}{name}": value for name, value in own.items()}}


def adapters(rank: int) -> Any:
    """The low-rank adapters that are trained, as PEFT names them."""
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")


def _between(settings: RlSettings) -> int:
    """Updates from one checkpoint to the next."""
    return -(-settings.checkpoint_every // settings.iterations) * settings.iterations


def looks(settings: RlSettings) -> int:
    """How often a run that is not stopped looks at the policy: at the start, at every checkpoint, at the end."""
    return 1 + -(-settings.updates // _between(settings))


class _Saves(Saves):
    """Checkpoints between batches of completions only: a batch that is begun anew would be another."""

    def __init__(self, settings: RlSettings) -> None:
        super().__init__(_between(settings))
        self.whole, self.last = settings.iterations, settings.updates

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if state.global_step % self.whole == 0:
            super().on_step_end(args, state, control, **given)
            control.should_save |= state.global_step == self.last


class Watch(TrainerCallback):
    """Measures the policy at the start and at every checkpoint, and says when the run is hacked.

    Who stops the run does not wait for that: the next start measures what was kept, but where the run would end if it is
    hacked. What is a checkpoint only because the run was stopped there is not measured, as in an undisturbed run.
    """

    def __init__(
        self, given: Setting, settings: RlSettings, told: Told, known: Sequence[Checkpoint], saves: Saves
    ) -> None:
        self.given, self.settings, self.told, self.saves = given, settings, told, saves
        self.run = list({point.update: point for point in known}.values())
        self.limits = Limits()
        self.trainer: CreditTrainer | None = None

    @property
    def hacked(self) -> bool:
        """Whether the rule says so of the run so far."""
        return hacked(self.run, self.limits)

    @property
    def stops(self) -> bool:
        """Whether the run ends for that; all processes ask, and the main one knows."""
        return self.settings.stop_hacked and agreed(is_main() and self.hacked)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if agreed(state.global_step not in {point.update for point in self.run}):
            self._look(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Completions for people, before their checkpoint is saved: who goes on from there has them."""
        assert self.trainer is not None
        if not is_main() or not is_shown(state.global_step, self.settings, control.should_save):
            return
        if rows := shown(self.trainer.batch, self.given.tokenizer, self.settings):
            chosen = state.global_step in self.settings.traces_at
            self.told("traces", {"update": state.global_step, "rows": rows, "chosen": chosen})

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:
        if is_main() and logs and "loss" in logs:
            facts = {
                name.partition("/")[2] or name: float(logs[name]) for name in _FIGURES if logs.get(name) is not None
            }
            self.told("update", {"update": state.global_step, **facts})

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if not self.saves.stopped or self.settings.stop_hacked:
            self._look(state.global_step)
        control.should_training_stop |= self.stops

    def _look(self, update: int) -> None:
        """All processes gather the weights, and the main one looks, where an undisturbed run does."""
        assert self.trainer is not None
        if update % _between(self.settings) and update != self.settings.updates:
            return
        self.saves.at_rest = not self.settings.stop_hacked
        try:
            with self.trainer.whole():
                if is_main():
                    self.look(update)
        finally:
            self.saves.at_rest = False

    def look(self, update: int) -> None:
        """One checkpoint: figures, exploits, signs."""
        assert self.trainer is not None
        problems = self.given.held_out[: self.settings.measured]
        params = SamplingParams(**{**asdict(self.given.sampling), "seed": self.given.sampling.seed + 1})
        written = self.trainer.write_own(problems, params)
        forget(self.given.reward.judge)
        rolled = self.trainer.judged(problems, [each.ids for each in written], None)
        traces = [each.trajectory for each in rolled]
        truth = None if self.given.truth is None else self.given.truth.judge(traces)
        others, sure = self._held_out(traces), self._sure(rolled)
        logged = [
            _logged(each, None if truth is None else truth[i], others[i], sure[i]) for i, each in enumerate(rolled)
        ]
        honest = [trace for trace in traces if trace.steps and trace.correct is not False][:_PROBED]
        paid = (
            {each.name: each.share for each in pays(self.given.reward.score, honest) if each.share is not None}
            if honest
            else {}
        )
        graded = [trace.correct for trace in traces]  # by problem, so that runs can be compared on the same ones
        known = len(graded) - graded.count(None) or len(graded)
        point = Checkpoint(update, measure(logged), known, self._kl(rolled[:_COMPARED]), None, None, paid)
        self.run.append(point)
        signs = [asdict(alarm) for alarm in alarms(self.run, self.limits)]
        told = {"alarms": signs, "hacked": self.hacked, "right": graded.count(True), "graded": graded}
        self.told("checkpoint", {**asdict(point), **told})

    def _held_out(self, traces: Sequence[Trajectory]) -> list[float | None]:
        """What the judge that is not trained on says of whole traces, aggregated as the proxy is."""
        judge = self.given.held_out_judge
        if judge is None:
            return [None] * len(traces)
        forget(judge)
        other = replace(self.given.reward, judge=judge)
        made = [other.rollout(trace, said) for trace, said in zip(traces, other.judged(traces), strict=True)]
        return [None if each.rewards is None else reward_of(each.rewards.tolist(), other.aggregate) for each in made]

    def _sure(self, rolled: Sequence[Rolled]) -> list[float | None]:
        """What a probe beside the policy says of whole completions."""
        assert self.trainer is not None
        if self.trainer.beside.probe is None:
            return [None] * len(rolled)
        states = states_at(
            self.trainer.unwrapped, _batch(self.trainer, rolled)[0], [each.rollout.lengths for each in rolled]
        )
        return list(self.trainer.beside.probe.says(torch.stack([own[-1] for own in states])))

    @torch.no_grad()
    def _kl(self, rolled: Sequence[Rolled]) -> float | None:
        """Σ_t log π - log π_0 of a completion, the mean: an estimate of the KL to the policy as it was at first."""
        assert self.trainer is not None
        if self.trainer.beside.reference is None:
            return None
        model = self.trainer.unwrapped
        batch, own = _batch(self.trainer, rolled)
        temperature = self.given.sampling.temperature  # of the policy that wrote them
        ratios = (scored(model, batch, temperature) - scored(self.trainer.beside.reference, batch, temperature)) * own
        return float(ratios.sum(dim=-1).mean())


def _batch(trainer: CreditTrainer, rolled: Sequence[Rolled]) -> tuple[Sequences, torch.Tensor]:
    prompts = [prompt_ids(trainer.processing_class, each.trajectory.problem, trainer.template) for each in rolled]
    before, after = max(map(len, prompts)), max(len(each.ids) for each in rolled)
    ids = torch.zeros(len(rolled), before + after, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (prompt, each) in enumerate(zip(prompts, rolled, strict=True)):
        whole = slice(before - len(prompt), before + len(each.ids))
        ids[row, whole], mask[row, whole] = torch.tensor([*prompt, *each.ids]), 1
    place = trainer.accelerator.device
    return Sequences(ids.to(place), mask.to(place), after), mask[:, before:].to(place)


def _logged(rolled: Rolled, truth: Judgement | None, held_out: float | None, sure: float | None) -> Logged:
    known = () if truth is None else tuple(None if value is None else value > 0.5 for value in truth.values)
    return Logged(rolled.trajectory, rolled.judgement, rolled.reward, len(rolled.ids), known, held_out, sure)


def point_of(facts: Mapping[str, Any]) -> Checkpoint:
    """A checkpoint as it was told."""
    return Checkpoint(
        **{**{each.name: facts[each.name] for each in fields(Checkpoint)}, "update": int(facts["update"])}
    )
