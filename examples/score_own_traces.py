"""Score traces from a JSONL file whose fields have names of your own.

    python examples/score_own_traces.py --judge runs/prm

The same from the command line: footfall score mine.jsonl --map problem=question_text steps=cot --judge runs/prm
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import footfall
from footfall import formats

MINE = [
    {"question_text": "Tom has 3 boxes of 4 pens. How many pens?", "cot": ["3 * 4 = 12", "The answer is 12."]},
    {"question_text": "Mia has 14 marbles and loses 5. How many?", "cot": ["14 - 5 = 8", "The answer is 8."]},
]


def main(words: list[str] | None = None) -> int:
    """Write a small file, read it, score it, print values."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=Path("mine.jsonl"))
    parser.add_argument(
        "--judge", default="formal", help="a folder of `footfall train`, a published PRM, or a registered name"
    )
    given = parser.parse_args(words)
    if not given.file.exists():
        given.file.write_text("".join(json.dumps(record) + "\n" for record in MINE), encoding="utf-8")
    rows = formats.read(given.file, names={"problem": "question_text", "steps": "cot"})
    judge = footfall.load(given.judge)
    for said, (trace, _) in zip(judge.judge([trace for trace, _ in rows]), rows, strict=True):
        sys.stdout.write(f"{trace.problem.text}\n")
        for step, value in zip(trace.steps, said.values, strict=True):
            sys.stdout.write(f"  {'   –' if value is None else f'{value:.2f}'}  {step.text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
