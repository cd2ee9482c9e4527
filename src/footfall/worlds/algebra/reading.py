"""What an algebra problem means, and how a trace of it is read: the equations in a step, its class, what is claimed after it.

The checker and the scripted policy share this file. The rules are written down in `AlgebraWorld.said`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from footfall.types import Problem, Step
from footfall.worlds.algebra.relation import (
    Poly,
    Relation,
    choice,
    constant,
    equation,
    factored,
    rational_roots,
    read_relation,
    variable,
)
from footfall.worlds.world import Said, StepTruth, UnreadableError, read_steps, require_meta, worst

Kind: TypeAlias = Literal["linear", "system", "quadratic"]
NO_SOLUTION = "no solution"
_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "–": "-", "·": "*", "²": "^2", "$": " "})
_LATEX = re.compile(
    r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}|\\(cdot|times|pm)|\\boxed\s*\{([^{}]*)\}|\\[()\[\],;! ]|\\(?:left|right|quad)\b"
)
_ARROW = re.compile(r"<?[=-]>|[⇒→⟹⇔]|\\(?:implies|Rightarrow|iff|to)\b|\*\*")
_VALUE = r"-?\d+(?:[./]\d+)?"
_LISTED = re.compile(
    rf"\bx\s*=\s*({_VALUE})((?:\s*(?:,\s*or|,\s*and|,|or|and)\s*{_VALUE})+)(?=\s*(?:[.;]?\s*$|[.;]\s))"
)
_PAIR = re.compile(rf"\(\s*(?:x\s*,\s*y\s*\)\s*=\s*\(\s*)?({_VALUE})\s*,\s*({_VALUE})\s*\)")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)]|\*\*)\s+")
_PIECE = r"(?:\d+(?:\.\d+)?|(?<![A-Za-z])[xy](?![A-Za-z])|[-+*/^()=±])"
_SPAN = re.compile(rf"{_PIECE}(?:\s*{_PIECE})*")
_ANSWER = re.compile(r"\banswers? (?:is|are)\s*:?\s*(.+)$", re.IGNORECASE | re.DOTALL)
_OR = re.compile(r"\s*,?\s*(?:or|and|,)\s*", re.IGNORECASE)
_ONE_CASE = re.compile(
    r"\b(?:if|when|case|suppose|either|(?:one|first|second|other) (?:root|factor|solution))\b", re.IGNORECASE
)
_VERB = re.compile(r"\b(?:add|subtract|multipl|divid)\w*", re.IGNORECASE)
_DOES = re.compile(
    r"\b(?:(add|subtract)(?:ing)? ([-+\dxy/.()^* ]+?) (?:to|from) both sides"
    r"|(multiply|divid)(?:ing|e)? both sides by (-?[\d/.()]+)(?![\d/.()xy]|\s*[-+*/^]))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Equations:
    """The equations of one problem as they are written, and whether the text says them in words."""

    kind: Kind
    texts: tuple[str, ...]
    worded: bool
    answer: str
    solution: tuple[tuple[str, Fraction], ...]
    """The values of the unknowns; the roots of a quadratic one after the other."""

    given: tuple[Relation, ...] = field(init=False, repr=False, compare=False)
    meaning: Poly = field(init=False, repr=False, compare=False)
    """Of the first equation; for one unknown that is the whole problem."""

    def __post_init__(self) -> None:
        given = tuple(read_relation(text)[0] for text in self.texts)
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "meaning", given[0].meaning)

    @property
    def unknowns(self) -> tuple[str, ...]:
        return ("x", "y") if self.kind == "system" else ("x",)

    def holds(self, relation: Relation) -> bool:
        """Whether the relation has the problem's solutions: the same ones in one unknown, the one point in two."""
        if self.kind != "system":
            return relation.meaning == self.meaning
        values: dict[str, Poly] = {name: constant(value) for name, value in self.solution}
        return not relation.zero.at(**values).terms


def algebra_of(problem: Problem) -> Equations:
    """Read what `AlgebraWorld.problems` left in the problem's `meta`."""
    require_meta(problem, "algebra", "kind", "equations", "worded", "solution")
    meta = problem.meta
    if meta["kind"] not in get_args(Kind):
        raise ValueError(f"problem {problem.id!r}: meta['kind'] is {meta['kind']!r}; want one of {get_args(Kind)}")
    texts = tuple(str(text) for text in cast("Sequence[str]", meta["equations"]))
    solution = tuple(
        (str(name), Fraction(str(value))) for name, value in cast("Sequence[Sequence[str]]", meta["solution"])
    )
    if len(texts) != (2 if meta["kind"] == "system" else 1):
        raise ValueError(
            f"problem {problem.id!r}: meta['equations'] has {len(texts)}; want 2 for a system, otherwise 1"
        )
    try:
        return Equations(cast(Kind, meta["kind"]), texts, bool(meta["worded"]), str(problem.answer), solution)
    except UnreadableError as reason:
        raise ValueError(f"problem {problem.id!r}: meta['equations'] cannot be read: {reason}") from reason


class State(NamedTuple):
    """Where a trace stands: the relations it has stated, and its answer."""

    claims: tuple[Relation, ...] = ()
    answer: str | None = None


def read_trace(problem: Equations, steps: Sequence[Step]) -> tuple[list[Said], State]:
    """The class of every step, and the state after the last one."""
    return read_steps(partial(read_step, problem), State(), steps)


def read_step(problem: Equations, state: State, text: str) -> tuple[Said, State]:
    """A step is as bad as the worst relation in it; a step with none, or with one that cannot be read, is open."""
    plain = _plain(text)
    match = _ANSWER.search(plain)
    work = plain[: match.start()] if match else plain
    found: list[Said] = []
    if "=" in work or not match:
        said, state = _read_work(problem, state, work)
        found.append(said)
    if match:
        said, state = _read_answer(problem, state, match[1])
        found.append(said)
    return worst(found), state


def _plain(text: str) -> str:
    def latex(match: re.Match[str]) -> str:
        if match[1] is not None:
            return f"(({match[1]})/({match[2]}))"
        return match[4] or {"cdot": "*", "times": "*", "pm": "±"}.get(match[3] or "", " ")

    def listed(match: re.Match[str]) -> str:
        return f"x = {match[1]}" + "".join(f" or x = {value}" for value in re.findall(_VALUE, match[2]))

    # A box may hold a fraction, so LaTeX is taken away from the inside out.
    plain = _LATEX.sub(latex, _LATEX.sub(latex, _ARROW.sub(" ; ", text.translate(_SIGNS))))
    return _LISTED.sub(listed, _BULLET.sub("", plain))


def _read_work(problem: Equations, state: State, text: str) -> tuple[Said, State]:
    try:
        relations = _relations(text)
    except UnreadableError as reason:
        return Said(None, str(reason)), state
    if not relations:
        return Said(None, "the step states no equation"), state
    if state.answer is not None:
        return Said(StepTruth.WRONG, "the answer is already stated"), state
    found = _does_what_it_says(problem, state.claims, text, relations)
    one_case = problem.kind == "quadratic" and _speaks_of_one_case(relations, text)
    for relation in relations:
        said = _check(problem, state.claims, relation)
        if said.truth is StepTruth.WRONG and one_case:
            said = Said(None, f"{str(relation)!r} may be meant for one case only")
        found.append(said)
        if said.truth is not None and relation.zero.names:
            state = state._replace(claims=(*state.claims, relation))
    return worst(found), state


def _speaks_of_one_case(relations: Sequence[Relation], text: str) -> bool:
    """Whether a step treats one factor by itself ("If x - 2 = 0", "x - 2 = 0 gives x = 2")."""
    linear = [each for each in relations if each.zero.degree == 1 and not _is_choice(each)]
    return bool(linear) or _ONE_CASE.search(text) is not None


def _relations(text: str) -> list[Relation]:
    """All relations in a text; those joined by "or", and several values of one unknown, are a choice."""
    found: list[Relation] = []
    numbers: list[Relation] = []
    before = -1
    spans = [span for span in _SPAN.finditer(text) if "=" in span[0]]
    if sum(span[0].count("=") for span in spans) != text.count("="):
        raise UnreadableError("an equation cannot be read")
    for span in spans:
        signs = ("+", "-") if "±" in span[0] else ("+",)
        chain = [relation for sign in signs for relation in read_relation(span[0].replace("±", sign))]
        read = [relation for relation in chain if relation.zero.names]
        numbers += [relation for relation in chain if not relation.zero.names]
        joined = _OR.fullmatch(text[before : span.start()]) if found and before >= 0 else None
        if len(signs) == 2 and read:
            read = [_either(read)]
        if joined and len(read) == 1 and _alternative(found[-1], read[0], joined[0]):
            found[-1] = _either([found[-1], read[0]])
        else:
            found += read
        before = span.end()
    return found + numbers


def _alternative(first: Relation, second: Relation, joint: str) -> bool:
    """Whether two joined relations are alternatives: by "or", or because both give a value for the same unknown."""
    if first.zero.names != second.zero.names or len(second.zero.names) != 1:
        return False
    return "or" in joint.lower() or (_is_choice(first) and _is_choice(second))


def _is_choice(relation: Relation) -> bool:
    return relation.form == "choice" or (relation.sides[0] == variable("x") and not relation.sides[1].names)


def _either(relations: list[Relation]) -> Relation:
    if all(_is_choice(relation) for relation in relations):
        return choice(*(root.coefficient() for each in relations for root in each.sides[each.form == "equation" :]))
    return factored(*(relation.zero for relation in relations))


def _check(problem: Equations, claims: Sequence[Relation], relation: Relation) -> Said:
    zero, words = relation.zero, str(relation)
    if not zero.names:
        good = not zero.terms
        return Said(StepTruth.RIGHT if good else StepTruth.WRONG, f"{words!r} is {'true' if good else 'false'}")
    if zero.degree > (1 if problem.kind == "system" else 2) or not set(zero.names) <= set(problem.unknowns):
        return Said(None, f"{words!r} is not about the unknowns of the problem, or of too high a power")
    if problem.holds(relation):
        return Said(StepTruth.RIGHT, f"{words!r} has the right solutions")
    if _follows(problem, claims, relation):
        return Said(StepTruth.CONSEQUENT, f"{words!r} follows only from an earlier wrong equation")
    return Said(StepTruth.WRONG, f"{words!r} does not follow")


def _follows(problem: Equations, claims: Sequence[Relation], relation: Relation) -> bool:
    """Whether it says the same as an earlier claim that stands, or is a combination of two equations of a system."""
    claims = _standing(problem, claims)
    if any(claim.meaning == relation.meaning for claim in claims):
        return True
    if problem.kind != "system":
        return False
    rows = [*problem.given, *claims]
    return any(_combines(first.zero, second.zero, relation.zero) for first, second in combinations(rows, 2))


def _standing(problem: Equations, claims: Sequence[Relation]) -> list[Relation]:
    """The claims without the wrong ones that were mended: a true relation in the same unknowns was stated after them."""
    standing: list[Relation] = []
    wrong: list[Relation] = []
    for claim in claims:
        if not problem.holds(claim):
            wrong.append(claim)
        else:
            standing.append(claim)
            if any(other.zero.names == claim.zero.names for other in wrong):
                wrong = []
    return standing + wrong


def _combines(first: Poly, second: Poly, third: Poly) -> bool:
    """Whether two independent linear equations with one solution give the third: the third holds there."""
    a, b = (first.linear("x"), first.linear("y")), (second.linear("x"), second.linear("y"))
    determinant = a[0] * b[1] - a[1] * b[0]
    if determinant == 0:
        return False
    c, d = -first.coefficient(), -second.coefficient()
    x, y = (c * b[1] - a[1] * d) / determinant, (a[0] * d - c * b[0]) / determinant
    return not third.at(x=constant(x), y=constant(y)).terms


def _does_what_it_says(
    problem: Equations, claims: Sequence[Relation], text: str, relations: Sequence[Relation]
) -> list[Said]:
    """A step that names one operation on both sides must state its result on some earlier equation."""
    named = _DOES.search(text)
    stated = relations[0]
    if named is None or len(_VERB.findall(text)) != 1 or len(relations) != 1 or stated.form != "equation":
        return []
    verb = (named[1] or named[3]).lower()
    try:
        amount = read_relation(f"{(named[2] or named[4]).rstrip('.')} = 0")[0].sides[0]
    except UnreadableError:
        return []
    earlier = [relation for relation in (*problem.given, *claims) if relation.form == "equation"]
    results = [_operate(verb, amount, relation) for relation in earlier]
    if None in results or stated in results or Relation("equation", stated.sides[::-1]) in results:
        return []
    return [Said(StepTruth.WRONG, f"{named[0].lower()!r} does not give {str(stated)!r}")]


def _operate(verb: str, amount: Poly, relation: Relation) -> Relation | None:
    left, right = relation.sides
    if verb in ("add", "subtract"):
        sign = 1 if verb == "add" else -1
        return equation(left.plus(amount, sign), right.plus(amount, sign))
    if amount.names or not amount.terms:
        return None
    factor = amount.coefficient() if verb == "multiply" else 1 / amount.coefficient()
    return equation(left.scaled(factor), right.scaled(factor))


def _read_answer(problem: Equations, state: State, text: str) -> tuple[Said, State]:
    answer = _answer(problem, text)
    if answer is None:
        return Said(None, f"cannot read the answer {text.strip()!r}"), state
    after = state._replace(answer=answer)
    if state.answer is not None:
        return Said(StepTruth.WRONG, "the answer is already stated"), after
    if answer == problem.answer:
        return Said(StepTruth.RIGHT, "the answer is right"), after
    if answer in claimed_answers(problem, state.claims):
        return Said(StepTruth.CONSEQUENT, "the answer follows only from an earlier wrong equation"), after
    return Said(StepTruth.WRONG, f"{answer!r} is not the answer, and does not follow from what was stated"), after


def claimed_answers(problem: Equations, claims: Sequence[Relation]) -> list[str]:
    """The answers that the stated relations lead to, true or not."""
    if problem.kind != "system":
        roots = [rational_roots(claim.zero) for claim in claims]
        return [answer_text([("x", root) for root in found]) if found else NO_SOLUTION for found in roots]
    values: dict[str, list[Fraction]] = {"x": [], "y": []}
    for claim in claims:
        if claim.form == "equation" and len(claim.zero.names) == 1:
            name = claim.zero.names[0]
            values[name] += rational_roots(claim.zero, name) or ()
    return [answer_text([("x", x), ("y", y)]) for x in values["x"] for y in values["y"]]


def _answer(problem: Equations, text: str) -> str | None:
    text = text.strip().rstrip(".!")
    if text.lower() in ("no solution", "that there is no solution", "none"):
        return NO_SOLUTION
    pair = _PAIR.fullmatch(text)
    if pair and problem.kind == "system":
        text = f"x = {pair[1]}, y = {pair[2]}"
    try:
        relations = _relations(text)
        if not relations and problem.kind != "system":
            numbers = re.split(r"\s*(?:,|\bor\b|\band\b)\s*", text)
            relations = [_either([read_relation(f"x = {number}")[0] for number in numbers])]
    except UnreadableError:
        return None
    values: list[tuple[str, Fraction]] = []
    for relation in relations:
        names = relation.zero.names
        if relation.form == "choice":
            values += [("x", root.coefficient()) for root in relation.sides]
        elif len(names) == 1 and relation.sides[0] == variable(names[0]) and not relation.sides[1].names:
            values.append((names[0], relation.sides[1].coefficient()))
        else:
            return None
    return answer_text(values) if {name for name, _ in values} == set(problem.unknowns) else None


def answer_text(values: Sequence[tuple[str, Fraction]]) -> str:
    """`x = 2 or x = 3`, `x = 2, y = 3`."""
    joint = ", " if len({name for name, _ in values}) > 1 else " or "
    return joint.join(f"{name} = {value}" for name, value in sorted(set(values)))


def stated_answer(problem: Equations, steps: Sequence[Step]) -> str | None:
    """The answer stated last that can be read."""
    for step in reversed(steps):
        match = _ANSWER.search(_plain(step.text))
        answer = _answer(problem, match[1]) if match else None
        if answer is not None:
            return answer
    return None
