"""Train a process reward model on step labels of your own, on the model that ships with the package, and score with it.

    python examples/train_a_prm.py --out runs/my-prm

A line of the file is {"problem": …, "steps": […], "labels": [1, 0.5, 0]}; null is a step without a label.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import footfall
from footfall import formats
from footfall.policy.embedded import EMBEDDED
from footfall.train import TrainConfig, train_prm
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge


def write_labels(file: Path, count: int) -> None:
    """Traces with true labels, in the place of yours."""
    traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), count)]
    with file.open("w", encoding="utf-8") as stream:
        for trace, said in zip(traces, TruthJudge().judge(traces), strict=True):
            record = {
                "problem": trace.problem.text,
                "steps": [step.text for step in trace.steps],
                "labels": said.values,
            }
            stream.write(json.dumps(record) + "\n")


def main(words: list[str] | None = None) -> int:
    """Labels to a PRM, held-out figures, and the values of one trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=Path("labels.jsonl"))
    parser.add_argument("--traces", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/my-prm"))
    given = parser.parse_args(words)
    if not given.file.exists():
        write_labels(given.file, given.traces)
    rows = formats.read(given.file)
    config = TrainConfig(epochs=given.epochs, eval_share=0.2, device="cpu")
    trained = train_prm(rows, EMBEDDED, config, given.out)
    sys.stdout.write(", ".join(f"{name} {value:.3f}" for name, value in trained.metrics.items()) + "\n")
    if (found := trained.first_error) is not None:
        beside = ", ".join(f"{name} {f1:.3f}" for name, f1 in found.sanity.items())
        sys.stdout.write(f"first-error F1 {found.f1:.3f}; judges that know nothing: {beside}\n")
    judge = footfall.load(trained.folder)
    (said,) = judge.judge([rows[0].trajectory])
    for step, value in zip(rows[0].trajectory.steps, said.values, strict=True):
        sys.stdout.write(f"  {value:.2f}  {step.text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
