"""Judges that make process data: expensive, and right as far as their means go."""

from footfall.label.estimate import Plan, TokenCount, Volume, count_tokens, planned
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.rollouts import RolloutStore
from footfall.label.stored_policy import StoredPolicy

__all__ = [
    "MonteCarlo",
    "Plan",
    "RolloutStore",
    "StoredPolicy",
    "TokenCount",
    "Volume",
    "count_tokens",
    "planned",
]
