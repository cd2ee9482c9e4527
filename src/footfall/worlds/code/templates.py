"""The programs of the code world: families of small functions over lists, strings and numbers, drawn by a generator.

Each draw is a description in words, a reference program and inputs near the program's own bounds, where mistakes show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from footfall.worlds.code.language import Value
from footfall.worlds.world import pick

_NAMES = {
    "xs": ("xs", "nums", "values", "items"), "x": ("x", "v", "num"), "t": ("total", "result", "acc"),
    "n": ("n", "number", "m"), "s": ("s", "text", "word"), "c": ("c", "ch", "letter"), "out": ("out", "kept", "res"),
    "i": ("i", "j", "pos"), "best": ("best", "top", "found"), "run": ("run", "streak", "length"),
    "f": ("f", "solve", "compute", "work"), "a": ("a", "low", "first"), "b": ("b", "high", "second"),
}  # fmt: skip
_LETTERS = "abcde"


class Draft(NamedTuple):
    """A program in words and in lines, and what draws an input for it."""

    words: str
    lines: tuple[str, ...]
    draw_input: Callable[[Random], list[Value]]


class _Condition(NamedTuple):
    test: str
    words: str


_CONDITIONS = (
    _Condition("{x} > {k}", "greater than {k}"),
    _Condition("{x} < {k}", "less than {k}"),
    _Condition("{x} >= {k}", "at least {k}"),
    _Condition("{x} <= {k}", "at most {k}"),
    _Condition("{x} % {k} == 0", "divisible by {k}"),
    _Condition("{x} % {k} != 0", "not divisible by {k}"),
    _Condition("{x} > {k} and {x} < {m}", "greater than {k} and less than {m}"),
    _Condition("{x} < {k} or {x} > {m}", "less than {k} or greater than {m}"),
)


class _Fold(NamedTuple):
    start: str
    update: str
    words: str


_FOLDS = (
    _Fold("{t} = 0", "{t} += {x}", "the sum of the elements"),
    _Fold("{t} = 0", "{t} += 1", "how many elements there are"),
    _Fold("{t} = 0", "{t} += {x} * {x}", "the sum of the squares of the elements"),
    _Fold("{t} = 0", "{t} += {x} + {d}", "the sum, each raised by {d}, of the elements"),
    _Fold("{t} = 1", "{t} *= {x}", "the product of the elements"),
    _Fold("{t} = []", "{t}.append({x})", "a list of the elements"),
    _Fold("{t} = []", "{t}.append({x} * {d})", "a list of {d} times each of the elements"),
)


def _words(rng: Random) -> dict[str, object]:
    k = rng.randint(2, 9)
    names: dict[str, object] = {role: pick(rng, choices) for role, choices in _NAMES.items()}
    return {**names, "k": k, "m": k + rng.randint(3, 6), "d": rng.randint(2, 5), "l": pick(rng, _LETTERS)}


def _draft(
    words: str, lines: tuple[str, ...], names: Mapping[str, object], inputs: Callable[[Random], list[Value]]
) -> Draft:
    return Draft(words.format(**names), tuple(line.format(**names) for line in lines), inputs)


def _numbers(k: int, least: int = 0) -> Callable[[Random], list[Value]]:
    """One list of numbers, many of them near `k`."""
    return lambda rng: [[rng.randint(k - 3, k + 7) for _ in range(rng.randint(least, 6))]]


def _text(letter: str) -> Callable[[Random], list[Value]]:
    return lambda rng: ["".join(pick(rng, letter + letter + _LETTERS) for _ in range(rng.randint(0, 7)))]


def _fold(rng: Random) -> Draft:
    names = _words(rng)
    condition, fold = pick(rng, _CONDITIONS), pick(rng, _FOLDS)
    lines = ("def {f}({xs}):", f"    {fold.start}", "    for {x} in {xs}:", f"        if {condition.test}:",
             f"            {fold.update}", "    return {t}")  # fmt: skip
    return _draft(f"{fold.words} of {{xs}} that are {condition.words}", lines, names, _numbers(int(str(names["k"]))))


_INDEXED = (
    ("{i} % 2 == 0", "{t} += {xs}[{i}]", "len({xs})", "the sum of the elements of {xs} at even positions (the first is 0)"),
    ("{i} % {d} == 0", "{t} += {xs}[{i}]", "len({xs})",
     "the sum of the elements of {xs} at positions divisible by {d} (the first is 0)"),
    ("{xs}[{i}] > {k}", "{t} += {i}", "len({xs})", "the sum of the positions (the first is 0) of elements of {xs} above {k}"),
    ("{xs}[{i}] < {xs}[{i} + 1]", "{t} += 1", "len({xs}) - 1", "how many elements of {xs} are less than the next one"),
    ("{xs}[{i}] == {xs}[{i} + 1]", "{t} += 1", "len({xs}) - 1", "how many elements of {xs} equal the next one"),
    ("{xs}[{i}] > {xs}[{i} + 1] + {d}", "{t} += {xs}[{i}]", "len({xs}) - 1",
     "the sum of the elements of {xs} that exceed the next one by more than {d}"),
)  # fmt: skip


def _index(rng: Random) -> Draft:
    names = _words(rng)
    test, update, bound, words = pick(rng, _INDEXED)
    lines = ("def {f}({xs}):", "    {t} = 0", f"    for {{i}} in range({bound}):", f"        if {test}:",
             f"            {update}", "    return {t}")  # fmt: skip
    return _draft(words, lines, names, _numbers(int(str(names["k"])), least=2))


_EXTREMES = (
    ("{x} > {best}", "{best} = {x}", "the largest element of {xs}"),
    ("{x} < {best}", "{best} = {x}", "the smallest element of {xs}"),
    ("{x} * {x} > {best} * {best}", "{best} = {x}", "the first element of {xs} that is largest in size, sign aside,"),
    ("{x} % {k} > {best} % {k}", "{best} = {x}", "the first element of {xs} whose remainder by {k} is largest"),
)
_AFTER = (("{best}", ""), ("{best} + {d}", " plus {d}"), ("{best} * {d}", " times {d}"), ("{best} - {k}", " minus {k}"))


def _extreme(rng: Random) -> Draft:
    names = _words(rng)
    test, update, words = pick(rng, _EXTREMES)
    result, more = pick(rng, _AFTER)
    lines = ("def {f}({xs}):", "    {best} = {xs}[0]", "    for {x} in {xs}:", f"        if {test}:",
             f"            {update}", f"    return {result}")  # fmt: skip
    return _draft(words + more, lines, names, lambda draw: [[draw.randint(-12, 12) for _ in range(draw.randint(1, 6))]])


_DIGITS = (
    ("{t} += {n} % {k}", "{n} = {n} // {k}", "the sum of the digits of {n} in base {k}"),
    ("{t} += 1", "{n} = {n} // {k}", "how often {n} can be divided by {k}, rounding down, until it is 0"),
    ("{t} += 1", "{n} -= {k}", "how often {k} can be taken from {n} until it is 0 or less"),
    ("{t} += {n}", "{n} -= {d}", "the sum of {n}, {n} - {d}, {n} - 2 * {d} and so on while positive"),
    (
        "{t} += {n} * {n}",
        "{n} -= {k}",
        "the sum of the squares of {n}, {n} - {k}, {n} - 2 * {k} and so on while positive",
    ),
)


def _digits(rng: Random) -> Draft:
    names = _words(rng)
    update, step, words = pick(rng, _DIGITS)
    lines = (
        "def {f}({n}):",
        "    {t} = 0",
        "    while {n} > 0:",
        f"        {update}",
        f"        {step}",
        "    return {t}",
    )
    return _draft(words, lines, names, lambda draw: [draw.randint(0, 80)])


_STRINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("how many letters of {s} are '{l}'",
     ("    {t} = 0", "    for {c} in {s}:", "        if {c} == '{l}':", "            {t} += 1", "    return {t}")),
    ("{s} without the letter '{l}'",
     ("    {out} = ''", "    for {c} in {s}:", "        if {c} != '{l}':", "            {out} += {c}", "    return {out}")),
    ("{s} with every '{l}' written {d} times",
     ("    {out} = ''", "    for {c} in {s}:", "        if {c} == '{l}':", "            {out} += {c} * {d}",
      "        else:", "            {out} += {c}", "    return {out}")),
    ("{s} backwards, without the letter '{l}'",
     ("    {out} = ''", "    for {c} in {s}:", "        if {c} != '{l}':", "            {out} = {c} + {out}",
      "    return {out}")),
    ("the length of the longest run of '{l}' in {s}",
     ("    {best} = 0", "    {run} = 0", "    for {c} in {s}:", "        if {c} == '{l}':", "            {run} += 1",
      "        else:", "            {run} = 0", "        {best} = max({best}, {run})", "    return {best}")),
    ("the sum of the positions (the first is 0) at which {s} has '{l}'",
     ("    {t} = 0", "    for {i} in range(len({s})):", "        if {s}[{i}] == '{l}':", "            {t} += {i}",
      "    return {t}")),
)  # fmt: skip


def _strings(rng: Random) -> Draft:
    names = _words(rng)
    words, body = pick(rng, _STRINGS)
    return _draft(words, ("def {f}({s}):", *body), names, _text(str(names["l"])))


_BRANCHES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("{a} if it is at least {b}, and otherwise {b} minus {k}",
     ("    if {a} >= {b}:", "        return {a}", "    return {b} - {k}")),
    ("the distance between {a} and {b}, plus {k} if {a} is the larger",
     ("    {t} = {b} - {a}", "    if {a} > {b}:", "        {t} = {a} - {b} + {k}", "    return {t}")),
    ("{a} + {b}, but {k} if that is less than {k} and {m} if that is more than {m}",
     ("    {t} = {a} + {b}", "    if {t} < {k}:", "        return {k}", "    if {t} > {m}:", "        return {m}",
      "    return {t}")),
    ("{a} times {d} if {a} is divisible by {k}, otherwise {a} plus {b}",
     ("    {t} = {a}", "    if {a} % {k} == 0:", "        {t} = {t} * {d}", "    else:", "        {t} = {t} + {b}",
      "    return {t}")),
    ("the sum of the whole numbers from {a} up to but not including {b} that are divisible by {d}",
     ("    {t} = 0", "    for {i} in range({a}, {b}):", "        if {i} % {d} == 0:", "            {t} += {i}",
      "    return {t}")),
)  # fmt: skip


def _branches(rng: Random) -> Draft:
    names = _words(rng)
    words, body = pick(rng, _BRANCHES)
    return _draft(words, ("def {f}({a}, {b}):", *body), names, lambda draw: [draw.randint(0, 9), draw.randint(0, 12)])


_BOUNDS, _DIVISIBLE = _CONDITIONS[:4], _CONDITIONS[4:6]
_INSTEAD = (("{t} += {d}", "{d} is added"), ("{t} -= {d}", "{d} is taken off"), ("{t} -= {x}", "they are taken off"))


def _nested(rng: Random) -> Draft:
    """A condition within a condition."""
    names = _words(rng)
    kept, (other, instead) = pick(rng, _BOUNDS), pick(rng, _INSTEAD)
    lines = ("def {f}({xs}):", "    {t} = 0", "    for {x} in {xs}:", f"        if {kept.test}:",
             "            if {x} % {d} == 0:", "                {t} += {x}", "            else:", f"                {other}",
             "    return {t}")  # fmt: skip
    words = f"the sum of the elements of {{xs}} that are {kept.words}, but for those not divisible by {{d}} {instead}"
    return _draft(words, lines, names, _numbers(int(str(names["k"]))))


def _capped(rng: Random) -> Draft:
    """A fold with two cases, and a bound on its result."""
    names = _words(rng)
    kept, counted = pick(rng, (*_BOUNDS, *_DIVISIBLE)), rng.random() < 0.5
    cap = rng.randint(5, 9) if counted else int(str(names["k"])) * 2 + rng.randint(0, 9)
    lines = ("def {f}({xs}):", "    {t} = 0", "    for {x} in {xs}:", f"        if {kept.test}:",
             "            {t} += 1" if counted else "            {t} += {x}", "        else:", "            {t} += {d}",
             f"    if {{t}} > {cap}:", f"        {{t}} = {cap}", "    return {t}")  # fmt: skip
    words = f"the {'number' if counted else 'sum'} of the elements of {{xs}} that are {kept.words}"
    return _draft(
        f"{words}, plus {{d}} for each other one, but at most {cap}", lines, names, _numbers(int(str(names["k"])))
    )


_PEAKS = (
    ("{xs}[{i}]", "the sum of the elements"),
    ("{i}", "the sum of the positions (the first is 0) of elements"),
    ("1", "the number of elements"),
    ("{xs}[{i}] + {d}", "the sum, each raised by {d}, of the elements"),
)


def _peaks(rng: Random) -> Draft:
    """Elements that are compared with both of their neighbours."""
    names = _words(rng)
    (sign, than), (update, words) = pick(rng, ((">", "greater"), ("<", "less"))), pick(rng, _PEAKS)
    lines = ("def {f}({xs}):", "    {t} = {k}", "    for {i} in range(1, len({xs}) - 1):",
             f"        if {{xs}}[{{i}}] {sign} {{xs}}[{{i}} - 1]:", f"            if {{xs}}[{{i}}] {sign} {{xs}}[{{i}} + 1]:",
             f"                {{t}} += {update}", "    return {t}")  # fmt: skip
    said = f"{{k}} plus {words} of {{xs}} that are {than} than both the one before and the one after"
    return _draft(said, lines, names, _numbers(int(str(names["k"])), least=3))


FAMILIES: Mapping[str, Callable[[Random], Draft]] = {
    "fold": _fold, "index": _index, "extreme": _extreme, "digits": _digits, "strings": _strings, "branches": _branches,
}  # fmt: skip
"""Kinds of programs by name."""
HARD_FAMILIES: Mapping[str, Callable[[Random], Draft]] = {"nested": _nested, "capped": _capped, "peaks": _peaks}
"""Those of the harder tier: blocks within blocks, and longer programs."""


def draw_program(rng: Random, families: tuple[str, ...]) -> Draft:
    """One program of one of the families."""
    return {**FAMILIES, **HARD_FAMILIES}[pick(rng, families)](rng)
