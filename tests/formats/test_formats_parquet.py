"""Parquet files: kinds, versions and files that are none of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from footfall import formats
from footfall.cli import main
from footfall.formats import FormatError
from footfall.types import Cost, Judged, Judgement, Message, Problem, Reason, Step, Trajectory, Unjudged

PROBLEM = Problem("p", "1 + 2?", "3", meta={"b": 1, "a": [1, None, {"c": "ü"}]})


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "problems.parquet"
    formats.write_parquet(path, [PROBLEM], "problem")
    with pytest.raises(FormatError, match=r"expected a Parquet file of kind 'tree', got kind 'problem'"):
        formats.read_parquet(path, "tree")
    with pytest.raises(FormatError, match="got rows of kind 'problem'"):
        formats.read(path)


def _rewritten(path: Path, change: Any) -> None:
    table = pq.read_table(path)
    pq.write_table(change(table.replace_schema_metadata(_unchecked(table))), path)


def _unchecked(table: pa.Table) -> dict[bytes, bytes]:
    """The metadata as version 1 wrote it, without a checksum."""
    kept = {name: value for name, value in table.schema.metadata.items() if name != b"footfall.sum"}
    return {**kept, b"footfall.version": b"1"}


def test_a_file_that_another_program_rewrote_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "problems.parquet"
    formats.write_parquet(path, [PROBLEM], "problem")
    pq.write_table(pq.read_table(path), path)
    with pytest.raises(FormatError, match=r"it was damaged or rewritten.*footfall\.version 1"):
        formats.read_parquet(path, "problem")


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "problems.parquet"
    formats.write_parquet(path, [PROBLEM], "problem")
    _rewritten(path, lambda t: t.replace_schema_metadata({**t.schema.metadata, b"footfall.version": b"3"}))
    with pytest.raises(FormatError, match=r"expected version 2 or older, got version 3; fix: update footfall"):
        formats.read_parquet(path, "problem")


def test_a_file_without_a_column_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "problems.parquet"
    formats.write_parquet(path, [PROBLEM], "problem")
    _rewritten(path, lambda t: t.drop_columns(["answer"]))
    with pytest.raises(FormatError) as caught:
        formats.read_parquet(path, "problem")
    assert caught.value.field == "answer"


def test_memory_that_does_not_suffice_is_not_laid_on_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr("footfall.formats.columns.to_array", refused)
    with pytest.raises(MemoryError, match="malloc"):
        formats.write_parquet(tmp_path / "problems.parquet", [PROBLEM], "problem")


@pytest.mark.parametrize("within", ["read_schema", "read_metadata", "ParquetFile"])
def test_memory_that_does_not_suffice_to_read_is_one_line_that_names_the_file_and_not_damage(
    within: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    path = tmp_path / "problems.parquet"
    formats.write_parquet(path, [PROBLEM], "problem")
    monkeypatch.setattr(pq, within, refused)
    with pytest.raises(MemoryError) as caught:
        formats.read_parquet(path, "problem")
    assert not isinstance(caught.value, FormatError | pa.ArrowException)  # nobody sets a sound file aside for it
    assert main(["show", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path}: memory did not suffice" in line and "malloc of size 64" in line and "split the file" in line
    assert line.count("did not suffice") == 1 and "--device" not in line


def test_a_null_where_none_may_be_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "problems.parquet"
    formats.write_parquet(path, [PROBLEM], "problem")
    nothing = pa.array([None], pa.string())
    _rewritten(path, lambda t: t.set_column(0, "id", nothing))
    with pytest.raises(FormatError, match="'id' is null"):
        formats.read_parquet(path, "problem")


def test_a_file_without_traces_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    foreign, broken = tmp_path / "foreign.parquet", tmp_path / "broken.parquet"
    pq.write_table(pa.table({"a": [1]}), foreign)
    broken.write_bytes(foreign.read_bytes()[:-7])
    with pytest.raises(
        FormatError, match=r"foreign.parquet, row 1: expected a record of a known format .* got the fields a"
    ):
        formats.read(foreign)
    with pytest.raises(FormatError, match="that Footfall wrote"):
        formats.read_parquet(foreign, "judged")
    with pytest.raises(FormatError, match="expected a Parquet file"):
        formats.read(broken)


def test_a_row_of_the_wrong_kind_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="row 2: expected a row of kind 'problem', got Trajectory"):
        formats.write_parquet(tmp_path / "x.parquet", [PROBLEM, Trajectory("t", PROBLEM)], "problem")
    assert list(tmp_path.iterdir()) == []


def test_the_order_of_keys_does_not_change_the_bytes(tmp_path: Path) -> None:
    for name, meta in (("a", {"x": 1, "y": 2}), ("b", {"y": 2, "x": 1})):
        aspects = {key: (float(value),) for key, value in meta.items()}
        trajectory = Trajectory("t", Problem("p", "?", meta=meta), (Step("s"),))
        row = Judged(trajectory, Judgement("t", (0.5,), "j", aspects=aspects))
        formats.write_parquet(tmp_path / name, [row], "judged")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_problems_and_trajectories_are_read_from_parquet_too(tmp_path: Path) -> None:
    formats.write_parquet(tmp_path / "p.parquet", [PROBLEM], "problem")
    formats.write_parquet(tmp_path / "t.parquet", [Trajectory("t", PROBLEM)], "trajectory")
    assert formats.read_problems(tmp_path / "p.parquet") == [PROBLEM]
    assert formats.read_problems(tmp_path / "t.parquet") == [PROBLEM]
    assert formats.read(tmp_path / "t.parquet") == [Judged(Trajectory("t", PROBLEM), None)]


YOUNG = ("author", "observation_ids", "initial", "token_values")


def older(kind: pa.DataType) -> pa.DataType:
    """The type as it was before steps had authors and judgements values of the empty prefix and of tokens."""
    if pa.types.is_struct(kind):
        held = [kind.field(i) for i in range(kind.num_fields)]
        # A trajectory has had an author from the beginning.
        kept = [f for f in held if f.name not in YOUNG or "problem" in {other.name for other in held}]
        return pa.struct([pa.field(f.name, older(f.type)) for f in kept])
    return pa.list_(older(kind.value_type)) if pa.types.is_list(kind) else kind


@pytest.mark.parametrize("kind", ["judged", "judgement", "trajectory"])
def test_files_from_before_authors_and_reasons_are_read(tmp_path: Path, kind: str) -> None:
    trace = Trajectory("t", Problem("p", "?"), (Step("a"), Step("b", None, "seen")), author="someone")
    said = Judgement("t", (None, 1.0), "j", failures=(Unjudged(Reason.CUT, "cut"), None))
    row = {"judged": Judged(trace, said), "judgement": said, "trajectory": trace}[kind]
    path = tmp_path / "rows.parquet"
    formats.write_parquet(path, [row], kind)
    assert formats.read_parquet(path, kind) == [row]
    table = pq.read_table(path)
    old = older(pa.struct(list(table.schema)))
    schema = pa.schema([old.field(i) for i in range(old.num_fields)], metadata=_unchecked(table))
    pq.write_table(table.select(schema.names).cast(schema), path)
    assert "token_values" not in str(pq.read_schema(path)) and formats.read_parquet(path, kind) == [row]


def test_a_reason_is_still_known_when_it_is_read_again(tmp_path: Path) -> None:
    said = Judgement("t", (None,), "j", failures=(Unjudged(Reason.CUT, "cut at 8 tokens"),))
    formats.write_parquet(tmp_path / "x.parquet", [said], "judgement")
    (back,) = formats.read_parquet(tmp_path / "x.parquet", "judgement")
    assert back == said and back.failures[0].reason is Reason.CUT


OLD = Path(__file__).parent / "written_by_0_1"
"""Files that footfall 0.1.0 wrote when steps had no authors and reasons were bare sentences."""


def test_what_an_earlier_version_wrote_is_read_with_the_same_keys() -> None:
    rows = formats.read(OLD / "judged.parquet")
    assert [row.trajectory.key for row in rows] == [
        "abe1a8e8e40a8fef26863d74d8d5fed9", "5fac1905b047b1322de01298259940bf",
        "f4665567fe7846fa4e4c5a6dc285d8fd", "3fd74bc5a8abcd0ed3ab7475e5291dfc",
    ]  # fmt: skip
    values = [row.judgement.values for row in rows if row.judgement is not None]
    assert values == [(1.0,) * 3, (1.0,) * 3, (0.0, 1.0, 1.0, 0.0, 0.0), (0.0,) * 5]
    assert all(step.author == "policy" and step.token_ids for row in rows for step in row.trajectory.steps)


def test_a_search_of_an_earlier_version_is_read_with_its_tree_and_decisions() -> None:
    results = formats.read_parquet(OLD / "results.parquet", "search-result")
    assert [(r.answer, len(r.tree.nodes), len(r.decisions)) for r in results] == [("106", 24, 60), ("10", 20, 50)]


def test_a_prompt_given_as_a_list_of_messages_is_kept(tmp_path: Path) -> None:
    chat = [Message("system", "Be brief."), Message("user", "1 + 2?")]
    formats.write_parquet(tmp_path / "p.parquet", [Problem("p", chat)], "problem")  # type: ignore[arg-type]
    assert formats.read_parquet(tmp_path / "p.parquet", "problem") == [Problem("p", tuple(chat))]


@pytest.mark.parametrize(
    ("trajectory", "said"),
    [
        (Trajectory("t", PROBLEM, cost=Cost(prompt_tokens=1.5)), "1.5 stands where a whole number belongs"),  # type: ignore[arg-type]
        (Trajectory("t", PROBLEM, (Step("s", token_ids=(7.9,)),), tokenizer="v"), "7.9 stands where a whole number"),  # type: ignore[arg-type]
        (Trajectory("t", PROBLEM, (Step("s", author="tool"),)), "'tool' is none of policy, environment, agent, person"),  # type: ignore[arg-type]
        (Trajectory("t", Problem("p", "?", images="a.png")), "a text stands where a list belongs: 'a.png'"),  # type: ignore[arg-type]
    ],
    ids=["half-a-token", "half-an-id", "unknown-author", "text-for-a-list"],
)
def test_what_would_come_back_as_something_else_or_not_at_all_is_not_written(
    tmp_path: Path, trajectory: Trajectory, said: str
) -> None:
    """Half a token was cut off, a text became the list of its letters, and a step of an unknown author could not be read."""
    with pytest.raises(FormatError, match=said):
        formats.write_parquet(tmp_path / "t.parquet", [trajectory], "trajectory")
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_is_no_object_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "problems.parquet"
    formats.write_parquet(path, [PROBLEM], "problem")
    _rewritten(path, lambda t: t.set_column(t.column_names.index("meta"), "meta", pa.array(["[1]"])))
    with pytest.raises(FormatError, match="'meta' is no JSON object"):
        formats.read_parquet(path, "problem")
