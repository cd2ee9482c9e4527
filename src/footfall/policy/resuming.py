"""Stopping in the middle of a step and going on there: what early rejection needs of a policy.

A fragment is a step that was cut at `max_tokens` (finish "length"). A prefix that ends in one is marked by `unfinished`; the
completion of such a prefix begins with its last step, now whole, and costs what is new of it. No step end is put in between.

A policy that can do this has `resume(prefixes, n, params, first)`. Of a scripted policy, which writes a step or nothing,
`InWords` makes one that stops after words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Step, Trajectory

_MARK = "unfinished"
_WHOLE = 1 << 20
"""Tokens that any step has room in."""
_TRIES = 100_000


class Resumable(Policy, Protocol):
    """A policy that can go on in the middle of a step."""

    def resume(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`sample` for prefixes that end in the middle of a step: a completion begins with that step, now whole."""
        ...


def can_resume(policy: Policy) -> TypeGuard[Resumable]:
    """Whether the policy has `resume`, also by way of a policy that it passes requests on to.

    Not `isinstance`: from Python 3.12 on that does not see what `__getattr__` finds.
    """
    return hasattr(policy, "resume")


def unfinished(prefix: Trajectory) -> Trajectory:
    """The same prefix, its last step marked as a fragment."""
    return replace(prefix, meta={**prefix.meta, _MARK: True})


def is_unfinished(prefix: Trajectory) -> bool:
    """Whether the last step of a prefix is marked as a fragment."""
    return bool(prefix.meta.get(_MARK)) and bool(prefix.steps)


def resuming(policy: Policy) -> Resuming:
    """The policy as one that can be sent unfinished prefixes; if it cannot go on with them, it says so then."""
    return Resuming(InWords(policy) if not can_resume(policy) and hasattr(policy, "value") else policy)


@dataclass(frozen=True)
class Resuming:
    """Sends unfinished prefixes to `resume`, others to `sample`."""

    policy: Policy

    @property
    def name(self) -> str:
        """That of the policy underneath."""
        return self.policy.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix, in order."""
        begun = [i for i, prefix in enumerate(prefixes) if is_unfinished(prefix)]
        other = [i for i in range(len(prefixes)) if i not in set(begun)]
        rows: dict[int, list[Completion]] = {}
        if begun:
            if not can_resume(self.policy):
                raise ValueError(
                    f"{self.name} cannot go on in the middle of a step; take a model in this process or a scripted policy, "
                    "or a number of tokens that no step exceeds"
                )
            found = self.policy.resume([prefixes[i] for i in begun], n, params, first)
            rows.update(zip(begun, found, strict=True))
        if other:
            rows.update(zip(other, self.policy.sample([prefixes[i] for i in other], n, params, first), strict=True))
        return [rows[i] for i in range(len(prefixes))]


@dataclass(frozen=True)
class InWords:
    """A scripted policy that can stop after any word. Its steps are the policy's own, so are their tokens.

    The k-th completion of a fragment is the k-th sample of the prefix before it that begins with it: drawn as the policy
    would have gone on.
    """

    policy: Policy

    @property
    def name(self) -> str:
        """That of the policy underneath."""
        return self.policy.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """As the policy; a single step that is too long is cut after `max_tokens` words."""
        if params.until == "end":
            return self.policy.sample(prefixes, n, params, first)
        rows = self.policy.sample(prefixes, n, replace(params, max_tokens=_WHOLE), first)
        return [[_cut(completion, params.max_tokens) for completion in row] for row in rows]

    def resume(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The fragment's step as a whole; what is beyond `max_tokens` more words is left out."""
        return [self._resumed(prefix, range(first, first + n), params) for prefix in prefixes]

    def _resumed(self, prefix: Trajectory, indices: range, params: SamplingParams) -> list[Completion]:
        known = len(prefix.steps[-1].text.split(" "))
        found: list[Completion] = []
        for completion in self._beginning(prefix, params):
            if len(found) in indices:
                whole = _cut(completion, known + params.max_tokens)
                cost = replace(whole.cost, generated_tokens=whole.cost.generated_tokens - known)
                found.append(replace(whole, index=len(found), cost=cost))
            else:
                found.append(completion)
            if len(found) == indices.stop:
                break
        return found[indices.start :]

    def _beginning(self, prefix: Trajectory, params: SamplingParams) -> Iterator[Completion]:
        """The steps that begin with the fragment, in the order in which the policy draws them."""
        before = replace(prefix.prefix(len(prefix.steps) - 1), meta={})
        fragment = prefix.steps[-1].text
        whole = replace(params, max_tokens=_WHOLE, until="step")
        for first in range(0, _TRIES, 16):
            for completion in self.policy.sample([before], 16, whole, first)[0]:
                text = completion.steps[0].text if completion.steps else ""
                if text == fragment or text.startswith(fragment + " "):
                    yield completion
        raise ValueError(f"trajectory {prefix.id!r}: {self.name} does not begin a step with {fragment!r}")


def _cut(completion: Completion, most: int) -> Completion:
    """At most so many tokens of a single step: words, and one for its end."""
    if completion.cost.generated_tokens <= most or not completion.steps:
        return completion
    text = " ".join(completion.steps[0].text.split(" ")[:most])
    return replace(
        completion, steps=(Step(text),), finish="length", cost=replace(completion.cost, generated_tokens=most)
    )
