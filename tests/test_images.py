"""Images are named by their content, wherever that is at hand, and no name leads out of the data's folder."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from footfall import formats
from footfall.hashing import MOST_BYTES, pinned
from footfall.types import Judged, Problem, Trajectory, image_name

PIXELS = b"\x89PNG pixels"
NAME = "sha256:" + hashlib.sha256(PIXELS).hexdigest()


def test_copies_of_one_picture_have_one_name(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(PIXELS)
    first, second = (pinned(name, tmp_path) for name in ("a.png", "b.png"))
    assert first.startswith("a.png#sha256=") and image_name(first) == image_name(second) == NAME
    keys = {Trajectory("t", Problem("p", "?", images=(reference,))).key for reference in (first, second)}
    assert len(keys) == 1, "the path is no part of the key"
    assert pinned(first, tmp_path) == first


def test_a_data_url_is_named_by_what_it_holds(tmp_path: Path) -> None:
    encoded = base64.b64encode(PIXELS).decode()
    assert image_name(pinned(f"data:image/png;base64,{encoded}", tmp_path)) == NAME
    assert image_name(pinned("data:text/plain,%89PNG%20pixels", tmp_path)) == NAME
    with pytest.raises(ValueError, match="no base64"):
        pinned("data:image/png;base64,???", tmp_path)


@pytest.mark.parametrize(
    "reference", ["https://example.org/a.png", "missing.png", "../secret.png", "/etc/hostname", "a\x00b"]
)
def test_what_is_not_at_hand_keeps_its_reference(tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret.png").write_bytes(PIXELS)
    (tmp_path / "data").mkdir()
    assert pinned(reference, tmp_path / "data") == reference and image_name(reference) == reference


def test_a_huge_file_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "huge.png").open("wb") as stream:
        stream.truncate(MOST_BYTES + 1)
    with pytest.raises(ValueError, match="at most"):
        pinned("huge.png", tmp_path)


def test_readers_name_images_that_lie_beside_the_file_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PIXELS)
    row = {"problem": {"prompt": "?", "images": ["a.png", "b.png"]}, "steps": [{"text": "x", "images": ["a.png"]}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    ((trace, _),) = formats.read(tmp_path / "rows.jsonl")
    assert [image_name(i) for i in trace.problem.images] == [NAME, "b.png"] and image_name(
        trace.steps[0].images[0]
    ) == NAME
    (tmp_path / "problems.jsonl").write_text(json.dumps({"prompt": "?", "images": ["a.png"]}) + "\n")
    (problem,) = formats.read_problems(tmp_path / "problems.jsonl")
    assert image_name(problem.images[0]) == NAME
    formats.write_parquet(tmp_path / "rows.parquet", [trace], "trajectory")
    assert formats.read(tmp_path / "rows.parquet")[0].trajectory == trace


def test_a_reference_with_another_hash_than_the_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PIXELS)
    stated = "0" * 64
    encoded = base64.b64encode(PIXELS).decode()
    for reference in ("a.png", f"data:image/png;base64,{encoded}"):
        with pytest.raises(ValueError, match=f"(?s){NAME.removeprefix('sha256:')}.*{stated}"):
            pinned(f"{reference}#sha256={stated}", tmp_path)
    assert pinned(f"gone.png#sha256={stated}", tmp_path) == f"gone.png#sha256={stated}"


FORMS: list[Callable[[str], dict[str, Any]]] = [
    lambda image: {"problem": {"prompt": "q", "images": [image]}, "steps": ["s"]},
    lambda image: {"problem": "q", "images": [image], "steps": ["s"]},
    lambda image: {"problem": "q", "steps": [{"text": "s", "images": [image]}]},
    lambda image: {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]},
            {"role": "assistant", "content": "s"},
        ]
    },
]


def traces(folder: Path, *records: dict[str, Any]) -> list[Trajectory]:
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return [row.trajectory for row in formats.read(folder / "rows.jsonl")]


@pytest.mark.parametrize("form", FORMS, ids=["full", "short", "step", "chat"])
def test_ids_are_made_of_what_a_picture_holds(tmp_path: Path, form: Callable[[str], dict[str, Any]]) -> None:
    for folder, pixels in (("one", PIXELS), ("two", b"other")):
        (tmp_path / folder).mkdir()
        for name in ("a.png", "b.png"):
            (tmp_path / folder / name).write_bytes(pixels)
    first, copy = traces(tmp_path / "one", form("a.png"), form("b.png"))
    assert first.problem.id == copy.problem.id and first.key == copy.key
    assert copy.id == f"{first.id}~2", "equal traces have equal ids, but for the number that keeps them apart"
    (other,) = traces(tmp_path / "two", form("a.png"))
    assert other.id != first.id and other.key != first.key
    assert other.problem.id != first.problem.id or not first.problem.images


@pytest.mark.parametrize("more", [{}, {"unique_name": "x"}], ids=["own", "foreign"])
def test_ids_of_problems_are_made_of_what_a_picture_holds(tmp_path: Path, more: dict[str, Any]) -> None:
    for folder, pixels in (("one", PIXELS), ("two", b"other")):
        (tmp_path / folder).mkdir()
        for name in ("a.png", "b.png"):
            (tmp_path / folder / name).write_bytes(pixels)
        lines = [json.dumps({"prompt": "q", "images": [name], **more}) + "\n" for name in ("a.png", "b.png")]
        (tmp_path / folder / "problems.jsonl").write_text("".join(lines))
    (first,) = formats.read_problems(tmp_path / "one" / "problems.jsonl")
    (other,) = formats.read_problems(tmp_path / "two" / "problems.jsonl")
    assert first.id != other.id


def test_images_of_a_short_record_are_the_problems(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(PIXELS)
    trace, bare = traces(
        tmp_path,
        {"problem": "q", "images": ["x.png"], "steps": ["s"]},
        {"problem": "q", "images": None, "steps": ["s"]},
    )
    assert [image_name(image) for image in trace.problem.images] == [NAME] and trace.meta == {}
    assert bare.problem.images == () and bare.problem.id == formats.problem_id("q")


def test_ids_of_rows_without_images_stay_as_they_were(tmp_path: Path) -> None:
    trace, named = traces(
        tmp_path, {"problem": "q", "steps": ["s"]}, {"problem": {"prompt": "q", "images": ["no.png"]}, "steps": ["s"]}
    )
    assert (trace.problem.id, trace.id) == ("p-aa1db869ac666ce9", "t-5c4dead8fac58493")
    assert (named.problem.id, named.id) == ("p-cb5931e14c2964b5", "t-05d4dd68b6a8a96a")


def test_a_bad_image_is_the_error_of_its_record(tmp_path: Path) -> None:
    good = {"problem": "q", "images": [], "steps": ["s"]}
    wrong = {**good, "images": ["data:image/png;base64,@@@"]}
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in (good, wrong, good)))
    with pytest.raises(formats.FormatError, match=r'rows.jsonl, line 2, field "images\[0\]".*no base64.*fix'):
        formats.read(file)
    bad: list[formats.FormatError] = []
    assert len(formats.read(file, bad=bad)) == 2 and [error.line for error in bad] == [2]
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(json.dumps({"prompt": "q", "images": r["images"]}) + "\n" for r in (good, wrong)))
    bad = []
    assert len(formats.read_problems(problems, bad=bad)) == 1 and [error.line for error in bad] == [2]


@pytest.mark.parametrize("kind", ["trajectory", "problem"])
def test_a_bad_image_of_a_parquet_file_is_the_error_of_its_row(tmp_path: Path, kind: str) -> None:
    made = [
        Trajectory(f"t{i}", Problem(f"p{i}", "?", images=images))
        for i, images in enumerate(((), ("data:,x#sha256=0",)))
    ]
    file = tmp_path / "rows.parquet"
    formats.write_parquet(file, made if kind == "trajectory" else [trace.problem for trace in made], kind)
    with pytest.raises(formats.FormatError, match=r"row 2.*sha256"):
        formats.read_problems(file)
    bad: list[formats.FormatError] = []
    assert [problem.id for problem in formats.read_problems(file, bad=bad)] == ["p0"]
    assert [error.line for error in bad] == [2]


def test_an_unpinned_image_in_memory_can_be_written(tmp_path: Path) -> None:
    trace = Trajectory("t", Problem("p", "?", images=("data:,x",)))
    formats.write(tmp_path / "rows.jsonl", [Judged(trace, None)], "jsonl")
    assert '"data:,x"' in (tmp_path / "rows.jsonl").read_text()
