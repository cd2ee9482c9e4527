"""The logic world: deductions from facts and rules about made-up things."""

from footfall.worlds.logic.policy import LogicPolicy
from footfall.worlds.logic.world import LogicWorld

__all__ = ["LogicPolicy", "LogicWorld"]
