"""PRMBench's evaluator: confusion counts of steps pooled by category, and two F1 (card: prmbench).

"Correct" is the positive class; a step is called correct if its value is strictly above the threshold:

    F1 = 2TP / (2TP + FP + FN),  F1_neg = 2TN / (2TN + FP + FN),  PRMScore = ½ F1 + ½ F1_neg

Counts are made once a case; a row of case weights then gives all figures of a resample by one matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from footfall.metrics.cases import Case, by_split
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import case_counts, known_steps, macro_f1, ratio
from footfall.types import Judgement

Labels = Sequence[bool | None]


@dataclass(frozen=True)
class Categories:
    """A tree of categories: which splits make up a dimension, and which of them are counted in another way."""

    dimensions: Mapping[str, Sequence[str]]
    without_errors: frozenset[str] = frozenset()
    """Splits that hold no wrong step: their PRMScore is F1 alone."""
    redundancy: frozenset[str] = frozenset()
    """Splits where a judgement's aspect "redundant" (1 a redundant step), if there, goes before its values."""
    control: str | None = None
    """The split of unmodified twins: kept out of all totals, compared with by `similarity`."""

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The categories proper, without the control."""
        return tuple(name for names in self.dimensions.values() for name in names)

    def measure(
        self, cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats
    ) -> dict[str, dict[str, Floats]]:
        """Figures of each split; PRMScore of each dimension (mean of its splits); "overall" from pooled counts."""
        table_NC = self._table(cases, judgements, threshold)
        totals = {split: weights_RN[:, inside] @ table_NC[inside] for split, inside in by_split(cases).items()}
        counted = [split for split in self.splits if split in totals]
        figures = {split: self._figures(split, totals[split]) for split in counted}
        for dimension, splits in self.dimensions.items():
            if all(split in figures for split in splits):
                figures[dimension] = {"prm_score": np.mean([figures[s]["prm_score"] for s in splits], axis=0)}
        if len(counted) > 1:
            figures["overall"] = self._figures("overall", np.sum([totals[split] for split in counted], axis=0))
        if self.control in totals:
            tp, _, _, fn = totals[self.control][:, :4].T
            figures[self.control] = {"acc_right": ratio(tp, tp + fn)}
        return figures

    def _table(self, cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float) -> Floats:
        """TP, FP, TN, FN, first error found, first errors, distance to the twin, twins: one row a case."""
        labels = [self.labels(case.split, said, threshold) for case, said in zip(cases, judgements, strict=True)]
        steps = known_steps([case.truth.values for case in cases], labels)
        counts_N4 = case_counts(steps.owner, steps.truth, steps.value, len(cases))
        first_N2 = np.asarray([_first_error_found(case.truth, said) for case, said in zip(cases, labels, strict=True)])
        twins = {case.group: said for case, said in zip(cases, judgements, strict=True) if case.split == self.control}
        away_N2 = np.asarray(
            [self._distance(case, said, twins, threshold) for case, said in zip(cases, labels, strict=True)]
        )
        return np.concatenate([counts_N4, first_N2, away_N2], axis=1)

    def labels(self, split: str, judgement: Judgement, threshold: float) -> Labels:
        """Which steps are called correct in this split; `None` where the judge does not say."""
        if split in self.redundancy and "redundant" in judgement.aspects:
            return [None if value is None else value < 0.5 for value in judgement.aspects["redundant"]]
        return [None if value is None else value > threshold for value in judgement.values]

    def _distance(
        self, case: Case, labels: Labels, twins: Mapping[str, Judgement], threshold: float
    ) -> tuple[float, float]:
        """|share of steps called correct − the same share on the twin| and 1; zeros if there is no twin."""
        twin = twins.get(case.group) if case.split != self.control else None
        if twin is None:
            return 0.0, 0.0
        share, other = _share(labels), _share(self.labels(case.split, twin, threshold))
        return (0.0, 0.0) if share is None or other is None else (abs(share - other), 1.0)

    def _figures(self, split: str, total_RC: Floats) -> dict[str, Floats]:
        tp, fp, tn, fn, found, first, distance, twins = total_RC.T
        f1, f1_neg, score = macro_f1(tp, fp, tn, fn)
        alone = split in self.without_errors
        row = {"prm_score": f1 if alone else score, "f1": f1}
        row |= {} if alone else {"f1_neg": f1_neg}
        row["acc_right"] = ratio(tp, tp + fn)
        row |= {} if alone else {"acc_wrong": ratio(tn, tn + fp), "first_error": ratio(found, first)}
        row["accuracy"] = ratio(tp + tn, tp + fp + tn + fn)
        return row | ({"similarity": ratio(distance, twins)} if self.control else {})


def _first_error_found(truth: Judgement, labels: Labels) -> tuple[float, float]:
    """Whether the first wrong step is called wrong, and 1; zeros if there is none or it was not judged."""
    first = next((k for k, value in enumerate(truth.values) if value == 0), None)
    if first is None or labels[first] is None:
        return 0.0, 0.0
    return float(not labels[first]), 1.0


def _share(labels: Labels) -> float | None:
    said = [label for label in labels if label is not None]
    return sum(said) / len(said) if said else None
