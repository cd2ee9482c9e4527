"""What a PRM of `scripts/loop.py` learns from: labels of the policy's samples by method, rows by source, held-out ones.

`prepare` keeps the steps behind a first error where the source has them. Rows are read up to the error, for nobody labelled
what comes after it and a reader forwards learns nothing from it; a PRM that also reads backwards needs the whole solutions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from footfall.formats import read_parquet, read_problems
from footfall.train.later_steps import cut_at_errors
from footfall.train.objectives import make_objective
from footfall.types import Judged, Reason, failures_of
from scripts import loop_data as data
from scripts.loop_files import kept, tell

T = TypeVar("T")
OUTCOME = "outcome"
"""The rows that say of whole solutions whether their answers are right."""


def rows_of(args: argparse.Namespace, whole: bool = False) -> tuple[list[Judged], dict[str, Any]]:
    """Labels by their method's name, whatever sets they are of; sources by their own, `whole` or up to their first errors.
    And how many, and what they cost.

    `monte-carlo+critic` are the labels on which both agree. `NAME:COUNT` takes so many rows, spread over all; with --budget,
    labels are taken from all sets in turn as long as the tokens that were generated for them fit.

    A policy writes a full stop and the blank line behind it as one token, where text that is read has two. So labelled samples
    are learned from in both forms: a benchmark's traces are text, those of a search are ids.
    """
    found: list[Judged] = []
    counted: dict[str, Any] = {}
    for name, _, count in (given.partition(":") for given in args.rows):
        parts = labels_of(args.out, name)
        rows = in_turn(parts or [source_rows(args.out, name, whole)])
        if parts and args.budget is not None:
            rows = data.within_budget(rows, args.budget)
        if count:
            rows = [rows[k * len(rows) // int(count)] for k in range(min(int(count), len(rows)))]
        counted[name] = data.label_counts(rows)
        found += rows if not parts else in_both_forms(rows, half=name == OUTCOME)
        tell(f"{name}: {counted[name]}")
    return found, counted


def source_rows(out: Path, name: str, whole: bool = False) -> list[Judged]:
    """Rows that the stage prepare left, up to their first errors; or `whole`, without those of sources that have only that."""
    rows: list[Judged] = read_parquet(out / "rows" / f"{name}.parquet", "judged")
    if not whole:
        return list(map(up_to_error, rows))
    for source in (cut := cut_sources(rows)):
        tell(f"{name}: the traces of {source} end at their first errors and are left out")
    return [row for row in rows if row.judgement is not None and row.judgement.judge not in cut]


def up_to_error(row: Judged) -> Judged:
    """The same without the steps that have no label because they come after the first error."""
    trace, said = row
    if said is None or not said.failures:
        return row
    end = len(said.failures)
    while end and (why := said.failures[end - 1]) is not None and why.reason is Reason.AFTER_ERROR:
        end -= 1
    kept = replace(
        said, values=said.values[:end], aspects={name: column[:end] for name, column in said.aspects.items()},
        rationales=said.rationales[:end], failures=failures_of(said.failures[:end]), token_values=said.token_values[:end],
    )  # fmt: skip
    return Judged(replace(trace, steps=trace.steps[:end]), kept)


def cut_sources(rows: Iterable[Judged]) -> list[str]:
    """Those of which nearly all traces with an error end at it: what came after it is not there."""
    by_source: dict[str, list[Judged]] = {}
    for row in rows:
        if row.judgement is not None:
            by_source.setdefault(row.judgement.judge, []).append(row)
    return sorted(name for name, own in by_source.items() if cut_at_errors(own, make_objective("soft-bce", {})))


def labels_of(out: Path, name: str) -> list[list[Judged]]:
    """What `label` left by this method, a list a set; of `A+B`, the consensus on the sets that both have labelled.

    `outcome` needs no labelling: whether the answer of each sample of the training sets is right. `outcome@METHOD` says it of
    the samples that METHOD has labelled, where no others came along. `er-prm` are the Monte Carlo labels, entropy-regularised.
    """
    kind, labelled, method = name.partition("@")
    if labelled:
        if kind != OUTCOME:
            raise ValueError(f"--rows {name}: only {OUTCOME} is known of what others labelled, as {OUTCOME}@{method}")
        if not (parts := labels_of(out, method)):
            raise ValueError(f"--rows {name}: there is no label-{method}-SET.parquet in {out}")
        return [data.outcome_rows([row.trajectory for row in part]) for part in parts]
    if name == "er-prm":
        return list(map(data.entropy_regularised, labels_of(out, "monte-carlo")))
    if name == OUTCOME:
        sampled = [read_parquet(file, "trajectory") for file in sorted(out.glob("sample-*-train.parquet"))]
        return [data.outcome_rows(data.spread(traces)) for traces in sampled]
    methods = name.split("+")
    by_method = [
        {f.stem.removeprefix(f"label-{m}-"): f for f in sorted(out.glob(f"label-{m}-*.parquet"))} for m in methods
    ]
    return [
        data.consensus_rows({m: read_parquet(files[on], "judged") for m, files in zip(methods, by_method, strict=True)})
        for on in by_method[0] if all(on in files for files in by_method)
    ]  # fmt: skip


def in_turn(parts: Iterable[Sequence[T]]) -> list[T]:
    """The first of each part, then the second of each, and so on."""
    return [row for each in zip_longest(*parts) for row in each if row is not None]


def in_both_forms(rows: Sequence[Judged], half: bool) -> list[Judged]:
    """Each as it was sampled and as text; of many rows every other in the one form, the rest in the other."""
    return [*rows[::2], *map(as_text, rows[1::2])] if half else [*rows, *map(as_text, rows)]


def as_text(row: Judged) -> Judged:
    """The same without the ids it was sampled with."""
    trace, name = row.trajectory, f"{row.trajectory.id}#text"
    steps = tuple(replace(step, token_ids=None, logprobs=None) for step in trace.steps)
    said = None if row.judgement is None else replace(row.judgement, trajectory_id=name)
    return Judged(replace(trace, id=name, steps=steps, tokenizer=None), said)


class Lessons(NamedTuple):
    """Rows to train on and held-out ones, about other problems than are measured on, and the facts of both."""

    rows: list[Judged]
    held: list[Judged]
    facts: dict[str, Any]


def lessons_of(args: argparse.Namespace, whole: bool = False) -> Lessons:
    """The rows of --rows that are about no held-out problem; an error if one is about a problem of --against."""
    texts = kept(args.out / "evaluation.json", **dict.fromkeys(data.EVALUATED, list))
    rows, counted = rows_of(args, whole)
    parts = ["held-out", *(["held-out-distilled"] if "distilled" in args.rows else [])]
    held = [row for name in parts for row in source_rows(args.out, name, whole)]
    if not held:
        raise ValueError(
            f"{args.out} has no held-out rows that go on after their first errors: run the stage prepare again"
        )
    rows, apart = data.apart_from(rows, held)
    if apart:
        tell(f"{apart} rows are about problems of the held-out rows and are left out")
    data.refuse_measured(rows, texts, args.against)
    seen = {
        name: data.seen_problems([*rows, *held], read_problems(args.out / "problems" / f"{name}.jsonl"))
        for name in data.EVALUATED if name not in data.STEPS and name not in args.against
    }  # fmt: skip
    return Lessons(rows, held, {
        "model": Path(args.model).name, "rows": args.rows, "labels": counted, "budget": args.budget,
        "left out, about held-out problems": apart, "against": args.against, "seen": seen,
    })  # fmt: skip
