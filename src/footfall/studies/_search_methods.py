"""The search methods that `footfall bench search` compares, each with its dial. A new one is one row of `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from footfall.registry import create, load, parts
from footfall.search.method import Method

Settings = Callable[[int], Mapping[str, Any]]
WIDTHS = (4, 16, 64)
"""What all methods with a number of candidates are measured at; one sample for those that can take one."""
SINGLE = "single"
"""One sample: what every method is held against."""


def _n(**fixed: Any) -> Settings:
    return lambda n: {"n": n, **fixed}


_PLAIN = _n()


@dataclass(frozen=True, slots=True)
class Row:
    """A registered searcher, its dial, and the settings that a place of the dial stands for."""

    name: str
    settings: Settings = _PLAIN
    dial: str = "n"
    budgets: Sequence[int] = WIDTHS
    part: str = ""
    """The searcher's registered name, if it is another."""

    def make(self, budget: int, aggregation: str) -> Method:
        """The method at one place of its dial; `aggregation` is for those that have one."""
        part = self.part or self.name
        settings = dict(self.settings(budget))
        fields = getattr(load("searcher", part), "__dataclass_fields__", {"aggregation": None})
        if "aggregation" in fields and "aggregation" not in settings:
            settings["aggregation"] = aggregation
        made: Method = create("searcher", part, **settings)
        return made


METHODS: tuple[Row, ...] = (
    Row(SINGLE, budgets=(1,), part="majority"),
    Row("majority"),
    Row("self-consistency", _n(batch=4)),
    Row("rstar", lambda paths: {"paths": paths}, dial="paths"),
    Row("best-of-n"),
    Row("weighted-vote"),
    Row("hybrid-vote"),
    Row("frequency-vote"),
    Row("self-prm"),
    Row("refined-bon"),
    Row("adaptive-best-of-n", _n(pilot=4)),
    Row("beam-search", _n(expansions=4)),
    Row("beam-lookahead", _n(expansions=4, lookahead=1), part="beam-search"),
    Row("adaptive-beam", _n(expansions=4)),
    Row("early-rejection", _n(expansions=4, tokens=4)),
    Row("vgs", _n(width=2, block=24, length=240)),
    Row("birm", lambda n: {"n": n, "beams": n // 4}),
    Row("dvts", _n(expansions=4)),
    Row("gflownet", _n(m=4), budgets=(1, 4, 16)),
    Row("hgs-prm", lambda most: {"iterations": most}, dial="samples", budgets=(8, 24, 64)),
    Row("pats", lambda w: {"widths": (w, max(1, w // 2), max(1, w // 4))}, dial="width", budgets=(4, 8, 16)),
    Row("self-regulation", lambda w: {"width": w}, dial="width", budgets=(4, 16, 64)),
    Row("speculative-rm", lambda k: {"width": k, "keep": k}, dial="width", budgets=(2, 4, 8)),
    Row("mcts", lambda paths: {"paths": paths, "width": 4}, dial="paths"),
    Row("mcts-uct", lambda paths: {"paths": paths, "width": 4, "selection": "uct"}, dial="paths", part="mcts"),
    Row(
        "compute-optimal",
        lambda n: {"methods": f"beam-search:n={n},expansions=4;weighted-vote:n={max(1, n // 2)};"},
    ),
)  # fmt: skip
"""One row a method, dear places of the dial last. A row whose searcher is not registered is passed over."""


def _registered() -> list[Row]:
    known = parts("searcher")
    return [row for row in METHODS if (row.part or row.name) in known]


def chosen(names: Sequence[str] | None) -> list[Row]:
    """The rows of these names in the table's order, one sample always among them; all without any."""
    rows = _registered()
    unknown = [name for name in names or () if name not in {row.name for row in rows}]
    if unknown:
        raise ValueError(
            f"no search method is called {unknown[0]!r} here; there are {', '.join(row.name for row in rows)}"
        )
    return [row for row in rows if names is None or row.name in names or row.name == SINGLE]


def unmeasured() -> dict[str, str]:
    """Registered searchers that no row is made of, with the reason: a plugin's, for instance."""
    used = {row.part or row.name for row in METHODS}
    return {name: "no row in the table" for name in parts("searcher") if name not in used}
