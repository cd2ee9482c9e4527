"""Clauses of English read back as literals and rules: `Rex is a dax`, `no dax is red`, `if something is old, it is a wug`.

Wordings that the world does not write itself ("all daxes are red", "a dax is red") are read too. A clause that fits no
form, or names what the problem does not, raises `UnreadableError`, whose text is the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from footfall.worlds._logic_text import VERBS
from footfall.worlds._logic_theory import Literal, Rule, Theory

__all__ = ["Clause", "ClauseReader", "UnreadableError"]

Clause: TypeAlias = "Literal | Rule"

_NOT = r"(?P<no>(?: not|n't))?"
_IS = rf"(?:is|are){_NOT}(?: an?)? (?P<what>\w+)"
_COPULA = re.compile(rf"(?P<who>\w+) {_IS}")
_ACTION = re.compile(r"(?P<who>\w+) (?P<no>(?:does not|doesn't) )?(?P<verb>\w+) (?P<whom>\w+)")
_KIND = re.compile(rf"(?P<all>every|each|any|all|no|an?) (?P<kind>\w+) {_IS}")
_RELATIVE = re.compile(rf"(?P<all>every|any|no|all|what|who)(?:thing|body| one|one|ever)?(?: things?)? "
                       rf"(?:that|which|who)? ?(?P<about>.+?) {_IS}")  # fmt: skip
_PLURAL = re.compile(rf"(?P<all>)(?P<kind>\w+) are{_NOT} (?P<what>\w+)")
_TRUE = re.compile(r"(?:the |this )?(?:statement|claim)(?: that)? '?(?P<said>.+?)'? is (?P<so>true|false)")
_IF = re.compile(r"if (?P<body>.+?),? then (?P<head>.+)|if (?P<body2>.+?), (?P<head2>.+)")
_ABOUT = re.compile(r"(?:some|any)(?:thing|one|body) (?P<about>.+)")
_IT = re.compile(rf"(?:it|they|he|she|that thing) {_IS}")
_PART_IS = re.compile(r"(?:(?:it|that|they) )?(?:(?:is|are) )?(?:an? |both )?(?P<what>\w+)")
_PART_DOES = re.compile(r"(?:(?:it|that|they) )?(?P<verb>\w+) (?:an? |something |someone )(?:that is )?(?P<what>\w+)")


class UnreadableError(Exception):
    """A text cannot be read; the message is the reason."""


@dataclass(frozen=True)
class ClauseReader:
    """Reads clauses with the names and predicates of one theory."""

    names: dict[str, str]
    predicates: frozenset[str]

    @classmethod
    def of(cls, theory: Theory) -> ClauseReader:
        return cls({name.lower(): name for name in theory.individuals}, theory.predicates)

    def read(self, text: str) -> Clause:
        """The literal or rule that a clause states."""
        forms: tuple[Callable[[str], Clause | None], ...] = (
            self._if, self._kind, self._relative, self._called, self.literal
        )  # fmt: skip
        for form in forms:
            found = form(text)
            if found is not None:
                return found
        raise UnreadableError(f"cannot read {text!r} as a fact or a rule")

    def read_list(self, text: str) -> list[Clause]:
        """One clause, or several joined by "and" or commas; every cut is tried."""
        try:
            return [self.read(text)]
        except UnreadableError as reason:
            for left, right in _cuts(text):
                try:
                    first = self.read(left.replace(" both ", " "))
                    return [first, *self._rest(first, right)]
                except UnreadableError:
                    continue
            raise reason

    def _rest(self, first: Clause, text: str) -> list[Clause]:
        """The clauses after "and"; "Rex is a dax and red" leaves the second subject out."""
        try:
            return self.read_list(text)
        except UnreadableError:
            if isinstance(first, Rule) or len(first.args) > 1:
                raise
            return self.read_list(f"{first.args[0].lower()} is {text}")

    def literal(self, text: str) -> Literal | None:
        match = _COPULA.fullmatch(text)
        if match:
            if match["who"] not in self.names:
                raise UnreadableError(f"{match['who']!r} is nobody in the problem")
            return Literal(self._word(match["what"]), (self.names[match["who"]],), not match["no"])
        match = _ACTION.fullmatch(text)
        if match and match["who"] in self.names and match["whom"] in self.names:
            args = (self.names[match["who"]], self.names[match["whom"]])
            return Literal(self._verb(match["verb"]), args, not match["no"])
        return None

    def _word(self, word: str) -> str:
        """A noun or adjective of the problem; the plural is the same word."""
        for form in (word, word.removesuffix("s"), word.removesuffix("es")):
            if form in self.predicates and form not in VERBS:
                return form
        raise UnreadableError(f"the problem says nothing of {word!r}")

    def _verb(self, word: str) -> str:
        for form in (word, word.removesuffix("s")):
            if form in self.predicates and form in VERBS:
                return form
        raise UnreadableError(f"the problem says nothing of {word!r}")

    def _called(self, text: str) -> Literal | None:
        """`the statement that Rex is a dax is false`."""
        match = _TRUE.fullmatch(text)
        found = self.literal(match["said"]) if match else None
        return found.opposite if found and match and match["so"] == "false" else found

    def _kind(self, text: str) -> Rule | None:
        match = _KIND.fullmatch(text) or _PLURAL.fullmatch(text)
        if not match or match["kind"] in ("thing", "one"):
            return None
        return _general((Literal(self._word(match["kind"]), ("X",)),), self._word(match["what"]), match)

    def _relative(self, text: str) -> Rule | None:
        match = _RELATIVE.fullmatch(text)
        return _general(self._conditions(match["about"]), self._word(match["what"]), match) if match else None

    def _if(self, text: str) -> Rule | None:
        match = _IF.fullmatch(text)
        if not match:
            return None
        body, head = match["body"] or match["body2"], match["head"] or match["head2"]
        about, it = _ABOUT.fullmatch(body), _IT.fullmatch(head)
        if about and it:
            return Rule(self._conditions(about["about"]), Literal(self._word(it["what"]), ("X",), not it["no"]))
        given, then = self.read_list(body), self.read(head)
        literals = tuple(item for item in given if isinstance(item, Literal) and item.positive)
        if len(literals) < len(given) or not isinstance(then, Literal):
            raise UnreadableError(f"cannot read {text!r} as a rule")
        return Rule(literals, then)

    def _conditions(self, text: str) -> tuple[Literal, ...]:
        """What a rule asks of X: `is a dax and red`, `chases a dax`."""
        found: list[Literal] = []
        for part in re.split(r",? and |, ", text):
            does = _PART_DOES.fullmatch(part)
            if does and does["verb"] not in ("is", "are"):
                found += [Literal(self._verb(does["verb"]), ("X", "Y")), Literal(self._word(does["what"]), ("Y",))]
                continue
            match = _PART_IS.fullmatch(part)
            if not match:
                raise UnreadableError(f"cannot read the condition {part!r}")
            found.append(Literal(self._word(match["what"]), ("X",)))
        return tuple(found)


def _general(body: tuple[Literal, ...], what: str, match: re.Match[str]) -> Rule:
    return Rule(body, Literal(what, ("X",), (match["all"] == "no") == bool(match["no"])))


def _cuts(text: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r",? and (?:that )?|, ", text):
        yield text[: match.start()], text[match.end() :]
