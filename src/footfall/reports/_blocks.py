"""Blocks of a page: sections, figures, tables, notes. A benchmark's report is a few of them passed to `page`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from footfall.reports.svg import Markup, asset, element

# No script can run and nothing can be loaded, even if a trace found a way around the escaping.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence that says what is to be seen, and blocks."""

    title: str
    blocks: Sequence[Markup]
    lead: str = ""

    def markup(self) -> Markup:
        lead = (element("p", self.lead, class_="lead"),) if self.lead else ()
        return element("section", element("h2", self.title), *lead, *self.blocks)


def paragraph(*parts: str) -> Markup:
    """A paragraph; parts that are not markup are escaped."""
    return element("p", *parts)


def note(title: str, items: Sequence[str]) -> Markup:
    """A quiet list beside the story, for instance how to read it."""
    return element(
        "aside", element("h2", title), element("ul", *(element("li", item) for item in items)), class_="note"
    )


def details(summary: str, *blocks: str) -> Markup:
    """Blocks behind a line that opens them."""
    return element("details", element("summary", summary), *blocks)


def responsive(draw: Callable[[float], Markup], wide: float = 760, narrow: float = 360) -> Markup:
    """A chart drawn twice, for a desk and for a phone: text keeps its size instead of shrinking with the picture."""
    return Markup.join_all(
        element("div", draw(wide), class_="wide"),
        element("div", draw(narrow), class_="narrow"),
    )


def figure(chart: Markup, *caption: str, beside: bool = False) -> Markup:
    """A chart and what it says; `beside` sets the caption next to it where the page is wide enough."""
    text = element("figcaption", *caption)
    return element("figure", element("div", chart, class_="plot"), text, class_="beside" if beside else None)


def tiles(numbers: Sequence[tuple[str, str, str]]) -> Markup:
    """Key numbers as (name, number, what it means)."""
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", value), element("dd", meaning, class_="meaning"))
            for name, value, meaning in numbers
        ),
        class_="tiles",
    )


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    text_columns: int = 1,
    total: bool = False,
) -> Markup:
    """A table whose first `text_columns` columns are text and whose others are right-aligned numbers.

    With `total` the last row is set apart as the sum.
    """
    for i, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(f"table {caption or header[0]!r}: row {i} has {len(row)} cells for {len(header)} columns")
    side = ["text" if i < text_columns else "number" for i in range(len(header))]
    head = element("tr", *(element("th", h, class_=s, scope="col") for h, s in zip(header, side, strict=True)))
    body = [
        element(
            "tr",
            *(
                element("th" if i == 0 else "td", cell, class_=side[i], scope="row" if i == 0 else None)
                for i, cell in enumerate(row)
            ),
            class_="total" if total and row is rows[-1] else None,
        )
        for row in rows
    ]
    said = (element("caption", caption),) if caption else ()
    inner = element("table", *said, element("thead", head), element("tbody", *body))
    # Focusable, so that a keyboard can scroll what is wider than a phone.
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption or "table")


def page(title: str, *blocks: Markup) -> str:
    """One HTML file that needs nothing else: no script, no font, no image, no request."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", asset("report.css")),
    )
    body = element("body", element("main", *blocks))
    return "<!DOCTYPE html>\n" + element("html", head, "\n", body, lang="en") + "\n"


def write_page(path: str | Path, text: str) -> Path:
    """Write a page whole or not at all: a reader never sees half of one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(path.name + ".part")
    half.write_text(text, encoding="utf-8", newline="\n")
    half.replace(path)
    return path
