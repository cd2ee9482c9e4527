"""Finding recipes: each file of `footfall/recipes` is one. Headers are read from the source, so listing loads no torch."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial

__all__ = ["RECIPES", "Entry", "catalogue", "find", "load_measure"]

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
_MAKERS: dict[str, Callable[..., Any]] = {"Recipe": Recipe, "Claim": Claim}


class Entry(NamedTuple):
    """A recipe and the file it stands in."""

    recipe: Recipe
    path: Path


def catalogue(folder: Path = RECIPES) -> list[Entry]:
    """All recipes by name."""
    files = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
    return sorted((Entry(_read_header(path), path) for path in files), key=lambda entry: entry.recipe.name)


def find(name: str, folder: Path = RECIPES) -> Entry:
    """The recipe of this name; an unknown one is answered with the nearest."""
    entries = {entry.recipe.name: entry for entry in catalogue(folder)}
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(entries) or 'none'}"
        raise KeyError(f"no recipe is called {name!r}; {hint}")
    return entries[name]


def load_measure(entry: Entry) -> Callable[[Trial], Outcome]:
    """The recipe's function, imported now with everything it is made of."""
    name = f"footfall.recipes.{entry.path.stem}"
    spec = importlib.util.spec_from_file_location(name, entry.path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{entry.path} cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    measure: Callable[[Trial], Outcome] | None = getattr(module, "measure", None)
    if measure is None:
        raise ValueError(f"{entry.path} has no function `measure(trial: Trial) -> Outcome`")
    return measure


def _read_header(path: Path) -> Recipe:
    """The file's `RECIPE`, made from literals alone."""
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RECIPE":
            try:
                recipe = _made(node.value)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, line {node.lineno}: {error}") from error
            return _checked(recipe, path)
    raise ValueError(f"{path} has no `RECIPE = Recipe(…)`; each file of {path.parent.name}/ states one")


def _checked(recipe: object, path: Path) -> Recipe:
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{path}: RECIPE must be a Recipe(…), not {type(recipe).__name__}")
    if recipe.module != path.stem:
        raise ValueError(f"{path}: the recipe {recipe.name!r} belongs into a file called {recipe.module}.py")
    return recipe


def _made(node: ast.expr) -> Any:
    """A literal, or a Recipe or Claim made of literals."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _MAKERS:
        given = {keyword.arg: _made(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        return _MAKERS[ast.unparse(node.func)](*map(_made, node.args), **given)
    if isinstance(node, ast.Tuple):
        return tuple(map(_made, node.elts))
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(
            f"line {node.lineno}: `{ast.unparse(node)}` is no literal; a header is read, not run"
        ) from None
