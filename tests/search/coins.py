"""A policy whose steps are coins and a judge that sees them: searches whose success can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.types import Cost, Judgement, Problem, Step, Trajectory


@dataclass
class Coins:
    """Solutions of `depth` steps, each right with probability `p`; the last one states the answer 1 or 0."""

    p: float = 0.5
    depth: int = 3
    tokens: int = 10
    name: str = "coins"
    calls: list[int] = field(default_factory=list)
    """How many prefixes each call had."""

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.calls.append(len(prefixes))
        return [[self._one(prefix, params, index) for index in range(first, first + n)] for prefix in prefixes]

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
        rng = Random(sample_seed(params, prefix, index))
        texts = [step.text for step in prefix.steps]
        missing = self.depth - len(texts)
        for _ in range(min(missing, 1 if params.until == "step" else params.max_tokens // self.tokens)):
            right = params.temperature == 0 or rng.random() < self.p
            texts.append("right" if right else "wrong")
            if len(texts) == self.depth:
                texts[-1] += f". The answer is {int('wrong' not in ' '.join(texts))}."
        new = texts[len(prefix.steps) :]
        finish = "end" if len(texts) == self.depth else "step" if params.until == "step" else "length"
        cost = Cost(generated_tokens=self.tokens * len(new), calls=1)
        return Completion(tuple(map(Step, new)), finish, index, cost=cost)  # type: ignore[arg-type]


@dataclass
class SeesCoins:
    """1 while nothing is wrong, 0 from then on."""

    name: str = "sees-coins"
    tokens: int = 0
    batches: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.batches.append(len(trajectories))
        self.texts += [trajectory.text for trajectory in trajectories]
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        wrong = [i for i, step in enumerate(trajectory.steps) if "wrong" in step.text]
        first = wrong[0] if wrong else len(trajectory.steps)
        values = tuple(float(i < first) for i in range(len(trajectory.steps)))
        cost = Cost(scored_tokens=self.tokens * len(values), calls=1)
        return Judgement(trajectory.id, values, self.name, cost=cost)


def problems(n: int) -> list[Problem]:
    return [Problem(f"p{i}", f"Toss coin {i}.", answer="1") for i in range(n)]


def right(chosen: Trajectory | None) -> bool:
    return chosen is not None and bool(chosen.correct)
