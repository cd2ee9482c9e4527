"""Is a training problem an evaluation problem? Exact matches after normalisation, and n-gram overlap.

An n-gram match alone is not enough: problems made from one template share their words and differ in their numbers,
so by default a match also needs all of the evaluation problem's numbers in the training problem.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from footfall.types import Problem

_LATEX_NOISE = re.compile(
    r"\\(?:left|right|quad|qquad|displaystyle|text(?:bf|it|rm)?|math(?:rm|bf|it)|mbox)(?![a-z])"
    r"|\\[,;:!> ()\[\]]|\\\\|[$~]|\{\}"
)
_LATEX_SIZE = re.compile(r"\\[dtc](?=frac|binom)")
_SHORT_FRACTION = re.compile(r"\\frac\s*(\d)\s*(\d)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TOKEN = re.compile(r"\\[a-z]+|\d+(?:\.\d+)?|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+|[^\s]")
_PUNCTUATION = frozenset(".,;:?!'\"`‘’“”«»…·-–—_")
_NUMBER = re.compile(r"\d")
_MINUS = re.compile(r"-\s*[\d(\\]")


class Overlap(NamedTuple):
    """A training problem that looks like an evaluation problem."""

    train_id: str
    eval_id: str
    kind: Literal["exact", "ngram"]
    overlap: float
    """Share of the evaluation problem's n-grams that the training problem has; 1 for an exact match."""


def normalise(text: str) -> tuple[str, ...]:
    """Words, numbers and symbols of a text: NFKC, case folded, without spacing, punctuation, LaTeX layout and what nobody sees.

    Operators stay: `3 + 4` is not `3 * 4`. A minus sign stays where a digit, bracket or command follows it.
    """
    folded = _LATEX_SIZE.sub(r"\\", _visible(unicodedata.normalize("NFKC", text)).replace("\u2212", "-").casefold())
    plain = _THOUSANDS.sub("", _LATEX_NOISE.sub(" ", _SHORT_FRACTION.sub(r"\\frac \1 \2 ", folded)))
    kept: list[str] = []
    for match in _TOKEN.finditer(plain):
        token = match[0]
        if token not in _PUNCTUATION or _is_operator(plain, match.start(), token):
            kept.append(token)
    return _without_braces_of_one(kept)


def _visible(text: str) -> str:
    """Without zero-width characters, soft hyphens and the like."""
    return text if text.isascii() else "".join(each for each in text if unicodedata.category(each) != "Cf")


def _without_braces_of_one(tokens: Sequence[str]) -> tuple[str, ...]:
    """LaTeX's x^{2} as x^2: braces around a single token say nothing, but for those of a set, \\{2\\}."""
    kept: list[str] = []
    for token in tokens:
        if token == "}" and len(kept) > 1 and kept[-2] == "{" and kept[-1] != "\\" and kept[-3:-2] != ["\\"]:
            del kept[-2]
        else:
            kept.append(token)
    return tuple(kept)


def _is_operator(text: str, at: int, token: str) -> bool:
    if token == "-":
        return _MINUS.match(text, at) is not None
    if token == "!":
        return at > 0 and (text[at - 1].isdigit() or text[at - 1] == ")")
    return False


@dataclass(frozen=True)
class _Index:
    """Evaluation problems by normal form and by n-gram."""

    exact: dict[tuple[str, ...], list[str]]
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
        tokens = normalise(problem.text)
        if seen.get(problem.id) == tokens:
            continue
        seen[problem.id] = tokens
        same = index.exact.get(tokens, [])
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
        tokens = normalise(problem.text)
        size = n if len(tokens) >= 2 * n else short_n
        grams = _grams(tokens, size)
        index.exact[tokens].append(problem.id)
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
