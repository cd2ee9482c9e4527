"""Worlds: problem generators in which the truth of every step and the exact value of every prefix are known."""

from footfall.worlds.algebra import AlgebraWorld
from footfall.worlds.algebra_policy import AlgebraPolicy
from footfall.worlds.arithmetic import ArithmeticWorld
from footfall.worlds.arithmetic_policy import ArithmeticPolicy, OpRates
from footfall.worlds.code import CodeWorld
from footfall.worlds.code_policy import CodePolicy
from footfall.worlds.judges import ExactValueJudge, TruthJudge
from footfall.worlds.logic import LogicWorld
from footfall.worlds.logic_policy import LogicPolicy
from footfall.worlds.multilingual import MultilingualArithmetic, MultilingualPolicy
from footfall.worlds.truth import StepTruth

__all__ = [
    "AlgebraPolicy", "AlgebraWorld", "ArithmeticPolicy", "ArithmeticWorld", "CodePolicy", "CodeWorld", "ExactValueJudge",
    "LogicPolicy", "LogicWorld", "MultilingualArithmetic", "MultilingualPolicy", "OpRates", "StepTruth",
    "TruthJudge",
]  # fmt: skip
