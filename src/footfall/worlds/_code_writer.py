"""The scripted policy at work on one code problem: what it may write next, what it writes, and the value of every state.

V(program so far) = Σ_line P(line) · V(program so far + line),   V(whole program) = 1[it passes every test]
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from footfall.policy.protocol import Completion, Finish, SamplingParams
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds._code_language import Line
from footfall.worlds._code_mutants import Kind
from footfall.worlds._code_program import Task, task_of
from footfall.worlds._code_reading import ANSWER, START, State, advance, answer_text

__all__ = ["CodeScript", "Move", "Writer", "writer_of"]

MoveKind: TypeAlias = Literal["right", "recover"] | Kind


class CodeScript(NamedTuple):
    """The probabilities of a scripted writer of code."""

    operator: float
    off_by_one: float
    variable: float
    initial: float
    missing: float
    recover: float
    trap: float

    def of(self, kind: Kind) -> float:
        return float(getattr(self, kind))


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


class Writer:
    """Writes one problem's traces. Moves and values of visited states are kept: the second completion is cheap."""

    def __init__(self, script: CodeScript, task: Task) -> None:
        self.script = script
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
            rest = 1 - self.script.recover * len(back)
            known = self._moves[where] = [*back, *self._attempts(state.due, rest)]
        return known

    def _recovery(self, state: State) -> list[Move]:
        """Writing the last line again as it should be, if it set a wrong first value: that alone mends it.

        It depends on the due slot and the last line only; `moves` is kept by these.
        """
        if state.due == 0 or not state.program or self.script.recover == 0:
            return []
        slot = self.task.slots[state.due - 1]
        again = Move(self.script.recover, "recover", slot.right, state.due)
        mends = state.program[-1] in slot.wrong.get("initial", ())
        return [again] if mends and advance(self.task, state, again.text).due == state.due else []

    def _attempts(self, due: int, mass: float, left_out: bool = False) -> Iterator[Move]:
        """The due line right or with a mistake; where it is left out, the next one comes at once."""
        if due == len(self.task.slots):
            return
        slot = self.task.slots[due]
        rates = {kind: self.script.of(kind) for kind in slot.wrong}
        skip = self.script.missing if slot.omittable else 0.0
        if slot.trap is not None:
            yield Move(mass * self.script.trap, slot.trap[0], slot.trap[1], due + 1)
            mass *= 1 - self.script.trap
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
        """The exact probability of each list of outputs."""
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

    def complete(self, state: State, params: SamplingParams, seed: int, index: int) -> Completion:
        """Write on from `state` until the answer, one step, or `max_tokens`: a step that does not fit is left out."""
        rng = Random(seed) if params.temperature > 0 else None
        steps: list[Step] = []
        tokens = 0
        finish: Finish = "end"
        while state.answer is None:
            text, after = self._next(state, rng)
            size = len(text.split()) + 1
            if tokens + size > params.max_tokens:
                finish = "length"
                break
            tokens += size
            steps.append(Step(text))
            state = after
            if params.until == "step":
                finish = "step" if state.answer is None else "end"
                break
        return Completion(tuple(steps), finish, index, cost=Cost(generated_tokens=tokens, calls=1))

    def _next(self, state: State, rng: Random | None) -> tuple[str, State]:
        move = self.draw(state, rng)
        if move is not None:
            return move.text, self.after(state, move)
        answer = answer_text(self.task, state)
        return ANSWER % answer, state._replace(answer=answer)

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


def writer_of(script: CodeScript, problem: Problem) -> Writer:
    """The writer for a problem, kept from one call to the next."""
    return _writer(script, task_of(problem))


@lru_cache(maxsize=256)
def _writer(script: CodeScript, task: Task) -> Writer:
    return Writer(script, task)
