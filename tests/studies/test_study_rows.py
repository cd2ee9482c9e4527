"""Rows of a study: what methods declare, in the order of the tables, and a usual row for those that declare none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from footfall import registry
from footfall.registry import Declared, StudyRow, register, search_row
from footfall.studies.study import rows_of


def plain(n: int = 1) -> int:
    return n


def without(width: int = 1) -> int:
    return width


def needy(secret: str) -> str:
    return secret


@register(
    "searcher", "own", Declared(study=(search_row(2, "second"), search_row(1), StudyRow("proof", kind="reference")))
)
def own(n: int = 1) -> int:
    return n


@register("searcher", "left", Declared(unmeasured="nobody can say"))
def left() -> None: ...


@register("searcher", "check", Declared(control=True))
def check() -> None: ...


@register("searcher", "again", Declared(study=(search_row(1, "second"),)))
def again() -> None: ...


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Parts of these names of this file, instead of the package's."""
    names: list[str] = []
    module = ModuleType("toy_rows")
    monkeypatch.setitem(__import__("sys").modules, "toy_rows", module)
    module.__dict__.update(globals())
    monkeypatch.setattr(registry, "_parts_in", lambda path, root: [])
    points = lambda group: [EntryPoint(f"searcher:{name}", f"toy_rows:{name}", group) for name in names]  # noqa: E731
    monkeypatch.setattr(registry, "entry_points", points)
    registry._all_parts.cache_clear()
    yield names
    registry._all_parts.cache_clear()


def test_rows_stand_by_kind_place_and_name_and_know_their_method(toys: list[str]) -> None:
    toys += ["plain", "own", "without", "check", "left", "needy"]
    found = rows_of(("searcher",), search_row())
    assert list(found.known) == ["own", "second", "plain", "without", "proof"]
    assert {row.method for row in found.known.values()} == {"own", "plain", "without"}
    assert found.known["plain"].at(4) == {"n": 4} and found.known["without"].at(0) == {}, "it has no dial of that name"
    assert found.unmeasured.keys() == {"left", "needy"} and found.unmeasured["left"] == "nobody can say"
    assert "it needs secret" in found.unmeasured["needy"]
    assert [row.name for row in found.chosen(("plain",), "search", always="own")] == ["own", "plain"]
    with pytest.raises(ValueError, match="no search method is called 'check' here; there are own, second"):
        found.chosen(("check",), "search")
    with pytest.raises(ValueError, match="'left' is not measured here: nobody can say"):
        found.chosen(("plain", "left"), "search")


def test_two_rows_of_one_name_are_an_error_that_names_both(toys: list[str]) -> None:
    toys += ["own", "again"]
    with pytest.raises(ValueError, match="two rows are called 'second': of again and of own"):
        rows_of(("searcher",), search_row())
