"""MAH-DPO (arXiv 2510.01167): one backbone with an output head for each objective, aligned by DPO, mixed when it writes.

A pair of objective i is compared under head i alone, z_i = W_i h, against a frozen copy with the same heads:

    Δ = [log π_i(y⁺) - log π_i(y⁻)] - [log ref_i(y⁺) - log ref_i(y⁻)],    loss = mean over objectives of mean -log σ(β Δ)

W_1 is the model's own output layer, the others are copies with a little noise (the authors' code has it on W_1 too). Since
Σ_i w_i z_i = (Σ_i w_i W_i) h, heads that are mixed with weights are one ordinary model (`mixed`), which every engine and server
can run.

TRL's `DPOTrainer` keeps the data, the loop, accelerate and loggers; it needs the extra `rl`. Its options that make another loss
(`loss_type` and the like) are refused, for the loss is this one; `beta` is heeded.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DataCollatorForPreference, DPOTrainer

from footfall.train.dpo import refuse_cut
from footfall.train.finite import Finite
from footfall.train.online import multi_head_dpo_loss, shares_of
from footfall.train.writers import Silent
from footfall.types import Trajectory

_UNHEARD = (
    "loss_type", "loss_weights", "ld_alpha", "f_divergence_type", "label_smoothing", "use_weighting",
    "precompute_ref_log_probs",
)  # fmt: skip
"""What of TRL's options is about a loss or a reference that is not made here."""


@dataclass(frozen=True)
class Pair:
    """Two answers to a prompt, of which one objective prefers the first."""

    objective: str
    prompt: str
    chosen: str
    rejected: str


def best_and_worst(traces: Iterable[Trajectory], scores: Iterable[float | None], objective: str) -> list[Pair]:
    """One pair a problem, of the traces with the highest and the lowest score; none where all are equal."""
    by_problem: dict[str, list[tuple[float, Trajectory]]] = {}
    for trace, score in zip(traces, scores, strict=True):
        if score is not None:
            by_problem.setdefault(trace.problem.id, []).append((score, trace))
    found = []
    for scored in by_problem.values():
        (high, best), (low, worst) = (choose(scored, key=lambda pair: pair[0]) for choose in (max, min))
        if high > low:
            found.append(Pair(objective, best.problem.text, best.solution, worst.solution))
    return found


def with_heads(model: PreTrainedModel, count: int, noise: float = 1e-3, seed: int = 0) -> PreTrainedModel:
    """The model itself, with `model.heads` (H, V, D) beside its output layer."""
    output: Any = model.get_output_embeddings  # untyped in transformers
    weight_VD = output().weight.detach()
    drawn = torch.randn((count - 1, *weight_VD.shape), generator=torch.Generator().manual_seed(seed))
    copies = weight_VD[None] + noise * drawn.to(weight_VD)
    model.heads = nn.Parameter(torch.cat([weight_VD[None], copies]))
    return model


def mixed(model: PreTrainedModel, weights: Sequence[float]) -> PreTrainedModel:
    """An ordinary model with the output layer Σ_i w_i W_i, the weights brought to the sum 1. One-hot weights are one head."""
    heads_HVD: Any = model.heads
    share_H = shares_of(weights, heads_HVD)
    made = copy.deepcopy(model)
    del made.heads
    output = nn.Linear(heads_HVD.shape[2], heads_HVD.shape[1], bias=False).to(heads_HVD)
    output.weight = nn.Parameter(torch.einsum("h,hvd->vd", share_H, heads_HVD.detach()))
    made.config.tie_word_embeddings = False  # the embedding of what is read stays as it is
    put: Any = made.set_output_embeddings
    put(output)
    return made


def refuse_unheard(args: DPOConfig) -> None:
    """Refuse settings of TRL that would change nothing here."""
    usual = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(DPOConfig) if each.name in _UNHEARD
    }  # fmt: skip
    for name, default in usual.items():
        if (said := getattr(args, name)) not in (default, [default]):
            raise ValueError(
                f"{name}={said!r} would not be heeded: MAH-DPO has one loss, of `beta` alone; leave it out"
            )


class _WithObjectives(DataCollatorForPreference):
    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        base: Any = super()
        found: dict[str, Any] = base.torch_call(examples)
        return {**found, "objective": torch.tensor([example["objective"] for example in examples])}


class MultiHeadDPOTrainer(Finite, Silent, DPOTrainer):
    """`DPOTrainer` whose pairs are compared under the head of their objective."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pairs: Sequence[Pair],
        args: DPOConfig,
        weights: dict[str, float] | None = None,
        noise: float = 1e-3,
    ) -> None:
        """`weights` of the objectives' losses; without, their mean. Heads are in the order of `objectives`."""
        refuse_unheard(args)
        self.objectives = list(dict.fromkeys(pair.objective for pair in pairs))
        if not self.objectives or (weights is not None and set(weights) != set(self.objectives)):
            raise ValueError(f"pairs are of the objectives {self.objectives}; give each of them a weight, or none")
        self.shares = None if weights is None else [weights[name] for name in self.objectives]
        with_heads(model, len(self.objectives), noise, args.seed)
        rows = [
            {"prompt": pair.prompt, "chosen": pair.chosen, "rejected": pair.rejected,
             "objective": self.objectives.index(pair.objective)}
            for pair in pairs
        ]  # fmt: skip
        refuse_cut(rows, tokenizer, args.max_length, model)
        pad: Any = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        start: Any = super().__init__
        start(
            model=model, ref_model=copy.deepcopy(model).requires_grad_(False), args=args, processing_class=tokenizer,
            train_dataset=Dataset.from_list(rows), data_collator=_WithObjectives(pad, max_length=args.max_length),
        )  # fmt: skip

    def _set_signature_columns_if_needed(self) -> None:
        base: Any = super()
        base._set_signature_columns_if_needed()
        columns: Any = self._signature_columns
        if "objective" not in columns:
            columns.append("objective")

    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False) -> Any:
        objective_B: Tensor = inputs["objective"]
        own = answer_logps(self.accelerator.unwrap_model(model), inputs, objective_B)
        with torch.no_grad():
            behind = answer_logps(self.accelerator.unwrap_model(self.ref_model), inputs, objective_B)
        (chosen_B, rejected_B), (before_B, worse_B) = own.chunk(2), behind.chunk(2)
        loss = multi_head_dpo_loss(chosen_B, rejected_B, before_B, worse_B, objective_B, self.beta, self.shares)
        with torch.no_grad():
            won_B = (chosen_B - before_B) > (rejected_B - worse_B)
            for i in sorted(set(objective_B.tolist())):
                ahead = won_B[objective_B == i].float().mean()
                self._metrics["train" if model.training else "eval"][f"ahead/{self.objectives[i]}"].append(ahead.item())
        return (loss, {}) if return_outputs else loss


def answer_logps(model: Any, inputs: dict[str, Any], objective_B: Tensor) -> Tensor:
    """(2B,) log-probability of the chosen, then of the rejected answers, each under the head of its objective."""
    hidden_NLD: Tensor = model.get_decoder()(
        input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False
    ).last_hidden_state[:, :-1]
    wanted_NL, own_NL = inputs["input_ids"][:, 1:], inputs["completion_mask"][:, 1:]
    head_N = torch.cat([objective_B, objective_B])
    found_N = hidden_NLD.new_zeros(len(head_N), dtype=torch.float32)
    for i in sorted(set(head_N.tolist())):
        rows = (head_N == i).nonzero()[:, 0]
        logits_RLV = hidden_NLD[rows] @ model.heads[i].T
        logps_RL = logits_RLV.float().log_softmax(dim=-1).gather(2, wanted_NL[rows][..., None])[..., 0]
        found_N = found_N.index_put((rows,), (logps_RL * own_NL[rows]).sum(dim=1))
    return found_N
