"""The search methods that `footfall bench search` compares, each with its dial, by the searcher that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from footfall import study_rows
from footfall.registry import create, load, parts
from footfall.search.state import Method
from footfall.study_rows import StudyRow
from footfall.study_rows import search_row as row

SINGLE = "single"
"""One sample: what every method is held against."""

ROWS: dict[str, tuple[StudyRow, ...]] = {
    "majority": (row(SINGLE, "majority", budgets=(1,)), row("majority")),
    "self-consistency": (row("self-consistency", batch=4),),
    "rstar": (row("rstar", dial="paths"),),
    "best-of-n": (row("best-of-n"),),
    "weighted-vote": (row("weighted-vote"),),
    "hybrid-vote": (row("hybrid-vote"),),
    "frequency-vote": (row("frequency-vote"),),
    "self-prm": (row("self-prm"),),
    "refined-bon": (row("refined-bon"),),
    "adaptive-best-of-n": (row("adaptive-best-of-n", pilot=4),),
    "beam-search": (
        row("beam-search", expansions=4),
        row("beam-lookahead", "beam-search", expansions=4, lookahead=1),
    ),
    "adaptive-beam": (row("adaptive-beam", expansions=4),),
    "early-rejection": (row("early-rejection", expansions=4, tokens=4),),
    "vgs": (row("vgs", width=2, block=24, length=240),),
    "birm": (row("birm", settings=lambda n: {"n": n, "beams": n // 4}),),
    "dvts": (row("dvts", expansions=4),),
    "gflownet": (row("gflownet", budgets=(1, 4, 16), m=4),),
    "hgs-prm": (row("hgs-prm", dial="samples", budgets=(8, 24, 64), settings=lambda most: {"iterations": most}),),
    "pats": (
        row(
            "pats", dial="width", budgets=(4, 8, 16),
            settings=lambda w: {"widths": (w, max(1, w // 2), max(1, w // 4))},
        ),
    ),
    "self-regulation": (row("self-regulation", dial="width"),),
    "speculative-rm": (
        row("speculative-rm", dial="width", budgets=(2, 4, 8), settings=lambda k: {"width": k, "keep": k}),
    ),
    "mcts": (
        row("mcts", dial="paths", width=4),
        row("mcts-uct", "mcts", dial="paths", width=4, selection="uct"),
    ),
    "compute-optimal": (
        row(
            "compute-optimal",
            settings=lambda n: {"methods": f"beam-search:n={n},expansions=4;weighted-vote:n={max(1, n // 2)};"},
        ),
    ),
}  # fmt: skip
"""By registered searcher, dear places of the dial last. Rows of a searcher that is not registered are passed over."""


def all_rows() -> list[StudyRow]:
    """The rows of the searchers that are there."""
    known = parts("searcher")
    return [one for method, rows in ROWS.items() if method in known for one in rows]


def chosen(names: Sequence[str] | None) -> list[StudyRow]:
    """The rows of these names in the table's order, one sample always among them; all without any."""
    return study_rows.chosen(all_rows(), names, "search", always=SINGLE)


def unmeasured() -> dict[str, str]:
    """Registered searchers that no row is made of, with the reason: a plugin's, for instance."""
    return {name: "no row in the table" for name in parts("searcher") if name not in ROWS}


def make_method(one: StudyRow, budget: float, aggregation: str) -> Method:
    """The searcher at one place of its dial; `aggregation` is for those that have one."""
    settings = one.at(budget)
    fields = getattr(load("searcher", one.method), "__dataclass_fields__", {"aggregation": None})
    if "aggregation" in fields and "aggregation" not in settings:
        settings["aggregation"] = aggregation
    made: Method = create("searcher", one.method, **settings)
    return made
