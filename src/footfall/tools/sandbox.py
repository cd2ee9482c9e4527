"""Run code that a model wrote: bubblewrap namespaces, limits on everything, a plain result whatever the code did.

`Sandbox().run(code)` never raises because of the code. It refuses to run where the walls cannot be built, unless
`allow_unsandboxed=True` says that limits alone are enough; the result then carries a warning.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from footfall.tools._sandbox_session import SandboxSession
from footfall.tools._sandbox_tests import TestResult, read_report, report_limits
from footfall.tools._sandbox_walls import SandboxError, Start, why_no_walls
from footfall.tools._sandbox_watch import Limits, Result

__all__ = ["Limits", "Result", "Sandbox", "SandboxError", "SandboxSession", "TestResult", "why_no_walls"]

_WARNING = "ran without a sandbox: limits on time, memory and files, but the code could read and reach what you can"


@dataclass(frozen=True)
class Sandbox:
    """Runs Python programs behind walls. `packages` are installed packages that the programs may import."""

    limits: Limits = field(default_factory=Limits)
    allow_unsandboxed: bool = False
    packages: tuple[str, ...] = ()

    def run(self, code: str, stdin: str = "", files: Mapping[str, str] = {}) -> Result:
        """Run `code` as `python main.py` in an empty folder that holds `files`, and report what came of it."""
        return self._run("_inside_run", {"code": code}, stdin, files)

    def run_many(self, codes: Sequence[str], workers: int = 2) -> list[Result]:
        """Each program in a sandbox of its own, `workers` at a time; results in the order of the programs."""
        with ThreadPoolExecutor(max_workers=workers) as pool:
            return list(pool.map(self.run, codes))

    def run_tests(self, program: str, tests: Sequence[str]) -> list[TestResult]:
        """Run each test (an assert statement, or a few statements) against a fresh copy of `program`.

        Test and program run in two processes: the program only gets the arguments of a call and gives back plain data, so
        neither printing, leaving early nor looking around can make a test pass.
        """
        if not tests:
            return []
        wide = replace(self, limits=report_limits(self.limits, len(tests)))
        payload = {"code": program, "seconds": self.limits.seconds}
        result = wide._run("_inside_tests", payload, json.dumps(list(tests)), {})
        return read_report(tests, result)

    def session(self) -> SandboxSession:
        """A sandbox that keeps its names between calls of `run`; use it in a `with` statement."""
        start = self._start()
        return SandboxSession(start, "" if start.walls else _WARNING)

    def _start(self) -> Start:
        reason = why_no_walls()
        if reason is not None and not self.allow_unsandboxed:
            how = "allow_unsandboxed=True (--set allow_unsandboxed=true)"
            raise SandboxError(f"code is not run without a sandbox: {reason}; or pass {how}")
        return Start(self.limits, self.packages, walls=reason is None)

    def _run(self, job: str, payload: Mapping[str, object], stdin: str, files: Mapping[str, str]) -> Result:
        start = self._start()
        _check_names(files)
        with nullcontext() if start.walls else tempfile.TemporaryDirectory() as folder:
            watch = start(job, payload, files, stdin.encode("utf-8", "replace"), folder)
            began = time.monotonic()
            try:
                how = watch.until(None, self.limits.seconds)
                seconds = time.monotonic() - began
            finally:
                watch.end()
        return watch.result(how, seconds, watch.exit_code(), "" if start.walls else _WARNING)


def _check_names(files: Mapping[str, str]) -> None:
    for name in files:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise ValueError(f"file {name!r}: give a path inside the program's own folder")
