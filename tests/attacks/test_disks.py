"""Full disks, read-only folders and garbage in a run directory: one line, and then the same bytes as ever."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from footfall.cli import main
from footfall.formats.atomic import remove_folder
from tests.attacks.commands import SAMPLE, left
from tests.attacks.kills import told
from tests.sizes import SOAK


def _may_not_mount() -> bool:
    return (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0
    )


@pytest.mark.long
@pytest.mark.skipif(_may_not_mount(), reason="a disk of one's own needs root")
def test_disks_of_a_few_pages(tmp_path: Path) -> None:
    """The kernel refuses the writes themselves. Disks of one, four, seven … pages, or six sizes that are drawn by a seed."""
    sizes = ["--every", "3"] if SOAK else ["--drawn", "6"]
    rows = told(tmp_path, "--what", "disk", *sizes, "--commands", "sample", "label, stored")
    assert len(rows) >= 12 and not [row["wrong"] for row in rows if row["wrong"]]


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[1]",
    b"\xff\xfe\x00",
    b'{"command": 1}',
    b"[" * 100_000,
    b'{"a": ' + b"9" * 5000 + b"}",
]


def run(out: Path) -> int:
    return main([*SAMPLE, "--out", str(out)])


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_in_log_or_result_changes_nothing_and_in_config_is_refused(
    garbage: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "run") == 0
    before = left(tmp_path / "run")
    for name in ("log.jsonl", "result.json"):
        (tmp_path / "run" / name).write_bytes(garbage)
        assert run(tmp_path / "run") == 0
        assert left(tmp_path / "run") == before
    capsys.readouterr()
    (tmp_path / "run" / "config.json").write_bytes(garbage)
    assert run(tmp_path / "run") == 2
    assert main(["info", str(tmp_path / "run")]) in (0, 2)
    (line, *_) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("footfall: ")]
    assert "config.json" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_costs_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    assert run(tmp_path / "run") == 2
    assert str(tmp_path / "run") in capsys.readouterr().err


def test_a_run_directory_that_is_a_file_costs_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").write_text(json.dumps({}))
    assert run(tmp_path / "run") == 2
    assert str(tmp_path / "run") in capsys.readouterr().err


@pytest.mark.parametrize("name", [".lock", "config.json", "log.jsonl", "result.json", "traces/*-*.parquet"])
def test_a_pipe_or_a_device_in_a_run_directory_is_not_waited_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "run") == 0
    path = next((tmp_path / "run").glob(name))
    for make in (os.mkfifo, lambda made: made.symlink_to("/dev/zero")):
        path.unlink()
        make(path)
        capsys.readouterr()
        assert run(tmp_path / "run") == 2
        assert str(path) in capsys.readouterr().err


def test_a_folder_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is given the name of a file within an open folder, and so its error names that alone."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OSError, match="Read-only file system") as refused:
        remove_folder(tmp_path / "model")
    assert refused.value.filename == str(tmp_path / "model")
