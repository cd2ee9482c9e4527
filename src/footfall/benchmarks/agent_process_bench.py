"""AgentProcessBench: is each step of a tool-using agent good (+1), neutral (0) or bad (−1)? Human labels.

    step_acc = labels that the judge repeats / all labels, over the steps of all trajectories
    first_error_acc = trajectories whose first step called −1 is the labelled one (or neither has one)

A step is an assistant message: its text, its tool calls as `action`, and all that came back before the next one as
`observation`. The authors ask critics for the labels themselves. A judge with values in [0, 1] says −1 below the
threshold t, +1 from max(t, 1 − t) up, and neutral between: 0, 0.5 and 1 are the labels at the benchmark's own t = 0.25,
and a judge with the threshold 0.5 never says neutral. As in the authors' script a step without a value matches no
label and is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import Names, benchmark_files, file_cases, stem, step_case
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields, problem_id
from footfall.metrics.cases import Case, Rows, split_totals
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import ratio
from footfall.registry import register
from footfall.types import Judgement, Message, Problem, Step

SPLITS = ("hotpotqa", "gaia_dev", "bfcl", "tau2")
_LABELS = (-1, 0, 1)

PUBLISHED = {
    "Gemini-3-Flash-Preview-Thinking (critic)": (75.7, 79.7, 81.8, 83.5, 81.6),
    "Kimi-K2.5-Thinking (critic)": (70.6, 66.6, 79.8, 78.4, 75.9),
    "GPT-5.2-Chat (critic)": (71.4, 69.3, 71.6, 80.4, 74.8),
    "DeepSeek-V3.2-Thinking (critic)": (70.4, 60.2, 75.3, 77.2, 72.8),
    "DeepSeek-V3.2 (critic)": (74.4, 61.8, 74.1, 73.3, 71.4),
    "GPT-5.2-Thinking, medium (critic)": (72.3, 70.9, 64.9, 75.2, 71.0),
    "Qwen3-8B-Thinking (critic)": (59.7, 45.9, 70.8, 66.4, 63.3),
    "Llama-3.3-70B-Instruct (critic)": (46.3, 36.5, 64.6, 56.9, 54.4),
    "Llama-3.1-8B-Instruct (critic)": (34.6, 26.8, 61.2, 61.1, 52.3),
}
"""step_acc in percent of each part and pooled, computed here from the labels that the authors released for these judges."""


@register("benchmark", "agentprocessbench")
def agent_process_bench(data: str | Path) -> Benchmark:
    """AgentProcessBench: good, neutral and bad steps of tool-using agents; `data` is its folder or one part's file."""
    place = Path(data)
    files = benchmark_files(place / "data" if (place / "data").is_dir() else place, SPLITS, "AgentProcessBench")
    cases, revision = file_cases(files.values(), _case)
    absent = [split for split in SPLITS if split not in files]
    return Benchmark(
        name="agentprocessbench",
        cases=cases,
        measure=measure,
        protocol="-1 strictly below the threshold t, +1 from max(t, 1 - t) up, 0 between; no aggregation",
        objective="step_acc",
        revision=revision,
        threshold=0.25,
        published={model: dict(zip((*SPLITS, "pooled"), row, strict=True)) for model, row in PUBLISHED.items()},
        notes=(f"parts not in the data: {', '.join(absent)}",) if absent else (),
    )


def label_value(label: int) -> float:
    """−1, 0, 1 as the values 0, 0.5, 1."""
    return (label + 1) / 2


def _case(fields: Fields, path: Path, _names: Names) -> list[Case]:
    messages = fields.records("messages")
    turns = [i for i, message in enumerate(messages) if message.text("role") == "assistant"]
    given = fields.record("step_labels")
    if {*given.data} != {str(i) for i in turns}:
        wanted = f"a label for each assistant message ({', '.join(map(str, turns))})"
        raise fields.wrong("step_labels", wanted)
    ends = [*turns[1:], len(messages)]
    steps = [_step(messages[start], messages[start + 1 : end]) for start, end in zip(turns, ends, strict=True)]
    truth = [label_value(_label(given, str(i))) for i in turns]
    prompt = tuple(Message(m.text("role"), m.text("content")) for m in messages[: turns[0]])
    tools = tuple(tool.data for tool in fields.records("tools")) if fields.data.get("tools") else ()
    source, query = fields.text("data_source"), fields.integer("query_index")
    name = f"{source}:{query}:{fields.integer('sample_index')}"
    problem = Problem(problem_id(prompt), prompt, domain="agent", tools=tools)
    return [step_case(stem(path), name, problem, steps, truth, "agentprocessbench", group=f"{source}:{query}")]


def _label(given: Fields, name: str) -> int:
    label = given.integer(name)
    if label not in _LABELS:
        raise given.wrong(name, "1, 0 or -1")
    return label


def _step(message: Fields, after: Sequence[Fields]) -> Step:
    calls = message.records("tool_calls") if message.data.get("tool_calls") else []
    made = [call.record("function") for call in calls]
    action = "\n".join(f"{call.text('name')}({call.text('arguments')})" for call in made)
    seen = "\n\n".join(answer.text("content") for answer in after)
    return Step(message.text_or_none("content") or "", action=action or None, observation=seen or None)


def labels(judgement: Judgement, threshold: float) -> list[int | None]:
    """The label of each step by the two limits t and max(t, 1 − t)."""
    upper = max(threshold, 1 - threshold)
    return [None if v is None else -1 if v < threshold else 1 if v >= upper else 0 for v in judgement.values]


def measure(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Rows:
    """Step accuracy and first-error accuracy of each part, and of all steps and trajectories together ("pooled")."""
    table_NC = np.asarray([_counts(case, said, threshold) for case, said in zip(cases, judgements, strict=True)])
    totals = split_totals(cases, table_NC, weights_RN)
    if len(totals) > 1:
        totals["pooled"] = np.sum(list(totals.values()), axis=0)
    return {
        split: {"step_acc": ratio(total[:, 0], total[:, 1]), "first_error_acc": ratio(total[:, 2], total[:, 3])}
        for split, total in totals.items()
    }


def _counts(case: Case, judgement: Judgement, threshold: float) -> tuple[float, float, float, float]:
    """Labels repeated, labels, first error agreed, trajectories."""
    true, said = labels(case.truth, 0.25), labels(judgement, threshold)
    hits = sum(a == b for a, b in zip(true, said, strict=True))
    return hits, len(true), _first_bad(true) == _first_bad(said), 1


def _first_bad(given: Sequence[int | None]) -> int:
    return next((i for i, label in enumerate(given) if label == -1), -1)
