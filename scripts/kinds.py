"""Kinds of PRMs on a real model, trained on the same rows: what each is worth beside a step head with cross-entropy.

    unpack    --model, a GGUF file, as a folder with safetensors, which families that are language models read
    train     a PRM of the kind --kind, called --name, on --rows as in `scripts/loop.py`; --beside names the one that it is
              compared with: it learned from the same rows; with --then-score it scores what --on names at once
    score     with the PRM --name: --on processbench and pools of samples, as `scripts/loop.py` scores
    chains    verifications of rows by --model itself, --n each, kept where they say what the labels say; at most --most of
              them become the rows `chains` of the kind thinkprm; with --labels-told the model knows the labels while it writes
    verify    with the judge --name: --n chains about each case of processbench and about held-out rows; with --told the
              untrained model, which is told what to write
    evaluate  all that there is: first-error F1 by split, choices in pools, and paired differences; no model is needed
    store     what evaluate reads, without texts, into --to: small enough to keep

    python -m scripts.loop prepare --data DATA --out runs/loop
    python -m scripts.kinds train --kind pqm --name pqm --beside ce --rows prm800k mr-ben --model MODEL --out runs/loop
    python -m scripts.kinds score --name pqm --on processbench --data DATA --model MODEL --out runs/loop

Each stage goes on where it was stopped. Stages `prepare`, `sample` and `thin` are those of `scripts/loop.py`, in the same
folder. A GGUF file is unpacked into the folder once, by the stage of that name or by the first that needs it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from footfall.benchmarks.runner import Benchmark
from footfall.formats import read_parquet, write_parquet
from footfall.gguf.container import is_gguf
from footfall.loading import give_memory_back, load_model, quiet
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import create
from footfall.reward.backbone import context_length
from footfall.reward.checkpoint import Options, evidence, language_family
from footfall.reward.generative.thinkprm import TEACHER, thinkprm
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, train_prm
from footfall.train.run import MODEL, RESULT
from footfall.types import Judge, Judged, Judgement, Trajectory
from scripts import kinds_data, kinds_measure, loop
from scripts import loop_data as data
from scripts.kinds_data import Verified
from scripts.loop_files import keep, keep_lines, kept, scores_of, tell
from scripts.loop_options import options
from scripts.loop_rows import in_turn, lessons_of, source_rows
from scripts.numbers import COUNT
from scripts.train_smol import sanity_thresholds, trained_facts, validate

ROUNDED = 0.95
"""From this cosine on two matrices are one that was rounded twice."""


@dataclass(frozen=True)
class Kind:
    """How a kind is trained: fields of `TrainConfig`, and what its rows are."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    rows: Callable[[Sequence[Judged]], list[Judged]] = list
    adapter: bool = True
    """LoRA; else all weights, or with a frozen decoder the head alone."""
    head: bool = True
    """A head on the decoder, in the template of the loop's PRMs; else a language model or a family's own layout."""
    lr: float = 1e-4
    scored: Mapping[str, Any] = field(default_factory=dict)
    """Options of the judge."""
    whole: bool = False
    """It reads later steps too: rows, and those that choose its threshold, are whole solutions, not their part up to the error.
    """


KINDS = {
    "ce": Kind(),
    "pqm": Kind({"objective": "q-ranking", "objective_options": {"threshold": 0.5}}),
    "tdrm": Kind({"objective": "td"}),
    "biprm": Kind({"head": "both-ways"}, whole=True),
    # Attentions take memory by the square of a trace's length, so batches are small. Its figures are those of an encoder with
    # ReLU; the published one has GELU.
    "uhead": Kind(
        {"head": "uncertainty", "head_options": {"activation": "relu"}, "objective_options": {"wrong_weight": 3.0},
         "compile": False},
        adapter=False, lr=5e-4, scored={"token_budget": 8192, "compile": False},
    ),
    # At LoRA's rate it had not learned the mean of the labels after 138 updates.
    "probe": Kind({"head": "frozen-linear"}, adapter=False, lr=1e-3),
    "implicit": Kind({"family": "implicit", "objective": "log-ratio"}, head=False),
    # Of 1.5B parameters a checkpoint with all weights and their moments is 18 GB, not worth the time of writing: there is none.
    "pathfinder": Kind(
        {"as_family": "pathfinder-prm", "objective": "error-types", "save_steps": 1_000_000},
        kinds_data.typed_rows, adapter=False, head=False, lr=1e-5,
    ),
    "thinkprm": Kind({"family": "thinkprm", "objective": "critique"}, head=False),
}  # fmt: skip


def unpacked(args: argparse.Namespace) -> str:
    """--model as a folder or hub id; a GGUF file is written as a folder beside the results, whole or not at all."""
    if not is_gguf(args.model):
        return str(args.model)
    folder = args.out / f"model-{Path(args.model).stem}"
    # A suffix would begin at the last dot, that of 1.5B.
    begun, lock = (folder.with_name(f"{folder.name}.{end}") for end in ("begun", "lock"))
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # stages may begin beside each other: one unpacks, the others wait
        if not folder.is_dir():
            model, tokenizer = load_model(args.model, args.device, torch.bfloat16)
            tie_again(model)
            shutil.rmtree(begun, ignore_errors=True)
            with quiet():
                model.save_pretrained(begun)
            tokenizer.save_pretrained(begun)
            begun.rename(folder)
    return str(folder)


def tie_again(model: Any) -> None:
    """A file may hold one matrix of words and outputs twice, rounded in two ways; it becomes one again, that of the outputs."""
    words_VH, outputs_VH = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    ours, theirs = (matrix_VH.detach()[::64].float().flatten() for matrix_VH in (words_VH, outputs_VH))
    if words_VH is not outputs_VH and torch.cosine_similarity(ours, theirs, dim=0) > ROUNDED:
        words_VH.data = outputs_VH.data
        model.config.tie_word_embeddings = True
        model.tie_weights()


def train(args: argparse.Namespace) -> None:
    kind, started = KINDS[args.kind], time.monotonic()
    rows, held, given = lessons_of(args, kind.whole)
    config = config_of(args, kind)
    run = args.out / f"prm-{args.name}.run"
    if not (run / RESULT).is_file():  # scores that are there are of an earlier training of this name
        for on in data.EVALUATED:
            (args.out / f"scores-{args.name}-{on}.jsonl.gz").unlink(missing_ok=True)
    result = train_prm(
        kind.rows(rows), unpacked(args), config, run,
        progress=lambda done, total: tell(f"update {done} of {total}") if done % 20 == 0 else None,
    )  # fmt: skip
    give_memory_back()  # stages beside this one may wait for it
    facts = {
        "kind": args.kind, "beside": args.beside, **given, "config": config.to_dict(), **trained_facts(result),
        "training seconds and loading": round(time.monotonic() - started, 1),
    }  # fmt: skip
    judge: Judge | None = None
    if args.kind != "thinkprm":  # its threshold is chosen by what it has written, in evaluate
        judge = opened(args, args.kind)
        facts["validation"] = validate(judge, held, args.seed)._asdict()
        facts["thresholds of sanity judges"] = sanity_thresholds(held, args.seed)
    facts["seconds"] = round(time.monotonic() - started, 1)
    keep(args.out / f"prm-{args.name}" / "facts.json", facts)
    if args.then_score and judge is not None:
        loop.score(args, lambda _: judge)


def config_of(args: argparse.Namespace, kind: Kind) -> TrainConfig:
    """The same for all kinds as far as they can be trained alike."""
    common: dict[str, Any] = {
        "lr": args.lr or kind.lr, "epochs": args.epochs, "warmup": 0.1, "batch_size": args.batch, "seed": args.seed,
        "lora_rank": args.rank if kind.adapter else None, "max_length": args.max_length, "too_long": "drop",
        "device": args.device, "eval_share": 0.0,  # held-out rows are read once, by `validate`
    }  # fmt: skip
    if kind.head or not kind.adapter:  # language models are trained by a loop of their own, without these
        common |= {"accumulation": args.accumulation, "gradient_checkpointing": args.checkpointing}
    if kind.head:
        common |= {"template": loop.READ, "head_lr": args.head_lr if kind.adapter else None}
    return TrainConfig(**{**common, **kind.fixed})


class InRange:
    """A judge whose values are within 0 and 1: two passes say −1 of a step with a bad mark, and its value is 0 here."""

    def __init__(self, judge: Judge) -> None:
        self.judge_of, self.name = judge, judge.name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [
            replace(said, values=tuple(None if v is None else min(1.0, max(0.0, v)) for v in said.values))
            for said in self.judge_of.judge(trajectories)
        ]


def opened(args: argparse.Namespace, kind: str | None = None) -> Judge:
    """The trained PRM as a judge."""
    folder = args.out / f"prm-{args.name}.run" / MODEL
    known = kind or str(kept(args.out / f"prm-{args.name}" / "facts.json", kind=str)["kind"])
    own: dict[str, Any] = {"compile": args.compile, **KINDS[known].scored}
    options = Options(args.device, getattr(torch, args.dtype), "partial", check=False, **own)
    family = language_family(folder, None)
    if family is not None and family.open is not None:
        return InRange(family.open(evidence(folder), family, options))
    model = PRM.load(folder, device=options.device, dtype=options.dtype, check=False)
    # Rows were short; what is scored may be as long as the decoder takes.
    length = context_length(model.backbone) or model.max_length
    model.prm_config = replace(model.prm_config, max_length=length)
    return InRange(options.judge(model))


def chains(args: argparse.Namespace) -> None:
    """The critic is the policy; rows that it agreed with before are not asked about again."""
    lessons = lessons_of(args)
    asked, run = args.out / "to-verify.parquet", args.out / "label-chains.run"
    write_parquet(asked, lessons.rows, "judged")
    own = ["--method", "agreeing", "--data", str(asked), "--store", "none", "--chunk", str(args.chunk)]
    critic = ["critic=thinkprm", f"labels={asked}", f"n={args.n}", "temperature=0.7", f"max_tokens={args.max_tokens}",
              f"told={str(args.labels_told).lower()}"]  # fmt: skip
    writer = f"{unpacked(args)}{'' if args.at_once is None else f',rows={args.at_once}'}"
    policy = ["--policy", writer, *([] if args.device is None else ["--device", args.device])]
    loop.command("label", *own, "--set", *critic, "--out", str(run), *policy, "--seed", str(args.seed))
    found: list[Judged] = read_parquet(run / "judged.parquet", "judged")
    kept = kinds_data.chosen_chains(found, args.most)
    write_parquet(args.out / "rows" / "chains.parquet", kept, "judged")
    facts = {"asked": data.label_counts(found), "kept": data.label_counts(kept), "a trace": args.n}
    keep(args.out / "chains.json", facts)
    tell(f"chains: {facts}")


def verify(args: argparse.Namespace) -> None:
    source = args.out / f"prm-{args.name}" / "facts.json"
    if args.told:
        keep(source, {"kind": "untrained", "beside": args.beside, "model": Path(args.model).name, "labels": {}})
    elif "processbench" not in kept(source, against=list)["against"]:
        raise SystemExit(f"{args.name} may have seen problems of processbench: it is not measured there")
    folder = unpacked(args) if args.told else args.out / f"prm-{args.name}.run" / MODEL
    policy = TorchPolicy.load(folder, args.device, label=args.name, rows=args.at_once)
    judge = thinkprm(policy, args.n, "verdicts", max_tokens=args.max_tokens, seed=args.seed)
    benchmark: Benchmark = create("benchmark", "processbench", data=args.data / "processbench")
    held: list[Judged] = source_rows(args.out, "held-out")
    # Held-out rows first, then a case of each split in turn: who is stopped has a threshold, and some of every split.
    cases = [(kinds_measure.HELD, row.trajectory) for row in held[:: args.every]]
    by_split: dict[str, list[tuple[str, Trajectory]]] = {}
    for case in benchmark.cases[:: args.every]:
        by_split.setdefault(case.split, []).append((case.split, case.trajectory))
    cases += in_turn(by_split.values())
    file = args.out / f"chains-{args.name}-processbench.jsonl.gz"
    known: dict[tuple[str, str], Verified] = kinds_data.verified_of(file) if file.is_file() else {}
    left = [(split, trace) for split, trace in cases if (split, trace.id) not in known]
    for begin in range(0, len(left), args.chunk):
        part, started = left[begin : begin + args.chunk], time.monotonic()
        said = judge.chains([trace for _, trace in part], TEACHER if args.told else "")
        for (split, trace), own in zip(part, said, strict=True):
            known[split, trace.id] = kinds_data.verified(own, len(trace.steps))
        keep_lines(file, kinds_data.verified_lines(known))
        tokens = sum(known[split, trace.id].tokens for split, trace in part)
        tell(f"{len(known)} of {len(cases)}: {tokens} tokens, {time.monotonic() - started:.0f} s")


def evaluate(args: argparse.Namespace) -> None:
    facts = kinds_measure.evaluate(args.out, args.data, args.seed)
    keep(args.out / "evaluate-kinds.json", facts)  # the folder's evaluate.json is that of `scripts/loop.py`
    (args.out / "evaluate-kinds.md").write_text(kinds_measure.tables(facts), encoding="utf-8")
    sys.stdout.write(json.dumps(facts, indent=1) + "\n")


def store(args: argparse.Namespace) -> None:
    """Scores of candidates become their lowest and their last one, which is all that choices in a pool go by."""
    args.to.mkdir(parents=True, exist_ok=True)
    for file in sorted(args.out.glob("scores-*.jsonl.gz")):
        if any(file.name.endswith(f"-{on}.jsonl.gz") for on in data.STEPS):
            shutil.copy(file, args.to / file.name)
            continue
        lines = [
            {"id": id, "split": split, "scores": ends_of(scores)} for (split, id), scores in scores_of(file).items()
        ]
        keep_lines(args.to / file.name, lines)
    for pattern in ("chains-*.jsonl.gz", "chains.json", "thin/sample-*.parquet"):
        for found in args.out.glob(pattern):
            shutil.copy(found, args.to / found.name)
    for found in args.out.glob("prm-*/facts.json"):
        keep(args.to / found.parent.name / found.name, kept(found))
    (args.to / "rows").mkdir(exist_ok=True)
    held = source_rows(args.out, "held-out")
    write_parquet(args.to / "rows" / "held-out.parquet", list(map(kinds_measure.without_text, held)), "judged")


def ends_of(scores: Sequence[float | None]) -> list[float | None]:
    """The lowest and the last of a candidate's scores; all of them where one is lacking."""
    known = [score for score in scores if score is not None]
    return [min(known), known[-1]] if known and len(known) == len(scores) else list(scores)


STAGES: dict[str, Callable[[argparse.Namespace], None]] = {
    "unpack": lambda args: tell(unpacked(args)), "train": train, "score": partial(loop.score, opened=opened),
    "chains": chains, "verify": verify, "evaluate": evaluate, "store": store,
}  # fmt: skip
NEEDS = {
    "--model": ("unpack", "train", "score", "chains", "verify"), "--data": ("verify", "evaluate"), "--kind": ("train",),
    "--to": ("store",),
}  # fmt: skip


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = options(STAGES, __doc__)
    parser.set_defaults(to=None)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--beside", help="the PRM whose figures are taken from those of this one")
    parser.add_argument("--most", type=COUNT, default=1000, help="chains to learn from")
    parser.add_argument("--then-score", action="store_true", help="score --on with the PRM that was trained, at once")
    parser.add_argument("--labels-told", action="store_true", help="chains by a model that is told what the labels say")
    parser.add_argument("--told", action="store_true", help="the untrained model is told what a verification is")
    args = parser.parse_args(given)
    wanted = {option: args.stage in stages for option, stages in NEEDS.items()}
    scores = args.stage == "score" or (args.stage == "train" and args.then_score)
    wanted["--data"] |= scores and bool({*args.on} & {*data.STEPS})
    if args.then_score and args.kind == "thinkprm":
        parser.error("--then-score: a judge that writes does so in the stage verify")
    if missing := [option for option, needed in wanted.items() if needed and not getattr(args, option[2:])]:
        parser.error(f"the stage {args.stage} needs {' and '.join(missing)}")
    return args


def main(given: Sequence[str] | None = None) -> None:
    args = arguments(given)
    loop.in_one_line(f"kinds {args.stage}", lambda: STAGES[args.stage](args))


if __name__ == "__main__":
    main()
