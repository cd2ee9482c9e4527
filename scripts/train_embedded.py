"""Train the embedded model: a Llama of about a million parameters that writes traces of the arithmetic world.

It imitates the world's scripted policy, slips and misreadings included, so at temperature 1 it solves about half of the
held-out problems, and its errors are of the kinds that real models make. A third of the problems end in "Check each
step.": there the writer it imitates catches nine errors in ten and corrects them, so that the model has learned to proofread
when it is asked to, as an instruction-tuned model has. The shipped weights took 266 s on an NVIDIA H200:

    python scripts/train_embedded.py --out src/footfall/models/embedded
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from footfall.answers import grade
from footfall.policy.embedded import CHECKING
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template
from footfall.store.processes import worker_processes
from footfall.types import Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

BEGIN, END, PAD = "<s>", "</s>", "<pad>"
Pair = tuple[str, str]


def texts(n: int, seed: int) -> list[Pair]:
    """Problem text and solution text of `n` traces by the scripted policy, a third of them by its careful sister."""
    world, plain = ArithmeticWorld(), Template()
    careful = n // 3
    written = [
        (plain, ArithmeticPolicy(), n - careful, 2 * seed),
        (CHECKING, ArithmeticPolicy(recover=0.9), careful, 2 * seed + 1),
    ]
    return [
        (problem.text + template.prompt_end, trace.text)
        for template, policy, count, own_seed in written
        for problem, trace in world.traces(policy, count, own_seed)
    ]


def corpus(n: int, seed: int, workers: int, chunk: int = 10_000) -> list[Pair]:
    jobs = [(chunk, seed * 100_003 + i) for i in range(-(-n // chunk))]
    with worker_processes(workers, lambda: "the corpus", "pass fewer --workers") as pool:
        return [pair for part in pool.map(texts, *zip(*jobs, strict=True)) for pair in part][:n]


def make_tokenizer(pairs: list[Pair], vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE that reads digits one by one and lines apart, so any text survives the round trip."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(("".join(pair) for pair in pairs[:40_000]), trainer)
    make: Any = PreTrainedTokenizerFast
    made: PreTrainedTokenizerFast = make(tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, pad_token=PAD)
    return made


def make_model(tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int) -> LlamaForCausalLM:
    make: Any = LlamaForCausalLM
    model: LlamaForCausalLM = make(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=hidden * 8 // 3 // 32 * 32,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 32,
            num_key_value_heads=1,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    return model


def batches(
    pairs: list[Pair], tokenizer: PreTrainedTokenizerFast, size: int, rng: np.random.Generator
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Padded ids and labels for ever; only the solution is to be predicted."""
    begin, end, pad = (tokenizer.convert_tokens_to_ids(t) for t in (BEGIN, END, PAD))
    prompts = tokenizer([p for p, _ in pairs], add_special_tokens=False)["input_ids"]
    solutions = tokenizer([s for _, s in pairs], add_special_tokens=False)["input_ids"]
    lengths = np.array([len(p) + len(s) + 2 for p, s in zip(prompts, solutions, strict=True)])
    while True:
        # Sorting within a few batches keeps padding small and the order random.
        order = rng.permutation(len(pairs))
        for window in np.array_split(order, max(1, len(order) // (size * 16))):
            window = window[np.argsort(lengths[window], kind="stable")]
            groups = [window[i : i + size] for i in range(0, len(window) - size + 1, size)]
            for group in rng.permutation(len(groups)):
                width = int(lengths[groups[group]].max())
                ids = np.full((size, width), pad)
                labels = np.full((size, width), -100)
                for row, i in enumerate(groups[group]):
                    whole = [begin, *prompts[i], *solutions[i], end]
                    ids[row, : len(whole)] = whole
                    labels[row, 1 + len(prompts[i]) : len(whole)] = whole[1 + len(prompts[i]) :]
                yield torch.from_numpy(ids), torch.from_numpy(labels)


def train(model: Any, data: Iterator[tuple[torch.Tensor, torch.Tensor]], steps: int, peak: float) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.05)
    start = time.time()
    for step in range(steps):
        warm, decay = min(1.0, (step + 1) / 200), 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = peak * warm * max(decay, 0.02)
        ids, labels = (t.to(device, non_blocking=True) for t in next(data))
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0 or step == steps - 1:
            sys.stderr.write(f"step {step} loss {loss.item():.4f} {time.time() - start:.0f}s\n")


def solved(folder: Path, template: Template, problems: int = 500, samples: int = 4, seed: int = 1) -> float:
    """Share of held-out problems solved at temperature 1."""
    policy = TorchPolicy.load(folder, label="embedded", template=template)
    prefixes = [Trajectory(p.id, p, separator="\n") for p in ArithmeticWorld().problems(problems, seed, split="test")]
    completions = policy.sample(prefixes, samples, SamplingParams(max_tokens=256))
    verdicts = [
        bool(grade(c.after(prefix, policy.name)).correct)
        for prefix, group in zip(prefixes, completions, strict=True)
        for c in group
    ]
    return float(np.mean(verdicts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--traces", type=int, default=400_000)
    parser.add_argument("--steps", type=int, default=7000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=512)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    pairs = corpus(args.traces, args.seed, args.workers)
    sys.stderr.write(f"{len(pairs)} traces, for example:\n{''.join(pairs[0])}\n")
    tokenizer = make_tokenizer(pairs, args.vocab)
    model: Any = make_model(tokenizer, args.hidden, args.layers)
    train(model, batches(pairs, tokenizer, args.batch, np.random.default_rng(args.seed)), args.steps, args.lr)
    model.half().save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    facts = {
        "parameters": model.num_parameters(),
        "solved_at_temperature_1": solved(args.out, Template()),
        "solved_when_asked_to_check": solved(args.out, CHECKING),
        "arguments": {**vars(args), "out": None},
    }
    (args.out / "training.json").write_text(json.dumps(facts, indent=2) + "\n")
    sys.stdout.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
