"""A chart of the docs: drawn for a desk and for a phone, and shown with what it says in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import NamedTuple

from markupsafe import Markup

WIDE, NARROW = 760.0, 360.0


class Picture(NamedTuple):
    """A chart by the stem of its files, what it shows in words, and how it is drawn in a width."""

    stem: str
    words: str
    draw: Callable[..., Markup]
    """Takes the width."""

    @property
    def files(self) -> dict[str, str]:
        """What is in its files. The narrow one has writing of the same size on a phone, where the wide one would be shrunk."""
        widths = {f"{self.stem}.svg": WIDE, f"{self.stem}-narrow.svg": NARROW}
        return {file: str(self.draw(width)) for file, width in widths.items()}

    @property
    def html(self) -> str:
        """For a page of Markdown."""
        return (
            f'<picture>\n  <source media="(max-width: 560px)" srcset="{self.stem}-narrow.svg">\n'
            f'  <img src="{self.stem}.svg" alt="{escape(self.words)}">\n</picture>\n'
        )


def files_of(pictures: Iterable[Picture]) -> dict[str, str]:
    """What is in the files of these, by name."""
    return {file: drawn for picture in pictures for file, drawn in picture.files.items()}
