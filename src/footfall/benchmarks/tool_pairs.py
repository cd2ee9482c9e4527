"""A right and a wrong tool action: FC-RewardBench, ToolComp, ToolPRMBench (cards: toolrm, toolcomp, toolprmbench).

FC-RewardBench has the right function call against a wrong one, by the kind of error.
Accuracy = mean 1[score(chosen) > score(rejected)], a tie being wrong, over all pairs and for each error type. A call (or a
list of calls) is one step, so every aggregation gives the same.

ToolComp has a human's correction of one plan or ReAct step against the step that it replaced.
The history before the pair is always right, so a pair isolates one step. A judge of steps reads history and candidate and
is compared by its value of the candidate, the last step; a tie is wrong. A judge of pairs is asked in both orders and
scored by `footfall.metrics.preferences.swapped_score`. Reported: plans only, ReAct steps only, and all pairs together.

ToolPRMBench has the right action of a tool-using agent against a plausible wrong one.
A case is one decision: history, tools, a right action and a wrong one. A judge of steps reads each action after the
history and is compared by its value of that last step, strictly; AVG is the plain mean of the four subsets. A judge of
pairs that is asked in both orders is right only if both agree (`both_orders`), so "always the first" gets 0.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from footfall.benchmarks.records import Names, as_text, load_cases, messages, name_of, objects, tools_of
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields
from footfall.metrics.cases import Case
from footfall.metrics.preferences import (
    LAST_STEP_RULE,
    comparison,
    last_step_score,
    mean_row,
    measure_by,
    pooled,
    response_score,
    size_notes,
)
from footfall.registry import register
from footfall.types import Json, Message, Problem, Step

ERROR_TYPES = {
    "parameter value error": 650,
    "incorrect function name": 403,
    "incorrect number of function calls": 245,
    "missing optional parameter": 78,
    "missing required parameter": 45,
    "parameter value type error": 43,
    "unexpected parameter": 21,
    "parsing error": 15,
}
"""Pairs of each error type in the published data, 1,500 in all."""


@register("benchmark", "fc-rewardbench")
def fc_rewardbench(data: str | Path) -> Benchmark:
    """FC-RewardBench: right against wrong function calls by error type; `data` is a file or folder of its rows."""
    cases, revision = load_cases(data, _calls, "pair")
    counts = ", ".join(f"{kind} {n}" for kind, n in ERROR_TYPES.items())
    return Benchmark(
        name="fc-rewardbench",
        cases=cases,
        measure=measure_by(response_score, summary=pooled),
        protocol="right call strictly above the wrong one by the judge's own value, else the value of its one step",
        objective="accuracy",
        revision=revision,
        notes=(f"{len(cases) // 2} pairs; the published data has {sum(ERROR_TYPES.values())}: {counts}",),
    )


def _calls(fields: Fields, _path: Path, names: Names) -> list[Case]:
    name = names.unique(name_of(fields, "test_id"))
    problem = Problem(name, messages(fields, "conversation"), domain="agent", tools=tools_of(fields, "tools"))
    calls = ({which: (Step(as_text(fields, f"{which}_output")),)} for which in ("chosen", "rejected"))
    return comparison(fields.text("error_type"), problem, *calls)


PAIRS = 1731
_PLAN = ("action plan", "action_plan")
_PARTS = {"thought": "Thought", "action": "Action", "action_input": "Action Input", "observation": "Observation"}


@register("benchmark", "toolcomp")
def toolcomp(data: str | Path) -> Benchmark:
    """ToolComp: corrected against wrong plans and tool steps; `data` is its process supervision file."""
    cases, revision = load_cases(data, _correction, "pair")
    pairs = len(cases) // 2
    return Benchmark(
        name="toolcomp",
        cases=cases,
        measure=measure_by(last_step_score, summary=pooled),
        protocol=f"preferred strictly above dispreferred by the {LAST_STEP_RULE}; a pair is named by its place in the file",
        objective="accuracy",
        revision=revision,
        notes=() if pairs == PAIRS else (f"{pairs} pairs; the published data has {PAIRS}",),
    )


def _correction(fields: Fields, _path: Path, names: Names) -> list[Case]:
    history = objects(fields, "history") if fields.get("history", "a list of steps as JSON") else []
    past = tuple(_plan(entry) if i == 0 else _react(entry) for i, entry in enumerate(history))
    date = fields.text_or_none("historical_date")
    prompt = fields.text("prompt")
    problem = Problem(
        names.unique(f"toolcomp-{names.count}"),
        f"{prompt}\n\nThe current date is {date}." if date else prompt,
        domain="agent",
        tools=tuple({"name": tool} for tool in _tool_names(fields)),
    )
    split, last = ("react", _react) if past else ("plan", _plan)
    steps = ({which: (*past, last(fields.record(which)))} for which in ("preferred", "dispreferred"))
    return comparison(split, problem, *steps)


def _plan(entry: Fields) -> Step:
    field = next((name for name in _PLAN if name in entry), _PLAN[0])
    return Step(f"Action Plan: {entry.record(field).text('text')}")


def _react(entry: Fields) -> Step:
    """All parts in the step's text, as judges read text; a candidate whose call was never made has no observation."""
    said = [
        f"{label}: {entry.record(part).text('text')}"
        for part, label in _PARTS.items()
        if part != "observation" or entry.data.get(part) is not None
    ]
    return Step("\n".join(said))


def _tool_names(fields: Fields) -> Sequence[str]:
    """A list of names, or the text of one in Python's or JSON's spelling."""
    given: Json = fields.get("tools", "a list of tool names")
    if isinstance(given, str):
        try:
            given = ast.literal_eval(given)
        except (ValueError, SyntaxError) as error:
            raise fields.wrong("tools", "a list of tool names, or a string that holds one") from error
    if not isinstance(given, list | tuple) or not all(isinstance(tool, str) for tool in given):
        raise fields.wrong("tools", "a list of tool names")
    return [str(tool) for tool in given]


SUBSETS = {"GTA": 118, "ToolTalk": 86, "BFCL": 111, "ToolSandbox": 130}
"""Test cases of each subset."""

PUBLISHED = {
    "GPT-5": (87.3, 82.5, 44.1, 83.7, 74.4),
    "Claude-4.5-haiku": (91.5, 93.0, 45.9, 70.0, 75.1),
    "Gemini-2.5-flash": (90.1, 86.7, 40.8, 75.3, 73.2),
    "Qwen3-4B": (63.5, 66.2, 30.1, 37.8, 49.4),
    "Qwen3-14B": (74.6, 80.1, 35.2, 62.1, 63.0),
    "LLaMA-3-70B": (65.3, 70.1, 43.2, 36.0, 53.6),
    "WebShepherd-8B": (52.0, 64.0, 37.5, 43.4, 49.2),
    "Qwen2.5-Math-PRM-7B": (29.7, 69.4, 36.9, 67.0, 50.8),
    "Llemma-7b-prm": (41.5, 64.1, 45.0, 60.8, 52.8),
    "Math-Shepherd": (59.3, 33.6, 53.0, 57.7, 50.9),
    "ToolPRM-Base": (38.1, 65.1, 47.7, 77.7, 57.1),
    "ToolPRM-GRPO": (84.7, 73.3, 86.4, 70.0, 78.6),
}
"""Accuracy in percent of each subset and AVG."""


@register("benchmark", "toolprmbench")
def toolprmbench(data: str | Path) -> Benchmark:
    """ToolPRMBench: right against wrong tool actions; `data` is a folder with a file a subset, or rows with `subset`."""
    cases, revision = load_cases(data, _decision, "case")
    rows = (*SUBSETS, "AVG")
    return Benchmark(
        name="toolprmbench",
        cases=cases,
        measure=measure_by(last_step_score, summary=lambda rows, compared, weights_RN: {"AVG": mean_row(rows)}),
        protocol=f"right action strictly above the wrong one by the {LAST_STEP_RULE}; AVG is the plain mean of the subsets",
        objective="accuracy",
        revision=revision,
        published={
            **{model: dict(zip(rows, figures, strict=True)) for model, figures in PUBLISHED.items()},
            "ToolPRM-CoT": {"AVG": 63.2},
        },
        notes=size_notes(cases, SUBSETS, "subsets"),
    )


def both_orders(right_first: str, right_second: str) -> float:
    """Labels ("1" or "2") of a judge of pairs, right action shown first, then second: 1 only if it names it twice."""
    return float((right_first, right_second) == ("1", "2"))


def _decision(fields: Fields, path: Path, names: Names) -> list[Case]:
    subset = _subset(fields, path)
    name = names.unique(name_of(fields, "sample_id"))
    prompt, past = _history(fields)
    problem = Problem(name, prompt, domain="agent", tools=tools_of(fields, "tools", "functions"))
    steps = ({which: (*past, Step(as_text(fields, f"action_{which}")))} for which in ("chosen", "rejected"))
    return comparison(subset, problem, *steps)


def _subset(fields: Fields, path: Path) -> str:
    """The field `subset`, else the subset whose name is in the file's."""
    given = fields.text("subset") if "subset" in fields else path.name
    plain = given.lower().replace("_", "").replace("-", "")
    for subset in SUBSETS:
        if plain == subset.lower() if "subset" in fields else subset.lower() in plain:
            return subset
    known = ", ".join(SUBSETS)
    raise fields.error("subset", f"one of {known}, here or in the file's name", given)


def _history(fields: Fields) -> tuple[str | tuple[Message, ...], tuple[Step, ...]]:
    """What was asked, and the steps so far: each assistant turn with all that came back before the next one.

    A history that is plain text is the prompt; the action is then the only step.
    """
    if isinstance(fields.get("history", "a list of messages, or text"), str):
        return fields.text("history"), ()
    asked: list[Message] = []
    steps: list[str] = []
    for turn in objects(fields, "history"):
        role, content = turn.text("role"), as_text(turn, "content")
        if role == "assistant":
            steps.append(content)
        elif steps:
            steps[-1] += f"\n{'User' if role == 'user' else 'Observation'}: {content}"
        else:
            asked.append(Message(role, content))
    return tuple(asked), tuple(map(Step, steps))
