"""How traces, judgements and results look in a notebook: a small table with styles of its own; texts are escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from footfall.terminal import visible

MOST_ROWS = 40
_LETTERS = 600
_CELL = "text-align:left;vertical-align:top;padding:2px 10px;white-space:pre-wrap;overflow-wrap:anywhere"
_POOR, _GOOD = (184, 68, 10), (11, 102, 176)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as HTML, at most `MOST_ROWS` rows; a float in a cell is a value and is coloured by its place in [0, 1]."""
    head = "".join(f'<th style="{_CELL}">{_text(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = f"<p>… and {len(rows) - MOST_ROWS} more</p>" if len(rows) > MOST_ROWS else ""
    return (
        f'<div><p style="white-space:pre-wrap">{_text(title)}</p><table style="border-collapse:collapse">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>"
    )


def steps(
    title: str, texts: Sequence[str], values: Sequence[float | None] = (), why: Mapping[int, str] | None = None
) -> str:
    """The steps of a trace, with their values where there are some, and why others have none."""
    if not values:
        return table(title, ["", "step"], [[i, text] for i, text in enumerate(texts, 1)])
    rows = [
        [i, (why or {}).get(i - 1, "not judged") if value is None else value, text]
        for i, (text, value) in enumerate(zip(texts, values, strict=True), 1)
    ]
    return table(title, ["", "value", "step"], rows)


def _cell(content: object) -> str:
    shown = f"{content:.3f}" if isinstance(content, float) else _text(str(content))
    return f'<td style="{_CELL}{_shade(content) if isinstance(content, float) else ""}">{shown}</td>'


def _shade(value: float) -> str:
    """From the colour of poor values over none to that of good ones."""
    distance = 2 * min(max(value, 0.0), 1.0) - 1
    red, green, blue = _GOOD if distance > 0 else _POOR
    return f";background:rgba({red},{green},{blue},{abs(distance) / 2:.2f})"


def _text(text: str) -> str:
    return html.escape(visible(text if len(text) <= _LETTERS else f"{text[:_LETTERS]} …"))
