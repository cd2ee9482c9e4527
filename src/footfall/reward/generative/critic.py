"""What all generative judges share: opinions of samples become one value a step, or a reason why there is none.

A judge that babbles, is cut off or cannot be reached has no opinion. It is never counted as a zero, nor as a half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from footfall.judging import Bound, Traits
from footfall.policy.protocol import Policy, SamplingParams
from footfall.reward.generative.asking import Asker, Reply, Request
from footfall.types import Cost, Judgement, Message, Reason, Trajectory, Unjudged, content_key, failures_of

_NOBODY = Unjudged(Reason.NOT_ASKED, "nobody was asked")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one sample says of one step: a value, or the reason why it says nothing."""

    value: float | None = None
    reason: Unjudged | None = None
    text: str = ""
    cost: Cost = field(default_factory=Cost)


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
    """Whether a critique ends in a choice between two words (`probabilities`)."""

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
        counted = bool(getattr(self.policy, "counts_tokens", True))
        return Traits((self.policy,), self.threshold, self.at_most, counts_tokens=counted)

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

    def probabilities(self, requests: Sequence[Request], options: tuple[str, str]) -> list[Opinion]:
        """p(first option) among the two, right after each request's opening."""
        opinions = []
        for request, (yes, no) in zip(requests, self.asker.choose(requests, options), strict=True):
            cost = Cost(scored_tokens=self.asker.tokens(request), calls=1)
            if yes is None or no is None:
                reason = Unjudged(Reason.NO_REFERENCE, "the policy gives no log-probabilities, so the verdict has none")
                opinions.append(Opinion(None, reason, request.opening, cost))
            else:
                opinions.append(Opinion(share_of_yes(yes, no), None, request.opening, cost))
        return opinions

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


def unreadable(words: str) -> Unjudged:
    """Why a reply that came to its end says nothing."""
    return Unjudged(Reason.UNREADABLE, words)


def unusable(reply: Reply, max_tokens: int) -> Unjudged | None:
    """Why nothing can be read from a reply; None if it ended as it should."""
    if reply.failure is not None:
        return reply.failure
    return Unjudged(Reason.CUT, f"cut at {max_tokens} tokens before the verdict") if reply.cut else None


def per_trace(trajectories: Iterable[Trajectory], settled: Sequence[Settled]) -> list[list[Settled]]:
    """A flat list of all steps of all traces, cut into traces again."""
    rows, at = [], 0
    for trajectory in trajectories:
        rows.append(list(settled[at : at + len(trajectory.steps)]))
        at += len(trajectory.steps)
    return rows
