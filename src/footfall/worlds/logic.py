"""The logic world: deductions about made-up things, by seed, and a checker for any step."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from footfall.registry import register
from footfall.types import Problem, Trajectory
from footfall.worlds._generated import GeneratedWorld, Said
from footfall.worlds._logic_problems import Size, draw
from footfall.worlds._logic_reading import read_trace, stated_answer
from footfall.worlds._logic_text import write_problem
from footfall.worlds._logic_theory import logic_of, to_meta

__all__ = ["LogicWorld"]


@register("world", "logic")
@dataclass(frozen=True, slots=True)
class LogicWorld(GeneratedWorld):
    """Facts and rules about made-up things, and a question about what follows from them.

    Asked is whether a fact is true, false or unknown, or which fact follows.

    Difficulty is the length of the proof, the share of rules with two conditions, and the number of rules beside it.
    """

    domain: ClassVar[str] = "logic"

    min_depth: int = 2
    max_depth: int = 5
    two_premises: float = 0.3
    min_distractors: int = 2
    max_distractors: int = 5

    def __post_init__(self) -> None:
        good = {
            "1 <= min_depth <= max_depth <= 8": 1 <= self.min_depth <= self.max_depth <= 8,
            "0 <= two_premises <= 1": 0 <= self.two_premises <= 1,
            "1 <= min_distractors <= max_distractors <= 6": 1 <= self.min_distractors <= self.max_distractors <= 6,
        }
        for rule, holds in good.items():
            if not holds:
                raise ValueError(f"LogicWorld needs {rule}; got {self}")

    def said(self, trajectory: Trajectory) -> list[Said]:
        """The class of every step with the reason; `None` for a step that cannot be read.

        A sentence of a step states facts ("Rex is a dax") or rules ("every dax is a wug"), alone or as conclusion and
        support ("Since every dax is a wug, Rex is a wug"). Its class is the worst among:
        1. each fact or rule in it: RIGHT if it follows from the premises, CONSEQUENT if it follows only together with
           what the trace claimed before, otherwise WRONG. A true fact that skips steps, or was said before, is RIGHT;
        2. with a rule as support, the conclusion: WRONG if the rules given do not lead to it;
        3. "it does not follow that …": RIGHT if it does not, and the claim is taken back; otherwise WRONG;
        4. the answer: RIGHT if the premises decide so, CONSEQUENT if they do with the claims, otherwise WRONG.
           Everything after an answer is WRONG, but the last answer is the one that counts.
        A claim replaces its opposite. A sentence that fits no form, or speaks of what the problem does not, is not
        read: the step is `None` unless another sentence of it is WRONG.
        """
        theory, question = logic_of(trajectory.problem)
        return read_trace(theory, question, trajectory.steps)[0]

    def answer(self, trajectory: Trajectory) -> str | None:
        """`true`, `false`, `unknown` or the fact in the last "The answer is …" of the trace."""
        return stated_answer(logic_of(trajectory.problem)[0], trajectory.steps)

    def _meaning(self, problem: Problem) -> str:
        # Sorted: the order of premises is wording.
        facts, rules, options = (sorted(json.dumps(item) for item in problem.meta[key])  # type: ignore[union-attr]
                                 for key in ("facts", "rules", "options"))  # fmt: skip
        return json.dumps([facts, rules, options])

    def _draw(self, rng: Random) -> Problem | None:
        depth = rng.randint(self.min_depth, self.max_depth)
        size = Size(depth, self.two_premises, rng.randint(self.min_distractors, self.max_distractors))
        drawn = draw(rng, size)
        if drawn is None:
            return None
        theory, question, answer = drawn
        prompt = write_problem(theory, question, rng)
        meta = to_meta(theory, question)
        key = hashlib.sha256(f"{prompt} {json.dumps(meta)}".encode()).hexdigest()[:16]
        return Problem(f"logic-{key}", prompt, answer, self.domain, meta=meta)
