"""A policy that only counts: its completions, replies and choices are stand-ins, so any labeller can be run for nothing.

A `Rehearsal` hands out such policies and decides what their stand-ins say; a labeller is built over them as over any other:

    rehearsal = Rehearsal()
    judge = MonteCarlo(rehearsal.policy(), rollouts=8)
    requests = rehearsal.play(judge.judge, traces, Case(rate=0.5))

What follows a prefix of a given trace is as long as what the given traces have there, on the mean; its answer is right or wrong
as the `Case` says. Whatever is asked about a problem that is none of the traces' is a question to a judge: its reply is as
long as a trace, and says what critics say in one of the forms of the field.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from footfall.answers import grade
from footfall.policy.protocol import Completion, Policy, Run, SamplingParams
from footfall.types import Cost, Judgement, Problem, Step, Trajectory, content_key

LONGEST = 32
"""Steps of the longest solutions that are stood in for, unless the given traces have more than a quarter of that."""
_MARK = re.compile(r"~(\d+)~")
_WRONG = "The answer is nowhere."
_RIGHT = ("The answer is {}.", "\\boxed{{{}}}", "Answer: {}")
_VERDICTS: tuple[Callable[[int], str], ...] = (
    lambda n: f"{[1] * n}\n\\boxed{{Yes}}",
    lambda n: f"{[0] * n}\n\\boxed{{No}}",
    lambda n: "\\boxed{-1}",
    lambda n: "".join(f"Step {k}: \\boxed{{correct}}\n" for k in range(1, n + 1)),
    lambda n: f'{{"validity": {[1] * n}, "redundancy": {[0] * n}}}',
    lambda n: "```python\nprint(1)\n```\n",
    lambda n: "That is hard to say.",
)
"""How critics end their replies: lists, boxes, indices, JSON, code to be run, and nothing that can be read."""
REPLIES = len(_VERDICTS)


class TokenCount(NamedTuple):
    """How texts are counted, and in words how that is done."""

    of: Callable[[str], float]
    how: str
    exact: bool = False


@dataclass(frozen=True)
class Case:
    """What stand-ins say in one run of a labeller."""

    rate: float = 1.0
    """Share of the completions of a prefix that are right, while the trace is not lost."""
    order: Literal["even", "late", "first", "chance"] = "even"
    """Which of them: evenly spread, the last ones, the first alone, or drawn by `seed` at the problem's pass rate."""
    lost: float | None = None
    """So many steps of a trace (below 1: that share of them) can be gone on with; after more no completion is right."""
    reply: int = 0
    """Which form replies have."""
    long: bool = False
    """Whether solutions go on and on, and replies are as long as they may be."""
    seed: int = 0

    def right(self, index: int, asked: int, rate: float, *key: object) -> bool:
        """Whether completion `index` of `asked` ones is right."""
        if self.order == "chance":
            return int(content_key("rehearsal", self.seed, index, *key)[:12], 16) / 16**12 < rate
        if self.order == "first":
            return index == 0
        if self.order == "late":
            return index >= (1 - self.rate) * asked
        return math.floor((index + 1) * self.rate) > math.floor(index * self.rate)


class Request(NamedTuple):
    """Completions of one text that were asked for."""

    unit: int
    """Which of the given traces (or problems) it is for; -1: a question to a judge."""
    place: tuple[int, str, str]
    """Who is asked, about which problem, after what."""
    indices: range
    prompt: float
    """Tokens of the text."""
    length: float
    """Tokens of a completion, on the mean."""
    limit: int
    """And at most."""


class _Known(NamedTuple):
    """A problem of the given traces."""

    problem: Problem
    unit: int
    steps: int
    rate: float
    right: str


@dataclass
class _Lengths:
    """Tokens of texts, and of what the given traces have after each of their prefixes."""

    tokens: TokenCount
    length: float = 1.0
    step: float = 1.0
    steps: float = 1.0
    rest: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    lost: set[tuple[str, str]] = field(default_factory=set)
    _known: dict[str, float] = field(default_factory=dict)

    def of(self, text: str) -> float:
        """Tokens of a text; a stand-in says itself how many it stands for."""
        if text not in self._known:
            marks = [int(mark) for mark in _MARK.findall(text)]
            self._known[text] = self.tokens.of(_MARK.sub("", text) if marks else text) + sum(marks)
        return self._known[text]

    def of_prefix(self, prefix: Trajectory) -> float:
        return self.of(prefix.problem.text) + sum(self.of(step.written + prefix.separator) for step in prefix.steps)

    def after(self, prefix: Trajectory, place: tuple[str, str]) -> float:
        """How many tokens a completion has on the mean."""
        known = self.rest.get(place)
        if known is not None:
            return sum(known) / len(known)
        return max(self.length - self.of_prefix(prefix) + self.of(prefix.problem.text), self.step)

    @classmethod
    def measured(cls, traces: Sequence[Trajectory], tokens: TokenCount) -> _Lengths:
        found = cls(tokens)
        wholes = []
        for trace in traces:
            sizes = [found.of(step.written + trace.separator) for step in trace.steps]
            total = sum(sizes)
            wholes.append(total)
            least = total / len(sizes) if sizes else found.of(trace.problem.text)
            for k in range(len(sizes) + 1):
                found.rest[trace.problem.id, trace.prefix(k).text].append(max(total - sum(sizes[:k]), least))
        steps = sum(len(trace.steps) for trace in traces)
        found.length = max(1.0, sum(wholes) / max(1, len(traces)))
        found.steps = max(1.0, steps / max(1, len(traces)))
        found.step = max(1.0, sum(wholes) / max(1, steps))
        return found

    def lose(self, traces: Sequence[Trajectory], seed: int) -> None:
        """Draw for each wrong trace after which step it is lost; a prefix that any trace goes on from is not."""
        lost: set[tuple[str, str]] = set()
        alive: set[tuple[str, str]] = set()
        for t, trace in enumerate(traces):
            n = len(trace.steps)
            good = n if trace.correct else int(content_key("lost", seed, t)[:8], 16) % max(1, n)
            for k in range(n + 1):
                (alive if k <= good else lost).add((trace.problem.id, trace.prefix(k).text))
        self.lost = lost - alive


class Rehearsal:
    """Runs labellers over policies that only count."""

    def __init__(self) -> None:
        self.case = Case()
        self.requests: list[Request] = []
        self._known: dict[str, _Known] = {}
        self._lengths = _Lengths(TokenCount(len, "characters"))
        self._policies: list[CountingPolicy] = []

    def policy(self, inner: Policy | None = None, tokenizer: object = None) -> CountingPolicy:
        """A policy that counts. What else `inner` has (its mode, exact values) is there too; it is never asked to write."""
        self._policies.append(CountingPolicy(self, inner, tokenizer, len(self._policies)))
        return self._policies[-1]

    @property
    def first(self) -> CountingPolicy | None:
        """The first policy that was asked for, if any."""
        return self._policies[0] if self._policies else None

    def reader(self, name: str) -> StandInJudge:
        """A judge in the place of a model whose weights are not to be loaded."""
        return StandInJudge(self, name)

    def begin(self, traces: Sequence[Trajectory], tokens: TokenCount, rates: Mapping[str, float]) -> None:
        """Learn lengths and problems from graded traces."""
        self._traces, self._rates = list(traces), dict(rates)
        self._lengths = _Lengths.measured(traces, tokens)
        self._answers = {trace.problem.id: _right_answer(trace.problem) for trace in traces}

    def play(
        self, run: Callable[[list[Trajectory]], object], units: Sequence[Trajectory], case: Case, apart: bool = False
    ) -> list[Request]:
        """What the labeller asks for in this case; with `apart` as if each unit had a problem of its own."""
        self.case, self.requests, self._known = case, [], {}
        self._lengths.lose(self._traces if case.order == "chance" else (), case.seed)
        played = []
        for i, unit in enumerate(units):
            problem = replace(unit.problem, id=f"{unit.problem.id}~{i}") if apart else unit.problem
            right, rate = self._answers[unit.problem.id], self._rates.get(unit.problem.id, 0.5)
            self._known.setdefault(problem.id, _Known(unit.problem, i, len(unit.steps), rate, right))
            played.append(replace(unit, problem=problem))
        run(played)
        return self.requests

    def complete(self, policy: int, prefix: Trajectory, indices: range, params: SamplingParams) -> list[Completion]:
        """Stand-ins for completions of a prefix, or for replies to a question."""
        known = self._known.get(prefix.problem.id)
        if known is None:
            return self._reply(policy, prefix, indices, params)
        place = (known.problem.id, prefix.text)
        usual = self._lengths.step if params.until == "step" else self._lengths.after(prefix, place)
        length = min(float(params.max_tokens), usual)
        prompt = self._lengths.of_prefix(prefix)
        self.requests.append(Request(known.unit, (policy, *place), indices, prompt, length, params.max_tokens))
        lost = place in self._lengths.lost or (self.case.lost is not None and len(prefix.steps) > self._good(known))
        cost = Cost(prompt_tokens=round(prompt), generated_tokens=round(length), calls=1)
        return [
            self._solution(known, prefix, index, params, length, cost, not lost
                           and self.case.right(index, indices.stop, known.rate, *place))
            for index in indices
        ]  # fmt: skip

    def _good(self, known: _Known) -> float:
        lost = self.case.lost or 0.0
        return round(lost * known.steps) if 0 < lost < 1 else lost

    def _solution(
        self,
        known: _Known,
        prefix: Trajectory,
        index: int,
        params: SamplingParams,
        length: float,
        cost: Cost,
        right: bool,
    ) -> Completion:
        most = max(LONGEST, math.ceil(4 * self._lengths.steps))
        usual = min(most, params.max_tokens) if self.case.long else round(self._lengths.steps)
        left = max(1, usual - len(prefix.steps) if params.until == "step" or not self.case.long else usual)
        tokens = params.max_tokens if self.case.long else length
        answer = _step(f"{known.right if right else _WRONG}")
        if params.until == "step":
            step = answer if left == 1 else _step(f"~{math.ceil(tokens)}~ {index}")
            return Completion((step,), "end" if left == 1 else "step", index, cost=cost)
        filler = _step(f"~{max(1, math.ceil(tokens / left))}~ {index}")
        return Completion((*[filler] * (left - 1), answer), "end", index, cost=cost)

    def _reply(self, policy: int, prefix: Trajectory, indices: range, params: SamplingParams) -> list[Completion]:
        asked = prefix.problem.text
        length = min(float(params.max_tokens), self._lengths.length)
        prompt = self._lengths.of_prefix(prefix)
        place = (policy, asked, prefix.text)
        self.requests.append(Request(-1, place, indices, prompt, length, params.max_tokens))
        steps = max((t for t in self._traces if t.problem.text in asked), key=lambda t: _shown(t, asked), default=None)
        said = _VERDICTS[self.case.reply % REPLIES](_shown(steps, asked) if steps else 1)
        text = f"~{params.max_tokens if self.case.long else math.ceil(length)}~ {said}"
        cost = Cost(prompt_tokens=round(prompt), generated_tokens=round(length), calls=1)
        return [Completion((Step(text),), "end", index, cost=cost) for index in indices]

    def choose(self, policy: int, prefix: Trajectory, options: Sequence[str]) -> tuple[float, ...]:
        """The first or the last of the options is likelier, by the form of the replies."""
        prompt = self._lengths.of_prefix(prefix)
        self.requests.append(
            Request(-1, (policy, prefix.problem.text, f"choose:{prefix.text}"), range(1), prompt, 1, 1)
        )
        best = 0 if self.case.reply % 2 == 0 else len(options) - 1
        return tuple(-0.1 if i == best else -2.5 for i in range(len(options)))

    def read(self, policy: int, prefix: Trajectory) -> None:
        """A text is read, and nothing written."""
        known = self._known[prefix.problem.id]
        prompt = self._lengths.of_prefix(prefix)
        place = (policy, known.problem.id, f"read:{prefix.text}")
        self.requests.append(Request(known.unit, place, range(0), prompt, 0, 0))

    def length_of(self, prefix: Trajectory, max_tokens: int) -> int:
        """Tokens of a greedy completion."""
        if self.case.long:
            return max_tokens
        return min(max_tokens, math.ceil(self._lengths.after(prefix, (prefix.problem.id, prefix.text))))

    @property
    def tokens(self) -> TokenCount:
        """How texts are counted."""
        return self._lengths.tokens

    @property
    def step_tokens(self) -> int:
        """Tokens of a step, on the mean."""
        return math.ceil(self._lengths.step)


class CountingPolicy:
    """Writes stand-ins, and keeps count in its rehearsal."""

    def __init__(self, rehearsal: Rehearsal, inner: Policy | None, tokenizer: object, number: int) -> None:
        self.rehearsal, self.inner, self.number = rehearsal, self if inner is None else inner, number
        if tokenizer is not None:
            self.tokenizer: Any = tokenizer

    name = "counting"

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("inner", self)
        if inner is self:
            raise AttributeError(name)
        return getattr(inner, name)

    def around(self, policy: Policy, form: str) -> CountingPolicy:
        """Another policy of the same rehearsal, as with a rollout store."""
        return CountingPolicy(self.rehearsal, None if isinstance(policy, CountingPolicy) else policy, None, self.number)

    def forget(self) -> None:
        """There is nothing to forget."""

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """Stand-ins for `n` completions of each prefix."""
        indices = range(first, first + n)
        return [self.rehearsal.complete(self.number, prefix, indices, params) for prefix in prefixes]

    resume = sample

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        """The same for runs of different indices."""
        return [self.rehearsal.complete(self.number, run.prefix, run.indices, params) for run in runs]

    def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """Stand-ins for the log-probabilities of options."""
        return [self.rehearsal.choose(self.number, prefix, options) for prefix in prefixes]


@dataclass(frozen=True)
class CountingTokens:
    """A policy that counts as a writer of tokens (`footfall.label.edu_prm.TokenWriter`), whose branches are the case's."""

    policy: CountingPolicy
    name: str = "counting"
    vocabulary: str = "counting"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """Stand-ins for greedy texts, as one step of so many tokens."""
        return [
            [self._as_tokens(prefix, written, params.max_tokens) for written in row]
            for prefix, row in zip(prefixes, self.policy.sample(prefixes, n, params, first), strict=True)
        ]

    def _as_tokens(self, prefix: Trajectory, written: Completion, max_tokens: int) -> Completion:
        size = self.policy.rehearsal.length_of(prefix, max_tokens)
        step = Step("", token_ids=(1,) * size, logprobs=(-1.0,) * size)
        return replace(written, steps=(step,), tokenizer=self.vocabulary)

    def thoughts(self, trajectories: Sequence[Trajectory]) -> list[_StandInThoughts]:
        """Unsure everywhere, at the end of each step, or nowhere."""
        rehearsal, found = self.policy.rehearsal, []
        for trajectory in trajectories:
            rehearsal.read(self.policy.number, trajectory)
            size = sum(len(step.token_ids or ()) for step in trajectory.steps)
            case, every = rehearsal.case, rehearsal.step_tokens
            unsure = [case.long or (case.order == "chance" and i % every == 0) for i in range(size)]
            found.append(_StandInThoughts([math.inf if each else 0.0 for each in unsure], [2] * size, [-1.0] * size))
        return found

    def ends(self, token: int) -> bool:
        """No stand-in token ends a text."""
        return False

    def text(self, ids: Sequence[int]) -> str:
        """A text that counts as so many tokens."""
        return f"~{len(ids)}~" if len(ids) != 1 else "word"

    def in_lines(self, trajectory: Trajectory) -> Trajectory:
        """Stand-ins are in lines already."""
        return trajectory


class _StandInThoughts(NamedTuple):
    entropy: list[float]
    second: list[int]
    second_logprob: list[float]


@dataclass(frozen=True)
class StandInJudge:
    """Says what a model might: sure of everything where no completion is right at all, of nothing elsewhere."""

    rehearsal: Rehearsal
    name: str

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Stand-in values of each step, as the case says."""
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        case, n = self.rehearsal.case, len(trajectory.steps)
        sure = case.right(0, 1, 0.5, trajectory.id) if case.order == "chance" else case.lost == -1
        value, spread = (1.0, 0.0) if sure else (0.5, 1.0)
        return Judgement(trajectory.id, (value,) * n, self.name, aspects={"spread": (spread,) * n})


@lru_cache(maxsize=1 << 12)
def _step(text: str) -> Step:
    return Step(text, logprobs=(-1.0,))


def _shown(trace: Trajectory, text: str) -> int:
    """So many of the trace's steps stand in a text."""
    return sum(step.text.strip() in text for step in trace.steps)


def _right_answer(problem: Problem) -> str:
    """A step that states the reference, in a form that is graded as right."""
    texts = [form.format(problem.answer or "") for form in _RIGHT]
    graded = (text for text in texts if grade(Trajectory("stand-in", problem, (Step(text),))).correct)
    return next(graded, texts[0])
