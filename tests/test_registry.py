"""Parts by name: listed without importing them, never registered twice, and all of them importable."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from footfall import registry
from footfall.registry import KINDS, Part, create, load, parts, register

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


@pytest.mark.parametrize("name", ["labeler:mine", "mine", "labeller:"])
def test_an_entry_point_that_names_no_kind_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    extension(monkeypatch, name, "theirs:theirs")
    with pytest.raises(ValueError, match=rf"an extension adds a part by the entry point '{name}'.*'kind:name'"):
        parts("policy")
