"""Going on after a prefix that is cut anywhere, and what the model thought at each token of a text.

A model in this process goes on from ids, so a prefix may end in the middle of a line. Such traces have an empty separator
and steps that hold their own line ends (see `footfall.segment.recut`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from footfall.encoding import encode
from footfall.policy._splitting import StepSplitter
from footfall.policy.protocol import Completion, SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.segment.tokens import written
from footfall.types import Step, Trajectory

__all__ = ["AnyCut", "NextTokens", "in_lines", "next_tokens"]

_ROWS = 32
"""Sequences in one pass of `next_tokens`."""


class AnyCut:
    """A policy for prefixes whose steps end anywhere. A completion is one step: the rest as it was written."""

    def __init__(self, policy: TorchPolicy, separator: str = "\n") -> None:
        self.policy, self.separator = policy, separator

    @property
    def name(self) -> str:
        return self.policy.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix, from the very ids of its steps where it has them."""
        given = [replace(prefix, separator=self.separator) for prefix in prefixes]
        return [list(map(self._joined, row)) for row in self.policy.sample(given, n, params, first)]

    def forget(self) -> None:
        """Drop cached prefixes."""
        self.policy.forget()

    def _joined(self, completion: Completion) -> Completion:
        ids = tuple(i for step in completion.steps for i in step.token_ids or ())
        logprobs = tuple(p for step in completion.steps for p in step.logprobs or ())
        step = Step(written(self.policy.tokenizer, ids)[0], token_ids=ids, logprobs=logprobs)
        return replace(completion, steps=(step,) if ids else ())


def in_lines(policy: TorchPolicy, trajectory: Trajectory, separator: str = "\n") -> Trajectory:
    """A trace that was cut anywhere, cut at its separators again, as the policy itself would have given it."""
    ids = tuple(i for step in trajectory.steps for i in step.token_ids or ())
    logprobs = tuple(p for step in trajectory.steps for p in step.logprobs or ())
    if len(ids) != len(logprobs) or not ids:
        raise ValueError(f"trajectory {trajectory.id!r} does not hold the ids and logprobs that it was sampled with")
    splitter = StepSplitter(policy.tokenizer, len(policy.tokenizer), separator)
    return replace(trajectory, steps=splitter.split(ids, logprobs), separator=separator)


class NextTokens(NamedTuple):
    """What the model thought before each token of the steps of a trace, at temperature 1."""

    entropy: tuple[float, ...]
    """In nats."""
    best: tuple[int, ...]
    second: tuple[int, ...]
    """The likeliest next tokens."""
    second_logprob: tuple[float, ...]


@torch.inference_mode()
def next_tokens(policy: TorchPolicy, trajectories: Sequence[Trajectory]) -> list[NextTokens]:
    """One pass over whole traces, a few at a time: a sampler that looked while it wrote would have had this for nothing."""
    encoded = [encode(policy.tokenizer, trajectory, policy.template) for trajectory in trajectories]
    found: list[NextTokens] = []
    for at in range(0, len(encoded), _ROWS):
        part = encoded[at : at + _ROWS]
        logprobs_NTV = policy.engine.logits([each.ids for each in part]).float().log_softmax(dim=-1)
        entropy_NT = -(logprobs_NTV.exp() * logprobs_NTV).sum(dim=-1)
        top_NTK = logprobs_NTV.topk(2, dim=-1)
        for row, each in enumerate(part):
            own = slice(each.prompt_length - 1, len(each.ids) - 1)
            found.append(
                NextTokens(
                    tuple(entropy_NT[row, own].tolist()),
                    tuple(top_NTK.indices[row, own, 0].tolist()),
                    tuple(top_NTK.indices[row, own, 1].tolist()),
                    tuple(top_NTK.values[row, own, 1].tolist()),
                )
            )
    return found
