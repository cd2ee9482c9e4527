"""One record and where it came from: typed access to its fields, and errors that name file, line, field and the fix."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from footfall.formats.solutions import Solution, Solutions
from footfall.terminal import one_line
from footfall.types import Json

_SHOWN = 60
_NAMED = 12
_LONGEST = 600
"""Of each part of a message: its words are ours, but names and values in them are the data's."""
SOUND_IMAGE = "an image that can be read and is what its reference says"
MEND_IMAGE = "mend the reference or the picture, or leave the image out"


class FormatError(ValueError):
    """Bad data, in or out. `line` counts from 1; on the way out it is the row and `unit` says so."""

    def __init__(
        self,
        path: str,
        expected: str,
        *,
        line: int | None = None,
        field: str | None = None,
        got: str | None = None,
        fix: str | None = None,
        unit: str = "line",
        subject: str | None = None,
    ) -> None:
        self.path, self.line, self.field, self.expected = path, line, field, expected
        self.got, self.fix, self.subject = got, fix, subject
        where = path
        if line is not None:
            where += f", {unit} {line}"
        if subject is not None:
            where += f" ({one_line(subject, 2 * _SHOWN)})"
        if field is not None:
            where += f', field "{one_line(field, 2 * _SHOWN)}"'
        what = f"expected {one_line(expected, _LONGEST)}" + (f", got {one_line(got, _LONGEST)}" if got else "")
        super().__init__(f"{where}: {what}" + (f"; fix: {one_line(fix, _LONGEST)}" if fix else ""))

    def at(self, path: str, line: int, unit: str) -> FormatError:
        """The same error, now that file and line are known."""
        return FormatError(
            path, self.expected, line=line, field=self.field, got=self.got, fix=self.fix, unit=unit,
            subject=self.subject,
        )  # fmt: skip


class NoMemoryError(MemoryError):
    """A file is sound as far as anyone knows, and memory did not suffice to read it."""


@contextmanager
def naming_memory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within a reader's own `try`: Arrow's error about memory is also one of those that it raises over damaged files."""
    try:
        yield
    except NoMemoryError:
        raise
    except MemoryError as error:
        said = f" ({one_line(str(error), _LONGEST)})" if str(error) else ""
        fix = "free memory, or split the file: JSON lines are read one by one, Parquet files whole"
        raise NoMemoryError(f"{path}: memory did not suffice to read it{said}; fix: {fix}") from error


def is_finite(number: float) -> bool:
    """Whether a float can hold it: an integer of 400 digits is finite, and none can."""
    return abs(number) <= sys.float_info.max


def show(value: object) -> str:
    """A value as JSON, cut to a length that fits an error message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


SIGNS = {"+": 1.0, "-": 0.0}
"""Labels of a right and a wrong step, as Math-Shepherd, RLHFlow and OpenR write them."""
_OUTER = re.compile(r"[^.\[]+")
"""Of the dotted name of a field the record's own."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object with its file and line; `at` is the dotted name of the object inside the line's record."""

    data: Mapping[str, Json]
    path: str = "record"
    line: int | None = None
    at: str = ""
    unit: str = "line"
    pin: Callable[[str], str] | None = None
    """Names an image by its content, before any id is made of it; a `ValueError` says what is wrong with the image."""
    solutions: Callable[[str], Solution] | None = None
    """Cuts a solution that is one text into steps."""
    signs: dict[bool, int] | None = None
    """Where the first `labels` of the file stand that have a -1 (True), and a 0 but no -1 (False): a 0 differs between them."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What the user's record calls a field that has been renamed (`--map`); no name inside another object."""

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def name(self, field: str) -> str:
        """The dotted name of a field as the user would look for it in the line."""
        if self.at:
            return f"{self.at}.{field}"
        outer = _OUTER.match(field)
        return self.called.get(outer[0], outer[0]) + field[outer.end() :] if outer else field

    def error(self, field: str | None, expected: str, got: str | None = None, fix: str | None = None) -> FormatError:
        """What to raise about a field of this record."""
        name = self.name(field) if field is not None else (self.at or None)
        return FormatError(self.path, expected, line=self.line, field=name, got=got, fix=fix, unit=self.unit)

    def get(self, field: str, expected: str) -> Json:
        """The field's value; an error if it is absent."""
        if field not in self.data:
            raise self.error(field, expected, "no such field", f"add it; the record has {self.held()}")
        return self.data[field]

    def held(self) -> str:
        """The names of the record's fields, the first of them if they are many."""
        names = [one_line(name, _SHOWN) for name in islice(self.data, _NAMED)]
        more = [f"… ({len(self.data):,} in all)"] if len(self.data) > _NAMED else []
        return f"the fields {', '.join([*names, *more]) or '(none)'}"

    def wrong(self, field: str, expected: str, fix: str | None = None) -> FormatError:
        """What to raise when the field's value is not as expected."""
        return self.error(field, expected, show(self.data.get(field)), fix)

    def text(self, field: str) -> str:
        """The field, which must be a string."""
        value = self.get(field, "a string")
        if not isinstance(value, str):
            raise self.wrong(field, "a string")
        return value

    def text_or_none(self, field: str) -> str | None:
        """The same, or `None` where it is missing or null."""
        return None if self.data.get(field) is None else self.text(field)

    def identifier(self, field: str) -> str | None:
        """An id, which is text or an integer; `None` if it is absent or null."""
        value = self.data.get(field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise self.wrong(field, "a string or an integer")
        return None if value is None else str(value)

    def integer(self, field: str) -> int:
        """The field, which must be an integer; true and false are none."""
        value = self.get(field, "an integer")
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(field, "an integer")
        return value

    def boolean(self, field: str) -> bool:
        """The field, which must be true or false."""
        value = self.get(field, "true or false")
        if not isinstance(value, bool):
            raise self.wrong(field, "true or false")
        return value

    def boolean_or_none(self, field: str) -> bool | None:
        """The same, or `None` where it is missing or null."""
        return None if self.data.get(field) is None else self.boolean(field)

    def number(self, field: str) -> float:
        """The field, which must be a finite number."""
        value = self.get(field, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
            raise self.wrong(field, "a finite number")
        return value

    def items(self, field: str) -> list[Json]:
        """The field, which must be a list."""
        value = self.get(field, "a list")
        if not isinstance(value, list):
            raise self.wrong(field, "a list")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self.items(field)
        for i, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{field}[{i}]", "a string", show(value))
        return tuple(str(value) for value in values)

    def image(self, field: str) -> str:
        """A reference to an image, with the hash of its content where that is at hand."""
        return self._pinned(field, self.text(field))

    def images(self, field: str = "images") -> tuple[str, ...]:
        """A list of references to images; none where it is missing or null."""
        if self.data.get(field) is None:
            return ()
        return tuple(self._pinned(f"{field}[{i}]", reference) for i, reference in enumerate(self.texts(field)))

    def _pinned(self, field: str, reference: str) -> str:
        if self.pin is None:
            return reference
        try:
            return self.pin(reference)
        except ValueError as error:
            raise self.error(field, SOUND_IMAGE, str(error), MEND_IMAGE) from error

    def solution(self, field: str) -> Solution:
        """A solution that is one text, in steps."""
        return self.cut(field, self.text(field))

    def cut(self, field: str, text: str) -> Solution:
        """A text that was found at `field`, in steps."""
        try:
            return (self.solutions or Solutions())(text)
        except ValueError as error:
            raise self.error(
                field, "a text that the segmenter can cut", str(error), "name another segmenter"
            ) from error

    def integers(self, field: str) -> tuple[int, ...]:
        """A list of integers."""
        found = []
        for i, value in enumerate(self.items(field)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise self.error(f"{field}[{i}]", "an integer", show(value))
            found.append(value)
        return tuple(found)

    def values(self, field: str, steps: int, nullable: bool = False) -> tuple[float | None, ...]:
        """One number, boolean or sign a step: true and "+" are 1.0, soft values stay soft, null (if allowed) is not judged."""
        given = self.items(field)
        if len(given) != steps:
            raise self.error(
                field, f"one entry for each of the {steps} steps", f"{len(given)}", "make both lists equally long"
            )
        found: list[float | None] = []
        for i, value in enumerate(given):
            if value is None and nullable:
                found.append(None)
            elif isinstance(value, int | float) and is_finite(value):
                found.append(float(value))
            elif isinstance(value, str) and value in SIGNS:
                found.append(SIGNS[value])
            else:
                fix = f"write 1 for a right step and 0 for a wrong one{', null for one without a label' if nullable else ''}"
                raise self.error(f"{field}[{i}]", 'a finite number, true or false, "+" or "-"', show(value), fix)
        return tuple(found)

    def record(self, field: str) -> Fields:
        """A nested object, which remembers where it stands."""
        return self.within(field, self.get(field, "an object"))

    def records(self, field: str) -> list[Fields]:
        """A list of nested objects."""
        return [self.within(f"{field}[{i}]", value) for i, value in enumerate(self.items(field))]

    def within(self, field: str, value: Json) -> Fields:
        """`value`, found at `field`, as nested fields."""
        if not isinstance(value, Mapping):
            raise self.error(field, "an object", show(value))
        return replace(self, data=value, at=self.name(field))

    def holding(self, data: Mapping[str, Json]) -> Fields:
        """Other data in the same place, as when a reader has made something of the record first."""
        return replace(self, data=data)

    def without(self, *names: str) -> Fields:
        """The record without some of its fields."""
        return self.holding(self.rest(names))

    def rest(self, known: Collection[str]) -> dict[str, Json]:
        """What the format does not name: kept as metadata, never lost."""
        return {name: value for name, value in self.data.items() if name not in known}
