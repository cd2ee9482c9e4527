"""Parts by name: listed without importing them, never registered twice, and all of them importable."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import footfall
from footfall import registry
from footfall.registry import (
    KINDS,
    NOTHING,
    Declared,
    Part,
    System,
    create,
    declared,
    load,
    parts,
    register,
    stored,
    systems,
)

OWN_PARTS = [part for kind in KINDS for part in parts(kind).values()]


@pytest.fixture(autouse=True)
def fresh_list() -> Iterator[None]:
    registry._all_parts.cache_clear()
    yield
    registry._all_parts.cache_clear()


def package_with(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    """Let the registry find its parts in a package made of these files."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/', 1) if not name.startswith('__') else name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(registry, "__file__", str(folder / "registry.py"))


def extension(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = EntryPoint(name, value, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])


def test_listing_every_kind_imports_neither_torch_nor_transformers() -> None:
    script = """
import sys
from footfall.registry import KINDS, parts
found = [part for kind in KINDS for part in parts(kind)]
assert "monte-carlo" in found and "torch" in found, found
loaded = {"torch", "transformers", "numpy", "pyarrow"} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.long
@pytest.mark.parametrize("part", OWN_PARTS, ids=lambda part: f"{part.kind}:{part.name}")
def test_every_part_of_the_package_can_be_imported_and_says_what_it_is(part: Part) -> None:
    factory = load(part.kind, part.name)
    assert callable(factory)
    assert factory.__footfall_part__ == (part.kind, part.name)  # type: ignore[attr-defined]
    assert part.summary.endswith(".") and 10 < len(part.summary) <= 120, "one line that says what it does"
    hinted = [p.annotation is not p.empty for p in inspect.signature(factory).parameters.values()]
    assert all(hinted), "a factory is typed"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(KeyError, match=r"no labeller is called 'monte-carl'; did you mean 'monte-carlo'\?"):
        load("labeller", "monte-carl")
    with pytest.raises(KeyError, match=r"no labeller is called 'xyzzy'; there are: .*monte-carlo"):
        create("labeller", "xyzzy")


def test_an_unknown_kind_is_answered_with_all_kinds() -> None:
    with pytest.raises(KeyError, match=r"no kind of part is called 'labeler'; there are policy, labeller"):
        parts("labeler")
    with pytest.raises(ValueError, match=r"no kind of part is called 'labeler'"):
        register("labeler", "mine")


def test_create_passes_its_arguments_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, "segmenter:fold", "textwrap:wrap")
    assert create("segmenter", "fold", text="aa bb", width=2) == ["aa", "bb"]


def test_a_part_is_found_by_its_decorator_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import surely_not_installed

@register("policy", "mine")
@other
class Mine:
    '''Writes steps.

    More about it.
    '''
"""
    room = '@register("policy", "of-a-room")\ndef made() -> None:\n    """Made in a room\'s own file."""\n'
    package_with(tmp_path, monkeypatch, room__mine=text, room____init__=room)
    assert parts("policy") == {
        "mine": Part("policy", "mine", "footfall.room.mine:Mine", "Writes steps."),
        "of-a-room": Part("policy", "of-a-room", "footfall.room:made", "Made in a room's own file."),
    }


def test_a_name_registered_twice_is_an_error_that_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = '@register("policy", "mine")\ndef {}() -> None:\n    """Writes."""\n'
    package_with(tmp_path, monkeypatch, one=part.format("first"), two=part.format("second"))
    with pytest.raises(
        ValueError, match=r"policy 'mine' is registered twice: by footfall.one:first and by .*two:second"
    ):
        parts("policy")
    with pytest.raises(ValueError, match="registered twice"):
        parts("world")


def test_one_name_may_stand_in_two_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '@register("policy", "a")\ndef p() -> None:\n    "P."\n@register("world", "a")\ndef w() -> None:\n    "W."\n'
    package_with(tmp_path, monkeypatch, both=text)
    assert (parts("policy")["a"].target, parts("world")["a"].target) == ("footfall.both:p", "footfall.both:w")


def test_other_packages_add_parts_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, "segmenter:dedent", "textwrap:dedent")
    assert parts("segmenter")["dedent"] == Part("segmenter", "dedent", "textwrap:dedent", "from an extension")
    assert load("segmenter", "dedent")("  a") == "a"
    assert "lines" in parts("segmenter"), "the package's own parts stay"


def test_an_extension_cannot_take_a_name_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, "labeller:monte-carlo", "theirs:theirs")
    with pytest.raises(ValueError, match=r"by footfall\.label\.monte_carlo:monte_carlo and by theirs:theirs"):
        parts("labeller")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("", "AttributeError"),
    ],
)
def test_an_extension_that_cannot_be_imported_stands_in_the_way_of_nobody_else(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs_broken.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    extension(monkeypatch, "labeller:theirs", "theirs_broken:make")
    with pytest.warns(UserWarning, match="'theirs' from an extension cannot be imported"):
        assert systems("labeller")["math-shepherd"].part == "monte-carlo"
    with pytest.warns(UserWarning, match="cannot be imported"):
        assert stored({"scale": 5}, "mine.toml") == {"scale": 5}
    with pytest.raises(ImportError, match=f"the labeller 'theirs' from an extension cannot be imported: {why}"):
        create("labeller", "theirs")


@pytest.mark.parametrize("name", ["labeler:mine", "mine", "labeller:"])
def test_an_entry_point_that_names_no_kind_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    extension(monkeypatch, name, "theirs:theirs")
    with pytest.raises(ValueError, match=rf"an extension adds a part by the entry point '{name}'.*'kind:name'"):
        parts("policy")


# What parts declare


def test_a_declaration_of_literals_is_known_without_importing_the_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
import surely_not_installed

@register("policy", "mine", Declared(separator="\\n", smoke={"n": 2}))
def mine() -> None:
    "Writes."

@register("policy", "plain")
def plain() -> None:
    "Writes."

@register("policy", "made", Declared(note=surely_not_installed.note))
def made() -> None:
    "Writes."
"""
    package_with(tmp_path, monkeypatch, one=text)
    assert declared("policy", "mine") == Declared(separator="\n", smoke={"n": 2})
    assert declared("policy", "plain") == NOTHING
    with pytest.raises(ModuleNotFoundError):
        declared("policy", "made")


def test_what_is_read_from_the_source_is_what_the_parts_declare() -> None:
    for part in (part for part in OWN_PARTS if part.kind in ("labeller", "searcher", "tree-labeller", "policy")):
        assert declared(part.kind, part.name) == load(part.kind, part.name).__footfall_declared__  # type: ignore[attr-defined]


def test_an_extension_declares_by_the_same_decorator_and_may_declare_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, "segmenter:dedent", "textwrap:dedent")
    assert declared("segmenter", "dedent") == NOTHING
    with pytest.raises(KeyError, match=r"did you mean 'dedent'\?"):
        declared("segmenter", "dedents")


def test_systems_are_parts_with_settings_and_nobody_takes_the_name_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = systems("labeller")
    assert known["math-shepherd"] == System("monte-carlo", {"rollouts": 8, "estimate": "hard"})
    for system, (name, settings) in known.items():
        takes = inspect.signature(load("labeller", name)).parameters
        assert settings.keys() <= takes.keys(), system
    text = '@register("policy", "{}", Declared(systems={{"{}": {{}}}}))\ndef p() -> None:\n    "P."\n'
    for names in (("a", "b"), ("c", "b")), (("a", "c"), ("c", "d")):
        registry._all_parts.cache_clear()
        package_with(tmp_path, monkeypatch, **{f"file{i}": text.format(*pair) for i, pair in enumerate(names)})
        with pytest.raises(ValueError, match=r"names a system '[bc]', and so does '[ac]'"):
            systems("policy")


def test_settings_that_parts_declare_are_theirs() -> None:
    for part in (part for part in OWN_PARTS if part.kind in ("labeller", "searcher", "tree-labeller")):
        said, takes = declared(part.kind, part.name), inspect.signature(load(part.kind, part.name)).parameters
        assert {*said.smoke, *said.judges} <= takes.keys(), part
        assert (said.aggregation is None or "aggregation" in takes) and bool(said.judges) == bool(said.missing), part


ELSEWHERE = {
    "studies/credits.py": {"noisy"},
    "studies/label_setting.py": {"majority"},
    "studies/search.py": {"noisy"},
    "studies/search_judges.py": {"noisy"},
    "studies/search_report.py": {"noisy"},
}
"""Words that mean something else there."""


def test_studies_name_no_method() -> None:
    kinds = ("labeller", "tree-labeller", "searcher", "objective")
    names = {name for kind in kinds for name in (*parts(kind), *systems(kind))}
    root = Path(footfall.__file__).parent
    for file in sorted(root.glob("studies/*.py")):
        strings = {n.value for n in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(n, ast.Constant)}
        assert strings & names == ELSEWHERE.get(file.relative_to(root).as_posix(), set()), file


@pytest.mark.parametrize(("kind", "name"), [("labeller", "scan"), ("searcher", "pats"), ("objective", "buffer")])
def test_a_method_is_one_file_one_recipe_and_one_test(kind: str, name: str) -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs" / "contributing.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if f"`{name}` |" in line and line.startswith("| a")]
    method, recipe, test = [root / path for path in re.findall(r"`([\w/]+\.py)`", row)]
    assert method == root / "src" / Path(*parts(kind)[name].module.split(".")).with_suffix(".py")
    assert recipe.exists() and test.exists()
    own = {method, recipe, method.parent / "__init__.py"}
    naming = [p for p in root.glob("src/footfall/**/*.py") if p not in own and f'"{name}"' in p.read_text("utf-8")]
    assert not naming, "nobody else knows it by name"
