"""Is a training problem an evaluation problem? Exact matches after normalisation, and n-gram overlap.

An n-gram match alone is not enough: problems made from one template share their words and differ in their numbers,
so by default a match also needs all of the evaluation problem's numbers in the training problem.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from footfall.types import Judged, Problem

_SUPERSCRIPT = re.compile(r"[\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+")
_VULGAR_FRACTION = re.compile(r"(?=[\u00bc-\u00be\u2150-\u215f])")
_COMMANDS_OF_N = (
    "abla|atural|e|earrow|eg|eq|ewcommand|ewline|exists|geq|geqslant|gtr|i|leftarrow|leq|leqslant|less|mid|obreak|oindent"
    "|olimits|onumber|ormalsize|orm|ot|otag|otin|parallel|prec|preceq|rightarrow|Leftarrow|Rightarrow|shortmid|sim|subset"
    "|subseteq|succ|succeq|supset|supseteq|u|ull|vdash|Vdash|warrow|cong|triangleleft|triangleright"
)
_WRITTEN_NEWLINE = re.compile(rf"(\\\\)|\\(?:n(?!(?:{_COMMANDS_OF_N})(?![^\W\d_]))|N)")
r"""A line's end that someone's JSON or CSV left as `\n`, where it does not begin a command such as `\nu`."""
_ALIGNED = r"(?:align|alignat|aligned|equation|eqnarray|flalign|gather|gathered|multline|split)\*?"
_LATEX_NOISE = re.compile(
    r"\\(?:left|right|quad|qquad|displaystyle|text(?:bf|it|rm)?|math(?:rm|bf|it|sf|bb|cal|frak|scr)|mbox|operatorname\*?"
    r"|boldsymbol|bm|cal|bf|rm|it|limits|big+[lrm]?|[lcv]?dots[bcimo]?)(?![a-z])"
    r"|\\[,;:!> ()\[\]]|\\\\|[$~]|\{\}|\\(?:begin|end)\s*\{" + _ALIGNED + r"\}"
)
_LATEX_SIZE = re.compile(r"\\[dtc](?=frac|binom)")
_SHORT_FRACTION = re.compile(r"\\frac\s*(\d)\s*(\d)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_THOUSANDS_APART = re.compile(r"\{,\}|,\\!")
_BARE_DECIMAL = re.compile(r"(?<![\w.])\.(?=\d)")
_SAME_SYMBOL = {
    "\\leq": "\\le", "\\leqslant": "\\le", "≤": "\\le", "\\geq": "\\ge", "\\geqslant": "\\ge", "≥": "\\ge", "\\neq": "\\ne",
    "≠": "\\ne", "\\lt": "<", "\\gt": ">", "\\rightarrow": "\\to", "→": "\\to", "\\lvert": "|", "\\rvert": "|",
    "\\vert": "|", "\\mid": "|", "π": "\\pi", "×": "\\times", "·": "\\cdot", "⋅": "\\cdot", "÷": "\\div", "√": "\\sqrt",
    "∞": "\\infty",
}  # fmt: skip
_TOKEN = re.compile(r"\\[a-z]+|\\[{}]|\d+(?:\.\d+)?|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+|[^\s]")
_PUNCTUATION = frozenset(".,;:?!'\"`‘’“”«»…-–—_\\")
_NUMBER = re.compile(r"\d")
_MINUS = re.compile(r"-[\s{]*[\d(\\]")
_SYMBOL = r"(?:[^\W\d_](?![^\W\d_])|[^\W\d_]{1,2}(?:[\^_(\d]|\s*[-+=*/)])|[|{\[])"
_BARE_MINUS = re.compile(
    r"((?:[\d)\]}|=(<>+*/^{]|(?<![^\W\d_])[^\W\d_]{1,2})\s*)-(?=\s*" + _SYMBOL + r")|(?<=\s)-(?=" + _SYMBOL + ")"
)
_BARE_NAME = re.compile(r"(?<=\\overline\{)[^\W\d_]{2,}(?=\})")
_DELIMITER = re.compile(r"(\\[\\$()\[\]]|\$+|\\(?:begin|end)\{" + _ALIGNED + r"\})")
_CLOSING = {"$": "$", "\\(": "\\)", "\\[": "\\]", "\\b": "\\e"}
_PROSE = re.compile(r"(?<![^\W_\\])(?<!\\)[^\W\d_]{2,}\s+[^\W\d_]{2,}|\n\s*\n")
_SYMBOLS = re.compile(
    r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it|sf)|mbox|operatorname\*?|begin|end)\s*\{[^{}]*\}|\\[a-z]+|[^\W\d_]{2,}|[-']"
)
_WORDS_IN_MATHS = re.compile(r"\\(?:text(?:bf|it|rm)?|mbox)\s*\{[^{}]*\}")
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")
_RELATIONS = frozenset(("=", "<", ">", "\\le", "\\ge", "\\ne", "\\equiv", "\\approx"))
_TERMS = frozenset(("+", "-", "\u2212", "=", "<", ">", "\\pm", "\\mp"))
_FUNCTIONS = frozenset(
    ("\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc", "\\arcsin", "\\arccos", "\\arctan", "\\sinh", "\\cosh", "\\tanh",
     "\\log", "\\ln", "\\lg", "\\exp", "\\lim", "\\sum", "\\prod", "\\int")
)  # fmt: skip


class Overlap(NamedTuple):
    """A training problem that looks like an evaluation problem."""

    train_id: str
    eval_id: str
    kind: Literal["exact", "ngram"]
    overlap: float
    """Share of the evaluation problem's n-grams that the training problem has; 1 for an exact match."""


def normalise(text: str) -> tuple[str, ...]:
    r"""Words, numbers and symbols: NFKC, case folded, without spacing, punctuation, LaTeX layout and what nobody sees.

    In formulas each letter is a symbol (`ax` is `a x`), outside them a run of letters is a word; `\frac{a}{b}` is `a / b`,
    with brackets where these need them. Operators stay: `3 + 4` is not `3 * 4`. A minus sign stays in formulas, and elsewhere
    where a digit, bracket or command follows it.
    """
    folded = _LATEX_SIZE.sub(r"\\", _maths_in_symbols(_folded(text)))
    joined = _THOUSANDS_APART.sub(",", _SHORT_FRACTION.sub(r"\\frac \1 \2 ", folded))
    plain = _BARE_DECIMAL.sub("0.", _THOUSANDS.sub("", _LATEX_NOISE.sub(" ", joined)))
    kept: list[str] = []
    before = ""
    for match in _TOKEN.finditer(plain):
        token = _SAME_SYMBOL.get(match[0], match[0])
        if token == "-" and _MINUS.match(plain, match.start()):
            kept.append("\u2212")
        elif token not in _PUNCTUATION or (token == "!" and _has_factorial(before)):
            kept.append(token)
        before = token
    return _minus_signs(_without_fractions(_without_braces_of_one(kept)))


def _folded(text: str) -> str:
    """NFKC without case and invisible characters; x² stays a power, and 3½ does not become 31/2."""
    if text.isascii():
        return _WRITTEN_NEWLINE.sub(r"\1 ", text).lower()
    parted = _VULGAR_FRACTION.sub(" ", _SUPERSCRIPT.sub(lambda digits: f"^{{{digits[0]}}}", text)).replace(
        "°", "^\\circ "
    )
    seen = "".join(each for each in unicodedata.normalize("NFKC", parted) if unicodedata.category(each) != "Cf")
    lower = _WRITTEN_NEWLINE.sub(r"\1 ", seen).replace("\u2044", "/").casefold()
    return unicodedata.normalize("NFKC", lower)


def _maths_in_symbols(text: str) -> str:
    r"""The text with formulas, between `$`, `\(`, `\[` or in an environment, in single letters and with sure signs.

    A `$` may be of money: what stands between two of them is a formula if it has no two words side by side and no empty line.
    """
    pieces = _DELIMITER.split(text)
    if len(pieces) == 1:
        return text
    found: list[str] = []
    within: list[str] = []
    closing = ""
    for i, piece in enumerate(pieces):
        kind = "" if i % 2 == 0 else "$" if piece[0] == "$" else piece[:2]
        if closing and kind == closing:
            formula = "".join(within)
            if kind == "$" and not _is_formula(formula):
                found += within
            else:
                found.append(_SYMBOLS.sub(_symbols, formula))
                closing = ""
            found.append(piece)
            within = []
        elif kind in _CLOSING and (not closing or (closing == "$" and kind in ("\\(", "\\["))):
            found += [*within, piece]
            within, closing = [], _CLOSING[kind]
        elif closing:
            within.append(piece)
        else:
            found.append(piece)
    return "".join([*found, *within])


def _is_formula(text: str) -> bool:
    """Not what stands between two amounts of money: "5 and " of "$5 and $7", or whole words."""
    if text[:1].isdigit() and text[-1:].isspace():
        return False
    return _PROSE.search(_WORDS_IN_MATHS.sub(" ", text)) is None


def _symbols(match: re.Match[str]) -> str:
    found = match[0]
    if found == "-":
        return "\u2212"
    if found == "'":
        return " \\prime "
    return found if found[0] == "\\" else " ".join(found)


def _has_factorial(before: str) -> bool:
    """Whether an exclamation mark behind this is an operator: behind a number, a bracket, a single letter or a command."""
    return before == ")" or before[:1].isdigit() or (before[-1:].isalpha() and (len(before) == 1 or before[0] == "\\"))


def _without_braces_of_one(tokens: Sequence[str]) -> list[str]:
    r"""LaTeX's x^{2} as x^2: braces around a single token say nothing; `\{` of a set is another token.

    Nor do `&` before a relation and `^` before a prime.
    """
    kept: list[str] = []
    for token in tokens:
        if token == "}" and len(kept) > 1 and kept[-2] == "{":
            del kept[-2]
        else:
            kept.append(token)
        while len(kept) > 1 and ((kept[-2] == "&" and kept[-1] in _RELATIONS) or (kept[-2:] == ["^", "\\prime"])):
            del kept[-2]
    return kept


def _without_fractions(tokens: list[str]) -> list[str]:
    r"""`\frac{a}{b}` as `a / b`; numerator and denominator in brackets where `/` would not hold them together."""
    if "\\frac" not in tokens:
        return tokens
    close = _pairs(tokens, "{", "}")
    close |= _pairs(tokens, "(", ")")
    after: dict[int, list[str]] = defaultdict(list)
    for i, token in enumerate(tokens):
        if token != "\\frac":
            continue
        above = _argument(tokens, i + 1, close)
        below = None if above is None else _argument(tokens, above + 1, close)
        if above is None or below is None:
            after[i] = ["\\fraction"]
            continue
        wrapped = i > 0 and tokens[i - 1] in ("^", "\\sqrt")
        after[i] = ["{"] if wrapped else []
        for start, end, together in ((i + 1, above, _is_product), (above + 1, below, _is_factor)):
            if start < end:
                bare = together(tokens, start + 1, end, close)
                after[start], after[end] = ([], []) if bare else (["("], [")"])
            else:
                after[end] = [tokens[end]]
        after[above] = [*after[above], "/"]
        after[below] = [*after[below], *("}" * wrapped)]
    return [each for i, token in enumerate(tokens) for each in after.get(i, [token])]


def _pairs(tokens: Sequence[str], opening: str, closing: str) -> dict[int, int]:
    """Where each bracket of this kind is closed."""
    found, opened = {}, []
    for i, token in enumerate(tokens):
        if token == opening:
            opened.append(i)
        elif token == closing and opened:
            found[opened.pop()] = i
    return found


def _argument(tokens: Sequence[str], at: int, close: dict[int, int]) -> int | None:
    r"""The last place of the argument of a command that begins here: of a group, or of one token."""
    if at >= len(tokens) or tokens[at] in ("}", "!", "\\frac"):
        return None
    return close.get(at) if tokens[at] == "{" else at


def _outer(tokens: Sequence[str], start: int, end: int, close: dict[int, int]) -> list[str]:
    """The tokens of this range that are in no bracket; a bracket with what is in it is one."""
    found, i = [], start
    while i < end:
        found.append(tokens[i])
        i = close.get(i, i) + 1
    return found


def _is_product(tokens: Sequence[str], start: int, end: int, close: dict[int, int]) -> bool:
    return not any(token in _TERMS or token in _FUNCTIONS for token in _outer(tokens, start, end, close))


def _is_factor(tokens: Sequence[str], start: int, end: int, close: dict[int, int]) -> bool:
    """One symbol, number or bracket, or the root or a power of one."""
    outer = _outer(tokens, start, end, close)
    outer = outer[1:] if outer[:1] == ["\\sqrt"] else outer
    return len(outer) % 2 == 1 and all(token == "^" for token in outer[1::2]) and not {"/", "\\frac"} & {*outer}


def _minus_signs(tokens: Sequence[str]) -> tuple[str, ...]:
    """A minus sign as a hyphen where it would be known for one by what follows it."""
    following = (*tokens, "")[1:]
    return tuple(
        "-" if token == "\u2212" and (after[:1].isdigit() or after[:1] in ("(", "\\")) else token
        for token, after in zip(tokens, following, strict=True)
    )


def _form(problem: Problem) -> tuple[str, ...]:
    """The normal form, where formulas that stand in the text without dollars have their signs too: `y = x - 1`, `a - b`."""
    signed = _BARE_MINUS.sub(lambda minus: f"{minus[1] or ''}\u2212", problem.text)
    return normalise(_BARE_NAME.sub(lambda name: " ".join(name[0]), signed))


def _glued(tokens: Sequence[str]) -> str:
    """The normal form where it does not matter which letters were taken for a word and which for symbols."""
    return _BETWEEN_LETTERS.sub("", " ".join(f"{token}." if token[0] == "\\" else token for token in tokens))


@dataclass(frozen=True)
class _Index:
    """Evaluation problems by normal form and by n-gram."""

    exact: dict[str, list[str]]
    grams: dict[int, dict[tuple[str, ...], list[int]]]
    forms: list[tuple[str, tuple[str, ...], int, int]]
    """Id, tokens, n and number of n-grams of each problem."""


def find_overlaps(
    train: Iterable[Problem],
    evaluation: Sequence[Problem],
    *,
    n: int = 13,
    min_overlap: float = 0.5,
    short_n: int = 5,
    short_overlap: float = 0.8,
    same_numbers: bool = True,
) -> list[Overlap]:
    """Pairs of problems that are the same or nearly so, at most one a pair.

    An evaluation problem of at least `2 n` tokens matches if a share `min_overlap` of its n-grams is in the training
    problem; a shorter one if a share `short_overlap` of its `short_n`-grams is; one below `short_n` only exactly.
    """
    index = _index(evaluation, n, short_n)
    found: list[Overlap] = []
    seen: dict[str, tuple[str, ...]] = {}
    for problem in {(problem.id, problem.text): problem for problem in train}.values():
        tokens = _form(problem)
        if seen.get(problem.id) == tokens:
            continue
        seen[problem.id] = tokens
        same = index.exact.get(_glued(tokens), [])
        found.extend(Overlap(problem.id, eval_id, "exact", 1.0) for eval_id in same)
        for eval_id, share, size in _shares(tokens, index, same_numbers):
            if eval_id not in same and share >= (min_overlap if size == n else short_overlap):
                found.append(Overlap(problem.id, eval_id, "ngram", share))
    return found


def _index(evaluation: Sequence[Problem], n: int, short_n: int) -> _Index:
    if not 0 < short_n <= n:
        raise ValueError(f"n-grams must be of positive length and short_n at most n; got n={n}, short_n={short_n}")
    index = _Index(defaultdict(list), {n: defaultdict(list), short_n: defaultdict(list)}, [])
    for i, problem in enumerate(evaluation):
        tokens = _form(problem)
        size = n if len(tokens) >= 2 * n else short_n
        grams = _grams(tokens, size)
        index.exact[_glued(tokens)].append(problem.id)
        index.forms.append((problem.id, tokens, size, len(grams)))
        for gram in grams:
            index.grams[size][gram].append(i)
    return index


def _grams(tokens: tuple[str, ...], n: int) -> set[tuple[str, ...]]:
    return {tokens[i : i + n] for i in range(len(tokens) - n + 1)}


def _shares(tokens: tuple[str, ...], index: _Index, same_numbers: bool) -> Iterable[tuple[str, float, int]]:
    """Id, shared part and n for every evaluation problem that shares an n-gram with `tokens`."""
    hits: Counter[int] = Counter()
    for size, grams in index.grams.items():
        for gram in _grams(tokens, size):
            if gram in grams:
                hits.update(grams[gram])
    numbers = _numbers(tokens)
    for i in sorted(hits):
        eval_id, form, size, total = index.forms[i]
        if not same_numbers or _numbers(form) <= numbers:
            yield eval_id, hits[i] / total, size


def _numbers(tokens: Iterable[str]) -> Counter[str]:
    return Counter(token for token in tokens if _NUMBER.match(token))


def without_evaluated(
    rows: Sequence[Judged], against: Sequence[Problem], contaminated: Literal["error", "drop"]
) -> tuple[Sequence[Judged], int]:
    """The rows about no evaluation problem, and how many there were of others."""
    if not against:
        return rows, 0
    # Other problems may have the same id: sets of data count from 0, each for itself.
    problems = {(p.id, p.text): p for p in (row.trajectory.problem for row in rows)}
    places = {str(n): key for n, key in enumerate(problems)}
    overlaps = find_overlaps((replace(p, id=n) for n, p in zip(places, problems.values(), strict=True)), against)
    bad = {places[overlap.train_id] for overlap in overlaps}
    clean = [row for row in rows if (row.trajectory.problem.id, row.trajectory.problem.text) not in bad]
    dropped = len(rows) - len(clean)
    if bad and contaminated == "error":
        first = overlaps[0]
        raise ValueError(
            f"{dropped} training rows are about evaluation problems, e.g. problem {places[first.train_id][0]!r} matches "
            f'{first.eval_id!r} ({first.kind}, overlap {first.overlap:.2f}); remove them, or use contaminated="drop"'
        )
    return clean, dropped
