"""A scripted writer for the code world, with mutation rates as parameters and exact prefix values.

V(program so far) = Σ_line P(line) · V(program so far + line),   V(whole program) = 1[it passes every test]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

from footfall.registry import Declared, register
from footfall.types import Problem, Trajectory
from footfall.worlds.code.language import Line
from footfall.worlds.code.task import Task, task_of
from footfall.worlds.code.world import ANSWER, START, State, advance, answer_text
from footfall.worlds.scripted import Move, ScriptedPolicy, Writer


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


@register("policy", "scripted-code", Declared(weightless=True))
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
