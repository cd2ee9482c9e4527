"""How each format becomes rows: the worked example of its card, ids, thresholds, and a user's own traces."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from footfall import formats
from footfall.registry import parts
from footfall.types import Cost, Judged, Judgement, Message, Problem, Step, Trajectory


def read(*records: dict[str, Any], format: str = "auto") -> list[Judged]:
    return formats.read(io.BytesIO(b"".join(json.dumps(record).encode() + b"\n" for record in records)), format)


def texts(row: Judged) -> list[str]:
    return [step.text for step in row.trajectory.steps]


def values(row: Judged) -> tuple[float | None, ...]:
    assert row.judgement is not None
    return row.judgement.values


def test_importing_the_room_loads_neither_pyarrow_nor_torch() -> None:
    code = "import sys, footfall.formats; sys.exit('pyarrow' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_format_is_registered_under_its_own_name() -> None:
    names = set(parts("format"))
    assert names >= {"jsonl", "prm800k", "math-shepherd", "trl", "rlhflow", "processbench", "prmbench", "math-aps"}
    assert all(formats.format_named(name).name == name for name in names)


@pytest.mark.parametrize(
    "record",
    [
        {"problem": "1 + 2?", "steps": ["1 + 2 = 3", "So 3."], "answer": "3"},
        {"question": "1 + 2?", "solution": "1 + 2 = 3\n\nSo 3.\n", "answer": 3},
        {"prompt": "1 + 2?", "response": "1 + 2 = 3\n \nSo 3.", "gold": "3"},
        {"problem": {"prompt": "1 + 2?", "answer": "3"}, "steps": [{"text": "1 + 2 = 3"}, "So 3."]},
    ],
)
def test_ones_own_trace_needs_no_more_than_a_problem_and_its_steps(record: dict[str, Any]) -> None:
    (row,) = read(record)
    assert row.trajectory.problem == Problem(formats.problem_id("1 + 2?"), "1 + 2?", "3")
    assert texts(row) == ["1 + 2 = 3", "So 3."]
    assert row.trajectory.id == formats.trajectory_id(row.trajectory)
    assert row.judgement is None


@pytest.mark.parametrize("name", ["labels", "values", "scores"])
def test_ones_own_labels_may_be_hard_soft_or_missing(name: str) -> None:
    (row,) = read({"problem": "?", "steps": ["a", "b", "c"], name: [True, 0.25, None]})
    assert values(row) == (1.0, 0.25, None)


def test_a_0_is_neutral_beside_minus_1_and_wrong_beside_1_and_in_a_file_with_both_it_is_an_error() -> None:
    steps = {"problem": "?", "steps": ["a", "b", "c"]}
    rated, wrong = steps | {"labels": [1, 0, -1]}, steps | {"labels": [1, 0, 0]}
    assert [values(row) for row in read(rated, steps | {"labels": [1, 1, -1]})] == [(1.0, 1.0, 0.0)] * 2
    assert [values(row) for row in read(wrong, steps | {"labels": [1, 1, None]})] == [(1.0, 0.0, 0.0), (1.0, 1.0, None)]
    for first, second in ((rated, wrong), (wrong, rated)):
        with pytest.raises(
            formats.FormatError, match=r'line 2, field "labels".*line 1 has the other.*--map ratings=labels'
        ):
            read(first, second)
    lines = io.BytesIO(b"".join(json.dumps(record).encode() + b"\n" for record in (rated, wrong)))
    assert [values(row) for row in formats.read(lines, names={"ratings": "labels"})] == [
        (1.0, 1.0, 0.0),
        (1.0, 1.0, 1.0),
    ]


def test_beside_a_reference_answer_the_answer_is_the_trajectorys_own() -> None:
    (row,) = read({"problem": "?", "steps": ["a"], "answer": 7, "is_correct": False, "ground_truth_answer": "8"})
    assert (row.trajectory.problem.answer, row.trajectory.answer, row.trajectory.correct) == ("8", "7", False)


def test_unknown_keys_of_a_short_record_are_kept_as_metadata() -> None:
    (row,) = read({"problem": "?", "steps": ["a"], "level": 3})
    assert row.trajectory.meta == {"level": 3}


def test_math_shepherd_reads_the_signs_at_the_markers_only() -> None:
    (row,) = read({
        "input": "What is 1 + 2? Step 1: 1 + 2 = 3 ки\nStep 2: 3 - 0 = 3. The answer is: 3 ки",
        "label": "What is 1 + 2? Step 1: 1 + 2 = 3 +\nStep 2: 3 - 0 = 3. The answer is: 3 -",
        "task": "GSM8K",
    })  # fmt: skip
    assert row.trajectory.problem.text == "What is 1 + 2?"
    assert texts(row) == ["Step 1: 1 + 2 = 3", "Step 2: 3 - 0 = 3. The answer is: 3"]
    assert values(row) == (1.0, 0.0)
    assert row.trajectory.meta == {"task": "GSM8K"}
    assert row.trajectory.separator == "\n"


def test_rlhflow_parts_the_problem_from_step_1() -> None:
    turns = ["What is 1 + 2? Step 1: 3.", "+", "Step 2: So 4.", "-"]
    chat = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
    (row,) = read({"conversations": chat})
    assert (row.trajectory.problem.text, texts(row)) == ("What is 1 + 2?", ["Step 1: 3.", "Step 2: So 4."])
    assert values(row) == (1.0, 0.0)


def test_processbench_says_nothing_of_steps_after_the_first_error() -> None:
    case = {"id": "gsm8k-0", "generator": "m", "problem": "?", "steps": list("abcd"), "final_answer_correct": False}
    wrong, right = read({**case, "label": 1}, {**case, "id": "gsm8k-1", "label": -1})
    assert values(wrong) == (1.0, 0.0, None, None)
    assert wrong.judgement is not None and wrong.judgement.failures == (None, None, *["after the first error"] * 2)
    assert wrong.judgement.first_below(0.5) == 1
    assert values(right) == (1.0,) * 4
    assert (wrong.trajectory.author, wrong.trajectory.correct) == ("m", False)


def test_prmbench_counts_error_steps_from_1_and_reports_those_past_the_end() -> None:
    record = {"idx": "p1", "classification": "circular", "modified_question": "?", "reason": "r"}
    (row,) = read({**record, "modified_process": ["1. a", "2. b", "3. c"], "error_steps": [2, 3, 5]})
    assert row.trajectory.id == "circular_p1"
    assert texts(row)[0] == "1. a"
    assert values(row) == (1.0, 0.0, 0.0)
    assert row.trajectory.meta["error_steps_outside"] == [5]


def test_prm800k_gives_the_chosen_path_then_each_alternative_after_its_prefix() -> None:
    def offered(*ratings: int | None, chosen: int | None, human: str | None = None) -> dict[str, Any]:
        completions = [{"text": f"c{i}", "rating": rating, "flagged": i == 1} for i, rating in enumerate(ratings)]
        own = None if human is None else {"text": human, "rating": None, "flagged": False}
        return {"completions": completions, "human_completion": own, "chosen_completion": chosen}

    steps = [offered(1, -1, chosen=0), offered(0, chosen=None, human="own"), offered(-1, 0, chosen=None)]
    main, *others = read({"question": {"problem": "?"}, "label": {"steps": steps, "finish_reason": "found_error"}})
    assert texts(main) == ["c0", "own", "c0"]
    assert values(main) == (1.0, None, 0.0)
    assert main.judgement is not None and main.judgement.aspects["rating"] == (1.0, None, -1.0)
    assert [step.agent for step in main.trajectory.steps] == [None, "labeller", None]
    assert main.trajectory.meta["finish_reason"] == "found_error"
    assert [texts(row) for row in others] == [["c1"], ["c0", "c0"], ["c0", "own", "c1"]]
    assert [values(row)[-1] for row in others] == [0.0, 1.0, 1.0]
    assert others[0].judgement is not None and others[0].judgement.aspects["flagged"] == (1.0,)


def test_math_aps_prefix_lists_and_trees_give_the_same_rows() -> None:
    nested = {"text": "?", "mc_value": 0.5, "children": [
        {"text": "a", "mc_value": 0.25, "children": [{"text": "b", "mc_value": 1.0, "children": []}]},
        {"text": "c\n\nd", "mc_value": 0.0, "children": []},
    ]}  # fmt: skip
    flat = [{"solution_prefix": prefix, "mc_value": value} for prefix, value in
            [("?\n\na\n\nb", 1.0), ("?", 0.5), ("?\n\na", 0.25), ("?\n\nc\n\nd", 0.0)]]  # fmt: skip
    rows = [read({"question": "?", "final_answer": "7", "reasoning_steps": form}) for form in (nested, flat)]
    assert rows[0] == rows[1]
    assert [(texts(row), values(row)) for row in rows[0]] == [(["a", "b"], (0.25, 1.0)), (["c\n\nd"], (0.0,))]


def test_the_last_assistant_message_of_a_chat_is_the_trace() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x.png"}}
    user = {"role": "user", "content": [{"type": "text", "text": "How many?"}, picture]}
    system = {"role": "system", "content": "Count."}
    (row,) = read({"messages": [system, user, {"role": "assistant", "content": "One.\n\nTwo."}]})
    assert row.trajectory.problem.prompt == (Message("system", "Count."), Message("user", "How many?"))
    assert row.trajectory.problem.images == ("x.png",)
    assert texts(row) == ["One.", "Two."]


def test_a_chat_of_an_evaluation_log_keeps_the_reference_answer_that_is_its_target() -> None:
    messages = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "It is 6."}]
    (row,) = read({"id": 1, "messages": messages, "target": "5", "epoch": 1})
    assert row.trajectory.problem.answer == "5" and dict(row.trajectory.meta) == {"epoch": 1}
    (row,) = read({"messages": messages, "target": "5", "answer": "6"})
    assert (row.trajectory.problem.answer, row.trajectory.answer) == ("5", "6")


def test_problems_come_from_any_of_the_fields_data_sets(tmp_path: Path) -> None:
    records = [
        {"question": "a", "answer": "1 + 1 = <<1+1=2>>2\n#### 2"},
        {"problem": "b", "final_answer": ["3"], "id": 60},
        {"Body": "Two apples.", "Question": "How many?", "Answer": 2.0, "ID": "chal-1"},
        {"input": "c", "target": 43.5},
        {
            "id": "own",
            "prompt": [{"role": "user", "content": "d"}],
            "answer": None,
            "domain": "code",
            "tools": [{"t": 1}],
        },
    ]
    path = tmp_path / "problems.json"
    path.write_text(json.dumps(records))
    problems = formats.read_problems(path)
    assert [problem.answer for problem in problems] == ["2", "3", "2", "43.5", None]
    assert [problem.text for problem in problems] == ["a", "b", "Two apples. How many?", "c", "d"]
    assert [problem.id for problem in problems[1:3]] == ["60", "chal-1"]
    assert (problems[4].domain, problems[4].tools) == ("code", ({"t": 1},))


def test_problems_of_a_file_of_traces_are_taken_once_each() -> None:
    record = {"prompt": "?", "completions": ["a"], "labels": [True]}
    data = b"".join(json.dumps({**record, "id": i}).encode() + b"\n" for i in range(3))
    assert formats.read_problems(io.BytesIO(data)) == [Problem(formats.problem_id("?"), "?")]


@pytest.mark.parametrize("in_memory", [1, 2, 100_000])
def test_problems_are_told_apart_wherever_their_ids_lie(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("footfall.formats.ids._IDS_IN_MEMORY", in_memory)
    given = ["a?", "b?", "a?", "a!", "c?", "a!", "a?", "b!", "a~2?", "b?", "a~2?"]
    data = b"".join(json.dumps({"id": each[:-1], "problem": each}).encode() + b"\n" for each in given)
    found = [(problem.id, problem.text) for problem in formats.read_problems(io.BytesIO(data))]
    expected = [("a", "a?"), ("b", "b?"), ("a~2", "a!"), ("c", "c?"), ("b~2", "b!"), ("a~2~2", "a~2?")]
    assert found == expected


def test_an_id_used_twice_gets_a_suffix_and_so_does_its_judgement() -> None:
    first = {"id": "x", "problem": "?", "steps": ["a"], "labels": [1]}
    rows = read(first, first, {**first, "steps": ["b"]}, {**first, "judge": "other"})
    assert [row.trajectory.id for row in rows] == ["x", "x~2", "x~3", "x"]
    assert all(row.judgement is not None and row.judgement.trajectory_id == row.trajectory.id for row in rows)


@pytest.mark.parametrize("in_memory", [1, 2, 3, 100_000])
def test_ids_of_many_rows_are_kept_apart_wherever_they_lie(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("footfall.formats.ids._IDS_IN_MEMORY", in_memory)
    ids = ["a", "b", "c", "a", "\x00ü", "b~2", "b", "d", "a", "d", "\x00ü"]
    rows = read(*({"id": name, "problem": "?", "steps": [f"step {i}"]} for i, name in enumerate(ids)))
    expected = ["a", "b", "c", "a~2", "\x00ü", "b~2", "b~3", "d", "a~3", "d~2", "\x00ü~2"]
    assert [row.trajectory.id for row in rows] == expected


def test_ids_made_from_content_stay_the_same_for_ever() -> None:
    assert formats.problem_id("1 + 2?") == "p-" + formats.problem_id((Message("user", "1 + 2?"),))[2:]
    assert formats.problem_id("1 + 2?") != formats.problem_id("1 + 2?", ["image.png"])
    assert formats.problem_id("1 + 2?") == "p-ccf5b21b51f92798"


ROW = Judged(
    Trajectory("t", Problem("p", "1 + 2?"), (Step("Step 1: 3"), Step("Step 2: 4"))),
    Judgement("t", (0.5, 0.49), "mc", aspects={"rollouts": (8.0, 8.0)}),
)


@pytest.mark.parametrize("format", ["math-shepherd", "rlhflow", "prmbench", "prm800k", "processbench", "trl"])
def test_values_become_hard_only_by_an_explicit_threshold_and_fields_go_only_by_name(
    tmp_path: Path, format: str
) -> None:
    path = tmp_path / "out.jsonl"
    formats.write(path, [ROW], format, threshold=0.5, drop=["judgement.aspects"])
    (back,) = formats.read(path)
    assert values(back) == (1.0, 0.0)
    assert (back.trajectory.id, back.trajectory.problem.id) == ("t", "p")
    assert back.judgement is not None and back.judgement.judge == "mc"
    with pytest.raises(formats.FormatError, match=r"judgement\.(aspects|values)"):
        formats.write(path, [ROW], format)


def test_the_error_names_all_that_a_row_would_lose_so_that_one_look_suffices(tmp_path: Path) -> None:
    problem = Problem("p", "2 + 3?", "5", meta={"start": 2, "ops": ["+3"]})
    trace = Trajectory("t", problem, (Step("5"),), cost=Cost(generated_tokens=4, calls=1))
    rows = [Judged(trace, Judgement("t", (0.5,), "half", cost=Cost(scored_tokens=3)))]
    with pytest.raises(formats.FormatError) as error:
        formats.write(tmp_path / "trl.jsonl", rows, "trl", drop=["step.token_ids"])
    named = ["step.token_ids", "trajectory.problem.meta", "trajectory.cost", "judgement.cost"]
    assert f"drop={named}" in str(error.value)
    formats.write(tmp_path / "trl.jsonl", rows, "trl", drop=named)
    with pytest.raises(formats.FormatError, match=r'drop=\["judgement"\]'):
        formats.write(tmp_path / "chat.jsonl", rows, "openai-chat")
    formats.write(tmp_path / "chat.jsonl", rows, "openai-chat", drop=[*named, "judgement"])
    assert [texts(row) for row in formats.read(tmp_path / "chat.jsonl")] == [["5"]]


def test_standard_input_is_read_by_its_usual_name(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'{"problem": "?", "steps": ["a"]}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert texts(formats.read("-")[0]) == ["a"]


def test_reading_is_lazy() -> None:
    rows = formats.iter_read(io.BytesIO(b'{"problem": "?", "steps": ["a"]}\nnot JSON\n'))
    assert texts(next(rows)) == ["a"]
    with pytest.raises(formats.FormatError, match="line 2"):
        next(rows)


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_are_no_errors() -> None:
    data = b'\xef\xbb\xbf{"problem": "?", "steps": ["a"]}\r\n\r\n{"problem": "!", "steps": ["b"]}'
    assert [texts(row) for row in formats.read(io.BytesIO(data))] == [["a"], ["b"]]
    assert formats.read(io.BytesIO(b"")) == []
