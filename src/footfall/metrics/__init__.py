"""Measuring judges: step metrics, preferences, diagnostics, and how sure a figure is. Pure functions of arrays."""

from footfall.metrics.cases import Case
from footfall.metrics.intervals import Interval, bootstrap_mean, paired_difference, wilson

__all__ = ["Case", "Interval", "bootstrap_mean", "paired_difference", "wilson"]
