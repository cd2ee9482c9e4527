"""Parts that a user can name: found without importing them, made by a typed factory, never registered twice.

A part registers itself by a decorator in its own file, and nothing else has to be edited:

    @register("labeller", "monte-carlo")
    def monte_carlo(policy: Policy, rollouts: int = 8) -> Judge:
        '''Monte Carlo estimates of each step (Math-Shepherd).'''

`names` reads those decorators from the source text, so listing loads no torch; `create` imports the one file that
holds the part. Other packages add theirs by an entry point in the group `footfall.parts`, named `kind:name`.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import re
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

__all__ = ["KINDS", "Part", "create", "load", "parts", "register"]

F = TypeVar("F", bound=Callable[..., Any])

KINDS = {
    "policy": "writes steps",
    "labeller": "a judge that makes process data",
    "reward": "a judge that is a model",
    "objective": "a training loss",
    "searcher": "turns a policy and a judge into an answer",
    "segmenter": "cuts text into steps",
    "world": "problems whose step truth is known",
    "benchmark": "measures a judge",
    "format": "reads and writes process data",
    "family": "published PRMs of one make",
    "head": "turns a PRM's hidden states into outputs",
    "readout": "what the outputs of a PRM's head mean",
}
"""What can be registered, with one line each."""

_DECORATOR = re.compile(r'^@register\(\s*"([a-z-]+)",\s*"([^"]+)"\s*\)', re.MULTILINE)
ENTRY_POINT_GROUP = "footfall.parts"


class Part(NamedTuple):
    """Where a named part lives and what it says of itself in one line."""

    kind: str
    name: str
    target: str
    summary: str


def register(kind: str, name: str) -> Callable[[F], F]:
    """Mark a factory as the part `name`. The mark itself is read from the source, by `parts`."""
    if kind not in KINDS:
        raise ValueError(f"no kind of part is called {kind!r}; there are {', '.join(KINDS)}")

    def mark(factory: F) -> F:
        factory.__footfall_part__ = (kind, name)  # type: ignore[attr-defined]
        return factory

    return mark


def load(kind: str, name: str) -> Callable[..., Any]:
    """The factory of a part, imported now. An unknown name is answered with the nearest one."""
    known = parts(kind)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
        raise KeyError(f"no {kind} is called {name!r}; {hint}")
    module, _, attribute = known[name].target.partition(":")
    factory: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return factory


def create(kind: str, name: str, **arguments: Any) -> Any:
    """Make the part `name` of `kind` with these arguments."""
    return load(kind, name)(**arguments)


def parts(kind: str) -> dict[str, Part]:
    """All parts of a kind by name: the package's own, then those of installed extensions."""
    if kind not in KINDS:
        raise KeyError(f"no kind of part is called {kind!r}; there are {', '.join(KINDS)}")
    return {part.name: part for part in sorted(_all_parts()) if part.kind == kind}


@lru_cache(maxsize=1)
def _all_parts() -> tuple[Part, ...]:
    found: dict[tuple[str, str], Part] = {}
    root = Path(__file__).parent
    own = [part for path in sorted(root.rglob("*.py")) for part in _parts_in(path, root)]
    for part in own + _extension_parts():
        other = found.setdefault((part.kind, part.name), part)
        if other is not part:
            raise ValueError(f"{part.kind} {part.name!r} is registered twice: by {other.target} and by {part.target}")
    return tuple(found.values())


def _parts_in(path: Path, root: Path) -> list[Part]:
    source = path.read_text(encoding="utf-8")
    if not _DECORATOR.search(source):
        return []
    module = ".".join(("footfall", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            for decorator in node.decorator_list:
                match = _DECORATOR.match("@" + ast.unparse(decorator).replace("'", '"'))
                if match:
                    found.append(Part(match[1], match[2], f"{module}:{node.name}", summary))
    return found


def _extension_parts() -> list[Part]:
    found = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        kind, _, name = point.name.partition(":")
        source = point.dist.name if point.dist else "an extension"
        if kind not in KINDS or not name:
            raise ValueError(
                f"{source} adds a part by the entry point {point.name!r}; it must be called 'kind:name', "
                f"where kind is one of {', '.join(KINDS)}"
            )
        found.append(Part(kind, name, point.value, f"from {source}"))
    return found
