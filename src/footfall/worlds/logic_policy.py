"""A scripted reasoner for the logic world, with error rates as parameters and exact prefix values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from footfall.registry import register
from footfall.types import Problem
from footfall.worlds._logic_moves import LogicRates, LogicScript
from footfall.worlds._logic_reading import State
from footfall.worlds._scripted import ByContent, ScriptedPolicy, Writer, check_rates

__all__ = ["LogicPolicy"]


@register("policy", "scripted-logic")
@dataclass(frozen=True, slots=True)
class LogicPolicy(ScriptedPolicy[State]):
    """Writes deductions with given error rates; the true value of any prefix is known.

    After any prefix it stands on what `LogicWorld` reads there: the given facts and the trace's claims, right or wrong. It
    1. takes a wrong claim back with probability `recover` (once in a trace);
    2. answers if the question is decided by what is given or claimed. If it cannot be decided by chaining on, it derives
       all it can and then answers "unknown", or one of the options at random;
    3. otherwise derives the next fact on the way. With probability `wrong_rule` it claims instead what a rule gives
       whose condition is not met, or a rule read backwards; with `flip` it states the opposite of the fact; with `skip`
       it leaves the fact out and states the next one, which is sound. While a wrong claim stands no other is made.
    Wordings are drawn evenly and tell nothing. Temperature 0 takes the likeliest move and the first wording; any other
    temperature, top_p and top_k change nothing. A token is a word between spaces, or the separator after a step.
    """

    wrong_rule: float = 0.2
    flip: float = 0.16
    skip: float = 0.1
    recover: float = 0.1

    def __post_init__(self) -> None:
        check_rates("LogicPolicy", **self.rates._asdict())

    @property
    def rates(self) -> LogicRates:
        return LogicRates(self.wrong_rule, self.flip, self.skip, self.recover)

    @property
    def name(self) -> str:
        return f"scripted-logic({','.join(f'{name}={rate:g}' for name, rate in self.rates._asdict().items())})"

    def writer(self, problem: Problem) -> Writer[State]:
        """The writer for a problem, kept from one call to the next."""
        return _writers(self.rates, ByContent(problem))


@lru_cache(maxsize=256)
def _writers(rates: LogicRates, keyed: ByContent) -> Writer[State]:
    return Writer(LogicScript(rates, keyed.problem))
