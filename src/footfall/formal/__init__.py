"""Readers of formal steps: what a tool that can prove or compute says of each step of a trace, with the reason."""

from footfall.formal.deduction import judge_deduction
from footfall.formal.equations import judge_equations
from footfall.formal.programs import judge_programs
from footfall.formal.verdict import Verdict
from footfall.tools import Sandbox
from footfall.types import Trajectory

__all__ = ["Verdict", "verdicts"]


def verdicts(trajectory: Trajectory, sandbox: Sandbox | None = None) -> list[Verdict]:
    """What the tool of the problem's domain says of each step, with the reason."""
    domain = trajectory.problem.domain
    if domain == "logic":
        return judge_deduction(trajectory)
    if domain == "code":
        return judge_programs([trajectory], sandbox or Sandbox())[0]
    return judge_equations(trajectory)
