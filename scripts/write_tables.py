"""Write the tables of the docs that come from the code: between the marks `<!-- table: NAME -->` and `<!-- end -->`.

python scripts/write_tables.py            # write them
python scripts/write_tables.py --check    # 1 if a page is not up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from footfall.registry import parts
from footfall.reward.family import Family, families

DOCS = Path(__file__).parent.parent / "docs"
_BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VALUE = {
    "good": "probability of the good class",
    "margin": "p(good) - p(bad), from -1 to 1",
    "sigmoid": "sigmoid of one output",
    "raw": "one output as it is",
}


def family_table() -> str:
    """One row a family."""
    head = "| family | checkpoints | value of a step | threshold | licence |\n|---|---|---|---:|---|\n"
    return head + "".join(_row(family, parts("family")[name].summary) for name, family in families().items())


def _row(family: Family, summary: str) -> str:
    published = ", ".join(f"`{name}`" for name in family.published) or summary
    value = (
        "a critique, then p(yes)" if family.name in ("genprm", "thinkprm", "r-prm") else _VALUE[family.readout.value]
    )
    threshold = "none" if family.threshold is None else f"{family.threshold:g}"
    return f"| `{family.name}` | {published} | {value} | {threshold} | {family.licence} |\n"


TABLES = {"families": family_table}


def written(page: str) -> str:
    """The page with its tables as the code gives them now."""
    return _BLOCK.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], page)


def main() -> int:
    stale = []
    for path in sorted(DOCS.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        new = written(page)
        if new != page:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    sys.stdout.write(f"{', '.join(stale) or 'nothing'} {'is out of date' if '--check' in sys.argv else 'written'}\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
