"""What a formal tool says of a step, and what is the same in all domains: the answer is compared with the reference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from footfall.answers import equal
from footfall.types import Problem

__all__ = ["ANSWER", "Verdict", "answer_verdict", "worst"]

ANSWER = re.compile(r"(?:\banswers? (?:is|are)\b\s*:?|^\s*####)\s*(.+?)[.!\s]*$", re.IGNORECASE | re.DOTALL)


class Verdict(NamedTuple):
    """Whether a step holds, `None` if nobody can say, and why."""

    holds: bool | None
    reason: str


def worst(verdicts: Sequence[Verdict], nothing: str = "the step says nothing that can be formalised") -> Verdict:
    """A step is wrong if one thing it says is; what could not be read leaves a step without error open."""
    for holds in (False, None, True):
        for verdict in verdicts:
            if verdict.holds is holds:
                return verdict
    return Verdict(None, nothing)


def answer_verdict(problem: Problem, answer: str) -> Verdict:
    """Whether the stated answer is the reference (FoVer: the last step is labelled by X == gold)."""
    if problem.answer is None:
        return Verdict(None, "the problem has no reference answer")
    plain = (re.sub(r"\s+", "", text).lower() for text in (answer, problem.answer))
    right = len(set(plain)) == 1 or equal(answer, problem.answer, problem.domain)
    return Verdict(right, f"the answer is {problem.answer}" if right else f"{answer!r} is not {problem.answer!r}")
