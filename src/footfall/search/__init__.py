"""Choosing among traces by a judge: best-of-N, votes, and the way step values become one score."""

from footfall.search.aggregate import AGGREGATIONS, Aggregation, aggregate
from footfall.search.best_of_n import BestOfN
from footfall.search.curves import Curve, curve
from footfall.search.votes import Vote, best, group, majority, oracle, pass_at_k, weighted

__all__ = [
    "AGGREGATIONS", "Aggregation", "BestOfN", "Curve", "Vote", "aggregate", "best", "curve", "group", "majority",
    "oracle", "pass_at_k", "weighted",
]  # fmt: skip
