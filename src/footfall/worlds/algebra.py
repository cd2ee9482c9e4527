"""The algebra world: equations to solve, by seed, and a checker for any step."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from random import Random
from typing import ClassVar, get_args

from footfall.registry import register
from footfall.types import Json, Problem, Trajectory
from footfall.worlds._algebra_draw import Bounds, draw
from footfall.worlds._algebra_problem import Kind, algebra_of
from footfall.worlds._algebra_reading import read_trace, stated_answer
from footfall.worlds._generated import GeneratedWorld, Said

__all__ = ["AlgebraWorld"]


@register("world", "algebra")
@dataclass(frozen=True, slots=True)
class AlgebraWorld(GeneratedWorld):
    """Linear equations, systems of two, and quadratics with rational roots; as equations and in words.

    Difficulty is the kind of problem and the size of roots and coefficients.
    """

    domain: ClassVar[str] = "algebra"

    kinds: tuple[Kind, ...] = ("linear", "system", "quadratic")
    max_root: int = 12
    max_coefficient: int = 9
    fractions: float = 0.2
    """Share of problems with a root that is not whole."""
    words: float = 0.3
    """Share of problems told in words."""

    def __post_init__(self) -> None:
        good = {
            f"kinds among {get_args(Kind)}": bool(self.kinds) and set(self.kinds) <= set(get_args(Kind)),
            "3 <= max_root <= 1000": 3 <= self.max_root <= 1000,
            "2 <= max_coefficient <= 1000": 2 <= self.max_coefficient <= 1000,
            "0 <= fractions <= 1": 0 <= self.fractions <= 1,
            "0 <= words <= 1": 0 <= self.words <= 1,
        }
        for rule, holds in good.items():
            if not holds:
                raise ValueError(f"AlgebraWorld needs {rule}; got {self}")

    def said(self, trajectory: Trajectory) -> list[Said]:
        """The class of every step with the reason; `None` for a step that cannot be read.

        Of a step's text the relations count: equations over x (and y), chains `a = b = c`, products that are zero, and
        values joined by "or". The class of a step is the worst among:
        1. each relation: RIGHT if it has the same solutions as the problem (in a system: if it is true of the solution),
           CONSEQUENT if it says the same as an earlier wrong relation of the trace that was not mended since (in a system
           also: if it is true where two such or given equations meet), otherwise WRONG: so a lost root is WRONG. An
           equation of numbers is RIGHT or WRONG by itself. A relation that skips steps, or was stated before, is no error;
        2. an operation named for both sides ("Subtract 3 from both sides"): WRONG if no earlier equation gives the stated
           one by it;
        3. the answer: RIGHT, CONSEQUENT if it follows from a relation stated before, otherwise WRONG. Everything after an
           answer is WRONG, but the last answer is the one that counts.
        A step without a relation, with an equation that cannot be read (another letter, a root sign), or with one that
        may be meant for one case of a quadratic only, is `None`.
        """
        return read_trace(algebra_of(trajectory.problem), trajectory.steps)[0]

    def answer(self, trajectory: Trajectory) -> str | None:
        """The values in the last "The answer is …" of the trace, as `x = 2`, `x = 2 or x = 3` or `x = 2, y = 3`."""
        return stated_answer(algebra_of(trajectory.problem), trajectory.steps)

    def _meaning(self, problem: Problem) -> str:
        return json.dumps(problem.meta["equations"])

    def _draw(self, rng: Random) -> Problem:
        made, prompt = draw(
            rng, rng.choice(self.kinds), Bounds(self.max_root, self.max_coefficient, self.fractions, self.words)
        )
        solution: list[Json] = [[name, str(value)] for name, value in made.solution]
        meta: dict[str, Json] = {
            "kind": made.kind, "equations": list(made.texts), "worded": made.worded, "solution": solution
        }  # fmt: skip
        key = hashlib.sha256(f"{prompt} {json.dumps(meta)}".encode()).hexdigest()[:16]
        return Problem(f"algebra-{key}", prompt, made.answer, self.domain, meta=meta)
