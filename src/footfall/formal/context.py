"""The words around an equation between numbers: whether some of them belong to it, and whether it is claimed at all.

    complete   "so she pays 3 * 4 = 12"     nothing beside it does: the equation can be judged
    doubtful   "it grew by 3 * 4 = 12"      a number beside it may: if false, it may be meant otherwise
    lost       "twice 3 + 2 = 10"           something does, or nobody can say

Before it, words decide. One of arithmetic takes part in the computation; a verb ("is", "pays") or "so" begins a new thought; a
preposition may lead back to a number or to a word of arithmetic that stands before it since then. After it, what is glued to
the right side belongs to it: "6:00", "0.0011_2", "1 dozen", "5AD", "3,5", "12 \\cos C".
"""

from __future__ import annotations

import re
from typing import Literal

Reading = Literal["complete", "doubtful", "lost"]

NUMBERS = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|seventy|eighty"
    r"|ninety|hundreds?|thousands?|millions?|billions?|dozens?"
)
"""Words that are numbers."""
_FUNCTIONS = (
    r"sqrt|roots?|log|ln|exp|sin|cos|tan|abs|floor|ceil|ceiling|max|min|gcd|lcm|mod|modulo|choose|factorial"
    r"|squares?|squared|cubes?|cubed|powers?|raised|negative|per\s?cent"
)
_FOLDS = r"times|plus|minus|twice|thrice|half|(?:doubl|tripl|quadrupl|halv)(?:e|es|ed|ing)"
_NOUNS = r"sums?|products?|differences?|quotients?|ratios?|averages?|mean|median|remainder|multiples?"
_VERBS = r"(?:add|subtract|deduct)(?:s|ed|ing)?|multipl(?:y|ies|ied|ying)|divid(?:e|es|ed|ing)"
OPERATORS = (
    rf"(?:{_FOLDS}|{_FUNCTIONS}|{NUMBERS}|thirds?|quarters?|fourths?|fifths?|less|more|fewer|than|over|round|divided by"
    r"|multiplied by)"
)
"""Words that compute with the number after them, or with the one before."""

_OPERATOR = re.compile(rf"(?:{OPERATORS}|{_NOUNS})", re.IGNORECASE)
_ARITHMETIC = re.compile(rf"\b(?:{_FOLDS}|{_FUNCTIONS}|{_NOUNS}|{_VERBS}|than)\b", re.IGNORECASE)
_NUMBER = re.compile(rf"\d|\b(?:{NUMBERS})\b", re.IGNORECASE)
_VERB = re.compile(_VERBS, re.IGNORECASE)
SENTENCE = re.compile(r"[.;:?!]\s|\n")
_SETTLED = re.compile(
    r"\b(?:is|are|was|were|be|been|being|equals?|so|then|thus|therefore|hence|which|because|since|means|meaning|gets?|got|getting"
    r"|has|have|had|having|gives?|gave|giving|costs|costing|pays?|paid|paying|makes?|made|making|earns?|earned|earning|spends?|spent"
    r"|spending|needs?|needed|uses?|used|using|sells?|sold|buys?|bought|eats?|ate|takes?|took|leaves|leaving|calculate|compute|find"
    r"|will|would|can|could|runs?|ran|drives?|drove|travels?|travel+ed|works?|worked|contains?|holds?|charges|charged|saves?|saved"
    r"|reads?|becomes?|receives?|received|produces?|weighs?|requires?|he|she|it|they|we|you)\b",
    re.IGNORECASE,
)  # fmt: skip
_LINK = re.compile(
    r"to|from|and|or|at|for|with|in|per|on|into|between|as|the|an?|that|this|these|those|its|his|her|their|our|my|your|all|another"
    r"|only|about|around|each|every|after|before|within|during"
)
_AMOUNT_OF = re.compile(
    r"\ban?\s+(?:\w+\s+){0,2}(?:total|profit|loss|cost|price|amount|income|salary|bill|balance|distance|discount|gain|weight|length"
    r"|height|speed|rate|value|score|budget|fee|wage|tax|tip)\s+of\s*$",
    re.IGNORECASE,
)  # fmt: skip
_CHANGED_BY = re.compile(
    r"\b(?:increas(?:es?|ed)|decreas(?:es?|ed)|r[io]ses?|gr[eo]ws?|f[ae]lls?|drop(?:s|ped)?|declin(?:es?|ed)|reduc(?:es?|ed)"
    r"|(?:went|go|goes) (?:up|down))\s+by\s*$",
    re.IGNORECASE,
)  # fmt: skip
_BEGINS_ANEW = re.compile(r"(?:^|[.,;:?!\"'“”‘’\[{→⇒—…#`])\s*$")
_CUT_OFF = re.compile(r"[\d)]!\s*$|\d[.,:'’/]$|[A-Za-z]['’′]+$|!$|\\[A-Za-z]+\s*$|_\s*$")
_WORD = re.compile(r"([A-Za-z]+)(?:['’][A-Za-z]+)?\s+$")
_COUNTED = re.compile(r"\d\s+[A-Za-z]+\s+$")


def reading(before: str, left: str) -> Reading:
    """How the text before an equation, with earlier equations taken out of it, leaves its left side."""
    if re.match(r"[+*/^]|-\s", left) or _CUT_OFF.search(before):
        return "lost"  # it goes on from what was not read ("5!", "5:", "\\cos"), or a dash begins an item of a list
    clause = _SETTLED.split(SENTENCE.split(before)[-1])[-1]
    if _BEGINS_ANEW.search(before):
        return "lost" if _ARITHMETIC.search(clause) else "complete"
    word = _WORD.search(before)
    return "lost" if word is None else _after(word[1].lower(), before, clause)


def _after(word: str, before: str, clause: str) -> Reading:
    """The same right after a word."""
    number = _NUMBER.search(clause) is not None
    if word == "by":
        plain = _CHANGED_BY.search(before) and not _ARITHMETIC.search(clause)
        return "doubtful" if plain and not number else "lost"
    if _OPERATOR.fullmatch(word) or (word == "of" and not _AMOUNT_OF.search(before)):
        return "lost"
    if _VERB.fullmatch(word):
        return "doubtful"
    if _ARITHMETIC.search(clause):
        return "lost"
    links = word == "of" or _LINK.fullmatch(word) is not None
    return "doubtful" if number and (links or _COUNTED.search(before)) else "complete"


_GLUED = re.compile(r"[^\s.,:;?!)\]}\"”*]|[.,:;/'’][\w\\.]")
_ROUNDED = re.compile(r"\s*(?:≈|≃|~|\\approx|\\sim|…|\.\.)")
_GOES_ON = re.compile(r"[^\S\n]*(?:\\|[-+*/^<>=≤≥≡±√|\[{\d]|[^\W\dAaI_](?!\w)|[AaI](?![^\S\n]+[A-Za-z]{2}|\w))")
_MONTHS = (
    r"january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_BELONGS = re.compile(
    rf"[^\S\n,]*,?\s*(?:with|and|plus|leaving|having)?\s*(?:an?|the)?\s*(?:{OPERATORS}|remainder|rem|remaining|left\s?over|mod"
    rf"|a\.?m|p\.?m|o['’]clock|{_MONTHS})\b",
    re.IGNORECASE,
)  # fmt: skip
_PLAIN = re.compile(r"[^\S\n]*(?:(?:more|less|fewer|left)\b(?!\s*over)|over\s+(?:the|a)\b)", re.IGNORECASE)
_NUMBER_AFTER = re.compile(rf"\d|\b(?:{NUMBERS}|remainder|left\s?over|remaining|over|rest)\b", re.IGNORECASE)


def following(after: str, until: int | None) -> Reading:
    """How the text after an equation leaves its right side; another equation may begin at `until`."""
    if _ROUNDED.match(after):
        return "doubtful"
    if _GLUED.match(after) or _GOES_ON.match(after[:until]):
        return "lost"
    clause = SENTENCE.split(after[:until])[0]
    if _BELONGS.match(clause) and not _PLAIN.match(clause):
        return "lost"
    return "doubtful" if after[:1] == "!" or _NUMBER_AFTER.search(clause) else "complete"


_ANOTHER = re.compile(
    r"\bmod(?:ul\w+)?\b|\\[pb]?mod\b|≡|\\equiv\b|\bcongruen\w*|\bremainders?\b|\bquotients?\b|\bbase[- ](?:\d+|\w+)\b|\d_\{?\d"
    r"|\b(?:binary|octal|hexadecimal|clocks?|noon|midnight|roman)\b|o['’]clock|\d\s*[ap]\.?m\b|\d:\d\d\b|\boperation\b(?!s)"
    r"|\\(?:circ|oplus|otimes|odot|star|diamond|ast|bullet|dagger)\b|[⊕⊗⊙∘⋆★◇]|\blong division\b",
    re.IGNORECASE,
)  # fmt: skip
_ROUNDING = re.compile(
    r"\bround\w*|\bapprox\w*|≈|\\approx|\bnearest\b|\bestimat\w*|\broughly\b|\bnearly\b|\balmost\b|\btruncat\w*"
    r"|\b(?:about|around)\s+[$€£]?\d",
    re.IGNORECASE,
)  # fmt: skip
_REJECTED = re.compile(
    r"\b(?:wrong(?:ly)?|incorrect(?:ly)?|false|mistaken?(?:ly)?|mistakes?|errors?|contradict\w*|impossible|absurd|invalid|wait|oops"
    r"|actually|not (?:equal|true|right|correct|possible|valid|work)|n['’]t (?:equal|true|right|correct|work|hold|match)"
    r"|not (?:hold|match|satisf\w+)|rather than|instead of)\b",
    re.IGNORECASE,
)  # fmt: skip
_SUPPOSED = re.compile(
    r"\b(?:not|never|cannot|if|suppose|supposing|assum\w+|would|unless|whether|unlike|no longer|try|trying|guess\w*|say)\b"
    r"|n['’]t\b|\?",
    re.IGNORECASE,
)


def another_arithmetic(text: str) -> str | None:
    """What in a problem or a step says that numbers may not be added and multiplied as usual."""
    found = _ANOTHER.search(text)
    return found and f"may be meant in another arithmetic ({found[0].strip()!r})"


def not_claimed(text: str, start: int, end: int) -> str | None:
    """Why the equation that stands at these places in a step may not be claimed to hold exactly."""
    found = _ROUNDING.search(text) or _REJECTED.search(text)
    if found:
        return f"may be rounded or rejected ({found[0]!r})"
    before, after = SENTENCE.split(text[:start])[-1], _to_sentence_end(text[end:])
    found = _SUPPOSED.search(before) or _SUPPOSED.search(after)
    return found and f"may only be supposed ({found[0]!r})"


def _to_sentence_end(text: str) -> str:
    stop = SENTENCE.search(text + "\n")
    return text[: stop.start() + 1] if stop else text
