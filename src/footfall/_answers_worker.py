"""The computer-algebra side of answer comparison: a process of its own that reads requests and answers them.

It says `ready`, then takes one request a line (`["reads", a]`, `["form", a]` or `["same", a, b]`) and replies with one
line of JSON. Each request may use `cpu_seconds` of processor time: `9^{9^{9^9}}` sits inside one big-integer call that
no Python signal handler can interrupt, so the kernel ends the process and the caller starts another.
Run by `footfall.answers` only; other helper processes are served by `serve` as well.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MEMORY_BYTES = 4 << 30
LARGEST_EXPANDED = 12
"""Powers up to this one are multiplied out."""
ROUNDED, EXACT = 1e-4, 1e-25
"""Numbers further apart are two whatever they were rounded to, in proportion if they are large; numbers nearer are one."""
SMALL = 1e-3
"""Below this the places that math-verify rounds to do not tell numbers apart; and how far two may differ, in proportion."""
_ALGEBRA_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def main(cpu_seconds: float) -> None:
    """Compare answers until stdin ends."""
    logging.disable(logging.CRITICAL)
    serve(_answer, cpu_seconds, "math_verify", first=["same", "\\frac{\\pi}{2}", "x + 1"])


def serve(answer: Callable[[Any], object], cpu_seconds: float, *needs: str, first: object = None) -> None:
    """Say `ready`, then answer requests until stdin ends, within limits on memory and on each request's time.

    What it `needs` is imported first: a machine without it must not look like one where no answers agree. A `first` request is
    answered before, for what libraries load and build with their first is not that question's time.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not be read as a reply
    _limit_memory()
    for module in needs:
        importlib.import_module(module)
    if first is not None:
        answer(first)
    replies.write("ready\n")
    replies.flush()
    for line in sys.stdin:
        _limit_time(cpu_seconds)
        reply = answer(json.loads(line))
        _limit_time(0)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _limit_time(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF is left at its default: it ends the process


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _answer(request: list[str]) -> str | bool | None:
    kind, *texts = request
    if kind == "reads":
        return bool(_parse(texts[0]))
    return _form(texts[0]) if kind == "form" else _same(*texts)


def _same(a: str, b: str) -> bool:
    from math_verify import verify

    left, right = _parse(a), _parse(b)
    if not left or not right:
        return False
    by_value = _same_value(left[0], right[0])
    if by_value is not None:
        return by_value
    agree = any(verify(x, y, timeout_seconds=None) for x, y in ((left, right), (right, left)))
    return agree and not _apart(left[0], right[0])


def _same_value(a: Any, b: Any) -> bool | None:
    """Whether two numbers are one, by 30 digits of each; `None` for what is no number, and where digits do not decide.

    A proof for `\\sin 80 (4 \\cos 80 - 1)` beside 3 takes about the time that there is, so the load of a machine decided.
    Left to algebra are rounded decimals and percentages, which it calls equal to other numbers.
    """
    import sympy

    unread = (sympy.UnevaluatedExpr, sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative)
    if not all(isinstance(each, sympy.Expr) and each.is_number and not each.has(*unread) for each in (a, b)):
        return None
    try:
        x, y = (sympy.N(each, 30) for each in (a, b))
        apart, largest = abs(x - y), max(abs(x), abs(y))
        if not (x.is_finite and y.is_finite and apart.is_comparable):
            return None
    except _ALGEBRA_ERRORS:
        return None
    if apart > ROUNDED * max(1, largest):
        return False
    return True if apart <= EXACT * largest else None


def _apart(a: Any, b: Any) -> bool:
    """Whether both are small numbers and not one: what differs by less than a rounded decimal is equal to math-verify,
    `10^{-20}` and `10^{-30}` too."""
    import sympy

    if not all(isinstance(each, sympy.Expr) and each.is_number for each in (a, b)):
        return False
    x, y = (sympy.N(each.doit(), 30) for each in (a, b))
    largest = max(abs(x), abs(y))
    return bool(largest < SMALL and abs(x - y) > SMALL * largest and (a - b).equals(0) is not True)


def _form(text: str) -> str | None:
    """The expression multiplied out or simplified, printed back; `None` where that fails."""
    import sympy

    try:
        expression = _parse(text)[0]
        if isinstance(expression, sympy.Expr):
            expression = _simplified(expression)
        return str(expression)
    except _ALGEBRA_ERRORS:
        return None


def _simplified(expression: Any) -> Any:
    import sympy

    if not (expression.free_symbols and expression.is_polynomial()):
        return sympy.simplify(expression)
    exponents = [power.exp for power in expression.atoms(sympy.Pow)]
    small = all(exponent.is_Integer and exponent <= LARGEST_EXPANDED for exponent in exponents)
    return sympy.expand(expression) if small else expression


@lru_cache(maxsize=4096)
def _parse(text: str) -> list[Any]:
    """The expression alone: math-verify also hands back the raw string, which must never decide an equality. A text that it
    cannot read as a whole is not read: by default it takes the fractions that stand somewhere in it. Units were taken
    off by whoever asks: it takes the variable of `6t^2 + 4t` for one."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse

    dress = NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="all", equations=False
    )
    whole = [LatexExtractionConfig(boxed_match_priority=0, normalization_config=dress)]
    found = parse(f"\\boxed{{{text}}}", extraction_config=whole, parsing_timeout=None, extraction_mode="first_match")
    return [part for part in found if not isinstance(part, str)][:1]


if __name__ == "__main__":
    main(cpu_seconds=3.0)
