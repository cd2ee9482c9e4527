"""AdaptiveStep: traces cut anew where their writer was unsure, and Monte Carlo labels of those steps (card: adaptivestep).

    a step ends after each token whose probability was below τ, the quantile of all tokens of the given traces at `share`

Such a step ends anywhere, so the completer goes on from token ids: it is a model in this process, or a server that is sent
ids, and the one that wrote the traces, or one with its vocabulary. A trace that does not hold the ids and log-probabilities of
all its tokens stays as it is and has no labels.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from footfall.drive.rollout_store import StoredPolicy
from footfall.drive.rollouts import unlabelled
from footfall.formats import spooled
from footfall.hashing import vocabulary_fingerprint
from footfall.judging import Traits
from footfall.label.counting import CountingPolicy
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.http import HttpPolicy
from footfall.policy.http_tokens import served_tokenizer
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.render import Tokenizer
from footfall.segment.tokens import confidence, confidence_threshold, recut
from footfall.types import Judgement, Reason, Trajectory, Unjudged

_NO_IDS = "does not hold the ids and log-probabilities of the tokens of --policy"


@dataclass(frozen=True)
class AdaptiveStep:
    """A judge of traces that it has cut anew (`prepared`): the rates of success after each of their steps."""

    rates: MonteCarlo
    """Over a policy that goes on after a prefix cut anywhere (`policy.torch_policy.AnyCut`, or a server that is sent ids)."""
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

    @property
    def traits(self) -> Traits:
        """It cuts all traces anew before any is judged, and refuses those without ids of its vocabulary."""
        return Traits(prepare=self.prepared, refusal=self.refusal)

    def prepared(self, trajectories: Sequence[Trajectory]) -> Sequence[Trajectory]:
        """The traces in steps of confidence, on the disk where they are many; the threshold is that of all of them together."""
        found = array("d")
        whole = 0
        for trace in trajectories:
            if self.refusal(trace) is None:
                whole += 1
                found.extend(p for step in trace.steps for p in step.logprobs or ())
        if trajectories and not whole:
            raise ValueError(
                f"trajectory {trajectories[0].id!r} {_NO_IDS}, where adaptivestep cuts, nor does any other: label the "
                "trajectories.parquet that `footfall sample` wrote with the same model, in this process or over the same "
                "server with the same --tokenizer (and --step-end none, which keeps all ids)"
            )
        cut = confidence(confidence_threshold(found, self.share))
        anew = (trace if self.refusal(trace) else recut(trace, cut, self.tokenizer) for trace in trajectories)
        return spooled(anew, "trajectory")

    def refusal(self, trace: Trajectory) -> Unjudged | None:
        """Why a trace cannot be cut anew and labelled; `None` if it can."""
        if not all(step.is_plain for step in trace.steps):
            return Unjudged(
                Reason.UNCHECKABLE, "actions, observations and other authors cannot be kept where it is cut anew"
            )
        known = trace.tokenizer == self.vocabulary and all(step.token_ids and step.logprobs for step in trace.steps)
        words = f"the trace {_NO_IDS}; `footfall sample --step-end none` keeps all that the server tells"
        return None if known else Unjudged(Reason.NO_REFERENCE, words)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Monte Carlo labels of the steps as they are cut now; a refused trace has its reason."""
        refused = [self.refusal(trace) for trace in trajectories]
        said = iter(self.rates.judge([t for t, why in zip(trajectories, refused, strict=True) if why is None]))
        return [
            next(said) if why is None else unlabelled(trace, self.rates.name, why)
            for trace, why in zip(trajectories, refused, strict=True)
        ]


@register(
    "labeller", "adaptivestep", Declared(unmeasured="it cuts traces anew, and the truth is about the steps as given")
)
def adaptivestep(
    policy: Policy,
    rollouts: int = 8,
    estimate: Literal["soft", "hard"] = "hard",
    share: float = 0.02,
    until: Literal["all", "first-error"] = "all",
    params: SamplingParams = SamplingParams(),
) -> AdaptiveStep:
    """Traces cut anew where their writer was unsure, and Monte Carlo labels of those steps (AdaptiveStep)."""
    writer = getattr(policy, "inner", policy)
    if isinstance(writer, HttpPolicy):
        completer, tokenizer = policy, served_tokenizer("adaptivestep", writer)
    elif isinstance(writer, CountingPolicy) and hasattr(writer, "tokenizer"):
        completer, tokenizer = policy, writer.tokenizer
    else:
        completer, tokenizer = _from_ids(policy, writer)
    rates = MonteCarlo(completer, rollouts, estimate, until, params=params)
    return AdaptiveStep(rates, tokenizer, vocabulary_fingerprint(tokenizer), share)


def _from_ids(policy: Policy, writer: Policy) -> tuple[Policy, Tokenizer]:
    """The policy, a model in this process, as one that goes on in the middle of a line."""
    from footfall.policy.torch_policy import AnyCut, TorchPolicy

    if not isinstance(writer, TorchPolicy):
        raise ValueError(
            "adaptivestep goes on in the middle of a line, from token ids: it needs a model in this process as --policy "
            "(embedded, a folder or a hub id) or a server with --tokenizer, the one that wrote the traces"
        )
    completer = AnyCut(writer)
    return (policy.around(completer, ":any-cut") if isinstance(policy, StoredPolicy) else completer), writer.tokenizer
