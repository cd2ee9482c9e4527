"""A scripted writer for the code world, with mutation rates as parameters and exact prefix values.

V(program so far) = Σ_line P(line) · V(program so far + line),   V(whole program) = 1[it passes every test]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from footfall.registry import register
from footfall.types import Problem, Trajectory
from footfall.worlds.code.language import Line
from footfall.worlds.code.reading import ANSWER, START, State, advance, answer_text
from footfall.worlds.code.task import Kind, Task, task_of
from footfall.worlds.scripted import ScriptedPolicy, Writer

MoveKind: TypeAlias = Literal["right", "recover"] | Kind


class Move(NamedTuple):
    """One line that can be written next. `kind` is the mistake that is made by it."""

    probability: float
    kind: MoveKind
    line: Line
    due: int
    """The slot that is due then."""

    @property
    def text(self) -> str:
        return " " * self.line.indent + self.line.text


class CodeWriter(Writer[State]):
    """Writes one problem's traces. Moves and values of visited states are kept: the second completion is cheap."""

    def __init__(self, rates: CodePolicy, task: Task) -> None:
        self.rates = rates
        self.task = task
        self._moves: dict[tuple[int, Line | None], list[Move]] = {}
        self._values: dict[State, float] = {}

    def state_after(self, prefix: Trajectory) -> State:
        state = START
        for step in prefix.steps:
            state = advance(self.task, state, step.text)
        return state

    def moves(self, state: State) -> list[Move]:
        """All lines that may come next, with probabilities that add up to 1; none when only the answer is left."""
        where = state.due, state.program[-1] if state.program else None
        known = self._moves.get(where)
        if known is None:
            back = self._recovery(state)
            rest = 1 - self.rates.recover * len(back)
            known = self._moves[where] = [*back, *self._attempts(state.due, rest)]
        return known

    def _recovery(self, state: State) -> list[Move]:
        """Writing the last line again as it should be, if it set a wrong first value: that alone mends it.

        It depends on the due slot and the last line only; `moves` is kept by these.
        """
        if state.due == 0 or not state.program or self.rates.recover == 0:
            return []
        slot = self.task.slots[state.due - 1]
        again = Move(self.rates.recover, "recover", slot.right, state.due)
        mends = state.program[-1] in slot.wrong.get("initial", ())
        return [again] if mends and advance(self.task, state, again.text).due == state.due else []

    def _attempts(self, due: int, mass: float, left_out: bool = False) -> Iterator[Move]:
        """The due line right or with a mistake; where it is left out, the next one comes at once."""
        if due == len(self.task.slots):
            return
        slot = self.task.slots[due]
        rates = {kind: float(getattr(self.rates, kind)) for kind in slot.wrong}
        skip = self.rates.missing if slot.omittable else 0.0
        if slot.trap is not None:
            yield Move(mass * self.rates.trap, slot.trap[0], slot.trap[1], due + 1)
            mass *= 1 - self.rates.trap
        right = mass * (1 - sum(rates.values()) - skip)
        yield Move(right, "missing" if left_out else "right", slot.right, due + 1)
        for kind, lines in slot.wrong.items():
            for line in lines:
                yield Move(mass * rates[kind] / len(lines), kind, line, due + 1)
        if skip:
            yield from self._attempts(due + 1, mass * skip, left_out=True)

    def after(self, state: State, move: Move) -> State:
        """Where the trace stands then; the same as reading the written line, only faster."""
        return State((*state.program, move.line), move.due, state.broken)

    def value(self, state: State) -> float:
        """The exact probability that the program will pass every test."""
        if state.broken:
            return 0.0
        if state.answer is not None or state.due == len(self.task.slots):
            return float(self.task.passes(state.program))
        known = self._values.get(state)
        if known is None:
            moves = self.moves(state)
            known = sum(move.probability * self.value(self.after(state, move)) for move in moves if move.probability)
            self._values[state] = known
        return known

    def answers(self, state: State) -> dict[str, float]:
        if state.answer is not None:
            return {state.answer: 1.0}
        found: dict[str, float] = {}
        waiting = [(1.0, state)]
        while waiting:
            mass, at = waiting.pop()
            if at.due == len(self.task.slots):
                answer = answer_text(self.task, at)
                found[answer] = found.get(answer, 0.0) + mass
            waiting += [(mass * m.probability, self.after(at, m)) for m in self.moves(at) if m.probability]
        return found

    def next_step(self, state: State, rng: Random | None) -> tuple[str, State]:
        move = self.draw(state, rng)
        if move is not None:
            return move.text, self.after(state, move)
        answer = answer_text(self.task, state)
        return ANSWER % answer, state._replace(answer=answer)

    def texts(self, state: State) -> Iterator[tuple[str, float]]:
        if state.answer is not None:
            return
        moves = self.moves(state)
        yield from ((move.text, move.probability) for move in moves)
        if not moves:
            yield ANSWER % answer_text(self.task, state), 1.0

    def tokens(self, text: str) -> int:
        """Indentation is no token."""
        return len(text.split()) + 1

    def draw(self, state: State, rng: Random | None) -> Move | None:
        """A line, or `None` for the answer. The likeliest one if there is no generator."""
        moves = self.moves(state)
        if not moves or rng is None:
            return max(moves, key=lambda move: move.probability, default=None)
        at = rng.random()
        for move in moves:
            at -= move.probability
            if at < 0:
                return move
        return max(moves, key=lambda move: move.probability)  # only the rounding error of the sum leads here


@register("policy", "scripted-code")
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
