"""How good a PRM must be for its best of 16 to beat the majority: its scores of finished solutions, mixed with the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.loop_measure import FOLDS, VOTES, table_line

KEY = f"mixed with the truth, N = {VOTES}"
LEAD = "best of N − majority"
SETS = {"gsm8k-test": "GSM8K test", "math-500": "MATH-500"}


def first_ahead(rows: Sequence[Mapping[str, Any]]) -> int | None:
    """The least share of the truth, by its place, with which the whole interval of the lead is above zero."""
    return next((place for place, row in enumerate(rows) if row[LEAD][1] > 0), None)


def _cell(rows: Sequence[Mapping[str, Any]]) -> str:
    """AUC as it is, and the two AUCs between which the lead becomes clear; with the share of the truth at the second."""
    place, own = first_ahead(rows), f"{rows[0]['AUC']:.2f}"
    if place is None:
        return f"{own}: never"
    if not place:
        return f"{own}: as it is"
    return f"{own}: {rows[place - 1]['AUC']:.2f} to {rows[place]['AUC']:.2f} ({rows[place]['truth']:.0%})"


def table(found: Mapping[str, Any]) -> str:
    """One row a PRM, and a line with the range of what the rows say."""
    heads = [f"{title}, {fold}" for title in SETS.values() for fold in FOLDS]
    lines, clear, behind = [table_line(["PRM", *heads]), table_line(["---", *["---"] * len(heads)])], [], []
    for name, facts in found.items():
        measured = {on: facts[on][KEY] for on in SETS if KEY in facts.get(on, {})}
        if not measured:
            continue
        cells = [_cell(measured[on][fold]) if on in measured else "" for on in SETS for fold in FOLDS]
        lines.append(table_line([f"`{name}`", *cells]))
        for rows in (measured[on][fold] for on in measured for fold in FOLDS):
            if (place := first_ahead(rows)) is not None:
                clear.append(rows[place]["AUC"])
                behind += [row["AUC"] for row in rows[:place]]
    told = (
        f"The first AUC with a clear lead ranges from {min(clear):.2f} to {max(clear):.2f}; the largest one that was measured "
        f"without a clear lead is {max(behind):.2f}."
    )
    return "\n".join([*lines, "", told]) + "\n"
