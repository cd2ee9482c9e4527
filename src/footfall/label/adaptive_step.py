"""AdaptiveStep: traces cut anew where their writer was unsure, and Monte Carlo labels of those steps (card: adaptivestep).

    a step ends after each token whose probability was below τ, the quantile of all tokens of the given traces at `share`

Such a step ends anywhere, so the completer goes on from token ids: it is a model in this process, and the one that wrote the
traces, or one with its vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from footfall.encoding import Tokenizer
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.probing import forget
from footfall.segment.confidence import confidence, confidence_threshold
from footfall.segment.recut import recut
from footfall.types import Judgement, Trajectory

__all__ = ["AdaptiveStep"]


@dataclass(frozen=True)
class AdaptiveStep:
    """A judge of traces that it has cut anew (`prepared`): the rates of success after each of their steps."""

    rates: MonteCarlo
    """Over a policy that goes on after a prefix cut anywhere (`footfall.policy.any_cut`)."""
    tokenizer: Tokenizer
    vocabulary: str
    share: float = 0.02
    """ρ, of all tokens: how many of them end a step."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share={self.share:g}: it is a share of the tokens, from 0 to below 1")

    @property
    def name(self) -> str:
        return f"adaptivestep({self.rates.name},share={self.share:g})"

    def prepared(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """The traces in steps of confidence; the threshold is that of all of them together."""
        for trace in trajectories:
            if trace.tokenizer != self.vocabulary or any(not s.token_ids or not s.logprobs for s in trace.steps):
                raise ValueError(
                    f"trajectory {trace.id!r} does not hold the ids and log-probabilities of the tokens of --policy, where "
                    "adaptivestep cuts: label the trajectories.parquet that `footfall sample` wrote with the same model in "
                    "this process"
                )
        found = [p for trace in trajectories for step in trace.steps for p in step.logprobs or ()]
        cut = confidence(confidence_threshold(found, self.share))
        return [recut(trace, cut, self.tokenizer) for trace in trajectories]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.rates.judge(trajectories)

    def forget(self) -> None:
        """Drop what the completer has cached."""
        forget(self.rates)
