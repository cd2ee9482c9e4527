"""What commands print: one JSON object, or text for people; notes go to standard error, so that stdout stays data."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from footfall.terminal import json_parts, visible
from footfall.types import Cost

NOTHING = 1
"""The exit code of a command that ran to its end and has nothing to show for it: every call failed, no step has a label."""


def emit(result: Mapping[str, Any], as_json: bool, show: Callable[[Console], None]) -> None:
    """The result as JSON, or as `show` writes it."""
    if as_json:
        for part in json_parts(result, safe=True):
            sys.stdout.write(part)
        sys.stdout.write("\n")
    else:
        show(SafeConsole(markup=False, emoji=False, highlight=False, soft_wrap=True))


class SafeConsole(Console):
    """A console on which text from data can do nothing but stand there."""

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*map(_safe, objects), **how)


def _safe(shown: Any) -> Any:
    if isinstance(shown, Text):
        shown = shown.copy()
        shown.plain = visible(shown.plain)  # one sign a character, so that styles stay where they are
    return visible(shown) if isinstance(shown, str) else shown


def note(text: str) -> None:
    """A remark for people, on standard error."""
    sys.stderr.write(f"footfall: {visible(text)}\n")


def facts(console: Console, pairs: Mapping[str, object]) -> None:
    """One line a fact, names in a column; what is `None` or empty is left out."""
    shown = {name: value for name, value in pairs.items() if value not in (None, "", {}, [], ())}
    width = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        console.print(Text(f"{name:<{width}}  ", style="dim"), value if isinstance(value, Text) else str(value), sep="")


def figures(console: Console, rows: Sequence[Sequence[str]]) -> None:
    """A table whose first row is the header; all but the first column stand to the right. Nothing is cut."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        line = "  ".join([first.strip().ljust(widths[0]), *rest])
        console.print(Text(f"  {line}", style="" if number else "dim"))


def spent(cost: Cost, seconds: float | None = None) -> str:
    """A cost in words; what is zero is left out."""
    counts = {
        "prompt tokens": cost.prompt_tokens,
        "cached": cost.cached_tokens,
        "generated": cost.generated_tokens,
        "scored": cost.scored_tokens,
        "calls": cost.calls,
    }
    said = [f"{count:,} {name}" for name, count in counts.items() if count]
    said += [f"{cost.flops:.2g} FLOPs"] if cost.flops else []
    said += [f"{seconds:.1f} s"] if seconds else []
    return ", ".join(said) or "nothing"


def next_command(console: Console, *words: object, first: str = "next") -> None:
    """The command line that usually follows."""
    console.print(Text(f"{first}: ", style="dim") + Text(shlex.join(["footfall", *map(str, words)]), style="bold"))
