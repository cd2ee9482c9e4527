"""Beam search with prefix reuse in policy and judge, against the same search with every prefix re-read: tokens and time.

    python benchmarks/search.py                                                              # embedded model on this CPU
    python benchmarks/search.py --model FOLDER_OR_GGUF [--plain] --device cuda [--compile]   # a real model
    … --questions FILE --judge FOLDER                                         # on problems of its own, with its own PRM

Both sides run the same method on the same problems with the same weights and draw with the same random numbers, so they
must choose the same solutions; that is checked (on CUDA only counted: sums in another order may draw another token).
Peers' side is how search is mostly written: each iteration puts the whole text of every beam into a batch of
transformers' own forward passes and its own cache, which is thrown away after the step, and the judge reads every trace
from its first token. It gets batches over all problems too, and the same splitting into steps.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from footfall.formats import read_problems
from footfall.loading import load_model
from footfall.policy.drawing import draw, uniform
from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import Completion, Policy, Run, SamplingParams, sample_runs, sample_seed
from footfall.policy.splitting import splitter_for
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template, encode
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.search import BeamSearch, Searcher
from footfall.types import Cost, Judge, Judgement, Problem, SearchResult, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge


class Side(NamedTuple):
    """One way to search, and what it took."""

    results: list[SearchResult]
    seconds: float
    cpu_seconds: float
    """Of this process alone: on a machine that others use too, the fairer clock."""
    writing: float
    judging: float


@dataclass
class Clock:
    """Adds up the seconds of what runs under it."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        _settle()
        start = time.perf_counter()
        yield
        _settle()
        self.seconds += time.perf_counter() - start


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@dataclass
class Timed:
    """A policy or judge under a clock."""

    inner: Any
    clock: Clock = field(default_factory=Clock)

    @property
    def name(self) -> str:
        return str(self.inner.name)

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return self.sample_runs([Run(prefix, n, first) for prefix in prefixes], params)

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        with self.clock.running():
            return sample_runs(self.inner, runs, params)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        with self.clock.running():
            said: list[Judgement] = self.inner.judge(trajectories)
        return said


class Rereading:
    """A policy that reads all of every prefix for every sample, in batches of `rows`, with transformers' own cache."""

    def __init__(self, model: PreTrainedModel, like: TorchPolicy, rows: int) -> None:
        self.model: Any = model
        self.like, self.rows = like, rows
        self.name = like.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return self.sample_runs([Run(prefix, n, first) for prefix in prefixes], params)

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        """In order of length, so that a batch has little padding."""
        asked = [(run.prefix, index) for run in runs for index in run.indices]
        ids = [encode(self.like.tokenizer, prefix, self.like.template).ids for prefix, _ in asked]
        order = sorted(range(len(asked)), key=lambda i: len(ids[i]))
        found: dict[int, Completion] = {}
        for at in range(0, len(order), self.rows):
            part = order[at : at + self.rows]
            seeds = [sample_seed(params, *asked[i]) for i in part]
            written = self._write([ids[i] for i in part], seeds, params, asked[part[0]][0].separator)
            for i, tokens in zip(part, written, strict=True):
                found[i] = self._completion(tokens, len(ids[i]), asked[i], params)
        done = iter(found[i] for i in range(len(asked)))
        return [[next(done) for _ in run.indices] for run in runs]

    @torch.inference_mode()
    def _write(
        self, ids: list[tuple[int, ...]], seeds: list[int], params: SamplingParams, separator: str
    ) -> list[list[int]]:
        """Prefill padded on the left, then a token at a time until every row is done."""
        splitter, eos = splitter_for(self.like.tokenizer, separator), self.like.engine.eos
        device, width = self.model.device, max(map(len, ids))
        pads = torch.tensor([width - len(row) for row in ids], device=device)
        tokens = torch.tensor([[0] * (width - len(row)) + list(row) for row in ids], device=device)
        mask = (torch.arange(width, device=device) >= pads[:, None]).long()
        positions = (torch.arange(width, device=device) - pads[:, None]).clamp(min=0)
        seeds_N, cache = torch.tensor(seeds, device=device), DynamicCache()
        written: list[list[int]] = [[] for _ in ids]
        live = set(range(len(ids)))
        while live:
            logits = self.model(
                input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]  # fmt: skip
            drawn = draw(logits, uniform(seeds_N, positions[:, -1]), params).tokens_N
            for row, token in enumerate(drawn.tolist()):
                if row in live:
                    written[row].append(token)
                    step = params.until == "step" and token in splitter.closing and splitter.closes_step(written[row])
                    if token in eos or step or len(written[row]) >= params.max_tokens:
                        live.discard(row)
            tokens, positions = drawn[:, None], positions[:, -1:] + 1
            mask = torch.cat([mask, mask.new_ones(len(ids), 1)], dim=1)
        return written

    def _completion(
        self, tokens: list[int], read: int, asked: tuple[Trajectory, int], params: SamplingParams
    ) -> Completion:
        splitter = splitter_for(self.like.tokenizer, asked[0].separator)
        ended = tokens[-1] in self.like.engine.eos
        kept = tokens[:-1] if ended else tokens
        cut = len(tokens) >= params.max_tokens and (params.until == "end" or not splitter.closes_step(tokens))
        steps = splitter.split(kept, [0.0] * len(kept)) if kept else ()
        cost = Cost(prompt_tokens=read, generated_tokens=len(tokens), calls=1)
        return Completion(
            steps, "end" if ended else "length" if cut else "step", asked[1], self.like.vocabulary, cost=cost
        )


def the_model(args: argparse.Namespace) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return load_model(args.model, args.device, getattr(torch, args.dtype))


def the_problems(args: argparse.Namespace) -> list[Problem]:
    if args.questions is None:
        return ArithmeticWorld().problems(args.problems, seed=11, split="test")
    return spaced(read_problems(args.questions), args.problems)


def spaced(problems: list[Problem], n: int) -> list[Problem]:
    """`n` of them, evenly: a file may hold one set after another."""
    return [problems[i * len(problems) // n] for i in range(n)] if n < len(problems) else problems


def the_prm(policy: TorchPolicy, model: PreTrainedModel, args: argparse.Namespace) -> PRM:
    """A trained one, or the policy's own weights with a head that was fitted to the truth of scripted traces."""
    if args.judge is not None:
        return PRM.load(args.judge, device=args.device, dtype=getattr(torch, args.dtype))
    made = PRM.from_backbone(copy.deepcopy(model), policy.tokenizer, template=policy.template, seed=1).eval()
    head: Any = made.head
    with torch.inference_mode():
        weight, bias = _fitted(made)
    head.weight.data, head.bias.data = weight.clone().to(head.weight), bias.clone().to(head.bias)
    return made


def _fitted(prm: PRM) -> tuple[torch.Tensor, torch.Tensor]:
    """Ridge regression of right (+2) and wrong (-2) on the hidden state where a step ends: a PRM in a second."""
    traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 200, seed=4)]
    rows, wanted = [], []
    for trace, said in zip(traces, TruthJudge().judge(traces), strict=True):
        reading = prm.read(trace)
        ids = torch.tensor([reading.ids], device=prm.device)
        rows.append(prm.backbone(input_ids=ids, use_cache=False).last_hidden_state[0, list(reading.positions)])
        wanted += [4.0 * (value or 0.0) - 2.0 for value in said.values]
    x = torch.cat(rows).double()
    x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    y = torch.tensor(wanted, device=x.device).double()
    found = torch.linalg.solve(x.T @ x + torch.eye(x.shape[1], device=x.device), x.T @ y).float()
    return found[None, :-1], found[-1:]


def searched(policy: Policy, judge: Judge, problems: Sequence[Problem], args: argparse.Namespace) -> Side:
    """The search, with clocks on both sides of it."""
    writer, reader = Timed(policy), Timed(judge)
    method = BeamSearch(args.n, args.expansions, iterations=args.iterations)
    params = SamplingParams(seed=5, max_tokens=args.new_tokens)
    searcher = Searcher(writer, reader, method, params=params, separator="\n")
    _settle()
    start, cpu = time.perf_counter(), time.process_time()
    results = searcher.solve(problems)
    _settle()
    return Side(
        results, time.perf_counter() - start, time.process_time() - cpu, writer.clock.seconds, reader.clock.seconds
    )


def told(side: Side) -> dict[str, float]:
    policy = Cost.total(r.policy_cost for r in side.results)
    judge = Cost.total(r.judge_cost for r in side.results)
    return {
        "prefilled_tokens": policy.prompt_tokens + judge.scored_tokens, "read_by_policy": policy.prompt_tokens,
        "read_by_judge": judge.scored_tokens, "generated": policy.generated_tokens, "seconds": side.seconds,
        "cpu_seconds": side.cpu_seconds, "seconds_writing": side.writing, "seconds_judging": side.judging,
        "accuracy": sum(bool(r.chosen and r.chosen.correct) for r in side.results) / len(side.results),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=EMBEDDED, help="a folder or a GGUF file")
    parser.add_argument(
        "--plain", action="store_true", help="prompt, line break, steps: a model tuned without chat turns"
    )
    parser.add_argument("--questions", type=Path, help="a file of problems instead of the arithmetic world's")
    parser.add_argument("--judge", type=Path, help="a folder with a step head instead of one fitted on the spot")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--dtype", choices=["float64", "float32", "bfloat16"], default="float32", help="rounding makes other draws"
    )
    parser.add_argument("--compile", action="store_true", help="our decoding, on CUDA")
    parser.add_argument("--problems", type=int, default=64)
    parser.add_argument("--n", type=int, default=16)
    parser.add_argument("--expansions", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--new-tokens", type=int, default=64, help="at most, a step")
    parser.add_argument("--rows", type=int, help="sequences that decode together, on either side")
    parser.add_argument("--repeats", type=int, default=1, help="of both sides; the fastest counts")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    model, tokenizer = the_model(args)
    plain = copy.deepcopy(model)
    rows = args.rows or (1024 if args.device.startswith("cuda") else 256)
    template = Template("plain", prompt_end="\n") if args.plain else None
    policy = TorchPolicy(model, tokenizer, label=args.model.stem, template=template, rows=rows, compile=args.compile)
    prm = the_prm(policy, plain, args)
    reader, rereader = (PRMJudge(prm, cache_tokens=tokens, compile=False) for tokens in (1 << 19, 0))
    problems = the_problems(args)
    if args.device.startswith("cuda"):  # kernels are loaded, and graphs and compiled code made, before the clock starts
        searched(policy, reader, problems, args)
        searched(Rereading(plain, policy, rows), rereader, problems[:8], args)
    sides: list[tuple[Side, Side]] = []
    for _ in range(args.repeats):
        policy.forget()
        reader.forget()
        mine = searched(policy, reader, problems, args)
        sides.append((mine, searched(Rereading(plain, policy, rows), rereader, problems, args)))
    ours, theirs = (min(found, key=lambda side: side.seconds) for found in zip(*sides, strict=True))
    pairs = list(zip(ours.results, theirs.results, strict=True))
    same = sum(x.chosen is not None and y.chosen is not None and x.chosen.text == y.chosen.text for x, y in pairs)
    if failed := [r for side in (ours, theirs) for r in side.results if any(d.what == "failed" for d in r.decisions)]:
        raise SystemExit(f"{len(failed)} searches failed, e.g. {failed[0].failure}")
    fast, slow = told(ours), told(theirs)
    result = {
        "problems": len(problems), "n": args.n, "expansions": args.expansions, "ours": fast, "rereading": slow,
        "times_fewer_prefilled_tokens": slow["prefilled_tokens"] / fast["prefilled_tokens"],
        "times_faster": slow["seconds"] / fast["seconds"],
        "times_fewer_cpu_seconds": slow["cpu_seconds"] / fast["cpu_seconds"],
        "same_solutions": same, "same_answers": sum(x.answer == y.answer for x, y in pairs),
        "device": torch.cuda.get_device_name() if args.device.startswith("cuda") else "cpu",
        "threads": torch.get_num_threads(), "model": args.model.stem, "dtype": args.dtype, "compile": args.compile,
    }  # fmt: skip
    text = json.dumps(result, indent=2)
    if args.out:
        args.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")
    if args.device == "cpu" and args.dtype == "float32" and result["same_answers"] != len(problems):
        raise SystemExit("the two sides give different answers")


if __name__ == "__main__":
    main()
