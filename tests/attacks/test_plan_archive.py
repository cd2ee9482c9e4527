"""Archives of a run that moves: the same files there, in pieces; and archives that somebody else made."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from scripts import plan, plan_pack, plan_run
from scripts.plan_pack import CAME, MIB, pack, unpack
from tests.train.test_plan import stage, write

RECORD = {
    "name": "a", "kind": "a", "key": "k", "run": "x", "given": {}, "makes": ["a/*"], "keeps": ["a.run"], "end": "done",
    "seconds": 1.0,
}  # fmt: skip


def ran(out: Path, **changed: object) -> Path:
    """A folder of results with one stage's record and files."""
    files = {
        "a/b/one.bin": os.urandom(300_000),
        "a/two.json": b"{}",
        "a.run/begun": b"1",
        "other": b"no stage's",
        "plan/a.log": b"long",
    }
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    (out / "plan" / "a.json").write_text(json.dumps(RECORD | changed))
    return out


def files_in(out: Path) -> dict[str, bytes]:
    """But for the lock, which is each folder's own."""
    files = (file for file in out.rglob("*") if file.is_file() and file.name != "lock")
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def test_what_stages_made_travels_in_pieces_and_their_remains_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, there, archive = ran(tmp_path / "out"), tmp_path / "there", tmp_path / "to" / "r.tar.gz"
    (out / "a" / "link").symlink_to("/etc/passwd")
    assert plan.main(["pack", "--out", str(out), "--to", str(archive), "--mib", "0.1"]) == 0
    pieces = sorted(archive.parent.iterdir())
    assert [p.name for p in pieces] == [f"r.tar.gz.{k}-of-3" for k in (1, 2, 3)]
    assert all(p.stat().st_size <= 0.1 * MIB for p in pieces) and "0.29 MiB  a\n" in capsys.readouterr().out
    first = {p.name: p.read_bytes() for p in pieces}
    pack(out, archive, 0.1)
    assert {p.name: p.read_bytes() for p in archive.parent.iterdir()} == first, "the same bytes each time"
    assert plan.main(["unpack", "--out", str(there), "--from", str(archive)]) == 0
    wanted = {
        name: content for name, content in files_in(out).items() if name in ("a/b/one.bin", "a/two.json", "plan/a.json")
    }
    assert {n: c for n, c in files_in(there).items() if not n.endswith(CAME)} == wanted and unpack(
        archive, there, 10
    ) == []
    pieces[1].unlink()
    with pytest.raises(ValueError, match=r"r.tar.gz.2-of-3 is missing"):
        unpack(archive, there, 10)
    pack(out, archive, 1)
    assert [p.name for p in archive.parent.iterdir()] == ["r.tar.gz"], "the pieces of before are gone"


def test_of_an_unfinished_stage_that_with_which_it_goes_on_travels_too(tmp_path: Path) -> None:
    out = ran(tmp_path / "out", end="stopped")
    pack(out, tmp_path / "r.tar.gz", 1)
    assert "a.run/begun" in unpack(tmp_path / "r.tar.gz", tmp_path / "there", 10)
    with pytest.raises(ValueError, match="no stage with a record is called 'b'"):
        pack(out, tmp_path / "r.tar.gz", 1, ["b"])
    pack(out, tmp_path / "r.tar.gz", 1, ["a", "b"])
    assert unpack(tmp_path / "r.tar.gz", tmp_path / "there", 10) == [], "of two names one has a record"
    pack(out, tmp_path / "r.tar.gz", 1, below=1e-6)
    assert unpack(tmp_path / "r.tar.gz", tmp_path / "small", 10) == ["a.run/begun", "plan/a.json"], (
        "one of a single byte"
    )
    with pytest.raises(ValueError, match="nothing to pack"):
        pack(tmp_path / "empty", tmp_path / "r.tar.gz", 1)


def test_files_that_are_here_with_other_bytes_are_replaced_when_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, archive = ran(tmp_path / "out"), tmp_path / "r.tar.gz"
    pack(out, archive, 1)
    (out / "a" / "two.json").write_text("mine")
    (out / "a" / "b" / "one.bin").unlink()
    words = ["unpack", "--out", str(out), "--from", str(archive)]
    assert plan.main(words) == 2 and "two.json and 0 more are here with other bytes" in capsys.readouterr().err
    assert (out / "a" / "two.json").read_text() == "mine" and not (out / "a" / "b" / "one.bin").exists(), (
        "nothing was written"
    )
    assert plan.main([*words, "--replace"]) == 0 and (out / "a" / "two.json").read_text() == "{}"


def test_what_open_stages_need_travels_and_what_came_does_not_go_back(tmp_path: Path) -> None:
    out, there, archive = tmp_path / "out", tmp_path / "there", tmp_path / "r.tar.gz"
    made = "sh -c 'for n in $1; do mkdir -p $0/$n && echo $n > $0/$n/x && echo $n > $0/$n/y; done' {out}"
    entries = [
        stage("a", f"{made} a", "a/*"), stage("b", f"{made} b", "b/*", after="a"), stage("c", f"{made} c", "c/*", after="b"),
        stage("d", f"{made} d", "d/*", after="c", reads="a/x c/*"),
    ]  # fmt: skip
    file = write(tmp_path / "p.toml", *entries)
    words = ["run", str(file), "--seconds", "60", "--out"]
    assert plan.main([*words, str(out), "--only", "b"]) == 0
    assert plan.main(["pack", "--out", str(out), "--to", str(archive), "--for", str(file)]) == 0
    assert {name for name in unpack(archive, there, 1) if "plan" not in name} == {"a/x", "b/x", "b/y"}
    assert plan.main([*words, str(there)]) == 0
    assert plan.main(["pack", "--out", str(there), "--to", str(archive), "--new"]) == 0
    (there / "b" / "x").write_text("other")
    assert {name for name in unpack(archive, tmp_path / "new", 1) if "plan" not in name} == {"c/x", "c/y", "d/x", "d/y"}
    pack(there, archive, 1, new=True)
    assert "b/x" in unpack(archive, tmp_path / "newer", 1), "it has changed since it came"
    unpack(archive, out, 1, replace=True)
    assert {*files_in(out)} >= {"a/y", "d/x"} and plan.main([*words, str(out)]) == 0


def archived(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=form) as archive:
        for entry, content in entries:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found, b"" if kind != tarfile.REGTYPE else b"content"


def damaged(content: bytes, at: int) -> bytes:
    """With one bit turned over."""
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


GOOD = entry("fine")
NOISE = archived(GOOD, (tarfile.TarInfo("x"), os.urandom(100_000)))
CLAIM = gzip.decompress(archived((tarfile.TarInfo("big"), b"x")))[:512].replace(b"0000000001", b"7777777777")
HOSTILE = {
    "a path above": (archived(GOOD, entry("../out-of-here")), "'../out-of-here' is no plain path inside the folder"),
    "a path above, deep": (archived(GOOD, entry("a/../../x")), "is no plain path inside the folder"),
    "an absolute path": (archived(GOOD, entry("/tmp/x")), "'/tmp/x' is no plain path inside the folder"),
    "a backslash": (archived(GOOD, entry("a\\..\\x")), "is no plain path inside the folder"),
    "a control character": (archived(GOOD, entry("a\x1b[31m")), r"'a\\x1b\[31m' is no plain path inside the folder"),
    "a dot": (archived(GOOD, entry("./a")), "is no plain path inside the folder"),
    "a long name": (archived(GOOD, entry("a/" * 300 + "b")), "is no plain path inside the folder"),
    "a link": (archived(GOOD, entry("a", tarfile.SYMTYPE, "/etc"), entry("a/passwd")), "'a' is no plain file"),
    "a hard link": (archived(GOOD, entry("a", tarfile.LNKTYPE, "/etc/passwd")), "'a' is no plain file"),
    "a device": (archived(GOOD, entry("a", tarfile.CHRTYPE)), "'a' is no plain file"),
    "a pipe": (archived(GOOD, entry("a", tarfile.FIFOTYPE)), "'a' is no plain file"),
    "a folder": (archived(GOOD, entry("a", tarfile.DIRTYPE)), "'a' is no plain file"),
    "a file twice": (archived(GOOD, GOOD), "it holds a file twice"),
    "through a link that is here": (archived(GOOD, entry("away/x")), "would go through the link"),
    "over a folder that is here": (archived(GOOD, entry("kept")), "kept is a folder here"),
    "below a file that is here": (archived(GOOD, entry("mine/x")), "mine is a file here"),
    "below a file of its own": (archived(GOOD, entry("fine/x")), "'fine' both as a file and as a folder"),
    "a name that cannot be written": (archived(GOOD, entry("a" * 250)), "is no plain path inside the folder"),
    "the lock": (archived(GOOD, entry("plan/lock")), "'plan/lock' is each machine's own"),
    "what came": (archived(GOOD, entry("plan/came.txt")), "'plan/came.txt' is each machine's own"),
    "a bit": (damaged(NOISE, 50_000), "CRC check failed"),
    "a checksum": (damaged(NOISE, -8), "CRC check failed"),
    "a header": (gzip.compress(damaged(gzip.decompress(NOISE), 1024 + 10)), "something follows its file 1"),
    "two archives": (archived(GOOD) + archived(entry("more")), "something follows its file 1"),
    "much": (archived(GOOD, (tarfile.TarInfo("big"), bytes(3 * MIB))), "it holds more than"),
    "a claim of much": (gzip.compress(CLAIM), "it holds more than|bad checksum|no plain file|invalid header|truncated"),
    "zeros": (gzip.compress(bytes(80 * MIB)), "it holds more than it may"),
    "a few zeros": (gzip.compress(bytes(MIB)), "it holds no file"),
    "cut at the end": (NOISE[:-4], "end-of-stream"),
    "no gzip": (b"hello", "gzipped"),
    "cut": (NOISE[:-2000], "end-of-stream|unexpected end|truncated"),
    "nothing": (b"", "empty file|it holds no file"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_an_archive_that_somebody_else_made_writes_nothing(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, said = HOSTILE[case]
    out, away = tmp_path / "in" / "out", tmp_path / "away"
    (out / "kept").mkdir(parents=True)
    away.mkdir()
    (out / "mine").write_text("mine")
    (out / "away").symlink_to(away)
    file = tmp_path / "r.tar.gz"
    file.write_bytes(content)
    before = files_in(tmp_path)
    status = plan.main(["unpack", "--out", str(out), "--from", str(file), "--most-mib", "2"])
    told = capsys.readouterr().err
    assert files_in(tmp_path) == before and not list(away.iterdir())
    assert status == 2 and told.count("\n") == 1 and "\x1b" not in told and len(told) < 700
    with pytest.raises(ValueError, match=said):
        unpack(file, out, 2)


def test_pieces_of_two_archives_are_not_one(tmp_path: Path) -> None:
    out = ran(tmp_path / "out")
    for name in ("one", "two"):
        (out / "a" / "b" / "one.bin").write_bytes(os.urandom(300_000))
        pack(out, tmp_path / name / "r.tar.gz", 0.1)
    (tmp_path / "one" / "r.tar.gz.2-of-3").replace(tmp_path / "two" / "r.tar.gz.2-of-3")
    with pytest.raises(ValueError, match=r"r\.tar\.gz: "):
        unpack(tmp_path / "two" / "r.tar.gz", tmp_path / "there", 10)
    assert files_in(tmp_path / "there") == {}


def test_nothing_is_unpacked_under_a_runner_and_its_lock_does_not_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, archive = ran(tmp_path / "out", makes=["*"]), tmp_path / "r.tar.gz"
    monkeypatch.setattr(plan_run, "PATIENCE", 0.1)
    with plan_run.locked(out):
        pack(out, archive, 1)
        with pytest.raises(ValueError, match="are still going"):
            unpack(archive, out, 10)
    assert "other" in unpack(archive, tmp_path / "there", 10)


def test_many_files_are_refused_by_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_pack, "MOST_FILES", 3)
    file = tmp_path / "r.tar.gz"
    file.write_bytes(archived(*(entry(str(k)) for k in range(4))))
    with pytest.raises(ValueError, match="it holds more than 3 files"):
        unpack(file, tmp_path / "out", 2)


@pytest.mark.parametrize(
    "changed",
    [{"makes": ["../../etc/*"]}, {"keeps": ["/etc/*"]}, {"makes": [3]}, {"end": "fine"}, {"name": "b"}, {"seconds": "no"},
     {"new": 1}],
)  # fmt: skip
def test_a_record_from_elsewhere_names_nothing_outside(
    changed: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ran(tmp_path / "out", **changed)
    assert plan.main(["pack", "--out", str(out), "--to", str(tmp_path / "r.tar.gz")]) == 2
    told = capsys.readouterr().err
    assert "a.json" in told and told.count("\n") == 1 and not (tmp_path / "r.tar.gz").exists()
