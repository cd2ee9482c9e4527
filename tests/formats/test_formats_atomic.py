"""Writing wholly or not at all: what stands at the target and is no plain file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from footfall import formats
from footfall.formats import FormatError, atomic_write
from footfall.types import Judged, Problem, Step, Trajectory

ROWS = [Judged(Trajectory("t", Problem("p", "1 + 2?"), (Step("1 + 2 = 3"),)), None)]


def test_a_pipe_or_device_is_refused_and_stays_what_it_is(tmp_path: Path) -> None:
    """To be renamed over it, a file would take its place: root's /dev/null would be no device any more."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for target in (pipe, link):
        with pytest.raises(FormatError, match="expected a file to write, got a pipe or device"):
            formats.write(target, ROWS, "jsonl")
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "rows.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(real)
    for _ in ("a link to nothing yet", "to a file"):
        formats.write(link, ROWS, "jsonl")
        assert link.is_symlink() and formats.read(real) == ROWS
    assert [path.name for path in real.parent.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_is_written_again_stays_as_private_as_it_was(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "rows.jsonl"
    formats.write(target, ROWS, "jsonl")
    before = os.umask(0o022)
    try:
        target.chmod(mode)
        with atomic_write(target) as stream:
            (temporary,) = set(tmp_path.iterdir()) - {target}
            assert stat.S_IMODE(temporary.stat().st_mode) == mode
            stream.write(b"again")
        formats.write(tmp_path / "new.jsonl", ROWS, "jsonl")
    finally:
        os.umask(before)
    assert target.read_bytes() == b"again" and stat.S_IMODE(target.stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "new.jsonl").stat().st_mode) == 0o644
