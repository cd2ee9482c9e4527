"""Worlds: problem generators in which the truth of every step and the exact value of every prefix are known."""

from footfall.worlds.arithmetic import ArithmeticWorld
from footfall.worlds.arithmetic_policy import ArithmeticPolicy, OpRates
from footfall.worlds.judges import ExactValueJudge, TruthJudge
from footfall.worlds.truth import StepTruth

__all__ = ["ArithmeticPolicy", "ArithmeticWorld", "ExactValueJudge", "OpRates", "StepTruth", "TruthJudge"]
