"""Verdict lists of prompted judges become one label a step (AURORA's ensemble): majority, ties, and the cut at an error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

__all__ = ["Tie", "cut_after_error", "read_verdict", "read_verdicts", "vote"]

Tie = Literal["wrong", "unlabelled"]

_LIST = re.compile(r"\[[\s01,]*\]")
_BOX = re.compile(r"\\boxed\{\s*(?:\\text\{)?\s*(\w+)[.!]?\s*\}?\s*\}")
_GOOD = {"yes": True, "correct": True, "right": True, "no": False, "incorrect": False, "wrong": False}


def read_verdicts(text: str, steps: int) -> tuple[int, ...] | str:
    """The last list of 0 and 1 in a reply; a reason if there is none, or not one verdict a step. Nothing is padded."""
    found = _LIST.findall(text)
    if not found:
        return "unparsable: no list of 0 and 1 in the reply"
    try:
        verdicts = tuple(json.loads(found[-1]))
    except json.JSONDecodeError:
        return f"unparsable: {found[-1][:40]!r} is no list"
    if any(verdict not in (0, 1) for verdict in verdicts):
        return f"unparsable: {found[-1][:40]!r} holds more than 0 and 1"
    if len(verdicts) != steps:
        return f"unparsable: {len(verdicts)} verdicts for {steps} steps"
    return verdicts


def read_verdict(text: str) -> int | str:
    """Yes or no in the last box; a reply that is that one word needs no box. Anything else is a reason."""
    boxes = _BOX.findall(text)
    word = (boxes[-1] if boxes else text.strip().strip(".!*").strip()).lower()
    if word in _GOOD:
        return int(_GOOD[word])
    return "unparsable: no \\boxed{Yes} or \\boxed{No} in the reply"


def vote(verdicts: Sequence[Sequence[int]], tie: Tie = "wrong") -> list[int | None]:
    """The majority at each step. A tie is wrong, or leaves the step without a label."""
    labels: list[int | None] = []
    for said in zip(*verdicts, strict=True):
        good = sum(said)
        bad = len(said) - good
        labels.append(int(good > bad) if good != bad else 0 if tie == "wrong" else None)
    return labels


def cut_after_error(labels: Sequence[int | None]) -> list[int | None]:
    """What is built on a wrong step is wrong too: all labels after the first 0 become 0."""
    if 0 not in labels:
        return list(labels)
    error = list(labels).index(0)
    return [*labels[:error], *[0] * (len(labels) - error)]
