"""What the kinds of `scripts/kinds.py` are worth, from stored scores and verifications alone: no model is needed.

Every kind is measured on ProcessBench at the threshold chosen on held-out rows, and in pools by best-of-N and weighted vote.
Beside its figures stand their differences to those of the PRM that its facts name, over the cases that both have scores of,
resampled together. A judge that writes is measured at 1, 4 and 16 chains, the first ones that it wrote, and against itself at
one; each number of chains has a threshold of its own, from chains about held-out rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from footfall.benchmarks.processbench import SPLITS
from footfall.benchmarks.runner import Benchmark
from footfall.metrics.cases import Case, Rows, by_split, mean_of
from footfall.metrics.intervals import (
    RESAMPLES,
    Floats,
    bootstrap_mean,
    case_weights,
    paired_difference,
    paired_resamples,
)
from footfall.metrics.steps import case_auc, known_steps
from footfall.registry import create
from footfall.types import Judged, Judgement, Problem, Step
from scripts.kinds_data import Verified, mean_verdicts, verified_of
from scripts.loop_data import EVALUATED, STEPS, pool_file
from scripts.loop_files import kept, scores_of, tell
from scripts.loop_measure import FOLDS, VOTES, Figure, Pools, Scores, percent, percentages, table_line, with_interval
from scripts.loop_rows import source_rows
from scripts.train_smol import choose_threshold

CHAINS = (1, 4, 16)
LESS_ONE = "− one chain"
HELD = "validation"
"""The split of held-out rows among those that were verified, as thresholds are chosen on it."""
COLUMNS = (*SPLITS, "mean")
RULES = {f"{rule}, {fold}": (rule, fold) for rule in ("best of N", "weighted vote") for fold in FOLDS}


class Scored(NamedTuple):
    """A kind, or a judge that writes at one number of chains: what it says of the steps, and its threshold."""

    facts: Mapping[str, Any]
    scores: Scores
    threshold: float
    written: Mapping[str, float] = {}
    """Of a judge that writes: tokens a trace, and the share of chains with a verdict."""


def evaluate(out: Path, data: Path, seed: int) -> dict[str, Any]:
    """PRM -> set -> figures, of all that is in the folder."""
    there = {f.parent.name.removeprefix("prm-"): kept(f) for f in sorted(out.glob("prm-*/facts.json"))}
    facts = {name: given for name, given in there.items() if "kind" in given}  # others are PRMs of `scripts/loop.py`
    found = {name: told(given) for name, given in facts.items()}
    benchmark: Benchmark = create("benchmark", "processbench", data=data / "processbench")
    on_steps = scored_steps(out, facts, benchmark, seed)
    for name, own in on_steps.items():
        rival = beside(name, own.facts, on_steps)
        figures = steps_figures(benchmark, own, on_steps.get(rival), seed)
        judge, _, chains = name.rpartition(", ")
        if chains != "1" and (one := on_steps.get(f"{judge}, 1")) is not None:
            figures[LESS_ONE] = difference(benchmark, own, one, seed).by_row
        found.setdefault(name, told(own.facts))["processbench"] = {"beside": rival, **figures}
    for on in (each for each in EVALUATED if each not in STEPS):
        pools = {name: scores_of(file) for name in facts if (file := out / f"scores-{name}-{on}.jsonl.gz").is_file()}
        for name, scores in pools.items():
            other = pools.get(str(facts[name].get("beside")))
            found[name][on] = pool_figures(pool_file(out, on), scores, other, seed)
    return {name: given for name, given in found.items() if any(on in given for on in EVALUATED)}


def told(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a training."""
    named = {key: facts.get(key) for key in ("kind", "beside", "model", "labels", "tokens", "training seconds")}
    return {**named, "lr": facts.get("config", {}).get("lr"), "seed": facts.get("config", {}).get("seed")}


def scored_steps(
    out: Path, facts: Mapping[str, Mapping[str, Any]], benchmark: Benchmark, seed: int
) -> dict[str, Scored]:
    """All that has something to say of ProcessBench, by name; a judge that writes once for each number of chains."""
    found = {}
    for name, given in facts.items():
        file, written = out / f"scores-{name}-processbench.jsonl.gz", out / f"chains-{name}-processbench.jsonl.gz"
        if file.is_file():
            found[name] = Scored(given, scores_of(file), float(given["validation"]["threshold"]))
        elif written.is_file():
            held = source_rows(out, "held-out")
            said = verified_of(written)
            if all(split == HELD for split, _ in said) or HELD not in {split for split, _ in said}:
                tell(f"{name}: its verifications of held-out rows or of cases are not there yet, and it is left out")
                continue
            for k in CHAINS:
                if all(len(each.chains) >= k for each in said.values()):
                    found[f"{name}, {k}"] = by_chains(given, said, k, benchmark.cases, held, seed)
    return found


def by_chains(
    facts: Mapping[str, Any], said: Mapping[tuple[str, str], Verified], k: int, cases: Iterable[Case],
    held: Iterable[Judged], seed: int,
) -> Scored:  # fmt: skip
    """Mean verdicts of the first k chains, and the threshold that they have on held-out rows."""
    own = [Case(HELD, row.trajectory, row.judgement) for row in held if row.judgement is not None]
    scores = {
        (case.split, case.trajectory.id): mean_verdicts(each.chains[:k], len(case.trajectory.steps))
        for case in (*cases, *own) if (each := said.get((case.split, case.trajectory.id))) is not None
    }  # fmt: skip
    chosen = [case for case in own if (HELD, case.trajectory.id) in scores]
    values = {v for case in chosen for v in scores[HELD, case.trajectory.id] if v is not None}
    threshold, _ = choose_threshold(chosen, judged(chosen, scores), np.asarray(sorted({*values, 0.0, 1.0})), seed)
    chains = [chain for each in said.values() for chain in each.chains[:k]]
    tokens = fmean(each.tokens * k / len(each.chains) for each in said.values())
    readable = fmean(float(chain is not None) for chain in chains)
    on_cases = {key: values for key, values in scores.items() if key[0] != HELD}
    return Scored(
        facts, on_cases, threshold, {"tokens a trace": round(tokens, 1), "with a verdict": round(readable, 4)}
    )


def judged(cases: Sequence[Case], scores: Scores) -> list[Judgement]:
    return [Judgement(c.trajectory.id, tuple(scores[c.split, c.trajectory.id]), "scores") for c in cases]


def beside(name: str, facts: Mapping[str, Any], known: Collection[str]) -> str:
    """Who is compared with: of one that writes, at as many chains, or else at the most that it has; nobody: an empty name."""
    rival, chains = facts.get("beside"), name.rpartition(", ")[2]
    asked = (str(rival), f"{rival}, {chains}", *(f"{rival}, {k}" for k in reversed(CHAINS)))
    return next((each for each in asked if each in known), "")


def steps_figures(benchmark: Benchmark, own: Scored, other: Scored | None, seed: int) -> dict[str, Any]:
    """Figures of each split at the own threshold; the difference over the cases that both have."""
    cases = [case for case in benchmark.cases if (case.split, case.trajectory.id) in own.scores]
    found: dict[str, Any] = {
        "cases": len(cases), "threshold": own.threshold, **own.written,
        "figures": percentages(measured(benchmark, cases, own, seed), ("acc_err", "acc_cor", "f1", "auc")),
    }  # fmt: skip
    if other is not None:
        found["common cases"], found["difference"], found["difference of AUC"] = difference(benchmark, own, other, seed)
    return found


class Difference(NamedTuple):
    """Of two judges, over the cases that both have: of their F1 by row, and of their AUC on average."""

    cases: int
    by_row: Mapping[str, Figure]
    auc: Figure | None


def difference(benchmark: Benchmark, own: Scored, other: Scored, seed: int) -> Difference:
    """Of each split and of their mean, resampled together."""
    both = {*own.scores} & {*other.scores}
    common = [case for case in benchmark.cases if (case.split, case.trajectory.id) in both]
    ours, theirs = (measured(benchmark, common, each, seed) for each in (own, other))
    by_row = {row: percent(paired_resamples(ours[row]["f1"], theirs[row]["f1"])[0]) for row in COLUMNS if row in ours}
    auc = percent(paired_resamples(ours["mean"]["auc"], theirs["mean"]["auc"])[0]) if "mean" in ours else None
    return Difference(len(common), by_row, auc)


def measured(benchmark: Benchmark, cases: Sequence[Case], own: Scored, seed: int) -> Rows:
    """The benchmark's figures, and beside them the AUC of steps up to the first error, which needs no threshold."""
    groups = [case.group or f"case {k}" for k, case in enumerate(cases)]
    weights_RN = case_weights([case.split for case in cases], seed, RESAMPLES, groups)
    said = judged(cases, own.scores)
    found = benchmark.measure(cases, said, own.threshold, weights_RN)
    rows: Rows = {row: dict(figures) for row, figures in found.items()}
    for split, inside in by_split(cases).items():
        steps = known_steps([cases[n].truth.values for n in inside], [said[n].values for n in inside])
        rows[split]["auc"] = case_auc(steps, weights_RN[:, inside])
    return {**rows, **mean_of("f1", "auc")({split: rows[split] for split in by_split(cases)})}


def pool_figures(file: Path, scores: Scores, other: Scores | None, seed: int) -> dict[str, Any]:
    """Accuracy of each rule among the largest number of candidates that all problems have, 16 at most."""
    found = _pool_rules(file, scores, set(scores) if other is None else {*scores} & {*other}, seed)
    facts: dict[str, Any] = {
        "problems": found.problems,
        "n": found.n,
        "majority": percent(bootstrap_mean(found.majority, seed)),
    }
    facts["accuracy"] = {rule: percent(bootstrap_mean(values, seed)) for rule, values in found.rules.items()}
    facts["− majority"] = {
        rule: percent(paired_difference(values, found.majority, seed)) for rule, values in found.rules.items()
    }
    if other is not None:
        theirs = _pool_rules(file, other, {*scores} & {*other}, seed).rules
        facts["difference"] = {
            rule: percent(paired_difference(values, theirs[rule], seed)) for rule, values in found.rules.items()
        }
    return facts


class _Rules(NamedTuple):
    problems: int
    n: int
    majority: Floats
    rules: Mapping[str, Floats]


def _pool_rules(file: Path, scores: Scores, cases: Iterable[tuple[str, str]], seed: int) -> _Rules:
    pools = Pools(file, seed, traces={trace for _, trace in cases})
    n = min(VOTES, pools.size)
    folded = {fold: pools.folded(scores, fold) for fold in FOLDS}
    rules = {
        name: pools.chosen(folded[fold], n) if rule == "best of N" else pools.voted(folded[fold], n)
        for name, (rule, fold) in RULES.items()
    }
    return _Rules(len(pools.traces), n, pools.majority(n), rules)


def without_text(row: Judged) -> Judged:
    """What thresholds go by: ids, the number of steps, and labels."""
    trace = row.trajectory
    bare = replace(
        trace, problem=Problem(trace.problem.id, "-"), steps=(Step("-"),) * len(trace.steps), tokenizer=None, meta={}
    )
    return Judged(bare, row.judgement)


def tables(found: Mapping[str, Any]) -> str:
    """The figures in Markdown: steps, then each set of pools."""
    there = {name: given for name, given in found.items() if "processbench" in given}
    head = [
        "PRM",
        "rows",
        "tokens trained",
        *COLUMNS,
        "mean, less that of",
        "AUC",
        "AUC, less that of the same",
        "cases",
    ]
    parts = ["**processbench**\n", table_line(head), table_line(["---", *["---:"] * (len(head) - 1)])]
    for name, given in there.items():
        own = given["processbench"]
        rows = sum(counts["traces"] for counts in given["labels"].values())
        figures = [with_interval(own["figures"][column]["f1"]) for column in COLUMNS]
        others = {own["beside"]: own.get("difference"), "one chain": own.get(LESS_ONE)}
        less = "; ".join(f"{other}: {with_interval(by_row['mean'], '+')}" for other, by_row in others.items() if by_row)
        tokens = "" if given["tokens"] is None else f"{given['tokens']:,}"
        auc, auc_less = own["figures"].get("mean", {}).get("auc"), own.get("difference of AUC")
        steps = [with_interval(auc) if auc else "", with_interval(auc_less, "+") if auc_less else ""]
        cells = [name, f"{rows:,}", tokens, *figures, less, *steps, f"{own['cases']:,}"]
        parts.append(table_line(cells))
    for on in (each for each in EVALUATED if each not in STEPS):
        pools = {name: given for name, given in found.items() if on in given}
        if pools:
            parts += ["", f"**{on}**\n", *_pool_lines(on, pools)]
    return "\n".join(parts) + "\n"


def _pool_lines(on: str, pools: Mapping[str, Any]) -> list[str]:
    head = ["PRM", "N", "problems", "majority", *RULES]
    lines = [table_line(head), table_line(["---", *["---:"] * (len(head) - 1)])]
    for name, given in pools.items():
        own = given[on]
        accuracy = [with_interval(own["accuracy"][rule]) for rule in RULES]
        lines.append(table_line([name, str(own["n"]), str(own["problems"]), with_interval(own["majority"]), *accuracy]))
        if "difference" in own:
            less = [with_interval(own["difference"][rule], "+") for rule in RULES]
            lines.append(table_line([f"{name} − {given['beside']}", "", "", "", *less]))
    return lines
