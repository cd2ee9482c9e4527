"""Behind the walls: run one program as `__main__`, as `python main.py` would. Sent as text; standard library only."""

from __future__ import annotations

import linecache
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Any

NAME = "main.py"


def main(payload: dict[str, Any]) -> None:
    import site

    site.setquit()  # `exit()`, which `python -S` leaves out
    code: str = payload["code"]
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [NAME]
    sys.excepthook = _report
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what was printed before a kill is kept
    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    exec(compile(code, NAME, "exec", dont_inherit=True), module.__dict__)


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The usual traceback without the frames that started the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)
