"""Math-Shepherd's text: `input` has " ки" after each step, `label` is the same text with + or - in its place.

    {"input": "problem Step 1: … ки\\nStep 2: … ки", "label": "problem Step 1: … +\\nStep 2: … -", "task": "GSM8K"}

The two texts are walked side by side, so a plus sign inside a step is never taken for a label. Steps keep their
"Step k:". Labels are hard: soft values need an explicit threshold to be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats._boundary import join_problem, needs_problem, split_problem
from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, hard_labels, unwritable
from footfall.formats._rows import Labels, optional_keys, plain_prompt, plain_steps, read_row, with_meta
from footfall.formats.errors import show
from footfall.registry import register
from footfall.types import Json, Judged

__all__ = ["MARKER", "math_shepherd"]

MARKER = "ки"
_SEPARATOR = "\n"


@register("format", "math-shepherd")
def math_shepherd() -> Format:
    """Math-Shepherd text: input with a marker after each step, label with + and - instead."""
    return Format("math-shepherd", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return isinstance(fields.data.get("input"), str) and isinstance(fields.data.get("label"), str)


def _read(fields: Fields) -> list[Judged]:
    text = fields.text("input")
    *parts, tail = text.split(MARKER)
    if tail.strip() or not parts:
        raise fields.error("input", f'every step closed by "{MARKER}"', f"the end {show(tail[-30:])}")
    values = _signs(fields, parts)
    problem, first = split_problem(fields, "input", parts[0].rstrip())
    steps = [first.strip(), *(part.strip() for part in parts[1:])]
    known = ("input", "label", "problem")
    return [read_row(fields, "math-shepherd", problem, steps, Labels(values), known=known, separator=_SEPARATOR)]


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


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        problem, steps, labels = plain_prompt("math-shepherd", row), plain_steps(row), hard_labels("math-shepherd", row)
        _refuse_unmarkable(row, problem, steps)
        help = {"problem": problem} if needs_problem(problem, steps[0]) else {}
        texts = [join_problem(problem, steps[0]), *steps[1:]]
        signs = ["+" if good else "-" for good in labels]
        record: dict[str, Json] = {
            "input": "\n".join(f"{text} {MARKER}" for text in texts),
            "label": "\n".join(f"{text} {sign}" for text, sign in zip(texts, signs, strict=True)),
            **help,
            **optional_keys(row, "math-shepherd", _SEPARATOR),
        }
        yield Written(with_meta("math-shepherd", row, record), [row])
