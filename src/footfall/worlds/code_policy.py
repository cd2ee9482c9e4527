"""A scripted writer for the code world, with mutation rates as parameters and exact prefix values."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from footfall.registry import register
from footfall.types import Problem
from footfall.worlds._code_reading import State
from footfall.worlds._code_writer import CodeScript, Writer, writer_of
from footfall.worlds._scripted import ScriptedPolicy

__all__ = ["CodePolicy"]


@register("policy", "scripted-code")
@dataclass(frozen=True, slots=True)
class CodePolicy(ScriptedPolicy[State]):
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
        for field in fields(self):
            rate = getattr(self, field.name)
            if not 0 <= rate <= 1:
                raise ValueError(f"CodePolicy.{field.name} must be a probability, not {rate}")
        if sum(astuple(self)[:5]) > 1:
            raise ValueError(f"the rates of mistakes of one line must not add up to more than 1: {self}")

    @property
    def name(self) -> str:
        return f"scripted-code({','.join(f'{field.name}={getattr(self, field.name):g}' for field in fields(self))})"

    @property
    def script(self) -> CodeScript:
        return CodeScript(*astuple(self))

    def writer(self, problem: Problem) -> Writer:
        """The writer for a problem, kept from one call to the next."""
        return writer_of(self.script, problem)
