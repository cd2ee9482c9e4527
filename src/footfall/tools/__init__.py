"""What judges may call: sandboxed Python, computer algebra on equations, and logic.

`sandbox` runs code that a model wrote, `algebra` checks equations, `logic` decides whether a conclusion follows. sympy and Z3
are loaded when first asked.
"""

from footfall.tools._sandbox_cgroup import why_none as why_no_cgroup
from footfall.tools._sandbox_walls import SandboxError, why_no_walls
from footfall.tools._sandbox_watch import Limits, Result
from footfall.tools.algebra import Check, equivalent, solves, step_follows
from footfall.tools.logic import Entailment, entails
from footfall.tools.sandbox import Sandbox, SandboxSession, TestResult

__all__ = [
    "Check", "Entailment", "Limits", "Result", "Sandbox", "SandboxError", "SandboxSession", "TestResult", "entails",
    "equivalent", "solves", "step_follows", "why_no_cgroup",
    "why_no_walls",
]  # fmt: skip
