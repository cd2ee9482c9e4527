"""AgentProcessBench: three labels a step; the released critics' labels give the authors' own counts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from footfall import registry
from footfall.benchmarks.agent_process_bench import PUBLISHED, SPLITS, agent_process_bench, label_value, labels, measure
from footfall.benchmarks.runner import run
from footfall.benchmarks.scores import Scores
from footfall.formats import FormatError
from footfall.metrics.cases import Case, LengthJudge, always_right, always_wrong
from footfall.types import Json, Judgement, Problem, Step, Trajectory

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "agentprocessbench"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data is not here")
CALL: dict[str, Json] = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}


def row(sample: int, *given: int, **more: Json) -> dict[str, Json]:
    """A run of a search and an answer; messages 1 and 3 are the assistant's."""
    return {
        "data_source": "toy", "query_index": 0, "sample_index": sample, "tools": [{"type": "function"}],
        "messages": [
            {"role": "user", "content": "Who?"},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "content": "found"},
            {"role": "assistant", "content": "It is so."},
        ],
        "step_labels": {"1": given[0], "3": given[1]}, "final_label": 1, **more,
    }  # fmt: skip


def written(folder: Path, *rows: dict[str, Json], part: str = "hotpotqa") -> Path:
    (folder / f"{part}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in rows))
    return folder


def test_steps_are_assistant_messages_with_their_calls_and_what_came_back(tmp_path: Path) -> None:
    (case,) = agent_process_bench(written(tmp_path, row(0, 1, -1))).cases
    assert case.trajectory.id == "toy:0:0"
    assert [(s.text, s.action, s.observation) for s in case.trajectory.steps] == [
        ("", 'search({"q": 1})', "found"), ("It is so.", None, None)]  # fmt: skip
    assert (case.trajectory.problem.text, case.trajectory.problem.tools) == ("Who?", ({"type": "function"},))
    assert case.truth.values == (1.0, 0.0)


def test_two_limits_make_three_labels_and_one_half_makes_two() -> None:
    said = Judgement("t", (0.0, 0.24, 0.25, 0.5, 0.74, 0.75, 1.0, None), "j")
    assert labels(said, 0.25) == [-1, -1, 0, 0, 0, 1, 1, None]
    assert labels(said, 0.5) == [-1, -1, -1, 1, 1, 1, 1, None]
    assert labels(said, 0.7) == [-1, -1, -1, -1, 1, 1, 1, None]
    assert labels(Judgement("t", tuple(map(label_value, (-1, 0, 1))), "j"), 0.25) == [-1, 0, 1]


def test_sanity_judges_and_oracle_get_their_hand_computed_figures(tmp_path: Path) -> None:
    written(tmp_path, row(0, 1, -1), row(1, 1, 1), row(2, 0, -1))
    benchmark = agent_process_bench(written(tmp_path, row(0, -1, 0), part="bfcl"))
    right, wrong = run(benchmark, always_right()), run(benchmark, always_wrong())
    names = ("step_acc", "first_error_acc")
    assert [right.value("hotpotqa", name) for name in names] == pytest.approx([3 / 6, 1 / 3])
    assert [wrong.value("hotpotqa", name) for name in names] == pytest.approx([2 / 6, 0])
    assert run(benchmark, LengthJudge()).splits == right.splits  # all texts are short
    assert [wrong.value("bfcl", name) for name in names] == [0.5, 1]
    # Pooled over labels and trajectories, not a mean of the parts.
    assert [wrong.value("pooled", name) for name in names] == pytest.approx([3 / 8, 1 / 4])
    told = [{"id": "toy:0:0", "split": "hotpotqa", "scores": [1, 0]}, {"id": "toy:0:1", "scores": [1, 1]},
            {"id": "toy:0:2", "scores": [0.5, 0]}, {"id": "toy:0:0", "split": "bfcl", "scores": [0, 0.5]}]  # fmt: skip
    oracle = run(benchmark, Scores.from_rows("mine", enumerate(told, start=1)))
    assert [oracle.value("pooled", name) for name in names] == [1, 1]
    assert benchmark.notes == ("parts not in the data: gaia_dev, tau2",)


def test_a_step_without_value_matches_no_label_and_is_no_error(tmp_path: Path) -> None:
    benchmark = agent_process_bench(written(tmp_path, row(0, 1, 1)))
    report = run(benchmark, Scores.from_rows("mine", [(1, {"id": "toy:0:0", "scores": [None, 1]})]))
    assert [report.value("hotpotqa", name) for name in ("step_acc", "first_error_acc")] == [0.5, 1]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"step_labels": {"1": 1}}, "step_labels"),
        ({"step_labels": {"1": 1, "3": 2}}, "step_labels.3"),
        ({"messages": [{"role": "user", "content": "?"}, {"content": "a"}]}, "messages[1].role"),
        ({"query_index": "0"}, "query_index"),
    ],
)
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, more: dict[str, Json], field: str) -> None:
    with pytest.raises(FormatError, match=r"hotpotqa.jsonl, line 2") as caught:
        agent_process_bench(written(tmp_path, row(0, 1, 1), row(1, 1, 1) | more))
    assert caught.value.field == field


@needs_data
def test_the_released_part_has_its_runs_and_labels() -> None:
    benchmark = agent_process_bench(DATA / "data")
    assert len(benchmark.cases) == 250
    assert len({case.group for case in benchmark.cases}) == 50
    right = run(benchmark, always_right(), resamples=5)
    assert right.value("hotpotqa", "step_acc") == pytest.approx(499 / 734)


def released_labels(path: Path) -> dict[str, dict[str, int | None]]:
    with gzip.open(path, "rt") as lines:
        return {record["record_id"]: record["step_labels"] for record in map(json.loads, lines)}


def judged(critic: str) -> tuple[list[Case], list[Judgement]]:
    """The human labels of all parts as cases without text, and what a critic said of them."""
    cases, said = [], []
    for part in SPLITS:
        (told,) = (DATA / "eval_results" / critic).glob(f"{part}__*")
        by_critic = released_labels(told)
        for name, truth in released_labels(DATA / "answer_only" / f"{part}_final.jsonl.gz").items():
            trajectory = Trajectory(name, Problem(name, ""), tuple(Step("") for _ in truth))
            cases.append(Case(part, trajectory, Judgement(name, values(truth, truth), "human")))
            said.append(Judgement(name, values(truth, by_critic[name]), critic))
    return cases, said


def values(order: dict[str, int | None], given: dict[str, int | None]) -> tuple[float | None, ...]:
    labels = [given[index] for index in sorted(order, key=int)]
    return tuple(None if label is None else label_value(label) for label in labels)


@needs_data
@pytest.mark.parametrize(
    ("critic", "shown", "first_error"),
    [
        ("DeepSeek-V3.2", "DeepSeek-V3.2 (critic)", 0.552),
        ("GPT-5.2-Thinking (medium) ", "GPT-5.2-Thinking, medium (critic)", 0.575),
        ("Qwen3-8B-Thinking", "Qwen3-8B-Thinking (critic)", 0.460),
        ("Llama-3.1-8B-Instruct", "Llama-3.1-8B-Instruct (critic)", 0.402),
    ],
)
def test_the_released_critics_get_the_figures_of_the_authors_rule(critic: str, shown: str, first_error: float) -> None:
    cases, said = judged(critic)
    figures = measure(cases, said, 0.25, np.ones((1, len(cases))))
    rows = [100 * float(figures[row]["step_acc"][0]) for row in (*SPLITS, "pooled")]
    assert rows == pytest.approx(PUBLISHED[shown], abs=0.051)
    assert figures["pooled"]["first_error_acc"][0] == pytest.approx(first_error, abs=5e-4)


def test_the_benchmark_is_found_by_name() -> None:
    assert registry.load("benchmark", "agentprocessbench") is agent_process_bench
