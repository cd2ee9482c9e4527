"""A scripted writer for the algebra world, with error rates as parameters and exact prefix values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from footfall.registry import register
from footfall.types import Problem
from footfall.worlds._algebra_script import AlgebraRates, AlgebraScript, Work
from footfall.worlds._scripted import ByContent, ScriptedPolicy, Writer, check_rates

__all__ = ["AlgebraPolicy"]


@register("policy", "scripted-algebra")
@dataclass(frozen=True, slots=True)
class AlgebraPolicy(ScriptedPolicy[Work]):
    """Solves equations with given error rates; the true value of any prefix is known.

    After any prefix it goes on from the last relation that `AlgebraWorld` reads there (in a system: from the isolated
    unknown, the equation in one unknown and the values found), right or wrong. If that is wrong it restates it rightly
    with probability `recover`; otherwise it writes the next step. Where they can happen it
    - `misread`: sets up a problem in words with a wrong sign, or turned round;
    - `sign`: turns a sign when it moves a term, divides, factors or reads off roots;
    - `slip`: is off by 1, or forgets to multiply the second term in brackets;
    - `division`: subtracts instead of dividing, or divides the wrong way round;
    - `lost_root`: states only one of two roots;
    - `skip`: does two steps at once, rightly.
    While it stands on an error it makes no other one.
    A quadratic without rational roots, which only another writer's error can leave, is answered "no solution".
    Wordings are drawn evenly and tell nothing. Temperature 0 takes the likeliest move and the first wording; any other
    temperature, top_p and top_k change nothing. A token is a word between spaces, or the separator after a step.
    """

    misread: float = 0.2
    sign: float = 0.1
    slip: float = 0.06
    division: float = 0.08
    lost_root: float = 0.1
    skip: float = 0.1
    recover: float = 0.08

    def __post_init__(self) -> None:
        check_rates("AlgebraPolicy", **self.rates._asdict())

    @property
    def rates(self) -> AlgebraRates:
        return AlgebraRates(self.misread, self.sign, self.slip, self.division, self.lost_root, self.skip, self.recover)

    @property
    def name(self) -> str:
        return f"scripted-algebra({','.join(f'{name}={rate:g}' for name, rate in self.rates._asdict().items())})"

    def writer(self, problem: Problem) -> Writer[Work]:
        """The writer for a problem, kept from one call to the next."""
        return _writers(self.rates, ByContent(problem))


@lru_cache(maxsize=256)
def _writers(rates: AlgebraRates, keyed: ByContent) -> Writer[Work]:
    return Writer(AlgebraScript(rates, keyed.problem))
