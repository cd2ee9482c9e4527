"""RLHFlow's conversations: the user says the problem and step 1, then one step a turn; the assistant says + or -.

{"conversations": [{"role": "user", "content": "problem Step 1: …"}, {"role": "assistant", "content": "+"}, …]}

Where nothing tells the problem from step 1, the first turn as a whole is the first step of a problem without a prompt: the text
that a model reads is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats._boundary import has_boundary, join_problem, needs_problem, split_problem
from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, hard_labels, unwritable
from footfall.formats._rows import Labels, optional_keys, plain_prompt, plain_steps, problem_id, read_row, with_meta
from footfall.formats.errors import show
from footfall.registry import register
from footfall.types import Json, Judged

__all__ = ["rlhflow"]


@register("format", "rlhflow")
def rlhflow() -> Format:
    """RLHFlow conversations: a step a user turn, + or - from the assistant."""
    return Format("rlhflow", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return "conversations" in fields


def _read(fields: Fields) -> list[Judged]:
    turns = fields.records("conversations")
    if len(turns) % 2 or not turns:
        raise fields.error("conversations", "user and assistant turns in pairs", f"{len(turns)} turns")
    texts = [_turn(turn, "user") for turn in turns[::2]]
    values = tuple(_sign(turn) for turn in turns[1::2])
    if "problem" in fields or has_boundary(texts[0]):
        problem, texts[0] = split_problem(fields, "conversations[0].content", texts[0])
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


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        problem, steps, labels = plain_prompt("rlhflow", row), plain_steps(row), hard_labels("rlhflow", row)
        if not steps:
            raise unwritable("rlhflow", row, "trajectory.steps", "at least one step")
        help = {"problem": problem} if needs_problem(problem, steps[0]) else {}
        turns: list[Json] = []
        for k, (step, good) in enumerate(zip(steps, labels, strict=True)):
            turns.append({"role": "user", "content": step if k else join_problem(problem, step)})
            turns.append({"role": "assistant", "content": "+" if good else "-"})
        record: dict[str, Json] = {"conversations": turns, **help, **optional_keys(row, "rlhflow")}
        yield Written(with_meta("rlhflow", row, record), [row])
