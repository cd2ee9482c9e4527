"""The logic world: deductions from facts and rules about made-up things."""

from footfall.worlds.logic.world import LogicPolicy, LogicWorld

__all__ = ["LogicPolicy", "LogicWorld"]
