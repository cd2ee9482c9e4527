"""From a record's parts to a `Judged` row and back: ids made from content, and the optional keys all formats share.

A field format names only a prompt, steps and labels. Further plain facts of a row stand in the same record under the
keys of `OPTIONAL`, which other readers of the format ignore; keys that nobody knows are kept in the trajectory's `meta`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from footfall.formats._fields import Fields
from footfall.formats._format import unwritable
from footfall.formats.errors import show
from footfall.types import Json, Judged, Judgement, Message, Problem, Step, Trajectory, Unjudged, content_key

__all__ = [
    "BLANK_LINE", "OPTIONAL", "Labels", "answer_text", "optional_keys", "plain_prompt", "plain_steps", "problem_id",
    "prompt_json", "read_prompt", "read_row", "split_solution", "trajectory_id", "with_meta",
]  # fmt: skip

BLANK_LINE = "\n\n"
OPTIONAL = ("id", "problem_id", "answer", "prediction", "correct", "author", "domain", "separator", "judge")
"""Trajectory id, problem id, reference answer, the trajectory's own answer, and so on."""

Prompt = str | tuple[Message, ...]


def problem_id(prompt: Prompt, images: Sequence[str] = ()) -> str:
    """The id of a problem that came without one: equal prompts get equal ids, today and in a year."""
    if len(prompt) == 1 and isinstance(prompt[0], Message) and prompt[0].role == "user":
        prompt = prompt[0].content
    return "p-" + content_key(prompt_json(prompt), list(images))[:16]


def trajectory_id(trajectory: Trajectory) -> str:
    """The id of a trajectory that came without one, from its content."""
    return "t-" + trajectory.key[:16]


def split_solution(text: str) -> tuple[str, ...]:
    """A solution cut at its blank lines."""
    return tuple(part for part in re.split(r"\n[ \t\r]*\n\s*", text.strip()) if part)


def prompt_json(prompt: Prompt) -> Json:
    """A prompt as JSON: text, or a list of messages."""
    return prompt if isinstance(prompt, str) else [{"role": m.role, "content": m.content} for m in prompt]


def read_prompt(fields: Fields, name: str) -> Prompt:
    """A prompt given as text or as a list of messages."""
    if isinstance(fields.get(name, "a string or a list of messages"), str):
        return fields.text(name)
    if not isinstance(fields.data[name], list):
        raise fields.wrong(name, "a string or a list of messages")
    return tuple(Message(m.text("role"), m.text("content")) for m in fields.records(name))


def answer_text(fields: Fields, name: str) -> str | None:
    """A reference answer given as text, a number, or a list of these."""
    value = fields.data.get(name)
    if value is None or isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, bool) or not isinstance(part, str | int | float) for part in parts):
        raise fields.wrong(name, "an answer: a string or a number")
    return ", ".join(str(int(p)) if isinstance(p, float) and p.is_integer() else str(p) for p in parts)


@dataclass(frozen=True, slots=True)
class Labels:
    """What a format says of the steps, before it is a `Judgement`."""

    values: tuple[float | None, ...]
    aspects: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    failures: tuple[Unjudged | None, ...] = ()


def read_row(
    fields: Fields,
    format: str,
    prompt: Prompt,
    steps: Sequence[str],
    labels: Labels | None,
    *,
    known: Collection[str],
    separator: str = BLANK_LINE,
    images: tuple[str, ...] = (),
    reference: str | None = None,
    correct: bool | None = None,
    author: str | None = None,
) -> Judged:
    """The row of a record whose format-specific parts are given and whose optional keys are read here."""
    problem = Problem(
        id=fields.text_or_none("problem_id") or problem_id(prompt, images),
        prompt=prompt,
        answer=reference if reference is not None else answer_text(fields, "answer"),
        domain=fields.text_or_none("domain") or "math",
        images=images,
    )
    trajectory = Trajectory(
        id="",
        problem=problem,
        steps=tuple(Step(text) for text in steps),
        answer=fields.text_or_none("prediction"),
        correct=fields.boolean_or_none("correct") if correct is None else correct,
        author=fields.text_or_none("author") if author is None else author,
        separator=fields.text("separator") if "separator" in fields else separator,
        meta=fields.rest({*known, *OPTIONAL}),
    )
    trajectory = _named(trajectory, fields)
    if labels is None:
        return Judged(trajectory, None)
    judge = fields.text_or_none("judge") or format
    return Judged(
        trajectory, Judgement(trajectory.id, labels.values, judge, aspects=labels.aspects, failures=labels.failures)
    )


def _named(trajectory: Trajectory, fields: Fields) -> Trajectory:
    given = fields.data.get("id")
    if given is not None and (isinstance(given, bool) or not isinstance(given, str | int)):
        raise fields.wrong("id", "a string or an integer")
    name = str(given) if given is not None else trajectory_id(trajectory)
    return replace(trajectory, id=name)


def optional_keys(row: Judged, format: str, separator: str = BLANK_LINE) -> dict[str, Json]:
    """The optional keys that a reader could not guess for this row."""
    trajectory, problem = row.trajectory, row.trajectory.problem
    found: dict[str, Json] = {}
    if trajectory.id != trajectory_id(trajectory):
        found["id"] = trajectory.id
    if problem.id != problem_id(problem.prompt, problem.images):
        found["problem_id"] = problem.id
    if problem.domain != "math":
        found["domain"] = problem.domain
    if trajectory.separator != separator:
        found["separator"] = trajectory.separator
    if row.judgement is not None and row.judgement.judge != format:
        found["judge"] = row.judgement.judge
    plain = {"answer": problem.answer, "prediction": trajectory.answer, "correct": trajectory.correct,
             "author": trajectory.author}  # fmt: skip
    return found | {name: value for name, value in plain.items() if value is not None}


def with_meta(format: str, row: Judged, record: Mapping[str, Json]) -> dict[str, Json]:
    """The record with the trajectory's metadata as further keys."""
    for name in row.trajectory.meta:
        if name in record or name in OPTIONAL:
            fix = "rename it, or write the format 'jsonl'"
            raise unwritable(format, row, f"trajectory.meta.{name}", "a name that the format does not use itself", fix)
    return {**record, **row.trajectory.meta}


def plain_prompt(format: str, row: Judged) -> str:
    """The prompt, for a format that has no chats."""
    prompt = row.trajectory.problem.prompt
    if not isinstance(prompt, str):
        raise unwritable(
            format, row, "trajectory.problem.prompt", f"plain text, got the chat {show(prompt_json(prompt))}"
        )
    return prompt


def plain_steps(row: Judged) -> list[str]:
    """The texts of the steps."""
    return [step.text for step in row.trajectory.steps]
