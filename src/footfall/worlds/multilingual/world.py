"""The arithmetic world in seven languages: the same programs and steps, the same truth, the same exact values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import ClassVar

from footfall.policy.protocol import Completion, SamplingParams
from footfall.registry import Declared, register
from footfall.types import Problem, Trajectory
from footfall.worlds.arithmetic.policy import ArithmeticPolicy
from footfall.worlds.arithmetic.world import ArithmeticWorld
from footfall.worlds.multilingual.translation import canonical, in_language, language_of, translate_problem, words_of
from footfall.worlds.world import Split, StepTruth, World


@register("world", "arithmetic-multilingual")
@dataclass(frozen=True, slots=True)
class MultilingualArithmetic(World):
    """The problems of an arithmetic world in `language` (en, de, es, fr, ru, sw or zh), checked by the same rules.

    A trace is read in the language that its problem names, so one world checks traces of all languages.
    """

    domain: ClassVar[str] = "arithmetic"
    remedy: ClassVar[str] = ArithmeticWorld.remedy

    language: str = "de"
    base: ArithmeticWorld = field(default_factory=ArithmeticWorld)

    def __post_init__(self) -> None:
        words_of(self.language)

    def draw(self, rng: Random, split: Split) -> Problem | None:
        """The problem that the arithmetic world gives for this seed, translated; so languages share their splits."""
        problem = self.base.draw(rng, split)
        return None if problem is None else translate_problem(problem, self.language)

    def answer(self, trajectory: Trajectory) -> str | None:
        """The number that the trace states last as its answer."""
        return self.base.answer(canonical(trajectory))

    def check(self, trajectory: Trajectory) -> list[StepTruth]:
        """The class of every step, by the rules of `ArithmeticWorld.check`."""
        return self.base.check(canonical(trajectory))

    def first_error(self, trajectory: Trajectory) -> int:
        """0-based index of the first wrong step, -1 if there is none."""
        return self.base.first_error(canonical(trajectory))


@register("policy", "scripted-arithmetic-multilingual", Declared(weightless=True))
@dataclass(frozen=True, slots=True)
class MultilingualPolicy:
    """Writes in the language of each problem what the scripted arithmetic policy writes in English, move by move.

    Values, errors, and for a given seed the very solutions are the same in all languages. Tokens are counted on
    the English text, so that costs compare too.
    """

    base: ArithmeticPolicy = field(default_factory=ArithmeticPolicy)

    @property
    def name(self) -> str:
        return f"multilingual({self.base.name})"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix; each depends on the seed, the prefix's content and its index alone."""
        sampled = self.base.sample([canonical(prefix) for prefix in prefixes], n, params, first)
        return [
            [_translated(completion, prefix.problem) for completion in completions]
            for prefix, completions in zip(prefixes, sampled, strict=True)
        ]

    def value(self, prefix: Trajectory) -> float:
        """The exact probability that a completion of `prefix` ends with the reference answer."""
        return self.base.value(canonical(prefix))

    def answers(self, prefix: Trajectory) -> dict[str, float]:
        """The exact probability of each final answer after `prefix`, likeliest first."""
        return self.base.answers(canonical(prefix))


def _translated(completion: Completion, problem: Problem) -> Completion:
    language = language_of(problem)
    return replace(completion, steps=tuple(in_language(problem, step, language) for step in completion.steps))
