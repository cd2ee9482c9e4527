"""The whole loop on a real model: sample, label, train PRMs, score benchmarks and pools, compare, search.

    prepare   problems, rows with human and distilled labels, and a held-out part of them; no model is needed
    sample    solutions to the problems of --sets, --n each; with --more, beside those that are there
    label     steps of these solutions, by --method: monte-carlo, omegaprm, consensus-filter (the policy as its own critic), …
    train     a PRM called --name on --rows: labels (monte-carlo, …), outcome (of the samples), and sources (prm800k mr-ben
              eic-math gold injected distilled); with --budget, labels that cost so many generated tokens
    score     with the PRM --name: --on processbench, prmbench, and pools of samples of gsm8k-test and math-500; with --few
              of the pools what the stage few left
    few       the --first candidates of --problems problems of the pools of --sets, into few/: PRMs are compared on these, and
              they are small enough to travel with their texts
    thin      pools of --sets without their texts, into thin/: small enough to travel, and all that evaluate reads
    evaluate  all scores there are: first-error F1 by split, votes against the majority's, labels by cost; no model is needed
    ship      the PRM --name into the package, as an adapter on --hub, with its model card; no model is needed
    search    problems of --sets with the PRM --name: --methods at --n; with --truth, the PRM mixed with the truth

    python -m scripts.loop prepare --data DATA --out runs/loop
    python -m scripts.loop sample --model model.gguf --sets gsm8k-train math-train --n 4 --problems 1000 --out runs/loop

Each stage reads what earlier ones left in --out and goes on where it was stopped. All that is kept is small (traces, labels,
adapters, scores), so a stage can be run on another machine with the model file and a copy of the folder; folders `*.run`
there are for going on only. A PRM is not measured on a step benchmark that its training rows were not held against, and in a
pool not on problems that they are about.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from footfall.benchmarks.runner import Benchmark
from footfall.cli import main as footfall
from footfall.damaged import naming
from footfall.drive.rollouts import RolloutCache
from footfall.formats import read_parquet, read_problems, write_parquet
from footfall.loading import load_model
from footfall.metrics.intervals import bootstrap_mean
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import torch_policy
from footfall.registry import create
from footfall.render import Template
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.reward.shipped import export_adapter, export_difference, finish_export, load_shipped, sketch
from footfall.search import Searcher
from footfall.terminal import visible
from footfall.train import TrainConfig, train_prm
from footfall.types import Cost, Judge, Judged, Trajectory
from scripts import loop_data as data
from scripts import loop_measure
from scripts.loop_files import keep, keep_lines, kept, scores_of, search_file, tell
from scripts.loop_options import options
from scripts.loop_rows import lessons_of
from scripts.loop_ship import ship
from scripts.loop_truth import MixedWithTruth
from scripts.train_smol import fresh_model, sanity_thresholds, trained_facts, validate

PROMPT = "Please reason step by step, separate the steps by blank lines, and put your final answer within \\boxed{}."
READ = Template("plain", prompt_end="\n\n")
"""How a PRM reads: the problem, a blank line, and the steps with a blank line after each."""
ROUND = 16
"""Candidates of each problem that are scored between two savings: what is there is a whole pool, if a smaller one."""


def prepare(args: argparse.Namespace) -> None:
    texts = data.evaluation_texts(args.data)
    keep(args.out / "evaluation.json", texts)
    against = data.evaluation_problems(texts, data.EVALUATED)
    facts: dict[str, Any] = {"seed": args.seed}
    for name in data.FILES:
        found = data.problems_of(args.data, name)
        kept = found if name in data.EVALUATED else data.clean_problems(found, against)
        lines = [{"id": p.id, "problem": p.text, "answer": p.answer} for p in kept]
        file = args.out / "problems" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        facts[name] = {"problems": len(kept), "dropped, measured on": len(found) - len(kept)}
    found_rows = data.sources(args.data, args.pools, args.gsm8k, args.math, args.seed)
    facts |= data.write_rows(found_rows, texts, args.out / "rows", args.seed)
    keep(args.out / "prepare.json", facts)


def drawing(args: argparse.Namespace) -> list[str]:
    """How the policy is named and drawn from, as footfall's commands take it."""
    device = [] if args.device is None else ["--device", args.device]
    rows = "" if args.at_once is None else f",rows={args.at_once}"
    return [
        "--policy", f"{args.model}{rows}", "--system", PROMPT, "--temperature", "0.8", "--max-tokens", str(args.max_tokens),
        "--seed", str(args.seed), *device,
    ]  # fmt: skip


def command(*words: str) -> None:
    if footfall(list(words)) != 0:
        raise SystemExit(f"footfall {words[0]} came to nothing")


def sample(args: argparse.Namespace) -> None:
    for name in args.sets:
        found = args.out / "problems" / f"{name}.jsonl"
        with naming(found):
            lines = found.read_text(encoding="utf-8").splitlines()[args.skip :]
        mark = f"-{args.skip}-{args.seed}" if args.more else ""
        run = args.out / f"sample-{name}{mark}.run"
        problems = args.out / f"sample-{name}{mark}.jsonl"
        problems.write_text("\n".join(lines[: args.problems]) + "\n", encoding="utf-8")
        own = ["--problems", str(problems), "--n", str(args.n), "--chunk", str(args.chunk), "--out", str(run)]
        command("sample", *own, *drawing(args))
        drawn: list[Trajectory] = read_parquet(run / "trajectories.parquet", "trajectory")
        file, traces = args.out / f"sample-{name}.parquet", list(map(without_logprobs, drawn))
        if args.more:
            traces = data.together(read_parquet(file, "trajectory"), traces, f"seed {args.seed}")
        write_parquet(file, traces, "trajectory")


def without_logprobs(trace: Trajectory) -> Trajectory:
    """They are half of a file that has to travel, and no later stage reads them."""
    return replace(trace, steps=tuple(replace(step, logprobs=None) for step in trace.steps))


def label(args: argparse.Namespace) -> None:
    for name in args.sets:
        traces: list[Trajectory] = read_parquet(args.out / f"sample-{name}.parquet", "trajectory")
        distinct = {trace.key: trace for trace in traces if "finish" not in trace.meta}
        chosen = data.spread(list(distinct.values()))[: args.traces]
        called = f"{args.method}-{name}"
        given, run = args.out / f"to-label-{called}.parquet", args.out / f"label-{called}.run"
        write_parquet(given, chosen, "trajectory")
        own = ["--method", args.method, "--data", str(given), "--store", "none", "--chunk", str(args.chunk)]
        rollouts = [] if args.rollouts is None else ["--rollouts", str(args.rollouts)]
        command("label", *own, *rollouts, "--out", str(run), *drawing(args))
        rows: list[Judged] = read_parquet(run / "judged.parquet", "judged")
        small = [row._replace(trajectory=without_logprobs(row.trajectory)) for row in rows]
        write_parquet(args.out / f"label-{called}.parquet", small, "judged")


def train(args: argparse.Namespace) -> None:
    rows, held, given = lessons_of(args)
    config = TrainConfig(
        objective="bce" if args.hard else "soft-bce", objective_options={"threshold": args.hard_at} if args.hard else {},
        template=READ, lr=args.lr or (2e-5 if args.full else 1e-4), head_lr=args.head_lr, epochs=args.epochs, warmup=0.1,
        batch_size=args.batch, accumulation=args.accumulation, seed=args.seed, lora_rank=None if args.full else args.rank,
        max_length=args.max_length, too_long="drop", gradient_checkpointing=args.checkpointing, device=args.device,
    )  # fmt: skip
    folder, named = args.out / f"prm-{args.name}", Path(args.model).name
    started = time.monotonic()
    # In full, only what an adapter can carry is trained: the linear layers.
    begun = fresh_model(args.model, config, named) if args.full else args.model
    result = train_prm(
        rows, begun, config, args.out / f"prm-{args.name}.run", held_out=held,
        progress=lambda done, total: tell(f"update {done} of {total}") if done % 20 == 0 else None,
    )  # fmt: skip
    tell(f"trained and measured, {time.monotonic() - started:.0f} s")
    base, tokenizer = load_model(args.model, args.device, torch.float32)
    kept, of_base = 1.0, sketch(base.base_model)
    if args.full:
        tuned = PRM.load(result.folder, device=args.device, dtype=torch.float32, check=False)
        kept = export_difference(tuned.backbone, base.base_model, result.folder, folder, named, args.rank)
    else:
        export_adapter(result.folder, folder, named, base.config.max_position_embeddings)
    model = load_shipped(folder, base.base_model, tokenizer, device=args.device, dtype=torch.float32, check=False)
    tell(f"the adapter is written, {time.monotonic() - started:.0f} s")
    chosen = validate(PRMJudge(model, too_long="partial", compile=False), held, args.seed)
    tell(f"the threshold is chosen, {time.monotonic() - started:.0f} s")
    torch.set_float32_matmul_precision("highest")
    # The canary is taken on the CPU, where float32 is the same everywhere.
    finish_export(folder, model.cpu(), {"threshold": chosen.threshold, "base": [*of_base], "base_name": named})
    keep(folder / "facts.json", {
        **given, "config": config.to_dict(), **trained_facts(result),
        "kept in the adapter": kept, "validation": chosen._asdict(),
        "thresholds of sanity judges": sanity_thresholds(held, args.seed),
        "seconds": round(time.monotonic() - started, 1),
    })  # fmt: skip


def open_prm(args: argparse.Namespace, cache_tokens: int = 0) -> PRMJudge:
    base, tokenizer = load_model(args.model, args.device, torch.float32)
    torch.set_float32_matmul_precision("highest")  # for the canary
    model = load_shipped(
        args.out / f"prm-{args.name}", base.base_model, tokenizer, device=args.device, dtype=getattr(torch, args.dtype),
        check=args.dtype == "float32",
    )  # fmt: skip
    torch.set_float32_matmul_precision("high")
    return PRMJudge(model, too_long="partial", compile=args.compile, cache_tokens=cache_tokens)


def score(args: argparse.Namespace, opened: Callable[[argparse.Namespace], Judge] = open_prm) -> None:
    """By the judge that `opened` gives, once it is clear that it may be measured there."""
    source = args.out / f"prm-{args.name}" / "facts.json"
    facts = kept(source, against=list)
    with naming(source):
        seen = {name: list(ids) for name, ids in facts.get("seen", {}).items()}
    trained_on = [name for name in args.on if name not in facts["against"] and name not in seen]
    if trained_on:
        raise SystemExit(f"{args.name} may have seen problems of {trained_on[0]}: it is not measured there")
    judge = opened(args)
    for name in args.on:
        file = args.out / f"scores-{args.name}-{name}.jsonl.gz"
        known = scores_of(file) if file.is_file() else {}
        if name in data.STEPS:
            benchmark: Benchmark = create("benchmark", name, data=args.data / name)
            rounds = [[(case.split, case.trajectory) for case in benchmark.cases[:: args.every]]]
        else:
            ids = [problem.id for problem in read_problems(args.out / "problems" / f"{name}.jsonl")]
            wanted = set(ids[: args.problems]) - set(seen.get(name, ()))
            pool = pool_of(args, name, "few" if args.few else "")
            own = [trace for trace in pool if trace.problem.id in wanted]
            rounds = [[(name, trace) for trace in part] for part in data.in_rounds(own, ROUND, args.first)]
        # Samples that were drawn anew have the ids of the ones before.
        for split, trace in (each for part in rounds for each in part):
            if len(scores := known.get((split, trace.id), trace.steps)) != len(trace.steps):
                told = f"{trace.id} has {len(scores)} scores and {len(trace.steps)} steps"
                raise ValueError(f"{file}: {told}: they are of other samples; remove the file")
        for part in rounds:
            started = time.monotonic()
            new = [(split, trace) for split, trace in part if (split, trace.id) not in known]
            if not new:
                continue
            said = judge.judge([trace for _, trace in new])
            for (split, trace), judgement in zip(new, said, strict=True):
                known[split, trace.id] = [None if v is None else round(v, 6) for v in judgement.values]
            keep_lines(file, [{"id": id, "split": split, "scores": scores} for (split, id), scores in known.items()])
            tokens = sum(j.cost.scored_tokens for j in said)
            tell(f"{name}: {len(said)} traces, {tokens} tokens, {time.monotonic() - started:.0f} s")


def pool_of(args: argparse.Namespace, name: str, folder: str = "") -> list[Trajectory]:
    return read_parquet(args.out / folder / f"sample-{name}.parquet", "trajectory")


def keep_pool(args: argparse.Namespace, name: str, folder: str, pool: Sequence[Trajectory]) -> None:
    file = args.out / folder / f"sample-{name}.parquet"
    file.parent.mkdir(exist_ok=True)
    write_parquet(file, pool, "trajectory")


def few(args: argparse.Namespace) -> None:
    for name in args.sets:
        problems = read_problems(args.out / "problems" / f"{name}.jsonl")[: args.problems]
        wanted = {problem.id for problem in problems}
        pool = [trace for trace in pool_of(args, name) if trace.problem.id in wanted]
        keep_pool(args, name, "few", [trace for part in data.in_rounds(pool, ROUND, args.first) for trace in part])


def thin(args: argparse.Namespace) -> None:
    for name in args.sets:
        keep_pool(args, name, "thin", data.thinned(pool_of(args, name)))


def evaluate(args: argparse.Namespace) -> None:
    facts = loop_measure.evaluate(args.out, args.data, args.seed)
    with naming(args.out):
        tables = loop_measure.tables(facts)
    keep(args.out / "evaluate.json", facts)
    (args.out / "evaluate.md").write_text(tables, encoding="utf-8")
    sys.stdout.write(json.dumps(facts, indent=1) + "\n")


def search(args: argparse.Namespace) -> None:
    """One row a method: accuracy, tokens and seconds on the same problems; what is there already is kept.

    With --truth, methods that ask a judge are run with the PRM mixed with so much of the truth, share by share.
    """
    policy = torch_policy(str(args.model), args.device, rows=args.at_once, system=PROMPT)
    judge = open_prm(args, cache_tokens=1 << 20)
    params = SamplingParams(0.8, max_tokens=args.max_tokens, seed=args.seed)
    for name in args.sets:
        problems = read_problems(args.out / "problems" / f"{name}.jsonl")[: args.problems]
        # Rollouts for the truth are others than those of the searches.
        cache = RolloutCache(policy, replace(params, seed=args.seed + 1_000_003))
        for method_name in args.methods:
            size = {"paths": args.n, "width": 4} if method_name == "mcts" else {"n": args.n}
            method = create("searcher", method_name, **size)
            file = search_file(args.out, args.name, name, method_name, method.judged and bool(args.truth))
            facts: dict[str, Any] = kept(file) if file.is_file() else {}
            for share in args.truth if method.judged and args.truth else [None]:
                told = "" if share is None else f", truth {share:g}"
                called = f"{method_name} {args.n}, {len(problems)} problems{told}"
                if called in facts:
                    continue
                started = time.monotonic()
                judge.forget()
                mixed = None if share is None else MixedWithTruth(judge, cache, share, args.oracle)
                asked: Judge | None = (mixed or judge) if method.judged else None
                results = Searcher(policy, asked, method, params=params).solve(problems)
                right = [float(r.chosen is not None and bool(r.chosen.correct)) for r in results]
                facts[called] = {
                    "right": "".join(str(int(value)) for value in right),
                    "accuracy": list(bootstrap_mean(right, seed=args.seed)),
                    "generated": Cost.total(r.policy_cost for r in results).generated_tokens / len(problems),
                    "scored": Cost.total(r.cost for r in results).scored_tokens / len(problems),
                    "failed": sum(r.failure is not None for r in results), "seconds": round(time.monotonic() - started, 1),
                }  # fmt: skip
                if mixed is not None:
                    spent = mixed.spent.generated_tokens / len(problems)
                    facts[called] |= {"AUC": mixed.quality, "generated for the truth": spent}
                tell(f"{called}: {facts[called]}")
                keep(file, facts)


STAGES: dict[str, Callable[[argparse.Namespace], None]] = {
    "prepare": prepare, "sample": sample, "label": label, "train": train, "score": score, "few": few,
    "thin": thin, "evaluate": evaluate, "search": search, "ship": lambda args: ship(args.out, args.name, args.to, args.hub),
}  # fmt: skip


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = options(STAGES, __doc__)
    args = parser.parse_args(given)
    with_data = args.stage in ("prepare", "evaluate") or (args.stage == "score" and {*args.on} & {*data.STEPS})
    with_model = args.stage in ("sample", "label", "train", "score", "search")
    needs = {"--data": with_data and args.data is None, "--model": with_model and not args.model}
    if missing := [option for option, is_missing in needs.items() if is_missing]:
        parser.error(f"the stage {args.stage} needs {' and '.join(missing)}")
    return args


def main(given: Sequence[str] | None = None) -> None:
    args = arguments(given)
    in_one_line(f"loop {args.stage}", lambda: STAGES[args.stage](args))


def in_one_line(called: str, work: Callable[[], None]) -> None:
    """Do a stage's work; what went wrong is told in one line."""
    torch.set_float32_matmul_precision("high")  # on CUDA: ten bits of mantissa in products, the rest in float32
    try:
        work()
    except (ValueError, OSError, KeyError, ImportError) as error:
        if os.environ.get("FOOTFALL_DEBUG"):
            raise
        raise SystemExit(f"{called}: {visible(' '.join(str(error).split())[:600])}") from error


if __name__ == "__main__":
    main()
