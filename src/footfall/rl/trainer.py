"""TRL's `GRPOTrainer` with process rewards: any judge, any credit, one advantage a token.

TRL keeps the loop, the loss, LoRA, accelerate, loggers and vLLM. A batch of completions goes this way:

    written    by Footfall's engine with the very weights that are trained, by another policy (a server), or by TRL (vLLM too)
    judged     completion ids become traces in steps, graded against the reference answer and judged in one batch
    credited   a filter chooses and a credit makes (batch, time) advantages; `_compute_loss` of TRL takes these as they are

Prompts and observations are never trained on. A rollout that could not be judged leaves its group before any statistic is
taken, and its tokens are masked. Factors of a credit's token losses are put into the advantages, which is the same for a
clipped objective, and into the coefficient of the KL to the reference (`args.beta`).

Of several processes each writes and judges whole groups. Credits and filters see the batch of all, and each process trains on
its part of what they chose, so that the number of processes decides nothing but the time. Weights that are sharded (FSDP2,
ZeRO-3) are gathered for the time in which the engine writes.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from accelerate.utils import DistributedType, gather_object
from datasets import Dataset
from torch import Tensor
from torch.utils.data import Sampler
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from footfall.answers import grade
from footfall.judging import forget
from footfall.policy.protocol import SamplingParams
from footfall.policy.splitting import trajectory_from_ids
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template, prompt_ids, template_for
from footfall.rl.batches import Rolled, rows_of
from footfall.rl.beside import SOLVED, Beside
from footfall.rl.confidence import Forcing, forced_shares
from footfall.rl.groups import FILTERED, Group
from footfall.rl.online import Sequences
from footfall.rl.parts import EngineInParts, Parts
from footfall.rl.rewards import Reward
from footfall.rl.shared_prompts import completion_logprobs, shareable
from footfall.rl.trl_settings import heeded, reference_of, refuse_parted_groups
from footfall.rl.whole_weights import WholeWeights
from footfall.rl.writing import Writer, Written, by_engine, by_policy, runs_of
from footfall.train.trainer import part_of_mean
from footfall.train.writers import Silent
from footfall.types import Problem, Reason, Trajectory, Unjudged, content_key

# TRL would print the completion of a failed judgement as it is; here such rollouts are counted.
logging.getLogger(GRPOTrainer.__module__).addFilter(
    lambda record: "All reward functions returned None" not in str(record.msg)
)


class _ByEpoch(Sampler[int]):
    def __init__(self, sampler: Any, seed: Callable[[], int]) -> None:
        self.sampler, self.seed = sampler, seed

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        if self.sampler.shuffle:
            self.sampler.generator.manual_seed(self.seed())
        return iter(self.sampler)


class _BetaByToken(float):
    """The coefficient of a KL, in which each token has a factor of its own."""

    def __new__(cls, beta: float, factors_BT: Tensor) -> _BetaByToken:
        made = super().__new__(cls, beta)
        made.factors_BT = factors_BT
        return made

    factors_BT: Tensor

    def __mul__(self, kl_BT: Any) -> Any:
        return float(self) * self.factors_BT * kl_BT


class CreditTrainer(Silent, GRPOTrainer):
    """`GRPOTrainer` whose advantages come from a Footfall credit. What `args` say of sampling holds for every writer."""

    model: Any
    processing_class: Any

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        problems: Sequence[Problem],
        reward: Reward,
        args: GRPOConfig,
        *,
        writer: Writer | None = None,
        separator: str = "\n\n",
        template: Template | None = None,
        online_lr: float = 1e-6,
        callbacks: Sequence[TrainerCallback] = (),
        peft_config: Any = None,
        keep_reference: bool = False,
        parts: Parts | None = None,
        forcing: Forcing = Forcing(),
    ) -> None:
        """`writer` is Footfall's engine unless one is named, or TRL if `args.use_vllm`. `keep_reference` holds a copy of the
        weights as they are now, also where the credit needs none; `parts` says how the engine cuts a batch and who writes the
        parts; `forcing`, how answers are forced for a credit that reads confidences."""
        if any(problem.images for problem in problems):
            raise ValueError("problems with images cannot be trained on yet: leave them out")
        reward.unanswered(problems)
        writer = heeded(args, writer)
        self.problems, self.paid, self.separator = list(problems), reward, separator
        self.template = template or template_for(tokenizer)
        self.batch: list[Rolled] = []
        """The last completions, in order."""
        self.left: Counter[str] = Counter()
        """Rollouts that left their groups, by reason."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Spent on writing, judging, and on whole steps."""
        self._asked: list[Problem] = []
        self._own: list[list[int]] | None = None
        self._failed: dict[int, str] = {}
        self._policy: TorchPolicy | None = None
        self._writer, self._parts = writer, parts if writer == "engine" else None
        self._forcing = forcing
        # Before TRL changes how the model is called.
        self.beside = Beside(
            reward.credit.needs, model, online_lr=online_lr, temperature=args.temperature, seed=args.seed,
            keep_reference=keep_reference,
        )  # fmt: skip
        """What the credit reads of other models."""
        rows = [{"prompt": problem.text, "problem": i} for i, problem in enumerate(self.problems)]
        with warnings.catch_warnings(), reference_of(model):
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            start: Any = super().__init__
            start(
                model=model, reward_funcs=self._named_reward(), args=args, train_dataset=Dataset.from_list(rows),
                processing_class=tokenizer, callbacks=list(callbacks), peft_config=peft_config,
                rollout_func=None if writer == "trl" else self._rollouts,
            )  # fmt: skip
        # TRL hides completions that were cut from attention too, so that log-probabilities of their tokens are of another text.
        self._masks_cut, self.mask_truncated_completions = args.mask_truncated_completions, False
        refuse_parted_groups(args)
        backend = self._dist
        if backend.fsdp_version == 1:
            raise ValueError("FSDP is supported in its second version: say fsdp_version: 2 (FSDP_VERSION=2)")
        self._whole = WholeWeights(self.model) if backend.is_fsdp or backend.is_zero3 else None
        """What the engine writes with where the weights that are trained are sharded."""

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        """TRL's, but the order of an epoch depends on seed and epoch alone, so that a resumed run sees the same problems."""
        base: Any = super()
        sampler = base._get_train_sampler(dataset)
        return _ByEpoch(sampler, lambda: self.args.seed * 1_000_003 + int((self.state.epoch or 0) + 1e-6))

    # Written.

    @property
    def unwrapped(self) -> Any:
        """The policy with whole weights; where they are sharded, within `whole`."""
        return self.accelerator.unwrap_model(self.model) if self._whole is None else self._whole.model

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Around all that is done with `policy` or `unwrapped`: sharded weights are gathered, by all processes together."""
        if self._whole is None:
            yield
            return
        with self._whole.filled(self.accelerator.unwrap_model(self.model), self.accelerator.device):
            try:
                yield
            finally:
                self._policy = None  # its engine holds on to the weights

    @property
    def policy(self) -> TorchPolicy:
        """Writes with the weights that are trained; a LoRA's layers are inside the model."""
        if self._policy is None:
            model = self.unwrapped
            inner = model.get_base_model() if hasattr(model, "get_base_model") else model
            args: Any = self.args
            rows = args.per_device_train_batch_size * args.steps_per_generation
            self._policy = TorchPolicy(
                inner, self.processing_class, label="policy", template=self.template, rows=max(64, min(1024, rows))
            )
            if self._parts is not None:
                engine: Any = EngineInParts(self._policy.engine, self._parts)
                self._policy.engine = engine
        return self._policy

    @property
    def sampling(self) -> SamplingParams:
        """What `args` say of it, for the update at hand: another seed each."""
        args: Any = self.args
        seed = int(content_key("rl", args.seed, self.state.global_step)[:12], 16)
        return SamplingParams(
            args.temperature, args.top_p or 1.0, args.top_k or 0, args.max_completion_length, seed=seed
        )

    def write(self, problems: Sequence[Problem], params: SamplingParams) -> list[Written]:
        """One completion for each problem; one that occurs again gets its next sample. Nothing depends on earlier calls."""
        if isinstance(self._writer, str):
            return self.write_own(problems, params)
        return by_policy(self._writer, runs_of(problems, self.separator), params, self.processing_class)

    def write_own(self, problems: Sequence[Problem], params: SamplingParams) -> list[Written]:
        """The same by the policy that is trained, whoever writes its rollouts."""
        return by_engine(self.policy, runs_of(problems, self.separator), params, self.template)

    def _rollouts(self, prompts: Sequence[Any], _: Any) -> dict[str, Any]:
        """TRL's `rollout_func`; the problems of the batch are known already."""
        with self.whole() if self._writer == "engine" else nullcontext():
            written = self.write(self._asked, self.sampling)
        self._failed = {i: each.failure for i, each in enumerate(written) if each.failure is not None}
        ids = self._tokenize_prompts(prompts)[0]
        return {"prompt_ids": ids, "completion_ids": [each.ids for each in written], "logprobs": None}

    def _tokenize_prompts(self, prompts: Sequence[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """By Footfall's renderer, so that all writers and judges see one prompt."""
        return [prompt_ids(self.processing_class, problem, self.template) for problem in self._asked], None, {}

    def _generate(self, prompts: Any) -> Any:
        with self._timed("writing"):
            base: Any = super()
            found = base._generate(prompts)
        self._own = found[2]  # 1 at tokens that the policy wrote, where tools wrote too
        return found

    # Judged.

    def trace(self, problem: Problem, ids: Sequence[int], own: Sequence[int] | None, name: str) -> Trajectory:
        """The graded trace that a completion's ids are."""
        found = trajectory_from_ids(
            problem, ids, self.processing_class, self.separator, end_ids=self.eos_token_ids, id=name, author="policy",
            policy_mask=None if own is None else [bool(each) for each in own],
        )  # fmt: skip
        return grade(found.trajectory)

    def judged(
        self, problems: Sequence[Problem], completions: Sequence[Sequence[int]], own: Sequence[Sequence[int]] | None,
        first: int = 0,
    ) -> list[Rolled]:  # fmt: skip
        """All completions as rollouts, not credited yet; `first` is the place of the first in the batch of all processes."""
        step = self.state.global_step
        traces = [
            self.trace(problem, ids, None if own is None else own[i], f"{problem.id}/step-{step}/{first + i}")
            for i, (problem, ids) in enumerate(zip(problems, completions, strict=True))
        ]
        with self._naming_update():  # a judgement that is not finite names its trace
            said = self.paid.judged(traces)
        found = []
        for trace, each, ids in zip(traces, said, completions, strict=True):
            with self._naming_update(trace):
                made = self.paid.of_ids(trace, each, ids)
            found.append(Rolled(trace, each, tuple(ids), made, self.paid.proxy(made)))
        return found

    def _named_reward(self) -> Callable[..., list[float | None]]:
        """TRL's reward function: its numbers are logged; what is trained on is made by `_credit`."""

        def proxy(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
            with self._timed("judging"):
                if self.paid.judge is not None:
                    forget(self.paid.judge)
                first = self.accelerator.process_index * len(completion_ids)
                self.batch = self.judged(self._asked, completion_ids, self._own, first)
                if self.beside.probe is not None:
                    self._force_answers()
            for i, why in self._failed.items():
                gone = Unjudged(Reason.FAILED_CALL, why)
                bare = replace(self.batch[i].rollout, outcome=None, rewards=None, failure=gone)
                self.batch[i] = replace(self.batch[i], rollout=bare, reward=None, left=gone)
            return [each.reward for each in self.batch]

        return proxy

    def _force_answers(self) -> None:
        """The share of right answers among those that the policy gives at once where its completions are cut."""
        problems = [each.trajectory.problem for each in self.batch]
        prompts = [prompt_ids(self.processing_class, problem, self.template) for problem in problems]
        lengths = [each.rollout.lengths for each in self.batch]
        with self.whole():
            self.policy.forget()
            shares = forced_shares(
                self.policy.engine, self.processing_class, problems, prompts, [each.ids for each in self.batch], lengths,
                self._forcing, self.sampling.seed,
            )  # fmt: skip
        for i, (each, own) in enumerate(zip(self.batch, shares, strict=True)):
            self.batch[i] = replace(each, rollout=replace(each.rollout, aspects={**each.rollout.aspects, SOLVED: own}))

    # Credited.

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._asked, self._failed = [self.problems[row["problem"]] for row in inputs], {}
        base: Any = super()
        output: dict[str, Any] = base._generate_and_score_completions(inputs)
        with self._timed("crediting"):
            return self._credit(output)

    def _credit(self, output: dict[str, Any]) -> dict[str, Any]:
        """TRL's batch with advantages, and a mask that leaves out what is not trained on."""
        training = self.model.training
        size = int((self.num_generations if training else self.num_generations_eval) or 1)
        own_rows = len(output["completion_ids"])
        # A reward model that learns beside the policy takes the same step in every process, on the batch of all.
        if self.beside.learning:
            output = self._of_all(output)
            self._read_beside(output)
        else:
            self._read_beside(output)
            output = self._of_all(output)
        groups = [
            Group(tuple(each.rollout for each in self.batch[at : at + size]), self.batch[at].trajectory.problem.id)
            for at in range(0, len(self.batch), size)
        ]
        with self._naming_update():
            rows = rows_of(groups, self.paid.credit, self.paid.keep, output["completion_ids"].shape[1])
        if self._masks_cut:
            rows.own_BT[[self._is_cut(self.batch[source]) for source in rows.order]] = 0
        out = rows.out | {i: each.left for i, each in enumerate(self.batch) if each.left is not None}
        for row, source in enumerate(rows.order):
            each = self.batch[source]
            if source not in rows.out:
                self.batch[source] = replace(each, advantages=rows.advantages_BT[row, : each.rollout.tokens])
        for i, why in out.items():
            each = self.batch[i]
            self.batch[i] = replace(each, left=why, reward=each.reward if why == FILTERED else None)
        # What TRL shows of completions (`log_completions`) has the advantages that it made of the proxy.
        logged: Any = self._logs["advantages"]
        for _ in self.batch[: len(logged)]:
            logged.pop()
        logged.extend(_mean_of(each) for each in self.batch)
        left = {i: why for i, why in out.items() if why != FILTERED}
        self._tell(left, len(out) - len(left), "train" if training else "eval")
        count = len(rows.order)
        taken = torch.tensor(rows.order, device=output["completion_ids"].device)
        output = {
            name: value[taken] if isinstance(value, Tensor) and value.dim() and len(value) == count else value
            for name, value in output.items()
        }
        own = torch.from_numpy(rows.own_BT).to(output["completion_mask"]) * output["completion_mask"]
        output |= {"advantages": torch.from_numpy(rows.advantages_BT).to(taken.device, torch.float32), "tool_mask": own,
                   "num_items_in_batch": own.sum(), "rollout": taken}  # fmt: skip
        if self.beta and self.paid.credit.weigh is not None:
            output["kl_weights"] = torch.from_numpy(rows.weights_BT).to(taken.device, torch.float32)
        mine = slice(own_rows * self.accelerator.process_index, own_rows * (self.accelerator.process_index + 1))
        return {
            name: value[mine] if isinstance(value, Tensor) and value.dim() else value for name, value in output.items()
        }

    def _is_cut(self, each: Rolled) -> bool:
        return each.ids[-1] not in (*self.eos_token_ids, self.processing_class.pad_token_id)

    def _of_all(self, output: dict[str, Any]) -> dict[str, Any]:
        """The batch of all processes in each of them, its rows and `self.batch` in the order of the processes."""
        if self.accelerator.num_processes == 1:
            return output
        self.batch = gather_object(self.batch)
        found = dict(output)
        for name, value in output.items():
            if isinstance(value, Tensor) and value.dim():
                pad = int(self.processing_class.pad_token_id or 0) if name.endswith("_ids") else 0
                wide: Any = self.accelerator.pad_across_processes(value, 1, pad, pad_first=name.startswith("prompt"))
                found[name] = self.accelerator.gather(wide)
        return found

    def _read_beside(self, output: dict[str, Any]) -> None:
        """Rollouts get what the credit reads of other models, and those that learn take their step."""
        batch, training = _sequences(output), bool(self.model.training)
        with self._naming_update():
            known, figures = self.beside.scores(
                self.accelerator.unwrap_model(self.model), batch, [each.rollout for each in self.batch],
                output.get("old_per_token_logps"), self.sampling.seed, training,
            )  # fmt: skip
        for i, (each, more) in enumerate(zip(self.batch, known, strict=True)):
            with self._naming_update(each.trajectory):
                made: dict[str, Any] = dict(more)
                self.batch[i] = replace(each, rollout=replace(each.rollout, **made)) if made else each
        if training:
            tasks = [each.trajectory.problem.id for each in self.batch]
            with self._naming_update():
                figures |= self.beside.learn(batch, [each.rollout for each in self.batch], tasks)
        for name, value in figures.items():
            self._metrics["train"][name].append(value)

    def _tell(self, left: dict[int, Unjudged], filtered: int, mode: str) -> None:
        """Figures of the batch, in TRL's log."""
        known = [each.trajectory.correct for each in self.batch if each.trajectory.correct is not None]
        self.left.update(why.reason.value for why in left.values())
        figures = {"accuracy": sum(known) / len(known) if known else math.nan, "left": float(len(left)),
                   "filtered": float(filtered),
                   "steps": float(np.mean([len(each.trajectory.steps) for each in self.batch]))}  # fmt: skip
        for name, value in figures.items():
            self._metrics[mode][name].append(value)

    # Trained.

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, **named: Any
    ) -> Any:
        """TRL's, or the same numbers with each prompt read once for its group and no padding: half the tokens."""
        more = {name for name, value in named.items() if value is not None and value is not False}
        if (
            self.accelerator.distributed_type != DistributedType.NO  # which wraps the model, in one process too
            or more - {"batch_size", "compute_entropy"}
            or not shareable(model, input_ids.shape[1])
        ):
            base: Any = super()
            return base._get_per_token_logps_and_entropies(model, input_ids, attention_mask, logits_to_keep, **named)
        most, entropies = named.get("batch_size"), bool(named.get("compute_entropy"))
        with self.accelerator.autocast():
            return *completion_logprobs(model, input_ids, attention_mask, logits_to_keep, most, entropies), None

    def compute_loss(self, model: Any, inputs: dict[str, Any], *given: Any, **named: Any) -> Any:
        """TRL's loss; one that is not finite stops the run and names the trace."""
        base: Any = super()
        loss = base.compute_loss(model, inputs, *given, **named)
        if self.loss_type == "bnpo" and self.accelerator.num_processes > 1:  # a mean over the tokens of a pass
            own = (inputs["completion_mask"] * inputs["tool_mask"]).sum()
            total: Any = self.accelerator.gather(own)
            loss = part_of_mean(loss, own, total.sum().clamp(min=1), self.accelerator.num_processes)
        if torch.isfinite(loss):
            return loss
        source = int(inputs["rollout"][0])
        for row in range(len(inputs["rollout"])):
            alone = {name: value[row : row + 1] if isinstance(value, Tensor) and value.dim() else value
                     for name, value in inputs.items()}  # fmt: skip
            with torch.no_grad():
                if not torch.isfinite(base.compute_loss(model, alone)):
                    source = int(inputs["rollout"][row])
                    break
        raise ValueError(
            f"update {self.state.global_step}: the loss is {loss.item()}, first at the trace "
            f"{self.batch[source].trajectory.id!r}; lower the learning rate, or go on from an earlier checkpoint"
        )

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        """TRL's, in which a credit's factors of tokens' losses are also those of their KL."""
        base: Any = super()
        factors, plain = inputs.get("kl_weights"), self.beta
        if factors is None:
            return base._compute_loss(model, inputs)
        self.beta = _BetaByToken(plain, factors)
        try:
            return base._compute_loss(model, inputs)
        finally:
            self.beta = plain

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The Trainer's; one that is not finite stops the run while the weights still are, and so is their last checkpoint."""
        base: Any = super()
        norm = base._get_grad_norm(model, grad_norm=grad_norm)
        # In float16 the scaler of losses leaves such a step out, and tries smaller ones.
        if norm is not None and self.accelerator.scaler is None and not math.isfinite(float(norm)):
            raise ValueError(
                f"update {self.state.global_step}: the gradient's norm is {float(norm)}; lower the learning rate, or go on "
                "from an earlier checkpoint"
            )
        return norm

    def training_step(self, *given: Any, **named: Any) -> Any:
        with self._timed("steps"):
            base: Any = super()
            return base.training_step(*given, **named)

    def create_model_card(self, *given: Any, **more: Any) -> None:
        """None in checkpoints: TRL's has its tags in another order in every process."""

    def load_ended(self, checkpoint: Path) -> None:
        """The weights of a checkpoint after which nothing is trained, and so nothing is sharded."""
        self.beside.load(checkpoint)
        if not self.is_fsdp_enabled:
            self._load_from_checkpoint(str(checkpoint))
        elif files := sorted(checkpoint.glob("model*.safetensors")):  # of a large policy there are several
            for file in files:
                self.model.load_state_dict(safetensors.torch.load_file(file), strict=False)
            self.model.tie_weights()
        else:
            self.model.load_adapter(str(checkpoint), self.model.active_adapter, is_trainable=True)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self.args.should_save:  # before the rest: TRL's state is a checkpoint's last file
            self.beside.save(Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}")
        base: Any = super()
        base._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        base: Any = super()
        base._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.beside.load(Path(checkpoint))

    @contextmanager
    def _naming_update(self, trace: Trajectory | None = None) -> Iterator[None]:
        """An error over numbers says at which update, and with which trace, the run stopped."""
        try:
            yield
        except ValueError as error:
            where = "" if trace is None else f", trace {trace.id!r}"
            raise ValueError(f"update {self.state.global_step}{where}: {error}") from error

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - begun


def _mean_of(each: Rolled) -> float:
    """The mean advantage of a rollout's own tokens; 0 where it is not trained on."""
    own = each.advantages[each.rollout.mask[: len(each.advantages)]]
    return float(own.mean()) if len(own) else 0.0


def _sequences(output: dict[str, Any]) -> Sequences:
    return Sequences(
        torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1),
        torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1),
        output["completion_ids"].shape[1],
    )
