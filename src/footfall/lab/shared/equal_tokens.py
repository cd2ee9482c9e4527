"""A step search against best-of-N at equal tokens: over widths, over judges, and over two ways of reading.

Judges say of each step whether it is right, and differ only in the share of verdicts that are flipped; a score is the mean of
a trace's verdicts. Counted on both sides are the tokens that the policy writes and those that the judge reads (`Priced`): one
that keeps what it has read takes each new step once, one that re-reads takes the problem and the whole trace at every
judgement. Best-of-N judges each solution once, when it is finished. An arm without a width is the mean over widths, problem
by problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from footfall.lab.recipe import Trial
from footfall.lab.shared import searches
from footfall.search import Aggregation, Method
from footfall.types import Cost, Problem, SearchResult

__all__ = ["FOLD", "JUDGES", "READINGS", "WIDTHS", "Compared", "compared"]

WIDTHS = {4: 2, 8: 4, 16: 4}
"""N, and the samples M of each kept one."""
JUDGES = {"exact judge": 0.0, "fair judge": 0.2, "bad judge": 0.4}
"""The share of the verdicts that are flipped."""
READINGS = {"": False, ", re-reading": True}
FOLD: Aggregation = "mean"
SAMPLES = 160
"""Drawn a problem; more than any search of these pays for."""


@dataclass
class Compared:
    """Accuracy of both sides and the lead of the search, by arm; the searches of judges that keep, by judge and width."""

    arms: dict[str, list[float]] = field(default_factory=dict)
    found: dict[tuple[str, int], list[SearchResult]] = field(default_factory=dict)
    samples: list[SearchResult] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)


def compared(trial: Trial, name: str, make: Callable[[int, int], Method], given: Sequence[Problem]) -> Compared:
    """Every width with every judge in both ways of reading; `make` is given N and M."""
    whole = Compared(samples=searches.drawn(trial, SAMPLES, given))
    whole.cost += Cost.total(r.cost for r in whole.samples)
    for judge, rate in JUDGES.items():
        memory: dict[str, float | None] = {}
        for reading, reread in READINGS.items():
            arms: dict[str, list[list[float]]] = {name: [], "best-of-N": [], "lead": []}
            for n, m in WIDTHS.items():
                steps, again = (searches.priced(searches.flipped(trial, rate), memory, reread) for _ in range(2))
                found = searches.searched(trial, make(n, m), steps, given)
                paid = searches.tokens(found)
                mine, plain = searches.right(found), searches.best_of_n(whole.samples, again, paid, FOLD)
                lead = [a - b for a, b in zip(mine, plain, strict=True)]
                for arm, figures in ((name, mine), ("best-of-N", plain), ("lead", lead)):
                    arms[arm].append(figures)
                    whole.arms[f"{arm}, N = {n}, {judge}{reading}"] = figures
                whole.arms[f"tokens, N = {n}, {judge}{reading}"] = paid
                whole.cost += Cost.total(r.cost for r in found)
                whole.found.setdefault((judge, n), found)
            for arm, widths in arms.items():
                whole.arms[f"{arm}, {judge}{reading}"] = [fmean(each) for each in zip(*widths, strict=True)]
    return whole
