"""Dependencies point one way: a room knows itself and the rooms to its left, and nobody imports a recipe."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import footfall

ROOT = Path(footfall.__file__).parent

LAYERS = (
    (
        "types",
        "notebook",
        "registry",
        "part_files",
        "render",
        "hashing",
        "judging",
        "terminal",
        "damaged",
        "helper",
        "version",
    ),
    ("segment", "answers", "formats", "store"),
    ("gguf", "loading", "policy", "scale", "tools", "worlds"),
    ("formal", "simulate", "drive"),
    ("label", "reward"),
    ("train", "search", "metrics", "rl"),
    ("benchmarks", "reports", "studies", "lab"),
    ("demo", "cli", "commands", "__main__", "__init__"),
    ("recipes",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

LIGHT = (
    "types", "notebook", "registry", "part_files", "render", "hashing", "judging", "terminal", "damaged", "helper", "segment",
    "answers", "scale", "formats", "store", "worlds", "formal", "simulate", "drive", "label", "search", "metrics", "rl",
    "benchmarks", "reports", "studies", "lab", "cli", "commands",
)  # fmt: skip
"""Rooms that a command line or a page may import at once: importing them loads neither torch nor transformers."""
HEAVY = (
    "footfall.lab.shared.table_pairs",
    "footfall.rl.beside",
    "footfall.rl.confidence",
    "footfall.rl.flow",
    "footfall.rl.judges",
    "footfall.rl.loop",
    "footfall.rl.online",
    "footfall.rl.parts",
    "footfall.rl.rollouts",
    "footfall.rl.shared_prompts",
    "footfall.rl.shown",
    "footfall.rl.whole_weights",
    "footfall.rl.trainer",
    "footfall.rl.trl_settings",
    "footfall.rl.verl",
    "footfall.rl.writing",
)
"""What trains, in a room whose rules are light: only a run that has begun imports it."""


def room_of(module: str) -> str:
    """`footfall.policy.torch_policy` is in the room `policy`; a private module beside a room belongs to it."""
    name = (module.split(".") + ["__init__"])[1]
    return name.split("_")[1] if name.startswith("_") and not name.startswith("__") else name


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    return ".".join(("footfall", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


@cache
def known() -> set[str]:
    """All modules of the package."""
    return {module_name(path) for path in modules()}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    """Line and module of every import from the package, inside functions and by a written name too."""
    return list(_imported(path))


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names = sorted(full & known()) + [str(node.module)] * bool(full - known())
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "footfall":
                yield node.lineno, name


def test_every_room_has_its_place() -> None:
    unknown = {room_of(module_name(path)) for path in modules()} - LEVEL.keys()
    assert not unknown, f"say in LAYERS (and in the design) where {unknown} stand"


@pytest.mark.parametrize("room", [room for room in LEVEL if (ROOT / room).exists() or (ROOT / f"{room}.py").exists()])
def test_a_room_imports_only_rooms_to_its_left(room: str) -> None:
    paths = [path for path in modules() if room_of(module_name(path)) == room]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in paths
        for line, name in imported(path)
        if LEVEL[room_of(name)] > LEVEL[room]
    ]
    assert paths and not wrong, "\n".join(wrong)


def writes_itself(tree: ast.AST) -> Iterator[int]:
    """Lines that put prefixes to a policy, other than those by which a policy passes on what it is asked itself."""
    passes_on = {
        id(call)
        for function in ast.walk(tree) if isinstance(function, ast.FunctionDef)
        if function.name in ("sample", "sample_runs", "resume")
        for call in ast.walk(function)
    }  # fmt: skip
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and id(call) not in passes_on:
            asked, own = call.func, isinstance(call.func.value, ast.Name) and call.func.value.id in ("self", "rng")
            if asked.attr in ("sample", "sample_runs", "resume") and not own:
                yield call.lineno


def test_who_stands_above_the_driver_writes_through_it() -> None:
    asked = "def f(policy):\n    policy.sample([], 1)\nclass P:\n    def sample(self):\n        self.inner.sample([])\n"
    assert list(writes_itself(ast.parse(asked))) == [2]
    above = [path for path in modules() if LEVEL[room_of(module_name(path))] > LEVEL["drive"]]
    found = [
        f"{path.relative_to(ROOT)}:{line} asks a policy past the driver (drive.courses.write, run_courses)"
        for path in above
        for line in writes_itself(tree_of(path))
    ]
    assert not found, "\n".join(found)


def test_nobody_imports_a_recipe() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules()
        for line, name in imported(path)
        if name.startswith("footfall.recipes")
    ]
    assert not found


def test_rooms_of_one_layer_do_not_need_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in modules():
        room = room_of(module_name(path))
        graph.setdefault(room, set()).update(room_of(name) for _, name in imported(path))
        graph[room] -= {room, "__init__"}
    del graph["__init__"]
    assert set(TopologicalSorter(graph).static_order()) >= graph.keys()


def test_files_do_not_import_each_other_in_a_circle() -> None:
    graph = {module_name(path): {name for _, name in imported(path)} & known() for path in modules()}
    assert set(TopologicalSorter(graph).static_order()) == graph.keys()


def test_the_checker_sees_imports_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "sly.py"
    sly = ("from footfall import cli", "def f() -> None:", "    import footfall.search", "import os")
    path.write_text("\n".join([*sly, 'm = importlib.import_module("footfall.rl")', "n = import_module(name)"]))
    assert imported(path) == [(1, "footfall.cli"), (3, "footfall.search"), (5, "footfall.rl")]
    assert [room_of(name) for _, name in imported(path)] == ["cli", "search", "rl"]
    assert room_of("footfall._answers_worker") == "answers" and room_of("footfall") == "__init__"


def test_light_rooms_load_neither_torch_nor_transformers() -> None:
    names = [module_name(path) for path in modules() if room_of(module_name(path)) in LIGHT]
    names = [name for name in names if name not in HEAVY]
    names += ["footfall.policy", "footfall.policy.protocol", "footfall.policy.http", "footfall.train.config"]
    script = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
    heavy = {{"torch", "transformers", "accelerate"}} & set(sys.modules)
    assert not heavy, f"{{name}} loads {{heavy}}"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
