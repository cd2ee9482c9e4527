"""Judges that make process data: expensive, and right as far as their means go."""

from footfall.label.estimate import Plan, TokenCount, Volume, count_tokens, planned
from footfall.label.monte_carlo import MonteCarlo

__all__ = [
    "MonteCarlo",
    "Plan",
    "TokenCount",
    "Volume",
    "count_tokens",
    "planned",
]
