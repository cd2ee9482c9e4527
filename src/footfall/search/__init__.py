"""Choosing among traces by a judge, and steering their writing: methods on one tree and one budget."""

from footfall.search.aggregate import AGGREGATIONS, Aggregation, aggregate
from footfall.search.beam import BeamSearch
from footfall.search.best_of_n import BestOf, BestOfN
from footfall.search.board import Board
from footfall.search.budget import Budget
from footfall.search.choosing import Rule, choose
from footfall.search.curves import Curve, curve
from footfall.search.dvts import DVTS
from footfall.search.method import ROOT, Ask, BudgetSpent, Choice, Course, Expand, Method, Score, Wish, described
from footfall.search.searcher import Searcher
from footfall.search.votes import Vote, best, group, majority, oracle, pass_at_k, weighted

__all__ = [
    "AGGREGATIONS", "DVTS", "ROOT", "Aggregation", "Ask", "BeamSearch", "BestOf", "BestOfN", "Board", "Budget",
    "BudgetSpent", "Choice", "Course", "Curve", "Expand", "Method", "Rule", "Score", "Searcher", "Vote", "Wish",
    "aggregate", "best", "choose", "curve", "described", "group", "majority", "oracle", "pass_at_k", "weighted",
]  # fmt: skip
