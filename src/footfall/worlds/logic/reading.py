"""How the logic world reads a trace: what each step says, what class it has, what the trace has claimed after it.

The checker and the scripted policy share this file. The rules are written down in `LogicWorld.said`. Clauses of English
are read back as literals and rules: `Rex is a dax`, `no dax is red`, `if something is old, it is a wug`. Wordings that the
world does not write itself ("all daxes are red", "a dax is red") are read too. A clause that fits no form, or names what
the problem does not, raises `UnreadableError`, whose text is the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from footfall.types import Step
from footfall.worlds.logic.problem import (
    VERBS,
    Knowledge,
    Literal,
    Question,
    Rule,
    Theory,
    clause,
    known,
    rule_words,
)
from footfall.worlds.world import Said, StepTruth, UnreadableError, read_steps, worst

_SENTENCE_END = re.compile(r"(?<=[.;!])\s+|[.;!]$")
_LEAD = re.compile(
    r"^(?:(?:wait|no|now|then|next|first|second|third|finally|also|okay|ok|well|hmm|again|moreover|furthermore|indeed|actually|"
    r"step \d+|\d+[.)]|[-*])(?:[,:]\s*|\s+(?!that\b))|(?:so|therefore|thus|hence|consequently)[,:]?\s+|"
    r"(?:and )?(?:we (?:also )?(?:know|have|get|see|can conclude|conclude|can say)|it follows|it is given"
    r"|this means|that means)"
    r"(?: that|:)?\s+)"
)
_NEGATED_NO = re.compile(r"^no (?=\w+ (?:is|are)\b)")
_ANSWER = re.compile(r"\banswer is\s*:?\s*(?:that )?(.+)$")
_RETRACT = re.compile(
    r"(?:it does not follow|it doesn't follow|we cannot (?:conclude|say|know)|we can't (?:conclude|say|know)|nothing says)"
    r" (that|whether|if) (.+)"
)
_SINCE = re.compile(r"^(?:since|because|as|given that|given|from|by)(?: the (?:rule|fact)(?: that)?)? ")
_PLAINER = (
    (re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+"), ""),
    (re.compile(r"\s*\((?:given|a premise|premise|a fact|fact)\)"), ""),
    (re.compile(r"\s*\((?=(?:because|since|as|by) )"), ", "),
    (re.compile(r"[\"“”()]|\*\*"), ""),
    (re.compile(r"[‘’]"), "'"),
    (re.compile(r"\bmust be\b"), "is"),
    (re.compile(r"\b(?:cannot|can't) be\b"), "is not"),
    (re.compile(r"\s+"), " "),
)
"""How other writers' habits are turned into this world's."""
_BECAUSE = re.compile(r",? (?:because|since|as|by) ")
_SO = re.compile(
    r"[,;]? (?:and so|so|therefore|thus|hence|which means|this means|it follows|which implies|implies)(?: that)? "
)
_WORDS = ("true", "false", "unknown")

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
_NOT_BOTH = re.compile(r"(?: not|n't) both ")
_IT = re.compile(rf"(?:it|they|he|she|that thing) {_IS}")
_PART_IS = re.compile(r"(?:(?:it|that|they) )?(?:(?:is|are) )?(?:an? |both )?(?P<what>\w+)")
_PART_DOES = re.compile(r"(?:(?:it|that|they) )?(?P<verb>\w+) (?:an? |something |someone )(?:that is )?(?P<what>\w+)")


class State(NamedTuple):
    """Where a trace stands: what it has claimed beyond the given facts, whether it took a claim back, its answer."""

    claims: frozenset[Literal] = frozenset()
    retracted: bool = False
    answer: str | None = None


class _Argument(NamedTuple):
    """One sentence: what it states, and what it rests that on."""

    conclusions: list[Clause]
    supports: list[Clause]


def read_trace(theory: Theory, question: Question, steps: Sequence[Step]) -> tuple[list[Said], State]:
    """The class of every step, and the state after the last one."""
    return read_steps(partial(read_step, theory, question), State(), steps)


def read_step(theory: Theory, question: Question, state: State, text: str) -> tuple[Said, State]:
    """A step is as bad as the worst of its sentences; one that cannot be read leaves it open unless another is wrong."""
    found: list[Said] = []
    for sentence in _sentences(text):
        if state.answer is not None and not _ANSWER.search(sentence):
            found.append(Said(StepTruth.WRONG, "the answer is already stated"))
            continue
        try:
            said, state = _read_sentence(theory, question, state, sentence)
        except UnreadableError as reason:
            said = Said(None, str(reason))
        found.append(said)
    return worst(found), state


def _sentences(text: str) -> list[str]:
    plain = text.lower()
    for pattern, replacement in _PLAINER:
        plain = pattern.sub(replacement, plain)
    return [part.strip(" .;!") for part in _SENTENCE_END.split(plain) if part and part.strip(" .;!")]


def _read_sentence(theory: Theory, question: Question, state: State, sentence: str) -> tuple[Said, State]:
    answered = _ANSWER.search(sentence)
    if answered:
        return _read_answer(theory, question, state, answered[1])
    reader = _reader(theory)
    sentence = _strip(sentence)
    retracted = _RETRACT.fullmatch(sentence)
    if retracted:
        return _retract(theory, state, reader, retracted)
    argument = _argument(reader, sentence)
    said = worst(_check(theory, state.claims, argument))
    stated = {item for item in argument.conclusions if isinstance(item, Literal)}
    kept = {claim for claim in state.claims if claim.opposite not in stated}
    return said, state._replace(claims=frozenset(kept | (stated - set(theory.facts))))


def _strip(sentence: str) -> str:
    """Without "Wait,", "So" and "we know that" in front."""
    while True:
        match = None if _NEGATED_NO.match(sentence) else _LEAD.match(sentence)
        if not match:
            return sentence
        sentence = sentence[match.end() :]


def _argument(reader: ClauseReader, sentence: str) -> _Argument:
    """The sentence cut into conclusion and support at the first place where both can be read."""
    reason: UnreadableError | None = None
    for conclusion, support in _splits(sentence):
        try:
            supports = reader.read_list(_strip(support)) if support else []
            return _Argument(reader.read_list(_strip(conclusion)), supports)
        except UnreadableError as error:
            reason = error
    assert reason is not None, "a sentence has at least one reading"
    raise reason


def _splits(sentence: str) -> Iterator[tuple[str, str]]:
    since = _SINCE.match(sentence)
    if since:
        for comma in re.finditer(r", ", sentence):
            yield sentence[comma.end() :], sentence[since.end() : comma.start()]
    for match in _SO.finditer(sentence):
        yield sentence[match.end() :], sentence[: match.start()]
    for match in _BECAUSE.finditer(sentence):
        yield sentence[: match.start()], sentence[match.end() :]
    yield sentence, ""


def _check(theory: Theory, claims: frozenset[Literal], argument: _Argument) -> list[Said]:
    found = [_check_clause(theory, claims, item) for item in (*argument.conclusions, *argument.supports)]
    rules = tuple(item for item in argument.supports if isinstance(item, Rule))
    for item in argument.conclusions if rules else ():
        if isinstance(item, Literal) and not _gives(rules, theory, claims, item):
            found.append(Said(StepTruth.WRONG, f"the rule given does not lead to {clause(item)!r}"))
    return found


def _check_clause(theory: Theory, claims: frozenset[Literal], item: Clause) -> Said:
    words = clause(item) if isinstance(item, Literal) else rule_words(item)
    if _follows(known(theory), item):
        return Said(StepTruth.RIGHT, f"{words!r} follows from the premises")
    if claims and _follows(known(theory, claims), item):
        return Said(StepTruth.CONSEQUENT, f"{words!r} follows only with an earlier wrong claim")
    return Said(StepTruth.WRONG, f"{words!r} does not follow")


def _follows(knowledge: Knowledge, item: Clause) -> bool:
    return knowledge.entails(item) if isinstance(item, Literal) else knowledge.entails_rule(item)


def _gives(rules: tuple[Rule, ...], theory: Theory, claims: frozenset[Literal], literal: Literal) -> bool:
    """Whether the rules lead to the literal from everything else that is known or claimed."""
    negative = {fact for fact in (*theory.facts, *claims) if not fact.positive}
    facts = (known(theory, claims).atoms | negative) - {literal}
    return Knowledge(Theory(tuple(sorted(facts)), rules)).entails(literal) or literal in theory.facts


def _retract(theory: Theory, state: State, reader: ClauseReader, match: re.Match[str]) -> tuple[Said, State]:
    literal = reader.literal(match[2])
    if literal is None:
        raise UnreadableError(f"cannot read {match[2]!r} as a fact")
    denied = (literal,) if match[1] == "that" else (literal, literal.opposite)
    after = state._replace(claims=state.claims - set(denied), retracted=True)
    for each in denied:
        if known(theory).entails(each):
            return Said(StepTruth.WRONG, f"{clause(each)!r} does follow"), after
    return Said(StepTruth.RIGHT, f"{clause(literal)!r} indeed does not follow"), after


def _read_answer(theory: Theory, question: Question, state: State, text: str) -> tuple[Said, State]:
    answer = _answer(_reader(theory), text)
    if answer is None:
        raise UnreadableError(f"cannot read the answer {text!r}")
    after = state._replace(answer=answer)
    if state.answer is not None:
        return Said(StepTruth.WRONG, "the answer is already stated"), after
    return truth_of_answer(theory, question, state.claims, answer), after


def truth_of_answer(theory: Theory, question: Question, claims: frozenset[Literal], answer: str) -> Said:
    """RIGHT if it is the answer by the premises, CONSEQUENT if it is with the claims."""
    if answer in _decided(known(theory), question):
        return Said(StepTruth.RIGHT, "the premises decide it so")
    if claims and answer in _decided(known(theory, claims), question):
        return Said(StepTruth.CONSEQUENT, "it is so only with an earlier wrong claim")
    return Said(StepTruth.WRONG, f"{answer!r} is not what the premises say")


def _decided(knowledge: Knowledge, question: Question) -> list[str]:
    """The answers that are right by some knowledge."""
    if len(question.options) > 1:
        return [clause(option) for option in question.options if knowledge.entails(option)]
    held, denied = (knowledge.entails(target) for target in question.targets)
    return [word for word, so in (("true", held), ("false", denied)) if so] or ["unknown"]


def _answer(reader: ClauseReader, text: str) -> str | None:
    text = text.strip(" .:!*")
    if text in _WORDS:
        return text
    try:
        literal = reader.literal(text)
    except UnreadableError:
        return None
    return None if literal is None else clause(literal)


def stated_answer(theory: Theory, steps: Sequence[Step]) -> str | None:
    """The answer stated last that can be read."""
    for step in reversed(steps):
        for sentence in reversed(_sentences(step.text)):
            match = _ANSWER.search(sentence)
            answer = _answer(_reader(theory), match[1]) if match else None
            if answer is not None:
                return answer
    return None


@lru_cache(maxsize=1024)
def _reader(theory: Theory) -> ClauseReader:
    return ClauseReader.of(theory)


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
                    first = self.read(left if _NOT_BOTH.search(left) else left.replace(" both ", " "))
                    rest = self._rest(first, right)
                    comma = text[len(left)] == ","
                    return [first, *(rest if comma else _apart(first, rest))]
                except UnreadableError:
                    continue
            raise reason

    def _rest(self, first: Clause, text: str) -> list[Clause]:
        """The clauses after "and"; "Rex is a dax and red" leaves the second subject out.

        "Rex is not a dax and red" may deny either of them or both at once, and is not read.
        """
        try:
            return self.read_list(text)
        except UnreadableError:
            if isinstance(first, Rule) or len(first.args) > 1 or not (first.positive or text.startswith("not ")):
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


def _apart(first: Clause, rest: list[Clause]) -> list[Clause]:
    """The clauses after "and" without a comma, if they stand apart from the one before it.

    "If Tim is red, then Tim is a dax and Tim is a wug" does not say that Tim is a wug; after a rule about named things
    only its own conditions are taken as facts ("… then Tim is a dax and Tim is red").
    """
    if isinstance(first, Rule) and not first.variables:
        for item in rest:
            if isinstance(item, Literal) and item not in first.body:
                raise UnreadableError(f"{clause(item)!r} may be stated, or only follow from the condition before it")
    return rest


def _cuts(text: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r",? and (?:that )?|, ", text):
        yield text[: match.start()], text[match.end() :]
