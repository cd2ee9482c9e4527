"""What stands before an equation between numbers, and whether some of it belongs to the left side.

    complete   "so she pays 3 * 4 = 12"     nothing does: the equation can be judged
    doubtful   "it grew by 3 * 4 = 12"      a number before may: a true equation is meant as it stands, a false one may not be
    lost       "twice 3 + 2 = 10"           something does, or nobody can say

Words decide. One of arithmetic takes part in the computation; a verb ("is", "pays") or "so" begins a new thought; a
preposition may lead back to a number or to a word of arithmetic that stands before it since then.
"""

from __future__ import annotations

import re
from typing import Literal

__all__ = ["NUMBERS", "OPERATORS", "SENTENCE", "Reading", "reading"]

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
