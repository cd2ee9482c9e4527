"""`footfall list`: all parts that can be named, by kind. Reads source text only, so it is quick."""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from footfall.commands._config_file import with_defaults
from footfall.registry import KINDS, declared, parts

_RECIPES = Path(__file__).parent.parent / "recipes"
ABOUT = {**KINDS, "recipe": "a published system and its claim: `footfall lab run NAME`"}


def parser() -> argparse.ArgumentParser:
    """Of the command line; plain, so that nothing else has to be loaded for it."""
    made = argparse.ArgumentParser(
        "footfall list",
        description="List the parts that can be named on the command line, e.g.: footfall list labeller",
    )
    made.add_argument("kind", nargs="?", help=f"one of {', '.join(ABOUT)}; all if left out")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def main(arguments: Sequence[str]) -> int:
    """Print names with one line each."""
    asked = with_defaults(parser(), "list", arguments)
    kinds = list(ABOUT) if asked.kind is None else [_kind(asked.kind)]
    found = {kind: listed(kind) for kind in kinds}
    sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n" if asked.json else _text(found))
    return 0


def listed(kind: str) -> dict[str, str]:
    """The names of a kind with their summaries."""
    return (
        recipes()
        if kind == "recipe"
        else {name: part.summary + _needed(kind, name) for name, part in parts(kind).items()}
    )


def _needed(kind: str, name: str) -> str:
    needs = declared(kind, name).needs if kind in ("credit", "filter") else ()
    return f" Needs {', '.join(needs)}." if needs else ""


def recipes() -> dict[str, str]:
    """The package's recipes by name, with the first line of their files."""
    files = sorted(path for path in _RECIPES.glob("*.py") if not path.name.startswith("_"))
    return {path.stem.replace("_", "-"): _first_line(path) for path in files}


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _kind(name: str) -> str:
    """The kind of this name, or of its plural."""
    for kind in (name, name.removesuffix("s"), name.removesuffix("ies") + "y"):
        if kind in ABOUT:
            return kind
    near = difflib.get_close_matches(name, ABOUT, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(ABOUT)}"
    raise ValueError(f"no kind of part is called {name!r}; {hint}")


def _text(found: dict[str, dict[str, str]]) -> str:
    width = max((len(name) for names in found.values() for name in names), default=0)
    blocks = []
    for kind, names in found.items():
        lines = [f"  {name:<{width}}  {summary}".rstrip() for name, summary in names.items()]
        blocks.append("\n".join([f"{kind}: {ABOUT[kind]}", *(lines or ["  (none)"])]))
    return "\n\n".join(blocks) + "\n"
