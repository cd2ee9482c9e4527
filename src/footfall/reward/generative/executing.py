"""Running the code that a critic writes: in a sandbox, with a plain answer whatever the code does.

Every block runs by itself, in a sandbox of its own: names that an earlier block set are not there. (GenPRM's own code keeps
them from block to block.)
"""

from __future__ import annotations

from footfall.reward.generative.genprm import Execute
from footfall.tools import Result, Sandbox

__all__ = ["in_sandbox", "observation"]


def in_sandbox(sandbox: Sandbox | None = None) -> Execute:
    """An `execute` for GenPRM; by default a program has five seconds."""
    walls = sandbox or Sandbox()
    return lambda code: observation(walls.run(code), walls.limits.seconds)


def observation(result: Result, seconds: float) -> str:
    """What the critic reads: what was printed, and what ended the program if it did not end by itself."""
    lines = [result.stdout.rstrip()] if result.stdout.strip() else []
    if result.timed_out:
        lines.append(f"Code execution time out: it was stopped after {seconds:g} seconds")
    elif result.killed_by is not None:
        lines.append(f"Code execution was stopped: {result.killed_by}")
    elif not result.ok:
        lines.append((result.stderr.strip() or f"exit code {result.exit_code}").splitlines()[-1])
    return "\n".join(lines)
