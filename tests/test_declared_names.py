"""Commands name no method: what they take where none is named, the methods declare of themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import footfall
from footfall.registry import parts, serving, systems

COMMANDS = sorted((Path(footfall.__file__).parent / "commands").glob("*.py"))
METHODS = ("policy", "labeller", "tree-labeller", "reward", "objective", "searcher", "segmenter", "world", "benchmark",
           "family", "head", "readout", "credit", "filter")  # fmt: skip
WORDS = {
    "steps",
    "length",
    "verdict",
    "beside",
    "quantile",
    "calibrated",
    "majority",
    "torch",
    "footfall",
    "checkpoint",
    "red",
}
"""Ordinary words of results and of settings that a part happens to be called by too."""
OF_A_FILE = {"info": {"embedded"}, "rl": {"trl"}, "_rl_setting": {"trl"}}
"""`footfall info` shows the model that ships with the package, by that word; `footfall rl` needs the package TRL,
which may write too."""
DEFAULTS = {"policy": "embedded", "labeller": "monte-carlo", "searcher": "weighted-vote", "objective": "soft-bce",
            "credit": "grpo"}  # fmt: skip


def said(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a file that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.lineno, node.value


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_no_command_names_a_method(path: Path) -> None:
    names = {name for kind in METHODS for name in (*parts(kind), *systems(kind))}
    names -= WORDS | OF_A_FILE.get(path.stem, set())
    worlds = re.compile(rf"world:({'|'.join(parts('world'))})")
    found = [f"{path.name}:{line}: {text!r}" for line, text in said(path) if text in names or worlds.search(text)]
    assert not found, "declare it (Declared.serves) and ask registry.serving: " + "; ".join(found)


@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_is_taken_where_none_is_named_is_declared_by_one_part(kind: str) -> None:
    assert serving(kind) == DEFAULTS[kind]


def test_what_nobody_serves_as_is_an_error() -> None:
    with pytest.raises(LookupError, match="0 parts of the kind labeller serve as 'url'"):
        serving("labeller", "url")
