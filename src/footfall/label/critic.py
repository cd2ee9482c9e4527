"""A scripted chat model that answers `PromptedJudge` with given error rates: a critic whose every weakness is known.

It errs at a step for one of three reasons, each drawn by content, so that the same question has the same reply:

    shared    what the model does not know: it errs there under every prompt
    wording   what this prompt leads it into: the same in all samples of the prompt
    sampled   chance: different in every sample

With a reference answer in view it also verifies in reverse: verdicts that do not go with the reference (all steps are called
right but the answer is another, or a step is called wrong but the answer is right) make it look once more. A second look
is not misled by the wording in the same places, but it knows no more than the first. Asked whether a critique is sound, it
judges the same steps anew under that prompt, and compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from footfall.answers import grade
from footfall.label.prompted import NO_REFERENCE, cut_after_error, read_first_error, read_verdict, read_verdicts
from footfall.policy.protocol import Completion, SamplingParams
from footfall.simulate import chance
from footfall.types import Cost, Judge, Step, Trajectory, content_key
from footfall.worlds import TruthJudge

_INPUT = re.compile(
    r"\[Question\]\n(?P<question>.*?)\n\n\[Reference answer\]\n(?P<reference>.*?)\n\n"
    r"\[Student's steps\]\n(?P<steps>.*?)(?=\n\n|\Z)",
    re.DOTALL,
)
_LEAD = re.compile(r"^Step \d+: ", re.MULTILINE)
_CRITIQUE = "\n\n[Critique]\n"
_BOXED = "\\boxed{Yes}"
"""What is in a question that is answered by yes or no."""
_INDEXED = "\\boxed{-1}"
"""What is in a question that is answered by the index of the first bad step."""
_BABBLE = "The student should check the solution again."


class _Known(NamedTuple):
    """A trace, or the beginning of one, that the critic can be asked about."""

    keys: tuple[str, ...]
    """Of its prefixes of 1, 2, … steps."""
    truth: tuple[bool, ...]
    correct: bool | None
    """Whether the answer is right; `None` of a beginning."""

    @property
    def last(self) -> _Known:
        """Its last step alone."""
        return self._replace(keys=self.keys[-1:], truth=self.truth[-1:])


@dataclass(frozen=True)
class ScriptedCritic:
    """A policy that grades traces, of those given, or single steps of them in reply to the prompts of `PromptedJudge`."""

    traces: Sequence[Trajectory]
    truth: Judge = field(default_factory=TruthJudge)
    shared: float = 0.05
    wording: float = 0.1
    sampled: float = 0.05
    babble: float = 0.02
    """Share of the replies that hold no verdicts."""
    seed: int = 0
    price: int | None = None
    """Tokens that a reply costs for each step it is about; `None`: the words between spaces that it has."""

    def __post_init__(self) -> None:
        for name in ("shared", "wording", "sampled", "babble"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, not {getattr(self, name)}")

    @property
    def name(self) -> str:
        rates = f"shared={self.shared:g},wording={self.wording:g},sampled={self.sampled:g},babble={self.babble:g}"
        priced = "" if self.price is None else f",price={self.price}"
        return f"scripted-critic({rates},seed={self.seed}{priced},{self.truth.name})"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """Replies to the questions in the prompts."""
        return [[self._reply(prefix.problem.text, i) for i in range(first, first + n)] for prefix in prefixes]

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], _Known]:
        said = self.truth.judge(self.traces)
        found: dict[tuple[str, str], _Known] = {}
        for trace, judgement in zip(self.traces, said, strict=True):
            right = cut_after_error([int((value or 0.0) >= 0.5) for value in judgement.values])
            keys = tuple(trace.prefix(k + 1).key for k in range(len(trace.steps)))
            texts = [step.text.strip() for step in trace.steps]
            graded = trace if trace.correct is not None else grade(trace)
            whole = _Known(keys, tuple(map(bool, right)), bool(graded.correct))
            for k in range(1, len(texts)):
                begun = _Known(keys[:k], whole.truth[:k], None)
                found.setdefault((trace.problem.text, "\n".join(texts[:k])), begun)
            found[trace.problem.text, "\n".join(texts)] = whole
        return found

    def _reply(self, question: str, index: int) -> Completion:
        place = _INPUT.search(question)
        known = place and self._known.get((place["question"], _LEAD.sub("", place["steps"])))
        if not place or not known:
            return Completion((), "error", index, error="the critic was asked about a trace that it does not know")
        after, _, critique = question[place.end() :].partition(_CRITIQUE)
        wording = content_key(question[: place.start()], after)
        said = _read(critique, known) if critique else None
        if len(said) == 1 if said else _BOXED in question:
            known = known.last
        sample = critique or index
        if chance(self.seed, known.keys[-1], wording, sample, "babble") < self.babble:
            return self._said(_BABBLE, index, known)
        verdicts = self._verdicts(known, wording, sample, 0)
        if place["reference"] != NO_REFERENCE and known.correct is not None and (0 not in verdicts) != known.correct:
            verdicts = self._verdicts(known, wording, sample, 1)
        if _INDEXED in question[: place.start()]:
            return self._said(f"\\boxed{{{verdicts.index(0) if 0 in verdicts else -1}}}", index, known)
        if _BOXED not in question:
            return self._said(str(verdicts), index, known)
        good = verdicts == [1] if said is None else tuple(verdicts) == said
        return self._said(f"\\boxed{{{'Yes' if good else 'No'}}}", index, known)

    def _said(self, text: str, index: int, known: _Known) -> Completion:
        tokens = len(text.split()) if self.price is None else self.price * len(known.keys)
        return Completion((Step(text),), "end", index, cost=Cost(generated_tokens=tokens, calls=1))

    def _verdicts(self, known: _Known, wording: str, sample: int | str, look: int) -> list[int]:
        """What it thinks of each step; after the first one that it calls wrong, all are."""
        verdicts: list[int | None] = []
        for key, right in zip(known.keys, known.truth, strict=True):
            errs = (
                chance(self.seed, key, "shared") < self.shared
                or chance(self.seed, key, wording, look, "wording") < self.wording
                or chance(self.seed, key, wording, sample, look, "sampled") < self.sampled
            )
            verdicts.append(int(right != errs))
        return [int(bool(verdict)) for verdict in cut_after_error(verdicts)]


def _read(critique: str, known: _Known) -> tuple[int, ...]:
    """The verdicts of a critique: of all steps, or of the last one."""
    for read in (read_verdicts(critique, len(known.keys)), read_first_error(critique, len(known.keys))):
        if not isinstance(read, str):
            return read
    one = read_verdict(critique)
    return () if isinstance(one, str) else (one,)
