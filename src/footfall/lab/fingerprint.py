"""Which code a recipe's figures came from: a content fingerprint of its file and of every part it is made of.

The parts are found by reading `import` statements, from the recipe on through the package, without running anything. A
name imported from a room (`from footfall.search import BestOfN`) leads through the room's `__init__` to the one file that
has it, so a new part beside it is not seen. Comments, docstrings and layout do not count.

Equal fingerprints mean equal figures. Different ones mean nothing yet: the outcomes decide (`footfall.lab.checking`).

The ledger remembers beside its rows: hashes of outcomes, by the environment they were measured in, and of the rows.

    ledger_outcomes.json    recipe -> {statistics, rows: [hash, …], environments: {name: {code, quick, seeds: {"0": hash, …}}}}

An outcome's hash is made from the arms' figures, the problems and the cost but for its seconds. Floats count with 5 significant
digits and down to the 9th decimal: so the last bits of a matrix product do not matter, and a change that could move a figure of
the ledger does. Hashes of different environments cannot be compared: other kernels round otherwise, and training adds to it.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, get_args, get_origin, get_type_hints

from footfall._version import __version__
from footfall.formats import atomic_write
from footfall.lab.recipe import Outcome
from footfall.registry import KINDS, parts

PACKAGE = Path(__file__).resolve().parent.parent
_NO_PARTS = {f"footfall.{name}" for name in ("_version", "registry", "store", "cli", "commands", "lab", "recipes")}
"""What finds, runs, shows and stores, but decides no figure."""
_SHARED = "footfall.lab.shared"
"""The one part of the lab that does: models and cases that several recipes use."""
_ASSETS = {f"footfall.policy.{name}": PACKAGE / "models" / name for name in ("embedded", "lab")}
"""Files that are not Python and belong to a module."""


def version_of(recipe: Path) -> str:
    """The row's `version`, e.g. `0.1.0+3fa9c2d1e0ab`."""
    return f"{__version__}+{fingerprint(recipe)}"


def fingerprint(recipe: Path) -> str:
    """12 hex digits from the recipe and all its parts."""
    return _fingerprint(recipe, tuple(_ASSETS.items()), _stamps(recipe))


def _stamps(recipe: Path) -> tuple[tuple[int, int], ...]:
    """Size and time of every file that a fingerprint may be made from: while they stay, so does it."""
    places = [
        recipe,
        *sorted(PACKAGE.rglob("*.py")),
        *(f for place in _ASSETS.values() for f in sorted(place.glob("*"))),
    ]
    return tuple((found.st_size, found.st_mtime_ns) for found in map(os.stat, places))


@lru_cache(maxsize=1024)
def _fingerprint(recipe: Path, assets: tuple[tuple[str, Path], ...], stamps: tuple[tuple[int, int], ...]) -> str:
    digest = hashlib.sha256(_code(_source(recipe)))
    for module in modules_of(recipe):
        digest.update(f"\n{module}\n".encode() + _code(_source(_file(module))))
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
    """Whether a module is no part: the package's own `__init__`, or one of `_NO_PARTS`."""
    shared = module.startswith(f"{_SHARED}.")
    return module == "footfall" or (not shared and ".".join(module.split(".")[:2]) in _NO_PARTS)


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=1024)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements, and those within them at any depth: a tenth of all nodes, and every import is one."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                yield from _statements(inner)


@lru_cache(maxsize=1024)
def _imports(source: str) -> frozenset[str]:
    """The modules of the package that a file imports, at its top or inside a function."""
    found: set[str] = set()
    for node in _statements(_tree(source).body):
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
    nodes = [node for node in _statements(_tree(source).body) if isinstance(node, ast.ImportFrom)]
    own = [(str(node.module), node.names) for node in nodes if str(node.module).partition(".")[0] == "footfall"]
    return {alias.asname or alias.name: (module, alias.name) for module, names in own for alias in names}


def _named_parts(source: str) -> set[str]:
    """Modules of registered parts that the recipe names in a string, e.g. `objective="soft-bce"`."""
    body = [node for node in _tree(source).body if not isinstance(node, ast.Assign)]
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
def _code(source: str) -> bytes:
    """The syntax tree without docstrings, written the same way by every version of Python."""
    return _written(_tree(source)).encode()


def _written(node: object) -> str:
    if isinstance(node, ast.AST):
        fields = []
        for name in node._fields:
            value = getattr(node, name, None)
            if name == "body" and isinstance(value, list):
                # A docstring, or a string under a field, explains and computes nothing.
                value = [item for item in value if not _is_text(item)]
            if value is not None and value != [] and name not in _NO_CODE:
                fields.append(f"{name}={_written(value)}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    return repr(node)


_NO_CODE = {"ctx", "kind", "type_comment", "type_ignores"}


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


DIGITS = 5
"""Significant digits of a float that count."""
DECIMALS = 9
"""Places after the point that count: a difference of equal figures is 0, whatever its last bits are."""
_LIBRARIES = ("torch", "transformers", "numpy")


class Record(TypedDict):
    """What is remembered of one recipe in one environment."""

    code: str
    """Fingerprint of the code that was last seen to give the figures of the ledger's rows."""
    quick: str
    """Hash of the quick outcome."""
    seeds: dict[str, str]
    """Hashes of the full outcomes by seed; empty if they were not recorded."""


Records: TypeAlias = Mapping[str, Record]
"""Those of one recipe, by environment."""


class Kept(TypedDict):
    """What is remembered of one recipe."""

    statistics: str
    """Hash of how its rows were computed from outcomes (`footfall.lab.ledger.statistics_hash`)."""
    rows: list[str]
    """Hashes of its rows as they were recorded."""
    environments: Records


def outcome_hash(outcome: Outcome) -> str:
    """16 hex digits from the figures; the order of the arms does not count."""
    given = outcome.to_dict()
    cost = {name: amount for name, amount in given["cost"].items() if name != "seconds"}
    return figures_hash({**given, "cost": cost})


def figures_hash(value: Any) -> str:
    """16 hex digits from JSON whose floats count with `DIGITS` digits."""
    text = json.dumps(_rounded(value), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    # + 0.0: there is one zero.
    return round(float(f"{value:.{DIGITS - 1}e}"), DECIMALS) + 0.0 if isinstance(value, float) else value


@lru_cache
def environment(device: str = "cpu") -> str:
    """The processor and the versions that figures depend on, e.g. `x86_64 AVX2, python 3.12.3, torch 2.8.0, …`.

    Of a `device` that is no processor its name comes first: it rounds in its own way.
    """
    import torch

    from footfall.loading import pick_device

    processor = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    if (place := pick_device(device)).type != "cpu":
        processor = f"{torch.cuda.get_device_name(place) if place.type == 'cuda' else place.type}, {processor}"
    return ", ".join(
        [processor, f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in _LIBRARIES)]
    )


def outcomes_file(ledger: Path) -> Path:
    """`ledger_outcomes.json` beside `ledger.json`."""
    return ledger.with_name(f"{ledger.stem}_outcomes.json")


def read_outcomes(ledger: Path) -> dict[str, Kept]:
    """What is remembered of each recipe; nothing if there is no file."""
    path = outcomes_file(ledger)
    return read_kept(path) if path.exists() else {}


def read_kept(path: Path) -> dict[str, Kept]:
    """A file of that form; what is wrong in it is named."""
    found: dict[str, Kept] = read_json(path, dict, "recipes by name")
    for name, kept in found.items():
        _demand_fields(kept, Kept, f"{path}: {name!r}")
        for where, record in kept["environments"].items():
            _demand_fields(record, Record, f"{path}: {name!r} on {where!r}")
            if not isinstance(record["seeds"], dict) or not all(seed.isdigit() for seed in record["seeds"]):
                raise ValueError(f"{path}: {name!r} on {where!r} has no hashes by seed")
    return found


def read_json(path: Path, kind: type, wanted: str) -> Any:
    """What a file of the ledger holds, which is of this kind, `wanted` in words."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    if not isinstance(found, kind):
        raise ValueError(f"{path}: expected {wanted}, found {type(found).__name__}")
    return found


def _demand_fields(given: Any, kind: type, where: str) -> None:
    if not isinstance(given, dict) or given.keys() != kind.__annotations__.keys():
        raise ValueError(f"{where} must have the fields {', '.join(kind.__annotations__)}")
    demand_kinds(given, kind, where)


def demand_kinds(given: Mapping[str, Any], kind: type, where: str) -> None:
    """Each field of a record that was read is what its TypedDict says; an error names the first that is not."""
    for name, hint in get_type_hints(kind).items():
        if not _fits(given[name], hint):
            raise ValueError(f"{where}: {name} cannot be {str(given[name])[:40]!r}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and (inner[1] is Record or all(_fits(each, inner[1]) for each in value.values()))
    if inner:
        return any(_fits(value, each) for each in inner)
    if hint is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return isinstance(value, hint)


def record_outcomes(ledger: Path, name: str, kept: Kept) -> None:
    """Put this in place of what is remembered of the recipe."""
    with locked(ledger.parent):
        merged = {**read_outcomes(ledger), name: kept}
        with atomic_write(outcomes_file(ledger)) as stream:
            stream.write((json.dumps(dict(sorted(merged.items())), indent=1, allow_nan=False) + "\n").encode())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the ledger's folder, so that two runs that end at once do not lose what either found."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
