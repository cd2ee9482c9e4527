"""What goes to a terminal: text from data made safe to print, and the progress of long jobs.

Data may hold any character. Escape sequences move the cursor, write to the clipboard (OSC 52) or retitle the window, and so do
single characters of the block C1; overrides of the writing direction show another text than there is. Each such character is
shown as one visible sign, so that the rest of the text keeps its place.

Progress is a bar with rate and time left in a terminal, a line now and then elsewhere. A job that counts whole chunks
(`footfall.store`) lets those who work for one tell how far they are: a policy knows how many of the samples that it was asked
for are written, and `told` shows that without being handed the bar.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

T = TypeVar("T")
_LINE_EVERY_SECONDS = 10.0
_REDRAW_EVERY_SECONDS = 0.2
_listening: list[Progress] = []
"""Whom `told` tells: the last."""


def told(done: int, total: int, what: str) -> None:
    """So much of the batch at hand is done, e.g. 37 of 128 `written`. Nothing happens where nobody listens."""
    if _listening:
        _listening[-1].tell(f"{done}/{total} {what}")


class Progress:
    """`with Progress("label", total) as p: p.advance(16)`. Writes to stderr, so that stdout stays data."""

    def __init__(self, label: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.label, self.total, self.done, self.at_start = label, total, done, done
        self.stream = stream or sys.stderr
        self.started = self.last_line = time.monotonic()
        self.note = ""
        """What else is to be told, e.g. the loss of the last updates."""
        self._batch = ""
        self._bar: Bar | None = None
        self._told = 0
        self._drawn = self.started

    def __enter__(self) -> Progress:
        if self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
            self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(file=self.stream, emoji=False))
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, completed=self.done, rate="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif kind is None and self.done > max(self.at_start, self._told):
            self._line()

    def advance(self, n: int) -> None:
        """So many more items are done; redraw the bar, or print a line if the last one is old."""
        self.done += n
        self._batch = ""
        self._show()

    def grow(self, n: int) -> None:
        """So many more items are to be done than were known."""
        self.total += n
        if self._bar is not None:
            self._bar.update(self._task, total=self.total)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, what is `told` of the batch at hand is shown too."""
        _listening.append(self)
        try:
            yield
        finally:
            _listening.remove(self)

    def tell(self, batch: str) -> None:
        """How far the batch at hand is; it is shown a few times a second at most."""
        self._batch = batch
        if time.monotonic() - self._drawn >= _REDRAW_EVERY_SECONDS:
            self._drawn = time.monotonic()
            self._show()

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, rate=", ".join([f"{self.rate:.1f}/s", *self._notes]))
        elif time.monotonic() - self.last_line >= _LINE_EVERY_SECONDS:
            self._line()

    @property
    def _notes(self) -> list[str]:
        return [each for each in (self._batch, self.note) if each]

    @property
    def rate(self) -> float:
        """Items a second since this process took over."""
        return (self.done - self.at_start) / max(time.monotonic() - self.started, 1e-9)

    def _line(self) -> None:
        self.last_line, self._told = time.monotonic(), self.done
        left = (self.total - self.done) / self.rate if self.rate > 0 else float("inf")
        said = [f"{self.done}/{self.total}", f"{self.rate:.1f}/s", f"{_clock(left)} left", *self._notes]
        self.stream.write(f"{self.label}: {', '.join(said)}\n")
        self.stream.flush()


def telling(label: str, items: Iterable[T], total: int | None = None) -> Iterator[T]:
    """The items, and every ten seconds a line on stderr that says how many there were: for what is usually done in no time."""
    last = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        if time.monotonic() - last >= _LINE_EVERY_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"{label}: {done:,}{'' if total is None else f'/{total:,}'}\n")
            sys.stderr.flush()


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but line break and tab, what changes the writing direction, other line ends, and halves of characters."""
_PICTURES = 0x2400


_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[\w-]{20,}|(?:hf|gsk|gh[oprsu])_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])|AIza[\w-]{35,})",
    re.ASCII,
)
"""What has the shape of a key of a known service."""
_WORD = re.compile(r"[A-Za-z]{0,15}[0-9]{0,8}[A-Za-z]?")
_LONGEST_NAME = 60


def without_keys(text: str) -> str:
    """The text with *** in place of what looks like a key of a known service; a name of words and numbers is none."""
    return _KEY.sub(_unless_a_name, text)


def _unless_a_name(match: re.Match[str]) -> str:
    found = match[0]
    may_be = found.startswith("sk-") and len(found) <= _LONGEST_NAME
    return found if may_be and all(map(_WORD.fullmatch, re.split("[-_]", found))) else "***"


def visible(text: str) -> str:
    """The text with a sign in place of each unsafe character: ␛ for an escape, � where there is no picture of it."""
    return _UNSAFE.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(_PICTURES + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def one_line(text: str, most: int) -> str:
    """The text safe, on one line and at most so long."""
    line = " ".join(visible(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"


def json_parts(value: Mapping[str, Any], safe: bool = False) -> Iterator[str]:
    """`json.dumps` with an indent of 2, part by part: of a sequence that is no list, as of rows on the disk, and of a mapping
    that is no dict, one row at a time.

    `safe`: to print. Text stands as it is, and unsafe characters as their escapes.
    """

    def text(held: Any, indent: str) -> str:
        made = json.dumps(held, indent=2, ensure_ascii=not safe, allow_nan=False, default=str).replace("\n", indent)
        return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", made) if safe else made

    before = "{\n  "
    for name, held in value.items():
        yield before + text(name, "") + ": "
        brackets = ""
        rows: Iterator[str] = iter(())
        if isinstance(held, Sequence) and not isinstance(held, str | bytes | list | tuple):
            brackets, rows = "[]", (text(row, "\n    ") for row in held)
        elif isinstance(held, Mapping) and not isinstance(held, dict):
            brackets, rows = "{}", (text(key, "") + ": " + text(row, "\n    ") for key, row in held.items())
        if brackets:
            mark = f"{brackets[0]}\n    "
            for row in rows:
                yield mark + row
                mark = ",\n    "
            yield brackets if mark[0] == brackets[0] else f"\n  {brackets[1]}"
        else:
            yield text(held, "\n  ")
        before = ",\n  "
    yield "{}" if before[0] == "{" else "\n}"
