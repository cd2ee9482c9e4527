"""Options of the stages of `scripts/loop.py`, and of scripts that go on from it, with the bounds of their numbers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from footfall.reward.shipped import CODER
from scripts import loop_data as data
from scripts.numbers import COUNT, RATE, SHARE, number


def source(text: str) -> str:
    """The name of rows, perhaps with how many of them: NAME:COUNT."""
    _, colon, count = text.partition(":")
    if colon:
        COUNT(count)
    return text


def options(stages: Iterable[str], told: str | None) -> argparse.ArgumentParser:
    """What the stages of this script, or of one that goes on from it, are told by."""
    parser = argparse.ArgumentParser(
        description=told, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("stage", choices=list(stages))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--data", type=Path, help="folder with gsm8k, math, prm800k, mr_ben, best_of_n and the benchmarks"
    )
    parser.add_argument("--model", help="folder, hub id or GGUF file of the policy, which is also the PRMs' backbone")
    parser.add_argument("--device")
    parser.add_argument("--seed", type=number(0, 2**63 - 1), default=0)
    parser.add_argument("--sets", nargs="+", choices=data.FILES, default=["gsm8k-train", "math-train"])
    parser.add_argument("--problems", type=COUNT, help="of each set; default: all")
    parser.add_argument(
        "--skip", type=number(0), default=0, help="problems of each set that are left out, the first ones"
    )
    parser.add_argument("--more", action="store_true", help="put the samples beside those that are there")
    parser.add_argument(
        "--first", type=COUNT, help="candidates of each problem in a pool that are scored; default: all"
    )
    parser.add_argument("--few", action="store_true", help="score the pools that the stage few left")
    parser.add_argument("--n", type=COUNT, default=4, help="solutions a problem; of a search, its width")
    parser.add_argument("--max-tokens", type=COUNT, default=768)
    parser.add_argument("--chunk", type=COUNT, default=512, help="problems or traces between two savings")
    parser.add_argument(
        "--at-once",
        type=COUNT,
        help="sequences that the policy writes side by side; default: 1,024 on CUDA, 512 elsewhere",
    )
    parser.add_argument("--method", default="monte-carlo")
    parser.add_argument("--traces", type=COUNT, help="of each set to label; default: all")
    parser.add_argument("--rollouts", type=COUNT, help="default: the method's own")
    parser.add_argument("--name", default="prm")
    parser.add_argument(
        "--rows", nargs="+", type=source, default=["monte-carlo"], help="NAME, or NAME:COUNT for so many of its rows"
    )
    parser.add_argument(
        "--budget", type=number(1, 10**15), help="tokens that may have been generated for the labels of each method"
    )
    parser.add_argument("--against", nargs="+", choices=data.EVALUATED, default=list(data.EVALUATED))
    parser.add_argument("--hard", action="store_true", help="labels made hard: right above --hard-at")
    parser.add_argument("--hard-at", type=SHARE, default=0.0)
    parser.add_argument(
        "--full", action="store_true", help="train all linear layers; kept is the nearest adapter of --rank"
    )
    parser.add_argument("--rank", type=COUNT, default=16)
    parser.add_argument("--lr", type=RATE, help="default: 1e-4, or 2e-5 with --full")
    parser.add_argument("--head-lr", type=RATE, default=5e-5)
    parser.add_argument("--epochs", type=COUNT, default=1)
    parser.add_argument("--batch", type=COUNT, default=16, help="traces a forward pass")
    parser.add_argument("--accumulation", type=COUNT, default=4)
    parser.add_argument("--max-length", type=COUNT, default=1024)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--on", nargs="+", choices=data.EVALUATED, default=["processbench"])
    parser.add_argument("--every", type=COUNT, default=1, help="every so-manieth case of a benchmark")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument(
        "--compile", action="store_true", help="compile the PRM that scores: pays on CUDA from millions of tokens"
    )
    parser.add_argument("--methods", nargs="+", default=["majority", "best-of-n", "beam-search"])
    parser.add_argument(
        "--truth", nargs="+", type=SHARE, default=[], help="shares of the truth in the judge of a search"
    )
    parser.add_argument("--oracle", type=COUNT, default=4, help="rollouts of each prefix that are its truth")
    parser.add_argument("--to", type=Path, default=CODER, help="folder that ships")
    parser.add_argument(
        "--hub", default="Qwen/Qwen2.5-Coder-1.5B-Instruct", help="hub id of the base, for who names none"
    )
    parser.add_argument(
        "--pools", type=number(0), default=20000, help="rows of the pools that a published PRM has scored"
    )
    parser.add_argument(
        "--gsm8k", type=number(0), default=4000, help="rows from GSM8K, half of them with a wrong result"
    )
    parser.add_argument("--math", type=number(0), default=4000, help="rows from MATH, half of them with a wrong result")
    return parser
