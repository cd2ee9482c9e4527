"""Readers of formal steps: what a tool that can prove or compute says of each step of a trace, with the reason."""

import re
from dataclasses import replace

from footfall.formal.deduction import judge_deduction
from footfall.formal.equations import judge_equations
from footfall.formal.programs import judge_programs
from footfall.formal.verdict import Verdict
from footfall.tools import Sandbox
from footfall.types import Trajectory

__all__ = ["Verdict", "verdicts"]


_LONGEST_PROBLEM, _LONGEST_STEP, _LONGEST_TRACE = 20_000, 4_000, 100_000
_ENDLESS = re.compile(r"\s{100}|\d{100}")
"""The rules of these readers take more than linear time on such runs, which nobody writes."""


def verdicts(trajectory: Trajectory, sandbox: Sandbox | None = None) -> list[Verdict]:
    """What the tool of the problem's domain says of each step, with the reason. A step of endless text is not read."""
    left, unread = _LONGEST_TRACE, {}
    for k, step in enumerate(trajectory.steps):
        left -= len(step.text)
        if left < 0 or _endless(step.text, _LONGEST_STEP):
            unread[k] = Verdict(None, f"the step is not read: {_LONGEST_STEP} characters at most, no endless runs")
    if _endless(trajectory.problem.text, _LONGEST_PROBLEM):
        return [Verdict(None, "the problem is too long to be read")] * len(trajectory.steps)
    if unread:
        steps = tuple(replace(step, text="") if k in unread else step for k, step in enumerate(trajectory.steps))
        trajectory = replace(trajectory, steps=steps)
    return [unread.get(k, verdict) for k, verdict in enumerate(_verdicts(trajectory, sandbox))]


def _endless(text: str, longest: int) -> bool:
    return len(text) > longest or _ENDLESS.search(text) is not None


def _verdicts(trajectory: Trajectory, sandbox: Sandbox | None) -> list[Verdict]:
    domain = trajectory.problem.domain
    if domain == "logic":
        return judge_deduction(trajectory)
    if domain == "code":
        return judge_programs([trajectory], sandbox or Sandbox())[0]
    return judge_equations(trajectory)
