"""A critic that rewrites wrong steps, as `RefinedBestOf` asks it to, with a scripted policy's skill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.search.refined_bon import MARK
from footfall.types import Problem, Step, Trajectory

__all__ = ["Reviser"]

_ASKED = re.compile(
    r"\[Question\]\n(?P<question>.*?)\n\n\[Steps before it, which are right\]\n(?P<before>.*?)\n\n\[Wrong step\]\n",
    re.DOTALL,
)


@dataclass(frozen=True)
class Reviser:
    """Reads the question that it is asked and writes the step anew as `writer` would: its errors are the writer's."""

    writer: Policy
    problems: Sequence[Problem]
    """The problems that it can be asked about."""
    separator: str = "\n"

    @property
    def name(self) -> str:
        return f"reviser({self.writer.name})"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        known = {problem.text: problem for problem in self.problems}
        tops = [self._place(prefix.problem.text, known) for prefix in prefixes]
        rows = self.writer.sample(tops, n, replace(params, until="step"), first)
        return [[_reply(completion) for completion in row] for row in rows]

    def _place(self, asked: str, known: dict[str, Problem]) -> Trajectory:
        """The trace as it stands before the wrong step."""
        found = _ASKED.search(asked)
        if found is None or found["question"] not in known:
            raise ValueError(f"the reviser was asked about a problem that it does not know: {asked[:80]!r}")
        lines = [] if found["before"] == "(nothing)" else found["before"].split("\n")
        problem = known[found["question"]]
        return Trajectory(problem.id, problem, tuple(map(Step, lines)), separator=self.separator)


def _reply(completion: Completion) -> Completion:
    return replace(completion, steps=tuple(Step(f"{MARK} {step.text}") for step in completion.steps), finish="end")
