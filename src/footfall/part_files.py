"""Python files of a user's own: run as they are now, and the parts in them (`mine.py:MyJudge`) held against what they will be
called with. Which names are parts is the registry's (`footfall.registry.name_files`)."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

BY_FILE = {"policy": "sample", "labeller": "judge", "reward": "judge", "tree-labeller": "harvest", "searcher": "search",
           "objective": ""}  # fmt: skip
"""Kinds whose parts may be named by a file, with the method that a class of that kind has."""
_CALLED_WITH = {"sample": ("prefixes", "n", "params", "first"), "judge": ("trajectories",),
                "harvest": ("problems", "separator"), "search": ("state",)}  # fmt: skip
FILE_PART = re.compile(r"(?:^|[=,])([^=,]+\.py):([A-Za-z_]\w*)(?=,|$)")


class FilePart(NamedTuple):
    factory: Callable[..., Any]
    kinds: tuple[str, ...]
    digest: str


FILE_MODULE = "footfall_file_"
"""How the names of modules begin that were made of such files."""


class _AsItIs(SourceFileLoader):
    """Python takes its bytecode of a file for current if size and second of change agree: one that is edited and run again
    within a second would run as it was, under the hash of what it is."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def run_file(name: str, path: Path) -> ModuleType:
    """The module of this name that the file makes."""
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsItIs(name, str(path)))
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be loaded as a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def part_in_file(file: str, name: str) -> FilePart:
    path = Path(file).expanduser().resolve()
    source = path.read_bytes()
    module_name = f"{FILE_MODULE}{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    try:
        module = run_file(module_name, path)
    except SyntaxError as error:
        raise ValueError(f"{file}{'' if error.lineno is None else f', line {error.lineno}'}: {error.msg}") from error
    except SystemExit as error:  # it would end the command as if all were done
        fix = "put what is to run only as a program below: if __name__ == '__main__':"
        raise ValueError(f"{file} calls sys.exit when it is loaded; {fix}") from error
    factory: Any = getattr(module, name, None)
    if not callable(factory):
        own = [each for each, value in vars(module).items() if callable(value) and value.__module__ == module_name]
        near = difflib.get_close_matches(name, own, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(own) or 'none'}"
        raise ValueError(f"{file} has no class or function {name!r}; {hint}")
    for method in _CALLED_WITH if inspect.isclass(factory) else ():
        _check_method(file, factory, method)
    return FilePart(factory, _kinds_of(factory), hashlib.sha256(source).hexdigest()[:16])


def _check_method(file: str, kind: type, method: str) -> None:
    """A method that cannot be called as it will be is an error before any work is done."""
    own = inspect.getattr_static(kind, method, None)
    if inspect.isfunction(own):
        try:
            inspect.signature(own).bind(None, *_CALLED_WITH[method])
        except TypeError:
            place = f"{file}, line {own.__code__.co_firstlineno}: {kind.__name__}.{method}"
            wanted = f"it is called with ({', '.join(_CALLED_WITH[method])})"
            raise ValueError(f"{place} takes {inspect.signature(own)}; {wanted}") from None


def _kinds_of(factory: Any) -> tuple[str, ...]:
    """The kind that it is registered as; of others, a class is what its methods make it, and a function may be anything."""
    if mark := getattr(factory, "__footfall_part__", None):
        return tuple(kind for kind in BY_FILE if BY_FILE[kind] == BY_FILE.get(mark[0]))
    if not inspect.isclass(factory):
        return tuple(BY_FILE)
    return tuple(kind for kind, method in BY_FILE.items() if method and hasattr(factory, method))
