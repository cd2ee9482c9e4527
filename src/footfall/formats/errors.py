"""One kind of error for all bad data: it names the file, the line, the field, what was expected and how to mend it."""

from __future__ import annotations

import json

__all__ = ["FormatError", "show"]

_SHOWN = 60


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
            where += f" ({subject})"
        if field is not None:
            where += f', field "{field}"'
        what = f"expected {expected}" + (f", got {got}" if got else "")
        super().__init__(f"{where}: {what}" + (f"; fix: {fix}" if fix else ""))

    def at(self, path: str, line: int, unit: str) -> FormatError:
        """The same error, now that file and line are known."""
        return FormatError(
            path, self.expected, line=line, field=self.field, got=self.got, fix=self.fix, unit=unit,
            subject=self.subject,
        )  # fmt: skip


def show(value: object) -> str:
    """A value as JSON, cut to a length that fits an error message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
