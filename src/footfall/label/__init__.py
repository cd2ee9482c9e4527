"""Judges that make process data: expensive, and right as far as their means go."""

from footfall.label.monte_carlo import MonteCarlo

__all__ = ["MonteCarlo"]
