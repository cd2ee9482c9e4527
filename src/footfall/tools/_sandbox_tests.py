"""Unit tests of a program, seen from outside: what is sent into the sandbox and how its report is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from footfall.tools._sandbox_watch import Limits, Result

__all__ = ["TestResult", "TestStatus", "read_report", "report_limits"]

TestStatus = Literal["pass", "fail", "error", "timeout"]
_BYTES_PER_TEST = 2048
_OVERHEAD_SECONDS = 1.0


@dataclass(frozen=True)
class TestResult:
    """One test's outcome: `fail` is a false assertion, `error` anything else that went wrong, with the reason."""

    __test__ = False  # not a test of pytest

    test: str
    status: TestStatus
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "pass"


def report_limits(limits: Limits, tests: int) -> Limits:
    """The limits of the whole sandbox when each of `tests` tests may use the time of one program."""
    return replace(
        limits,
        seconds=tests * (limits.seconds + _OVERHEAD_SECONDS),
        output_bytes=max(limits.output_bytes, tests * _BYTES_PER_TEST),
        processes=limits.processes + 3,
    )


def read_report(tests: Sequence[str], result: Result) -> list[TestResult]:
    """One result for each test; those that the report does not reach are errors and say what ended it."""
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    results = []
    for test, (status, detail) in zip(tests, lines, strict=False):
        assert status in get_args(TestStatus)
        results.append(TestResult(test, cast(TestStatus, status), detail))
    how = result.killed_by or f"exit code {result.exit_code}"
    status_left: TestStatus = "timeout" if result.timed_out else "error"
    reason = f"the tests were ended before this one was judged: {how}"
    return [*results, *(TestResult(test, status_left, reason) for test in tests[len(results) :])]
