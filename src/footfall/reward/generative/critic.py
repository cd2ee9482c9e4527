"""What all generative judges share: questions to a policy, and opinions of samples that become one value a step.

Questions are in chat form, with the beginning of the reply put in the model's mouth and strings to stop at. Where the model's
chat template is at hand (a model in this process, or a server asked for completions with `tokenizer`), the whole dialogue is
rendered to one text and tokenised as one, as these judges were trained and published: a blank line that closes the assistant's
header and one that opens the reply are then one token, and not two. Otherwise (a chat server) messages are sent, and the
opening is an unfinished assistant turn.

A judge that babbles, is cut off or cannot be reached has no opinion. It is never counted as a zero, nor as a half.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from footfall.drive.rollouts import write
from footfall.judging import Bound, Traits
from footfall.policy.http import HttpPolicy
from footfall.policy.protocol import Completion, Policy, SamplingParams, can_choose
from footfall.render import Template, decoded, dialogue_text
from footfall.types import (
    Cost,
    Judged,
    Judgement,
    Message,
    Problem,
    Reason,
    Step,
    Trajectory,
    Unjudged,
    content_key,
    failures_of,
    sampled_ids,
)

if TYPE_CHECKING:
    from footfall.policy.torch_policy import TorchPolicy

_NOBODY = Unjudged(Reason.NOT_ASKED, "nobody was asked")


@dataclass(frozen=True, slots=True)
class Request:
    """What is put to the model."""

    messages: tuple[Message, ...]
    opening: str = ""
    """How its reply begins."""
    stops: tuple[str, ...] = ()
    """Where the reply ends; in process and with a tokenizer the first one also stops the writing."""
    header: bool = True
    """Whether the template's assistant header stands before the opening. Only a rendered text can leave it out."""

    def going_on(self, opening: str, *stops: str) -> Request:
        """The same dialogue with a longer opening."""
        return replace(self, opening=opening, stops=stops)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model wrote, cut before the first stop string, which is named by `stop`."""

    text: str
    stop: str | None = None
    cut: bool = False
    """Ended by max_tokens, not by the model."""
    failure: Unjudged | None = None
    """Why there is no text at all."""
    cost: Cost = field(default_factory=Cost)


class Asker:
    """Puts many requests to one policy in one batch."""

    def __init__(self, policy: Policy) -> None:
        # A policy with a rollout store before it (drive.stored_policy) is asked through the store, as the one behind it reads.
        writer: Policy = getattr(policy, "inner", policy)
        self._tokenizer = _tokenizer(writer)
        self._writer = writer if self._tokenizer is None else _taking_text(writer)
        around: Callable[[Policy, str], Policy] | None = getattr(policy, "around", None)
        self._policy = self._writer if around is None else around(self._writer, "as text" if self._tokenizer else "")
        self.name = self._writer.name

    def ask(self, requests: Sequence[Request], n: int, params: SamplingParams) -> list[list[Reply]]:
        """`n` replies to each request, in order; what cannot be answered is a reply with its reason."""
        prefixes = [self._prefix(request) for request in requests]
        too_long = [self._too_long(prefix, params.max_tokens) for prefix in prefixes]
        stopping = self._tokenizer is not None and any(request.stops for request in requests)
        params = replace(params, until="step" if stopping else "end")
        fitting = [prefix for prefix, reason in zip(prefixes, too_long, strict=True) if reason is None]
        written = iter(write(self._policy, fitting, n, params))
        return [
            [Reply("", failure=reason) for _ in range(n)] if reason is not None
            else [self._reply(request, prefix, completion) for completion in next(written)]
            for request, prefix, reason in zip(requests, prefixes, too_long, strict=True)
        ]  # fmt: skip

    def choose(self, requests: Sequence[Request], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """Log-probabilities of the options right after each opening; `None` if the policy cannot tell."""
        if not requests or not can_choose(self._policy):
            return [(None,) * len(options) for _ in requests]
        return self._policy.choices([self._prefix(request) for request in requests], options)

    @property
    def counts(self) -> bool:
        """Whether a tokenizer is at hand to count the tokens of a request."""
        return self._tokenizer is not None

    def tokens(self, request: Request) -> int:
        """Tokens of a request, for the cost of a choice; 0 where no tokenizer is at hand to count them."""
        if self._tokenizer is None:
            return 0
        return len(self._tokenizer.encode(self._rendered(request), add_special_tokens=False))

    def _prefix(self, request: Request) -> Trajectory:
        # With an empty separator the opening is not followed by anything; a text without steps may use it as a stop.
        if self._tokenizer is None:
            steps = (Step(request.opening),) if request.opening else ()
            return Trajectory("critique", Problem("critique", request.messages), steps, separator="")
        separator = request.stops[0] if request.stops else "\n\n"
        return Trajectory("critique", Problem("critique", self._rendered(request)), separator=separator)

    def _rendered(self, request: Request) -> str:
        return dialogue_text(self._tokenizer, request.messages, request.opening, request.header)

    def _too_long(self, prefix: Trajectory, max_tokens: int) -> Unjudged | None:
        """In process a sequence that cannot fit would stop the whole batch; a server says so itself."""
        if not _in_process(self._writer):
            return None
        limit = getattr(self._writer.engine.model.config.get_text_config(), "max_position_embeddings", None)
        length = len(self._writer.tokenizer.encode(prefix.problem.text, add_special_tokens=False)) + 1
        if limit is None or length + max_tokens <= limit:
            return None
        asked = f"the question has {length} tokens and the critique may have {max_tokens} (max_tokens; --max-tokens)"
        return Unjudged(Reason.TOO_LONG, f"{asked}, the context holds {limit}")

    def _reply(self, request: Request, prefix: Trajectory, completion: Completion) -> Reply:
        if completion.finish == "error":
            why = Unjudged(Reason.FAILED_CALL, completion.error or "the policy failed")
            return Reply("", failure=why, cost=completion.cost)
        text = self._text(prefix, completion)
        found = [(text.find(stop), stop) for stop in request.stops if stop in text]
        if found:
            at, stop = min(found)
            return Reply(text[:at], stop, cost=completion.cost)
        return Reply(text, cut=completion.finish == "length", cost=completion.cost)

    def _text(self, prefix: Trajectory, completion: Completion) -> str:
        """All that was written, as it was written: from the ids where there are ids."""
        if _in_process(self._writer):
            return decoded(self._writer.tokenizer, sampled_ids(completion.steps))
        end = prefix.separator if completion.finish == "step" else ""
        return prefix.separator.join(step.text for step in completion.steps) + end


def _in_process(policy: Policy) -> TypeGuard[TorchPolicy]:
    """A model in this process, for which its module is loaded already: a server needs no torch, whose import takes seconds."""
    module = sys.modules.get("footfall.policy.torch_policy")
    return module is not None and isinstance(policy, module.TorchPolicy)


def _tokenizer(policy: Policy) -> Any:
    """The tokenizer that renders dialogues for this policy; None if it takes messages."""
    if _in_process(policy):
        return policy.tokenizer
    if not isinstance(policy, HttpPolicy) or policy.mode == "chat":
        return None
    if policy.tokenizer is None:
        raise ValueError(
            f"{policy.name} is asked for completions, which have no chat turns; "
            "use mode='chat' (--mode chat), or give the model's folder as tokenizer (--tokenizer)"
        )
    return policy.tokenizer


def _taking_text(policy: Policy) -> Policy:
    """The same policy for prompts that are rendered already, bos and all."""
    if isinstance(policy, HttpPolicy):
        return replace(policy, template="{prompt}{steps}", bos=False)
    taking: Any = copy.copy(policy)
    taking.template = Template("rendered")
    made: Policy = taking
    return made


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one sample says of one step: a value, or the reason why it says nothing."""

    value: float | None = None
    reason: Unjudged | None = None
    text: str = ""
    cost: Cost = field(default_factory=Cost)


class Verdict(NamedTuple):
    """What a critic is asked last about a step, and the words of which it chooses one: how it is trained."""

    request: Request
    good: str
    bad: str
    value: float
    """The step's label."""
    step: int
    opening: str = ""
    """The part of the request's opening that is put in its mouth; what comes after it is the critique."""


class Chain(NamedTuple):
    """One critique as data: what was written, and the verdicts that it states on the steps from `begin` to before `end`.

    A critique that states none, or cannot be read, has a `reason`; it is counted, and kept by no filter.
    """

    request: Request
    text: str
    begin: int
    end: int
    verdicts: tuple[bool, ...] = ()
    reason: Unjudged | None = None
    cost: Cost = Cost()


class Critique(NamedTuple):
    """What was written of one step. `verdict` asks what comes right after its opening; without one `reason` says why."""

    text: str
    cost: Cost
    verdict: Request | None = None
    reason: Unjudged | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What all samples together say of one step."""

    value: float | None
    failure: Unjudged | None = None
    rationale: str | None = None
    samples: int = 0
    """How many samples had an opinion."""
    cost: Cost = field(default_factory=Cost)


def share_of_yes(log_yes: float, log_no: float, temperature: float = 1.0) -> float:
    """p(Yes) / (p(Yes) + p(No)) = σ((log p(Yes) − log p(No)) / temperature)."""
    difference = (log_yes - log_no) / temperature
    if difference >= 0:
        return 1 / (1 + math.exp(-difference))
    return math.exp(difference) / (1 + math.exp(difference))


def settle(opinions: Sequence[Opinion]) -> Settled:
    """The mean of the samples that have an opinion; the first reason if none has. The first such text is the rationale."""
    cost = Cost.total(opinion.cost for opinion in opinions)
    said = [(opinion.value, opinion.text) for opinion in opinions if opinion.value is not None]
    if said:
        mean = sum(value for value, _ in said) / len(said)
        return Settled(mean, None, said[0][1] or None, len(said), cost)
    reason = next((opinion.reason for opinion in opinions if opinion.reason), _NOBODY)
    return Settled(None, reason, next((o.text for o in opinions if o.text), None), 0, cost)


def say(user: str, system: str | None = None) -> tuple[Message, ...]:
    """A dialogue of one question."""
    return ((Message("system", system),) if system is not None else ()) + (Message("user", user),)


def numbered(trajectory: Trajectory) -> list[str]:
    """The steps with `Step k: ` before each."""
    return [f"Step {k}: {step.written.strip()}" for k, step in enumerate(trajectory.steps, 1)]


class Critic:
    """Asks a policy about traces. A judge built on it says what to ask and how to read the replies."""

    kind: str
    threshold: float = 0.5
    """A step valued below is an error."""
    per_step: bool = False
    """Whether there is a question a step, not one a trace."""
    replies: int = 1
    """The most that are written for a critique, one after the other, of at most `max_tokens` each."""
    chooses: bool = False
    """Whether a critique ends in a choice between two words (`decide`)."""

    def __init__(
        self, policy: Policy, n: int, params: SamplingParams, settings: Mapping[str, str] | None = None
    ) -> None:
        if n < 1:
            raise ValueError(f"n={n}: at least one critique has to be sampled")
        self.policy = policy
        self.n, self.params = n, params
        self.asker = Asker(policy)
        drawn = [params.temperature, params.top_p, params.top_k, params.max_tokens, params.seed]
        self._key = content_key(n, drawn, dict(settings or {}))[:8]

    @property
    def name(self) -> str:
        """Kind, settings, and who writes."""
        return f"{self.kind}:n={self.n}:{self._key}@{self.asker.name}"

    @property
    def traits(self) -> Traits:
        """It asks its policy, has a threshold, and says what it writes at most."""
        counted = bool(getattr(self.policy, "counts_tokens", True))
        repeats = (("n", self.n),)
        return Traits((self.policy,), self.threshold, self.at_most, counts_tokens=counted, repeats=repeats)

    def at_most(self, steps: int | None) -> Bound | None:
        """What it writes about a trace of so many steps: a search's budget relies on it.

        questions · n · (replies · max_tokens); `None` if there is a question a step, and nobody knows how many steps.
        """
        questions = steps if self.per_step else 1
        if questions is None:
            return None
        critiques = questions * self.n
        choices = critiques if self.chooses else 0
        return Bound(critiques * self.longest, critiques * self.replies + choices, choices if self.asker.counts else 0)

    @property
    def longest(self) -> int:
        """Tokens of a critique at most, all its replies together."""
        return self.replies * self.params.max_tokens

    def ask(
        self, requests: Sequence[Request], n: int | None = None, max_tokens: int | None = None
    ) -> list[list[Reply]]:
        """Replies to all requests in one batch."""
        params = self.params if max_tokens is None else replace(self.params, max_tokens=max_tokens)
        return self.asker.ask(requests, n or self.n, params)

    def judge_whole(
        self,
        trajectories: Sequence[Trajectory],
        request: Callable[[Trajectory], Request],
        read: Callable[[Trajectory, Sequence[Reply]], Judgement],
    ) -> list[Judgement]:
        """One question a trace, in one batch; about a trace without steps nobody is asked."""
        replies = iter(self.ask([request(t) for t in trajectories if t.steps]))
        return [read(t, next(replies)) if t.steps else self.judgement(t, []) for t in trajectories]

    def unusable(self, reply: Reply) -> Unjudged | None:
        """Why nothing can be read from a reply; None if it ended as it should."""
        cut = f"cut at {self.params.max_tokens} tokens before the verdict"
        return reply.failure or (Unjudged(Reason.CUT, cut) if reply.cut else None)

    def critique(self, reply: Reply, verdict: Request, text: str) -> Critique:
        """A reply whose verdict comes after the opening of `verdict`, unless it was cut or failed."""
        reason = self.unusable(reply)
        if reason is not None:
            return Critique(reply.text, reply.cost, reason=reason)
        return Critique(text, reply.cost, verdict)

    def decide(self, rows: Sequence[Sequence[Critique]], options: tuple[str, str]) -> list[list[Opinion]]:
        """p(first option) among the two as each critique's verdict; one that has none has no opinion."""
        asked = [critique.verdict for row in rows for critique in row if critique.verdict is not None]
        found = iter(zip(asked, self.asker.choose(asked, options), strict=True))
        return [[self._opinion(critique, found) for critique in row] for row in rows]

    def _opinion(self, critique: Critique, found: Iterator[tuple[Request, tuple[float | None, ...]]]) -> Opinion:
        if critique.verdict is None:
            return Opinion(None, critique.reason, critique.text, critique.cost)
        request, (yes, no) = next(found)
        cost = critique.cost + Cost(scored_tokens=self.asker.tokens(request), calls=1)
        if yes is None or no is None:
            reason = Unjudged(Reason.NO_REFERENCE, "the policy gives no log-probabilities of the verdict's two words")
            return Opinion(None, reason, critique.text, cost)
        return Opinion(share_of_yes(yes, no), None, critique.text, cost)

    def judgement(
        self,
        trajectory: Trajectory,
        steps: Sequence[Settled],
        value: float | None = None,
        aspects: Mapping[str, tuple[float | None, ...]] | None = None,
        cost: Cost = Cost(),
    ) -> Judgement:
        """One settled opinion a step; `cost` is what the steps do not carry themselves."""
        said = {"samples": tuple(float(step.samples) for step in steps)}
        return Judgement(
            trajectory.id, tuple(step.value for step in steps), self.name, value,
            aspects={**said, **(aspects or {})}, rationales=tuple(step.rationale for step in steps),
            failures=failures_of(step.failure for step in steps), cost=cost + Cost.total(step.cost for step in steps),
        ).check(trajectory)  # fmt: skip


def labelled(row: Judged) -> Iterator[tuple[int, float, str]]:
    """The labelled steps of a row: place, label, and the critique that the labels bring, if they do."""
    said = row.judgement
    for k, value in enumerate(() if said is None else said.values):
        if said is not None and value is not None:
            yield k, value, (said.rationales[k] if said.rationales else None) or ""


def unreadable(words: str) -> Unjudged:
    """Why a reply that came to its end says nothing."""
    return Unjudged(Reason.UNREADABLE, words)


def per_trace(trajectories: Iterable[Trajectory], settled: Sequence[Settled]) -> list[list[Settled]]:
    """A flat list of all steps of all traces, cut into traces again."""
    rows, at = [], 0
    for trajectory in trajectories:
        rows.append(list(settled[at : at + len(trajectory.steps)]))
        at += len(trajectory.steps)
    return rows
