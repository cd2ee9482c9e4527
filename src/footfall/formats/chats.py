"""OpenAI's chats and FoVer's records: whole conversations, of which one side is the trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from footfall.formats.records import Fields, show
from footfall.formats.rows import (
    Format,
    Labels,
    Written,
    answers_of,
    hard_label,
    judged_values,
    optional_keys,
    plain_prompt,
    plain_steps,
    prompt_json,
    read_row,
    unwritable,
    with_meta,
)
from footfall.formats.solutions import BLANK_LINE
from footfall.registry import register
from footfall.types import Json, Judged, Message, Reason, Unjudged, failures_of


@register("format", "openai-chat")
def openai_chat() -> Format:
    """OpenAI chat messages: the last assistant message, cut into steps, is the trace.

    `{"messages": [{"role", "content"}, …]}`: what comes before that message is the problem's chat prompt, and image parts
    become the problem's images. `answer`, or a `target` as in evaluation logs, is the reference. Turns with tool calls are
    refused: their actions belong into the steps of the format `jsonl`.
    """
    return Format("openai-chat", _sniff_chat, _read_chat, _write_chat)


def _sniff_chat(fields: Fields) -> bool:
    return "messages" in fields and not _sniff_fover(fields)


def _read_chat(fields: Fields) -> list[Judged]:
    images: list[str] = []
    turns = [Message(turn.text("role"), _content(turn, images)) for turn in fields.records("messages")]
    solution = turns.pop().content if turns and turns[-1].role == "assistant" else ""
    if not turns:
        raise fields.error("messages", "at least one message in front of the solution", "none")
    steps, separator = fields.cut("messages", solution)
    return [
        read_row(
            fields, "openai-chat", tuple(turns), steps, None, known=("messages",), separator=separator,
            images=tuple(images), answers=answers_of(fields),
        )
    ]  # fmt: skip


def _content(turn: Fields, images: list[str]) -> str:
    if turn.data.get("tool_calls"):
        fix = 'write the format "jsonl", whose steps have an action and an observation'
        raise turn.error("tool_calls", "turns of text alone", show(turn.data["tool_calls"]), fix)
    if isinstance(turn.get("content", "a string or a list of parts"), str):
        return turn.text("content")
    texts = []
    for part in turn.records("content"):
        if part.text("type") == "image_url":
            images.append(part.record("image_url").image("url"))
        else:
            texts.append(part.text("text"))
    return "\n".join(texts)


def _write_chat(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        if row.judgement is not None:
            fix = 'leave it out by drop=["judgement"]'
            raise unwritable("openai-chat", row, "judgement", "no judgement: a chat has no place for values", fix)
        prompt = row.trajectory.problem.prompt
        turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt_json(prompt)
        assert isinstance(turns, list)
        messages: list[Json] = [*turns, *_solution(row)]
        record: dict[str, Json] = {"messages": messages, **optional_keys(row, "openai-chat")}
        yield Written(with_meta("openai-chat", row, record), [row])


def _solution(row: Judged) -> list[Json]:
    steps = row.trajectory.steps
    return [{"role": "assistant", "content": BLANK_LINE.join(step.text for step in steps)}] if steps else []


_CHATS = ("messages", "messages_for_prediction")
_FOVER = ("problem", "solution_steps", "error_labels", *_CHATS)
_NOT_JUDGED = Unjudged(Reason.NOT_ASKED, "not judged")
_FIRST_TURN = """** Problem **
{problem}

** Task **
Your task is to evaluate the accuracy of each step in the provided solution to the above question. For each step, respond \
with "correct" if the reasoning is logically valid and mathematically sound, or if the step is a general statement or \
transition that does not contain reasoning. Respond with "incorrect" if the step includes any errors or flawed logic.

** Sotluion **
{step}"""
"""The wording of the published data (ryokamoi/FoVer-FormalLogic-*, CC BY 4.0), its spelling included."""


@register("format", "fover")
def fover() -> Format:
    """FoVer: solution steps with local labels, and the conversations of its PRMs.

    {"id", "problem", "solution_steps": [text], "error_labels": [true | false | null],
     "messages": [{"role", "content"}], "messages_for_prediction": [{"role", "content"}]}

    Despite its name, a label is true where the step is **right**; null is a step that nobody judged. Labels are local: a
    right step may follow a wrong one. In `messages` the user says the problem, the task and step 1, then one step a turn, and
    the assistant says correct or incorrect; in `messages_for_prediction` it always says correct, so that a score cannot
    depend on the labels before it. Both follow from the other fields, so they are written and not read.
    """
    return Format("fover", _sniff_fover, _read_fover, _write_fover)


def _sniff_fover(fields: Fields) -> bool:
    """Whether a record has FoVer's own two fields; its chats alone do not tell."""
    return "solution_steps" in fields and "error_labels" in fields


def conversation(problem: str, steps: Sequence[str], labels: Sequence[bool] | None = None) -> list[Json]:
    """The turns of a solution; without labels those for prediction, in which every step so far is called correct."""
    said = [True] * len(steps) if labels is None else labels
    turns: list[Json] = []
    for k, (step, right) in enumerate(zip(steps, said, strict=True)):
        # Not str.format: a problem in logic is full of braces.
        first = _FIRST_TURN.replace("{step}", step, 1).replace("{problem}", problem, 1)
        turns.append({"role": "user", "content": step if k else first})
        turns.append({"role": "assistant", "content": "correct" if right else "incorrect"})
    return turns


def _read_fover(fields: Fields) -> list[Judged]:
    steps, labels = fields.texts("solution_steps"), fields.items("error_labels")
    if len(labels) != len(steps):
        raise fields.error("error_labels", f"one label for each of the {len(steps)} steps", str(len(labels)))
    for k, label in enumerate(labels):
        if label is not None and not isinstance(label, bool):
            raise fields.error(f"error_labels[{k}]", "true (the step is right), false or null", show(label))
    values = tuple(None if label is None else float(bool(label)) for label in labels)
    failures = failures_of(_NOT_JUDGED if value is None else None for value in values)
    found = Labels(values, failures=failures)
    return [read_row(fields, "fover", fields.text("problem"), steps, found, known=_FOVER)]


def _write_fover(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        problem, steps, labels = plain_prompt("fover", row), plain_steps(row), _fover_labels(row)
        if not steps:
            raise unwritable("fover", row, "trajectory.steps", "at least one step")
        record: dict[str, Json] = {"problem": problem, "solution_steps": list(steps), "error_labels": list(labels)}
        known = [label for label in labels if label is not None]
        if len(known) == len(labels):  # a turn without a label cannot be trained on
            record["messages"] = conversation(problem, steps, known)
        record["messages_for_prediction"] = conversation(problem, steps)
        yield Written(with_meta("fover", row, {**record, **optional_keys(row, "fover")}), [row])


def _fover_labels(row: Judged) -> list[bool | None]:
    values = judged_values("fover", row)
    return [None if value is None else hard_label("fover", row, k, value) for k, value in enumerate(values)]
