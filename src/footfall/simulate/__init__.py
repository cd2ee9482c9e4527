"""Simulated judges: the truth of a world, or exact values, with errors of a known size."""

from footfall.simulate.blurred import Blurred
from footfall.simulate.noisy import Noisy

__all__ = ["Blurred", "Noisy"]
