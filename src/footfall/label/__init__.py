"""Judges that make process data: expensive, and right as far as their means go."""

from footfall.label.counting import CountingPolicy, Rehearsal, TokenCount
from footfall.label.estimate import Plan, Volume, count_tokens, planned
from footfall.label.monte_carlo import MonteCarlo

__all__ = [
    "CountingPolicy",
    "MonteCarlo",
    "Plan",
    "Rehearsal",
    "TokenCount",
    "Volume",
    "count_tokens",
    "planned",
]
