"""Which code a recipe's figures came from: a content fingerprint of its file and of every part it is made of.

The parts are found by reading `import` statements, from the recipe on through the package, without running anything. A
name imported from a room (`from footfall.search import BestOfN`) leads through the room's `__init__` to the one file that
has it, so a new part beside it is not seen. Comments, docstrings and layout do not count.

Equal fingerprints mean equal figures. Different ones mean nothing yet: the outcomes decide (`footfall.lab.check`).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from footfall import __version__
from footfall.registry import KINDS, parts

PACKAGE = Path(__file__).resolve().parent.parent
_NO_PARTS = {f"footfall.{name}" for name in ("registry", "store", "progress", "cli", "commands", "lab", "recipes")}
"""What finds, runs, shows and stores, but decides no figure."""
_SHARED = "footfall.lab.shared"
"""The one part of the lab that does: models and cases that several recipes use."""
_ASSETS = {"footfall.policy.embedded": PACKAGE / "models" / "embedded"}
"""Files that are not Python and belong to a module."""


def version_of(recipe: Path) -> str:
    """The row's `version`, e.g. `0.1.0+3fa9c2d1e0ab`."""
    return f"{__version__}+{fingerprint(recipe)}"


def fingerprint(recipe: Path) -> str:
    """12 hex digits from the recipe and all its parts."""
    digest = hashlib.sha256(_code(_source(recipe)).encode())
    for module in modules_of(recipe):
        digest.update(f"\n{module}\n{_code(_source(_file(module)))}".encode())
        for asset in sorted(_ASSETS[module].iterdir()) if module in _ASSETS else ():
            digest.update(asset.name.encode() + asset.read_bytes())
    return digest.hexdigest()[:12]


def modules_of(recipe: Path) -> list[str]:
    """Every module of the package that the recipe is made of, directly or not."""
    found: set[str] = set()
    waiting = {*_imports(_source(recipe)), *_named_parts(_source(recipe))}
    while waiting:
        module = waiting.pop()
        if module not in found and not _is_outside(module):
            found.add(module)
            waiting |= _imports(_source(_file(module)))
    return sorted(found)


def _is_outside(module: str) -> bool:
    """Whether a module is no part: the package's own `__init__`, which holds the version, or one of `_NO_PARTS`."""
    shared = module.startswith(f"{_SHARED}.")
    return module == "footfall" or (not shared and ".".join(module.split(".")[:2]) in _NO_PARTS)


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=1024)
def _imports(source: str) -> frozenset[str]:
    """The modules of the package that a file imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.partition(".")[0] == "footfall"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "footfall":
            found |= {_home(str(node.module), alias.name) for alias in node.names}
    return frozenset(found)


def _home(module: str, name: str) -> str:
    """The module that defines `name`, followed through the re-exports of packages."""
    if _exists(f"{module}.{name}"):
        return f"{module}.{name}"
    file = _file(module)
    exported = _exports(_source(file)) if file.name == "__init__.py" else {}
    return _home(*exported[name]) if name in exported else module


@lru_cache(maxsize=1024)
def _exports(source: str) -> dict[str, tuple[str, str]]:
    """Names that a room's `__init__` takes from elsewhere in the package: (module, name there)."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    own = [(str(node.module), node.names) for node in nodes if str(node.module).partition(".")[0] == "footfall"]
    return {alias.asname or alias.name: (module, alias.name) for module, names in own for alias in names}


def _named_parts(source: str) -> set[str]:
    """Modules of registered parts that the recipe names in a string, e.g. `objective="soft-bce"`."""
    body = [node for node in ast.parse(source).body if not isinstance(node, ast.Assign)]
    nodes = [node for statement in body for node in ast.walk(statement)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    named = [part for kind in KINDS for part in parts(kind).values() if part.name in texts]
    return {part.target.partition(":")[0] for part in named if part.target.startswith("footfall.")}


def _exists(module: str) -> bool:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@lru_cache(maxsize=1024)
def _code(source: str) -> str:
    """The syntax tree without docstrings, written the same way by every version of Python."""
    return _written(ast.parse(source))


def _written(node: object) -> str:
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in _fields(node) if value not in (None, []))
        return f"{type(node).__name__}({','.join(f'{name}={_written(value)}' for name, value in fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    return repr(node)


def _fields(node: ast.AST) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list):
            # A docstring, or a string under a field, explains and computes nothing.
            yield name, [item for item in value if not _is_text(item)]
        elif name not in ("ctx", "kind", "type_comment", "type_ignores"):
            yield name, value


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
