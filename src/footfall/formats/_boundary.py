"""Where the problem ends and step 1 begins, in formats that write both into one text.

Published records have "Step 1:" there; others have a blank line. Where neither tells, the record carries the problem's
text under the key `problem` as well.
"""

from __future__ import annotations

from footfall.formats._fields import Fields

_STEP_1 = "Step 1:"


def split_problem(fields: Fields, field: str, text: str) -> tuple[str, str]:
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


def has_boundary(text: str) -> bool:
    """Whether something marks the border, be it more often than it should."""
    return _STEP_1 in text or _split(text) is not None


def join_problem(problem: str, step: str) -> str:
    """One text, in the way that the field joins the two."""
    return f"{problem} {step}" if step.startswith(_STEP_1) else f"{problem}\n\n{step}"


def needs_problem(problem: str, step: str) -> bool:
    """Whether the joined text cannot be taken apart again without help."""
    return _split(join_problem(problem, step)) != (problem, step)


def _split(text: str) -> tuple[str, str] | None:
    if text.count(_STEP_1) == 1:
        problem, _, step = text.partition(_STEP_1)
        return problem.rstrip(), _STEP_1 + step
    if _STEP_1 not in text and text.count("\n\n") == 1:
        problem, _, step = text.partition("\n\n")
        return problem, step
    return None
