"""The scripted policy at work on one problem: draws moves, words them, and knows the value of every state."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from random import Random

from footfall.policy.protocol import Completion, Finish, SamplingParams
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds._arithmetic_moves import Move, Script, moves
from footfall.worlds._arithmetic_program import Program, program_of
from footfall.worlds._arithmetic_reading import State, read_trace
from footfall.worlds._arithmetic_text import ANSWER, Scene, pick, sentences
from footfall.worlds._arithmetic_value import answers
from footfall.worlds._memo import keep

__all__ = ["Writer", "writer_of"]


class Writer:
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
        """The exact probability of each final answer from `state`."""
        return answers(self.script, self.program, state)

    def value(self, state: State) -> float:
        """The exact probability of the true answer from `state`."""
        known = self._values.get(state)
        if known is None:
            known = keep(self._values, state, self.answers(state).get(self.program.truth[-1], 0.0))
        return known

    def complete(self, state: State, params: SamplingParams, seed: int, index: int) -> Completion:
        """Write on from `state` until the answer, one step, or `max_tokens`: a step that does not fit is left out."""
        rng = Random(seed) if params.temperature > 0 else None
        steps: list[Step] = []
        tokens = 0
        finish: Finish = "end"
        while state.answer is None:
            move = self.draw(state, rng)
            text = self.word(state, move, rng)
            size = text.count(" ") + 2
            if tokens + size > params.max_tokens:
                finish = "length"
                break
            tokens += size
            steps.append(Step(text))
            state = self.after(state, move)
            if params.until == "step":
                finish = "step" if state.answer is None else "end"
                break
        return Completion(tuple(steps), finish, index, cost=Cost(generated_tokens=tokens, calls=1))

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
        _, kind, left, symbol, right, result = move
        if kind == "recover":
            wordings = self._sentences.again
        else:
            wordings = (self._sentences.later if state.due else self._sentences.first)[symbol]
        return (pick(rng, wordings) if rng else wordings[0]) % f"{left} {symbol} {right} = {result}"


def writer_of(script: Script, problem: Problem) -> Writer:
    """The writer for a problem, kept from one call to the next."""
    meta = problem.meta
    scene = Scene(str(meta.get("name", "someone")), str(meta.get("item", "things")))
    return _writer(script, program_of(problem), scene)


@lru_cache(maxsize=256)
def _writer(script: Script, program: Program, scene: Scene) -> Writer:
    return Writer(script, program, scene)
