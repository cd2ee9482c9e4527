"""How the logic world reads a trace: what each step says, what class it has, what the trace has claimed after it.

The checker and the scripted policy share this file. The rules are written down in `LogicWorld.said`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from footfall.types import Step
from footfall.worlds._generated import Said, worst
from footfall.worlds._logic_clauses import Clause, ClauseReader, UnreadableError
from footfall.worlds._logic_text import clause, rule_words
from footfall.worlds._logic_theory import Knowledge, Literal, Question, Rule, Theory, known
from footfall.worlds.truth import StepTruth

__all__ = ["State", "read_step", "read_trace", "stated_answer", "truth_of_answer"]

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
    state, found = State(), []
    for step in steps:
        said, state = read_step(theory, question, state, step.text)
        found.append(said)
    return found, state


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
