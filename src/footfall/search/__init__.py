"""Choosing among traces by a judge, and steering their writing: methods on one tree and one budget."""

from footfall.drive.budget import Budget
from footfall.drive.requests import ROOT, BudgetSpent, Score, Write
from footfall.search.adaptive import AdaptiveBeam, AdaptiveBestOf
from footfall.search.beam import DVTS, BeamSearch
from footfall.search.best_of_n import BestOf, BestOfN, FrequencyVote, HybridVote
from footfall.search.birm import BiRM
from footfall.search.compute_optimal import ComputeOptimal, best_by_difficulty
from footfall.search.early_rejection import EarlyRejection
from footfall.search.gflownet import GFlowNet
from footfall.search.hgs_prm import HGS
from footfall.search.mcts import MCTS
from footfall.search.pats import PATS
from footfall.search.progress import EffectiveReward
from footfall.search.refined_bon import RefinedBestOf
from footfall.search.rstar import RStar
from footfall.search.searcher import Searcher
from footfall.search.self_consistency import SelfConsistency
from footfall.search.self_prm import SelfCheck, SelfPRM
from footfall.search.self_regulation import SelfRegulation
from footfall.search.speculative import Speculative
from footfall.search.state import Choice, Course, Method, Requests, SearchState, described
from footfall.search.vgs import ValueGuided
from footfall.search.votes import (
    AGGREGATIONS,
    Aggregation,
    Curve,
    Rule,
    Vote,
    aggregate,
    best,
    choose,
    curve,
    frequency,
    group,
    hybrid,
    majority,
    oracle,
    pass_at_k,
    weighted,
)

__all__ = [
    "AGGREGATIONS", "AdaptiveBeam", "AdaptiveBestOf", "Aggregation", "BeamSearch", "BestOf", "BestOfN", "BiRM",
    "Budget", "BudgetSpent", "Choice", "ComputeOptimal", "Course", "Curve", "DVTS", "EarlyRejection", "EffectiveReward",
    "FrequencyVote", "GFlowNet", "HGS", "HybridVote", "MCTS", "Method", "PATS", "ROOT", "RStar", "RefinedBestOf",
    "Requests", "Rule", "Score", "SearchState", "Searcher", "SelfCheck", "SelfConsistency", "SelfPRM", "SelfRegulation",
    "Speculative", "ValueGuided", "Vote", "Write", "aggregate", "best", "best_by_difficulty", "choose", "curve",
    "described", "frequency", "group", "hybrid", "majority", "oracle", "pass_at_k", "weighted",
]  # fmt: skip
