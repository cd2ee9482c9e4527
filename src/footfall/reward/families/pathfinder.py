"""PathFinder-PRM-7B: marks each step's mathematics and consistency `<+>` or `<->`, then values it given the marks.

The marks are read one token before their place holders. The authors' ProcessBench script takes the first step with a bad
mark for the error and never looks at the second pass, so the threshold is 0: between −1 and the values in [0, 1].

All steps of all traces are marked in one round of batches, and those whose marks are all good are valued in a second one. Both
rounds begin with the same tokens, so a prefix cache makes the second nearly free. Labels that say which marks are bad train
both passes, the second given the marks as they are (objective `error-types`); others train the value, given good marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from footfall.judging import Traits
from footfall.registry import register
from footfall.render import Piece, Reading, Text, Token, Writer
from footfall.reward.checkpoint import Options, evidence, published
from footfall.reward.family import Family, Layout, Match, recognise
from footfall.reward.heads import VocabularyRows
from footfall.reward.judge import Runner, TooLong
from footfall.reward.prm import PRM
from footfall.reward.readout import Readout
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged, failures_of

INSTRUCTION = (
    "You are a Math Teacher. Given a question and a student's solution, evaluate the mathematical correctness, logic "
    "consistency of the current step and whether it will lead to the correct final solution"
)
"""Word for word what the model was trained with."""
GOOD, BAD, HOLDER = "<+>", "<->", "<extra>"
MARKS = ("math", "consistency")
"""What the first pass marks, and what the aspects of labels are called that say what the marks should be."""
FAILED = -1.0
"""The value of a step with a bad mark."""
NOT_AFTER_ERROR = Unjudged(Reason.AFTER_ERROR, "not judged after the first error")


@dataclass(frozen=True)
class Passes:
    """How the last step of a prefix is written in each pass; the first is read for each of `marks`, the second's last
    read is the value."""

    marks: tuple[str, ...]
    first: Layout
    second: Layout
    value: str
    """What the second pass tells, as an aspect."""


class _Place(NamedTuple):
    trace: int
    step: int


class _Step(NamedTuple):
    """What is known of a step."""

    marks: tuple[float, ...]
    value: float | None = None


class TwoPassJudge:
    """A value in [0, 1] for a step whose marks are all good, −1 for one with a bad mark.

    `judge_all` False leaves the steps after the first bad one without a value.
    """

    def __init__(
        self,
        model: PRM,
        passes: Passes,
        *,
        judge_all: bool = True,
        too_long: TooLong = "error",
        token_budget: int | None = None,
        cache_tokens: int = 0,
    ) -> None:
        if too_long not in ("error", "partial"):
            raise ValueError(f'too_long is "error" or "partial", not {too_long!r}')
        self.model = model
        self.writer = Writer(model.tokenizer, model.prm_config.backbone)
        self.passes = passes
        self.judge_all = judge_all
        self.too_long = too_long
        self.runner = Runner(model, token_budget, cache_tokens)
        self._name = f"{model.kind}@{model.fingerprint()}" + ("" if judge_all else ":first-error")

    @property
    def name(self) -> str:
        """Kind and content of the weights."""
        return self._name

    @property
    def traits(self) -> Traits:
        """Its threshold, and that nobody knows what a trace takes."""
        return Traits(threshold=self.model.threshold, at_most=self.at_most)

    def at_most(self, steps: int | None) -> None:
        """Nobody knows: steps that pass are read twice, so that one trace says little of another."""

    def forget(self) -> None:
        """Drop what is cached."""
        self.runner.forget()

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement a trace, in order."""
        known: dict[_Place, _Step] = {}
        costs = [Cost() for _ in trajectories]
        places = [_Place(n, k) for n, t in enumerate(trajectories) for k in range(len(t.steps))]
        for place, logits_SK in self._read(trajectories, places, self.passes.first, costs).items():
            known[place] = _Step(tuple(self.model.values(logits_SK).tolist()))
        passed = [place for place, step in known.items() if self._good(step)]
        for place, logits_SK in self._read(trajectories, passed, self.passes.second, costs).items():
            known[place] = known[place]._replace(value=float(self.model.values(logits_SK)[-1]))
        return [self._judgement(n, t, known, costs[n]).check(t) for n, t in enumerate(trajectories)]

    def _good(self, step: _Step) -> bool:
        """No mark is more likely bad than good; the authors take the first of two equal ones, which is the good one."""
        return all(mark >= 0.5 for mark in step.marks)

    def _read(
        self,
        trajectories: Sequence[Trajectory],
        places: Sequence[_Place],
        layout: Layout,
        costs: list[Cost],
    ) -> dict[_Place, Tensor]:
        """Logits of each place that fits in the context; what they took is added to the costs."""
        readings: dict[_Place, Reading] = {}
        written = [
            (layout(self.writer, trajectories[n].prefix(k + 1)), f"trajectory {trajectories[n].id!r}")
            for n, k in places
        ]
        for place, (_, name), reading in zip(places, written, self.writer.read_many(written), strict=True):
            if len(reading.ids) <= self.model.max_length:
                readings[place] = reading
            elif self.too_long == "error":
                raise ValueError(
                    f"{name}: step {place.step + 1} makes {len(reading.ids)} tokens, {self.name} takes "
                    f'{self.model.max_length}; use too_long="partial" (--set too_long=partial) to judge the steps that fit'
                )
        logits, spent = self.runner.run(list(readings.values()))
        for place, cost in zip(readings, spent, strict=True):
            costs[place.trace] += cost
        return dict(zip(readings, logits, strict=True))

    def _judgement(self, n: int, trajectory: Trajectory, known: dict[_Place, _Step], cost: Cost) -> Judgement:
        values: list[float | None] = []
        failures: list[Unjudged | None] = []
        columns: dict[str, list[float | None]] = {name: [] for name in (*self.passes.marks, self.passes.value)}
        failed = False
        for k in range(len(trajectory.steps)):
            step = known.get(_Place(n, k))
            failure = self._failure(step, failed)
            failed = failed or (step is not None and not self._good(step))
            told = None if failure else step
            marks = told.marks if told else (None,) * len(self.passes.marks)
            for name, number in zip(columns, (*marks, told.value if told else None), strict=True):
                columns[name].append(number)
            values.append(None if told is None else FAILED if told.value is None else told.value)
            failures.append(failure)
        aspects = {name: tuple(column) for name, column in columns.items()}
        return Judgement(
            trajectory.id, tuple(values), self.name, aspects=aspects,
            failures=failures_of(failures), cost=cost,
        )  # fmt: skip

    def _failure(self, step: _Step | None, failed: bool) -> Unjudged | None:
        """Why a step gets no value, if it gets none."""
        if failed and not self.judge_all:
            return NOT_AFTER_ERROR
        if step is None or (self._good(step) and step.value is None):
            words = f"with what stands before it, the step does not fit in a context of {self.model.max_length}"
            return Unjudged(Reason.TOO_LONG, words)
        return None


def first_pass(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """The last step with place holders for both marks."""
    return _turns(writer, trajectory, [
        Text(" Math reasoning: "), Token(HOLDER, read=-1), Text(", Consistency: "), Token(HOLDER, read=-1),
    ])  # fmt: skip


def second_pass(
    writer: Writer, trajectory: Trajectory, marks: int | None = None, given: Sequence[bool] = (True, True)
) -> list[Piece]:
    """The last step with its marks, and a place holder for its value; `marks` -1 reads before the marks as well."""
    math, consistency = (Token(GOOD if good else BAD, read=marks) for good in given)
    return _turns(writer, trajectory, [
        Text(" Math reasoning: "), math, Text(", Consistency: "), consistency, Text(", Correctness: "), Token(HOLDER, read=-1),
    ])  # fmt: skip


def taught(writer: Writer, trajectory: Trajectory, given: Sequence[bool] | None) -> list[Piece]:
    """Either pass as it is trained: the marks, or the value given these marks."""
    return first_pass(writer, trajectory) if given is None else second_pass(writer, trajectory, given=given)


def _turns(writer: Writer, trajectory: Trajectory, end: list[Piece]) -> list[Piece]:
    *before, step = (step.written for step in trajectory.steps)
    said = "".join(f"{text}\n\n" for text in before)
    answer: list[Piece] = [Text(f"{said}Current Step: {step}"), *end]
    return writer.chat([("user", f"{INSTRUCTION}\n\n Question: {trajectory.problem.text}"), ("assistant", answer)])


@register("family", "pathfinder-prm")
def pathfinder() -> Family:
    """declare-lab/PathFinder-PRM-7B."""
    return Family(
        name="pathfinder-prm",
        published=("declare-lab/PathFinder-PRM-7B",),
        licence="see the model card; Qwen2.5-7B is Apache-2.0",
        match=Match(
            model_types=("qwen2",), absent=("score.weight", "score.0.weight"), tokens=(GOOD, BAD, HOLDER),
            names=("pathfinder",),
        ),
        layout=second_pass,
        head=VocabularyRows((GOOD, BAD)),
        readout=Readout("good", ("good", "bad"), ("good",)),
        threshold=0.0,
        per_prefix=True,
        judged=_judged,
        marks=MARKS,
        taught=taught,
        stored_as="{decoder}ForCausalLM",
    )  # fmt: skip


@register("reward", "pathfinder")
def pathfinder_judge(
    path: str | Path, judge_all: bool = True, device: str | None = None, token_budget: int | None = None,
    cache_tokens: int = 0,
) -> TwoPassJudge:  # fmt: skip
    """PathFinder-PRM, with the choice to stop at a trace's first error."""
    options = Options(device=device, token_budget=token_budget, cache_tokens=cache_tokens)
    seen = evidence(path)
    return _judged(published(seen, recognise(seen, "pathfinder-prm"), options), options, judge_all)


def _judged(model: PRM, options: Options, judge_all: bool = True) -> TwoPassJudge:
    # A cache keeps a trace at its reads: with one before the marks, the second pass finds there what the first has read.
    second = partial(second_pass, marks=-1)
    return TwoPassJudge(
        model,
        Passes(MARKS, first_pass, second, "correctness"),
        judge_all=judge_all, too_long=options.too_long, token_budget=options.token_budget,
        cache_tokens=options.cache_tokens,
    )  # fmt: skip
