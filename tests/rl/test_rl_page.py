"""docs/rl.md: its numbers are what the code gives, and every credit and filter is on it."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from footfall.registry import parts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rl.md"
BLOCK = re.compile(r"^<!-- (run|prints) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_page_prints_what_it_shows() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    printed, compared = "", 0
    for mark, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if mark == "run":
            with redirect_stdout(StringIO()) as output:
                exec(body, names)
            printed = output.getvalue()
        else:
            assert printed == body
            compared += 1
    assert compared > 10


def test_every_credit_and_filter_is_derived_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [name for kind in ("credit", "filter") for name in parts(kind) if f"`{name}`" not in page]
    worked = [name for name in parts("credit") if not re.search(rf'"{re.escape(name)}"', page)]
    assert not missing and not worked
