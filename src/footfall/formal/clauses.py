"""English clauses as formulas of first-order logic: `Rex is a dax`, `no dax is red`, `if something is old, it is a wug`.

    every dax is a wug                     forall x. (dax(x) implies wug(x))
    nothing that is a dax and red is old   forall x. (dax(x) and red(x) implies not old(x))
    everything that chases a dax is shy    forall x y. (chase(x, y) and dax(y) implies shy(x))

Nothing is known of a world's vocabulary: any word may be a name, a noun, an adjective or a verb. A text that is a
formula already (`C -> (B & ~A)`) is read as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from footfall.tools.formula import And, Atom, Forall, Formula, FormulaError, Implies, Not, parse

_NOT = r"(?P<no> not|n't)?"
_WHAT = rf"(?:is|are){_NOT}(?: an?)? (?P<what>\w+)"
_KIND = re.compile(rf"(?P<all>every|each|any|all|no|an?) (?P<kind>\w+) {_WHAT}")
_RELATIVE = re.compile(rf"(?P<all>every|any|no)(?:thing|one|body) (?:that|which|who) (?P<about>.+?) {_WHAT}")
_GENERAL = re.compile(rf"if (?:some|any)(?:thing|one|body) (?P<about>.+?),?(?: then)? (?:it|they|he|she) {_WHAT}")
_IF = re.compile(r"if (?P<body>.+?),? then (?P<head>.+)")
_IS = re.compile(rf"(?P<who>\w+) {_WHAT}")
_DOES = re.compile(r"(?P<who>\w+) (?P<no>(?:does not|doesn't) )?(?P<verb>\w+) (?P<whom>\w+)")
_PART_IS = re.compile(r"(?:is )?(?:an? )?(?P<what>\w+)")
_PART_DOES = re.compile(r"(?P<verb>\w+) (?:an? |some(?:thing|one) )(?:that is )?(?P<what>\w+)")
_SIGN = re.compile(r"->|<-|[&|~¬∧∨→↔∀∃]|\b(?:forall|exists)\b")
_NOBODY = frozenset(
    ("if", "then", "every", "each", "any", "all", "no", "something", "someone", "everything", "nothing", "it", "we", "the",
     "this", "that", "there")
)  # fmt: skip
_LEAD = re.compile(
    r"^(?:(?:wait|no|now|then|next|first|finally|also|well|so|therefore|thus|hence)[,:]\s*|(?:so|therefore|thus|hence) "
    r"|(?:and )?(?:we (?:know|have|get|see|can conclude|conclude)|it follows)(?: that)? )"
)
_SINCE = re.compile(r"^(?:since|because|as|given that) ")
_SO = re.compile(r",? (?:and )?(?:so|therefore|thus|hence|which means)(?: that)? ")
_BECAUSE = re.compile(r",? (?:because|since) ")


@lru_cache(maxsize=1 << 14)
def read_clause(text: str) -> Formula | None:
    """The formula that one clause states, `None` if it has no form that is known here."""
    if _SIGN.search(text):
        try:
            return parse(text)
        except FormulaError:
            return None
    plain = text.lower().strip(" .")
    forms: tuple[Callable[[str], Formula | None], ...] = (_kind, _relative, _general, _ground_rule, _fact)
    return next((found for form in forms if (found := form(plain)) is not None), None)


def read_clauses(text: str) -> list[Formula] | None:
    """One clause, or several joined by "and" or commas."""
    whole = read_clause(text)
    if whole is not None:
        return [whole]
    for joint in re.finditer(r",? and (?:that )?|, ", text):
        first, rest = read_clause(text[: joint.start()]), read_clauses(text[joint.end() :])
        if first is not None and rest is not None:
            return [first, *rest]
    return None


def strip_lead(text: str) -> str:
    """Without "Wait,", "So" and "we know that" in front. "No dax is red" keeps its first word."""
    while match := _LEAD.match(text):
        text = text[match.end() :]
    return text


def cut_argument(sentence: str) -> Iterator[tuple[str, str]]:
    """All ways to cut a sentence into a conclusion and what supports it; the last has no support."""
    since = _SINCE.match(sentence)
    if since:
        for comma in re.finditer(r", ", sentence):
            yield strip_lead(sentence[comma.end() :]), sentence[since.end() : comma.start()]
    for match in _SO.finditer(sentence):
        yield sentence[match.end() :], strip_lead(sentence[: match.start()])
    for match in _BECAUSE.finditer(sentence):
        yield strip_lead(sentence[: match.start()]), sentence[match.end() :]
    yield strip_lead(sentence), ""


def _kind(text: str) -> Formula | None:
    match = _KIND.fullmatch(text)
    return _rule(Atom(match["kind"], ("x",)), ["x"], match) if match else None


def _relative(text: str) -> Formula | None:
    match = _RELATIVE.fullmatch(text)
    conditions = _conditions(match["about"]) if match else None
    return _rule(*conditions, match) if match and conditions else None


def _general(text: str) -> Formula | None:
    match = _GENERAL.fullmatch(text)
    conditions = _conditions(match["about"]) if match else None
    return _rule(*conditions, match) if match and conditions else None


def _rule(body: Formula, variables: list[str], match: re.Match[str]) -> Formula:
    """For all x: body implies head; "no" and "not" each turn the head around."""
    head: Formula = Atom(match["what"], ("x",))
    if bool(match["no"]) != (match.groupdict().get("all") == "no"):
        head = Not(head)
    formula: Formula = Implies(body, head)
    for variable in reversed(variables):
        formula = Forall(variable, formula)
    return formula


def _conditions(text: str) -> tuple[Formula, list[str]] | None:
    """What is asked of x, and the variables in it."""
    parts: list[Formula] = []
    variables = ["x"]
    for part in re.split(r",? and |, ", text):
        does, being = _PART_DOES.fullmatch(part), _PART_IS.fullmatch(part)
        if does and does["verb"] != "is":
            variables.append(f"y{len(variables)}")
            parts += [Atom(_verb(does["verb"]), ("x", variables[-1])), Atom(does["what"], (variables[-1],))]
        elif being:
            parts.append(Atom(being["what"], ("x",)))
        else:
            return None
    return _all(parts), variables


def _ground_rule(text: str) -> Formula | None:
    match = _IF.fullmatch(text)
    if not match:
        return None
    body, head = read_clauses(match["body"]), _fact(match["head"])
    return None if body is None or head is None else Implies(_all(body), head)


def _fact(text: str) -> Formula | None:
    match = _IS.fullmatch(text)
    if match:
        atom = Atom(match["what"], (match["who"],))
    else:
        match = _DOES.fullmatch(text)
        if not match or match["verb"] in ("is", "are", "not") or match["whom"] in _NOBODY:
            return None
        atom = Atom(_verb(match["verb"]), (match["who"], match["whom"]))
    if match["who"] in _NOBODY:
        return None
    return Not(atom) if match["no"] else atom


def _verb(word: str) -> str:
    return word.removesuffix("s")


def _all(parts: list[Formula]) -> Formula:
    formula = parts[0]
    for part in parts[1:]:
        formula = And(formula, part)
    return formula
