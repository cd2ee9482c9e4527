"""How fast the labels in `examples/coder_1_5b_labels` were made, from the labels and the plan's records of seconds."""

from __future__ import annotations

import json
from pathlib import Path

from footfall.formats import read_parquet
from scripts.loop_measure import table_line

LABELS = Path(__file__).parent.parent / "examples" / "coder_1_5b_labels"
METHODS = {
    "monte-carlo": "Monte Carlo, 8 rollouts a step",
    "omegaprm": "OmegaPRM's binary search",
    "critic": "the critic",
}
BESIDE = {"monte-carlo": "two trainings", "omegaprm": "a training and a pool", "critic": "Monte Carlo"}
"""What ran on the same GPU, besides the stage of the other set."""
SETS = {"gsm8k-train": "GSM8K", "math-train": "MATH"}


def table() -> str:
    """One row a method and set; the seconds are the stage's, loading the model included."""
    head = [
        "labels",
        "solutions of",
        "labelled steps",
        "tokens generated",
        "seconds",
        "labelled steps a second",
        "tokens a second",
        "beside",
    ]
    lines = [table_line(head), table_line(["---", "---", *["---:"] * 5, "---"])]
    for method, name in METHODS.items():
        for on, title in SETS.items():
            stage = f"label-{method}-{on}"
            said = [row.judgement for row in read_parquet(LABELS / f"{stage}.parquet", "judged")]
            steps = sum(value is not None for each in said for value in each.values)
            tokens = sum(each.cost.generated_tokens for each in said)
            seconds = json.loads((LABELS / "plan" / f"{stage}.json").read_text(encoding="utf-8"))["seconds"]
            figures = [
                f"{steps:,}",
                f"{tokens:,}",
                f"{seconds:.0f}",
                f"{steps / seconds:.1f}",
                f"{tokens / seconds:,.0f}",
            ]
            lines.append(table_line([name, f"{len(said)}, {title}", *figures, BESIDE[method]]))
    return "\n".join(lines) + "\n"
