"""What a wide search costs the host, a sample: everything but the models.

    OMP_NUM_THREADS=1 python benchmarks/host.py                       # beam search, 64 beams, 40 rounds, 8 problems
    OMP_NUM_THREADS=1 python benchmarks/host.py --profile             # and which functions take it

On a GPU a small model is soon done, and what remains is Python: finding prefixes, tokenising, cutting steps, keeping trees.
So that it can be measured anywhere, the policy draws its tokens from a hash instead of a model and never ends a solution, and
the judge is a decoder of one narrow layer. Seconds are those of this process's CPU, the judge's forward passes apart.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from footfall.loading import load_tokenizer
from footfall.policy.decoding import Batch, EagerDecoder
from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.search import BeamSearch, Searcher
from footfall.types import Cost, Problem

Drawn = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def by_hash(letters: list[int], line_break: int) -> Callable[[EagerDecoder, Batch, int, SamplingParams], Drawn]:
    """Drawing without a model: a line break once in fourteen tokens, a letter otherwise."""
    choice = np.array(letters)

    def run(self: EagerDecoder, batch: Batch, rows: int, params: SamplingParams) -> Drawn:
        seeds, positions = batch.seeds[:rows].astype(np.uint64), batch.positions[:rows].astype(np.uint64)
        mixed = seeds + np.uint64(0x9E3779B97F4A7C15) * positions
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        letter = choice[(mixed >> np.uint64(8)) % np.uint64(len(choice))]
        tokens = np.where(mixed % np.uint64(14) == 0, line_break, letter)
        batch.tokens[:rows] = tokens
        batch.positions[:rows] += 1
        return tokens[:, None], np.full((rows, 1), -1.0, np.float32)

    return run


def narrow(vocabulary: int, seed: int) -> PreTrainedModel:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, max_position_embeddings=8192, tie_word_embeddings=False,
    )  # fmt: skip
    model: PreTrainedModel = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    model.train(False)
    return model


class Clocked:
    """A backbone whose passes are timed, so that they can be left out."""

    def __init__(self, model: PRM) -> None:
        self.seconds = 0.0
        model.backbone.register_forward_pre_hook(lambda *_: self._tick(-1))
        model.backbone.register_forward_hook(lambda *_: self._tick(1))

    def _tick(self, sign: int) -> None:
        self.seconds += sign * time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    tokenizer: Any = load_tokenizer(str(EMBEDDED))
    letters = {i for c in "abcdefghijklmnop" for i in tokenizer.encode(c, add_special_tokens=False)}
    line_break = tokenizer.encode("\n", add_special_tokens=False)[-1]
    EagerDecoder.run = by_hash(sorted(letters), line_break)  # type: ignore[method-assign, assignment]
    template = Template("plain", prompt_end="\n")
    policy = TorchPolicy(narrow(len(tokenizer), 0), tokenizer, label="hash", template=template, rows=1024)
    prm = PRM.from_backbone(narrow(len(tokenizer), 1), tokenizer, template=template, seed=1).eval()
    clock = Clocked(prm)
    judge = PRMJudge(prm, cache_tokens=1 << 20, compile=False, token_budget=16384)
    problems = [
        Problem(f"p{i}", f"Tom has {i} apples and buys {i + 3} more; how many?", "1") for i in range(args.problems)
    ]
    params = SamplingParams(seed=5, max_tokens=64)
    searcher = Searcher(policy, judge, BeamSearch(args.n, 4, iterations=args.iterations), params=params, separator="\n")
    profile, start = cProfile.Profile(), time.process_time()
    if args.profile:
        profile.enable()
    results = searcher.solve(problems)
    profile.disable()
    host = time.process_time() - start - clock.seconds
    cost = Cost.total(result.cost for result in results)
    samples = args.problems * args.n * args.iterations
    told = {
        "samples": samples, "generated": cost.generated_tokens, "host_seconds": host, "model_seconds": clock.seconds,
        "milliseconds_a_sample": 1000 * host / samples,
    }  # fmt: skip
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    if args.profile:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("cumtime").print_stats("footfall", 40)


if __name__ == "__main__":
    main()
