"""Supervised fine-tuning of judges that write, by TRL's `SFTTrainer`; it needs the extra `rl`.

    loss = − (1/T) Σ_t ln π(token_t | tokens before it),   t over the tokens that are learned, in all rows of a batch

`fit_sft` is what `footfall train` does with a critic: rows are ids, nothing is cut, and batches and learning rates are those of
the plan. `train_sft` takes texts of any judge (RM-R1's distilled chains, rubric-RM's grades) and TRL's own settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from transformers import TrainerCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling, SFTTrainer

from footfall.reward.backbone import context_length
from footfall.reward.generative.critic import Request
from footfall.train.config import length_limit
from footfall.train.finite import Finite
from footfall.train.planned import Keeping, Plan, Planned, arguments, run
from footfall.train.trainer import Progress
from footfall.train.writers import Silent, asked, train_writer

_NOT_LEARNED = -100


class Taught(NamedTuple):
    """Ids of a question and what is to be written to it, which begins at `first`."""

    ids: Sequence[int]
    first: int

    def columns(self) -> dict[str, list[int]]:
        """As TRL takes them."""
        return {
            "input_ids": list(self.ids),
            "labels": [_NOT_LEARNED] * self.first + list(self.ids[self.first :]),
        }


class SilentSFT(Finite, Silent, SFTTrainer):
    """TRL's trainer."""


class PlannedSFT(Planned, SilentSFT):
    """The same on the batches of a plan."""


def fit_sft(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Taught],
    plan: Plan,
    progress: Progress | None = None,
    keeping: Keeping | None = None,
    packed: bool = False,
) -> tuple[float, ...]:
    """Fit the causal LM, or one with adapters, to what is written; in place. The mean loss of each epoch.

    `packed` inside `packing` only: a batch is one row without padding.
    """
    cpu = model.device.type == "cpu"

    def make(folder: Path, callbacks: list[TrainerCallback]) -> Planned:
        own = {"bf16": not cpu, "max_length": None, "packing": False, "shuffle_dataset": False}
        return PlannedSFT(
            plan,
            model=model,
            args=SFTConfig(**{**arguments(plan, folder, cpu), **own}),
            train_dataset=Dataset.from_list([row.columns() for row in rows]),
            # Its own would make the end of a text the tokenizer's padding, which is then saved.
            data_collator=DataCollatorForLanguageModeling(tokenizer.pad_token_id or 0, padding_free=packed),
            processing_class=tokenizer,
            callbacks=callbacks,
        )

    return run(make, progress, keeping)


def train_sft(
    texts: Sequence[tuple[Request, str]], model: str | Path, out: str | Path, args: SFTConfig
) -> Mapping[str, float]:
    """Fit the causal LM at `model` to write each text to its question, and save it, with its tokenizer, at `out`; the trainer's
    last figures. Longer rows than `args.max_length`, or than the model reads, are
    refused, not cut."""
    if not texts:
        raise ValueError("there are no texts to train on")

    def make(lm: Any, tokenizer: Any) -> SilentSFT:
        rows = [written(asked(request, tokenizer), text, tokenizer) for request, text in texts]
        longest = max(len(row.ids) for row in rows)
        limit = length_limit(args.max_length, context_length(lm))
        if limit is not None and longest > limit:
            fix = "raise max_length, or drop it" if limit == args.max_length else "drop it, for the model reads no more"
            raise ValueError(f"a row has {longest} tokens, the limit is {limit}: {fix}")
        data = Dataset.from_list([row.columns() for row in rows])
        return SilentSFT(model=lm, args=args, train_dataset=data, processing_class=tokenizer)

    return train_writer(model, out, args, make)[1]


def written(question: str, text: str, tokenizer: Any) -> Taught:
    """Ids of a question, of the text, and of the end; tokenised apart, so that none is of both."""
    asked_ids, ids = (list(tokenizer.encode(each, add_special_tokens=False)) for each in (question, text))
    end = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    return Taught([*asked_ids, *ids, *end], len(asked_ids))
