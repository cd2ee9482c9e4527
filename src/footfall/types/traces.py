"""What is solved and what was written: problems, steps, traces, what they cost, and how content is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import add, attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

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


def problem_rest(problem: Problem) -> str:
    """What `Trajectory.key` leaves out of a problem, for who names what comes of it: empty if there is nothing but the text."""
    prompt = None if isinstance(problem.prompt, str) else [[m.role, m.content] for m in problem.prompt]
    domain = None if problem.domain == "math" else problem.domain
    rest = [prompt, domain, problem.tools, problem.tables, problem.documents, problem.meta]
    return repr(rest) if any(rest) else ""


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


def sampled_ids(steps: Iterable[Step]) -> tuple[int, ...]:
    """The ids that the steps were sampled with, as one sequence."""
    return tuple(i for step in steps for i in step.token_ids or ())


def sampled_logprobs(steps: Iterable[Step]) -> tuple[float, ...]:
    """The log-probabilities of those ids."""
    return tuple(p for step in steps for p in step.logprobs or ())


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
        problem: object = self.problem
        if not isinstance(problem, Problem):
            wanted = "its problem is a Problem, as in Problem('p1', 'What is 3 + 4?')"
            raise TypeError(f"trajectory {self.id!r}: {wanted}, not {type(problem).__name__}")
        try:
            sampled = any(s.token_ids is not None or s.observation_ids is not None for s in self.steps)
        except AttributeError as error:
            raise TypeError(f"trajectory {self.id!r}: its steps are Steps, as in (Step('3 + 4 = 7.'),)") from error
        if self.tokenizer is None and sampled:
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
        """The steps, as notebooks show them."""
        from footfall.notebook import steps

        return steps(self.headline, [step.written for step in self.steps])

    @property
    def headline(self) -> str:
        """Problem and answer, for whoever shows the trace."""
        verdict = {True: "right", False: "wrong", None: "not checked"}[self.correct]
        return f"{self.problem.text}\nanswer: {'none' if self.answer is None else self.answer} ({verdict})"

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
