"""Final answers: find the one that a solution states, and compare two as mathematics, never as substrings.

`equal` reads plain numbers exactly and asks a helper process about the rest: that compares other numbers by their digits and
has math-verify compare what has variables, within limits of processor time and memory. It works in any thread, is symmetric
and never raises. It is not an equivalence relation (`50%` equals both `0.5` and `50`).
"""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, wraps
from typing import NamedTuple, ParamSpec, TypeVar

from footfall import _answers_units as units
from footfall.helper import HelperProcess
from footfall.types import Trajectory

# All rules take time in proportion to the text, whatever it is: no two neighbouring parts of a pattern may both take the
# same run of characters.
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|(\w+))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_STATED = r"\s*(?:(?:\\\[|\$\$)[^\S\n]*\n\s*)?(?=[^\n])"
"""Up to the rest of the line, or the next one; what opens display mathematics is no answer."""
_BOLD = r"(?:\*\*|\*)?"
_MARKS = (
    re.compile(rf"\bthe (?:final |correct )?answer is(?: option)?\b(?:\s*:)?{_STATED}", re.IGNORECASE),
    re.compile(rf"^[ \t]*{_BOLD}(?:final )?answer{_BOLD}\s*:{_BOLD}{_STATED}", re.IGNORECASE | re.MULTILINE),
    re.compile(
        rf"^[ \t]*(?:#+[ \t]*{_BOLD}|\*\*)(?:final )?answer{_BOLD}(?:[ \t]*:)?{_BOLD}[^\S\n]*\n{_STATED}",
        re.IGNORECASE | re.MULTILINE,
    ),
)
_LAST_LINE = re.compile(r"[ \t]*####[ \t]*(?=[^\n])")
"""Only where nothing follows: higher up it is a heading."""
_WORD = re.compile(r"\s*\$?\\(?:text(?:bf|rm|it)?|mbox)\s*\{\s*[^\W\d_]{2,}[\s.]*\}[\s.$]*")
"""Said to be no mathematics: `May` as a product of variables would equal `Yam`."""
_SENTENCE_END = re.compile(r"\.(?=\s|$)")
_CHOICE = re.compile(r"\W*([A-Z])(?![A-Za-z])|\W*([a-z])\W*$")
_LONGEST_KEPT = 1000
_Words = ParamSpec("_Words")
_Found = TypeVar("_Found")


def _kept_if_short(most: int) -> Callable[[Callable[_Words, _Found]], Callable[_Words, _Found]]:
    """`lru_cache`, but of texts of `_LONGEST_KEPT` characters at most: what a model writes has no bound, and tens of thousands
    of long texts would stay in memory."""

    def keeping(function: Callable[_Words, _Found]) -> Callable[_Words, _Found]:
        kept: Callable[..., _Found] = lru_cache(most)(function)

        @wraps(function)
        def either(*given: _Words.args, **named: _Words.kwargs) -> _Found:
            length = sum(len(text) for text in given if isinstance(text, str))
            return (kept if length <= _LONGEST_KEPT else function)(*given, **named)

        return either

    return keeping


def extract(text: str, domain: str = "math") -> str | None:
    """The answer that `text` states last: a `\\boxed{}`, "The answer is X.", "Answer: X", "#### X" or "# Answer".

    `None` if it states none; a number that merely stands somewhere is not an answer. In the domain `choice` the answer
    is the option's letter.
    """
    stated = max([*_last_box(text), *_marked(text)], default=None)
    if stated is None:
        return None
    answer = _undress(stated[1])
    if domain == "choice":
        return _letter(answer)
    return answer or None


def _last_box(text: str) -> Iterator[tuple[int, str]]:
    """Where the last box begins and what is in it. One that is never closed or holds nothing is passed over."""
    boxes = list(_BOX.finditer(text))
    closing = _closing_braces(text) if boxes else {}
    for match in reversed(boxes):
        end = closing.get(match.end() - 1)
        content = match[1] if match[1] is not None else text[match.end() : end] if end is not None else ""
        if content.strip():
            yield match.start(), content
            return


def _closing_braces(text: str) -> dict[int, int]:
    """Where the brace that opens at each place is closed."""
    opened: list[int] = []
    closing: dict[int, int] = {}
    for found in _BRACE.finditer(text):
        if found[0] == "{":
            opened.append(found.start())
        elif found[0] == "}" and opened:
            closing[opened.pop()] = found.start()
    return closing


def _marked(text: str) -> Iterator[tuple[int, str]]:
    """Where answers are stated and the sentence that states them; of a line that states several, the last."""
    ends = [*(found.start() for found in re.finditer("\n", text)), len(text)]
    last_of = {
        bisect_left(ends, at): at for at in sorted(found.end() for mark in _MARKS for found in mark.finditer(text))
    }
    last_line = _LAST_LINE.match(text, text.rfind("\n", 0, len(text.rstrip())) + 1)
    if last_line:
        last_of[bisect_left(ends, last_line.end())] = last_line.end()
    for line, at in last_of.items():
        stated = text[at : ends[line]]
        if "\\boxed" not in stated and "\\fbox" not in stated:
            yield at, stated[: _sentence_end(stated)]


def _sentence_end(text: str) -> int:
    """Where the first sentence ends, but not inside braces: `34\\text{ sq. units}`."""
    deep = at = 0
    for end in _SENTENCE_END.finditer(text):
        deep += text.count("{", at, end.start()) - text.count("}", at, end.start())
        at = end.start()
        if deep <= 0:
            return at
    return len(text)


def equal(a: str, b: str, domain: str = "math") -> bool:
    """Whether two answers say the same. `choice` compares letters; domains other than `math` compare numbers and text.

    Decimals of six or more places equal what rounds to them; a unit may be left out; `50%` equals `0.5` and `50`.
    """
    if domain == "choice":
        letter = _letter(_undress(a))
        return letter is not None and letter == _letter(_undress(b))
    first, second = sorted((_undress(a), _undress(b)))
    if _WORD.fullmatch(a) or _WORD.fullmatch(b):
        return _folded(first).casefold() == _folded(second).casefold()
    return _equal(first, second, domain == "math")


@_kept_if_short(1 << 16)
def _equal(a: str, b: str, with_algebra: bool) -> bool:
    if not a or not b:
        return False
    if _folded(a) == _folded(b):
        return True
    x, y = read_number(a), read_number(b)
    if x is not None and y is not None:
        return same_number(x, y)
    based = _in_base(a), _in_base(b)
    if based[0] and based[1]:
        return based[0].value == based[1].value is not None
    tuples = _tuple_parts(a), _tuple_parts(b)
    if tuples[0] and tuples[1]:
        return _equal_tuples(tuples[0], tuples[1], with_algebra)
    (bare_a, unit_a), (bare_b, unit_b) = units.split_unit(a), units.split_unit(b)
    if unit_a or unit_b:
        first, second = sorted((bare_a, bare_b))
        return (unit_a == unit_b or not (unit_a and unit_b)) and _equal(first, second, with_algebra)
    return with_algebra and _is_mathematics(a) and _is_mathematics(b) and same_expression(a, b)


class _Based(NamedTuple):
    """`1010_2`: what is written, and what it is; no value where the base does not have these digits."""

    text: str
    value: int | None


_BASED = re.compile(r"(?=\w*\d)([0-9A-Z]{1,100}) ?_ ?(?:\{(\d{1,2})\}|(\d{1,2}))", re.ASCII)


def _in_base(text: str) -> _Based | None:
    """math-verify leaves the base out of account, so that `1010_2` would equal `1010_3`."""
    match = _BASED.fullmatch(text)
    if match is None:
        return None
    digits, base = match[1], int(match[2] or match[3])
    try:
        value = int(digits, base) if base > 1 else None
    except ValueError:
        value = None
    return _Based(f"{digits}_{base}", value)


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
    depth, commas = 0, [0]
    for at, character in enumerate(text[1:-1], start=1):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if not 0 <= depth <= _DEEPEST:
            return []
        if character == "," and depth == 0:
            commas.append(at)
    parts = [text[a + 1 : b] for a, b in itertools.pairwise([*commas, len(text) - 1])]
    return [text[0], *parts, text[-1]] if depth == 0 and len(parts) > 1 else []


def canonical(answer: str, domain: str = "math") -> str:
    """A string for grouping: answers with the same one are equal, and most equal answers have the same one.

    Not all: a unit, a percent sign or a rounded decimal keeps its own string, and simplification may stop short. So a
    vote puts an answer whose string is new beside each group's first answer with `equal`.
    """
    plain = _undress(answer)
    if domain == "choice":
        return _letter(plain) or plain
    based = _in_base(plain)
    if based:
        return based.text
    parts = _tuple_parts(plain)
    if parts:
        return parts[0] + ", ".join(canonical(part, domain) for part in parts[1:-1]) + parts[-1]
    simple = simplified(plain) if domain == "math" and read_number(plain) is None and _is_mathematics(plain) else None
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
    (re.compile(r"\\(?:text(?:bf|rm|it|sf|normal)?|mathrm|mathbf|mbox)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\\[dt]frac\b"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d|\\pi)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt\s*(?:(\[\w+\])\s*)?(\w)"), r"\\sqrt\1{\2}"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"\s+"), " "),
)
_WRAPPINGS = (
    re.compile(r"\$\$?([^$]*)\$\$?"),
    re.compile(r"\\\((.*)\\\)"),
    re.compile(r"\\\[(.*)\\\]"),
    re.compile(r"\*\*(.*)\*\*"),
)
_DEEPEST = 20
"""Delimiters or brackets in each other; deeper ones are kept as text."""


@_kept_if_short(4096)
def _undress(text: str) -> str:
    """Without what does not change the meaning: math delimiters, bold, spacing commands, a final full stop."""
    for pattern, plain in _DRESS:
        text = pattern.sub(plain, text)
    for _ in range(_DEEPEST):
        text = text.strip().rstrip(".;:,").strip()
        inner = next((match[1] for match in (w.fullmatch(text) for w in _WRAPPINGS) if match), None)
        if inner is None:
            return text.replace("$", "") if text.count("$") == 2 else text
        text = inner
    return text


def _letter(answer: str) -> str | None:
    match = _CHOICE.match(answer)
    return (match[1] or match[2]).upper() if match else None


def _folded(text: str) -> str:
    """Without the spaces that mean nothing; words also without case, but `x` is not `X`."""
    tight = re.sub(r"(?<!\w)\s+|\s+(?!\w)", "", text)
    return tight if _is_mathematics(text) else tight.casefold()


def _is_mathematics(text: str) -> bool:
    """Not prose (math-verify reads a word as a product of variables) and not digits side by side (it adds them)."""
    bare = re.sub(r"\\(?:begin|end)\{\w+\}|\\[A-Za-z]+|sqrt|frac|sinh|cosh|tanh", ";", text)
    return re.search(r"[^\W\d_]{4,}|(?<![\d_])\d+\s+\d", bare) is None


# Plain numbers, read exactly: integers, decimals, fractions, mixed numbers, percent, thousands separators, units. Most
# answers are of this kind, and for them no computer algebra is needed: `57,500`, `\$0.50`, `1/2`, `\frac{1}{2}`, `1 1/2`,
# `50\%`, `5 apples`.
_LONGEST_NUMBER = 120
"""Characters; nothing longer is read as a plain number."""
_TOLERATED_PLACES = 6
"""A decimal of at least this many places stands for every number that rounds to it, as in math-verify."""

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_TIMES_TEN = r"\s*(?:\\times|\\cdot|×|\*)\s*10\s*\^\s*"
_NUMBER = re.compile(
    rf"""(?P<sign>[+-]?)\s*\$?\s*(?:
        (?:(?P<whole>\d+)\s+|(?P<tight>\d+)(?=\\frac))?
        (?:(?P<over>{_UNSIGNED})\s*/\s*(?P<under>{_UNSIGNED})|\\frac\s*{{(?P<top>[+-]?\d+)}}\s*{{(?P<bottom>\d+)}})
        |(?P<plain>{_UNSIGNED})(?:[eE](?P<exponent>[+-]?\d{{1,2}})
            |{_TIMES_TEN}(?:\{{(?P<power>[+-]?\d{{1,2}})\}}|(?P<bare>[+-]?\d{{1,2}})))?
    )\s*(?P<percent>%|percent\b)?\s*{units.PATTERN}?\s*""",
    re.VERBOSE,
)


class Number(NamedTuple):
    """An exact value as it was written: `50%` has the value 1/2, `1.50 m` has two places and the unit `m`."""

    value: Fraction
    percent: bool
    unit: str
    places: int

    def __str__(self) -> str:
        shown = f"{self.value * 100}%" if self.percent else str(self.value)
        return f"{shown} {self.unit}".rstrip()


def read_number(text: str) -> Number | None:
    """The number that `text` is, all of it, or `None`. `text` is stripped of LaTeX dress already."""
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= _LONGEST_NUMBER else None
    if match is None:
        return None
    written = match["unit"] or ""
    apart = written[:1].isspace() or match.string[: match.start("unit")][-1:].isspace()
    unit = units.read_unit(written, apart)
    value = _value(match)
    if value is None or unit is None:  # `5 million` is not 5
        return None
    places = len((match["plain"] or "").partition(".")[2]) - _exponent(match)
    percent = match["percent"] is not None
    return Number(value / 100 if percent else value, percent, unit, places)


def _value(match: re.Match[str]) -> Fraction | None:
    if match["plain"] is not None:
        value = Fraction(match["plain"].replace(",", "")) * Fraction(10) ** _exponent(match)
    else:
        over, under = (Fraction((a or b).replace(",", "")) for a, b in
                       ((match["over"], match["top"]), (match["under"], match["bottom"])))  # fmt: skip
        whole = match["whole"] or match["tight"]
        if under == 0 or (whole is not None and over < 0):
            return None
        value = over / under + (Fraction(whole) if whole else 0)
    return -value if match["sign"] == "-" else value


def _exponent(match: re.Match[str]) -> int:
    return int(match["exponent"] or match["power"] or match["bare"] or 0)


def same_number(a: Number, b: Number) -> bool:
    """Equal values with units that do not contradict. `50%` equals both `0.5` and a bare `50`, as in math-verify."""
    if a.unit and b.unit and a.unit != b.unit:
        return False
    if a.percent != b.percent:
        percent, bare = (a, b) if a.percent else (b, a)
        return bare.value in (percent.value, percent.value * 100)
    places = max(a.places, b.places)
    slack = Fraction(1, 2 * 10**places) if places >= _TOLERATED_PLACES and not _terminates(a, b) else Fraction(0)
    return abs(a.value - b.value) <= slack


def _terminates(*numbers: Number) -> bool:
    """Whether all have a finite decimal expansion; only then must two decimals agree to the last digit."""
    return all(10 ** number.value.denominator.bit_length() % number.value.denominator == 0 for number in numbers)


# Computer algebra in a helper process. math-verify limits its time by `signal.alarm`, which works in the main thread only and
# cannot stop a big-integer power; here what uses up its time is "not equal".
_LONGEST_ALGEBRA = 400
"""Characters; a longer text is not sent: no final answer is that long, and parsing time grows fast."""


def simplified(text: str) -> str | None:
    """`text` parsed, simplified and printed back; `None` if that fails or does not end in time."""
    return _simplified(text) if _reads(text) else None


def same_expression(a: str, b: str) -> bool:
    """Whether math-verify takes the two for equal, in either direction."""
    first, second = sorted((a, b))
    return _reads(first) and _reads(second) and _same_expression(first, second)


@_kept_if_short(1 << 16)
def _reads(text: str) -> bool:
    # Asked before all else: a hostile text costs its time limit once, not once for each partner.
    return len(text) <= _LONGEST_ALGEBRA and _ask("reads", text) is True


@lru_cache(maxsize=1 << 16)
def _simplified(text: str) -> str | None:
    reply = _ask("form", text)
    return reply if isinstance(reply, str) else None


@lru_cache(maxsize=1 << 16)
def _same_expression(a: str, b: str) -> bool:
    return _ask("same", a, b) is True


def _ask(*request: str) -> str | bool | None:
    reply = _worker.ask(json.dumps(request))
    answer: str | bool | None = json.loads(reply) if reply else None
    return answer


_worker = HelperProcess("footfall._answers_worker", 3.0, "answers cannot be compared; run it to see why")
