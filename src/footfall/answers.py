"""Final answers: find the one that a solution states, and compare two as mathematics, never as substrings.

`equal` reads plain numbers exactly and asks math-verify about the rest, in a helper process with a time limit; it works
in any thread, is symmetric and never raises. It is not an equivalence relation (`50%` equals both `0.5` and `50`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from footfall import _answers_algebra as algebra
from footfall._answers_number import read_number, same_number
from footfall.types import Trajectory

__all__ = ["canonical", "equal", "extract", "grade"]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|(\w+))")
_MARKS = (
    re.compile(r"\bthe (?:final |correct )?answer is(?: option)?\b\s*:?\s*([^\n]+)", re.IGNORECASE),
    re.compile(r"^[ \t]*(?:\*\*)?(?:final )?answer\s*:(?:\*\*)?\s*([^\n]+)", re.IGNORECASE | re.MULTILINE),
    re.compile(r"^[ \t]*#+[ \t]*(?:final )?answer[ \t]*:?\s*\n\s*([^\n]+)", re.IGNORECASE | re.MULTILINE),
    re.compile(r"^[ \t]*####[ \t]*([^\n]+)\s*\Z", re.MULTILINE),  # higher up it is a heading
)
_SENTENCE_END = re.compile(r"\.(?=\s|$)")
_CHOICE = re.compile(r"\W*([A-Z])(?![A-Za-z])|\W*([a-z])\W*$")


def extract(text: str, domain: str = "math") -> str | None:
    """The answer that `text` states last: a `\\boxed{}`, "The answer is X.", "Answer: X", "#### X" or "# Answer".

    `None` if it states none; a number that merely stands somewhere is not an answer. In the domain `choice` the answer
    is the option's letter.
    """
    stated = max([*_boxes(text), *_marked(text)], default=None)
    if stated is None:
        return None
    answer = _undress(stated[1])
    if domain == "choice":
        return _letter(answer)
    return answer or None


def _boxes(text: str) -> Iterator[tuple[int, str]]:
    """Where each box begins and what is in it. A box that is never closed is skipped."""
    for match in _BOX.finditer(text):
        if match[1] is not None:
            yield match.start(), match[1]
            continue
        end = _closing_brace(text, match.end())
        if end is not None and text[match.end() : end].strip():
            yield match.start(), text[match.end() : end]


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    for found in re.finditer(r"\\.|[{}]", text[start:], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return start + found.start()
    return None


def _marked(text: str) -> Iterator[tuple[int, str]]:
    for mark in _MARKS:
        for match in mark.finditer(text):
            if "\\boxed" not in match[1] and "\\fbox" not in match[1]:
                end = _SENTENCE_END.search(match[1])
                yield match.start(1), match[1][: end.start()] if end else match[1]


def equal(a: str, b: str, domain: str = "math") -> bool:
    """Whether two answers say the same. `choice` compares letters; domains other than `math` compare numbers and text.

    Decimals of six or more places equal what rounds to them; a unit may be left out; `50%` equals `0.5` and `50`.
    """
    if domain == "choice":
        letter = _letter(_undress(a))
        return letter is not None and letter == _letter(_undress(b))
    first, second = sorted((_undress(a), _undress(b)))
    return _equal(first, second, domain == "math")


@lru_cache(maxsize=1 << 16)
def _equal(a: str, b: str, with_algebra: bool) -> bool:
    if not a or not b:
        return False
    if _folded(a) == _folded(b):
        return True
    x, y = read_number(a), read_number(b)
    if x is not None and y is not None:
        return same_number(x, y)
    tuples = _tuple_parts(a), _tuple_parts(b)
    if tuples[0] and tuples[1]:
        return _equal_tuples(tuples[0], tuples[1], with_algebra)
    return with_algebra and _is_mathematics(a) and _is_mathematics(b) and algebra.same(a, b)


def _equal_tuples(a: list[str], b: list[str], with_algebra: bool) -> bool:
    """Points and intervals, entry by entry: `(1, 1/2)` equals `(1, 0.5)`, and `(1, 2)` is not `[1, 2)`."""
    if len(a) != len(b) or a[0] != b[0] or a[-1] != b[-1]:
        return False
    pairs = (sorted((_undress(x), _undress(y))) for x, y in zip(a[1:-1], b[1:-1], strict=True))
    return all(_equal(x, y, with_algebra) for x, y in pairs)


def _tuple_parts(text: str) -> list[str]:
    """`(a, b]` as `["(", "a", "b", "]"]`; empty if the text is not one bracketed list."""
    if len(text) < 2 or text[0] not in "([" or text[-1] not in ")]":
        return []
    parts, depth = [""], 0
    for character in text[1:-1]:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if depth < 0:
            return []
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [text[0], *parts, text[-1]] if depth == 0 and len(parts) > 1 else []


def canonical(answer: str, domain: str = "math") -> str:
    """A string for grouping: answers with the same one are equal, and most equal answers have the same one.

    Not all: a unit, a percent sign or a rounded decimal keeps its own string, and simplification may stop short. So a
    vote puts an answer whose string is new beside each group's first answer with `equal`.
    """
    plain = _undress(answer)
    if domain == "choice":
        return _letter(plain) or plain
    parts = _tuple_parts(plain)
    if parts:
        return parts[0] + ", ".join(canonical(part, domain) for part in parts[1:-1]) + parts[-1]
    simple = algebra.form(plain) if domain == "math" and read_number(plain) is None and _is_mathematics(plain) else None
    number = read_number(simple or plain)
    return str(number) if number else simple or _folded(plain)


def grade(trajectory: Trajectory) -> Trajectory:
    """The trajectory with the answer that its steps state and whether that is right; `None` without a reference.

    What the environment or a person wrote states no answer: a tool's result "the answer is 4" is not the solver's word.
    """
    problem = trajectory.problem
    answer = extract(trajectory.solution, problem.domain) or trajectory.answer
    right = problem.answer
    correct = None if right is None else answer is not None and equal(answer, right, problem.domain)
    return replace(trajectory, answer=answer, correct=correct)


_DRESS = (
    (re.compile(r"\\!\s*|\\,|\\(?:left|right|displaystyle)(?![A-Za-z])"), ""),
    (re.compile(r"(?<!\\)\\(?:[;: ]|q?quad(?![A-Za-z]))|~"), " "),
    (re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\\[dt]frac\b"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt\s*(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"\s+"), " "),
)
_WRAPPINGS = (
    re.compile(r"\$\$?([^$]*)\$\$?"),
    re.compile(r"\\\((.*)\\\)"),
    re.compile(r"\\\[(.*)\\\]"),
    re.compile(r"\*\*(.*)\*\*"),
)


@lru_cache(maxsize=4096)
def _undress(text: str) -> str:
    """Without what does not change the meaning: math delimiters, bold, spacing commands, a final full stop."""
    for pattern, plain in _DRESS:
        text = pattern.sub(plain, text)
    while True:
        text = text.strip().rstrip(".;:,").strip()
        inner = next((match[1] for match in (w.fullmatch(text) for w in _WRAPPINGS) if match), None)
        if inner is None:
            return text.replace("$", "") if text.count("$") == 2 else text
        text = inner


def _letter(answer: str) -> str | None:
    match = _CHOICE.match(answer)
    return (match[1] or match[2]).upper() if match else None


def _folded(text: str) -> str:
    """Without the spaces that mean nothing; words also without case, but `x` is not `X`."""
    tight = re.sub(r"(?<!\w)\s+|\s+(?!\w)", "", text)
    return tight if _is_mathematics(text) else tight.casefold()


def _is_mathematics(text: str) -> bool:
    """Not prose (math-verify reads a word as a product of variables) and not digits side by side (it adds them)."""
    bare = re.sub(r"\\(?:begin|end)\{\w+\}|\\[A-Za-z]+|sqrt|frac|sinh|cosh|tanh", " ", text)
    return re.search(r"[^\W\d_]{4,}|\d\s+\d", bare) is None
