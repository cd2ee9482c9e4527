"""Labelled steps per second, and tokens per labelled step: ours against how peers do it, same policy, same rollouts, one run.

    python benchmarks/labelling.py                                             # embedded model on this CPU
    python benchmarks/labelling.py --model FOLDER_OR_GGUF [--plain] --device cuda [--compile]   # a real model

Both complete every prefix of every trace N times and count right answers. Peers take one trace at a time, and one prefix
after another: a call of transformers' `generate` with N return sequences, each of which reads the prefix again. Ours puts
all prefixes of all traces to the engine at once. Grading the answers is part of both.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from footfall.answers import grade
from footfall.label.monte_carlo import MonteCarlo
from footfall.loading import load_model
from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import Completion, SamplingParams, draw_traces
from footfall.policy.splitting import splitter_for
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template, encode
from footfall.types import Trajectory
from footfall.worlds import ArithmeticWorld


class Labelled(NamedTuple):
    """Labels of all traces, and what they took."""

    values: list[list[float | None]]
    seconds: float
    cpu_seconds: float
    """Of this process alone: on a machine that others use too, the fairer clock."""
    prefilled: int
    generated: int


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock, of this process on the CPU, and what the work returned."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, time.process_time() - cpu, result


def the_traces(policy: TorchPolicy, args: argparse.Namespace) -> list[Trajectory]:
    """One trace a problem, by the model itself."""
    world = ArithmeticWorld()
    prefixes = [world.prefix(problem) for problem in world.problems(args.traces, seed=11, split="test")]
    drawn = draw_traces(policy, prefixes, 1, SamplingParams(max_tokens=args.new_tokens, seed=3))
    return [trace for row in drawn for trace in row if trace.steps]


def ours(policy: TorchPolicy, traces: list[Trajectory], args: argparse.Namespace) -> Labelled:
    """One call for all traces; the prefix cache is emptied before."""
    judge = MonteCarlo(policy, args.rollouts, params=SamplingParams(max_tokens=args.new_tokens))
    best: Labelled | None = None
    for attempt in range(args.repeats + args.compile):
        policy.forget()
        seconds, cpu, said = timed(lambda: judge.judge(traces))
        cost = [judgement.cost for judgement in said]
        found = Labelled(
            [list(judgement.values) for judgement in said], seconds, cpu, sum(c.prompt_tokens for c in cost),
            sum(c.generated_tokens for c in cost),
        )  # fmt: skip
        warm = attempt or not args.compile  # the first call compiles
        if warm and (best is None or found.seconds < best.seconds):
            best = found
    assert best is not None
    return best


def peers(model: Any, policy: TorchPolicy, traces: list[Trajectory], args: argparse.Namespace) -> Labelled:
    """Trace by trace, prefix by prefix, through `generate`. `policy` lends its tokenizer and its way to cut steps."""
    eos = sorted(policy.engine.eos)
    counts = {"prefilled": 0, "generated": 0}

    def rollouts(prefix: Trajectory) -> float:
        ids = encode(policy.tokenizer, prefix, policy.template).ids
        with torch.inference_mode():
            out = model.generate(
                torch.tensor([ids], device=model.device), do_sample=True, top_k=0, top_p=1.0, temperature=1.0,
                num_return_sequences=args.rollouts, max_new_tokens=args.new_tokens, eos_token_id=eos, pad_token_id=0,
                attention_mask=torch.ones(1, len(ids), dtype=torch.long, device=model.device),
            )  # fmt: skip
        counts["prefilled"] += args.rollouts * len(ids)
        right = 0
        for row in out[:, len(ids) :].tolist():
            ends = [i for i, token in enumerate(row) if token in eos]
            counts["generated"] += ends[0] + 1 if ends else len(row)
            if not ends or not ends[0]:
                continue
            steps = splitter_for(policy.tokenizer, prefix.separator).split(row[: ends[0]], [0.0] * ends[0])
            done = Completion(steps, "end", tokenizer=policy.vocabulary)
            right += bool(grade(done.after(prefix, policy.name)).correct)
        return right / int(args.rollouts)

    def work() -> list[list[float | None]]:
        values: list[list[float | None]] = []
        for trace in traces:
            finished = trace.answer is not None or bool(trace.correct)
            sizes = range(1, len(trace.steps) - finished + 1)
            outcome: list[float | None] = [float(bool(trace.correct))] if finished else []
            values.append([*(rollouts(trace.prefix(k)) for k in sizes), *outcome])
        return values

    torch.manual_seed(0)
    seconds, cpu, values = timed(work)
    return Labelled(values, seconds, cpu, counts["prefilled"], counts["generated"])


def told(labelled: Labelled) -> dict[str, float]:
    steps = sum(len(row) for row in labelled.values)
    return {
        "steps": steps, "seconds": labelled.seconds, "cpu_seconds": labelled.cpu_seconds,
        "steps_per_second": steps / labelled.seconds, "steps_per_cpu_second": steps / labelled.cpu_seconds,
        "generated_per_step": labelled.generated / steps, "prefilled_per_step": labelled.prefilled / steps,
        "tokens_per_step": (labelled.generated + labelled.prefilled) / steps,
        "mean_label": sum(v or 0.0 for row in labelled.values for v in row) / steps,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=EMBEDDED, help="a folder or a GGUF file")
    parser.add_argument(
        "--plain", action="store_true", help="prompt, line break, steps: a model tuned without chat turns"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--traces", type=int, default=64)
    parser.add_argument("--peer-traces", type=int, help="peers label only so many of them; rates are compared a step")
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=200, help="at most, a rollout")
    parser.add_argument("--rows", type=int, help="sequences that the engine advances at once")
    parser.add_argument("--repeats", type=int, default=2, help="of ours; the fastest counts")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    model, tokenizer = load_model(args.model, args.device)
    plain = copy.deepcopy(model)
    template = Template("plain", prompt_end="\n") if args.plain else None
    policy = TorchPolicy(
        model, tokenizer, label=args.model.stem, template=template, rows=args.rows, compile=args.compile
    )
    traces = the_traces(policy, args)
    mine = ours(policy, traces, args)
    theirs = peers(plain, policy, traces[: args.peer_traces], args)
    fast, slow = told(mine), told(theirs)
    pairs = [(a, b) for x, y in zip(mine.values, theirs.values, strict=False) for a, b in zip(x, y, strict=True)]
    result = {
        "traces": len(traces), "rollouts": args.rollouts, "ours": fast, "peers": slow,
        "times_the_steps_per_second": fast["steps_per_second"] / slow["steps_per_second"],
        "times_the_steps_per_cpu_second": fast["steps_per_cpu_second"] / slow["steps_per_cpu_second"],
        "mean_difference_of_labels": sum((a or 0.0) - (b or 0.0) for a, b in pairs) / len(pairs),
        "mean_absolute_difference_of_labels": sum(abs((a or 0.0) - (b or 0.0)) for a, b in pairs) / len(pairs),
        "times_fewer_tokens": slow["tokens_per_step"] / fast["tokens_per_step"],
        "device": torch.cuda.get_device_name() if args.device.startswith("cuda") else "cpu",
        "threads": torch.get_num_threads(), "model": args.model.stem, "compile": args.compile,
    }  # fmt: skip
    text = json.dumps(result, indent=2)
    if args.out:
        args.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
