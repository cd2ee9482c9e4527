"""Choosing among traces by a judge, and steering their writing: methods on one tree and one budget."""

from footfall.drive.budget import Budget
from footfall.search.adaptive import AdaptiveBeam, AdaptiveBestOf
from footfall.search.aggregate import AGGREGATIONS, Aggregation, aggregate
from footfall.search.beam import BeamSearch
from footfall.search.best_of_n import BestOf, BestOfN
from footfall.search.birm import BiRM
from footfall.search.board import Board
from footfall.search.choosing import Rule, choose
from footfall.search.compute_optimal import ComputeOptimal, best_by_difficulty
from footfall.search.curves import Curve, curve
from footfall.search.dvts import DVTS
from footfall.search.early_rejection import EarlyRejection
from footfall.search.gflownet import GFlowNet
from footfall.search.hgs_prm import HGS
from footfall.search.mcts import MCTS
from footfall.search.method import ROOT, Ask, BudgetSpent, Choice, Course, Expand, Method, Score, Wish, described
from footfall.search.pats import PATS
from footfall.search.refined_bon import RefinedBestOf
from footfall.search.rstar import RStar
from footfall.search.searcher import Searcher
from footfall.search.self_consistency import SelfConsistency
from footfall.search.self_prm import SelfCheck, SelfPRM
from footfall.search.self_regulation import SelfRegulation
from footfall.search.speculative import Speculative
from footfall.search.unprm import FrequencyVote, HybridVote
from footfall.search.vgs import ValueGuided
from footfall.search.votes import Vote, best, frequency, group, hybrid, majority, oracle, pass_at_k, weighted

__all__ = [
    "GFlowNet", "RefinedBestOf", "Speculative", "ValueGuided",
    "AdaptiveBeam", "AdaptiveBestOf", "ComputeOptimal", "EarlyRejection", "SelfConsistency", "best_by_difficulty",
    "AGGREGATIONS", "DVTS", "HGS", "MCTS", "PATS", "ROOT", "Aggregation", "Ask", "BeamSearch", "BestOf", "BestOfN",
    "BiRM", "Board", "Budget", "BudgetSpent", "Choice", "Course", "Curve", "Expand", "FrequencyVote", "HybridVote",
    "Method", "RStar", "Rule", "Score", "Searcher", "SelfCheck", "SelfPRM", "SelfRegulation", "Vote", "Wish",
    "aggregate", "best", "choose", "curve", "described", "frequency", "group", "hybrid", "majority", "oracle",
    "pass_at_k", "weighted",
]  # fmt: skip
