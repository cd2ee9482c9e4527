"""What the README and the documentation tell people to type can be typed: every command line is parsed, and nothing is run.

Lines of a block, fenced or indented, must be whole; one in a sentence (`footfall label --method critic`) may leave out what
the command needs, but has no option, number or choice that the command does not take.
"""

from __future__ import annotations

import argparse
import importlib
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from footfall import cli, registry
from footfall.commands import COMMANDS
from tests.test_docs import CODE_SPAN, FENCE, PAGES, page_name, prose, text_of

_VARIABLE = re.compile(r'(?:^|(?<=[\s;]))([A-Z])="([^"]*)"')
_INDENTED = re.compile(r"^ {4}((?:[A-Z_]+=\S+ )*(?:footfall|python|torchrun|accelerate) (?:[^\n]*\\\n)*[^\n]*)", re.M)
_BEFORE = re.compile(
    r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(?:(?:torchrun|accelerate launch) .*?-m (?=footfall ))?"
)
_OURS = re.compile(r"footfall(?: |$)|python (?:-m )?(?:scripts|benchmarks|examples)[./]\w")
_LACKING = ("Required options", "Missing argument", "are required", "expected one argument", "name a command of")
"""What the parsers say where something has yet to be named."""
_PLACEHOLDERS = {"HOST:PORT": "host:6379"}


class Line(NamedTuple):
    """A command line of a page, and whether it stands in a block."""

    words: tuple[str, ...]
    whole: bool


def command_lines(page: Path) -> Iterator[Line]:
    """Every command of the project that a user is told to type, with the shell variables of the page put in."""
    text = text_of(page)
    blocks = [fence["body"] for fence in FENCE.finditer(text) if fence["language"] in ("bash", "sh", "console")]
    typed = [line for body in blocks for line in body.replace("\\\n", " ").splitlines()]
    typed += [line.replace("\\\n", " ") for line in _INDENTED.findall(prose(page))]
    known: dict[str, str] = {}
    for line in typed:
        for name, value in _VARIABLE.findall(line):
            known[name] = _with_values(value, known)
        yield from _commands(_with_values(_VARIABLE.sub("", line), known), whole=True)
    for span in CODE_SPAN.findall(prose(page)):
        yield from _commands(span, whole=False)


def _with_values(line: str, known: dict[str, str]) -> str:
    return re.sub(r"\$([A-Z])\b", lambda found: known.get(found[1], found[0]), line)


def _commands(line: str, whole: bool) -> Iterator[Line]:
    for part in re.split(r"\s*(?:\||&&|;)\s*", line.partition(" #")[0].strip()):
        command = _BEFORE.sub("", part)
        if _OURS.match(command):
            words = [_PLACEHOLDERS.get(word, word.strip("[]")) for word in shlex.split(command)]
            # "…" after an option stands for its value, elsewhere for what is left out.
            kept = [word for last, word in pairwise(["", *words]) if word != "…" or last.startswith("--")]
            yield Line(tuple(kept), whole)


class _Parsed(Exception):
    """Raised where a script would begin to work."""


@cache
def complaint(words: tuple[str, ...]) -> str:
    """What the parser of a command or script has against a line; "" if it takes it."""
    said = StringIO()
    with redirect_stderr(said), redirect_stdout(said), pytest.MonkeyPatch.context() as patched:
        code = _footfall(words[1:], patched) if words[0] == "footfall" else _script(words[1:], patched)
    return "" if code == 0 else said.getvalue() or f"exit code {code}"


def _footfall(words: tuple[str, ...], patched: pytest.MonkeyPatch) -> int:
    command = COMMANDS.get(words[0]) if words else None
    if command is not None:
        patched.setattr(importlib.import_module(command.module), "main", lambda config: 0)
    patched.setattr(registry, "name_files", lambda words: [*words])
    return cli.main(words)


def _script(words: tuple[str, ...], patched: pytest.MonkeyPatch) -> int:
    name, *given = words[1:] if words[0] == "-m" else words
    parse = argparse.ArgumentParser.parse_args

    def parsed(parser: argparse.ArgumentParser, *args: Any, **more: Any) -> None:
        parse(parser, *args, **more)
        raise _Parsed

    patched.setattr(argparse.ArgumentParser, "parse_args", parsed)
    patched.setattr(sys, "argv", [name, *given])
    try:
        runpy.run_module(name.removesuffix(".py").replace("/", "."), run_name="__main__")
    except _Parsed:
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)
    except ModuleNotFoundError as missing:  # a library that only some have: TRL, Ray
        if missing.name is None or missing.name.partition(".")[0] in ("footfall", "scripts", "benchmarks", "examples"):
            raise
        return 0
    raise AssertionError(f"{name} has no parser that this test knows")


def is_command(words: tuple[str, ...]) -> bool:
    """Not the program alone, nor a sentence about `footfall COMMAND`."""
    return words[0] == "python" or (len(words) > 1 and words[1].isalpha() and not words[1].isupper())


@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")
@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_what_a_page_tells_to_type_is_understood(page: Path) -> None:
    for line in command_lines(page):
        if is_command(line.words):
            wrong = complaint(line.words)
            lacking = not line.whole and "Unrecognized" not in wrong and any(words in wrong for words in _LACKING)
            assert not wrong or lacking, f"{page_name(page)}: `{shlex.join(line.words)}`: {wrong}"


def test_lines_that_cannot_be_typed_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        'Try `footfall label --method critic`.\n\n```bash\nA="--rounds 3"; L="python -m benchmarks.rl"\n'
        "$L $A --fast; footfall score --chunk many | head\n```\n\n"
        "    OMP_NUM_THREADS=1 footfall score --colour \\\n        red\n",
        encoding="utf-8",
    )
    found = list(command_lines(page))
    assert found == [
        Line(("python", "-m", "benchmarks.rl", "--rounds", "3", "--fast"), True),
        Line(("footfall", "score", "--chunk", "many"), True),
        Line(("footfall", "score", "--colour", "red"), True),
        Line(("footfall", "label", "--method", "critic"), False),
    ]
    told = [complaint(line.words) for line in found[1:]]
    assert "many" in told[0] and "--colour" in told[1] and "--data" in told[2]
