"""The end of a test run tells what was skipped and what would run it, with workers too."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REMEDIES, SLOWEST, part, skips

TESTS = Path(__file__).parent
REASON = re.compile(r'(?:pytest\.skip\(|(?:skipif|importorskip)\(.+reason=)f?"([^"]+)"')
SKIPPING = """
import pytest

@pytest.mark.skipif(True, reason="needs Chromium to search in")
@pytest.mark.parametrize("n", range(3))
def test_a(n): ...

def test_b():
    pytest.skip("no sandbox here: bubblewrap (`bwrap`) is not on the PATH")

def test_c():
    pytest.skip("the moon is not full")
"""
MANY = """
import pytest

@pytest.mark.parametrize("n", range(30))
def test_n(n): ...
"""


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.long)])
def test_each_reason_has_its_count_and_its_command(workers: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    words = ["-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", "-m", "not cuda", str(tmp_path)]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "    3  no browser: apt-get install chromium\n" in done.stdout
    assert re.search(r"^    1  no sandbox: apt-get install bubblewrap", done.stdout, re.MULTILINE)
    assert "    1  the moon is not full\n" in done.stdout
    assert "left out by -m 'not cuda': those that need a GPU" in done.stdout


def test_parts_are_all_tests_and_none_twice(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_many.py").write_text(MANY)
    ran = list[str]()
    for chosen in ("0/3", "1/3", "2/3"):
        words = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "--part", chosen, str(tmp_path)]
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert f"part {chosen[0]} of 3" in done.stdout
        ran += re.findall(r"test_n\[(\d+)\] PASSED", done.stdout)
    assert sorted(map(int, ran)) == list(range(30))


@pytest.mark.parametrize("said", ["3/3", "1", "1/0", "-1/3", "a/b"])
def test_a_part_that_is_none_is_refused_with_an_example(said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="--part 2/6"):
        part(said)


def test_every_reason_that_a_test_gives_is_known() -> None:
    """A new `reason=` needs a line in conftest.py; four name all there is to do."""
    given = set()
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__):
            given |= set(REASON.findall(path.read_text(encoding="utf-8")))
    unknown = {reason for reason in given if not any(re.search(pattern, reason) for pattern, _, _ in REMEDIES)}
    assert unknown <= {"needs fork", "there is no bash", "root may write everywhere", "a disk of one's own needs root"}
    assert skips(["Skipped: needs fork"]) == ["    1  needs fork"]


def test_the_slowest_files_are_there() -> None:
    assert [name for name in SLOWEST if not (TESTS / name).is_file()] == []
