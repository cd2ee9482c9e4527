"""A judge of your own, measured: first-error F1 and step AUC with 95% intervals, beside judges that know nothing.

    python examples/judge_of_your_own.py

The same from the command line, which also writes a page:

    footfall bench steps --data world:arithmetic:200 --policy scripted-arithmetic --judge examples/judge_of_your_own.py:Sums
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from footfall.benchmarks.runner import know_nothing, run
from footfall.benchmarks.steps import steps
from footfall.types import Judged, Judgement, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

_SUM = re.compile(r"(\d+) ([+*/-]) (\d+) = (\d+)")


@dataclass(frozen=True)
class Sums:
    """A step is right if the sum in it is; one without a sum says nothing and gets `unsure`."""

    unsure: float = 0.9

    @property
    def name(self) -> str:
        """Tells settings apart, since judgements are stored under it."""
        return f"sums(unsure={self.unsure:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One value for each step."""
        return [Judgement(t.id, tuple(self._value(s.text) for s in t.steps), self.name) for t in trajectories]

    def _value(self, text: str) -> float:
        found = _SUM.search(text)
        if found is None:
            return self.unsure
        a, b, c = int(found[1]), int(found[3]), int(found[4])
        results = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else None}
        return float(results[found[2]] == c)


def main(words: list[str] | None = None) -> int:
    """Traces with known truth, the judge's figures, and those of judges that know nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=200)
    given = parser.parse_args(words)
    traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), given.traces)]
    rows = [Judged(trace, truth) for trace, truth in zip(traces, TruthJudge().judge(traces), strict=True)]
    benchmark = steps(rows)
    reports = [run(benchmark, Sums()), *know_nothing(benchmark, benchmark.cases, seed=0).values()]
    for report in reports:
        figures = report.main_row().figures
        sys.stdout.write(f"{report.judge:<20} F1 {figures['f1']}   AUC {figures['auc']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
