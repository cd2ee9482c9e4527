"""Images are named by their content, wherever that is at hand, and no name leads out of the data's folder."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from footfall import formats
from footfall.images import MOST_BYTES, pinned
from footfall.types import Problem, Trajectory, image_name

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
