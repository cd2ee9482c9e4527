"""Language models asked about steps: an ensemble of prompts, with the reference in view, and second thoughts.

One question a trace, answered by a list of 0 and 1 (AURORA, arXiv 2502.11520) or by the index of the first bad step
(VersaPRM, arXiv 2502.06737), or one question a step, answered by Yes or No. The prompts of an ensemble differ in whether the
reply reasons first, shows an example or repeats the task; each is sampled `n` times (self-consistency), and all replies vote.
Reverse verification puts the reference answer into the question. A meta-critique puts every critique back to the model and
drops those it then finds unsound.

A reply that cannot be read has no vote. A step without a single vote has no label, and the reason of the first reply.

Verdict lists of prompted judges become one label a step (AURORA's ensemble): majority, ties, and the cut at an error.

A place for the reference answer in a PRM's input (AURORA's reverse verification): filled where there is one, and said to be
empty where there is none, in the very words that the model was trained with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from footfall.judging import Traits
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import VOTES, Declared, StudyRow, label_row, register
from footfall.types import (
    AFTER_ERROR,
    Cost,
    Judged,
    Judgement,
    Message,
    Problem,
    Reason,
    Trajectory,
    Unjudged,
    content_key,
    failures_of,
)

if TYPE_CHECKING:  # these load torch
    from footfall.reward.generative.critic import Asker, Reply, Request

Tie = Literal["wrong", "unlabelled"]

_VERDICT_LIST = re.compile(r"\[[\s01,]*\]")
_BOX = re.compile(r"\\boxed\{\s*(?:\\text\{\s*)?(\w+)[.!]?\s*(?:\}\s*)?\}")
_GOOD = {"yes": True, "correct": True, "right": True, "no": False, "incorrect": False, "wrong": False}


def read_verdicts(text: str, steps: int) -> tuple[int, ...] | str:
    """The last list of 0 and 1 in a reply; a reason if there is none, or not one verdict a step. Nothing is padded."""
    found = _VERDICT_LIST.findall(text)
    if not found:
        return "unparsable: no list of 0 and 1 in the reply"
    try:
        verdicts = tuple(json.loads(found[-1]))
    except json.JSONDecodeError:
        return f"unparsable: {found[-1][:40]!r} is no list"
    if any(verdict not in (0, 1) for verdict in verdicts):
        return f"unparsable: {found[-1][:40]!r} holds more than 0 and 1"
    if len(verdicts) != steps:
        return f"unparsable: {len(verdicts)} verdicts for {steps} steps"
    return verdicts


def read_verdict(text: str) -> int | str:
    """Yes or no in the last box; a reply that is that one word needs no box. Anything else is a reason."""
    boxes = _BOX.findall(text)
    word = (boxes[-1] if boxes else text.strip().strip(".!*").strip()).lower()
    if word in _GOOD:
        return int(_GOOD[word])
    return "unparsable: no \\boxed{Yes} or \\boxed{No} in the reply"


def vote(verdicts: Sequence[Sequence[int]], tie: Tie = "wrong") -> list[int | None]:
    """The majority at each step. A tie is wrong, or leaves the step without a label."""
    labels: list[int | None] = []
    for said in zip(*verdicts, strict=True):
        good = sum(said)
        bad = len(said) - good
        labels.append(int(good > bad) if good != bad else 0 if tie == "wrong" else None)
    return labels


def cut_after_error(labels: Sequence[int | None]) -> list[int | None]:
    """What is built on a wrong step is wrong too: all labels after the first 0 become 0."""
    if 0 not in labels:
        return list(labels)
    error = list(labels).index(0)
    return [*labels[:error], *[0] * (len(labels) - error)]


_TIED = Unjudged(Reason.UNDECIDED, "the votes are tied")

Form = Literal["trace", "step", "first-error"]
"""What is asked: a verdict on each step of a trace at once, on one step at a time, or where the first bad one is."""

NO_REFERENCE = "There is no reference answer for this question."

_TASK = """You are a teacher grading a student's solution step by step. Another route than your own is fine if it is sound. \
A step that builds on a wrong step is wrong too, even if it is valid in itself. Using a fact that does not apply is wrong."""
_LIST = "the list of verdicts, one for each of the {n} steps: 1 for a right step, 0 for a wrong one, for example [1, 0]"
_INPUT = "[Question]\n{question}\n\n[Reference answer]\n{reference}\n\n[Student's steps]\n{steps}"

PROMPTS: Mapping[str, str] = {
    "reason": f"{_TASK} Think about each step first. End your reply with {_LIST}.\n\n{_INPUT}",
    "list": f"{_TASK} Reply with nothing but {_LIST}.\n\n{_INPUT}",
    "example": f"{_TASK} Think about each step first. End your reply with {_LIST}.\n\nFor the question 'What is 2 + 3 + 4?' "
    "and the steps 'Step 1: 2 + 3 = 6', 'Step 2: 6 + 4 = 10' the reply ends with [0, 0]: the second step is built on the "
    f"first.\n\n{_INPUT}",
    "repeat": f"{_TASK}\n\n{_INPUT}\n\n{_TASK} Think about each step first. End your reply with {_LIST}.",
}
"""The prompts for a whole trace, by name. `{n}`, `{question}`, `{reference}` and `{steps}` are filled in."""

STEP_PROMPT = (
    f"{_TASK} Here is a solution up to its step {{k}}. Is step {{k}} right? Think about it first, and end your reply with "
    f"\\boxed{{{{Yes}}}} or \\boxed{{{{No}}}}.\n\n{_INPUT}"
)
"""The question for a single step, after all steps before it."""
FIRST_ERROR = (
    "Below are a question of any field, its reference answer if one is known, and a student's steps, numbered from 0. A step "
    "is good if it is correct, can be checked, belongs to the question and brings it forward; it is okay if it is correct but "
    "repeats something or brings little; it is bad if it is incorrect, cannot be checked, is beside the question or leads away "
    "from the answer. Trust the reference answer, but name no step bad only because of what comes after it. Go through the "
    "steps in order, think about each, and end your reply with the index of the first bad step in a box, or with "
    f"\\boxed{{{{-1}}}} if no step is bad.\n\n{_INPUT}"
)
"""The question for the first bad step (VersaPRM's good, okay and bad steps, in words of our own)."""
META = (
    "Here are a question, a student's steps and a critique of them. Is the critique sound, and do its verdicts follow from "
    "it? End your reply with \\boxed{{Yes}} or \\boxed{{No}}.\n\n" + _INPUT + "\n\n[Critique]\n{critique}"
)


class _Vote(NamedTuple):
    """What one reply says of a trace (or of one step), or why it says nothing; and what it cost."""

    verdicts: tuple[int, ...] | None
    reason: Unjudged | None
    text: str
    cost: Cost


@dataclass(frozen=True)
class PromptedJudge:
    """Any instruct model as a judge without training. One batch of questions for all traces, one more for `meta`."""

    policy: Policy
    form: Form = "trace"
    prompts: tuple[str, ...] = ("reason",)
    """Names in `PROMPTS`; only for the form `trace`."""
    n: int = 1
    """Samples of each question."""
    reference: bool = True
    """Reverse verification: the reference answer is in view. `False`: its place says that there is none."""
    meta: bool = False
    tie: Tie = "wrong"
    cut: bool = True
    """Steps after the first wrong one are wrong. `False`: as they are voted; in the form `first-error` nobody has voted."""
    params: SamplingParams = SamplingParams(temperature=0.0, max_tokens=2048)

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise ValueError(f"form={self.form!r}: a form is one of {', '.join(get_args(Form))}")
        unknown = [name for name in self.prompts if name not in PROMPTS]
        if unknown or not self.prompts:
            raise ValueError(f"no prompt is called {unknown[:1] or ''}; there are {', '.join(PROMPTS)}")
        if self.n < 1:
            raise ValueError(f"n={self.n}: at least one reply has to be sampled")
        if self.n > 1 and self.params.temperature == 0:
            raise ValueError(f"{self.n} samples at temperature 0 are all the same; give a temperature")

    @property
    def name(self) -> str:
        p = self.params
        key = content_key(
            self._texts, META if self.meta else "", [p.temperature, p.top_p, p.top_k, p.max_tokens, p.seed]
        )[:8]
        how = {"trace": "+".join(self.prompts), "step": "per-step", "first-error": "first-error"}[self.form]
        rules = f"n={self.n},reference={self.reference},meta={self.meta},tie={self.tie},cut={self.cut}"
        return f"prompted({self.policy.name},{how},{rules},{key})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("n", self.n),))

    @property
    def _texts(self) -> list[str]:
        """The questions that are put about a trace or a step."""
        if self.form == "trace":
            return [PROMPTS[name] for name in self.prompts]
        return [STEP_PROMPT if self.form == "step" else FIRST_ERROR]

    @cached_property
    def _asker(self) -> Asker:
        from footfall.reward.generative.critic import Asker

        return Asker(self.policy)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The vote of all replies on each step; one without a readable reply has no label."""
        units = [(t, k) for t in trajectories for k in (range(1, len(t.steps) + 1) if self.form == "step" else (0,))]
        units = [(t, k) for t, k in units if t.steps]
        votes = iter(self._ask(units))
        judgements = []
        for trajectory in trajectories:
            size = len(trajectory.steps) if self.form == "step" else min(1, len(trajectory.steps))
            judgements.append(self._judgement(trajectory, [next(votes) for _ in range(size)]))
        return judgements

    def _ask(self, units: Sequence[tuple[Trajectory, int]]) -> list[list[_Vote]]:
        """All votes on each unit: a trace (k = 0) or its step k."""
        texts = self._texts
        asked = [(unit, self._filled(text, unit)) for unit in units for text in texts]
        replies = self._put([question for _, question in asked], self.n)
        flat = [(unit, self._read(unit, reply)) for (unit, _), row in zip(asked, replies, strict=True) for reply in row]
        if self.meta:
            flat = self._second_thoughts(flat)
        size = len(texts) * self.n
        return [[said for _, said in flat[i * size : (i + 1) * size]] for i in range(len(units))]

    def _filled(self, text: str, unit: tuple[Trajectory, int], critique: str = "") -> str:
        return _filled(text, *unit, self.reference, critique, first=0 if self.form == "first-error" else 1)

    def _put(self, questions: Sequence[str], n: int) -> list[list[Reply]]:
        from footfall.reward.generative.critic import Request

        requests: list[Request] = [Request((Message("user", question),)) for question in questions]
        return self._asker.ask(requests, n, self.params) if requests else []

    @property
    def _cut(self) -> Unjudged:
        return Unjudged(Reason.CUT, f"cut at {self.params.max_tokens} tokens before the verdict")

    def _read(self, unit: tuple[Trajectory, int], reply: Reply) -> _Vote:
        trajectory, k = unit
        if reply.failure is not None:
            return _Vote(None, reply.failure, "", reply.cost)
        if reply.cut:
            return _Vote(None, self._cut, reply.text, reply.cost)
        if k:
            verdict = read_verdict(reply.text)
            read: tuple[int, ...] | str = verdict if isinstance(verdict, str) else (verdict,)
        elif self.form == "first-error":
            read = read_first_error(reply.text, len(trajectory.steps))
        else:
            read = read_verdicts(reply.text, len(trajectory.steps))
        if isinstance(read, str):
            return _Vote(None, Unjudged(Reason.UNREADABLE, read), reply.text, reply.cost)
        return _Vote(read, None, reply.text, reply.cost)

    def _second_thoughts(
        self, votes: Sequence[tuple[tuple[Trajectory, int], _Vote]]
    ) -> list[tuple[tuple[Trajectory, int], _Vote]]:
        """Ask of every critique that was read whether it is sound; one that is not, or not clearly, has no vote."""
        questions = [self._filled(META, unit, said.text) for unit, said in votes if said.verdicts is not None]
        replies = iter(self._put(questions, 1))
        checked = []
        for unit, said in votes:
            if said.verdicts is not None:
                (reply,) = next(replies)
                verdict = reply.failure or (self._cut if reply.cut else read_verdict(reply.text))
                cost = said.cost + reply.cost
                if verdict == 1:
                    said = said._replace(cost=cost)
                else:
                    unsound = (
                        "the model finds its own critique unsound" if verdict == 0 else f"meta-critique: {verdict}"
                    )
                    kind = Reason.UNDECIDED if verdict == 0 else Reason.UNREADABLE
                    reason = Unjudged(verdict.reason if isinstance(verdict, Unjudged) else kind, unsound)
                    said = _Vote(None, reason, said.text, cost)
            checked.append((unit, said))
        return checked

    def _judgement(self, trajectory: Trajectory, units: Sequence[Sequence[_Vote]]) -> Judgement:
        """Settle the votes: of the whole trace at once, or of each step by itself."""
        n = len(trajectory.steps)
        labels: list[int | None] = []
        counts: list[float] = []
        failures: list[Unjudged | None] = []
        for votes in units:
            read = [said.verdicts for said in votes if said.verdicts is not None]
            size = 1 if self.form == "step" else n
            labels += vote(read, self.tie) if read else [None] * size
            counts += [float(len(read))] * size
            reason = next((said.reason for said in votes if said.reason), None)
            failures += [_TIED if read else reason] * size
        values = cut_after_error(labels) if self.cut else labels
        if self.form == "first-error" and not self.cut and 0 in labels:
            error = labels.index(0) + 1
            values = [*labels[:error], *[None] * (n - error)]
            failures[error:] = [AFTER_ERROR] * (n - error)
        told = failures_of(
            None if value is not None else reason for value, reason in zip(values, failures, strict=True)
        )
        return Judgement(
            trajectory.id,
            tuple(None if value is None else float(value) for value in values),
            self.name,
            aspects={"votes": tuple(counts)},
            rationales=self._rationales(n, units),
            failures=told,
            cost=Cost.total(said.cost for votes in units for said in votes),
        ).check(trajectory)

    def _rationales(self, n: int, units: Sequence[Sequence[_Vote]]) -> tuple[str | None, ...]:
        """The first reply: at the step it is about, or at the last step if it is about the trace."""
        texts = [next((said.text for said in votes if said.text), None) for votes in units]
        return tuple(texts) if self.form == "step" else (*[None] * (n - 1), *texts)


def _filled(text: str, trajectory: Trajectory, k: int, reference: bool, critique: str = "", first: int = 1) -> str:
    """A prompt for a trace, or for its step k; the steps are numbered from `first` on."""
    steps = trajectory.steps[:k] if k else trajectory.steps
    numbered = "\n".join(f"Step {i}: {step.written.strip()}" for i, step in enumerate(steps, first))
    known = trajectory.problem.answer if reference else None
    return text.format(
        n=len(steps), k=k, question=trajectory.problem.text, steps=numbered, critique=critique,
        reference=NO_REFERENCE if known is None else known,
    )  # fmt: skip


def read_first_error(text: str, steps: int) -> tuple[int, ...] | str:
    """The index in the last box as verdicts, 0 from that step on and all 1 for -1; a reason if it names no step."""
    from footfall.reward.generative.whole_trace import read_index

    index = read_index(text, steps)
    return index if isinstance(index, str) else tuple(int(index < 0 or k < index) for k in range(steps))


@dataclass(frozen=True)
class Critiqued:
    """`prompted` in a study: its model is a scripted critic that knows the traces it is asked about."""

    setting: Any
    how: Mapping[str, Any]
    """Arguments of `prompted`."""

    @property
    def name(self) -> str:
        return self._over(()).name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self._over(trajectories).judge(trajectories)

    def _over(self, traces: Sequence[Trajectory]) -> PromptedJudge:
        return prompted(self.setting.critic_model(traces), seed=self.setting.params.seed, **self.how)


def asked(**how: Any) -> Callable[[Any, float], Critiqued]:
    """A prompted judge whose dial is how often each question is asked."""
    return lambda setting, budget: Critiqued(setting, {"n": int(budget), **how})


def in_turn(**how: Any) -> Callable[[Any, float], Critiqued]:
    """A prompted judge whose dial is how many of the prompts it uses."""
    return lambda setting, budget: Critiqued(setting, {"prompts": ",".join(list(PROMPTS)[: int(budget)]), **how})


def _row(place: int, name: str, dial: str, make: Callable[[Any, float], Critiqued]) -> StudyRow:
    budgets = VOTES if dial == "samples" else tuple(map(float, range(1, len(PROMPTS) + 1)))
    return label_row(place, name, dial, budgets, make=make, kind="stand-in")


@register(
    "labeller",
    "prompted",
    Declared(
        study=(
            _row(120, "", "samples", asked(reference=False)),
            _row(121, "prompted-step", "samples", asked(form="step", reference=False)),
            _row(122, "prompted-meta", "samples", asked(meta=True, reference=False)),
            _row(123, "prompted-reverse", "samples", asked()),
            _row(124, "prompted-ensemble", "prompts", in_turn(reference=False)),
            _row(125, "aurora", "prompts", in_turn()),
        ),
        systems={
            "aurora": {"prompts": "all", "reference": True, "cut": True},
            "versaprm": {"form": "first-error", "reference": True, "cut": True},
        },
    ),
)
def prompted(
    policy: Policy,
    form: Form = "trace",
    prompts: str = "reason",
    n: int = 1,
    reference: bool = True,
    meta: bool = False,
    tie: Tie = "wrong",
    cut: bool = True,
    temperature: float | None = None,
    max_tokens: int = 2048,
    seed: int = 0,
) -> PromptedJudge:
    """A language model asked about every step; prompts with commas between (or `all`) vote (AURORA's labels).

    One sample is greedy; several are drawn at temperature 1. The form `first-error` is VersaPRM's.
    """
    names = tuple(PROMPTS) if prompts == "all" else tuple(name.strip() for name in prompts.split(","))
    heat = (0.0 if n == 1 else 1.0) if temperature is None else temperature
    params = SamplingParams(heat, max_tokens=max_tokens, seed=seed)
    return PromptedJudge(policy, form, names, n, reference, meta, tie, cut, params)


_LINE = "\n\nReference answer: "


def reference_view(problem: Problem, shown: bool = True) -> Problem:
    """The problem with the reference answer behind its question; without one, or not `shown`, with the fixed sentence."""
    line = _LINE + (problem.answer if shown and problem.answer is not None else NO_REFERENCE)
    if isinstance(problem.prompt, str):
        return replace(problem, prompt=problem.prompt + line)
    if not problem.prompt:
        return replace(problem, prompt=(Message("user", line.strip()),))
    *before, last = problem.prompt
    return replace(problem, prompt=(*before, replace(last, content=last.content + line)))


def both_views(rows: Sequence[Judged]) -> list[Judged]:
    """Each row with its reference in view and without: the same steps, the same labels, two inputs."""
    views = []
    for trajectory, judgement in rows:
        for shown in (True, False):
            name = f"{trajectory.id}/{'with' if shown else 'without'}-reference"
            seen = replace(trajectory, id=name, problem=reference_view(trajectory.problem, shown))
            views.append(Judged(seen, None if judgement is None else replace(judgement, trajectory_id=name)))
    return views
