"""A labeller of your own: it asks a policy to finish each prefix, and its labels are held against the truth.

    python examples/labeller_of_your_own.py

From the command line: footfall label --data traces.jsonl --method examples/labeller_of_your_own.py:AnySuccess --policy embedded
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from footfall.policy.protocol import Policy, SamplingParams, draw_traces
from footfall.types import Judgement, Reason, Trajectory, Unjudged, failures_of
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge


@dataclass(frozen=True)
class AnySuccess:
    """A step is good if at least one of a few rollouts after it ends in the reference answer."""

    policy: Policy
    rollouts: int = 4
    params: SamplingParams = SamplingParams(max_tokens=128)

    @property
    def name(self) -> str:
        """Whose rollouts, and how many: judgements are stored under it."""
        return f"any-success({self.policy.name},n={self.rollouts})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """All prefixes of all traces in one batch."""
        prefixes = [trace.prefix(k + 1) for trace in trajectories for k in range(len(trace.steps))]
        drawn = iter(draw_traces(self.policy, prefixes, self.rollouts, self.params))
        made = []
        for trace in trajectories:
            rows = [next(drawn) for _ in trace.steps]
            known = trace.problem.answer is not None
            values = tuple(float(any(ended.correct for ended in row)) if known else None for row in rows)
            missing = Unjudged(Reason.NO_REFERENCE, "the problem has no reference answer")
            made.append(
                Judgement(trace.id, values, self.name, failures=failures_of(None if known else missing for _ in rows))
            )
        return made


def main(words: list[str] | None = None) -> int:
    """How often the labels agree with the truth: one rollout misses good steps, many forgive an error that is mended later."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=50)
    given = parser.parse_args(words)
    policy = ArithmeticPolicy()
    traces = [trace for _, trace in ArithmeticWorld().traces(policy, given.traces)]
    truth = TruthJudge().judge(traces)
    for rollouts in (1, 4, 16):
        said = AnySuccess(policy, rollouts).judge(traces)
        pairs = [(a, b) for x, y in zip(said, truth, strict=True) for a, b in zip(x.values, y.values, strict=True)]
        known = [(a > 0.5) == (b > 0.5) for a, b in pairs if a is not None and b is not None]
        sys.stdout.write(
            f"{rollouts:>2} rollouts: {sum(known) / len(known):.1%} of {len(known)} labels as in the truth\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
