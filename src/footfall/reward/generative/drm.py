"""DRM: whole solutions scored along three dimensions that can be read apart, without steps and without a reference.

    confidence   (1/|R|) Σ_{t in R} log p(t) + Σ_{t in A} log p(t)      mean over the reasoning, SUM over the answer
    relevance    mean of p(Yes): does the reasoning address the question, agree with the documents, entail the answer?
    coherence    p(Yes): is the text fluent and logically consistent?
    DRM_i        Σ_d w_d z_d,i,   z each dimension normalised over the samples of one problem (min-max or z-score)

R is all steps but the last, A the last one, which states the answer; their log-probabilities are those that the traces were
sampled with. What differs from the paper: relevance and coherence are read from a language model's Yes and No, not from a
reranker and an outcome reward model, which it does not name. Documents are `meta["documents"]` of a problem. The highest and
the lowest sample of a problem are a pair for DPO (`extremes`); added to the answer's own advantage it is an RL reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Literal, NamedTuple

from footfall.judging import Bound, Traits
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.reward.generative.critic import Critic, Request, Settled, say, share_of_yes
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged

Normal = Literal["min-max", "z-score"]
_EPS = 1e-6
_ASKED = {
    "question": "Does the reasoning address the question?\n\n[Question]\n{other}",
    "documents": "Does the reasoning agree with the documents?\n\n[Documents]\n{other}",
    "answer": "Does the answer follow from the reasoning?\n\n[Answer]\n{other}",
    "coherence": "Is the reasoning fluent and logically consistent, each sentence following from those before it?",
}
_TAIL = "\n\n[Reasoning]\n{reasoning}\n\nReply with Yes or No."


class Dimensions(NamedTuple):
    """The three scores of one solution."""

    confidence: float
    relevance: float
    coherence: float


def confidence(reasoning: Sequence[float], answer: Sequence[float]) -> float:
    """The mean log-probability of the reasoning and the sum of the answer's: an unsure answer is punished in full."""
    return fmean(reasoning) + sum(answer)


def normalised(values: Sequence[float], how: Normal = "min-max") -> list[float]:
    """The values of one problem's samples on one scale; 0 for all where they are the same up to rounding."""
    if how == "min-max":
        low, width = min(values), max(values) - min(values)
        return [(value - low) / width if width > _EPS else 0.0 for value in values]
    mean, spread = fmean(values), pstdev(values)
    return [(value - mean) / (spread + _EPS) if spread > 0 else 0.0 for value in values]


def drm_scores(
    rows: Sequence[Dimensions], weights: Sequence[float] = (1 / 3, 1 / 3, 1 / 3), how: Normal = "min-max"
) -> list[float]:
    """The weighted sum of each sample's normalised dimensions."""
    if not rows:
        return []
    columns = [normalised(column, how) for column in zip(*rows, strict=True)]
    return [sum(w * z for w, z in zip(weights, row, strict=True)) for row in zip(*columns, strict=True)]


def extremes(scores: Sequence[float | None]) -> tuple[int, int] | None:
    """The pair for DPO, chosen and rejected: highest and lowest; `None` where there is no difference."""
    known = [(score, -i) for i, score in enumerate(scores) if score is not None]
    if not known or max(known)[0] == min(known)[0]:
        return None
    return -max(known)[1], -min(known)[1]


class DRM(Critic):
    """All questions about all traces in one batch; it writes nothing, and reads Yes or No."""

    kind = "drm"
    chooses = True

    def __init__(
        self, policy: Policy, weights: tuple[float, float, float] = (1.0, 1.0, 1.0), how: Normal = "min-max"
    ) -> None:
        if min(weights) < 0 or not sum(weights) > 0:
            raise ValueError(
                f"weights are of confidence, relevance and coherence, none negative, not all 0; got {weights}"
            )
        super().__init__(policy, 1, SamplingParams(max_tokens=1), {"weights": str(weights), "how": how})
        self.weights, self.how = tuple(w / sum(weights) for w in weights), how

    @property
    def traits(self) -> Traits:
        """As of any critic, and each dimension is normalised over the traces of a problem."""
        return replace(super().traits, compares=True)

    def at_most(self, steps: int | None) -> Bound:
        """Four choices, and not a word."""
        return Bound(0, len(_ASKED), len(_ASKED) if self.asker.counts else 0)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The score among the traces of the same problem that are judged together."""
        asked = [_questions(t) if len(t.steps) > 1 else {} for t in trajectories]
        flat = [request for row in asked for request in row.values()]
        said = iter(self.asker.choose(flat, ("Yes", "No")))
        chances = [{name: _yes(*next(said)) for name in row} for row in asked]
        known = [_dimensions(t, row) for t, row in zip(trajectories, chances, strict=True)]
        scores: dict[int, float] = {}
        for group in _groups(trajectories, known):
            rows = [row for i in group if isinstance(row := known[i], Dimensions)]
            scores |= dict(zip(group, drm_scores(rows, self.weights, self.how), strict=True))
        return [
            self._judgement(t, known[i], scores.get(i), list(asked[i].values())) for i, t in enumerate(trajectories)
        ]

    def _judgement(
        self, trace: Trajectory, known: Dimensions | Unjudged, score: float | None, asked: Sequence[Request]
    ) -> Judgement:
        n = len(trace.steps)
        why = None if score is not None else known if isinstance(known, Unjudged) else _ALONE
        cost = Cost(scored_tokens=sum(map(self.asker.tokens, asked)), calls=len(asked))
        facts = {} if isinstance(known, Unjudged) else {name: (x,) * n for name, x in known._asdict().items()}
        return self.judgement(trace, [Settled(score, why, None, int(score is not None))] * n, score, facts, cost)


_ALONE = Unjudged(Reason.NO_REFERENCE, "no other trace of its problem to be normalised with")


def _questions(trace: Trajectory) -> dict[str, Request]:
    documents = trace.problem.meta.get("documents")
    others = {"question": trace.problem.text, "documents": str(documents or ""), "answer": trace.steps[-1].written}
    reasoning = trace.separator.join(step.written for step in trace.steps[:-1])
    wanted = [name for name in _ASKED if name != "documents" or documents]
    return {
        name: Request(say(_ASKED[name].format(other=others.get(name, "")) + _TAIL.format(reasoning=reasoning)))
        for name in wanted
    }


def _yes(log_yes: float | None, log_no: float | None) -> float | None:
    return None if log_yes is None or log_no is None else share_of_yes(log_yes, log_no)


def _dimensions(trace: Trajectory, chances: dict[str, float | None]) -> Dimensions | Unjudged:
    logprobs = [step.logprobs for step in trace.steps]
    if len(trace.steps) > 1 and any(row is None for row in logprobs):
        return Unjudged(Reason.NO_REFERENCE, "the trace has no log-probabilities of its tokens: sample it here")
    reasoning = [x for row in logprobs[:-1] for x in row or ()]
    if not reasoning:
        return Unjudged(Reason.UNCHECKABLE, "there is no reasoning before the answer")
    if any(chance is None for chance in chances.values()):
        return Unjudged(Reason.NO_REFERENCE, "the policy gives no log-probabilities, so Yes and No have none")
    said = {name: chance or 0.0 for name, chance in chances.items()}
    coherence = said.pop("coherence")
    return Dimensions(confidence(reasoning, logprobs[-1] or ()), fmean(said.values()), coherence)


def _groups(traces: Sequence[Trajectory], known: Sequence[Dimensions | Unjudged]) -> list[list[int]]:
    """Traces of one problem that can be scored, two at least."""
    found: dict[str, list[int]] = {}
    for i, (trace, row) in enumerate(zip(traces, known, strict=True)):
        if isinstance(row, Dimensions):
            found.setdefault(trace.problem.text, []).append(i)
    return [group for group in found.values() if len(group) > 1]


@register("reward", "drm")
def drm(policy: Policy, weights: tuple[float, float, float] = (1.0, 1.0, 1.0), how: Normal = "min-max") -> DRM:
    """DRM: confidence, relevance and coherence of whole solutions, normalised over the samples of a problem and added up."""
    return DRM(policy, weights, how)
