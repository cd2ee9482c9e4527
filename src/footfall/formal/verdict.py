"""What a formal tool says of a step, and what is the same in all domains: the answer is compared with the reference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from footfall.answers import equal
from footfall.types import Problem

ANSWER = re.compile(r"(?:\banswers? (?:is|are)\b\s*:?|^\s*####)\s*([^\s:].*?)[.!\s]*$", re.IGNORECASE | re.DOTALL)

_SENTENCE = re.compile(r"[.;!?]\s|\n")
_COUNTED = re.compile(r"\d\s*([A-Za-z]{2,})")


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
    """Whether the stated answer is the reference (FoVer: the last step is labelled by X == gold).

    An answer that holds the reference among other words ("5 because 2 + 3 = 5"), or counts in another unit, is left open.
    """
    if problem.answer is None:
        return Verdict(None, "the problem has no reference answer")
    reference = problem.answer.strip()
    if any(_same(problem, text) for text in (answer, _SENTENCE.split(answer)[0])):
        return Verdict(True, f"the answer is {problem.answer}")
    if reference and re.search(rf"(?<![\w.-]){re.escape(reference)}(?!\w|\.\d)", answer, re.IGNORECASE):
        return Verdict(None, f"{answer!r} holds {problem.answer!r}, and more")
    units = [match and match[1].lower().rstrip("s") for match in map(_COUNTED.search, (answer, reference))]
    if all(units) and units[0] != units[1]:
        return Verdict(None, f"{answer!r} and {problem.answer!r} count in different units")
    return Verdict(False, f"{answer!r} is not {problem.answer!r}")


def _same(problem: Problem, answer: str) -> bool:
    plain = {re.sub(r"\s+", "", text).lower() for text in (answer, problem.answer or "")}
    return len(plain) == 1 or equal(answer, problem.answer or "", problem.domain)
