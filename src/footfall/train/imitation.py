"""Supervised fine-tuning of a policy on traces: it learns to write the steps, separators and end, not the problem.

    loss = − (1/T) Σ_t ln π(token_t | tokens before it),   t over the tokens of steps, separators and the end

Batches hold traces of like length, about as many tokens each, in random order. Weights stay float32; on CUDA the products
are bfloat16. The model is changed in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from footfall.loading import padded
from footfall.render import Template, encode
from footfall.reward.backbone import context_length
from footfall.train.config import length_limit
from footfall.train.planned import Plan, fit_loss
from footfall.types import Trajectory

_NOT_LEARNED = -100


@dataclass(frozen=True)
class ImitationConfig:
    """How to fine-tune. The learning rate rises over `warmup` of the updates and then falls linearly to 0."""

    lr: float = 1e-4
    epochs: int = 2
    batch_tokens: int = 16384
    warmup: float = 0.05
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    max_length: int = 1024
    """Traces that are longer, or do not fit into the model's context, are left out, and counted."""
    seed: int = 0


class Lesson(NamedTuple):
    """Ids of a trace with its end, and which of them are learned: those that the policy wrote, and the end."""

    ids: tuple[int, ...]
    learned: tuple[bool, ...]


class Imitated(NamedTuple):
    """What was done: mean loss of each epoch, tokens read, traces left out as too long, seconds."""

    losses: tuple[float, ...]
    tokens: int
    updates: int
    too_long: int
    seconds: float


def lessons(traces: Sequence[Trajectory], tokenizer: PreTrainedTokenizerBase, template: Template) -> list[Lesson]:
    """The traces as the policy would have written them, each closed by the token that ends a text."""
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no token that ends a text: set tokenizer.eos_token")
    found = []
    for trace in traces:
        given = encode(tokenizer, trace, template)
        # After a cut, or after somebody else's words, the policy has not ended.
        ended = given.policy_mask[-1] and trace.meta.get("finish") != "length"
        found.append(Lesson((*given.ids, int(tokenizer.eos_token_id)), (*given.policy_mask, ended)))
    return found


def token_batches(lengths: Sequence[int], batch_tokens: int, generator: torch.Generator) -> list[list[int]]:
    """Indices in batches of like length whose padded size is at most `batch_tokens` (a longer one stands alone), shuffled."""
    jitter = torch.rand(len(lengths), generator=generator)
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i] // 16, float(jitter[i])))
    batches: list[list[int]] = []
    widest = 0
    for i in order:
        widest = max(widest, lengths[i])
        if batches and widest * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
            widest = lengths[i]
    return [batches[k] for k in torch.randperm(len(batches), generator=generator).tolist()]


def planned(lengths: Sequence[int], config: ImitationConfig) -> Plan:
    """Batches of sequences of these lengths for every epoch, and the rates that go with them."""
    generator = torch.Generator().manual_seed(config.seed)
    epochs = [token_batches(lengths, config.batch_tokens, generator) for _ in range(config.epochs)]
    return Plan(epochs, config.lr, config.warmup, config.weight_decay, config.max_grad_norm, config.seed)


def imitate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    traces: Sequence[Trajectory],
    template: Template,
    config: ImitationConfig = ImitationConfig(),
    progress: Callable[[int, int], None] | None = None,
) -> Imitated:
    """Fit the model to the traces, in place; it is left in evaluation mode."""
    begun = time.monotonic()
    given = lessons(traces, tokenizer, template)
    limit = length_limit(config.max_length, context_length(model)) or config.max_length
    kept = [lesson for lesson in given if len(lesson.ids) <= limit]
    if not kept:
        fix = "raise max_length" if limit == config.max_length else "the model's context is no longer"
        raise ValueError(f"none of {len(given)} traces has at most {limit} tokens: {fix}")
    lengths = [len(lesson.ids) for lesson in kept]
    plan = planned(lengths, config)
    losses = fit_loss(model, plan, lambda batch: _loss(model, kept, batch), progress)
    tokens = sum(lengths) * config.epochs
    return Imitated(losses, tokens, plan.updates, len(given) - len(kept), time.monotonic() - begun)


def _loss(model: PreTrainedModel, given: Sequence[Lesson], batch: Sequence[int]) -> Tensor:
    """The mean over the learned tokens of a batch, padded on the right; what is not learned is marked."""
    inputs_NT = padded([given[i].ids[:-1] for i in batch]).to(model.device)
    wanted = [[token if learned else _NOT_LEARNED for token, learned in zip(*given[i], strict=True)][1:] for i in batch]
    targets_NT = padded(wanted, _NOT_LEARNED).to(model.device)
    logits_NTV = model(input_ids=inputs_NT, use_cache=False).logits
    return cross_entropy(logits_NTV.flatten(0, 1).float(), targets_NT.flatten(), ignore_index=_NOT_LEARNED)
