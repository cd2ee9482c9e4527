"""Tokens per second of fine-tuning a judge that writes: padded batches against packed rows, same model and chains, in one run.

    python -m benchmarks.judges                        # the embedded model on this CPU
    python -m benchmarks.judges --rows 400 --batch 16

`trl` is TRL's `SFTTrainer` as it comes, batches in random order (`footfall.train.sft:train_sft`), `trl, packed` the same with
`padding_free=True`; `planned` and `planned, packed` are what `footfall train --objective critique` does, whose batches are of
like lengths. All ways take turns, `--rounds` times, each on a fresh copy of the model; the first updates of each are not
counted, and padding is no token. Lengths are drawn as those of written chains are: log-normal, the longest some ten times the
shortest.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from statistics import median
from typing import Any

import torch
from datasets import Dataset
from trl.trainer.sft_config import SFTConfig

from benchmarks.training import Clock
from footfall.loading import load_model, quiet
from footfall.policy.embedded import EMBEDDED
from footfall.reward.packed import packing
from footfall.train.imitation import ImitationConfig, planned
from footfall.train.sft import SilentSFT, Taught, fit_sft

WARM_UP = 2
"""Updates before the clock starts."""
WAYS = ("trl", "trl, packed", "planned", "planned, packed")


def chains(count: int, vocabulary: int, longest: int) -> list[Taught]:
    """Rows of random ids, the first third of each a question."""
    draw = torch.Generator().manual_seed(0)
    sizes = (150 * torch.randn(count, generator=draw).mul(0.7).exp()).clamp(24, longest).int().tolist()
    return [Taught(torch.randint(vocabulary, (n,), generator=draw).tolist(), n // 3) for n in sizes]


def rate(way: str, rows: list[Taught], batch: int) -> tuple[float, float]:
    """Tokens a second of one pass over the rows, after the warm-up, and what share of all that was computed they are."""
    lm: Any
    lm, tokenizer = load_model(str(EMBEDDED), "cpu")
    lm.float()
    clock, computed, real = Clock(), [], []

    def count(module: Any, given: Any, named: Any) -> None:
        computed.append(named["input_ids"].numel())
        real.append(int(named["attention_mask"].sum()) if "attention_mask" in named else computed[-1])

    lm.register_forward_pre_hook(count, with_kwargs=True)
    with quiet(), ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        if "packed" in way:
            stack.enter_context(packing(lm))
        if way.startswith("trl"):
            args = SFTConfig(
                folder, per_device_train_batch_size=batch, num_train_epochs=1, learning_rate=1e-4, use_cpu=True, bf16=False,
                report_to="none", save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, max_length=None,
                padding_free="packed" in way,
            )  # fmt: skip
            data = Dataset.from_list([row.columns() for row in rows])
            trainer = SilentSFT(model=lm, args=args, train_dataset=data, processing_class=tokenizer, callbacks=[clock])
            trainer.train()
        else:
            lengths = [len(row.ids) for row in rows]
            plan = planned(
                lengths, ImitationConfig(lr=1e-4, epochs=1, batch_tokens=batch * sum(lengths) // len(lengths))
            )
            fit_sft(
                lm, tokenizer, rows, plan, lambda done, of: clock.on_step_end(None, None, None), packed="packed" in way
            )
    seconds = clock.ended[-1] - clock.ended[WARM_UP - 1]
    return sum(real[WARM_UP:]) / seconds, sum(real[WARM_UP:]) / sum(computed[WARM_UP:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument(
        "--batch", type=int, default=8, help="chains an update of TRL's; the plan's have as many tokens"
    )
    parser.add_argument("--longest", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    arguments = parser.parse_args()
    rows = chains(arguments.rows, 256, arguments.longest)
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in arguments.ways}
    for _ in range(arguments.rounds):
        for way in arguments.ways:
            found[way].append(rate(way, rows, arguments.batch))
    for way, measured in found.items():
        rates = [each for each, _ in measured]
        told = {"tokens_per_second": round(median(rates), 1), "rounds": [round(each, 1) for each in rates]}
        sys.stdout.write(json.dumps({"way": way, **told, "share_that_is_no_padding": round(measured[0][1], 3)}) + "\n")


if __name__ == "__main__":
    main()
