"""The nouns of the library: what is solved, what was written, what was said about it and what it cost.

Everything is a small frozen dataclass. Whoever reads a `Trajectory` and says how good each `Step` is, is a
`Judge`; what it says is a `Judgement`. A step that could not be judged holds `None` and a reason, never a zero.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from operator import add, attrgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work used. Costs add up with `+`; `seconds` is wall clock and differs from run to run."""

    prompt_tokens: int = 0
    """Prompt tokens that went through a model (a prefix found in a cache is not counted here)."""
    cached_tokens: int = 0
    """Prompt tokens whose keys and values were found in a cache instead."""
    generated_tokens: int = 0
    scored_tokens: int = 0
    """Tokens read by a judge."""
    flops: float = 0.0
    seconds: float = 0.0
    calls: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(add, _amounts(self), _amounts(other)))

    @classmethod
    def total(cls, costs: Iterable[Cost]) -> Cost:
        """The sum of all."""
        return sum(costs, cls())

    def to_dict(self) -> dict[str, float]:
        """The amounts by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


_amounts = attrgetter(*(f.name for f in fields(Cost)))


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A task with its reference answer, and what its domain needs besides the prompt."""

    id: str
    prompt: str | tuple[Message, ...]
    answer: str | None = None
    domain: str = "math"
    images: tuple[str, ...] = ()
    """References (paths or URLs), never pixels; `footfall.hashing.pinned` adds the content's hash, which then is the name."""
    tools: tuple[Mapping[str, Json], ...] = ()
    tables: tuple[Mapping[str, Json], ...] = ()
    documents: tuple[str, ...] = ()
    meta: Mapping[str, Json] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The prompt as plain text: the contents of all messages, for judges that take no chat."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n\n".join(message.content for message in self.prompt)


Author: TypeAlias = Literal["policy", "environment", "agent", "person"]
"""Who wrote a part of a trace: the policy that is judged and trained, its environment or a tool, another agent, a person."""


class Part(NamedTuple):
    """What one author wrote of a step, with the ids and log-probabilities it was written with, if they are known."""

    author: Author
    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a trace: text and action by its author, then what the environment answered, if it did."""

    text: str
    action: str | None = None
    observation: str | None = None
    """The environment's words, such as a tool's result: never graded, never trained on, never counted as generated."""
    agent: str | None = None
    """Which agent acted, where there are several."""
    images: tuple[str, ...] = ()
    token_ids: tuple[int, ...] | None = None
    """Of text and action as sampled, with the separator that follows; meaningful only with `Trajectory.tokenizer`."""
    logprobs: tuple[float, ...] | None = None
    """Of `token_ids` under the writer at temperature 1."""
    author: Author = "policy"
    """Who wrote text and action."""
    observation_ids: tuple[int, ...] | None = None
    """Of the observation as the environment put it into the sequence, with all that stands around it."""

    @property
    def written(self) -> str:
        """All that a reader of the trace sees of the step: its text, then its action, then what was observed."""
        if self.action is None and self.observation is None:
            return self.text
        return "\n".join(part for part in (self.text, self.action, self.observation) if part)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The step by authors, in order."""
        said = "\n".join(part for part in (self.text, self.action) if part)
        parts = [Part(self.author, said, self.token_ids, self.logprobs)] if said or self.token_ids else []
        if self.observation is not None or self.observation_ids is not None:
            parts.append(Part("environment", self.observation or "", self.observation_ids))
        return tuple(parts)

    @property
    def solution(self) -> str:
        """The solver's own words: of the policy and of agents that work with it, not of environment or people."""
        if self.action is None and self.observation is None and self.author == "policy":
            return self.text
        return "\n".join(part.text for part in self.parts if part.author in ("policy", "agent"))

    @property
    def is_plain(self) -> bool:
        """Whether all of it is text of the policy: no action, no observation, no other author."""
        return (
            self.action is None
            and self.observation is None
            and self.observation_ids is None
            and self.author == "policy"
        )

    def without_ids(self) -> Step:
        """The step as text alone, for readers of another vocabulary."""
        return replace(self, token_ids=None, logprobs=None, observation_ids=None)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Steps written for a problem. A prefix is a trajectory whose `answer` is still `None`."""

    id: str
    problem: Problem
    steps: tuple[Step, ...] = ()
    answer: str | None = None
    correct: bool | None = None
    author: str | None = None
    separator: str = "\n\n"
    """What stands after each step in the text."""
    tokenizer: str | None = None
    """Fingerprint of the vocabulary that the steps' `token_ids` belong to."""
    cost: Cost = field(default_factory=Cost)
    meta: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tokenizer is None and any(s.token_ids is not None or s.observation_ids is not None for s in self.steps):
            raise ValueError(f"trajectory {self.id!r} has token_ids but names no tokenizer they belong to")

    @property
    def text(self) -> str:
        """The steps as text, each followed by the separator."""
        return "".join(step.written + self.separator for step in self.steps)

    @property
    def solution(self) -> str:
        """The same without what the environment or a person wrote: the text that states the solver's answer."""
        return "".join(step.solution + self.separator for step in self.steps)

    def prefix(self, n_steps: int) -> Trajectory:
        """The first `n_steps` steps, with answer and verdict forgotten."""
        if not 0 <= n_steps <= len(self.steps):
            raise ValueError(f"trajectory {self.id!r} has {len(self.steps)} steps, no prefix of {n_steps}")
        steps = self.steps[:n_steps]
        return replace(self, steps=steps, answer=None, correct=None, cost=Cost())

    def extend(self, steps: Sequence[Step]) -> Trajectory:
        """The trace with further steps behind its own."""
        return replace(self, steps=self.steps + tuple(steps))

    def _repr_html_(self) -> str:
        return Judged(self, None)._repr_html_()

    @property
    def key(self) -> str:
        """Content address: equal for equal problems (images included) and equal steps, whatever the id."""
        steps = [_step_key(step) for step in self.steps]
        images = [image_name(reference) for reference in self.problem.images]
        return content_key(self.problem.id, self.problem.text, self.separator, steps, *([images] if images else ()))


def _step_key(step: Step) -> list[Json]:
    images = [image_name(reference) for reference in step.images]
    author = [] if step.author == "policy" else [step.author]
    return [step.text, step.action, step.observation, step.agent, images, *author]


IMAGE_HASH = "#sha256="
"""What stands between an image's reference and the hash of its content: `plot.png#sha256=9f2c…`."""


def image_name(reference: str) -> str:
    """The content's name where the reference holds its hash, so that copies of one picture are one; else the reference."""
    _, mark, digest = reference.rpartition(IMAGE_HASH)
    return f"sha256:{digest}" if mark else reference


def content_key(*parts: Any) -> str:
    """32 hex digits that name a JSON-like value by its content."""
    return hashlib.sha256(_canonical(parts)).hexdigest()[:32]


def content_key_of(items: Iterable[Any]) -> str:
    """`content_key` of the list of these, of which one at a time is in memory."""
    digest, mark = hashlib.sha256(b"[["), b""
    for item in items:
        digest.update(mark + _canonical(item))
        mark = b","
    digest.update(b"]]")
    return digest.hexdigest()[:32]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


class Reason(str, Enum):
    """Why a step has no value: what code may go by. The sentence for people is the `Unjudged` that has the reason."""

    AFTER_ERROR = "after-error"
    """The judge stops at the first error, and this step comes after it."""
    CUT = "cut"
    """What should have said it was cut at max_tokens."""
    FAILED_CALL = "failed-call"
    """A policy, a server or a tool failed."""
    TOO_LONG = "too-long"
    """It does not fit in the context."""
    NO_REFERENCE = "no-reference"
    """Something to compare with is missing: a reference answer, an outcome, tests, log-probabilities."""
    UNREADABLE = "unreadable"
    """There was a reply, but no verdict in it."""
    UNDECIDED = "undecided"
    """Votes are tied, judges differ, or the judge is not sure enough."""
    UNCHECKABLE = "uncheckable"
    """A checker does not understand the step, or no truth of it is known."""
    NOT_ASKED = "not-asked"
    """The judge did not look at it: not rated, valued in another row, no budget."""
    OTHER = "other"
    """A reason from a file or a judge that names none of these."""


class Unjudged(str):
    """Why a step has no value, in words, with its `reason` from the closed set."""

    __slots__ = ("reason",)
    reason: Reason

    def __new__(cls, reason: Reason, words: str) -> Unjudged:
        made = super().__new__(cls, words)
        made.reason = reason
        return made

    def __getnewargs__(self) -> tuple[Reason, str]:  # type: ignore[override]
        return self.reason, str(self)

    @property
    def stored(self) -> str:
        """As files hold it: `[cut] all 8 rollouts were cut before their end`."""
        return f"[{self.reason.value}] {self}"

    @classmethod
    def read(cls, stored: str) -> Unjudged:
        """From a file. One from before reasons were told apart is `other`, but for the one that searches go by."""
        code, closed, words = stored.partition("] ")
        if closed and code.startswith("[") and code[1:] in {reason.value for reason in Reason}:
            return cls(Reason(code[1:]), words)
        return cls(Reason.AFTER_ERROR if "after the first error" in stored else Reason.OTHER, stored)


AFTER_ERROR = Unjudged(Reason.AFTER_ERROR, "after the first error")


def failures_of(reasons: Iterable[Unjudged | None]) -> tuple[Unjudged | None, ...]:
    """`Judgement.failures` from one reason or `None` a step: empty if there is none."""
    found = tuple(reasons)
    return found if any(reason is not None for reason in found) else ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One value a step, from one judge. `None` means not judged; `failures` then says why."""

    trajectory_id: str
    values: tuple[float | None, ...]
    judge: str
    value: float | None = None
    """The judge's own word on the whole trajectory, if it has one; not an aggregate of `values`."""
    aspects: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Further numbers a step, e.g. `{"successes": (3, 0), "rollouts": (8, 8)}`."""
    rationales: tuple[str | None, ...] = ()
    failures: tuple[Unjudged | None, ...] = ()
    cost: Cost = field(default_factory=Cost)
    initial: float | None = None
    """The value of the empty prefix, before any step: what the first step's advantage is measured from."""
    token_values: tuple[tuple[float, ...], ...] = ()
    """Where the judge has them, the values at every token of each step."""

    def __post_init__(self) -> None:
        n = len(self.values)
        columns = {**{f"aspects[{name!r}]": column for name, column in self.aspects.items()},
                   "rationales": self.rationales or self.values, "failures": self.failures or self.values,
                   "token_values": self.token_values or self.values}  # fmt: skip
        for name, column in columns.items():
            if len(column) != n:
                raise ValueError(f"judgement of {self.trajectory_id!r}: {name} has {len(column)} entries for {n} steps")
        for why in self.failures:
            if why is not None and not isinstance(why, Unjudged):
                raise TypeError(
                    f"judgement of {self.trajectory_id!r}: {why!r} names no Reason; say Unjudged(Reason.…, …)"
                )
        numbers = {"value": self.values, **{f"aspect {name!r}": column for name, column in self.aspects.items()}}
        for name, column in numbers.items():
            for i, number in enumerate(column):
                if number is not None and not math.isfinite(number):
                    raise ValueError(f"judgement of {self.trajectory_id!r}: step {i + 1} has the {name} {number}")
        for name, number in (("value as a whole", self.value), ("initial value", self.initial)):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"judgement of {self.trajectory_id!r}: its {name} is {number}")
        if not all(math.isfinite(value) for row in self.token_values for value in row):
            raise ValueError(f"judgement of {self.trajectory_id!r}: a token's value is not finite")

    def failure(self, step: int) -> Unjudged | None:
        """Why this step (0-based) has no value, if that is known."""
        return self.failures[step] if self.failures else None

    def check(self, trajectory: Trajectory) -> Judgement:
        """Itself, if it has one value for each step of `trajectory`; an error that names the trace if not."""
        if len(self.values) != len(trajectory.steps):
            raise ValueError(
                f"trajectory {trajectory.id!r} has {len(trajectory.steps)} steps "
                f"but judge {self.judge!r} gave {len(self.values)} values"
            )
        return self

    def _repr_html_(self) -> str:
        from footfall.notebook import table

        rows = [[i, value if value is not None else self.failure(i - 1) or "not judged"]
                for i, value in enumerate(self.values, 1)]  # fmt: skip
        return table(f"{self.trajectory_id}, judged by {self.judge}", ["step", "value"], rows)

    def first_below(self, threshold: float) -> int | None:
        """0-based index of the first step valued strictly below `threshold`, -1 if there is none.

        `None` if an unjudged step comes first: then nobody can say.
        """
        for i, value in enumerate(self.values):
            if value is None:
                return None
            if value < threshold:
                return i
        return -1


class Judged(NamedTuple):
    """A trajectory with what one judge said of it: a row of process data."""

    trajectory: Trajectory
    judgement: Judgement | None

    def _repr_html_(self) -> str:
        """The steps with their values, as notebooks show it."""
        from footfall.notebook import steps

        trace, said = self
        verdict = {True: "right", False: "wrong", None: "not checked"}[trace.correct]
        title = f"{trace.problem.text}\nanswer: {'none' if trace.answer is None else trace.answer} ({verdict})"
        texts = [step.written for step in trace.steps]
        if said is None:
            return steps(title, texts)
        why = {i: str(reason) for i, reason in enumerate(said.failures) if reason is not None}
        return steps(f"{title}\njudge: {said.judge}", texts, said.values, why)


class Judge(Protocol):
    """Reads traces, says how good each step is. The order of the result is the order of the input."""

    @property
    def name(self) -> str:
        """Who judges: kind, weights and settings, so that two judges with one name say the same."""
        ...

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement for each trace, with one value for each of its steps."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """One step in a tree of traces; `parent` is -1 at the top."""

    parent: int
    step: Step
    visits: int = 0
    value: float | None = None
    terminal: bool = False
    meta: Mapping[str, Json] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    """Of writing and judging this step; several steps written in one go are charged to the last of them."""
    pruned: bool = False
    """Looked at and given up."""


@dataclass(slots=True)
class Tree:
    """Trajectories that share prefixes. Nodes are only ever appended, so an index stays valid."""

    problem: Problem
    nodes: list[Node] = field(default_factory=list)
    separator: str = "\n\n"
    value: float | None = None
    """Of the empty prefix."""
    tokenizer: str | None = None
    """Fingerprint of the vocabulary that the steps' `token_ids` belong to."""

    def __post_init__(self) -> None:
        for i, node in enumerate(self.nodes):
            if not -1 <= node.parent < i:
                raise ValueError(
                    f"tree of {self.problem.id!r}: node {i} hangs under {node.parent}, which is not before it"
                )

    def add(self, parent: int, step: Step, **given: Any) -> int:
        """Put a step under a node (-1: at the top); the index of its node."""
        if not -1 <= parent < len(self.nodes):
            raise ValueError(f"tree of {self.problem.id!r} has no node {parent} to put a step under")
        self.nodes.append(Node(parent, step, **given))
        return len(self.nodes) - 1

    def update(self, node: int, **changes: Any) -> None:
        """Change fields of a node."""
        if not 0 <= node < len(self.nodes):
            raise ValueError(f"tree of {self.problem.id!r} has no node {node} to change")
        self.nodes[node] = replace(self.nodes[node], **changes)

    def children(self, node: int) -> list[int]:
        """The nodes right under `node`, in the order in which they came."""
        return [i for i, n in enumerate(self.nodes) if n.parent == node]

    def leaves(self) -> list[int]:
        """The nodes without children."""
        inner = {n.parent for n in self.nodes}
        return [i for i in range(len(self.nodes)) if i not in inner]

    def path(self, node: int) -> list[int]:
        """Node indices from the top down to `node`."""
        path: list[int] = []
        while node >= 0:
            path.append(node)
            node = self.nodes[node].parent
        return path[::-1]

    def trajectory(self, node: int) -> Trajectory:
        """The trace that ends in `node`."""
        steps = tuple(self.nodes[i].step for i in self.path(node))
        return Trajectory(
            f"{self.problem.id}#{node}", self.problem, steps, separator=self.separator, tokenizer=self.tokenizer
        )


class Barren(NamedTuple):
    """A problem whose tree has no row, and why."""

    problem: Problem
    reason: str


@dataclass(frozen=True)
class Harvest:
    """The rows of trees, and what rows cannot tell: all that was asked for, and the problems that have no row at all."""

    rows: list[Judged] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    """Of all trees, those without a row included."""
    barren: tuple[Barren, ...] = ()
    rollouts: int = 0
    unfinished: int = 0
    """So many of them were cut at max_tokens."""

    def __add__(self, other: Harvest) -> Harvest:
        return Harvest(
            [*self.rows, *other.rows],
            self.cost + other.cost,
            self.barren + other.barren,
            self.rollouts + other.rollouts,
            self.unfinished + other.unfinished,
        )


class Decision(NamedTuple):
    """One thing that a search did, small enough to be read aloud: "pruned 4, 5: not among the 2 best"."""

    what: str
    """expanded, scored, kept, pruned, backed-up, stopped, chosen, failed, or a method's own word."""
    nodes: tuple[int, ...]
    """Of the result's tree; -1 is the empty prefix."""
    why: str
    values: tuple[float | None, ...]
    """The numbers it went by, one a node, or none."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A searcher's answer to one problem, with everything it looked at and what that cost."""

    problem: Problem
    answer: str | None
    chosen: Trajectory | None
    candidates: tuple[Judged, ...] = ()
    tree: Tree | None = None
    scores: tuple[float | None, ...] = ()
    """One a candidate, as the searcher compared them."""
    failure: str | None = None
    cost: Cost = field(default_factory=Cost)
    decisions: tuple[Decision, ...] = ()
    """What was done in which order: with the tree, the search can be replayed."""
    policy_cost: Cost = field(default_factory=Cost)
    """The part of `cost` that went into writing."""
    judge_cost: Cost = field(default_factory=Cost)
    """The part of `cost` that went into judging."""
    stopped: str | None = None
    """The budget that ran out before the method was done, such as "tokens"."""

    def _repr_html_(self) -> str:
        from footfall.notebook import table

        chosen = None if self.chosen is None else self.chosen.id
        rows = [
            ["★" if trace.id == chosen else "", "none" if trace.answer is None else trace.answer,
             {True: "right", False: "wrong", None: "not checked"}[trace.correct],
             "n/a" if score is None else float(score), len(trace.steps)]
            for (trace, _), score in zip(self.candidates, self.scores or (None,) * len(self.candidates), strict=True)
        ]  # fmt: skip
        outcome = self.failure or ("no answer" if self.answer is None else f"answer: {self.answer}")
        spent = (
            f"{self.policy_cost.generated_tokens:,} tokens written, {self.judge_cost.scored_tokens:,} read by the judge"
        )
        return table(f"{self.problem.text}\n{outcome}\n{spent}", ["", "answer", "", "score", "steps"], rows)


class Searcher(Protocol):
    """Policy + judge + budget -> an answer, with its candidates and cost."""

    def solve(self, problems: Sequence[Problem]) -> list[SearchResult]:
        """One result for each problem, in order."""
        ...
