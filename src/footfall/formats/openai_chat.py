"""OpenAI chat JSONL: `{"messages": [{"role", "content"}, …]}`. The last assistant message is the solution.

What comes before it is the problem's chat prompt. The solution is cut into steps at blank lines; image parts become the
problem's images. Turns with tool calls are refused: their actions belong into the steps of the format `jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats import fover
from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, unwritable
from footfall.formats._rows import BLANK_LINE, optional_keys, prompt_json, read_row, split_solution, with_meta
from footfall.formats.errors import show
from footfall.registry import register
from footfall.types import Json, Judged, Message

__all__ = ["openai_chat"]


@register("format", "openai-chat")
def openai_chat() -> Format:
    """OpenAI chat messages: the last assistant message, cut at blank lines, is the trace."""
    return Format("openai-chat", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return "messages" in fields and not fover.sniff(fields)


def _read(fields: Fields) -> list[Judged]:
    images: list[str] = []
    turns = [Message(turn.text("role"), _content(turn, images)) for turn in fields.records("messages")]
    solution = turns.pop().content if turns and turns[-1].role == "assistant" else ""
    if not turns:
        raise fields.error("messages", "at least one message in front of the solution", "none")
    steps = split_solution(solution)
    return [read_row(fields, "openai-chat", tuple(turns), steps, None, known=("messages",), images=tuple(images))]


def _content(turn: Fields, images: list[str]) -> str:
    if turn.data.get("tool_calls"):
        fix = 'write the format "jsonl", whose steps have an action and an observation'
        raise turn.error("tool_calls", "turns of text alone", show(turn.data["tool_calls"]), fix)
    if isinstance(turn.get("content", "a string or a list of parts"), str):
        return turn.text("content")
    texts = []
    for part in turn.records("content"):
        if part.text("type") == "image_url":
            images.append(part.record("image_url").text("url"))
        else:
            texts.append(part.text("text"))
    return "\n".join(texts)


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        if row.judgement is not None:
            raise unwritable("openai-chat", row, "judgement", "no judgement: a chat has no place for values")
        prompt = row.trajectory.problem.prompt
        turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt_json(prompt)
        assert isinstance(turns, list)
        messages: list[Json] = [*turns, *_solution(row)]
        record: dict[str, Json] = {"messages": messages, **optional_keys(row, "openai-chat")}
        yield Written(with_meta("openai-chat", row, record), [row])


def _solution(row: Judged) -> list[Json]:
    steps = row.trajectory.steps
    return [{"role": "assistant", "content": BLANK_LINE.join(step.text for step in steps)}] if steps else []
