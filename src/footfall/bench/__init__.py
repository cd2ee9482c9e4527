"""Measuring judges: metrics with intervals, a shared runner, and the field's benchmarks on it."""

from footfall.bench.figures import Report
from footfall.bench.intervals import Interval, bootstrap_mean, paired_difference, wilson
from footfall.bench.runner import Benchmark, Case, Tuned, run
from footfall.bench.scores import Scores

__all__ = ["Benchmark", "Case", "Interval", "Report", "Scores", "Tuned", "bootstrap_mean", "paired_difference", "run",
           "wilson"]  # fmt: skip
