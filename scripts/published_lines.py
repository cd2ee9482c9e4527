"""Claims of the ledger at real scale, from stored scores of published PRMs of 7B: adds to `src/footfall/recipes/real.json`.

    python -m scripts.published_lines --data shared/data

Best-of-N is among all 32 stored solutions of a problem, step values folded by their minimum; the interval is over problems.
First errors are those of 1,000 cases of ProcessBench: the threshold of each PRM is the one that is best on the GSM8K split, as
the benchmark has it, and the figure the mean F1 of the three others, bootstrapped over cases. A threshold that GSM8K chose need
not suit the others, so figures at 0.5 stand beside. Scores are stored up to the first error alone; what comes after it is not
asked for by this F1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from footfall.benchmarks.runner import Benchmark, Tuned, measured
from footfall.lab.ledger import REAL
from footfall.lab.recipe import RECIPES
from footfall.lab.shared.cases import Said
from footfall.metrics.intervals import RESAMPLES, Floats, from_resamples
from footfall.metrics.preferences import best_of
from footfall.registry import create
from footfall.types import Judgement
from scripts.pool_curves import Scored, read_scored
from scripts.real_lines import Arms, add_lines, lines
from scripts.smol_rows import read_lines

WRITER = "Stored solutions of a 7B model (Qwen2.5-7B-Instruct by its configuration), temperature 0.8, regraded"
PRM, SHEPHERD, PEOPLE = "Qwen2.5-Math-PRM-7B", "Math-Shepherd-Mistral-7B-PRM", "Qwen2.5-Math-7B-PRM800K"
FOLD = "min"


def choices(data: Path) -> Arms:
    """Whether the best of all stored solutions is right, by a PRM on filtered data and by one on Monte Carlo labels."""
    arms = {"Math-Shepherd's PRM": "math_shepherd", "PRM on filtered": "qwen_prm"}
    given = {arm: read_scored(data / "best_of_n", "gsm8k_500x32", f"{name}_gsm8k") for arm, name in arms.items()}
    values = {arm: np.asarray([_chosen(each) for each in scored]) for arm, scored in given.items()}
    return Arms(values, 1, _about(given["PRM on filtered"], f"{PRM} and {SHEPHERD}"))


def first_errors(data: Path) -> Arms:
    """Mean F1 of three splits of ProcessBench: PRMs on filtered data and on people's labels, at their thresholds and at 0.5."""
    rows = read_lines(data / "processbench_prm_scores" / "published_prm_scores.jsonl.gz")
    benchmark: Benchmark = create("benchmark", "processbench", data=data / "processbench")
    asked = {(row["split"], row["id"]) for row in rows}
    cases = [case for case in benchmark.cases if (case.split, case.trajectory.id) in asked]
    part = replace(benchmark, cases=cases)

    scored: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        scored.setdefault(row["model"], {})[row["id"]] = row["scores_to_first_error"]
    values: dict[str, Floats] = {}
    chosen = []
    for arm, model in {"PRM on people's labels": PEOPLE, "PRM on filtered": PRM}.items():
        scores = scored[model]
        said = [_padded(case.trajectory.id, scores[case.trajectory.id], len(case.trajectory.steps)) for case in cases]
        found = measured(part, Said.of(model, said), Tuned("gsm8k"), resamples=RESAMPLES)
        values[arm] = found.figures["mean"]["f1"]
        chosen.append(f"{found.report.threshold:.3f} for {model}")
        others = replace(part, cases=found.cases)
        values[f"{arm} at 0.5"] = measured(others, Said.of(model, found.judgements), 0.5, resamples=RESAMPLES).figures[
            "mean"
        ]["f1"]
    half = from_resamples(values["PRM on filtered at 0.5"] - values["PRM on people's labels at 0.5"])
    tested = sum(case.split != "gsm8k" for case in cases)
    scale = (
        f"{PRM} and {PEOPLE}, stored scores of {tested:,} cases of ProcessBench; thresholds of the fourth split "
        f"({', '.join(chosen)}). At 0.5 the difference is {half.value:+.3f} [{half.low:+.3f}, {half.high:+.3f}]."
    )
    return Arms(values, 1, scale, resampled=True)


def _about(given: Sequence[Scored], prms: str) -> str:
    return f"{WRITER}; {len(given[0].pool.cases)} of each of {len(given)} problems; {prms}, stored step scores."


def _chosen(each: Scored) -> float:
    return best_of(each.scores[FOLD], each.pool.correct, len(each.pool.cases))


def _padded(name: str, scores: Sequence[float], steps: int) -> Judgement:
    """Steps after the stored ones are called right: whether the first error was named is decided before them."""
    return Judgement(name, (*scores, *[1.0] * (steps - len(scores))), "stored")


MEASURED: dict[str, Callable[[Path], Arms]] = {"GSM8K": choices, "ProcessBench": first_errors}
"""What gives the arms, by the set that a claim of consensus-filter names."""


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds best_of_n and processbench")
    parser.add_argument("--to", type=Path, default=RECIPES / REAL)
    args = parser.parse_args(given)
    command = "python -m scripts.published_lines --data shared/data"
    sets = {f"{name}, published 7B models": arms_of for name, arms_of in MEASURED.items()}
    made = [line for on, arms_of in sets.items() for line in lines("consensus-filter", on, arms_of(args.data), command)]
    add_lines(args.to, made)


if __name__ == "__main__":
    main()
