"""The arithmetic world: word problems about one quantity that changes clause by clause."""

from footfall.worlds.arithmetic.policy import ArithmeticPolicy, OpRates
from footfall.worlds.arithmetic.world import ArithmeticWorld
from footfall.worlds.world import Split

__all__ = ["ArithmeticPolicy", "ArithmeticWorld", "OpRates", "Split"]
