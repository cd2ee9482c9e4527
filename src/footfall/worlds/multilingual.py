"""The arithmetic world in seven languages: the same programs and steps, the same truth, the same exact values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import register
from footfall.types import Problem, Step, Trajectory
from footfall.worlds._multilingual_text import (
    LANGUAGES,
    canonical_step,
    same_numbers,
    translate_prompt,
    translate_step,
    words_of,
)
from footfall.worlds.arithmetic import ArithmeticWorld, Split
from footfall.worlds.arithmetic_policy import ArithmeticPolicy
from footfall.worlds.truth import StepTruth

__all__ = ["LANGUAGES", "MultilingualArithmetic", "MultilingualPolicy", "canonical", "language_of", "same_numbers",
           "translate", "translate_problem"]  # fmt: skip

_BATCH = 64


def language_of(problem: Problem) -> str:
    """The language that a problem is worded in; English if it says nothing."""
    return str(problem.meta.get("language", "en"))


def translate_problem(problem: Problem, language: str) -> Problem:
    """An English problem of `ArithmeticWorld` in another language, with its program, its answer and a `language` field."""
    if language_of(problem) != "en":
        raise ValueError(f"problem {problem.id!r} is in {language_of(problem)!r} already; translate the English one")
    words_of(language)
    meta = {**problem.meta, "language": language}
    if language == "en":
        return replace(problem, meta=meta)
    meta |= {"english": problem.text, "english_id": problem.id}
    return replace(problem, id=f"{problem.id}-{language}", prompt=translate_prompt(problem, language), meta=meta)


def translate(trajectory: Trajectory, language: str) -> Trajectory:
    """An English trace step by step in another language. A step that is not worded by the world stays as it is."""
    problem = trajectory.problem
    steps = tuple(_translated(problem, step, "en", language) for step in trajectory.steps)
    if language == "en":
        return replace(trajectory, problem=translate_problem(problem, language))
    return replace(trajectory, id=f"{trajectory.id}-{language}", problem=translate_problem(problem, language), steps=steps,
                   tokenizer=None)  # fmt: skip


def _translated(problem: Problem, step: Step, source: str, target: str) -> Step:
    if source == target:
        return step
    text = translate_step(problem, step.text, source, target)
    return replace(step, text=step.text if text is None else text, token_ids=None, logprobs=None)


def canonical(trajectory: Trajectory) -> Trajectory:
    """The trace as English says it, which the checker and the scripted policy of `ArithmeticWorld` read."""
    problem = trajectory.problem
    language = language_of(problem)
    meta = {key: value for key, value in problem.meta.items() if key not in ("language", "english", "english_id")}
    prompt, name = str(problem.meta.get("english", problem.text)), str(problem.meta.get("english_id", problem.id))
    english = replace(problem, id=name, prompt=prompt, meta=meta)
    if language == "en":
        return replace(trajectory, problem=english)
    steps = tuple(
        replace(step, text=canonical_step(problem, step.text, language), token_ids=None, logprobs=None)
        for step in trajectory.steps
    )
    return replace(trajectory, problem=english, steps=steps, tokenizer=None)


@register("world", "arithmetic-multilingual")
@dataclass(frozen=True, slots=True)
class MultilingualArithmetic:
    """The problems of an arithmetic world in `language` (en, de, es, fr, ru, sw or zh), checked by the same rules.

    A trace is read in the language that its problem names, so one world checks traces of all languages.
    """

    language: str = "de"
    base: ArithmeticWorld = field(default_factory=ArithmeticWorld)

    def __post_init__(self) -> None:
        words_of(self.language)

    def problems(self, n: int, seed: int = 0, split: Split = "train") -> list[Problem]:
        """The problems that the arithmetic world gives for this seed, translated; so languages share their splits."""
        return [translate_problem(problem, self.language) for problem in self.base.problems(n, seed, split)]

    def traces(
        self, policy: Policy, n: int, seed: int = 0, split: Split = "train"
    ) -> Iterator[tuple[Problem, Trajectory]]:
        """`n` problems, each with one finished trace by `policy`, its answer read and compared."""
        params = SamplingParams(seed=seed)
        stream = iter(self.problems(n, seed, split))
        while batch := [self.prefix(problem) for problem in islice(stream, _BATCH)]:
            for prefix, (completion,) in zip(batch, policy.sample(batch, 1, params), strict=True):
                yield prefix.problem, self.graded(completion.after(prefix, policy.name))

    def prefix(self, problem: Problem) -> Trajectory:
        """The empty trace of a problem, one step a line."""
        return self.base.prefix(problem)

    def answer(self, trajectory: Trajectory) -> str | None:
        """The number that the trace states last as its answer."""
        return self.base.answer(canonical(trajectory))

    def graded(self, trajectory: Trajectory) -> Trajectory:
        """The trace with its answer read and compared with the reference."""
        answer = self.answer(trajectory)
        return replace(trajectory, answer=answer, correct=answer == trajectory.problem.answer)

    def check(self, trajectory: Trajectory) -> list[StepTruth]:
        """The class of every step, by the rules of `ArithmeticWorld.check`."""
        return self.base.check(canonical(trajectory))

    def first_error(self, trajectory: Trajectory) -> int:
        """0-based index of the first wrong step, -1 if there is none."""
        return self.base.first_error(canonical(trajectory))


@register("policy", "scripted-arithmetic-multilingual")
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
            [_in_language(completion, prefix.problem) for completion in completions]
            for prefix, completions in zip(prefixes, sampled, strict=True)
        ]

    def value(self, prefix: Trajectory) -> float:
        """The exact probability that a completion of `prefix` ends with the reference answer."""
        return self.base.value(canonical(prefix))

    def answers(self, prefix: Trajectory) -> dict[str, float]:
        """The exact probability of each final answer after `prefix`, likeliest first."""
        return self.base.answers(canonical(prefix))


def _in_language(completion: Completion, problem: Problem) -> Completion:
    language = language_of(problem)
    return replace(completion, steps=tuple(_translated(problem, step, "en", language) for step in completion.steps))
