"""A scripted chat model that answers `PromptedJudge` with given error rates: a critic whose every weakness is known.

It errs at a step for one of three reasons, each drawn by content, so that the same question has the same reply:

    shared    what the model does not know: it errs there under every prompt
    wording   what this prompt leads it into: the same in all samples of the prompt
    sampled   chance: different in every sample

With a reference answer in view it also verifies in reverse: verdicts that do not go with the reference (all steps are called
right but the answer is another, or a step is called wrong but the answer is right) make it look once more. A second look
is not misled by the wording in the same places, but it knows no more than the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from footfall.answers import grade
from footfall.label.noisy import chance
from footfall.label.prompted import NO_REFERENCE
from footfall.label.votes import cut_after_error
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Judge, Step, Trajectory, content_key
from footfall.worlds import TruthJudge

__all__ = ["ScriptedCritic"]

_INPUT = re.compile(
    r"\[Question\]\n(?P<question>.*?)\n\n\[Reference answer\]\n(?P<reference>.*?)\n\n"
    r"\[Student's steps\]\n(?P<steps>.*?)(?=\n\n|\Z)",
    re.DOTALL,
)
_LEAD = re.compile(r"^Step \d+: ", re.MULTILINE)
_BABBLE = "The student should check the solution again."


class _Known(NamedTuple):
    """A trace that the critic can be asked about."""

    keys: tuple[str, ...]
    """Of its prefixes of 1, 2, … steps."""
    truth: tuple[bool, ...]
    correct: bool


@dataclass(frozen=True)
class ScriptedCritic:
    """A policy that grades whole traces, of those given, in reply to the prompts of `PromptedJudge`."""

    traces: Sequence[Trajectory]
    truth: Judge = field(default_factory=TruthJudge)
    shared: float = 0.05
    wording: float = 0.1
    sampled: float = 0.05
    babble: float = 0.02
    """Share of the replies that hold no verdicts."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("shared", "wording", "sampled", "babble"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, not {getattr(self, name)}")

    @property
    def name(self) -> str:
        rates = f"shared={self.shared:g},wording={self.wording:g},sampled={self.sampled:g},babble={self.babble:g}"
        return f"scripted-critic({rates},seed={self.seed},{self.truth.name})"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """Replies to the questions in the prompts. A token is a word between spaces."""
        return [[self._reply(prefix.problem.text, i) for i in range(first, first + n)] for prefix in prefixes]

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], _Known]:
        said = self.truth.judge(self.traces)
        found = {}
        for trace, judgement in zip(self.traces, said, strict=True):
            right = cut_after_error([int((value or 0.0) >= 0.5) for value in judgement.values])
            keys = tuple(trace.prefix(k + 1).key for k in range(len(trace.steps)))
            steps = "\n".join(step.text.strip() for step in trace.steps)
            graded = trace if trace.correct is not None else grade(trace)
            found[trace.problem.text, steps] = _Known(keys, tuple(map(bool, right)), bool(graded.correct))
        return found

    def _reply(self, question: str, index: int) -> Completion:
        place = _INPUT.search(question)
        known = place and self._known.get((place["question"], _LEAD.sub("", place["steps"])))
        if not place or not known:
            return Completion((), "error", index, error="the critic was asked about a trace that it does not know")
        wording = content_key(question[: place.start()], question[place.end() :])
        if chance(self.seed, known.keys[-1], wording, index, "babble") < self.babble:
            return _said(_BABBLE, index)
        verdicts = self._verdicts(known, wording, index, 0)
        if place["reference"] != NO_REFERENCE and (0 not in verdicts) != known.correct:
            verdicts = self._verdicts(known, wording, index, 1)
        return _said(str(verdicts), index)

    def _verdicts(self, known: _Known, wording: str, index: int, look: int) -> list[int]:
        """What it thinks of each step; after the first one that it calls wrong, all are."""
        verdicts: list[int | None] = []
        for key, right in zip(known.keys, known.truth, strict=True):
            errs = (
                chance(self.seed, key, "shared") < self.shared
                or chance(self.seed, key, wording, look, "wording") < self.wording
                or chance(self.seed, key, wording, index, look, "sampled") < self.sampled
            )
            verdicts.append(int(right != errs))
        return [int(bool(verdict)) for verdict in cut_after_error(verdicts)]


def _said(text: str, index: int) -> Completion:
    return Completion((Step(text),), "end", index, cost=Cost(generated_tokens=len(text.split()), calls=1))
