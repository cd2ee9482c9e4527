"""What a format is, and a record's parts as a `Judged` row and back: ids made from content, keys that all formats share.

A field format names only a prompt, steps and labels. Further plain facts of a row stand in the same record under the
keys of `OPTIONAL`, which other readers of the format ignore; keys that nobody knows are kept in the trajectory's `meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from footfall.answers import extract
from footfall.formats.records import Fields, FormatError, show
from footfall.formats.solutions import BLANK_LINE
from footfall.types import (
    Json,
    Judged,
    Judgement,
    Message,
    Problem,
    Step,
    Trajectory,
    Unjudged,
    content_key,
    image_name,
)


class Written(NamedTuple):
    """A record, and the rows that it stands for."""

    record: Mapping[str, Json]
    rows: Sequence[Judged]


@dataclass(frozen=True, slots=True)
class Format:
    """A way to store process data as JSON records."""

    name: str
    sniff: Callable[[Fields], bool]
    """Whether a record looks like this format."""
    read: Callable[[Fields], list[Judged]]
    write: Callable[[Iterable[Judged]], Iterator[Written]]
    """Raises `FormatError` (see `unwritable`) where the format has no place for something."""


def unwritable(format: str, row: Judged, field: str, expected: str, fix: str | None = None) -> FormatError:
    """What a writer raises about one row; the caller adds the file's name and the row's number."""
    return FormatError(f"format {format}", expected, field=field, fix=fix, subject=f"trajectory {row.trajectory.id!r}")


def hard_labels(format: str, row: Judged) -> tuple[bool, ...]:
    """The row's values as booleans, for a format that has only these."""
    return tuple(hard_label(format, row, k, value) for k, value in enumerate(judged_values(format, row)))


def hard_label(format: str, row: Judged, k: int, value: float | None) -> bool:
    """The value of one step as a boolean; an error if it is soft or missing."""
    if value not in (0.0, 1.0):
        fix = "judge the step" if value is None else "pass a threshold to make the values hard"
        raise unwritable(format, row, f"judgement.values[{k}]", f"0 or 1, got {show(value)}", fix)
    return bool(value)


def judged_values(format: str, row: Judged) -> tuple[float | None, ...]:
    """The row's values, for a format that holds labels."""
    if row.judgement is None:
        raise unwritable(format, row, "judgement", "a judgement", "label the trajectories first")
    return row.judgement.values


OPTIONAL = ("id", "problem_id", "answer", "prediction", "correct", "author", "domain", "separator", "judge", "images")
"""Trajectory id, problem id, reference answer, the trajectory's own answer, the problem's images, and so on."""

REFERENCES = (
    "target", "expected_answer", "final_answer", "gold", "gold_answer", "ground_truth", "ground_truth_answer",
    "reference_answer", "reference", "correct_answer", "gt",
)  # fmt: skip
"""Names under which nothing but a reference answer stands."""
_EITHER = ("answer", "Answer")
"""The reference answer; beside one of `REFERENCES`, the model's own."""

Prompt = str | tuple[Message, ...]


def problem_id(prompt: Prompt, images: Sequence[str] = ()) -> str:
    """The id of a problem that came without one: equal prompts get equal ids, today and in a year.

    Images count by their names, hence by their content where their references are pinned.
    """
    if len(prompt) == 1 and isinstance(prompt[0], Message) and prompt[0].role == "user":
        prompt = prompt[0].content
    return "p-" + content_key(prompt_json(prompt), list(map(image_name, images)))[:16]


def trajectory_id(trajectory: Trajectory) -> str:
    """The id of a trajectory that came without one, from its content."""
    return "t-" + trajectory.key[:16]


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
    """A reference answer given as text, a number, or a list of these, the parts of one answer.

    A `target` of several, as in the logs of evaluations, is no such list: there any one of them is right.
    """
    value = fields.data.get(name)
    if value is None or isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    if name == "target" and len(parts) > 1:
        fix = 'keep the one that is to be compared with; the parts of one answer are one text, "3, 5"'
        raise fields.error(name, "one reference answer", f"a list of {len(parts)}, any of which may be right", fix)
    if any(isinstance(part, bool) or not isinstance(part, str | int | float) for part in parts):
        raise fields.wrong(name, "an answer: a string or a number")
    return ", ".join(str(int(p)) if isinstance(p, float) and p.is_integer() else str(p) for p in parts)


class Answers(NamedTuple):
    """The answers of a record, and the fields that hold them."""

    reference: str | None
    own: str | None
    """The model's own, which a trace ends in."""
    reference_field: str | None
    own_field: str | None

    @property
    def fields(self) -> set[str]:
        """The fields that were read, so that they are not kept in `meta` again."""
        return {name for name in (self.reference_field, self.own_field) if name is not None}


def answers_of(fields: Fields, read: Callable[[Fields, str], str | None] | None = None) -> Answers:
    """Which answer is the reference and which the model's own; where two fields contradict each other, an error.

    `read` takes a reference answer out of its field, `answer_text` if it is not given.
    """
    reading = read or answer_text
    there = [name for name in REFERENCES if not _is_blank(fields.data.get(name))]
    if isinstance(fields.data.get("reference"), list | dict):  # a citation, not an answer
        there.remove("reference")
    held = {name: reading(fields, name) for name in there}
    if len({(answer or "").strip() for answer in held.values()}) > 1:
        raise fields.error(
            next(iter(held)), f"one reference answer; {' and '.join(held)} hold different ones",
            fix='keep one of them, and call the model\'s own answer "prediction"',
        )  # fmt: skip
    plain = next((name for name in _EITHER if fields.data.get(name) is not None), None)
    said = "prediction" if fields.data.get("prediction") is not None else None
    if not held:
        reference = None if plain is None else reading(fields, plain)
        return Answers(reference, said and answer_text(fields, said), plain, said)
    gold = next(iter(held))
    if said is None:
        return Answers(held[gold], plain and _stated(fields, plain), gold, plain)
    own = answer_text(fields, said)
    if plain is not None and reading(fields, plain) not in (held[gold], own):
        raise fields.error(
            plain, f'the reference answer ("{gold}") or the model\'s own ("{said}")', show(fields.data[plain]),
            f"leave it out, or leave out {gold} or {said}",
        )  # fmt: skip
    return Answers(held[gold], own, gold, said)


def _is_blank(value: Json) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _stated(fields: Fields, name: str) -> str | None:
    """The model's own answer; of a whole working, the answer that it states."""
    answer = answer_text(fields, name)
    return answer and (extract(answer, fields.text_or_none("domain") or "math") or answer)


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
    answers: Answers | None = None,
    correct: bool | None = None,
    author: str | None = None,
) -> Judged:
    """The row of a record whose format-specific parts are given and whose optional keys are read here.

    `images` are those that stand elsewhere than in the key of that name.
    """
    given = answers or _optional_answers(fields)
    images += fields.images()
    problem = Problem(
        id=fields.identifier("problem_id") or problem_id(prompt, images),
        prompt=prompt,
        answer=given.reference,
        domain=fields.text_or_none("domain") or "math",
        images=images,
    )
    trajectory = Trajectory(
        id="",
        problem=problem,
        steps=tuple(Step(text) for text in steps),
        answer=given.own,
        correct=fields.boolean_or_none("correct") if correct is None else correct,
        author=fields.text_or_none("author") if author is None else author,
        separator=fields.text("separator") if "separator" in fields else separator,
        meta=fields.rest({*known, *given.fields, *OPTIONAL}),
    )
    name = fields.identifier("id")
    trajectory = replace(trajectory, id=trajectory_id(trajectory) if name is None else name)
    if labels is None:
        return Judged(trajectory, None)
    judge = fields.text_or_none("judge") or format
    return Judged(
        trajectory, Judgement(trajectory.id, labels.values, judge, aspects=labels.aspects, failures=labels.failures)
    )


def _optional_answers(fields: Fields) -> Answers:
    """The answers of a format that has none itself. Without `answer`, a `ground_truth` there may be of another problem (as
    PRMBench's is of the problem before it was rewritten), so it stays metadata."""
    if fields.data.get("answer") is None:
        return Answers(None, answer_text(fields, "prediction"), None, "prediction")
    return answers_of(fields)


def optional_keys(row: Judged, format: str, separator: str = BLANK_LINE) -> dict[str, Json]:
    """The optional keys that a reader could not guess for this row."""
    trajectory, problem = row.trajectory, row.trajectory.problem
    found: dict[str, Json] = {}
    if trajectory.id != trajectory_id(trajectory):
        found["id"] = trajectory.id
    if problem.id != problem_id(problem.prompt, problem.images):
        found["problem_id"] = problem.id
    if problem.images:
        found["images"] = list(problem.images)
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
