"""A scripted writer for the arithmetic world, with error rates as parameters and exact prefix values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from footfall.registry import register
from footfall.types import Problem, Trajectory
from footfall.worlds.arithmetic.moves import Move, OpRates, Script, answers, moves
from footfall.worlds.arithmetic.problem import ANSWER, Program, Scene, program_of, scene_of, sentences
from footfall.worlds.arithmetic.reading import State, read_trace
from footfall.worlds.scripted import ScriptedPolicy, Writer, keep
from footfall.worlds.world import pick

_SLIP = OpRates(add=0.03, subtract=0.05, multiply=0.22, divide=0.16)
_MISREAD = OpRates(0.01, 0.01, 0.03, 0.03)
_MISREAD_TRICKY = OpRates(0.65, 0.65, 0.65, 0.65)


class ArithmeticWriter(Writer[State]):
    """Writes one problem's traces. Tables of visited states are kept: many completions of one prefix are cheap."""

    def __init__(self, script: Script, program: Program, scene: Scene) -> None:
        self.script = script
        self.program = program
        self._sentences = sentences(scene)
        self._tables: dict[State, tuple[list[float], list[Move]]] = {}
        self._values: dict[State, float] = {}

    def state_after(self, prefix: Trajectory) -> State:
        return read_trace(self.program, prefix.steps)[1]

    def answers(self, state: State) -> dict[int, float]:
        return answers(self.script, self.program, state)

    def value(self, state: State) -> float:
        known = self._values.get(state)
        if known is None:
            known = keep(self._values, state, self.answers(state).get(self.program.truth[-1], 0.0))
        return known

    def next_step(self, state: State, rng: Random | None) -> tuple[str, State]:
        move = self.draw(state, rng)
        return self.word(state, move, rng), self.after(state, move)

    def texts(self, state: State) -> Iterator[tuple[str, float]]:
        if state.answer is not None:
            return
        left = 1.0
        for move in moves(self.script, self.program, state.due, state.value):
            left -= move.probability
            wordings = self._wordings(state, move)
            for wording in wordings:
                yield wording % move.equation, move.probability / len(wordings)
        if state.due == len(self.program.ops):
            yield ANSWER % state.value, left

    def draw(self, state: State, rng: Random | None) -> Move | None:
        """What comes next: an equation, or `None` for the answer. The likeliest one if there is no generator."""
        table = self._tables.get(state)
        if table is None:
            found = moves(self.script, self.program, state.due, state.value)
            table = keep(self._tables, state, (list(accumulate([move.probability for move in found])), found))
        thresholds, found = table
        at = len(found) if rng is None else bisect_right(thresholds, rng.random())
        if at < len(found):
            return found[at]
        # Past the last threshold lies the answer, or before the last operation only the rounding error of the sum.
        done = state.due == len(self.program.ops)
        return None if done and rng else self._likeliest(state, found)

    def _likeliest(self, state: State, found: list[Move]) -> Move | None:
        best = max(found, key=lambda move: move.probability, default=None)
        if state.due == len(self.program.ops) and (best is None or best.probability < 0.5):
            return None
        return best

    def after(self, state: State, move: Move | None) -> State:
        """Where the trace stands then; the same as reading the written step, only faster."""
        if move is None:
            return State(state.due, state.value, state.value)
        return State(state.due + (move.kind != "recover"), move.result)

    def word(self, state: State, move: Move | None, rng: Random | None) -> str:
        """The step's text. The wording never tells whether the step is right."""
        if move is None:
            return ANSWER % state.value
        wordings = self._wordings(state, move)
        return (pick(rng, wordings) if rng else wordings[0]) % move.equation

    def _wordings(self, state: State, move: Move) -> tuple[str, ...]:
        if move.kind == "recover":
            return self._sentences.again
        return (self._sentences.later if state.due else self._sentences.first)[move.symbol]


@register("policy", "scripted-arithmetic")
@dataclass(frozen=True, slots=True)
class ArithmeticPolicy(ScriptedPolicy[ArithmeticWriter]):
    """Writes arithmetic traces with given error rates; the true value of any prefix is known.

    After any prefix the writer stands in a state (due operation, running value) as `ArithmeticWorld.check` reads it:
    garbage does not move it, a wrong equation moves it as documented there. In a state it
    1. redoes the last operation on its true value with probability `recover`, if the running value is wrong (and the
       redone equation would not read as the due one);
    2. otherwise takes the due operation for another one with probability `misread` (`misread_tricky` for a tricky
       clause), unless the result would be negative or above 9999;
    3. otherwise writes the due operation, with a result off by 1 or 10 with probability `slip`; a division that does
       not come out is rounded (up where rounding down would hide the earlier error);
    4. states the running value as the answer when all operations are done, and ends.
    Wordings are drawn evenly and tell nothing. Temperature 0 takes the likeliest move and the first wording; any other
    temperature, top_p and top_k change nothing. A token is a word between spaces, or the separator after a step.
    """

    slip: OpRates = _SLIP
    misread: OpRates = _MISREAD
    misread_tricky: OpRates = _MISREAD_TRICKY
    recover: float = 0.05

    def __post_init__(self) -> None:
        for name in ("slip", "misread", "misread_tricky"):
            rates = OpRates(*getattr(self, name))
            object.__setattr__(self, name, rates)
            if not all(0 <= rate <= 1 for rate in rates):
                raise ValueError(f"ArithmeticPolicy.{name} must hold probabilities, not {tuple(rates)}")
        if not 0 <= self.recover <= 1:
            raise ValueError(f"ArithmeticPolicy.recover must be a probability, not {self.recover}")

    @property
    def name(self) -> str:
        rates = (("slip", self.slip), ("misread", self.misread), ("tricky", self.misread_tricky))
        shown = ",".join(f"{name}={'/'.join(f'{rate:g}' for rate in column)}" for name, column in rates)
        return f"scripted-arithmetic({shown},recover={self.recover:g})"

    @property
    def script(self) -> Script:
        return Script(self.slip, self.misread, self.misread_tricky, self.recover)

    def new_writer(self, problem: Problem) -> ArithmeticWriter:
        return ArithmeticWriter(self.script, program_of(problem), scene_of(problem))

    def value_of_state(self, problem: Problem, due: int, value: int, answer: int | None = None) -> float:
        """The exact value of a state: `due` operations lie behind, the running value is `value`."""
        writer = self.writer(problem)
        if not 0 <= due <= len(writer.program.ops):
            raise ValueError(
                f"problem {problem.id!r} has {len(writer.program.ops)} operations, so none is number {due}"
            )
        return writer.value(State(due, value, answer))
