"""What the strategy of an arithmetic solution is worth: how often somebody who follows it comes to the right answer.

ReasonFlux-PRM has a language model write the strategy as a template without results, and a policy answer by it. Here the
template is the start and the operations that the solution's equations name, in their order; the scripted policy carries
them out, and slips as often as otherwise. So a solution with a slip in it may have a good strategy, and one that misread the
problem has not, whatever its own answer is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from footfall.drive.rollouts import Tally, write
from footfall.lab.shared.flaws import Line
from footfall.policy.protocol import Policy, SamplingParams
from footfall.types import Json, Judgement, Problem, Trajectory


def strategy(trace: Trajectory) -> list[Line]:
    """The equations that the answer rests on: one that begins where an earlier one did takes the place of what came after."""
    kept: list[Line] = []
    for line in filter(None, (Line.read(step.text) for step in trace.steps)):
        if kept and line.left != kept[-1].result:
            redone = [k for k, earlier in enumerate(kept) if earlier.left == line.left]
            kept = kept[: redone[-1]] if redone else kept
        kept.append(line)
    return kept


@dataclass(frozen=True)
class Followed:
    """Values a trace by the share of `solutions` that are right where the policy follows its strategy."""

    policy: Policy
    solutions: int = 4
    params: SamplingParams = SamplingParams()

    @property
    def name(self) -> str:
        return f"followed({self.policy.name},n={self.solutions},seed={self.params.seed})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One value a trace, none of its steps. Who names no operation has no strategy, and that is worth 0."""
        followed = [Trajectory(t.id, _told(t), separator=t.separator) if strategy(t) else None for t in trajectories]
        rows = iter(write(self.policy, [each for each in followed if each], self.solutions, self.params))
        found = []
        for trace, prefix in zip(trajectories, followed, strict=True):
            tally = Tally()
            if prefix:
                tally.add(prefix, next(rows), self.policy.name)
            value = tally.successes / self.solutions
            found.append(Judgement(trace.id, (None,) * len(trace.steps), self.name, value, cost=tally.cost))
        return found


def _told(trace: Trajectory) -> Problem:
    """The problem of the trace, its operations being those of the strategy, none of them in a misleading wording."""
    lines = strategy(trace)
    ops: list[Json] = [[line.symbol, line.right] for line in lines]
    tricky: list[Json] = [False] * len(lines)
    meta = {**trace.problem.meta, "start": lines[0].left, "ops": ops, "tricky": tricky}
    return replace(trace.problem, meta=meta)
