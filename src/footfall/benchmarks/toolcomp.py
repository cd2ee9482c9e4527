"""ToolComp: a human's correction of one plan or ReAct step against the step that it replaced (card: toolcomp)

The history before the pair is always right, so a pair isolates one step. A judge of steps reads history and candidate and
is compared by its value of the candidate, the last step; a tie is wrong. A judge of pairs is asked in both orders and
scored by `footfall.metrics.preferences.swapped_score`. Reported: plans only, ReAct steps only, and all pairs together.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from footfall.benchmarks.records import Names, load_cases, objects
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields
from footfall.metrics.cases import Case
from footfall.metrics.preferences import LAST_STEP_RULE, comparison, last_step_score, measure_by, pooled
from footfall.registry import register
from footfall.types import Json, Problem, Step

PAIRS = 1731
_PLAN = ("action plan", "action_plan")
_PARTS = {"thought": "Thought", "action": "Action", "action_input": "Action Input", "observation": "Observation"}


@register("benchmark", "toolcomp")
def toolcomp(data: str | Path) -> Benchmark:
    """ToolComp: corrected against wrong plans and tool steps; `data` is its process supervision file."""
    cases, revision = load_cases(data, _pair, "pair")
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


def _pair(fields: Fields, _path: Path, names: Names) -> list[Case]:
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
