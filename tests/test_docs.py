"""What the README and the documentation say is true: their code runs, their links lead somewhere, their commands exist.

A fenced block is run if the line before it is `<!-- run -->`. The blocks of one page share a folder and, in Python, their
names. `<!-- run 200=8 -->` replaces the word 200 by 8 first, so that a page can show a sensible size and the test stay small.
A block behind `<!-- prints -->` must be what the block before it printed. One behind `<!-- prints at full size -->` is compared
when the page runs as it stands, without such replacements: its words must be equal, its numbers alike (see `differences`). A
Python block whose first line is a comment with a path is loaded as that file of the project; if it is a test or a recipe, it
is run as one.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from footfall import cli, formats
from footfall.lab.recipe import Trial, find, load_measure

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
RECIPES = ROOT / "src" / "footfall" / "recipes"
OWN_BIN = Path(sys.executable).parent

FENCE = re.compile(
    r"^(?:<!-- (?P<mark>run|prints at full size|prints)(?P<swaps>(?: \S+=\S+)*) -->\n)?"
    r"(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^)\s]+)\)|<(?:img|source)[^>]*? src(?:set)?=\"(?P<source>[^\"]+)\"")
CODE_SPAN = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """A fenced block that is marked, with its sizes made small."""

    mark: str
    language: str
    source: str
    line: int


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def marked(page: Path, full_size: bool = False) -> list[Block]:
    text = text_of(page)
    found = []
    for fence in FENCE.finditer(text):
        if fence["mark"]:
            source = fence["body"]
            for swap in () if full_size else fence["swaps"].split():
                shown, small = swap.split("=")
                assert re.search(rf"\b{shown}\b", source), (
                    f"{page_name(page)}: {shown} is not in the block it is swapped in"
                )
                source = re.sub(rf"\b{shown}\b", small, source)
            found.append(Block(fence["mark"], fence["language"], source, text.count("\n", 0, fence.start("body"))))
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", text_of(page))


RUNNABLE = [page for page in PAGES if marked(page)]
AT_FULL_SIZE = [page for page in PAGES if any(block.mark == "prints at full size" for block in marked(page))]


@pytest.mark.long
@pytest.mark.parametrize("page", RUNNABLE, ids=page_name)
def test_blocks_marked_runnable_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block, printed in run_blocks(page, marked(page), monkeypatch):
        if block.mark == "prints":
            assert printed.strip() == block.source.strip(), f"{page_name(page)}, line {block.line}"
        elif block.mark == "prints at full size":
            assert not names_of_facts(block.source) - names_of_facts(printed), f"{page_name(page)}, line {block.line}"


@pytest.mark.long
@pytest.mark.parametrize("page", AT_FULL_SIZE, ids=page_name)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for block, printed in run_blocks(page, marked(page, full_size=True), monkeypatch):
        if block.mark != "run":
            wrong += [f"{page_name(page)}, line {block.line}: {each}" for each in differences(block.source, printed)]
    assert not wrong, "\n".join(wrong)


def names_of_facts(output: str) -> set[str]:
    """What stands in front of a command's facts, `judge` of `judge      runs/prm`: no size of a run changes it."""
    return set(re.findall(r"^([a-z][a-z ]*?)  ", output, re.MULTILINE))


def run_blocks(page: Path, blocks: list[Block], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Block, str]]:
    """Run the blocks in order; each comes with what it printed, or, if it shows output, with what the one before it printed."""
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks:
        if block.mark == "run" and block.language != "python":
            printed = run_shell(block, page)
        elif block.mark == "run" and (file := re.match(r"# ((?:src|tests)/\S+\.py)\n", block.source)):
            run_as_file(Path(file[1]), block.source, monkeypatch)
        elif block.mark == "run":
            # Blank lines in front, so that a traceback shows the line of the page.
            with redirect_stdout(StringIO()) as output:
                exec(compile("\n" * block.line + block.source, page_name(page), "exec"), names)
            printed = output.getvalue()
        yield block, printed


_FIGURE = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?: s\b|%)?")


def differences(shown: str, printed: str) -> Iterator[str]:
    """In what a page's output is not what was printed. Widths of columns, seconds and a trained PRM's hash do not count, a line
    `…` stands for any lines, and figures may differ:

    a seed gives the same ones on one machine, but on another, matrix products round otherwise, and samples and training with
    them. So a share (with a % sign, or with a point and at most 1) may be off by 0.1, an interval's end or a single value, in
    brackets, by 0.2, and any other number by 15 % or 3.
    """
    for ours, theirs in _lined_up(shown.strip().splitlines(), printed.strip().splitlines()):
        figures = zip(_FIGURE.finditer(ours), _FIGURE.finditer(theirs), strict=False)
        if _words(ours) != _words(theirs) or not all(_alike(*pair) for pair in figures):
            yield f"shown {ours!r}, printed {theirs!r}"


def _lined_up(shown: list[str], printed: list[str]) -> Iterator[tuple[str, str]]:
    """Each line shown beside the one printed, or beside nothing; then the printed ones that are not shown."""
    left, anything = deque(printed), False
    for line in shown:
        if line == "…":
            anything = True
            continue
        while anything and left and _words(left[0]) != _words(line):
            left.popleft()
        anything = False
        yield line, left.popleft() if left else ""
    yield from (("", line) for line in left if not anything)


def _words(line: str) -> str:
    return re.sub(r"\s+", " ", _FIGURE.sub("#", re.sub(r"step-head@[0-9a-f]+", "step-head", line))).strip()


def _alike(ours: re.Match[str], theirs: re.Match[str]) -> bool:
    a, b = (float(each[0].rstrip("% s").replace(",", "")) / (100 if "%" in each[0] else 1) for each in (ours, theirs))
    if [each[0][-1] for each in (ours, theirs) if each[0][-1] in "%s"] == ["s", "s"]:
        return True
    before = ours.string[: ours.start()]
    bracketed = max(before.rfind("["), before.rfind("(")) > max(before.rfind("]"), before.rfind(")"))
    share = "%" in ours[0] or ("." in ours[0] and abs(a) <= 1)
    allowed = (0.2 if bracketed else 0.1) if share else max(3.0, 0.15 * abs(a))
    return ours[0].endswith("%") == theirs[0].endswith("%") and abs(a - b) <= allowed


def test_output_is_compared_word_by_word_and_figure_by_figure() -> None:
    shown = "right  57.0% [50.2%, 63.5%] of 400 traces\ncost   29,058 generated, 32.1 s\nAUC    0.894"
    same = "right    61.5% [52.0%, 80.1%] of 410 traces\ncost     31,000 generated, 4.0 s\nAUC      0.9"
    assert list(differences(shown, same)) == []
    for was, now in (
        *(("61.5%", "0.615"), ("61.5%", "70.5%"), ("80.1%", "85.1%"), ("410", "300"), ("31,000", "41,000")),
        *((" of ", " in "), ("0.9", "0.7"), ("4.0 s", "4.0"), ("\nAUC      0.9", ""), ("AUC", "more\nAUC")),
    ):
        assert list(differences(shown, same.replace(was, now))) != [], (was, now)


def test_lines_may_be_left_out_where_the_page_says_so() -> None:
    assert list(differences("…\nb 1\n…\nd 1", "a\nb 1\nc\nc\nd 1")) == []
    assert list(differences("b 1\n…", "b 1\nc")) == [] and list(differences("b 1", "b 1\nc")) != []
    assert list(differences("…\nb 1", "a\nc 1")) != [] and list(differences("…\nb 1\nd", "a\nb 1\nc\nd")) != []


def run_as_file(path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the block as the file that its first line names, and do with it what the project would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    if path.parent.name == "recipes":
        entry = find(path.stem.replace("_", "-"), path.parent)
        assert load_measure(entry)(Trial(seed=0, quick=True, folder=path.parent)).arms
        return
    name = ".".join(path.with_suffix("").parts).removeprefix("src.")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    for test in [value for key, value in vars(module).items() if key.startswith("test_")]:
        test()


def run_shell(block: Block, page: Path) -> str:
    """What it prints. Lines that are plain `footfall …` run in this process, which has torch loaded; the rest is for bash."""
    source = block.source.replace(".venv/bin/", "")
    lines = source.replace("\\\n", " ").splitlines()
    if all(re.fullmatch(r"footfall [^|&;<>$`]+", line) for line in lines):
        with redirect_stdout(StringIO()) as output:
            for line in lines:
                assert cli.main(shlex.split(line)[1:]) == 0, f"{page_name(page)}, line {block.line}: {line}"
        return output.getvalue()
    path = os.pathsep.join([str(OWN_BIN), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", source], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, f"{page_name(page)}, line {block.line}:\n{source}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_readme_and_the_tutorial_have_code_that_runs() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/contributing.md"} <= {page_name(page) for page in RUNNABLE}


def test_the_readme_has_the_figure_of_the_model_card() -> None:
    """The PRM that ships may be trained again; its card is written by the program that measures it."""
    card = text_of(ROOT / "src/footfall/models/coder-1.5b/README.md")
    (mean,) = re.findall(r"^\| coder-1\.5b \|(?: \d.*?\|){4} (\d+\.\d)", card, re.MULTILINE)
    (shown,) = re.findall(r"`footfall/coder-1\.5b` .*?\(ProcessBench F1 (\d+\.\d);", text_of(ROOT / "README.md"))
    assert shown == mean


def test_the_tutorial_shows_what_every_command_prints() -> None:
    blocks = marked(ROOT / "docs" / "tutorial.md", full_size=True)
    commands = [i for i, block in enumerate(blocks) if block.mark == "run" and not block.source.startswith("cat >")]
    assert [blocks[i + 1].mark for i in commands] == ["prints at full size"] * len(commands) and len(commands) > 6


def test_the_first_trace_of_the_readme_is_one(tmp_path: Path) -> None:
    (line,) = re.findall(r"^echo .* > mine\.jsonl$", text_of(ROOT / "README.md"), re.MULTILINE)
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    (row,) = formats.read(tmp_path / "mine.jsonl")
    assert len(row.trajectory.steps) > 1


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    in_site = page.parent == ROOT / "docs"
    for link in _LINK.finditer(CODE_SPAN.sub("", prose(page))):
        target = link["target"] or link["source"]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page_name(page)} links to {target}, which does not exist"
        on_site = there.is_relative_to(ROOT / "docs") or there.parent == RECIPES
        assert on_site or not in_site, f"{page_name(page)}: {target} is not part of the site"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{page_name(page)} links to {target}, but that heading does not exist"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    named = set(re.findall(r'^<details [^>]*\bid="([^"]+)"', prose(page), re.MULTILINE))
    return named | {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


_NAME = re.compile(r"footfall((?:\.\w+)+)(?::([\w.]+))?(?:\(.*\))?")


def named(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Modules and names of the package that a page speaks of in code spans: `footfall.store:Run`, `footfall.store.Run`."""
    for span in CODE_SPAN.findall(prose(page)):
        if found := _NAME.fullmatch(span):
            yield f"footfall{found[1]}", found[2].split(".") if found[2] else []


HOOKS = ("footfall.rl.verl",)


def is_there(module: str, names: list[str]) -> bool:
    """Whether the names lead somewhere in the module; a field of a class without a default is known by its annotation."""
    try:
        thing = pkgutil.resolve_name(module)
    except (ImportError, AttributeError):  # a hook for another library can only be imported beside it
        return module in HOOKS and not names and importlib.util.find_spec(module) is not None
    for name in names:
        if hasattr(thing, name):
            thing = getattr(thing, name)
        elif name not in getattr(thing, "__annotations__", {}):
            return False
    return True


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=page_name)
def test_names_of_the_package_exist(page: Path) -> None:
    assert [f"{module}:{'.'.join(names)}" for module, names in named(page) if not is_there(module, names)] == []


def test_the_glossary_explains_each_word_once_in_order() -> None:
    words = re.findall(r"^\*\*(.+?)\.\*\*", text_of(ROOT / "docs" / "glossary.md"), re.MULTILINE)
    assert words == sorted(set(words), key=str.lower) and len(list(named(ROOT / "docs" / "glossary.md"))) >= len(words)


def test_the_design_shows_every_room() -> None:
    package = ROOT / "src" / "footfall"
    rooms = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    rooms = {room for room in rooms if not room.startswith("_")}
    table = set(re.findall(r"^\| `(\w+)(?:/|\.py)` \|", text_of(ROOT / "docs" / "design.md"), re.MULTILINE))
    drawn = set(re.findall(r'class="name"[^>]*>(\w+)<', text_of(ROOT / "docs" / "design.svg")))
    assert table - {"models"} == rooms
    assert drawn == rooms


def public_parts(path: Path) -> Iterator[tuple[str, bool]]:
    """Public classes, functions and methods of a file, and whether each has a docstring."""
    waiting: list[tuple[str, ast.stmt]] = [(path.stem, each) for each in ast.parse(text_of(path)).body]
    while waiting:
        owner, node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            name = f"{owner}.{node.name}"
            yield name, ast.get_docstring(node) is not None
            if isinstance(node, ast.ClassDef):
                waiting += [(name, each) for each in node.body]


def test_nine_of_ten_public_parts_say_what_they_are() -> None:
    package = ROOT / "src" / "footfall"
    private = re.compile(r"(^|/)_(?!_init__\.py$)")
    files = [path for path in package.rglob("*.py") if not private.search(str(path.relative_to(package)))]
    found = [(f"{path.parent.name}/{name}", said) for path in sorted(files) for name, said in public_parts(path)]
    silent = [name for name, said in found if not said]
    share = 1 - len(silent) / len(found)
    assert share >= 0.9, f"{share:.1%} of {len(found)} have a docstring; these have none: {', '.join(silent)}"


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r":\s+([\w-]+\.md)$", text_of(ROOT / "mkdocs.yml"), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


@cache
def tracked() -> tuple[Path, ...]:
    """The files of the repository; without git, none."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


_PATHS = ("work/", "home/[a-z]", "Users/[A-Za-z]", "opt/")
_HOSTS = (r"pypi\.", "pythonhosted", r"download\.pytorch", "pypi/simple")
# Joined here, so that this file does not match itself.
_PRIVATE = re.compile("|".join([*(r"(?<!\.)/" + path for path in _PATHS), *(rf"://[\w.]*{host}" for host in _HOSTS)]))


def test_no_tracked_file_names_a_machine_or_a_package_host() -> None:
    if not tracked():
        pytest.skip("not a git checkout")
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found = _PRIVATE.search(text)
        assert found is None, f"{page_name(path)}: {found[0] if found else ''}"


def test_git_ignores_what_the_targets_make_and_nothing_that_is_tracked() -> None:
    if not tracked():
        pytest.skip("not a git checkout")
    made = [
        ".venv/x",
        "runs/demo/report.json",
        "site/index.html",
        "dist/x.whl",
        ".mypy_cache/x",
        "src/footfall/__pycache__/x",
    ]
    for name in made:
        assert subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT).returncode == 0, f"{name} is not ignored"
    lost = subprocess.run(["git", "ls-files", "-ci", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    assert lost.stdout == ""


def test_the_constraints_pin_every_requirement_and_no_build_of_torch() -> None:
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", text_of(ROOT / "constraints.txt"), re.MULTILINE))
    project = text_of(ROOT / "pyproject.toml")
    wanted = re.findall(r'^\s+"([\w-]+)>=', project, re.MULTILINE) + re.findall(r'= \["([\w-]+)>=', project)
    assert [name for name in wanted if name not in pins] == []
    assert not [version for version in pins.values() if "+" in version]


def test_the_first_page_names_the_system_and_the_pythons_that_the_package_names() -> None:
    project = text_of(ROOT / "pyproject.toml")
    (system,) = re.findall(r'"Operating System :: [^"]*?(\w+)"', project)
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert f"Python {pythons[0]} to {pythons[-1]} on {system}" in text_of(ROOT / "docs" / "index.md")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_table_says_what_its_columns_are(page: Path) -> None:
    assert re.findall(r"^\|(?: *\|)+ *\n\|[-| :]+$", text_of(page), re.MULTILINE) == []


@pytest.mark.long
def test_tables_that_come_from_the_code_are_up_to_date() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "scripts.write_tables", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, f"{ran.stdout}run: python -m scripts.write_tables"
