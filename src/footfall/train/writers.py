"""The one way in and out of a training of judges that write: a causal LM is opened, fitted by a trainer of TRL, and saved.

`footfall.train.sft`, `footfall.train.dpo` and `footfall.rl.judges` say which trainer; what is left is a folder with a tokenizer
that any server can run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainingArguments

from footfall.loading import load_model, quiet
from footfall.render import dialogue_text
from footfall.reward.backbone import context_length
from footfall.reward.generative.critic import Request
from footfall.reward.packed import packable, packing
from footfall.reward.prm import HEAD_FILE


class Silent:
    """Put before a trainer of TRL: it tells nobody that it runs, which it would by itself (footgun 9)."""

    def _send_telemetry(self) -> None:
        """Nothing is sent."""


def asked(request: Request, tokenizer: Any) -> str:
    """A question as the judge is asked it, rendered with its chat template."""
    return dialogue_text(tokenizer, request.messages, request.opening, request.header)


def refuse_head(source: str | Path) -> None:
    """A PRM's head and view would be left behind without a word by a training of language models."""
    if (Path(source) / HEAD_FILE).is_file():
        raise ValueError(
            f"{source} is a PRM with a head of its own ({HEAD_FILE}), which a language model has no place for: name the model "
            "that it was trained from, or go on with the PRM by `footfall train --backbone`"
        )


def train_writer(
    model: str | Path, out: str | Path, args: TrainingArguments, make: Callable[[Any, Any], Trainer]
) -> tuple[Trainer, Mapping[str, float]]:
    """The trainer that `make` makes of the model and its tokenizer, after it has trained and saved, and its last figures."""
    refuse_head(model)
    lm: Any
    lm, tokenizer = load_model(str(model), "cpu" if args.use_cpu else None)
    lm.float()  # what is trained is not half precision, as a writer on CUDA is
    settings = (tokenizer, lm.config.get_text_config(), lm.generation_config)
    padding = [each.pad_token_id for each in settings]
    trainer: Any = make(lm, tokenizer)
    # TRL's rows without padding keep chains apart by flash attention alone, or by a mask over all of a row.
    longest = getattr(args, "max_length", None) or context_length(lm) or sys.maxsize
    free = getattr(trainer, "padding_free", False) and packable(lm, longest)
    with packing(lm) if free else nullcontext():
        metrics = dict(trainer.train().metrics)
        if trainer.eval_dataset is not None:
            metrics |= trainer.evaluate()
    # TRL makes the end of a text the padding of a model that has none, and who trains on that learns no end.
    for each, own in zip(settings, padding, strict=True):
        each.pad_token_id = own
    with quiet():
        trainer.model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return trainer, {k: float(v) for k, v in metrics.items()}
