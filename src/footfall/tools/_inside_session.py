"""Behind the walls: run blocks of code in one namespace, one after another. Sent as text; standard library only."""

from __future__ import annotations

import json
import linecache
import os
import sys
import traceback
from code import InteractiveInterpreter
from types import CodeType, ModuleType
from typing import Any


class Interpreter(InteractiveInterpreter):
    """Keeps one namespace and survives whatever a block raises; a block's exit code is 1 if it raised."""

    failed = False

    def showtraceback(self) -> None:
        self.failed = True
        kind, error, trace = sys.exc_info()
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("block "):
            trace = trace.tb_next
        traceback.print_exception(kind, error, trace)

    def run_block(self, code: str, name: str) -> int:
        self.failed = False
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            compiled: CodeType = compile(code, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            self.showtraceback()
            return 1
        try:
            self.runcode(compiled)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        return int(self.failed)


def main(payload: dict[str, Any]) -> None:
    import site

    site.setquit()
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    interpreter = Interpreter(module.__dict__)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # blocks read an empty stdin
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    for number, line in enumerate(requests, start=1):
        _limit_cpu(payload["cpu_seconds"])
        sign, code = json.loads(line)
        exit_code = interpreter.run_block(code, f"block {number}")
        for written in (sys.stdout, sys.stderr):
            written.flush()
        os.write(payload["replies"], f"{sign} {exit_code}\n".encode())


def _limit_cpu(seconds: int) -> None:
    """Processor time for the next block: what is used already and `seconds` more."""
    import resource
    import time

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + seconds, hard))
