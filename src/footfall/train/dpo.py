"""DPO of judges that write (R-PRM's second stage): of two critiques of a step, the one whose verdict is the label.

    loss = −log σ(β [log π(y⁺)/π_ref(y⁺) − log π(y⁻)/π_ref(y⁻)]),   π_ref the model before, usually trained on kept chains

Pairs are a model's own critiques (`footfall.reward.generative.chains:preferences`), so no new labels are needed. Held-out
pairs are of problems that no training pair is of. TRL's `DPOTrainer` does the training; it needs the extra `rl`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from footfall.reward.backbone import context_length
from footfall.reward.generative.chains import Preference
from footfall.train.config import length_limit
from footfall.train.finite import Finite
from footfall.train.writers import Silent, asked, train_writer
from footfall.types import Message, content_key


class SilentDPO(Finite, Silent, DPOTrainer):
    """TRL's trainer."""


class Preferred(NamedTuple):
    """What was done: the folder, pairs trained on and held out, and the trainer's last figures."""

    folder: Path
    pairs: int
    held_out: int
    metrics: Mapping[str, float]


def split_pairs(pairs: Sequence[Preference], share: float, seed: int = 0) -> tuple[list[Preference], list[Preference]]:
    """Training and held-out pairs; no problem is on both sides, nor is a question that two problems ask."""
    group = _one_problem(pairs)
    order = sorted(set(group.values()), key=lambda problem: content_key("split", seed, problem))
    held = set(order[: round(share * len(order))])
    sides = [[pair for pair in pairs if (group[pair.problem] in held) is side] for side in (False, True)]
    return sides[0], sides[1]


def _one_problem(pairs: Sequence[Preference]) -> dict[str, str]:
    """The first id of each problem: problems that ask a question in the same words are one, whatever their ids."""
    first: dict[str, str] = {}

    def root(problem: str) -> str:
        while first.setdefault(problem, problem) != problem:
            problem = first[problem]
        return problem

    known: dict[tuple[Message, ...], str] = {}
    for pair in pairs:
        same = known.setdefault(pair.request.messages, pair.problem) if pair.request.messages else pair.problem
        one, other = sorted((root(pair.problem), root(same)))
        first[other] = one
    return {problem: root(problem) for problem in first}


def preference_rows(pairs: Sequence[Preference], tokenizer: Any) -> list[dict[str, str]]:
    """The pairs as TRL takes them, the question rendered with the model's chat template: prompt, chosen, rejected.

    TRL lets the tokenizer put its bos in front, which a rendered question has already: one of the two is left out.
    """
    front = tokenizer.bos_token if tokenizer("").input_ids[:1] == [tokenizer.bos_token_id] else ""
    return [
        {"prompt": asked(pair.request, tokenizer).removeprefix(front), "chosen": pair.chosen, "rejected": pair.rejected}
        for pair in pairs
    ]


def refuse_cut(rows: Sequence[Mapping[str, Any]], tokenizer: Any, asked: int | None, lm: Any) -> None:
    """TRL would cut a pair longer than it is `asked` at its end, where a critique has its verdict and a solution its answer,
    and read one that is longer than the model's context."""
    texts = [row["prompt"] + row[side] + (tokenizer.eos_token or "") for row in rows for side in ("chosen", "rejected")]
    longest = max(len(ids) for ids in tokenizer(texts).input_ids)
    limit = length_limit(asked, context_length(lm))
    if limit is not None and longest > limit:
        whose = f"DPOConfig's max_length is {limit}: raise it (None: no limit), or"
        raise ValueError(
            f"a prompt and its answer have {longest} tokens, and "
            f"{whose if limit == asked else f'the model reads {limit}:'} leave the pair out"
        )


def train_dpo(
    pairs: Sequence[Preference], model: str | Path, out: str | Path, args: DPOConfig, eval_share: float = 0.1
) -> Preferred:
    """Fit the causal LM at `model` to the pairs and save it, with its tokenizer, as a model that any server can run.

    R-PRM's own settings are one epoch, batches of 128 pairs and a learning rate of 5e-7. Pairs of more tokens than
    `args.max_length`, or than the model reads, are refused, not cut.
    """
    train, held = split_pairs(pairs, eval_share, args.seed)
    if not train:
        raise ValueError(f"{len(pairs)} pairs of critiques leave none to train on: sample more, or lower eval_share")

    def make(lm: Any, tokenizer: Any) -> SilentDPO:
        rows = [preference_rows(each, tokenizer) for each in (train, held)]
        refuse_cut([*rows[0], *rows[1]], tokenizer, args.max_length, lm)
        own, other = (Dataset.from_list(each) if each else None for each in rows)
        return SilentDPO(model=lm, args=args, processing_class=tokenizer, train_dataset=own, eval_dataset=other)

    _, metrics = train_writer(model, out, args, make)
    return Preferred(Path(out), len(train), len(held), metrics)
