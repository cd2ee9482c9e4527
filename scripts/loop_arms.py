"""What labels are worth: PRMs that differ in their labels alone, each label's with several seeds, in one table.

    python -m scripts.loop_arms --out runs/labels --data DATA --arms mc omega consensus --against mc

An arm is the PRMs `NAME-0`, `NAME-1`, … of `scripts/loop.py`. Its figures are means over them, with an interval over cases or
problems; what each training gave stands beside, for an interval over cases says nothing of the next training. First-error F1 is
measured on the cases that all arms have scores of, each PRM at the threshold chosen on its held-out rows; choices and votes
among the first 16 samples of each problem that an arm has scores of.

Written to --out: arms.json, and arms.md. No model is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from footfall.benchmarks.runner import Benchmark
from footfall.damaged import naming
from footfall.metrics.intervals import RESAMPLES, Floats, bootstrap_mean, case_weights, from_resamples, paired_resamples
from footfall.registry import create
from footfall.types import Judgement
from scripts.loop_data import pool_file
from scripts.loop_files import keep, kept, scores_of
from scripts.loop_measure import FOLDS, VOTES, Facts, Figure, Pools, Scores, percent, table_line, with_interval

STEPS, SETS = "processbench", ("gsm8k-test", "math-500")


def trained(out: Path, arm: str) -> dict[str, Facts]:
    """The facts of an arm's PRMs that have scores of steps, by name."""
    found = {f.parent.name.removeprefix("prm-"): f for f in sorted(out.glob(f"prm-{arm}-*/facts.json"))}
    seeds = {name: file for name, file in found.items() if name.removeprefix(f"{arm}-").isdigit()}
    return {
        name: kept(file, validation=dict, labels=dict)
        for name, file in seeds.items() if score_file(out, name, STEPS).is_file()
    }  # fmt: skip


def score_file(out: Path, prm: str, on: str) -> Path:
    return out / f"scores-{prm}-{on}.jsonl.gz"


def compare(out: Path, data: Path, names: Sequence[str], against: str, seed: int = 0) -> dict[str, Any]:
    """Arm -> its labels and figures; arms without scores are left out."""
    arms = {arm: facts for arm in names if (facts := trained(out, arm))}
    if against not in arms:
        raise ValueError(f"there are no scores of {against}-0 on {STEPS} in {out}, which the others are held against")
    f1 = first_errors(out, data, arms, seed)
    found: dict[str, Any] = {}
    for arm, facts in arms.items():
        mean_R = np.mean([*f1[arm].values()], axis=0)
        difference, _ = paired_resamples(mean_R, np.mean([*f1[against].values()], axis=0))
        found[arm] = {
            "labels": _labels(facts),
            "thresholds": {name: each["validation"]["threshold"] for name, each in facts.items()},
            "f1": percent(from_resamples(mean_R)),
            "f1, each": {name: percent(from_resamples(each_R)) for name, each_R in f1[arm].items()},
            f"f1 − {against}": percent(difference),
        }
        for on in SETS:
            if all(score_file(out, name, on).is_file() for name in facts):
                found[arm][on] = choices(out, on, [*facts], seed)
    return found


def _labels(facts: Mapping[str, Facts]) -> dict[str, Any]:
    """What was learned from, by its names, and how much, on the mean over the trainings."""
    counts = [[*each["labels"].values()] for each in facts.values()]
    keys = ("traces", "steps", "below one half", "generated tokens")
    return {
        "rows": [*next(iter(facts.values()))["labels"]],
        **{key: round(fmean(sum(part[key] for part in each) for each in counts)) for key in keys},
    }


def first_errors(
    out: Path, data: Path, arms: Mapping[str, Mapping[str, Facts]], seed: int
) -> dict[str, dict[str, Floats]]:
    """Arm -> PRM -> mean F1 of the splits on the same cases and resamples of them; entry 0 is the figure."""
    scores: dict[str, Scores] = {n: scores_of(score_file(out, n, STEPS)) for facts in arms.values() for n in facts}
    both = set.intersection(*(set(each) for each in scores.values()))
    benchmark: Benchmark = create("benchmark", STEPS, data=data / STEPS)
    cases = [case for case in benchmark.cases if (case.split, case.trajectory.id) in both]
    weights_RN = case_weights([case.split for case in cases], seed, RESAMPLES)

    def f1(name: str, facts: Facts) -> Floats:
        said = [Judgement(c.trajectory.id, tuple(scores[name][c.split, c.trajectory.id]), name) for c in cases]
        with naming(out / f"prm-{name}" / "facts.json"):
            threshold = float(facts["validation"]["threshold"])
        found: Floats = benchmark.measure(cases, said, threshold, weights_RN)["mean"]["f1"]
        return found

    return {arm: {name: f1(name, each) for name, each in facts.items()} for arm, facts in arms.items()}


def choices(out: Path, on: str, prms: Sequence[str], seed: int) -> dict[str, Any]:
    """The best and the weighted vote of 16 samples less the majority's, steps folded in both ways."""
    scores = {name: scores_of(score_file(out, name, on)) for name in prms}
    first = {trace.id for pool in Pools(pool_file(out, on), seed).traces for trace in pool[:VOTES]}
    scored = set.intersection(*({trace for _, trace in each} for each in scores.values()))
    pools = Pools(pool_file(out, on), seed, traces=first & scored)
    n, majority = pools.size, pools.majority(pools.size)
    found: dict[str, Any] = {
        "problems": len(pools.traces), "n": n, "majority": percent(bootstrap_mean(majority, seed)),
    }  # fmt: skip
    for fold in FOLDS:
        folded = {name: pools.folded(each, fold) for name, each in scores.items()}
        for rule, choose in (("best", pools.chosen), ("weighted", pools.voted)):
            each = {name: choose(values, n) - majority for name, values in folded.items()}
            found[f"{rule}, {fold} − majority"] = percent(bootstrap_mean(np.mean([*each.values()], axis=0), seed))
            found[f"{rule}, {fold} − majority, each"] = {
                name: round(100 * float(np.mean(values)), 2) for name, values in each.items()
            }
    return found


def table(found: Mapping[str, Any], fold: str = "last") -> str:
    """An arm a line, the best first; what each training gave stands behind its mean."""
    (against,) = {key.removeprefix("f1 − ") for facts in found.values() for key in facts if key.startswith("f1 − ")}
    rules = [(on, rule) for on in SETS for rule in ("best", "weighted") if any(on in facts for facts in found.values())]
    heads = [f"{on}: {rule} of {VOTES} − majority" for on, rule in rules]
    lines = [
        table_line(
            ["labels", "traces", "steps", "generated tokens", "ProcessBench F1", "each", f"− {against}", *heads]
        ),
        table_line(["---", *["---:"] * 3, "---:", "---", *["---:"] * (1 + len(heads))]),
    ]
    for arm, facts in sorted(found.items(), key=lambda each: -_number(each[1]["f1"])):
        counts = [f"{facts['labels'][key]:,}" for key in ("traces", "steps", "generated tokens")]
        each = ", ".join(f"{_number(figure):.1f}" for figure in facts["f1, each"].values())
        less = "" if arm == against else with_interval(facts[f"f1 − {against}"], "+")
        cells = [
            with_interval(facts[on][f"{rule}, {fold} − majority"], "+") if on in facts else "" for on, rule in rules
        ]
        lines.append(table_line([f"`{arm}`", *counts, with_interval(facts["f1"]), each, less, *cells]))
    return "\n".join(lines) + "\n"


def _number(figure: Figure) -> float:
    return figure[0] if figure[0] is not None else -np.inf


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of scripts/loop.py")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds processbench")
    parser.add_argument("--arms", nargs="+", required=True, help="names of PRMs without their seeds")
    parser.add_argument("--against", default="mc", help="the arm that the others are held against")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    args = arguments(given)
    found = compare(args.out, args.data, args.arms, args.against)
    keep(args.out / "arms.json", found)
    (args.out / "arms.md").write_text(table(found), encoding="utf-8")
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
