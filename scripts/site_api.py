"""A hook of the documentation site: the API reference, a page for each room, from what its `__all__` lists and the docstrings.

The pages are made when the site is built, by mkdocstrings, which reads the source and imports nothing.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

__all__ = ["on_config", "on_files"]

_PACKAGE = Path(__file__).resolve().parents[1] / "src" / "footfall"
_APART = ("commands", "demo", "recipes")
"""Rooms that are used by command lines, not by imports."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages to the navigation, before the last group."""
    pages = [{room or "footfall": f"api/{room or 'footfall'}.md"} for room in _rooms()]
    assert config.nav is not None
    config.nav.insert(-1, {"API": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages themselves."""
    for room, places in _rooms().items():
        module = f"footfall.{room}" if room else "footfall"
        said = ast.get_docstring(ast.parse(_source(room).read_text(encoding="utf-8"))) or ""
        parts = [f"# `{module}`", said, *(f"::: {place}" for place in places)]
        files.append(File.generated(config, f"api/{room or 'footfall'}.md", content="\n\n".join(parts) + "\n"))
    return files


def _source(room: str) -> Path:
    """`search` or `search.beam`: the file that is this module."""
    folder = _PACKAGE.joinpath(*room.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


@cache
def _rooms() -> dict[str, list[str]]:
    """The public functions and classes of every room, by the module that defines them; "" is the package itself."""
    names = [path.parent.name for path in sorted(_PACKAGE.glob("*/__init__.py"))]
    found = {room: _public(room) for room in ("", *names, "registry") if room not in _APART}
    return {room: public for room, public in found.items() if public}


def _public(room: str) -> list[str]:
    """What `__all__` lists, without one all that has no underscore; constants are left to the pages that speak of them."""
    tree = ast.parse(_source(room).read_text(encoding="utf-8"))
    listed = [
        ast.literal_eval(node.value) for node in tree.body
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]  # fmt: skip
    names = listed[0] if listed else [name for name in _defined(tree) if not name.startswith("_")]
    places = [_place(room, name) for name in names]
    return list(dict.fromkeys(place for place in places if place is not None))


def _place(room: str, name: str) -> str | None:
    """Where a function or class is defined, following imports from the package."""
    tree = ast.parse(_source(room).read_text(encoding="utf-8"))
    if name in _defined(tree):
        return ".".join(part for part in ("footfall", room, name) if part)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("footfall"):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _place(str(node.module).removeprefix("footfall").lstrip("."), alias.name)
    return None


def _defined(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
