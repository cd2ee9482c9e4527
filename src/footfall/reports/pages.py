"""Pages: HTML files that need nothing else, made of the blocks of `templates/`. Every text is escaped, for traces are hostile.

write_page("runs/x/report.html", page("Title", Section("…", [figure(chart, "…")]).markup()))
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from footfall._version import __version__
from footfall.formats import atomic_write
from footfall.reports.svg import escape, number, stylesheet
from footfall.types import Cost, Json

# No script can run and nothing can be loaded, even if a trace found a way around the escaping.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


_INTERVAL = re.compile(r"\[[-−–\d., %]+\]")
"""Stays on one line where a cell is broken."""


_LONGEST_WORD = 24
_CARDS = (4, 16)
"""From so many columns, and up to so many rows, each row of a table is a card on a phone."""
_DENSE = 10
"""Columns of a table that needs all the room of a desk."""


class _OneLine(Extension):
    """Line breaks of a template are its layout, not its text: white space between elements would be seen."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"\s*\n\s*", "", source)


def _long(cell: str) -> bool:
    """Whether a cell has a word that must be broken, so that the table fits."""
    return any(len(word) > _LONGEST_WORD for word in re.split(r"[\s-]", cell))


def _breaking(said: object) -> Markup:
    """Settings without spaces, `f(n=4,rule=min)`, may be broken behind a comma."""
    return Markup(re.sub(r",(?=[^\s\d])", ",<wbr/>", str(_shown(said))))


def _shown(value: object) -> object:
    """What an expression becomes: text is escaped here, so that characters which XML forbids are replaced as well."""
    return value if isinstance(value, Markup) else escape(str(value))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True, undefined=StrictUndefined,
        extensions=[_OneLine], finalize=_shown,
    )  # fmt: skip
    made.filters["number"] = number
    made.filters["breaking"] = _breaking
    made.tests["long"] = _long
    return made


def render(template: str, block: str, **given: object) -> Markup:
    """One block (a macro) of a template."""
    macro: Callable[..., str] = getattr(_environment().get_template(f"{template}.html").module, block)
    return Markup(macro(**given))


class Named(NamedTuple):
    """Who judged: as the user typed it, which titles and tables show, and by content."""

    given: str
    name: str

    def __str__(self) -> str:
        """`runs/prm (step-head@1f2e…)`."""
        return self.given if self.given == self.name else f"{self.given} ({self.name})"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence that says what is to be seen, and blocks."""

    title: str
    blocks: Sequence[Markup]
    lead: str = ""

    def markup(self) -> Markup:
        return render("blocks", "section", title=self.title, blocks=self.blocks, lead=self.lead)


def paragraph(text: str, style: str | None = None) -> Markup:
    """A paragraph."""
    return render("blocks", "paragraph", text=text, style=style)


def items(texts: Sequence[str], ordered: str | None = None) -> Markup:
    """A list; with `ordered` a numbered one of that style."""
    return render("blocks", "items", texts=texts, ordered=ordered)


def note(title: str, texts: Sequence[str]) -> Markup:
    """A quiet list beside the story, for instance how to read it."""
    return render("blocks", "note", title=title, texts=texts)


def details(summary: str, *blocks: str) -> Markup:
    """Blocks behind a line that opens them."""
    return render("blocks", "details", summary=summary, blocks=blocks)


def responsive(draw: Callable[[float], Markup], wide: float = 760, narrow: float = 360) -> Markup:
    """A chart drawn twice, for a desk and for a phone: text keeps its size instead of shrinking with the picture."""
    return render("blocks", "responsive", wide=draw(wide), narrow=draw(narrow))


def figure(chart: Markup, caption: str, measured: str = "", beside: bool = False) -> Markup:
    """A chart and what it says, numbers in bold first; `beside` sets the caption next to it where there is room."""
    return render("blocks", "figure", chart=chart, caption=caption, measured=measured, beside=beside)


def tiles(numbers: Sequence[tuple[str, str, str]]) -> Markup:
    """Key numbers as (name, number, what it means)."""
    return render("blocks", "tiles", numbers=numbers)


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
    shown = [
        [_INTERVAL.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), cell) for cell in row] for row in rows
    ]
    style = " cards" if len(header) >= _CARDS[0] and len(rows) <= _CARDS[1] else ""
    style += " dense" if len(header) >= _DENSE else ""
    return render(
        "blocks", "table", header=header, rows=shown, caption=caption, text_columns=text_columns, total=total, style=style
    )  # fmt: skip


def turned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """A table of more columns than rows on its side, so that it is long rather than wide."""
    if len(header) <= len(rows) + 1:
        return header, rows
    head, *rest = zip(header, *rows, strict=True)
    return head, rest


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one stage of the loop used."""

    stage: str
    cost: Cost


def cost_table(rows: Sequence[CostRow]) -> Markup:
    """Stages by tokens, FLOPs and seconds, with their sum."""
    total = sum((row.cost for row in rows), Cost())
    header = ["stage", "prompt tokens", "from cache", "generated", "scored", "calls", "FLOPs", "seconds"]
    cells = [[row.stage, *_cost_cells(row.cost)] for row in rows] + [["total", *_cost_cells(total)]]
    return table(header, cells, caption="Cost by stage", total=True)


def _cost_cells(cost: Cost) -> list[str]:
    counts = (cost.prompt_tokens, cost.cached_tokens, cost.generated_tokens, cost.scored_tokens, cost.calls)
    return [
        *(f"{c:,}" if c else "–" for c in counts),
        f"{cost.flops:.2e}" if cost.flops else "–",
        f"{cost.seconds:,.1f}" if cost.seconds else "–",
    ]


def facts_list(facts: Mapping[str, str]) -> Markup:
    """Names and values; empty ones are left out."""
    return render("blocks", "facts", facts={name: said for name, said in facts.items() if said})


def footer(config: Mapping[str, Json] | None = None, version: str = __version__) -> Markup:
    """The foot of a page: all settings, behind a line that opens them, and the version."""
    try:
        text = json.dumps(config or {}, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"report: config is not plain JSON ({error}); write it with strings and finite numbers"
        ) from error
    return render("blocks", "footer", config=text if config is not None else "", version=version)


def report(
    title: str,
    kicker: str,
    heading: str,
    facts: Mapping[str, str],
    sections: Sequence[Section],
    *,
    numbers: Sequence[tuple[str, str, str]] = (),
    config: Mapping[str, Json] | None = None,
) -> str:
    """A page with the usual top (kicker, heading, facts, key numbers as in `tiles`) and foot."""
    shown = tiles(numbers) if numbers else Markup()
    top = render("blocks", "header", kicker=kicker, heading=heading, facts=facts_list(facts), numbers=shown)
    return page(title, top, *(section.markup() for section in sections), footer(config))


def page(title: str, *blocks: Markup) -> str:
    """One HTML file that needs nothing else: no script, no font, no image, no request."""
    return str(render("blocks", "page", title=title, blocks=blocks, policy=POLICY, style=stylesheet("report.css")))


def limited_in_words(result: Mapping[str, Any], what: str) -> str | None:
    """`80 of 3,400 traces` where --limit took only some of the data; `None` if all were taken."""
    some = result.get("limited")
    return some and f"{some['used']:,} of {some['of']:,} {what}"


def write_page(path: str | Path, text: str) -> Path:
    """Write a page whole or not at all: a reader never sees half of one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))
    return path
