"""Does a trained PRM find first errors on problems it has not seen? Its F1 beside that of judges that know nothing.

A step AUC hides a PRM that does not: steps after an error are easy, a hard problem has low labels from its first step on, and
one false alarm in front of the error spoils a trace. So

    truth       the first step that is an error, -1 if there is none; a trace in which an unlabelled step comes before is left
                out. An error is a label that does not count as good; if such labels reach 0, as shares of successful rollouts
                do, it is a label of 0 alone: no rollout from there was right
    prediction  the first step valued below a threshold, -1 if there is none
    threshold   for each held-out problem the one with the best F1 on all the others

The judges that know nothing, one by the length of a step and one at random, get their thresholds in the same way. Intervals are
over problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from footfall.metrics.cases import LengthJudge, RandomJudge
from footfall.metrics.intervals import case_weights, from_resamples
from footfall.metrics.steps import first_error_rates, harmonic_mean
from footfall.render import Reading
from footfall.reward.prm import PRM
from footfall.train.decontaminate import normalise
from footfall.types import Judge, Judged, Judgement, Trajectory, content_key

_WORTH = 0.1
"""A gain in F1 over judges that know nothing which is still no use."""
_TRIED = 200
"""Thresholds at most, midpoints between neighbouring values."""


@dataclass(frozen=True)
class HeldOutErrors:
    """First-error F1 of the held-out traces whose first error is known, of the PRM and of each sanity judge by name."""

    traces: int
    erroneous: int
    error_up_to: float
    """The highest label that is an error."""
    f1: float
    ci95: tuple[float, float]
    thresholds: tuple[float, float]
    """The lowest and the highest that was chosen."""
    sanity: Mapping[str, float]
    gain_ci95: tuple[float, float]
    """Of the F1 less that of the best sanity judge."""

    @property
    def gain(self) -> float:
        """The F1 less that of the best sanity judge."""
        return self.f1 - max(self.sanity.values())

    @property
    def beats_sanity(self) -> bool:
        """Whether it is above the best sanity judge, and that by more than chance."""
        return self.gain_ci95[0] > 0

    @property
    def caution(self) -> str | None:
        """What to say where it is not: that it has not learnt it, or that the interval is too wide for either."""
        low, high = self.gain_ci95
        if self.beats_sanity:
            return None
        gain = f"F1 {self.gain:+.3f} [{low:+.3f}, {high:+.3f}] against the best judge that knows nothing"
        if high <= _WORTH:
            return f"{gain}: it does not find first errors; train on more problems, or at a lower learning rate"
        return (
            f"{gain}: {self.traces} held-out traces are too few to tell whether it finds first errors; hold out more "
            "(--eval-share), or measure it by `footfall bench`"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON."""
        return {**asdict(self), "beats_sanity": self.beats_sanity}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> HeldOutErrors:
        """What `to_dict` gave."""
        stored = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if k != "beats_sanity"}
        return cls(**dict[str, Any](stored))


def held_out_errors(
    model: PRM,
    rows: Sequence[Judged],
    is_good: Callable[[float], bool],
    seed: int,
    reads_of: Callable[[Sequence[Trajectory]], list[list[Reading]]] | None = None,
) -> HeldOutErrors | None:
    """Of the rows that fit into the context; None where they are not of two problems, or all with an error or all without.

    `reads_of` says how steps are read whose value has a way of its own, as long as the model's; None: the model's.
    """
    labels = [value for _, said in rows if said is not None for value in said.values if value is not None]
    wrong = [value for value in labels if not is_good(value)]
    if not wrong:
        return None
    highest = 0.0 if min(wrong) <= 0 else max(wrong)
    known = [(row, error) for row in rows if (error := first_error(row.judgement, highest)) is not None]
    reads = model.reads_of([row.trajectory for row, _ in known])
    fit = [i for i, readings in enumerate(reads) if all(len(r.ids) <= model.max_length for r in readings)]
    traces, truth = [known[i][0].trajectory for i in fit], [known[i][1] for i in fit]
    problems = [content_key(normalise(trace.problem.text)) for trace in traces]
    if len(set(problems)) < 2 or len({error < 0 for error in truth}) < 2:
        return None
    chosen = [reads[i] for i in fit] if reads_of is None else reads_of(traces)
    scores = iter(model.score([reading for readings in chosen for reading in readings]))
    values = [[value for _ in readings for value in next(scores)] for readings in chosen]
    own, thresholds = cross_tuned(truth, values, problems)
    weights_RN = case_weights(["held out"] * len(truth), seed, groups=problems)
    f1_R = first_error_rates(truth, own, weights_RN)[2]
    sanity_R = {}
    judges: dict[str, Judge] = {"length": LengthJudge(), "random": RandomJudge(seed)}
    for name, judge in judges.items():
        blind = [[value for value in said.values if value is not None] for said in judge.judge(traces)]
        sanity_R[name] = first_error_rates(truth, cross_tuned(truth, blind, problems)[0], weights_RN)[2]
    best_R = max(sanity_R.values(), key=lambda figures_R: float(figures_R[0]))
    f1, gain = from_resamples(f1_R), from_resamples(f1_R - best_R)
    return HeldOutErrors(
        traces=len(truth), erroneous=sum(error >= 0 for error in truth), error_up_to=highest, f1=f1.value,
        ci95=(f1.low, f1.high), thresholds=thresholds,
        sanity={name: float(figures_R[0]) for name, figures_R in sanity_R.items()}, gain_ci95=(gain.low, gain.high),
    )  # fmt: skip


def first_error(judgement: Judgement | None, highest: float) -> int | None:
    """0-based step of the first label up to `highest`, -1 if there is none, None if an unlabelled step comes before."""
    for k, value in enumerate(judgement.values if judgement is not None else (None,)):
        if value is None:
            return None
        if value <= highest:
            return k
    return -1


def cross_tuned(
    truth: Sequence[int], values: Sequence[Sequence[float]], problems: Sequence[str]
) -> tuple[list[int], tuple[float, float]]:
    """The first error of each trace, predicted with the threshold that is best on all other problems; the range of these."""
    errors_N, values_NS = np.asarray(truth), np.full((len(values), max(map(len, values))), np.inf)
    for n, row in enumerate(values):
        values_NS[n, : len(row)] = row
    known = np.unique(values_NS[np.isfinite(values_NS)])
    middles = (known[1:] + known[:-1]) / 2 if len(known) > 1 else np.asarray([0.5])
    tried_T = middles[np.linspace(0, len(middles) - 1, min(_TRIED, len(middles))).astype(int)]
    below_T = (values_NS < threshold for threshold in tried_T)
    said_TN = np.stack([np.where(below_NS.any(axis=1), below_NS.argmax(axis=1), -1) for below_NS in below_T])
    hit_TN, own_N = said_TN == errors_N, np.asarray(problems)
    said_N, chosen = np.full(len(values), -1), []
    for problem in dict.fromkeys(problems):
        others = own_N != problem
        rates = [hit_TN[:, others & kind].mean(axis=1) if (others & kind).any() else np.zeros(len(tried_T))
                 for kind in (errors_N >= 0, errors_N < 0)]  # fmt: skip
        best = int(np.argmax(harmonic_mean(*rates)))
        chosen.append(float(tried_T[best]))
        said_N[~others] = said_TN[best, ~others]
    return said_N.tolist(), (min(chosen), max(chosen))
