"""Worlds: problem generators in which the truth of every step and the exact value of every prefix are known."""

from footfall.worlds.algebra import AlgebraPolicy, AlgebraWorld
from footfall.worlds.arithmetic import ArithmeticPolicy, ArithmeticWorld, OpRates
from footfall.worlds.code import CodePolicy, CodeWorld
from footfall.worlds.judges import ExactValueJudge, TruthJudge
from footfall.worlds.logic import LogicPolicy, LogicWorld
from footfall.worlds.multilingual import MultilingualArithmetic, MultilingualPolicy
from footfall.worlds.world import StepTruth

__all__ = [
    "AlgebraPolicy", "AlgebraWorld", "ArithmeticPolicy", "ArithmeticWorld", "CodePolicy", "CodeWorld", "ExactValueJudge",
    "LogicPolicy", "LogicWorld", "MultilingualArithmetic", "MultilingualPolicy", "OpRates", "StepTruth",
    "TruthJudge",
]  # fmt: skip
