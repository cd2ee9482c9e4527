"""Formats that write the problem and step 1 into one text: Math-Shepherd's marked text and RLHFlow's conversations.

Published records have "Step 1:" between the two; others have a blank line. Where neither tells, the record carries the
problem's text under the key `problem` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats.records import Fields, show
from footfall.formats.rows import (
    Format,
    Labels,
    Written,
    hard_labels,
    optional_keys,
    plain_prompt,
    plain_steps,
    problem_id,
    read_row,
    unwritable,
    with_meta,
)
from footfall.registry import register
from footfall.types import Json, Judged

_STEP_1 = "Step 1:"


def _split_problem(fields: Fields, field: str, text: str) -> tuple[str, str]:
    """The problem and step 1 out of their joined text, which stood in `field`."""
    if "problem" in fields:
        problem = fields.text("problem")
        rest = text.removeprefix(problem)
        joint = next((j for j in (" ", "\n\n") if rest.startswith(j)), None)
        if joint is None or not text.startswith(problem):
            raise fields.error(field, 'the text of "problem", a space or a blank line, then step 1')
        return problem, rest[len(joint) :]
    found = _split(text)
    if found is None:
        expected = f'"{_STEP_1}" exactly once, or one blank line, between the problem and its first step'
        got = f"{text.count(_STEP_1)} and {text.count(chr(10) * 2)} of these"
        raise fields.error(field, expected, got, 'add the text of the problem as the field "problem"')
    return found


def _has_boundary(text: str) -> bool:
    """Whether something marks the border, be it more often than it should."""
    return _STEP_1 in text or _split(text) is not None


def _join_problem(problem: str, step: str) -> str:
    """One text, in the way that the field joins the two."""
    return f"{problem} {step}" if step.startswith(_STEP_1) else f"{problem}\n\n{step}"


def _needs_problem(problem: str, step: str) -> bool:
    """Whether the joined text cannot be taken apart again without help."""
    return _split(_join_problem(problem, step)) != (problem, step)


def _split(text: str) -> tuple[str, str] | None:
    if text.count(_STEP_1) == 1:
        problem, _, step = text.partition(_STEP_1)
        return problem.rstrip(), _STEP_1 + step
    if _STEP_1 not in text and text.count("\n\n") == 1:
        problem, _, step = text.partition("\n\n")
        return problem, step
    return None


MARKER = "ки"
_SHEPHERD_SEPARATOR = "\n"


@register("format", "math-shepherd")
def math_shepherd() -> Format:
    """Math-Shepherd text: input with a marker after each step, label with + and - instead.

        {"input": "problem Step 1: … ки\\nStep 2: … ки", "label": "problem Step 1: … +\\nStep 2: … -", "task": "GSM8K"}

    The two texts are walked side by side, so a plus sign inside a step is never taken for a label. Steps keep their
    "Step k:". Labels are hard: soft values need an explicit threshold to be written.
    """
    return Format("math-shepherd", _sniff_math_shepherd, _read_math_shepherd, _write_math_shepherd)


def _sniff_math_shepherd(fields: Fields) -> bool:
    return isinstance(fields.data.get("input"), str) and isinstance(fields.data.get("label"), str)


def _read_math_shepherd(fields: Fields) -> list[Judged]:
    text = fields.text("input")
    *parts, tail = text.split(MARKER)
    if tail.strip() or not parts:
        raise fields.error("input", f'every step closed by "{MARKER}"', f"the end {show(tail[-30:])}")
    values = _signs(fields, parts)
    problem, first = _split_problem(fields, "input", parts[0].rstrip())
    steps = [first.strip(), *(part.strip() for part in parts[1:])]
    known = ("input", "label", "problem")
    return [
        read_row(fields, "math-shepherd", problem, steps, Labels(values), known=known, separator=_SHEPHERD_SEPARATOR)
    ]


def _signs(fields: Fields, parts: list[str]) -> tuple[float, ...]:
    """The sign that stands in `label` where `input` has its markers."""
    label, at, found = fields.text("label"), 0, []
    for k, part in enumerate(parts):
        at += len(part)
        sign = label[at : at + 1]
        if label[at - len(part) : at] != part or sign not in ("+", "-"):
            got = show(label[max(0, at - 20) : at + 5])
            raise fields.error("label", f'the text of "input" with + or - after step {k + 1}', got)
        found.append(float(sign == "+"))
        at += 1
    if label[at:].strip():
        raise fields.error("label", f"as many steps as input: {len(parts)}", f"more text: {show(label[at:])}")
    return tuple(found)


def _refuse_unmarkable(row: Judged, problem: str, steps: list[str]) -> None:
    """The marker must mean the end of a step and nothing else, and the space around a step belongs to the format."""
    if not steps:
        raise unwritable("math-shepherd", row, "trajectory.steps", "at least one step")
    if MARKER in problem:
        raise unwritable("math-shepherd", row, "trajectory.problem.prompt", f'text without the marker "{MARKER}"')
    for k, step in enumerate(steps):
        if MARKER in step or step != step.strip() or not step:
            expected = f'text without the marker "{MARKER}" and without space at its ends'
            raise unwritable("math-shepherd", row, f"trajectory.steps[{k}].text", expected)


def _write_math_shepherd(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        problem, steps, labels = plain_prompt("math-shepherd", row), plain_steps(row), hard_labels("math-shepherd", row)
        _refuse_unmarkable(row, problem, steps)
        help = {"problem": problem} if _needs_problem(problem, steps[0]) else {}
        texts = [_join_problem(problem, steps[0]), *steps[1:]]
        signs = ["+" if good else "-" for good in labels]
        record: dict[str, Json] = {
            "input": "\n".join(f"{text} {MARKER}" for text in texts),
            "label": "\n".join(f"{text} {sign}" for text, sign in zip(texts, signs, strict=True)),
            **help,
            **optional_keys(row, "math-shepherd", _SHEPHERD_SEPARATOR),
        }
        yield Written(with_meta("math-shepherd", row, record), [row])


@register("format", "rlhflow")
def rlhflow() -> Format:
    """RLHFlow conversations: a step a user turn, + or - from the assistant.

    {"conversations": [{"role": "user", "content": "problem Step 1: …"}, {"role": "assistant", "content": "+"}, …]}

    Where nothing tells the problem from step 1, the first turn as a whole is the first step of a problem without a prompt:
    the text that a model reads is the same.
    """
    return Format("rlhflow", _sniff_rlhflow, _read_rlhflow, _write_rlhflow)


def _sniff_rlhflow(fields: Fields) -> bool:
    return "conversations" in fields


def _read_rlhflow(fields: Fields) -> list[Judged]:
    turns = fields.records("conversations")
    if len(turns) % 2 or not turns:
        raise fields.error("conversations", "user and assistant turns in pairs", f"{len(turns)} turns")
    texts = [_turn(turn, "user") for turn in turns[::2]]
    values = tuple(_sign(turn) for turn in turns[1::2])
    if "problem" in fields or _has_boundary(texts[0]):
        problem, texts[0] = _split_problem(fields, "conversations[0].content", texts[0])
    else:  # its id is made from the whole turn, for an empty prompt would be the same problem in all records
        problem = ""
        fields = fields.holding({"problem_id": problem_id(texts[0]), **fields.data})
    return [read_row(fields, "rlhflow", problem, texts, Labels(values), known=("conversations", "problem"))]


def _turn(turn: Fields, role: str) -> str:
    if turn.text("role") != role:
        raise turn.wrong("role", f'"{role}": user and assistant take turns')
    return turn.text("content")


def _sign(turn: Fields) -> float:
    sign = _turn(turn, "assistant").strip()
    if sign not in ("+", "-"):
        raise turn.error("content", '"+" or "-"', show(sign))
    return float(sign == "+")


def _write_rlhflow(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        problem, steps, labels = plain_prompt("rlhflow", row), plain_steps(row), hard_labels("rlhflow", row)
        if not steps:
            raise unwritable("rlhflow", row, "trajectory.steps", "at least one step")
        help = {"problem": problem} if _needs_problem(problem, steps[0]) else {}
        turns: list[Json] = []
        for k, (step, good) in enumerate(zip(steps, labels, strict=True)):
            turns.append({"role": "user", "content": step if k else _join_problem(problem, step)})
            turns.append({"role": "assistant", "content": "+" if good else "-"})
        record: dict[str, Json] = {"conversations": turns, **help, **optional_keys(row, "rlhflow")}
        yield Written(with_meta("rlhflow", row, record), [row])
