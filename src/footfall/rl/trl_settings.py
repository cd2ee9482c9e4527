"""What TRL's settings mean for `CreditTrainer`: which count, which would change nothing here and are refused, and of what the
reference of a KL is a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from transformers import PreTrainedModel
from trl.trainer import grpo_trainer
from trl.trainer.grpo_config import GRPOConfig

from footfall.rl.writing import Writer

_CREDITS_OWN = ("scale_rewards", "multi_objective_aggregation", "reward_weights")
"""What TRL would make of rewards."""
_SAMPLERS_OWN = ("min_p", "repetition_penalty", "generation_kwargs", "cache_implementation")
"""How TRL would draw, and no other writer does."""


def heeded(args: GRPOConfig, writer: Writer | None) -> Writer:
    """Who writes: Footfall's engine unless one is named, or TRL if `args.use_vllm`. What no writer would heed is refused."""
    chosen = writer or ("trl" if args.use_vllm else "engine")
    if args.use_vllm and chosen != "trl":
        named = f"writer={chosen!r}" if isinstance(chosen, str) else "a policy"
        raise ValueError(
            f"use_vllm=True lets TRL's vLLM write the completions, and {named} names another: leave one of them out"
        )
    _refuse_unheard(args, chosen)
    return chosen


def _refuse_unheard(args: GRPOConfig, writer: Writer) -> None:
    """Refuse settings of TRL that would change nothing here."""
    plain = {each.name: each.default for each in fields(GRPOConfig)}
    said = [name for name, default in plain.items() if getattr(args, name) != default]
    for name in said:
        if name in _CREDITS_OWN:
            why = "advantages are the credit's: say it there, as in create('credit', 'grpo', scale='batch')"
        elif name == "chat_template_kwargs":
            why = "prompts are Footfall's: say template=Template(…)"
        elif name in _SAMPLERS_OWN and writer != "trl":
            why = "this writer has temperature, top_p and top_k alone: leave it out, or let TRL write (writer='trl')"
        else:
            continue
        raise ValueError(f"{name}={getattr(args, name)!r} would not be heeded: {why}")


def refuse_parted_groups(args: GRPOConfig) -> None:
    """Once TRL has filled `args` in: a group must be whole within one process."""
    local = args.per_device_train_batch_size * int(args.steps_per_generation or 1)
    if local % int(args.num_generations or 1):
        raise ValueError(
            f"a process writes {local} completions at once, which is no multiple of num_generations = "
            f"{args.num_generations}: a group must be whole within one process"
        )


@contextmanager
def reference_of(model: PreTrainedModel) -> Iterator[None]:
    """Inside, the reference that TRL makes for a KL is a copy of these weights.

    TRL reads it by the name of the model, behind which there are others (an adapter's base) or none (GGUF, a model made here).
    """
    module: Any = grpo_trainer
    reads = module.create_model_from_path
    module.create_model_from_path = lambda *_, **__: copy.deepcopy(model).train(False)
    try:
        yield
    finally:
        module.create_model_from_path = reads
