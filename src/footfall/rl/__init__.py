"""Reinforcement learning with process rewards: credits, filters and the watch over exploits, as pure functions of groups.

`footfall list credit` and `footfall list filter` name the methods; `create("credit", "pure")` makes one.
"""

from footfall.rl.groups import Chosen, Credit, Credited, Filter, Group, Rollout, credited, padded, rollout

__all__ = ["Chosen", "Credit", "Credited", "Filter", "Group", "Rollout", "credited", "padded", "rollout"]
