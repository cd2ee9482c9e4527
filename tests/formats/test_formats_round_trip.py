"""Write then read is the identity: JSON lines and Parquet over everything, a field format over what it can hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from footfall import formats
from footfall.formats.records import Fields
from footfall.formats.step_labels import first_error_labels
from footfall.registry import parts
from footfall.types import (
    Cost,
    Json,
    Judged,
    Judgement,
    Message,
    Node,
    Problem,
    Reason,
    SearchResult,
    Step,
    Trajectory,
    Tree,
    Unjudged,
)

texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
names = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
counts = st.integers(0, 2**53)
json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
metas = st.dictionaries(texts, json_values, max_size=2)
several = st.lists(texts, max_size=2).map(tuple)
costs = st.builds(Cost, counts, counts, counts, counts, numbers, numbers, counts)
chats = st.lists(st.builds(Message, texts, texts), max_size=2).map(tuple)
problems = st.builds(
    Problem, names, texts | chats, st.none() | texts, texts, several, st.lists(metas, max_size=1).map(tuple),
    st.lists(metas, max_size=1).map(tuple), several, metas,
)  # fmt: skip
maybe = st.none() | texts
steps = st.builds(
    Step, texts, maybe, maybe, maybe, several, st.none() | st.lists(st.integers(0, 2**31), max_size=3).map(tuple),
    st.none() | st.lists(numbers, max_size=3).map(tuple), st.sampled_from(["policy", "environment", "agent", "person"]),
    st.none() | st.lists(st.integers(0, 2**31), max_size=3).map(tuple),
)  # fmt: skip
reasons = st.builds(Unjudged, st.sampled_from(Reason), texts)
trajectories = st.builds(
    Trajectory, names, problems, st.lists(steps, max_size=3).map(tuple), maybe, st.none() | st.booleans(), maybe,
    texts, texts, costs, metas,
)  # fmt: skip


def column(n: int, item: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(st.none() | item, min_size=n, max_size=n).map(tuple)


@st.composite
def judged(draw: st.DrawFn) -> Judged:
    """A row with every field filled at random."""
    trajectory = draw(trajectories)
    n = len(trajectory.steps)
    if draw(st.booleans()):
        return Judged(trajectory, None)
    said = st.builds(
        Judgement, st.just(trajectory.id), column(n, numbers), texts, st.none() | numbers,
        st.dictionaries(texts, column(n, numbers), max_size=2), st.just(()) | column(n, texts),
        st.just(()) | column(n, reasons), costs, st.none() | numbers,
        st.just(()) | st.lists(st.lists(numbers, max_size=2).map(tuple), min_size=n, max_size=n).map(tuple),
    )  # fmt: skip
    return Judged(trajectory, draw(said))


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree = Tree(draw(problems), separator=draw(texts), value=draw(st.none() | numbers))
    for i in range(draw(st.integers(0, 4))):
        parent = draw(st.integers(-1, i - 1))
        tree.nodes.append(
            Node(parent, draw(steps), draw(counts), draw(st.none() | numbers), draw(st.booleans()), draw(metas))
        )
    return tree


search_results = st.builds(
    SearchResult, problems, maybe, st.none() | trajectories, st.lists(judged(), max_size=2).map(tuple),
    st.none() | trees(), st.lists(st.none() | numbers, max_size=2).map(tuple), maybe, costs,
)  # fmt: skip

plain_texts = st.text(alphabet="abк и+-=0?é例\n:.", max_size=10)
soft = st.floats(0, 1)
hard = st.sampled_from([0.0, 1.0])


@st.composite
def plain_rows(
    draw: st.DrawFn,
    values: st.SearchStrategy[float],
    judge: str,
    separator: str = "\n\n",
    texts: st.SearchStrategy[str] = plain_texts,
) -> Judged:
    """What all field formats have a place for: texts, ids, an answer, who wrote it, one value a step."""
    prompt = draw(texts)
    problem = Problem(draw(st.just(formats.problem_id(prompt)) | names), prompt, draw(st.none() | plain_texts))
    lines = draw(st.lists(texts, min_size=1, max_size=4))
    trajectory = Trajectory(
        "", problem, tuple(map(Step, lines)), draw(st.none() | plain_texts), draw(st.none() | st.booleans()),
        draw(st.none() | names), draw(st.just(separator) | plain_texts), meta=draw(st.sampled_from([{}, {"level": 3}])),
    )  # fmt: skip
    trajectory = rename(trajectory, draw(st.just(formats.trajectory_id(trajectory)) | names))
    labels = tuple(draw(values) for _ in lines)
    return Judged(trajectory, Judgement(trajectory.id, labels, draw(st.just(judge) | names)))


def rename(trajectory: Trajectory, name: str) -> Trajectory:
    return Trajectory(name, trajectory.problem, trajectory.steps, trajectory.answer, trajectory.correct, trajectory.author,
                      trajectory.separator, meta=trajectory.meta)  # fmt: skip


def distinct(rows: list[Judged]) -> list[Judged]:
    """Rows whose trajectories have ids of their own, as every reader promises."""
    return list({row.trajectory.id: row for row in rows}.values())


quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def there_and_back(rows: list[Judged], format: str, tmp_path: Path) -> list[Judged]:
    path = tmp_path / "rows.jsonl"
    formats.write(path, rows, format)
    return formats.read(path, format)


@pytest.mark.long
@quick
@given(st.lists(judged(), max_size=3).map(distinct))
def test_jsonl_keeps_every_field_of_every_row(tmp_path: Path, rows: list[Judged]) -> None:
    assert there_and_back(rows, "jsonl", tmp_path) == rows


@pytest.mark.long
@quick
@given(st.lists(judged(), max_size=3).map(distinct))
def test_parquet_keeps_every_field_of_every_row(tmp_path: Path, rows: list[Judged]) -> None:
    path = tmp_path / "rows.parquet"
    formats.write(path, rows, "parquet")
    assert formats.read(path) == rows


@quick
@given(
    st.sampled_from([
        ("problem", problems), ("trajectory", trajectories), ("tree", trees()),
        ("search-result", search_results),
        ("judgement", judged().filter(lambda row: row.judgement is not None).map(lambda row: row.judgement)),
    ]).flatmap(lambda pair: st.tuples(st.just(pair[0]), st.lists(pair[1], max_size=2)))
)  # fmt: skip
def test_parquet_keeps_every_kind_of_noun(tmp_path: Path, kind_rows: tuple[str, list[object]]) -> None:
    kind, rows = kind_rows
    path = tmp_path / "rows.parquet"
    formats.write_parquet(path, rows, kind)
    assert formats.parquet_kind(path) == kind
    assert formats.read_parquet(path, kind) == rows


IN_LINES = sorted(parts("format").keys() - {"problems"})
SEPARATORS = {"math-shepherd": "\n"}


@pytest.mark.parametrize("format", IN_LINES)
def test_every_line_format_has_a_place_for_the_problems_images(tmp_path: Path, format: str) -> None:
    prompt, images = "What is in it?", ("one.png", "https://example.org/two.png")
    problem = Problem(formats.problem_id(prompt, images), prompt, images=images)
    trace = Trajectory(f"{problem.id}#0", problem, (Step("a"), Step("b")), separator=SEPARATORS.get(format, "\n\n"))
    judgement = None if format == "openai-chat" else Judgement(trace.id, (1.0, 0.0), format)
    (row,) = there_and_back([Judged(trace, judgement)], format, tmp_path)
    assert row.trajectory.problem.images == images and row.trajectory.problem.id == problem.id
    assert "images" not in {**row.trajectory.meta, **row.trajectory.problem.meta}


@quick
@given(st.lists(plain_rows(soft, "trl"), max_size=3).map(distinct))
def test_trl_keeps_soft_labels_soft(tmp_path: Path, rows: list[Judged]) -> None:
    assert there_and_back(rows, "trl", tmp_path) == rows


@pytest.mark.parametrize("format", ["rlhflow", "prmbench"])
@quick
@given(data=st.data())
def test_formats_of_hard_labels_keep_any_text(tmp_path: Path, format: str, data: st.DataObject) -> None:
    rows = distinct(data.draw(st.lists(plain_rows(hard, format), max_size=3)))
    assert there_and_back(rows, format, tmp_path) == rows


trimmed = st.text(alphabet="abк+- 1:Step", min_size=1, max_size=10).map(str.strip).filter(bool)


@quick
@given(st.lists(plain_rows(hard, "math-shepherd", "\n", trimmed), max_size=3).map(distinct))
def test_math_shepherd_keeps_trimmed_text_without_its_marker(tmp_path: Path, rows: list[Judged]) -> None:
    assert there_and_back(rows, "math-shepherd", tmp_path) == rows


@quick
@given(st.lists(plain_rows(hard, "processbench"), max_size=3).map(distinct))
def test_processbench_keeps_first_errors(tmp_path: Path, rows: list[Judged]) -> None:
    rows = [_until_first_error(row) for row in rows]
    assert there_and_back(rows, "processbench", tmp_path) == rows


def _until_first_error(row: Judged) -> Judged:
    assert row.judgement is not None
    label = row.judgement.first_below(0.5)
    assert label is not None
    labels = first_error_labels(label, len(row.trajectory.steps))
    return row._replace(
        judgement=Judgement(row.trajectory.id, labels.values, row.judgement.judge, failures=labels.failures)
    )


@quick
@given(st.lists(problems, max_size=3))
def test_problems_keep_every_field(tmp_path: Path, problems: list[Problem]) -> None:
    problems = list({problem.id: problem for problem in problems}.values())
    assume(not any("####" in (problem.answer or "") for problem in problems))
    path = tmp_path / "problems.jsonl"
    formats.write(path, [Judged(Trajectory(problem.id, problem), None) for problem in problems], "problems")
    assert formats.read_problems(path) == problems


words = st.text(alphabet="ab 例.+", min_size=1, max_size=6).map(str.strip).filter(bool)
some_chat = st.lists(st.builds(Message, words, words), min_size=1, max_size=2).map(tuple)


@quick
@given(st.lists(st.tuples(some_chat, st.lists(words, max_size=3)), max_size=3))
def test_openai_chat_keeps_prompts_and_steps(
    tmp_path: Path, chats: list[tuple[tuple[Message, ...], list[str]]]
) -> None:
    rows = []
    for i, (prompt, steps) in enumerate(chats):
        problem = Problem(formats.problem_id(prompt), prompt)
        rows.append(Judged(Trajectory(f"t{i}", problem, tuple(map(Step, steps))), None))
    assert there_and_back(rows, "openai-chat", tmp_path) == rows


ratings = st.sampled_from([-1, 0, 1, None])
completions = st.builds(
    lambda text, rating, flagged: {"text": text, "rating": rating, "flagged": flagged},
    texts,
    ratings,
    st.none() | st.booleans(),
)


@st.composite
def raw_prm800k(draw: st.DrawFn) -> dict[str, object]:
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        offered = draw(st.lists(completions, min_size=1, max_size=3))
        own = draw(st.none() | completions)
        chosen = None if own else draw(st.integers(0, len(offered) - 1))
        steps.append({"completions": offered, "human_completion": own, "chosen_completion": chosen})
    if draw(st.booleans()) and steps[-1]["human_completion"] is None:
        steps[-1]["chosen_completion"] = None
    return {
        "labeler": draw(texts),
        "question": {
            "problem": draw(texts),
            "ground_truth_answer": draw(texts),
            "pre_generated_steps": ["a"],
        },
        "label": {"steps": steps, "total_time": 3, "finish_reason": "solution"},
    }


@quick
@given(st.lists(raw_prm800k(), max_size=2))
def test_prm800k_keeps_the_chosen_path_and_every_alternative(tmp_path: Path, records: list[dict[str, object]]) -> None:
    read = formats.format_named("prm800k").read
    rows = [row for record in records for row in read(Fields(record))]  # type: ignore[arg-type]
    assume(len({row.trajectory.id for row in rows}) == len(rows))
    assert there_and_back(rows, "prm800k", tmp_path) == rows


@st.composite
def value_trees(draw: st.DrawFn) -> Tree:
    prompt = draw(texts)
    tree = Tree(Problem(formats.problem_id(prompt), prompt, draw(st.none() | texts)), value=draw(soft))
    for i in range(draw(st.integers(1, 6))):
        tree.add(draw(st.integers(-1, i - 1)), Step(draw(texts)), value=draw(soft))
    return tree


@quick
@given(value_trees())
def test_math_aps_keeps_the_leaves_of_a_tree_with_their_values(tmp_path: Path, tree: Tree) -> None:
    formats.write_trees(tmp_path / "trees.jsonl", [tree])
    rows = formats.read(tmp_path / "trees.jsonl")
    assert len(rows) == len(tree.leaves())
    assert there_and_back(rows, "math-aps", tmp_path) == rows


@quick
@given(st.lists(judged(), max_size=3).map(distinct))
def test_equal_rows_give_equal_parquet_bytes(tmp_path: Path, rows: list[Judged]) -> None:
    formats.write(tmp_path / "a.parquet", rows, "parquet")
    again = formats.read(tmp_path / "a.parquet")
    formats.write(tmp_path / "b.parquet", again, "parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_gzipped_file_reads_as_written_and_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    rows = [Judged(Trajectory("t", Problem("p", "1 + 1?", "2"), (Step("1 + 1 = 2"),)), None)]
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        formats.write(tmp_path / name, rows, "jsonl")
    assert formats.read(tmp_path / "a.jsonl.gz") == rows
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
