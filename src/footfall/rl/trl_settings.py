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
_SAMPLERS_OWN = ("min_p", "repetition_penalty", "generation_kwargs", "cache_implementation", "use_transformers_paged",
                 "use_transformers_continuous_batching", "transformers_continuous_batching_config")  # fmt: skip
"""How TRL would draw, and no other writer does."""
_ELSEWHERE = {
    "chat_template_kwargs": "prompts are Footfall's: say template=Template(…)",
    "model_init_kwargs": "the model is loaded already: say it to load_model, or to from_pretrained",
    "trust_remote_code": "the model is loaded already, and Footfall runs no code that came with one",
    "max_tool_calling_iterations": "who calls tools is the writer: say it to a policy of your own (writer=…)",
    "remove_unused_columns": "rows name the problems that completions are graded by",
}
"""What is said to somebody else here."""


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
    """Refuse settings of TRL that would change nothing here, and those that nobody could write completions with."""
    if args.max_completion_length is None or not args.temperature > 0:
        raise ValueError(
            f"max_completion_length={args.max_completion_length}, temperature={args.temperature}: completions are drawn at a "
            "temperature above 0, for greedy ones of a problem are all the same, and cut at a number of tokens"
        )
    plain = {each.name: each.default for each in fields(GRPOConfig)}
    said = [name for name, default in plain.items() if getattr(args, name) != default]
    for name in said:
        if name in _CREDITS_OWN:
            why = "advantages are the credit's: say it there, as in create('credit', 'grpo', scale='batch')"
        elif name in _ELSEWHERE:
            why = _ELSEWHERE[name]
        elif name.startswith("vllm_") and not args.use_vllm:
            why = "no vLLM writes here: leave it out, or say use_vllm=True"
        elif name in _SAMPLERS_OWN and writer != "trl":
            why = "this writer has temperature, top_p and top_k alone: leave it out, or let TRL write (writer='trl')"
        else:
            continue
        raise ValueError(f"{name}={getattr(args, name)!r} would not be heeded: {why}")


def refuse_sizes(args: GRPOConfig, problems: int) -> None:
    """Once TRL has filled `args` in: a group must be whole within one process, and a batch has a problem for each group."""
    local = args.per_device_train_batch_size * int(args.steps_per_generation or 1)
    if local % int(args.num_generations or 1):
        raise ValueError(
            f"a process writes {local} completions at once, which is no multiple of num_generations = "
            f"{args.num_generations}: a group must be whole within one process"
        )
    groups = int(args.generation_batch_size or 0) // int(args.num_generations or 1)
    if problems < groups:  # TRL drops the batch that it cannot fill, and ends without an update
        raise ValueError(
            f"{problems} problems, and a batch of {args.generation_batch_size} completions takes {groups}, "
            f"{args.num_generations} of each: give more problems, or lower per_device_train_batch_size"
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
