"""Numbers that options of scripts take, within bounds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress


def number(low: float, high: float = 1_000_000, kind: type[float] = int) -> Callable[[str], float]:
    """Reads an option's number, which lies within these bounds."""

    def read(text: str) -> float:
        with suppress(ValueError, OverflowError):
            if low <= (value := kind(text)) <= high:
                return value
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no {kind.__name__} from {low:g} to {high:g}")

    return read


COUNT, SHARE, RATE = number(1), number(0, 1, float), number(0, 100, float)
