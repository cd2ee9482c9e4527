"""A scripted judge of pairs, behind the questions that published ones ask (`footfall.reward.generative.pairwise`).

Of a right and a wrong response it prefers the right one with a stated probability, drawn anew for every judgement and order; of
two right or two wrong ones, either. One that solves the problem first, by a scripted policy, prefers the response that ends as
its own solution does, and judges as before where both or neither do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from footfall.drive.rollouts import write
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.search import choose
from footfall.simulate import chance
from footfall.types import Cost, Judge, Problem, Step, Trajectory
from footfall.worlds import ArithmeticWorld

PRICE = 64
"""Tokens of a reply, beside those of a solution."""


@dataclass(frozen=True)
class Chooser:
    """A policy that names one of the two responses that it is shown."""

    responses: Mapping[str, Trajectory]
    right: float
    seed: int
    solver: Policy | None = None
    name: str = "scripted-chooser"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """One reply a question and index."""
        return [[self._reply(p.problem.text, i) for i in range(first, first + n)] for p in prefixes]

    def _reply(self, question: str, index: int) -> Completion:
        one, two = (self.responses[text.strip()] for text in shown(question))
        better, cost = bool(one.correct) - bool(two.correct), Cost(generated_tokens=PRICE, calls=1)
        first = chance(self.seed, question, index) < (
            0.5 if not better else self.right if better > 0 else 1 - self.right
        )
        if self.solver is not None:
            drawn = SamplingParams(max_tokens=200, seed=int(2**31 * chance("own", self.seed, question, index)))
            own = _solved(self.solver, one.problem, drawn)
            cost += own.cost
            agrees = [own.answer is not None and each.answer == own.answer for each in (one, two)]
            first = agrees[0] if agrees[0] != agrees[1] else first
        said = f"\\boxed{{Assistant {1 if first else 2}}} <answer>[[{'A' if first else 'B'}]]</answer>"
        return Completion((Step(said),), "end", index, cost=cost)


def shown(question: str) -> tuple[str, str]:
    """The two responses in a question of RRM or RM-R1."""
    if "\n\n[Answer A]\n" in question:
        one, two = question.split("\n\n[Answer A]\n", 1)[1].split("\n\n[Answer B]\n")
    else:
        one, two = (text.split("\n", 1)[1] for text in question.split("#### Assistant ")[1:])
    return one, two


def _solved(solver: Policy, problem: Problem, params: SamplingParams) -> Trajectory:
    prefix = ArithmeticWorld().prefix(problem)
    ((written,),) = write(solver, [prefix], 1, params)
    return ArithmeticWorld().graded(written.after(prefix, solver.name))


def by_text(rows: Iterable[Iterable[Trajectory]]) -> dict[str, Trajectory]:
    """The responses as a chooser knows them again."""
    return {trace.text.strip(): trace for row in rows for trace in row}


def winners(judge: Judge, rows: Sequence[Sequence[Trajectory]]) -> tuple[list[float], Cost]:
    """1 for each row whose highest value is a right response's, and what the matches cost."""
    found, cost = list[float](), Cost()
    for row in rows:
        said = judge.judge(row)
        best = choose(row, [each.value for each in said], "best")
        found.append(float(bool(best and best.correct)))
        cost += Cost.total(each.cost for each in said)
    return found, cost
