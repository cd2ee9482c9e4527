"""Hostile files: whatever a reader is given, it gives sound rows or one line that names the file, in linear time."""

from __future__ import annotations

import gzip
import io
import json
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from footfall.benchmarks.scores import Scores
from footfall.formats import (
    FormatError,
    files,
    format_named,
    read,
    read_parquet,
    read_problems,
    read_trees,
    write,
    write_parquet,
)
from footfall.registry import parts
from footfall.types import Judged, Judgement, Node, Problem, Step, Trajectory, Tree
from tests.attacks.commands import say

LINE_OF_ERROR = 4000
"""Characters that an error may have at most."""


def messages(error: ValueError) -> str:
    """The error's one line."""
    said = str(error)
    assert "\n" not in said and len(said) < LINE_OF_ERROR
    return said


# Sizes


def seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def lines(count: int, record: Callable[[int], dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(record(i)) for i in range(count)).encode()


@pytest.mark.parametrize("kind", ["one id", "one id and content", "one problem id"])
def test_rows_with_one_id_are_told_apart_in_linear_time(kind: str) -> None:
    def record(i: int) -> dict[str, Any]:
        own = {"id": "x", "problem": "?" if "content" in kind else f"{i}?", "steps": ["a"]}
        return own if kind != "one problem id" else {"id": "x", "question": f"{i}?"}

    reader: Callable[[io.BytesIO], list[Any]] = read_problems if kind == "one problem id" else read
    small, large = lines(500, record), lines(4000, record)
    found = reader(io.BytesIO(large))
    ids = [row.trajectory.id if isinstance(row, Judged) else row.id for row in found]
    assert ids[:3] == ["x", "x~2", "x~3"] and len(set(ids)) == 4000
    assert seconds(lambda: reader(io.BytesIO(large))) < 40 * seconds(lambda: reader(io.BytesIO(small))) + 0.5


def test_a_field_that_occurs_twice_among_many_is_found_in_linear_time() -> None:
    def text(count: int) -> bytes:
        return ("{" + ", ".join(f'"k{i}": 1' for i in range(count)) + f', "k{count - 1}": 2}}').encode()

    def refused(data: bytes) -> None:
        with pytest.raises(FormatError, match="each field once"):
            read(io.BytesIO(data))

    small, large = text(5_000), text(50_000)
    assert seconds(lambda: refused(large)) < 50 * seconds(lambda: refused(small)) + 0.5


# Values


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    "record",
    [
        f'{{"problem": "?", "steps": ["a"], "labels": [{HUGE}]}}',
        f'{{"problem": "?", "steps": ["a"], "labels": [-{HUGE}]}}',
        f'{{"problem": "?", "steps": ["a"], "labels": "[{HUGE}]"}}',
        f'{{"prompt": "?", "completions": ["a"], "labels": [{HUGE}]}}',
        f'{{"question": "?", "final_answer": "1", "reasoning_steps": [{{"solution_prefix": "?", "mc_value": {HUGE}}}]}}',
        f'{{"problem": {{"prompt": "?"}}, "steps": ["a"], "judgement": {{"judge": "j", "values": [{HUGE}]}}}}',
        '{"problem": "?", "steps": ["a"], "labels": "[NaN]"}',
        '{"problem": "?", "steps": ["a"], "labels": "[1e999]"}',
    ],
)
def test_a_number_that_no_float_can_hold_is_named_with_its_line(record: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(io.BytesIO(record.encode()))
    assert "line 1, field" in messages(caught.value)


@pytest.mark.parametrize("depth", [100, 500, 2000, 200_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nan_at_any_depth_is_one_line(depth: int, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    nested = f'{{"problem": "?", "steps": ["a"], "x": {opening * depth}NaN{closing * depth}}}'
    with pytest.raises(FormatError) as caught:
        read(io.BytesIO(nested.encode()))
    assert "line 1" in messages(caught.value)


@pytest.mark.parametrize("name", ["x" * 10**6, "a\nb\x1b[2J" * 1000])
def test_names_and_ids_in_errors_are_bounded(name: str, tmp_path: Path) -> None:
    records = [
        {name: 1},
        {"problem": {name: 1}, "steps": []},
        {"problem": "?", "steps": ["a"], "first_error_" + name: 1},
    ]
    for record in records:
        with pytest.raises(FormatError) as caught:
            read(io.BytesIO(json.dumps(record).encode()))
        assert "\x1b" not in messages(caught.value)
    row = Judged(Trajectory(name, Problem("p", "?"), (Step("a"),)), Judgement(name, (0.5,), "j"))
    with pytest.raises(FormatError) as caught:
        write(tmp_path / "out.jsonl", [row], "math-shepherd")
    messages(caught.value)


def test_a_gzip_bomb_ends_at_the_stated_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DOCUMENT_LIMIT", 1 << 16)
    for unpacked in (b" \n" * 2**20, b'{"problem": "?", "steps": ["a"]}\n' * 2**13):
        with pytest.raises(FormatError) as caught:
            read(io.BytesIO(gzip.compress(unpacked)))
        assert "at most 200 times its size" in messages(caught.value)
    text = "".join(json.dumps({"problem": f"{i * i}?", "steps": [str(i)]}) + "\n" for i in range(2500))
    assert len(text) > 1 << 16 and len(read(io.BytesIO(gzip.compress(text.encode())))) == 2500


def test_a_tree_that_bites_its_tail_is_refused(tmp_path: Path) -> None:
    tree = Tree(Problem("p", "?"))
    tree.nodes += [Node(1, Step("a")), Node(0, Step("b"))]
    write_parquet(tmp_path / "tree.parquet", [tree], "tree")
    with pytest.raises(FormatError) as caught:
        read_trees(tmp_path / "tree.parquet")
    assert "hangs under" in messages(caught.value)


def test_the_traces_of_a_tree_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("footfall.formats.math_aps.STEPS_LIMIT", 2)
    prefixes = [{"solution_prefix": f"?\n\na\n\n{k}", "mc_value": 1} for k in "bc"]
    record = {"question": "?", "reasoning_steps": [{"solution_prefix": "?\n\na", "mc_value": 1}, *prefixes]}
    with pytest.raises(FormatError) as caught:
        read(io.BytesIO(json.dumps(record).encode()))
    assert "more than 2 steps together" in messages(caught.value)


# Anything


ROW = Judged(
    Trajectory("t1", Problem("p1", "2 + 3 = ?", "5"), (Step("Step 1: 2 + 3 = 5"), Step("Step 2: so 5")), answer="5"),
    Judgement("t1", (1.0, 0.0), "someone"),
)
SHORT: list[dict[str, Any]] = [
    {"problem": "?", "solution": "Step 1: a Step 2: b", "answer": "#### 5", "target": "5"},
    {"question": "?", "steps": [{"text": "a", "action": "b", "images": []}], "mistake_index": 0},
    {"question": "?", "response": "a\n\nb", "labels": [1, 0.5], "prediction": 3, "is_correct": True},
    {"question": "?", "answer": 3, "id": 4, "images": ["x.png"]},
]


def valid_record(format: str) -> dict[str, Any]:
    """A sound record of a registered format."""
    row = Judged(Trajectory("p1", ROW.trajectory.problem), None) if format == "problems" else ROW
    row = row._replace(judgement=None) if format == "openai-chat" else row
    (written,) = format_named(format).write([row])
    return dict(written.record)


RECORDS = [*SHORT, *map(valid_record, parts("format"))]
FORMATS = ["auto", *parts("format")]
HOSTILE: st.SearchStrategy[Any] = st.sampled_from([
    None, True, False, 0, -1, 1, 10**400, 1e308, -0.0, float("nan"), float("inf"), "", " ", "\n\n", "+", "-", "\x1b[2J",
    "\ud800", "Step 1: a Step 2: b", "[1, 2]", "[NaN]", "[" * 300, [], {}, [[]], [{}], {"a": {}}, [None], ["a"], [1],
    "x" * 3000,
])  # fmt: skip
JSON = st.recursive(
    HOSTILE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a record with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else []
        found += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    return found


@st.composite
def mutated(draw: st.DrawFn, sound: list[dict[str, Any]]) -> bytes:
    """A valid record with some of its values replaced, removed, moved or added to, at any depth."""
    record = json.loads(json.dumps(draw(st.sampled_from(sound))))
    for _ in range(draw(st.integers(1, 3))):
        known = places(record)
        if not known:
            break
        holder, key = draw(st.sampled_from(range(len(known))).map(known.__getitem__))
        what = draw(st.sampled_from(["replace", "remove", "copy", "add"]))
        if what == "replace":
            holder[key] = deepcopy(draw(JSON))
        elif what == "remove":
            del holder[key]
        elif what == "copy":
            other, place = known[draw(st.integers(0, len(known) - 1))]
            if place in other if isinstance(other, dict) else place < len(other):
                holder[key] = json.loads(json.dumps(other[place]))
        elif isinstance(holder, dict):
            name = draw(st.sampled_from(["labels", "label", "steps", "problem", "messages", "x", "id", "images"]))
            holder[name] = deepcopy(draw(JSON))
    return json.dumps(record, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn, sound: list[dict[str, Any]]) -> bytes:
    """The bytes of a few valid records, plain or packed, with some cut out, put in or changed."""
    records = draw(st.lists(st.sampled_from(sound), min_size=1, max_size=3))
    whole = draw(st.sampled_from(["lines", "array", "gzip"]))
    data = json.dumps(records).encode() if whole == "array" else "\n".join(map(json.dumps, records)).encode()
    data = gzip.compress(data, mtime=0) if whole == "gzip" else data
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 6)) :]
    return data


def check(data: bytes, format: str) -> None:
    """Sound rows, or one line; with `bad`, what can be read of the rest."""
    try:
        for row in read(io.BytesIO(data), format):
            assert isinstance(row, Judged) and row.trajectory.key
            if row.judgement is not None:
                row.judgement.check(row.trajectory)
    except FormatError as error:
        messages(error)
    for reader in (read_problems, read_trees):
        try:
            reader(io.BytesIO(data))
        except FormatError as error:
            messages(error)
    bad: list[FormatError] = []
    try:
        read(io.BytesIO(data), format, bad=bad)
    except FormatError as error:
        messages(error)
    for found in bad:
        messages(found)


QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
some = settings(max_examples=100, deadline=None, suppress_health_check=QUIET)


@some
@given(mutated(RECORDS), st.sampled_from(FORMATS))
def test_records_that_were_tampered_with(data: bytes, format: str) -> None:
    check(data, format)


@some
@given(damaged(RECORDS), st.sampled_from(FORMATS))
def test_files_that_were_damaged(data: bytes, format: str) -> None:
    check(data, format)


def check_parquet(edits: list[tuple[float, bytes]], path: Path) -> None:
    """A file of ours with some of its bytes changed, each edit at a share of its length."""
    write_parquet(path, [ROW], "judged")
    data = path.read_bytes()
    for share, new in edits:
        at = int(share * len(data))
        data = data[:at] + new + data[at + len(new) :]
    path.write_bytes(data)
    try:
        assert read_parquet(path, "judged") == [ROW]
    except FormatError as error:
        messages(error)


EDITS = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=3)), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None, suppress_health_check=(*QUIET, HealthCheck.function_scoped_fixture))
@given(edits=EDITS)
def test_parquet_files_that_were_damaged(edits: list[tuple[float, bytes]], tmp_path: Path) -> None:
    check_parquet(edits, tmp_path / "rows.parquet")


SCORES: list[dict[str, Any]] = [{"id": "a", "scores": [1, 0.5, None]}, {"id": 3, "split": "x", "value": 0.25}]


@settings(max_examples=60, deadline=None, suppress_health_check=(*QUIET, HealthCheck.function_scoped_fixture))
@given(mutated(SCORES) | damaged(SCORES))
def test_scores_files_that_were_tampered_with(tmp_path: Path, data: bytes) -> None:
    check_scores(data, tmp_path / "scores.jsonl")


def check_scores(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    try:
        Scores.read(path)
    except ValueError as error:
        messages(error)


@pytest.mark.parametrize("value", ["\n\n", "\u2028\x1b[2J", "x" * 10**6, [[]] * 99, {"\n": 1}])
def test_what_a_scores_file_holds_is_told_in_one_line(value: object, tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    for row in (
        {"id": "a", "value": value},
        {"id": "a", "scores": [value]},
        {"id": [value]},
        {"id": "a", "split": [value]},
    ):
        path.write_text(json.dumps(row))
        with pytest.raises(ValueError, match=r"scores\.jsonl, line 1, field") as caught:
            Scores.read(path)
        messages(caught.value)


@settings(max_examples=25, deadline=None, suppress_health_check=(*QUIET, HealthCheck.function_scoped_fixture))
@given(mutated(RECORDS) | damaged(RECORDS), st.sampled_from(["show", "info"]))
def test_commands_that_look_at_files_say_one_line(tmp_path: Path, data: bytes, command: str) -> None:
    check_command(data, command, tmp_path / "rows.jsonl")


def check_command(data: bytes, command: str, path: Path) -> None:
    path.write_bytes(data)
    code, out, errors = say([command, str(path)])
    assert code == 0 if not errors else code in (0, 2)
    assert code == 0 or (not out and errors.count("\n") == 1)
    assert not set(out + errors) & UNPRINTABLE


UNPRINTABLE = {chr(code) for code in [*range(0x20), *range(0x7F, 0xA0)]} - {"\n", "\t"}
