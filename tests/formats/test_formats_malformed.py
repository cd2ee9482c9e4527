"""Bad input of every kind, in every format: one error that names file, line and field, and no partial output."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from footfall import formats
from footfall.formats import FormatError
from footfall.formats.files import LINE_LIMIT
from footfall.types import Cost, Judged, Judgement, Message, Problem, Step, Trajectory, Tree

Record = dict[str, Any]

GOOD: dict[str, Record] = {
    "jsonl": {"problem": "1 + 2?", "steps": ["1 + 2 = 3", "So 3."], "answer": "3", "labels": [1, 0.5]},
    "prm800k": {
        "question": {"problem": "1 + 2?", "ground_truth_answer": "3"},
        "label": {"steps": [{"completions": [{"text": "3", "rating": 1, "flagged": False}], "chosen_completion": 0}]},
    },
    "math-shepherd": {"input": "1 + 2? Step 1: 1 + 2 = 3 ки", "label": "1 + 2? Step 1: 1 + 2 = 3 +", "task": "GSM8K"},
    "trl": {"prompt": "1 + 2?", "completions": ["1 + 2 = 3", "So 3."], "labels": [True, 0.5]},
    "rlhflow": {
        "conversations": [{"role": "user", "content": "1 + 2? Step 1: 3"}, {"role": "assistant", "content": "+"}]
    },
    "processbench": {
        "id": "a",
        "generator": "m",
        "problem": "1 + 2?",
        "steps": ["3"],
        "final_answer_correct": True,
        "label": -1,
    },
    "prmbench": {
        "idx": "a",
        "classification": "circular",
        "modified_question": "1 + 2?",
        "modified_process": ["3"],
        "error_steps": [1],
    },
    "math-aps": {
        "question": "1 + 2?",
        "final_answer": "3",
        "reasoning_steps": {
            "text": "1 + 2?",
            "mc_value": 0.5,
            "children": [{"text": "3", "mc_value": 1, "children": []}],
        },
    },
    "problems": {"problem": "1 + 2?", "answer": "3"},
    "openai-chat": {
        "messages": [{"role": "user", "content": "1 + 2?"}, {"role": "assistant", "content": "1 + 2 = 3\n\nSo 3."}]
    },
}


def line(record: Record) -> bytes:
    return json.dumps(record).encode() + b"\n"


def changed(format: str, *path: str | int, to: Any) -> Record:
    """The good record with one value replaced, or removed when `to` is `...`."""
    record: Any = json.loads(json.dumps(GOOD[format]))
    place = record
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return dict(record)


def failure(tmp_path: Path, data: bytes, format: str) -> FormatError:
    """The one error that reading these bytes gives; the good first line makes the second the bad one."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(line(GOOD[format]) + data)
    with pytest.raises(FormatError) as caught:
        formats.read(path, format)
    error = caught.value
    assert error.path == str(path)
    assert str(error).startswith(f"{path}, line {error.line}")
    assert f"expected {error.expected}" in str(error)
    return error


@pytest.mark.parametrize("format", GOOD)
def test_the_good_record_of_each_format_is_read_and_recognised(format: str) -> None:
    assert formats.read(io.BytesIO(line(GOOD[format])), format)
    if format != "problems":
        assert formats.read(io.BytesIO(line(GOOD[format]))) == formats.read(io.BytesIO(line(GOOD[format])), format)


@pytest.mark.parametrize("format", GOOD)
@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (lambda good: good[: len(good) // 2], "one whole JSON object"),
        (lambda good: good[:-2], "one whole JSON object"),
        (lambda good: b'{"a": 1,}\n', "one whole JSON object"),
        (lambda good: b"[1, 2]\n", "a JSON object"),
        (lambda good: b'"text"\n', "a JSON object"),
        (lambda good: good.strip() + good, "one JSON object in a line"),
        (lambda good: b'\xff\xfe{"a": 1}\n', "UTF-8 text"),
        (lambda good: b'{"a": "\\ud800"}\n', "valid Unicode text"),
        (lambda good: b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "JSON that is not nested so deep"),
        (lambda good: b'{"a": ' + b"9" * 5000 + b"}\n", "numbers of a usual length"),
    ],
    ids=["half", "cut", "comma", "list", "string", "two", "not UTF-8", "surrogate", "deep", "huge integer"],
)
def test_broken_json_is_refused_with_its_line(tmp_path: Path, format: str, tail: Any, expected: str) -> None:
    error = failure(tmp_path, tail(line(GOOD[format])), format)
    assert (error.line, error.expected) == (2, expected)


@pytest.mark.parametrize("format", GOOD)
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_that_are_not_finite_are_refused_with_their_field(tmp_path: Path, format: str, number: bytes) -> None:
    error = failure(tmp_path, b'{"steps": ["a"], "labels": [0, ' + number + b"]}\n", format)
    assert (error.line, error.field, error.expected) == (2, "labels[1]", "a finite number")


@pytest.mark.parametrize("format", GOOD)
def test_a_field_given_twice_is_refused(tmp_path: Path, format: str) -> None:
    error = failure(tmp_path, b'{"problem": "a", "problem": "b"}\n', format)
    assert (error.line, error.field) == (2, "problem")


OFFER = ("label", "steps", 0, "completions", 0)
CHILD = ("reasoning_steps", "children", 0)
PREFIX = {"solution_prefix": "other", "mc_value": 1}
WRONG = [
    ("jsonl", changed("jsonl", "problem", to=7), "problem"),
    ("jsonl", changed("jsonl", "steps", to="one"), "steps"),
    ("jsonl", changed("jsonl", "steps", 1, to=7), "steps[1]"),
    ("jsonl", {"problem": "?", "solution": ["one solution", "another"]}, "solution"),
    ("jsonl", changed("jsonl", "labels", to=[1]), "labels"),
    ("jsonl", changed("jsonl", "labels", 1, to="good"), "labels[1]"),
    ("jsonl", changed("jsonl", "steps", to=...), "steps"),
    ("jsonl", changed("jsonl", "problem", to=...), "problem"),
    ("jsonl", {**GOOD["jsonl"], "values": [1, 1]}, "values"),
    ("jsonl", {"id": "t", "problem": {"id": "p", "prompt": "?"}, "steps": ["a"], "setps": []}, "setps"),
    ("jsonl", {"id": "t", "problem": {"id": "p", "prompt": 3}, "steps": ["a"]}, "problem.prompt"),
    (
        "jsonl",
        {"problem": {"prompt": "?"}, "steps": ["a"], "judgement": {"judge": "j", "values": [1, 2]}},
        "judgement.values",
    ),
    ("jsonl", {"problem": {"prompt": "?"}, "steps": ["a"], "judgement": {"judge": "j"}}, "judgement.values"),
    ("jsonl", {"problem": {"prompt": "?"}, "steps": [{"text": "a", "images": [1]}]}, "steps[0].images[0]"),
    ("jsonl", {"problem": {"prompt": "?"}, "steps": ["a"], "correct": "yes"}, "correct"),
    ("prm800k", changed("prm800k", "question", to=...), "question"),
    ("prm800k", changed("prm800k", "question", "problem", to=...), "question.problem"),
    ("prm800k", changed("prm800k", "label", "steps", to={}), "label.steps"),
    ("prm800k", changed("prm800k", "label", "steps", 0, "chosen_completion", to=1), "label.steps[0].chosen_completion"),
    (
        "prm800k",
        changed("prm800k", "label", "steps", 0, "completions", 0, "rating", to=2),
        "label.steps[0].completions[0].rating",
    ),
    (
        "prm800k",
        changed("prm800k", "label", "steps", 0, "completions", 0, "text", to=None),
        "label.steps[0].completions[0].text",
    ),
    ("math-shepherd", changed("math-shepherd", "input", to=...), "input"),
    ("math-shepherd", changed("math-shepherd", "label", to=7), "label"),
    ("math-shepherd", changed("math-shepherd", "label", to="1 + 2? Step 1: 1 + 2 = 3 ?"), "label"),
    ("math-shepherd", changed("math-shepherd", "label", to="1 + 2? Step 1: 1 + 2 = 3 +\nStep 2: 3 +"), "label"),
    ("math-shepherd", changed("math-shepherd", "input", to="1 + 2? Step 1: no marker"), "input"),
    ("math-shepherd", {"input": "Step 1: Step 1: ки", "label": "Step 1: Step 1: +"}, "input"),
    ("trl", changed("trl", "prompt", to=7), "prompt"),
    ("trl", changed("trl", "completions", to=...), "completions"),
    ("trl", changed("trl", "labels", to=[True]), "labels"),
    ("trl", changed("trl", "labels", to=[True, None]), "labels[1]"),
    ("rlhflow", changed("rlhflow", "conversations", to=...), "conversations"),
    ("rlhflow", changed("rlhflow", "conversations", 1, to=...), "conversations"),
    ("rlhflow", changed("rlhflow", "conversations", 1, "content", to="good"), "conversations[1].content"),
    ("rlhflow", changed("rlhflow", "conversations", 0, "role", to="system"), "conversations[0].role"),
    ("rlhflow", changed("rlhflow", "conversations", 0, "content", to="Step 1: Step 1:"), "conversations[0].content"),
    ("processbench", changed("processbench", "label", to="x"), "label"),
    ("processbench", changed("processbench", "label", to=True), "label"),
    ("processbench", changed("processbench", "label", to=1), "label"),
    ("processbench", changed("processbench", "label", to=-2), "label"),
    ("processbench", changed("processbench", "label", to=...), "label"),
    ("processbench", changed("processbench", "steps", to=["3", 4]), "steps[1]"),
    ("processbench", changed("processbench", "final_answer_correct", to=1), "final_answer_correct"),
    ("prmbench", changed("prmbench", "error_steps", to=["1"]), "error_steps[0]"),
    ("prmbench", changed("prmbench", "modified_process", to=...), "modified_process"),
    ("prmbench", changed("prmbench", "modified_question", to=None), "modified_question"),
    ("math-aps", changed("math-aps", "reasoning_steps", to=3), "reasoning_steps"),
    (
        "math-aps",
        changed("math-aps", "reasoning_steps", "children", 0, "mc_value", to="1"),
        "reasoning_steps.children[0].mc_value",
    ),
    ("math-aps", changed("math-aps", "reasoning_steps", "text", to="other"), "reasoning_steps.text"),
    (
        "math-aps",
        changed("math-aps", "reasoning_steps", to=[{"solution_prefix": "other", "mc_value": 1}]),
        "reasoning_steps[0].solution_prefix",
    ),
    ("problems", {"answer": "3"}, "problem"),
    ("problems", {"problem": ["3"]}, "problem[0]"),
    ("problems", {"problem": "?", "answer": {"a": 1}}, "answer"),
    ("problems", {"problem": "?", "id": 1.5}, "id"),
    ("openai-chat", {"messages": "hello"}, "messages"),
    ("openai-chat", {"messages": [{"role": "assistant", "content": "alone"}]}, "messages"),
    ("openai-chat", changed("openai-chat", "messages", 0, "content", to=None), "messages[0].content"),
    ("openai-chat", changed("openai-chat", "messages", 1, "tool_calls", to=[{"id": 1}]), "messages[1].tool_calls"),
]


@pytest.mark.parametrize(
    ("format", "record", "field"), WRONG, ids=[f"{f}-{field}-{i}" for i, (f, _, field) in enumerate(WRONG)]
)
def test_a_wrong_missing_or_uneven_field_is_named(tmp_path: Path, format: str, record: Record, field: str) -> None:
    error = failure(tmp_path, line(record), format)
    assert (error.line, error.field) == (2, field)
    assert f'field "{field}"' in str(error)


class Endless(io.RawIOBase):
    """A stream that would give this many bytes without a line end, and counts what was taken."""

    def __init__(self, start: bytes, size: int) -> None:
        self.start, self.left, self.taken = start, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = min(len(buffer), self.left)
        part = (self.start + b"a" * n)[:n]
        self.start, self.left, self.taken = self.start[n:], self.left - n, self.taken + n
        buffer[:n] = part
        return n


@pytest.mark.parametrize("format", [*GOOD, "auto"])
def test_a_line_of_100_megabytes_is_refused_before_it_fills_the_memory(format: str) -> None:
    stream = Endless(b'{"problem": "', 100_000_000)
    with pytest.raises(FormatError, match="line 1: expected at most 1048576 bytes in a line"):
        formats.read(stream, format, line_limit=2**20)
    assert stream.taken < 2 * 2**20


def test_the_default_limit_also_stops_a_line_of_100_megabytes() -> None:
    stream = Endless(b'{"problem": "', 100_000_000)
    with pytest.raises(FormatError, match="line 1: expected at most 16777216 bytes in a line"):
        formats.read(stream)
    assert stream.taken < 18_000_000


def test_a_document_of_100_megabytes_is_refused() -> None:
    stream = Endless(b'[{"problem": "', 100_000_000)
    with pytest.raises(FormatError, match="line 1: expected at most 67108864 bytes in a JSON document"):
        formats.read(stream)


def test_a_gzip_bomb_is_stopped_by_the_line_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"problem": "' + b"a" * 3_000_000))
    with pytest.raises(FormatError, match="line 1: expected at most 1000 bytes"):
        formats.read(path, line_limit=1000)


@pytest.mark.parametrize("keep", [3, 15, -5])
def test_a_cut_gzip_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(line(GOOD["trl"]) * 50)[:keep])
    with pytest.raises(FormatError, match=r"cut.jsonl.gz.*expected a whole gzip file"):
        formats.read(path)


@pytest.mark.parametrize(
    ("data", "name", "command"),
    [
        (bytes.fromhex("28b52ffd0458"), "zstd", "zstd -dc"),
        (lzma.compress(line(GOOD["trl"])), "xz", "xz -dc"),
        (bz2.compress(line(GOOD["trl"])), "bzip2", "bzip2 -dc"),
        (b"PK\x03\x04\x14\x00", "zip", "unzip -p"),
        (gzip.compress(gzip.compress(line(GOOD["trl"]))), "gzip", "gzip -dc"),
    ],
    ids=["zstd", "xz", "bzip2", "zip", "gzip-twice"],
)
def test_a_file_packed_otherwise_is_told_as_such_with_the_command_that_unpacks_it(
    tmp_path: Path, data: bytes, name: str, command: str
) -> None:
    path = tmp_path / "rows.jsonl.packed"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        formats.read(path)
    assert caught.value.got == f"a {name} file"
    assert caught.value.fix == f"unpack it first: {command} {path} > data.jsonl"


def test_a_json_array_is_read_with_the_line_of_each_record(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    bad = changed("processbench", "label", to="x")
    path.write_text(json.dumps([GOOD["processbench"], bad], indent=1))
    with pytest.raises(FormatError) as caught:
        formats.read(path)
    text = path.read_text().splitlines()
    assert caught.value.field == "label"
    assert caught.value.line == 1 + [i for i, row in enumerate(text) if row == " {"][1]


@pytest.mark.parametrize("text", ['[{"a": 1}', '[{"a": 1}, ', '[{"a": 1} {"a": 2}]', "[,]", '[{"a": 1}]]', "{\n"])
def test_a_broken_json_array_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        formats.read(io.BytesIO(text.encode()), "jsonl", bad=[])


def test_a_record_of_no_known_format_lists_what_was_tried() -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(io.BytesIO(b'{"foo": 1, "bar": 2}\n'))
    for name in (*(name for name in GOOD if name != "problems"), "foo", "bar"):
        assert name in str(caught.value)


def test_a_file_of_bare_problems_is_not_taken_for_traces() -> None:
    with pytest.raises(FormatError, match="read the file as problems"):
        formats.read(io.BytesIO(line(GOOD["problems"])))


@pytest.mark.parametrize("name", ["absent.jsonl", "absent.parquet", "."])
def test_a_file_that_cannot_be_opened_is_a_format_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="expected a"):
        formats.read(tmp_path / name)


def test_bad_records_can_be_collected_while_the_good_ones_are_read() -> None:
    bad: list[FormatError] = []
    data = line(GOOD["trl"]) + line(changed("trl", "labels", to=[True])) + line(changed("trl", "prompt", to="2 + 2?"))
    rows = formats.read(io.BytesIO(data), "trl", bad=bad)
    assert [row.trajectory.problem.text for row in rows] == ["1 + 2?", "2 + 2?"]
    assert [(error.line, error.field) for error in bad] == [(2, "labels")]


ROW = Judged(
    Trajectory("t", Problem("p", "1 + 2?"), (Step("1 + 2 = 3"), Step("So 3."))),
    Judgement("t", (0.9, 0.2), "monte-carlo"),
)


def said(**more: Any) -> Judged:
    return ROW._replace(judgement=Judgement("t", (1.0, 1.0), "j", **more))


def one_step(step: Step) -> Judged:
    return Judged(Trajectory("t", Problem("p", "?"), (step,)), Judgement("t", (1.0,), "j"))


def no_steps(trajectory: Trajectory) -> Judged:
    return Judged(trajectory, Judgement("t", (), "j"))


UNWRITABLE = [
    ("math-shepherd", ROW, "judgement.values[0]"),
    ("rlhflow", ROW, "judgement.values[0]"),
    ("processbench", ROW, "judgement.values[0]"),
    ("prmbench", ROW, "judgement.values[0]"),
    ("prm800k", ROW, "judgement.values[0]"),
    ("openai-chat", ROW, "judgement"),
    ("problems", ROW, "trajectory.id"),
    ("trl", Judged(ROW.trajectory, None), "judgement"),
    ("trl", ROW._replace(judgement=Judgement("t", (None, 1.0), "j")), "judgement.values[0]"),
    ("trl", said(value=0.5), "judgement.value"),
    (
        "trl",
        ROW._replace(judgement=Judgement("t", (1.0, 1.0), "j", aspects={"rollouts": (8.0, 8.0)})),
        "judgement.aspects.rollouts",
    ),
    (
        "trl",
        Judged(Trajectory("t", Problem("p", "?"), (Step("a", action="click"),)), Judgement("t", (1.0,), "j")),
        "step.action",
    ),
    (
        "trl",
        Judged(Trajectory("t", Problem("p", "?"), cost=Cost(calls=1)), Judgement("t", (), "j")),
        "trajectory.cost.calls",
    ),
    (
        "trl",
        Judged(Trajectory("t", Problem("p", "?", documents=("d",))), Judgement("t", (), "j")),
        "trajectory.problem.documents",
    ),
    ("trl", no_steps(Trajectory("t", Problem("p", "?"), meta={"id": 1})), "trajectory.meta.id"),
    ("math-aps", Judged(ROW.trajectory, None), "judgement.values"),
    ("math-aps", ROW, "trajectory.id"),
    (
        "math-shepherd",
        Judged(Trajectory("t", Problem("p", "?"), (Step("ки"),)), Judgement("t", (1.0,), "j")),
        "trajectory.steps[0].text",
    ),
]


@pytest.mark.parametrize(("format", "row", "field"), UNWRITABLE, ids=[f"{f}-{field}" for f, _, field in UNWRITABLE])
def test_what_a_format_cannot_hold_is_refused_and_leaves_no_file(
    tmp_path: Path, format: str, row: Judged, field: str
) -> None:
    with pytest.raises(FormatError) as caught:
        formats.write(tmp_path / "out.jsonl", [row], format)
    assert caught.value.line == 1
    assert "row 1 (trajectory 't')" in str(caught.value)
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_later_row_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("precious")
    with pytest.raises(FormatError, match="row 2"):
        formats.write(path, [ROW, Judged(ROW.trajectory, None)], "trl")
    assert path.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "\ud800", object()])
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_values_that_no_file_can_hold_are_refused(tmp_path: Path, format: str, bad: Any) -> None:
    row = Judged(Trajectory("t", Problem("p", "?", meta={"a": bad})), None)
    with pytest.raises(FormatError):
        formats.write(tmp_path / "out", [row], format)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected a directory to write into"):
        formats.write(tmp_path / "no" / "out.jsonl", [ROW], "jsonl")


def test_a_line_that_no_reader_would_take_is_not_written(tmp_path: Path) -> None:
    row = Judged(Trajectory("t", Problem("p", "?"), (Step("a" * LINE_LIMIT),)), None)
    with pytest.raises(FormatError, match=r"row 1.*at most 16777216 bytes in a line.*fix: write Parquet"):
        formats.write(tmp_path / "out.jsonl", [row], "jsonl")
    assert list(tmp_path.iterdir()) == []
    formats.write(tmp_path / "out.parquet", [row], "parquet")
    assert formats.read(tmp_path / "out.parquet") == [row]


def test_a_tree_too_deep_for_nested_records_is_told_with_what_holds_it(tmp_path: Path) -> None:
    tree, node = Tree(Problem("p", "?")), -1
    for i in range(2000):
        node = tree.add(node, Step(f"step {i}"), value=0.5, visits=1)
    with pytest.raises(FormatError, match=r"out.jsonl, tree 1: .*fix: write_parquet\(path, trees, 'tree'\)"):
        formats.write_trees(tmp_path / "out.jsonl", [tree])
    formats.write_parquet(tmp_path / "out.parquet", [tree], "tree")
    assert formats.read_trees(tmp_path / "out.parquet") == [tree]


def test_lists_and_tuples_are_one_in_json_and_none_is_taken_for_a_loss(tmp_path: Path) -> None:
    problem = Problem("p", [Message("user", "?")], meta={"pair": (1, 2)})  # type: ignore[arg-type]
    row = Judged(Trajectory("t", problem, (Step("s"),)), Judgement("t", (1.0,), "j", aspects={"votes": [3.0]}))  # type: ignore[dict-item]
    formats.write(tmp_path / "out.jsonl", [row], "jsonl")
    (back,) = formats.read(tmp_path / "out.jsonl")
    assert back.trajectory.problem.meta == {"pair": [1, 2]}
    assert back.judgement is not None and back.judgement.aspects == {"votes": (3.0,)}
