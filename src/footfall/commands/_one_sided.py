"""A warning for labels that a PRM learns nothing from: one value only, because a whole kind of traces has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from footfall.commands._reasons import counted
from footfall.types import Judged

__all__ = ["one_sided"]


def one_sided(rows: Sequence[Judged]) -> dict[str, Any]:
    """The one value of all labels, the traces that have none and why; nothing if there are labels of both kinds."""
    known = {value for _, said in rows if said is not None for value in said.values if value is not None}
    silent = [(t, said) for t, said in rows if said is not None and set(said.values) == {None}]
    if len(known) != 1 or not silent:
        return {}
    reasons = counted((said.failures[0] if said.failures else None, t.problem) for t, said in silent)
    return {"one_sided": {"value": known.pop(), "unlabelled_traces": len(silent), "because": next(iter(reasons))}}
