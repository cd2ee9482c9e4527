"""A scripted writer for the arithmetic world, with error rates as parameters and exact prefix values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.registry import register
from footfall.types import Problem, Trajectory
from footfall.worlds._arithmetic_moves import OpRates, Script
from footfall.worlds._arithmetic_reading import State
from footfall.worlds._arithmetic_writer import writer_of

__all__ = ["ArithmeticPolicy", "OpRates"]

_SLIP = OpRates(add=0.03, subtract=0.05, multiply=0.22, divide=0.16)
_MISREAD = OpRates(0.01, 0.01, 0.03, 0.03)
_MISREAD_TRICKY = OpRates(0.65, 0.65, 0.65, 0.65)


@register("policy", "scripted-arithmetic")
@dataclass(frozen=True, slots=True)
class ArithmeticPolicy:
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

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix; each depends on the seed, the prefix's content and its index alone."""
        result = []
        for prefix in prefixes:
            writer = writer_of(self.script, prefix.problem)
            state = writer.state_after(prefix)
            indices = range(first, first + n)
            result.append([writer.complete(state, params, sample_seed(params, prefix, i), i) for i in indices])
        return result

    def value(self, prefix: Trajectory) -> float:
        """The exact probability that a completion of `prefix` ends with the reference answer."""
        writer = writer_of(self.script, prefix.problem)
        return writer.value(writer.state_after(prefix))

    def answers(self, prefix: Trajectory) -> dict[str, float]:
        """The exact probability of each final answer after `prefix`, likeliest first: what a vote converges to."""
        writer = writer_of(self.script, prefix.problem)
        found = writer.answers(writer.state_after(prefix))
        return {str(answer): found[answer] for answer in sorted(found, key=lambda answer: (-found[answer], answer))}

    def value_of_state(self, problem: Problem, due: int, value: int, answer: int | None = None) -> float:
        """The exact value of a state: `due` operations lie behind, the running value is `value`."""
        writer = writer_of(self.script, problem)
        if not 0 <= due <= len(writer.program.ops):
            raise ValueError(
                f"problem {problem.id!r} has {len(writer.program.ops)} operations, so none is number {due}"
            )
        return writer.value(State(due, value, answer))
