"""The driver of labellers and searches: what they ask for, batches across problems, budgets, trees, the rollout store."""

from footfall.drive.budget import Budget
from footfall.drive.rollout_store import RolloutStore
from footfall.drive.stored_policy import StoredPolicy

__all__ = ["Budget", "RolloutStore", "StoredPolicy"]
