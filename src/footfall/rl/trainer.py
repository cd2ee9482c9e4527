"""TRL's `GRPOTrainer` with process rewards: any judge, any credit, one advantage a token.

TRL keeps the loop, the loss, LoRA, accelerate, loggers and vLLM. A batch of completions is written and judged
(`footfall.rl.rollouts`), then

    credited   a filter chooses and a credit makes (batch, time) advantages; `_compute_loss` of TRL takes these as they are

Prompts and observations are never trained on. A rollout that could not be judged leaves its group before any statistic is
taken, and its tokens are masked. Factors of a credit's token losses are put into the advantages, which is the same for a
clipped objective, and into the coefficient of the KL to the reference (`args.beta`).

Credits and filters see the batch of all processes, and each process trains on its part of what they chose, so that the number
of processes decides nothing but the time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from accelerate.utils import DistributedType, gather_object
from torch import Tensor

from footfall.rl.batches import Rolled, rows_of
from footfall.rl.groups import FILTERED, Group
from footfall.rl.online import Sequences
from footfall.rl.rollouts import RolloutTrainer
from footfall.rl.shared_prompts import completion_logprobs, shareable
from footfall.train.trainer import part_of_mean
from footfall.types import Unjudged


class _BetaByToken(float):
    """The coefficient of a KL, in which each token has a factor of its own."""

    def __new__(cls, beta: float, factors_BT: Tensor) -> _BetaByToken:
        made = super().__new__(cls, beta)
        made.factors_BT = factors_BT
        return made

    factors_BT: Tensor

    def __mul__(self, kl_BT: Any) -> Any:
        return float(self) * self.factors_BT * kl_BT


class CreditTrainer(RolloutTrainer):
    """`GRPOTrainer` whose advantages come from a Footfall credit."""

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
