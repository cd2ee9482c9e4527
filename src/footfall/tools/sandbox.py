"""Run code that a model wrote: bubblewrap namespaces, limits on everything, a plain result whatever the code did.

`Sandbox().run(code)` never raises because of the code. It refuses to run where the walls cannot be built, unless
`allow_unsandboxed=True` says that limits alone are enough; the result then carries a warning.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import TracebackType
from typing import Literal, cast, get_args

from footfall.tools._sandbox_walls import SandboxError, Start, why_no_walls
from footfall.tools._sandbox_watch import Limits, Result

TestStatus = Literal["pass", "fail", "error", "timeout"]
_BYTES_PER_TEST = 2048
_LONGEST_JOB = 4 << 20
"""Characters of programs and tests; reading more would take what memory the program may have."""
_OVERHEAD_SECONDS = 1.0
_LAST_SECONDS = 2.0
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

    def run_tests(self, program: str, tests: Sequence[str], reference: str = "") -> list[TestResult]:
        """Run each test (an assert statement, or a few statements) against a fresh copy of `program`.

        Test and program run in two processes: the program only gets the arguments of a call and gives back plain data, so
        neither printing, leaving early nor looking around can make a test pass. A test takes from the program what the
        `reference`, a program that you trust, defines at its top; without one, its names that are not Python's.
        """
        return self._tested([], [(0, program)], tests, reference, report_limits(self.limits, len(tests)), first=False)

    def run_variants(
        self, lines: Sequence[str], changes: Sequence[tuple[int, str]], tests: Sequence[str], seconds: float = 0.25
    ) -> list[TestResult]:
        """The tests against many programs, each the `lines` with one of them changed: the first test it fails, or a pass.

        A test may take `seconds`, and eight times as long if it had no processor in that time: what a line is blamed for must
        not depend on how busy the machine is. All together take four times as long as one program; what is not reached by then
        is a timeout.
        """
        wide = replace(report_limits(self.limits, len(changes)), seconds=4 * self.limits.seconds)
        return self._tested(lines, changes, tests, "", wide, first=True, seconds=seconds)

    def _tested(
        self,
        lines: Sequence[str],
        changes: Sequence[tuple[int, str]],
        tests: Sequence[str],
        reference: str,
        limits: Limits,
        first: bool,
        seconds: float | None = None,
    ) -> list[TestResult]:
        judged = [" and ".join(tests)] * len(changes) if first else list(tests)
        if not tests or not changes:
            return []
        job = json.dumps({"tests": list(tests), "reference": reference})
        if sum(map(len, (job, *lines, *(text for _, text in changes)))) > _LONGEST_JOB:
            return [TestResult(test, "error", f"over {_LONGEST_JOB >> 20} MiB of text is not run") for test in judged]
        payload = {
            "lines": list(lines),
            "changes": list(changes),
            "seconds": seconds or self.limits.seconds,
            "first": first,
        }
        return read_report(judged, replace(self, limits=limits)._run("_inside_tests", payload, job, {}))

    def session(self) -> SandboxSession:
        """A sandbox that keeps its names between calls of `run`; use it in a `with` statement."""
        start = self._start()
        return SandboxSession(start, "" if start.walls else _WARNING)

    def _start(self) -> Start:
        reason = why_no_walls()
        if reason is not None and not self.allow_unsandboxed:
            how = "allow_unsandboxed=True (--set allow_unsandboxed=true)"
            raise SandboxError(f"code is not run without a sandbox: {reason}; or pass {how}")
        if reason is not None:
            warnings.warn(f"code {_WARNING}", stacklevel=4)
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


class SandboxSession:
    """Runs blocks in one Python behind the walls. A limit that is passed ends the session; later blocks are told so.

    Between blocks the process is stopped, and processes that a block left behind are ended; a thread that outlives its block
    ends the session.

    A session belongs to the thread that started it: the kernel ends it with that thread.
    """

    def __init__(self, start: Start, warning: str = "") -> None:
        self._limits, self._warning = start.limits, warning
        self._over = ""
        self._replies, their_end = os.pipe()
        with ExitStack() as stack:
            stack.callback(os.close, self._replies)
            folder = None if start.walls else stack.enter_context(tempfile.TemporaryDirectory())
            payload = {"replies": their_end, "cpu_seconds": start.limits.cpu_seconds}
            try:
                self._watch = start("_inside_session", payload, {}, None, folder, (their_end,), cpu_limited=False)
            finally:
                os.close(their_end)
            stack.callback(self._watch.end)
            self._stack = stack.pop_all()

    @property
    def alive(self) -> bool:
        """Whether another block can run."""
        return not self._over

    def run(self, code: str) -> Result:
        """Run one block after those before it. `exit_code` is 1 if it raised; the names it set stay."""
        if self._over:
            return Result("", f"the session is over: {self._over}", None, killed_by="session", warning=self._warning)
        began = time.monotonic()
        self._watch.forget()
        self._watch.wake()
        sign = secrets.token_hex(8)
        self._watch.give(json.dumps([sign, code]).encode() + b"\n")
        how, exit_code = self._reply(sign, began + self._limits.seconds)
        if exit_code is not None:
            left = self._watch.rest()
            self._watch.drain()
            if left:
                self._end(left)
        else:
            if how == "sign":  # the pipe is closed: the process is about to end, and bubblewrap to say how
                how = self._watch.until(None, _LAST_SECONDS)
            self._end(f"its limit on {how} was passed" if how != "exit" else "its process ended")
            exit_code = self._watch.exit_code()
        return self._watch.result(how, time.monotonic() - began, exit_code, self._warning)

    def _reply(self, sign: str, deadline: float) -> tuple[str, int | None]:
        """How the wait for a reply ended, and the block's exit code if there is one; only what bears its sign is a reply."""
        said = b""
        while True:
            how = self._watch.until(self._replies, deadline - time.monotonic())
            more = os.read(self._replies, 1024) if how == "sign" else b""
            if not more:
                return how, None
            *lines, said = (said[-256:] + more).split(b"\n")
            for line in lines:
                if line.startswith(f"{sign} ".encode()):
                    return how, _number(line.split()[1])

    def close(self) -> None:
        """End the process and all it started."""
        if not self._over:
            self._end("it was closed")

    def _end(self, reason: str) -> None:
        self._over = reason
        self._stack.close()

    def __enter__(self) -> SandboxSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _number(reply: bytes) -> int:
    """The block's exit code; code that writes to the reply pipe itself can only spoil its own."""
    try:
        return int(reply[:20]) & 0xFF
    except ValueError:
        return 1


@dataclass(frozen=True)
class TestResult:
    """One test's outcome: `fail` is a false assertion, `error` anything else that went wrong, with the reason."""

    __test__ = False  # not a test of pytest

    test: str
    status: TestStatus
    detail: str = ""
    judged: bool = True
    """Whether the tests got so far before they were ended."""

    @property
    def passed(self) -> bool:
        return self.status == "pass"


def report_limits(limits: Limits, tests: int) -> Limits:
    """The limits of the whole sandbox when each of `tests` tests may use the time of one program."""
    return replace(
        limits,
        seconds=max(1, tests) * (limits.seconds + _OVERHEAD_SECONDS),
        output_bytes=max(limits.output_bytes, tests * _BYTES_PER_TEST),
        processes=limits.processes + 3,
    )


def read_report(tests: Sequence[str], result: Result) -> list[TestResult]:
    """One result for each test; those that the report does not reach are errors and say what ended it."""
    results = []
    for test, line in zip(tests, result.stdout.splitlines(keepends=True), strict=False):
        if not line.endswith("\n"):
            break  # it was ended while writing
        status, detail = json.loads(line)
        assert status in get_args(TestStatus)
        results.append(TestResult(test, cast(TestStatus, status), detail.encode("utf-8", "replace").decode()))
    how = result.killed_by or f"exit code {result.exit_code}"
    status_left: TestStatus = "timeout" if result.timed_out else "error"
    reason = f"the tests were ended before this one was judged: {how}"
    return [*results, *(TestResult(test, status_left, reason, False) for test in tests[len(results) :])]
