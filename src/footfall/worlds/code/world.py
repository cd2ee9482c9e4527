"""The code world: small Python functions by seed, a checker for any line, and traces to train on.

Its scripted writer has mutation rates as parameters and exact prefix values:

    V(program so far) = Σ_line P(line) · V(program so far + line),   V(whole program) = 1[it passes every test]
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from random import Random
from typing import Any, ClassVar, cast

from footfall.registry import Declared, register
from footfall.types import Json, Problem, Trajectory
from footfall.worlds.code.language import FUNCTIONS, Line, Value, parse, read_line
from footfall.worlds.code.reading import (
    ANSWER,
    START,
    State,
    Truths,
    advance,
    answer_text,
    stated_answer,
    truths_of,
)
from footfall.worlds.code.run import ERROR, build, output
from footfall.worlds.code.task import Task, task_of
from footfall.worlds.code.templates import FAMILIES, HARD_FAMILIES, Draft, draw_program
from footfall.worlds.scripted import Move, ScriptedPolicy, Writer
from footfall.worlds.world import (
    Split,
    StepTruth,
    World,
    first_wrong,
    problem_id,
    require,
    split_of,
)


@register("world", "code", Declared(verifier=("execution", {"run": "world"})))
@dataclass(frozen=True, slots=True)
class CodeWorld(World):
    """Small Python functions with unit tests, written line by line; every line can be checked.

    A trace is a program, one statement a step, and a last comment that states what it gives on the tests. Everything is
    run by an interpreter of the world's own for a tiny part of Python; no text is ever handed to Python itself.
    """

    domain: ClassVar[str] = "code"
    remedy: ClassVar[str] = "allow more families"
    hard: ClassVar[Mapping[str, Any]] = {"families": tuple(HARD_FAMILIES)}

    families: tuple[str, ...] = tuple(FAMILIES)
    """Kinds of programs: `fold`, `index` and `extreme` of lists, `digits` of numbers, `strings`, `branches`; of the harder
    tier `nested`, `capped` and `peaks`."""
    tests: int = 6
    """Unit tests of a problem; with few of them more mistakes pass."""
    shown: int = 2
    """How many of them the prompt shows with their results."""
    trap_rate: float = 0.3
    """Share of problems in which one line is marked as a trap; where the tests see no mistake in it there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "families", tuple(self.families))
        there = (*FAMILIES, *HARD_FAMILIES)
        unknown = [name for name in self.families if name not in there]
        if unknown or not self.families:
            raise ValueError(f"CodeWorld has the families {', '.join(there)}; got {', '.join(unknown) or 'none'}")
        sizes = 0 <= self.shown <= self.tests <= 20 and self.tests >= 1
        rules = {
            "0 <= shown <= tests and 1 <= tests <= 20": sizes,
            "0 <= trap_rate <= 1": 0 <= self.trap_rate <= 1,
        }
        require(self, rules)

    def answer(self, trajectory: Trajectory) -> str | None:
        """What the program gives on the tests, as `[a, b, …]`; `None` while the trace states no answer.

        It is run, not believed: a stated answer that the program does not give is not its answer.
        """
        state = self._truths(trajectory).read(trajectory.steps)[1]
        return None if state.answer is None else answer_text(task_of(trajectory.problem), state)

    def graded(self, trajectory: Trajectory) -> Trajectory:
        """The trace with its program run on the tests. `correct` is `None` for Python that the world cannot run.

        Such a program is for a sandbox to run; text that is no Python at all is wrong.
        """
        task = task_of(trajectory.problem)
        state = self._truths(trajectory).read(trajectory.steps)[1]
        answer = None if state.answer is None else answer_text(task, state)
        return replace(trajectory, answer=answer, correct=_outcome(task, state, trajectory))

    def check(self, trajectory: Trajectory) -> list[StepTruth]:
        """The class of every step, whatever its text.

        The checker keeps the program so far and the slot of the reference that is due (at first the `def` line).
        A trace is *alive* if the grammar (each due line right, with one of its mistakes, or left out if it is an
        update) has a completion that passes every test. A step is RIGHT if the trace is alive after it, even if it was
        not before; WRONG if it was alive before and is not any more. In a trace that is not alive a step is CONSEQUENT if
        it is the reference's line, changes nothing or states truly what the program gives, otherwise WRONG.
        A line is placed by the first rule that fits:
        1. it is a line of the due slot, or of a later one where all between may be left out: that slot is done;
        2. it has the kind of statement and the variable of the due slot: it is another version of that line;
        3. it is a line of any later slot: those between were skipped;
        4. it is a `return` of the function's own block: the program is complete;
        5. anything else is inserted, and the due slot stays due.
        Blank lines and comments change nothing. A line outside the tiny language breaks the program: it is never alive
        again. An answer ("# The answer is [...].") is WRONG before the program is complete or if the program does not
        give it. Everything after an answer is WRONG.
        """
        return self._truths(trajectory).read(trajectory.steps)[0]

    def first_error(self, trajectory: Trajectory) -> int:
        """0-based index of the first wrong step, -1 if there is none."""
        return first_wrong(self.check(trajectory))

    def _truths(self, trajectory: Trajectory) -> Truths:
        return truths_of(task_of(trajectory.problem))

    def draw(self, rng: Random, split: Split) -> Problem | None:
        draft = draw_program(rng, self.families)
        return self._problem(draft, rng) if split_of(_meaning(draft)) == split else None

    def _problem(self, draft: Draft, rng: Random) -> Problem | None:
        """The problem with its tests; `None` if the program fails on one or gives the same for all."""
        inputs = self._inputs(draft, rng)
        read = [read_line(line) for line in draft.lines]
        function = build([line for line in read if line is not None])
        outputs = [output(function, arguments) for arguments in inputs]
        if ERROR in outputs or (len(set(outputs)) == 1 and self.tests > 1):
            return None
        signature = draft.lines[0].removeprefix("def ").rstrip(":")
        calls = [f"{signature.partition('(')[0]}({', '.join(map(repr, arguments))})" for arguments in inputs]
        prompt = _prompt(draft.words, signature, calls, outputs, self.shown)
        meta: dict[str, Json] = {"program": list(draft.lines), "inputs": cast("list[Json]", inputs)}
        if rng.random() < self.trap_rate:
            meta["trap"] = rng.randrange(1, len(draft.lines))
        name = problem_id(self.domain, f"{prompt} {meta.get('trap')}")
        return Problem(name, prompt, f"[{', '.join(outputs)}]", self.domain, meta=meta)

    def _inputs(self, draft: Draft, rng: Random) -> list[list[Value]]:
        """Different inputs, unless the program has too few."""
        found: list[list[Value]] = []
        for spare in range(50, -self.tests, -1):
            given = draft.draw_input(rng)
            if given not in found or spare < 0:
                found.append(given)
            if len(found) == self.tests:
                break
        return found


def _prompt(words: str, signature: str, calls: list[str], outputs: list[str], shown: int) -> str:
    examples = "".join(f"\n{call} == {result}" for call, result in zip(calls[:shown], outputs, strict=False))
    asked = ", ".join(calls)
    return (
        f"Write a Python function {signature} that returns {words}.{examples}\n"
        f'End with a comment "# The answer is [...]." that lists what it gives for {asked}.'
    )


_WORD = re.compile(r"'[^']*'|[A-Za-z_]\w*")
_KEPT = frozenset(keyword.kwlist) | {"range", "len", "max", "append"}


def _meaning(draft: Draft) -> str:
    """What decides the split: the program alone, in which each name counts as the how-manieth new one it is."""
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        word = match[0]
        return word if word in _KEPT or word[0] == "'" else names.setdefault(word, f"v{len(names)}")

    return _WORD.sub(rename, "\n".join(draft.lines))


def in_reference_names(trajectory: Trajectory) -> Trajectory:
    """The trace with its variables called as in the reference: the first new name there is the first new name here, and so on.

    A problem does not say what variables are called, and `CodeWorld.check` knows the reference's names alone.
    """
    lines = [line for step in trajectory.steps for line in step.text.split("\n") if read_line(line) is not None]
    reference = _names(cast("list[str]", trajectory.problem.meta["program"]))
    own = _names(lines)
    names = dict(zip(own, reference, strict=False))
    # A name beyond those of the reference must not become one of them.
    names |= {name: f"{name}_" for name in own[len(reference) :] if name in reference}
    if all(name == new for name, new in names.items()):
        return trajectory
    steps = [
        replace(
            step, text=_WORD.sub(lambda match: names.get(match[0], match[0]), step.text), token_ids=None, logprobs=None
        )
        if stated_answer(step.text) is None
        else replace(step, token_ids=None, logprobs=None)
        for step in trajectory.steps
    ]
    return replace(trajectory, steps=tuple(steps), tokenizer=None)


def _names(lines: Sequence[str]) -> list[str]:
    """The names of a program in the order in which they come up; a function that it calls is none of its own."""
    found = [(match[0], line[match.end() : match.end() + 1] == "(") for line in lines for match in _WORD.finditer(line)]
    called = {word for word, calls in found if calls and word in FUNCTIONS}
    words = (word for word, _ in found if word not in _KEPT and word not in called)
    return list(dict.fromkeys(word for word in words if word[0] != "'"))


def _outcome(task: Task, state: State, trajectory: Trajectory) -> bool | None:
    if not state.broken:
        return state.answer is not None and task.passes(state.program)
    return False if parse(trajectory.text) is None else None


class CodeWriter(Writer[State]):
    """Writes one problem's traces, a line at a time."""

    def __init__(self, rates: CodePolicy, task: Task) -> None:
        super().__init__(f"[{', '.join(task.expected)}]")
        self.rates = rates
        self.task = task
        self._values: dict[State, float] = {}

    def read(self, prefix: Trajectory) -> State:
        state = START
        for step in prefix.steps:
            state = advance(self.task, state, step.text)
        return state

    def moves(self, state: State) -> list[Move[State]]:
        """The lines that may come next, or the answer when all are written. A move's kind is the mistake made by it."""
        if state.due == len(self.task.slots):
            answer = answer_text(self.task, state)
            return [Move(1.0, "answer", (ANSWER,), state._replace(answer=answer), answer)]
        back = self._recovery(state)
        return [*back, *self._attempts(state, state.due, 1 - self.rates.recover * len(back))]

    def _move(self, state: State, probability: float, kind: str, line: Line, due: int) -> Move[State]:
        """The line; where it leads, with slot `due` due, is the same as reading the written line, only faster."""
        text = " " * line.indent + line.text
        return Move(probability, kind, (text,), State((*state.program, line), due, state.broken))

    def _recovery(self, state: State) -> list[Move[State]]:
        """Writing the last line again as it should be, if it set a wrong first value: that alone mends it."""
        if state.due == 0 or not state.program or self.rates.recover == 0:
            return []
        slot = self.task.slots[state.due - 1]
        again = self._move(state, self.rates.recover, "recover", slot.right, state.due)
        mends = state.program[-1] in slot.wrong.get("initial", ())
        return [again] if mends and advance(self.task, state, again.wordings[0]).due == state.due else []

    def _attempts(self, state: State, due: int, mass: float, left_out: bool = False) -> Iterator[Move[State]]:
        """The due line right or with a mistake; where it is left out, the next one comes at once."""
        if due == len(self.task.slots):
            return
        slot = self.task.slots[due]
        rates = {kind: float(getattr(self.rates, kind)) for kind in slot.wrong}
        skip = self.rates.missing if slot.omittable else 0.0
        if slot.trap is not None:
            yield self._move(state, mass * self.rates.trap, *slot.trap, due + 1)
            mass *= 1 - self.rates.trap
        right = mass * (1 - sum(rates.values()) - skip)
        yield self._move(state, right, "missing" if left_out else "right", slot.right, due + 1)
        for kind, lines in slot.wrong.items():
            for line in lines:
                yield self._move(state, mass * rates[kind] / len(lines), kind, line, due + 1)
        if skip:
            yield from self._attempts(state, due + 1, mass * skip, left_out=True)

    def value(self, state: State) -> float:
        """The exact probability that the program will pass every test."""
        if state.broken:
            return 0.0
        if state.answer is not None or state.due == len(self.task.slots):
            return float(self.task.passes(state.program))
        known = self._values.get(state)
        if known is None:
            known = sum(move.probability * self.value(move.after) for move in self.possible(state))
            self._values[state] = known
        return known

    def answers(self, state: State) -> dict[str, float]:
        found: dict[str, float] = {}
        waiting = [(1.0, state)]
        while waiting:
            mass, at = waiting.pop()
            if at.answer is not None:
                found[at.answer] = found.get(at.answer, 0.0) + mass
            else:
                waiting += [(mass * move.probability, move.after) for move in self.possible(at)]
        return found

    def tokens(self, text: str) -> int:
        """Indentation is no token."""
        return len(text.split()) + 1


@register("policy", "scripted-code", Declared(weightless=True, tempered=False))
@dataclass(frozen=True, slots=True)
class CodePolicy(ScriptedPolicy[CodeWriter]):
    """Writes small programs line by line with given rates of mistakes; the true value of any prefix is known.

    After any prefix the writer stands at a slot of the reference program, as `CodeWorld.check` reads it. There it
    1. writes the last line again as it should be with probability `recover`, if that line set a wrong first value;
    2. otherwise falls into the line's trap with probability `trap`, if the problem has one there: one mistake that most
       writers make, so that a vote among them is wrong;
    3. otherwise makes each kind of mistake that the due line allows with its probability: a wrong `operator`, a bound or
       constant `off_by_one`, a wrong `variable`, a wrong `initial` value, an update that is `missing`. A kind with two
       wrong lines has them evenly. A line that allows fewer kinds is right more often;
    4. states what its program gives on the tests as the answer, when all lines are written, and ends.
    Temperature 0 takes the likeliest line; any other temperature, top_p and top_k change nothing. A token is a word
    between spaces, or the separator after a step.
    """

    operator: float = 0.08
    off_by_one: float = 0.08
    variable: float = 0.05
    initial: float = 0.1
    missing: float = 0.08
    recover: float = 0.15
    trap: float = 0.65

    def __post_init__(self) -> None:
        ScriptedPolicy.__post_init__(self)
        if sum(astuple(self)[:5]) > 1:
            raise ValueError(f"the rates of mistakes of one line must not add up to more than 1: {self}")

    def new_writer(self, problem: Problem) -> CodeWriter:
        return CodeWriter(self, task_of(problem))
