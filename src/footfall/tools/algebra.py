"""Checks on equations over the real numbers, by computer algebra: three-valued, with the reason, and never a hang.

Text is read by a small grammar of its own, so nothing that a model wrote is evaluated. sympy runs in one helper process a
program with a limit on processor time and memory; a question that needs more is answered "not known".
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from footfall._answers_algebra import _Worker
from footfall.tools._algebra_parse import AlgebraError, parse_equation, parse_expression

__all__ = [
    "AlgebraError", "Check", "equivalent", "implied", "parse_equation", "parse_expression", "solves", "step_follows",
]  # fmt: skip

CPU_SECONDS = 5.0
"""Processor time for one question, counted in the helper process, so that a busy machine changes nothing."""


@dataclass(frozen=True)
class Check:
    """Three-valued: `holds` is `None` if it is not known; `reason` says why, and for a "no" shows a value."""

    holds: bool | None
    reason: str

    def __bool__(self) -> bool:
        raise TypeError("a check has three values: compare `.holds` with True, False or None")


def equivalent(a: str, b: str) -> Check:
    """Whether two expressions are equal wherever both are defined, or two equations have the same solutions."""
    if "=" in a and "=" in b:
        return step_follows(a, b)
    try:
        return _ask("equivalent", parse_expression(a), parse_expression(b))
    except AlgebraError as error:
        return Check(None, f"not read: {error}")


def solves(equation: str, variable: str, value: str) -> Check:
    """Whether the equation is true with `value` for `variable`; with other names in it, for all their values."""
    try:
        return _ask("solves", parse_equation(equation), variable, parse_expression(value))
    except AlgebraError as error:
        return Check(None, f"not read: {error}")


def step_follows(previous_equation: str, next_equation: str) -> Check:
    """Whether the two equations have the same real solutions; if not, `reason` names one that only one of them has."""
    try:
        return _ask("follows", parse_equation(previous_equation), parse_equation(next_equation))
    except AlgebraError as error:
        return Check(None, f"not read: {error}")


def implied(premises: Sequence[str], conclusion: str) -> Check:
    """Whether every common solution of the premises solves the conclusion; not known unless there are finitely many."""
    try:
        return _ask("implied", [parse_equation(premise) for premise in premises], parse_equation(conclusion))
    except AlgebraError as error:
        return Check(None, f"not read: {error}")


def _ask(*question: object) -> Check:
    return _asked(json.dumps(question))


@lru_cache(maxsize=1 << 14)
def _asked(question: str) -> Check:
    reply = _worker.ask(question)
    if not reply:
        return Check(None, f"computer algebra took more than {CPU_SECONDS} s or too much memory")
    holds, reason = json.loads(reply)
    return Check(holds, reason)


class _AlgebraWorker(_Worker):
    """The helper process of answer comparison, with another program in it."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = threading.Lock()

    def ask(self, line: str) -> str:
        with self.turn:
            self.process = self.process or _start()
            return super().ask(line)


def _start() -> subprocess.Popen[str]:
    path = [entry for entry in sys.path if entry]  # not the folder the caller stands in
    script = f"import sys; sys.path[:] = {path!r}; from footfall.tools._algebra_worker import main; main({CPU_SECONDS})"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env={**os.environ, "PYTHONHASHSEED": "0"},
        start_new_session=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.kill()
        process.communicate()
        raise RuntimeError("the computer-algebra process does not start: is sympy installed? (`pip install sympy`)")
    return process


def _forget_worker() -> None:
    global _worker
    _worker = _AlgebraWorker()


_worker = _AlgebraWorker()
atexit.register(lambda: _worker.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_worker)  # a pipe must not be shared with a forked child
