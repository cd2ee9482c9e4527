"""Records that are in no file of lines: in memory, in data sets and data frames, in other programs' Parquet files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import footfall
from footfall import cli, formats
from footfall.formats import FormatError
from footfall.types import Judged

TRL: list[dict[str, Any]] = [
    {"prompt": "What is 3 + 4?", "completions": ["3 + 4 = 7.", "The answer is 7."], "labels": [True, True]},
    {"prompt": "What is 5 + 4?", "completions": ["5 + 4 = 8."], "labels": [False]},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trl.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in TRL))
    return path


@pytest.fixture
def rows(file: Path) -> list[Judged]:
    """What the same records are as lines."""
    return formats.read(file)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """As `datasets` and the hub write it: without any metadata of Footfall's."""
    path = tmp_path / "train-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(TRL), path)
    return path


def test_records_in_memory_are_read_as_their_lines_are(rows: list[Judged]) -> None:
    assert footfall.read(TRL) == rows
    assert footfall.read(record for record in TRL) == rows


def test_a_data_set_and_data_frames_are_records(rows: list[Judged], table: Path) -> None:
    datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
    dataset = datasets.Dataset.from_list(TRL)
    assert footfall.read(dataset) == rows
    assert footfall.read(pandas.DataFrame(TRL)) == rows
    assert footfall.read(pandas.read_parquet(table)) == rows  # whose lists are arrays of numpy
    assert footfall.read(pq.read_table(table)) == rows
    with pytest.raises(FormatError, match="of a data set with splits name one"):
        footfall.read(datasets.DatasetDict({"train": dataset}))


def test_a_missing_cell_of_a_data_frame_is_null() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        [{"problem": "?", "steps": ["a"], "answer": None}, {"problem": "!", "steps": ["b"], "answer": 7}]
    )
    assert [row.trajectory.problem.answer for row in footfall.read(frame)] == [None, "7"]


def test_names_and_segmenter_are_those_of_the_command_line() -> None:
    (row,) = footfall.read([{"q": "?", "cot": "a\nb"}], names={"problem": "q", "steps": "cot"}, segment="lines")
    assert [step.text for step in row.trajectory.steps] == ["a", "b"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"problem": "?", "steps": ["a"], "labels": [float("nan")]},
            r'record 1, field "labels\[0\]": expected a finite',
        ),
        ({"problem": "?", "steps": ["a"], "more": object()}, "record 1: expected a record that JSON can hold"),
        ("?", "record 1: expected a JSON object"),
    ],
)
def test_what_a_line_could_not_hold_is_refused(record: Any, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        footfall.read([record])
    bad: list[FormatError] = []
    assert len(formats.read([record, *TRL], bad=bad)) == 2
    assert [error.line for error in bad] == [1]


def test_another_programs_parquet_is_read_wherever_lines_are(
    rows: list[Judged], table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert formats.read(table) == formats.read(table, "parquet") == formats.read(table, "trl") == rows
    assert [p.text for p in formats.read_problems(table)] == ["What is 3 + 4?", "What is 5 + 4?"]
    assert cli.main(["info", str(table), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["rows"], found["judged"]) == ("trl", 2, 2)
    assert cli.main(["show", str(table), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["traces"]) == 2


def test_its_errors_name_the_row(tmp_path: Path) -> None:
    path = tmp_path / "short.parquet"
    pq.write_table(pa.Table.from_pylist([TRL[0], {**TRL[1], "labels": []}]), path)
    with pytest.raises(FormatError, match=r'short.parquet, row 2, field "labels"'):
        formats.read(path)


def test_records_are_what_write_writes(rows: list[Judged]) -> None:
    assert formats.records(rows, "trl") == TRL
    with pytest.raises(FormatError, match="no judgement: a chat has no place for values"):
        formats.records(rows, "openai-chat")
    assert "labels" not in formats.records(rows, "openai-chat", drop=["judgement"])[0]


def test_a_folder_says_which_of_its_files_is_meant(table: Path) -> None:
    with pytest.raises(FormatError, match=f"fix: pass {table}"):
        formats.read(table.parent)


def test_a_data_set_on_the_disk_is_read_by_its_own_library(tmp_path: Path, rows: list[Judged]) -> None:
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "set"
    datasets.Dataset.from_list(TRL).save_to_disk(folder)
    with pytest.raises(FormatError, match=r"in Python: footfall.read\(datasets.load_from_disk\("):
        formats.read(folder)
    assert footfall.read(datasets.load_from_disk(folder)) == rows
