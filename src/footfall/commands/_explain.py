"""`footfall search --explain ID`: one problem of a finished run as a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from footfall.commands._search_report import shown_id
from footfall.reports.pages import write_page
from footfall.reports.tree_page import tree_page
from footfall.types import SearchResult, content_key

__all__ = ["explain", "find_result"]


def explain(folder: Path, problem: str) -> dict[str, Any]:
    """Write the page of a problem beside the run's results; what it is and where."""
    result = find_result(folder, problem)
    name = re.sub(r"[^\w.-]+", "-", problem)[:60]
    if name != problem:
        name += f"-{content_key(problem)[:8]}"
    path = write_page(folder / f"explain-{name}.html", tree_page(result, {"run": folder.name}))
    return {
        "problem": result.problem.id,
        "answer": result.answer,
        "correct": None if result.chosen is None else result.chosen.correct,
        "nodes": len(result.tree.nodes) if result.tree is not None else 0,
        "decisions": len(result.decisions),
        "page": str(path),
    }


def find_result(folder: Path, problem: str) -> SearchResult:
    """The result for a problem of this id, or an error that says what there is."""
    from footfall.formats import read_parquet

    file = folder / "results.parquet"
    if not file.exists():
        raise ValueError(
            f"{folder} holds no finished search: run the same command without --explain first, or name it by --out"
        )
    results: list[SearchResult] = read_parquet(file, "search-result")
    for result in results:
        if result.problem.id == problem:
            return result
    some = ", ".join(shown_id(result.problem.id) for result in results[:5])
    raise ValueError(f"{file}: no problem is called {shown_id(problem)!r}; there are {len(results)}, such as {some}")
