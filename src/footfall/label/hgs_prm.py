"""Lines of code in three classes, by mutation and execution (HGS-PRM's PRM-Code data).

the reference's own line                positive   value 1
a changed line, the tests fail          negative   value 0
a changed line, the tests still pass    neutral    value 0.5
"""

from __future__ import annotations

from dataclasses import replace

from footfall.label.execution import Execution, Sample, mutation_rows
from footfall.types import Judged, Problem

__all__ = ["class_rows", "line_class"]

_VALUES = {"positive": 1.0, "neutral": 0.5, "negative": 0.0}


def line_class(sample: Sample) -> str:
    """The class of the changed line of a program; of the reference itself, "positive"."""
    if sample.kind == "original":
        return "positive"
    return "neutral" if sample.report.good else "negative"


def class_rows(problem: Problem, labeller: Execution, separator: str = "\n") -> list[Judged]:
    """The reference and its changed programs, with the value of each class and one 0/1 column a class."""
    return [_classed(sample) for sample in mutation_rows(problem, labeller, separator)]


def _classed(sample: Sample) -> Judged:
    said = sample.row.judgement
    assert said is not None
    of_line = line_class(sample)
    values = tuple(_VALUES[of_line] if i == sample.line else value for i, value in enumerate(said.values))
    columns = {
        name: tuple(None if value is None else float(value == own) for value in values) for name, own in _VALUES.items()
    }
    judged = replace(said, values=values, aspects={**said.aspects, **columns}, judge=f"hgs-prm({said.judge})")
    return Judged(sample.row.trajectory, judged)
