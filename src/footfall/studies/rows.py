"""The rows of a study, collected from what registered methods declare of themselves: no method is named here."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, get_args

from footfall.registry import declared, load, parts
from footfall.study_rows import Kind, StudyRow

_ORDER = {kind: place for place, kind in enumerate(get_args(Kind))}


class Rows(NamedTuple):
    """What a study measures, in the order of its tables, and what it leaves out with the reason."""

    known: dict[str, StudyRow]
    unmeasured: dict[str, str]

    def chosen(self, names: Sequence[str] | None, what: str, always: str = "") -> list[StudyRow]:
        """The rows of these names, and of `always`, in their order; all without any. An unknown name is an error."""
        unknown = [name for name in names or () if name not in self.known]
        if unknown:
            raise ValueError(f"no {what} method is called {unknown[0]!r} here; there are {', '.join(self.known)}")
        return [row for name, row in self.known.items() if names is None or name in names or name == always]


def rows_of(kinds: Sequence[str], usual: StudyRow, given: Sequence[str] = ()) -> Rows:
    """The rows of all parts of these kinds, by kind of row, place and name.

    A part that declares none has the `usual` one if it takes its dial, else a row without a dial; one that cannot be made of
    its dial and of what is `given` is left out.
    """
    found: list[StudyRow] = []
    unmeasured: dict[str, str] = {}
    for kind in kinds:
        for name in parts(kind):
            said = declared(kind, name)
            if said.control:
                continue
            own = said.study or (said.unmeasured or _usual_row(kind, name, usual, given))
            if isinstance(own, str):
                unmeasured[name] = own
            else:
                found += [replace(row, name=row.name or name, part=row.part or name) for row in own]
    known: dict[str, StudyRow] = {}
    for row in sorted(found, key=lambda row: (_ORDER[row.kind], row.place, row.name)):
        if row.name in known:
            raise ValueError(f"two rows are called {row.name!r}: of {known[row.name].part} and of {row.part}")
        known[row.name] = row
    return Rows(known, unmeasured)


def _usual_row(kind: str, name: str, usual: StudyRow, given: Sequence[str]) -> tuple[StudyRow, ...] | str:
    takes = inspect.signature(load(kind, name)).parameters.values()
    wanting = [
        p.name for p in takes
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in (usual.dial, *given)
    ]  # fmt: skip
    if wanting:
        return f"it needs {', '.join(wanting)}, and declares no row that says what that is here"
    return (usual if any(p.name == usual.dial for p in takes) else StudyRow(),)
