"""The field's benchmarks, one file each, and the runner that measures a judge on any of them."""

from footfall.benchmarks.runner import Benchmark, Report, Tuned, run
from footfall.benchmarks.scores import Scores

__all__ = ["Benchmark", "Report", "Scores", "Tuned", "run"]
