"""Problems and rows of `scripts/loop.py`: what is sampled and labelled, what is learned from, and what is measured on.

Sets that are measured on are named by `EVALUATED`. Problems of the training sets that are one of theirs, or nearly, are left
out, and rows about them too; the pools that a published PRM scored are of GSM8K's and MATH's test problems, so who learns
from them is held against the two step benchmarks alone, and may be measured on nothing else.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from footfall.formats import read_problems, write_parquet
from footfall.label.consensus import Consensus
from footfall.label.monte_carlo import EntropyRegularised
from footfall.search.votes import group
from footfall.store.processes import worker_processes
from footfall.train import find_overlaps
from footfall.types import Judged, Judgement, Problem, Reason, Trajectory, Unjudged, content_key
from scripts.smol_rows import (
    PRMBENCH_QUESTIONS,
    gsm8k_rows,
    make_row,
    math_rows,
    mr_ben_rows,
    pool_rows,
    prm800k_rows,
    read_lines,
)
from scripts.train_smol import Sources, hold_out, without

FILES = {
    "gsm8k-train": "gsm8k/train.jsonl.gz",
    "math-train": "math/math_train_7500_problem_answer.json.gz",
    "gsm8k-test": "gsm8k/test.jsonl.gz",
    "math-500": "math/math500.jsonl.gz",
}
STEPS = ("processbench", "prmbench")
EVALUATED = (*STEPS, "gsm8k-test", "math-500")
VALIDATED = ("prm800k", "mr-ben", "distilled")
"""Sources whose held-out part chooses thresholds; the last one's only for who learns from the others of its rows."""


SAME = "same as"
"""In the meta data of a thinned pool's traces: the place of the first candidate whose answer is equal; none without one."""
MANY = 100
"""Problems from which on it pays to start processes that compare answers."""


def problems_of(data: Path, name: str) -> list[Problem]:
    """The problems of a set, in an order that is theirs and not the file's, each with an id by content."""
    if name == "math-train":
        with gzip.open(data / FILES[name], "rt", encoding="utf-8") as file:
            found = [Problem("", row["problem"], row["final_answer"]) for row in json.load(file)]
    else:
        found = read_problems(data / FILES[name])
    named = {p.text: Problem(f"{name}-{content_key(p.text)[:16]}", p.text, p.answer, p.domain) for p in found}
    return sorted(named.values(), key=lambda problem: content_key("order", problem.text))


def evaluation_texts(data: Path) -> dict[str, list[str]]:
    """The problems of each set that is measured on; of PRMBench also those that its own were made from, as MATH has them."""
    texts = {name: [p.text for p in problems_of(data, name)] for name in ("gsm8k-test", "math-500")}
    splits = sorted((data / "processbench").glob("*.json.gz"))
    rows = [row for path in splits for row in json.loads(gzip.decompress(path.read_bytes()))]
    texts["processbench"] = sorted({row["problem"] for row in rows})
    pairs = read_lines(data / "prmbench" / "prmbench_all_6216.jsonl.gz")
    texts["prmbench"] = sorted({row[field] for row in pairs for field in PRMBENCH_QUESTIONS})
    return texts


def evaluation_problems(texts: dict[str, list[str]], sets: Iterable[str]) -> list[Problem]:
    """Those of the named sets."""
    return [Problem(f"{name} {k}", text) for name in sets for k, text in enumerate(texts[name])]


def clean_problems(problems: Sequence[Problem], against: Sequence[Problem]) -> list[Problem]:
    """Without those that are an evaluation problem, or nearly."""
    bad = {overlap.train_id for overlap in find_overlaps(problems, against)}
    return [problem for problem in problems if problem.id not in bad]


def sources(data: Path, pools: int, gsm8k: int, math: int, seed: int) -> Sources:
    """Rows with labels by people, by construction, and by a published PRM; whole ones, where the source has them."""
    right, wrong = gsm8k_rows(data, gsm8k, seed, whole=True)
    solved, broken = math_rows(data, math, seed, whole=True)
    return {
        "prm800k": prm800k_rows(data), "mr-ben": mr_ben_rows(data, whole=True), "gold": [*right, *solved],
        "injected": [*wrong, *broken], "distilled": pool_rows(data, pools, seed), "eic-math": eic_math_rows(data),
    }  # fmt: skip


def eic_math_rows(data: Path) -> list[Judged]:
    """Solutions of GSM8K and MathQA problems into which a model wrote one error at a known step, and the same as they were.

    Labels end at the error. Left out are those whose earlier steps are not the original's too, or whose wrong step is: there
    the stated number is off. The folders repeat each other.
    """
    files = [file for file in sorted((data / "eic_math").rglob("*_clean.jsonl*")) if "EP_robustness" not in str(file)]
    rows: dict[tuple[str, ...], Judged] = {}
    for given in (line for file in files for line in read_lines(file)):
        right, wrong = eic_math_steps(given["original_solution"]), eic_math_steps(given["transformed_solution"])
        first = given["wrong_step"]
        pair = broken_pair(given["question"].strip(), right, wrong[:first], wrong[first:], "eic-math")
        rows |= {} if pair is None or not given["is_single_error"] else pair
    return list(rows.values())


def eic_math_steps(solution: str) -> list[str]:
    """Its lines but the answer's."""
    return [" ".join(line.split()) for line in solution.splitlines() if line.strip() and not line.startswith("####")]


def broken_pair(
    question: str, right: Sequence[str], wrong: Sequence[str], after: Sequence[str], by: str
) -> Mapping[tuple[str, ...], Judged] | None:
    """Rows of a right solution and of its beginning with a wrong last step and what comes `after` it, by their labelled steps;
    None if that is not what they are."""
    before = len(wrong) - 1
    if before < 0 or list(wrong[:before]) != list(right[:before]) or list(wrong) == list(right[: before + 1]):
        return None
    return {
        (question, *steps): make_row(
            f"{by}-{content_key([question, *steps])[:16]}", question, steps, values, by, behind
        )
        for steps, values, behind in ((right, [1.0] * len(right), ()), (wrong, [1.0] * before + [0.0], after))
    }


def write_rows(found: Sources, texts: dict[str, list[str]], folder: Path, seed: int) -> dict[str, object]:
    """Clean rows by source, and the held-out ones; gives how many went where."""
    everywhere = evaluation_problems(texts, EVALUATED)
    kept, dropped = without({name: rows for name, rows in found.items() if name != "distilled"}, everywhere)
    pools, beside = without({"distilled": found["distilled"]}, evaluation_problems(texts, STEPS))
    kept, held, near = hold_out(kept | pools, VALIDATED, 0.1, seed)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "held-out": [r for r in held if not is_distilled(r)],
        "held-out-distilled": [r for r in held if is_distilled(r)],
    }
    for name, rows in (kept | parts).items():
        write_parquet(folder / f"{name}.parquet", rows, "judged")
    return {
        "rows": {name: len(rows) for name, rows in kept.items()}, "held out": {name: len(rows) for name, rows in parts.items()},
        "dropped, measured on": dropped | beside, "dropped, held out": near,
    }  # fmt: skip


def pool_file(out: Path, name: str) -> Path:
    """The samples of a set, or what `thin` left of them where the samples themselves did not travel."""
    whole, thin = out / f"sample-{name}.parquet", out / "thin" / f"sample-{name}.parquet"
    return thin if thin.is_file() and not whole.is_file() else whole


def spread(traces: Sequence[Trajectory]) -> list[Trajectory]:
    """One of each problem first, then a second one of each, and so on."""
    seen: Counter[str] = Counter()
    places = []
    for k, trace in enumerate(traces):
        places.append((seen[trace.problem.id], k))
        seen[trace.problem.id] += 1
    return [traces[k] for _, k in sorted(places)]


def together(there: Sequence[Trajectory], more: Sequence[Trajectory], mark: str) -> list[Trajectory]:
    """The pool that is there, then the samples that it does not have yet, under ids that say how they were drawn."""
    known = {trace.id for trace in there}
    return [*there, *(t for trace in more if (t := replace(trace, id=f"{trace.id}, {mark}")).id not in known)]


def in_rounds(pool: Sequence[Trajectory], size: int, count: int | None = None) -> list[list[Trajectory]]:
    """At most `count` candidates of each problem, `size` of each in a round: first of all, then further ones of all."""
    seen: Counter[str] = Counter()
    rounds: list[list[Trajectory]] = []
    for trace in pool:
        place = seen[trace.problem.id]
        seen[trace.problem.id] += 1
        if count is None or place < count:
            rounds += [[] for _ in range(place // size + 1 - len(rounds))]
            rounds[place // size].append(trace)
    return rounds


def thinned(pool: Sequence[Trajectory]) -> list[Trajectory]:
    """What votes need: whose solution, its answer and whose it equals, whether it is right, what it cost, if it was cut."""
    by_problem: dict[str, list[Trajectory]] = {}
    for trace in pool:
        by_problem.setdefault(trace.problem.id, []).append(trace)
    groups = equal_answers(list(by_problem.values()))
    return [
        replace(
            trace, problem=Problem(trace.problem.id, "", trace.problem.answer, trace.problem.domain), steps=(),
            tokenizer=None, meta={**trace.meta, SAME: same},
        )
        for traces, found in zip(by_problem.values(), groups, strict=True)
        for trace, same in zip(traces, found, strict=True)
    ]  # fmt: skip


def equal_answers(pools: Sequence[Sequence[Trajectory]]) -> list[list[int | None]]:
    """Which candidates of each problem have equal answers, as `group` says it, or as a thinned pool has it.

    Computer algebra takes seconds for a problem with many answers, so all cores are asked where there are many problems.
    """
    if all(SAME in trace.meta for pool in pools for trace in pool):
        return [[_whole(trace.meta[SAME]) for trace in pool] for pool in pools]
    asked = [[trace.answer for trace in pool] for pool in pools]
    domains = [pool[0].problem.domain for pool in pools]
    if len(pools) < MANY:
        return list(map(group, asked, domains))
    with worker_processes(os.cpu_count() or 1, lambda: "which answers are equal", "free memory") as workers:
        return list(workers.map(group, asked, domains, chunksize=4))


def _whole(found: object) -> int | None:
    return None if found is None else int(str(found))


def outcome_rows(traces: Iterable[Trajectory]) -> list[Judged]:
    """Finished solutions with one label, whether the answer is right, at the last step: for an outcome reward model.

    Their cost is that of the solutions themselves, which other labels come on top of.
    """
    reason = Unjudged(Reason.NOT_ASKED, "only the outcome is labelled")
    rows = []
    for trace in traces:
        if trace.correct is not None and trace.steps and "finish" not in trace.meta:
            before = len(trace.steps) - 1
            values, reasons = (*[None] * before, float(trace.correct)), (*[reason] * before, None)
            rows.append(Judged(trace, Judgement(trace.id, values, "outcome", failures=reasons, cost=trace.cost)))
    return rows


def seen_problems(rows: Iterable[Judged], problems: Sequence[Problem]) -> list[str]:
    """The ids of those that one of the rows is about, or nearly."""
    found = find_overlaps({row.trajectory.problem.text: row.trajectory.problem for row in rows}.values(), problems)
    return sorted({overlap.eval_id for overlap in found})


@dataclass(frozen=True)
class Said:
    """A judge that says again what it said of these traces."""

    name: str
    rows: Sequence[Judged]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        known = {row.trajectory.id: row.judgement for row in self.rows}
        return [judgement for t in trajectories if (judgement := known[t.id]) is not None]


def consensus_rows(by_method: Mapping[str, Sequence[Judged]]) -> list[Judged]:
    """The labels of one method; of several, those of the traces in which all name the same first error.

    A Monte Carlo value above zero says that the step is right, as in the published filter. The cost is that of all.
    """
    first, *others = by_method.values()
    if not others:
        return list(first)
    there = set.intersection(*({row.trajectory.id for row in rows} for rows in by_method.values()))
    traces = [row.trajectory for row in first if row.trajectory.id in there]
    judges = tuple(Said(name, rows) for name, rows in by_method.items())
    thresholds = tuple(1e-9 if name == "monte-carlo" else 0.5 for name in by_method)
    return [Judged(t, j) for t, j in zip(traces, Consensus(judges, thresholds=thresholds).judge(traces), strict=True)]


def entropy_regularised(rows: Sequence[Judged]) -> list[Judged]:
    """Monte Carlo labels p as ER-PRM has them, ln(1 − p + p e), at what they cost."""
    traces = [row.trajectory for row in rows]
    return list(map(Judged, traces, EntropyRegularised(Said("monte-carlo", rows), 1.0).judge(traces)))


def within_budget(rows: Sequence[Judged], tokens: int) -> list[Judged]:
    """The first rows whose labels together cost at most so many generated tokens."""
    costs = [0 if row.judgement is None else row.judgement.cost.generated_tokens for row in rows]
    return [row for row, spent in zip(rows, accumulate(costs), strict=True) if spent <= tokens]


def label_counts(rows: Sequence[Judged]) -> dict[str, int]:
    """Traces, labelled steps and those of them below one half, and the tokens that were generated for the labels."""
    said = [row.judgement for row in rows if row.judgement is not None]
    values = [value for judgement in said for value in judgement.values if value is not None]
    return {
        "traces": len(rows), "steps": len(values), "below one half": sum(value < 0.5 for value in values),
        "generated tokens": sum(judgement.cost.generated_tokens for judgement in said),
    }  # fmt: skip


def is_distilled(row: Judged) -> bool:
    return row.judgement is not None and row.judgement.judge == "Qwen2.5-Math-PRM-7B"


def apart_from(rows: Sequence[Judged], held: Sequence[Judged]) -> tuple[list[Judged], int]:
    """The rows about other problems than those held out, and how many are not: PRM800K's problems are MATH's."""
    kept, dropped = without({"rows": list(rows)}, [row.trajectory.problem for row in held])
    return list(kept["rows"]), dropped["rows"]


def refuse_measured(rows: Sequence[Judged], texts: dict[str, list[str]], sets: Sequence[str]) -> None:
    """An error if a row is about a problem of these sets."""
    found = find_overlaps((row.trajectory.problem for row in rows), evaluation_problems(texts, sets))
    if found:
        raise ValueError(f"the training rows hold {len(found)} problems that are measured on, {found[0]} first")
