"""What PRMs of `scripts/loop.py` are worth, from their scores and thresholds alone: no model is needed.

Steps are measured on ProcessBench and PRMBench at the threshold chosen on held-out rows, beside the judge that knows lengths
only, whose threshold is chosen on the same rows. Pools are voted on: at each N the accuracy is expected over random subsets
of N candidates, and each rule is held against the majority vote over the same subsets. Intervals are bootstrapped, over the
cases of each split and over problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from footfall.benchmarks.processbench import SPLITS
from footfall.benchmarks.runner import Benchmark
from footfall.damaged import naming
from footfall.formats import read_parquet, read_problems
from footfall.metrics.intervals import (
    RESAMPLES,
    Floats,
    bootstrap_mean,
    case_weights,
    from_resamples,
    paired_difference,
    paired_resamples,
)
from footfall.metrics.preferences import best_of, sizes_up_to, subsets, vote_of
from footfall.metrics.steps import auc
from footfall.registry import create
from footfall.search.votes import aggregate, pass_at_k
from footfall.types import Judgement, Trajectory
from scripts.loop_data import EVALUATED, FILES, STEPS, equal_answers, pool_file
from scripts.loop_files import kept, scores_of, search_files, searches_of

PUBLISHED = (
    "Skywork-1.5B", "Skywork-PRM-1.5B", "Math-Shepherd-7B", "Qwen2.5-Math-7B-PRM800K", "Qwen2.5-Math-PRM-7B",
)  # fmt: skip
"""Whose published figures stand beside ours; benchmarks spell one of them in two ways."""
FIGURES = ("f1", "acc_err", "acc_cor", "prm_score")
COLUMNS = (*SPLITS, "mean", "Simplicity", "Soundness", "Sensitivity", "overall")
TOGETHER = {"processbench": "mean", "prmbench": "overall"}
FOLDS = ("min", "last")
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Of the truth, mixed into a PRM's scores of finished solutions."""
VOTES = 16
"""Candidates at which labels are compared."""
DRAWN = 64
"""Subsets of N that a vote is averaged over."""

Scores = Mapping[tuple[str, str], Sequence["float | None"]]
"""Of the steps, by split and trace."""
Facts = Mapping[str, Any]
Figure = list["float | None"]
"""A value and the ends of its interval, in percent."""


def evaluate(out: Path, data: Path, seed: int) -> dict[str, Any]:
    """PRM -> set -> figures, of all scores in the folder."""
    files = sorted(out.glob("prm-*/facts.json"))
    fields = {"validation": dict, "labels": dict, "config": dict}
    # A judge that writes, of `scripts/kinds.py`, has no threshold of its own.
    files = [f for f in files if "validation" in (told := kept(f)) or "kind" not in told]
    prms: dict[str, Facts] = {f.parent.name.removeprefix("prm-"): kept(f, **fields) for f in files}
    found: dict[str, Any] = {}
    for name, facts in prms.items():
        with naming(out / f"prm-{name}" / "facts.json"):
            threshold = float(facts["validation"]["threshold"])
            found[name] = {"threshold": threshold, "labels": facts["labels"], "seed": facts["config"]["seed"]}
    for on in EVALUATED:
        there = {name: file for name in prms if (file := out / f"scores-{name}-{on}.jsonl.gz").is_file()}
        if not there:
            continue
        scores = {name: scores_of(file) for name, file in there.items()}
        # PRMs are measured in a pool on the problems that they have scores of: all, or those they have not seen.
        by_cases: dict[frozenset[tuple[str, str]], list[str]] = {}
        for name, given in scores.items():
            by_cases.setdefault(frozenset(given) if on not in STEPS else frozenset(), []).append(name)
        for cases, names in by_cases.items():
            traces = {trace for _, trace in cases}
            pool = pool_file(out, on)
            measure = measured_steps(on, data, seed) if on in STEPS else measured_pools(pool, seed, traces)
            for name in names:
                with naming(there[name]):
                    found[name][on] = measure(scores[name], prms[name])
    searched = {on: search_files(out, on) for on in FILES}
    for name in prms:
        for on in (on for on, files in searched.items() if name in files):
            found[name][f"search, {on}"] = measured_searches(out, name, on, seed)
    return found


def measured_steps(on: str, data: Path, seed: int) -> Callable[[Scores, Facts], dict[str, Any]]:
    """Measures scores of a benchmark's steps, at the PRM's threshold and at one half, beside length only."""
    benchmark: Benchmark = create("benchmark", on, data=data / on)
    length = create("labeller", "length")

    def measure(scores: Scores, facts: Facts) -> dict[str, Any]:
        cases = [case for case in benchmark.cases if (case.split, case.trajectory.id) in scores]
        groups = [case.group or f"case {k}" for k, case in enumerate(cases)]
        weights_RN = case_weights([case.split for case in cases], seed, RESAMPLES, groups)
        said = [Judgement(c.trajectory.id, tuple(scores[c.split, c.trajectory.id]), "scores") for c in cases]
        lengths = length.judge([case.trajectory for case in cases])
        own, chosen = facts["validation"]["threshold"], facts["thresholds of sanity judges"]["length"]
        row, figure = TOGETHER[on], benchmark.objective
        rows = {
            name: benchmark.measure(cases, judgements, at, weights_RN)
            for name, judgements, at in (
                ("PRM", said, own),
                ("PRM at 0.5", said, 0.5),
                ("length only", lengths, chosen),
            )
        }
        difference, _ = paired_resamples(rows["PRM"][row][figure], rows["length only"][row][figure])
        return {
            "cases": len(cases), "threshold": own, "length threshold": chosen,
            **{name: percentages(given) for name, given in rows.items()},
            f"PRM − length only, {row} {figure}": percent(difference),
            "published": {
                name: {**given, row: given.get(row, round(float(np.mean(list(given.values()))), 1))}
                for name, given in benchmark.published.items() if name in PUBLISHED
            },
        }  # fmt: skip

    return measure


def percentages(
    rows: Mapping[str, Mapping[str, Floats]], shown: Collection[str] = FIGURES
) -> dict[str, dict[str, Figure]]:
    return {
        row: {name: percent(from_resamples(values_R)) for name, values_R in given.items() if name in shown}
        for row, given in rows.items()
    }


def percent(figures: Sequence[float]) -> Figure:
    """What has no value is null."""
    return [round(100 * float(figure), 2) if np.isfinite(figure) else None for figure in figures]


class Pools:
    """The candidates of each problem, which answers are equal and which right; votes on them, and choices by score."""

    def __init__(
        self, file: Path, seed: int, problems: Sequence[str] | None = None, traces: Collection[str] | None = None
    ) -> None:
        """`problems` are the ids of those that are taken, in this order, and `traces` of candidates; None: all."""
        by_problem: dict[str, list[Trajectory]] = {}
        for trace in read_parquet(file, "trajectory"):
            if traces is None or trace.id in traces:
                by_problem.setdefault(trace.problem.id, []).append(trace)
        self.on, self.seed = file.stem.removeprefix("sample-"), seed
        self.traces = [by_problem[name] for name in problems or by_problem]
        self.size = min(map(len, self.traces))
        self.answers = equal_answers(self.traces)
        self.right = [[bool(trace.correct) for trace in pool] for pool in self.traces]

    def voted(self, weights: Sequence[Sequence[float | None]], n: int) -> Floats:
        """Accuracy of the vote among n on each problem; where nobody has a weight it is wrong."""
        inside = [subsets(len(pool), n, DRAWN, self.seed) for pool in self.traces]
        return np.nan_to_num(list(map(vote_of, inside, self.answers, weights, self.right)))

    def majority(self, n: int) -> Floats:
        """Each candidate has one vote."""
        return self.voted([[1.0] * len(pool) for pool in self.traces], n)

    def chosen(self, values: Sequence[Sequence[float | None]], n: int) -> Floats:
        """Whether the best of n is right, on each problem. As in a search, one without an answer is the last to be taken."""
        rows = self.answered(values, otherwise=-math.inf)
        return np.nan_to_num([best_of(row, right, n) for row, right in zip(rows, self.right, strict=True)])

    def folded(self, scores: Scores, fold: str) -> list[list[float | None]]:
        """One score a candidate."""
        return [[aggregate(tuple(scores[self.on, trace.id]), fold) for trace in pool] for pool in self.traces]

    def answered(
        self, values: Sequence[Sequence[float | None]], otherwise: float | None = None
    ) -> list[list[float | None]]:
        """The values of candidates that have an answer."""
        pairs = zip(self.traces, values, strict=True)
        return [[v if t.answer is not None else otherwise for t, v in zip(*each, strict=True)] for each in pairs]

    @property
    def tokens(self) -> float:
        """That writing a candidate took, on the mean."""
        return float(np.mean([trace.cost.generated_tokens for pool in self.traces for trace in pool]))


def measured_pools(file: Path, seed: int, traces: Collection[str]) -> Callable[[Scores, Facts], dict[str, Any]]:
    """Measures scores of the candidates of each problem: accuracy by rule and N, and the difference to the majority vote."""
    pools = Pools(file, seed, traces=traces)
    ns, right = sizes_up_to(pools.size), pools.right
    majority = {n: pools.majority(n) for n in ns}
    oracle = {n: np.asarray([pass_at_k(len(row), sum(row), n) for row in right]) for n in ns}

    def measure(scores: Scores, facts: Facts) -> dict[str, Any]:
        folded = {fold: pools.folded(scores, fold) for fold in FOLDS}
        rules = {"majority": majority, "any right": oracle}
        for fold, values in folded.items():
            rules[f"best of N, {fold}"] = {n: pools.chosen(values, n) for n in ns}
            rules[f"weighted vote, {fold}"] = {n: pools.voted(values, n) for n in ns}
        last = VOTES if VOTES in ns else max(ns)

        def mixed(fold: str, share: float) -> dict[str, Any]:
            values = [mix(row, correct, share) for row, correct in zip(folded[fold], right, strict=True)]
            found = {"best of N": pools.chosen(values, last), "weighted vote": pools.voted(values, last)}
            shown: dict[str, Any] = {"truth": share, "AUC": outcome_auc(pools.answered(values), right)}
            for name, each in found.items():
                shown[name] = percent(bootstrap_mean(each, seed))
                shown[f"{name} − majority"] = percent(paired_difference(each, majority[last], seed))
            return shown

        return {
            "problems": len(right), "n": list(ns),
            "accuracy": {
                rule: {str(n): percent(bootstrap_mean(values, seed)) for n, values in by_n.items()}
                for rule, by_n in rules.items()
            },
            "− majority": {
                rule: {str(n): percent(paired_difference(values, majority[n], seed)) for n, values in by_n.items()}
                for rule, by_n in rules.items() if rule != "majority"
            },
            f"mixed with the truth, N = {last}": {fold: [mixed(fold, share) for share in SHARES] for fold in FOLDS},
        }  # fmt: skip

    return measure


def measured_searches(out: Path, name: str, on: str, seed: int) -> list[dict[str, Any]]:
    """The searches with a PRM on a set, each beside votes among as many samples as its tokens would have paid for.

    A pool of samples of the same problems gives these votes; without one, or past its size, only the search's figures stand.
    """
    searched = searches_of(search_files(out, on)[name])
    problems = read_problems(out / "problems" / f"{on}.jsonl")
    stored, score_file = pool_file(out, on), out / f"scores-{name}-{on}.jsonl.gz"
    ids = [problem.id for problem in problems[: max(len(facts["right"]) for facts in searched.values())]]
    pools = Pools(stored, seed, ids) if stored.is_file() else None
    weights = None
    if pools is not None and score_file.is_file():
        scores = scores_of(score_file)
        if all((on, trace.id) in scores for pool in pools.traces for trace in pool):
            weights = pools.folded(scores, "last")
    found = []
    for called, facts in searched.items():
        right = np.asarray([float(mark) for mark in facts["right"]])
        row = {
            "search": called,
            "accuracy": percent(bootstrap_mean(right, seed)),
            "generated": round(facts["generated"]),
        }
        row |= {key: facts[key] for key in ("AUC", "generated for the truth") if key in facts}
        n = round(facts["generated"] / pools.tokens) if pools is not None and pools.tokens else 0
        if pools is not None and 1 <= n <= pools.size:
            votes = {"majority": pools.majority(n)} | (
                {} if weights is None else {"weighted vote": pools.voted(weights, n)}
            )
            row["samples for its tokens"] = n
            row |= {
                f"− {rule}": percent(paired_difference(right, each[: len(right)], seed)) for rule, each in votes.items()
            }
        found.append(row)
    return found


def mix(values: Sequence[float | None], right: Sequence[bool], share: float) -> list[float | None]:
    """(1 − share) · value + share · truth; no value stays none."""
    return [None if v is None else (1 - share) * v + share * r for v, r in zip(values, right, strict=True)]


def outcome_auc(values: Sequence[Sequence[float | None]], right: Sequence[Sequence[bool]]) -> float | None:
    """How well scores tell right solutions from wrong ones, over all problems together; no value stays out."""
    pairs = zip(values, right, strict=True)
    known = [(v, r) for row, rights in pairs for v, r in zip(row, rights, strict=True) if v is not None]
    truth = np.asarray([r for _, r in known], dtype=bool)
    return round(float(auc(np.asarray([v for v, _ in known]), truth)), 4) if 0 < truth.sum() < len(truth) else None


def tables(found: Mapping[str, Any], shown: Collection[str] | None = None) -> str:
    """The figures in Markdown, one table a set; of PRMs that are not `shown` (None: all are) in the table of labels alone."""
    return "\n".join(f"**{title}**\n\n{table}" for title, table in tables_by_title(found, shown).items())


def tables_by_title(found: Mapping[str, Any], shown: Collection[str] | None = None) -> dict[str, str]:
    """The same apart; a table of a set is called as the set is."""
    parts = {}
    for on in EVALUATED:
        there = {name: facts[on] for name, facts in found.items() if on in facts and (shown is None or name in shown)}
        if there:
            parts[on] = _step_table(on, there) if on in STEPS else _pool_table(there)
    for name, facts in found.items():
        parts |= {f"{name}: {key}": _search_table(facts[key]) for key in facts if key.startswith("search, ")}
    return {**parts, "labels": label_table(found)}


def label_table(found: Mapping[str, Any]) -> str:
    """What labels are worth: how many a PRM learned from, what was generated for them, and what it reaches."""
    pools = [on for on in EVALUATED if on not in STEPS and any(on in facts for facts in found.values())]
    heads = [f"{on}: {rule} of {VOTES} − majority" for on in pools for rule in ("best", "weighted")]
    lines = [table_line(["PRM", "labels", "traces", "steps", "generated tokens", "ProcessBench F1", *heads])]
    lines.append(table_line(["---", "---", *["---:"] * (4 + len(heads))]))
    for name, facts in found.items():
        sums = [f"{sum_of(facts, key):,}" for key in ("traces", "steps", "generated tokens")]
        steps = facts["processbench"]["PRM"]["mean"]["f1"] if "processbench" in facts else None
        cells = [name, ", ".join(facts["labels"]), *sums, "" if steps is None else with_interval(steps)]
        for on in pools:
            given = facts.get(on)
            for rule in ("best of N, last", "weighted vote, last"):
                cells.append(
                    ""
                    if given is None
                    else with_interval(given["− majority"][rule][str(min(VOTES, max(given["n"])))], "+")
                )
        lines.append(table_line(cells))
    return "\n".join(lines) + "\n"


def sum_of(facts: Facts, key: str) -> int:
    """Traces, steps or tokens of all that a PRM learned from."""
    return sum(each[key] for each in facts["labels"].values())


def _step_table(on: str, there: Mapping[str, Any]) -> str:
    figure = "f1" if on == "processbench" else "prm_score"
    first = next(iter(there.values()))
    columns = [row for row in first["PRM"] if row in COLUMNS]
    lines = [table_line(["judge", *columns]), table_line(["---", *["---:"] * len(columns)])]
    for name, given in there.items():
        for judge, title in (("PRM", name), ("length only", f"length only, threshold as {name}")):
            lines.append(table_line([title, *(with_interval(given[judge][column][figure]) for column in columns)]))
        difference = next(value for key, value in given.items() if key.startswith("PRM − length only"))
        lines.append(table_line([f"{name} − length only", *[""] * (len(columns) - 1), with_interval(difference, "+")]))
    for model, given in first["published"].items():
        lines.append(table_line([f"{model} (published)", *(str(given.get(column, "")) for column in columns)]))
    return "\n".join(lines) + "\n"


def _pool_table(there: Mapping[str, Any]) -> str:
    """A column for each N that a PRM has scores for; PRMs of other problems or samples follow a majority of their own."""
    ns = [str(n) for n in max((given["n"] for given in there.values()), key=len)]
    lines = [table_line(["accuracy in percent", *(f"N = {n}" for n in ns)]), table_line(["---", *["---:"] * len(ns)])]
    shared = ("majority", "any right")
    pools: dict[tuple[int, int], dict[str, Any]] = {}
    for name, given in there.items():
        pools.setdefault((given["problems"], max(given["n"])), {})[name] = given
    for (problems, size), measured in pools.items():
        pool = next(iter(measured.values()))["accuracy"]
        for rule in shared:
            lines.append(table_line([f"{rule}, {problems:,} problems, {size} samples of each", *_by_n(pool[rule], ns)]))
        for name, given in measured.items():
            for rule in (rule for rule in given["accuracy"] if rule not in shared):
                lines.append(table_line([f"{name}: {rule}", *_by_n(given["accuracy"][rule], ns)]))
                lines.append(table_line(["− majority", *_by_n(given["− majority"][rule], ns, "+")]))
    return "\n".join(lines) + "\n"


def _by_n(figures: Mapping[str, Figure], ns: Sequence[str], sign: str = "") -> list[str]:
    return [with_interval(figures[n], sign) if n in figures else "" for n in ns]


def _search_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each search at its tokens, and less the votes among as many samples as those tokens pay for."""
    beside = ("− majority", "− weighted vote")
    lines = [table_line(["search", "AUC", "accuracy", "tokens a problem", "samples for these", *beside])]
    lines.append(table_line(["---", *["---:"] * 6]))
    for row in rows:
        told = [str(row.get("AUC") or ""), with_interval(row["accuracy"]), f"{row['generated']:,}"]
        differences = [with_interval(row[key], "+") if key in row else "" for key in beside]
        lines.append(table_line([row["search"], *told, str(row.get("samples for its tokens", "")), *differences]))
    return "\n".join(lines) + "\n"


def table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_interval(figure: Figure, sign: str = "") -> str:
    value, low, high = figure
    return "–" if value is None or low is None or high is None else f"{value:{sign}.1f} [{low:.1f}, {high:.1f}]"
