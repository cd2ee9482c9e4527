"""ToolPRMBench: the right action of a tool-using agent against a plausible wrong one (card: toolprmbench)

A case is one decision: history, tools, a right action and a wrong one. A judge of steps reads each action after the
history and is compared by its value of that last step, strictly; AVG is the plain mean of the four subsets. A judge of
pairs that is asked in both orders is right only if both agree (`both_orders`), so "always the first" gets 0.
"""

from __future__ import annotations

from pathlib import Path

from footfall.benchmarks.records import Names, as_text, load_cases, name_of, objects, tools_of
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields
from footfall.metrics.cases import Case
from footfall.metrics.preferences import LAST_STEP_RULE, comparison, last_step_score, mean_row, measure_by, size_notes
from footfall.registry import register
from footfall.types import Message, Problem, Step

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
    cases, revision = load_cases(data, _pair, "case")
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


def _pair(fields: Fields, path: Path, names: Names) -> list[Case]:
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
