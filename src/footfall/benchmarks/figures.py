"""What a benchmark says of a judge, with everything that a number must name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from footfall.metrics.intervals import Interval
from footfall.types import Cost, Json

_TOGETHER = ("overall", "mean", "pooled", "all", "total")
"""What benchmarks call the row of all splits together."""


@dataclass(frozen=True, slots=True)
class SplitFigures:
    """The figures of one split, or of all together (`n` is then `None`)."""

    name: str
    n: int | None
    """Cases; groups of cases where they are compared within groups."""
    figures: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Report:
    """Figures by split with 95% bootstrap intervals."""

    benchmark: str
    judge: str
    revision: str
    """Content hash of the data."""
    protocol: str
    """How step values became predictions: aggregation and rule."""
    threshold: float
    threshold_policy: str
    splits: tuple[SplitFigures, ...]
    used: int
    left_out: int
    """Cases for which there are no scores."""
    tuned_away: int
    """Cases of the split that the threshold was tuned on."""
    unjudged_steps: int
    resamples: int
    seed: int
    cost: Cost
    notes: tuple[str, ...] = ()
    """What a reader must know of the data."""
    objective: str = ""
    """The figure that judges are compared by."""
    left_out_ids: tuple[str, ...] = ()
    """The first few of the cases left out."""
    unknown: int = 0
    """Ids in a scores file that are no case of the benchmark."""
    unknown_ids: tuple[str, ...] = ()
    """The first few of them."""

    def value(self, split: str, figure: str) -> float:
        """One number, e.g. `report.value("gsm8k", "f1")`."""
        return self.figure(split, figure).value

    def figure(self, split: str, figure: str) -> Interval:
        """One number with its interval."""
        for row in self.splits:
            if row.name == split:
                return row.figures[figure]
        raise KeyError(f"{self.benchmark} has no split {split!r}; there are {', '.join(r.name for r in self.splits)}")

    def main_row(self) -> SplitFigures:
        """The row that sums the benchmark up: a mean or pooled one where there is one, else the first."""
        rows = [row for row in self.splits if self.objective in row.figures] or list(self.splits)
        together = [row for row in rows if row.n is None]
        named = [row for row in together if row.name in _TOGETHER]
        return (named or together[-1:] or rows)[0]

    def to_dict(self) -> dict[str, Json]:
        """JSON; a figure that has no value (an empty class) is null."""
        given: dict[str, Json] = {
            name: getattr(self, name)
            for name in (
                "benchmark", "judge", "revision", "protocol", "threshold", "threshold_policy", "used", "left_out",
                "tuned_away", "unjudged_steps", "resamples", "seed", "objective", "unknown",
            )
        }  # fmt: skip
        given["splits"] = {
            row.name: {"n": row.n, **{name: _to_json(figure) for name, figure in row.figures.items()}}
            for row in self.splits
        }
        listed = {name: list(getattr(self, name)) for name in ("notes", "left_out_ids", "unknown_ids")}
        return {**given, **listed, "cost": self.cost.to_dict()}

    def table(self) -> list[list[str]]:
        """A header and one row a split, as text; figures in [0, 1] are shown in percent with their interval."""
        names = list(dict.fromkeys(name for row in self.splits for name in row.figures))
        rows = [["split", "n", *names]]
        for row in self.splits:
            cells = [percent(row.figures[name]) if name in row.figures else "" for name in names]
            rows.append([row.name, "" if row.n is None else str(row.n), *cells])
        return rows


def _to_json(figure: Interval) -> Json:
    value, low, high = (number if math.isfinite(number) else None for number in figure)
    return {"value": value, "ci95": [low, high]}


def percent(figure: Interval) -> str:
    """`83.7 [80.1, 87.0]`; a dash where there is nothing to measure."""
    if not math.isfinite(figure.value):
        return "–"
    value, low, high = (100 * number for number in figure)
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"
