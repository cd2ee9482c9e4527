"""The driver of labellers and searches: what they ask for, batches across problems, budgets, trees, the rollout store."""

from footfall.drive.budget import Account, Budget, Pace
from footfall.drive.driver import Driver
from footfall.drive.requests import ROOT, BudgetSpent, Reread, Score, Task, Write
from footfall.drive.rollout_store import RolloutStore, StoredPolicy
from footfall.drive.rollouts import Course, Estimate, Plan, Probe, RolloutCache, Tally, run_courses, run_plans
from footfall.drive.trees import GrowingTree

__all__ = [
    "ROOT", "Account", "Budget", "BudgetSpent", "Course", "Driver", "Estimate", "GrowingTree", "Pace", "Plan", "Probe",
    "Reread", "RolloutCache", "RolloutStore", "Score", "StoredPolicy", "Tally", "Task", "Write", "run_courses", "run_plans",
]  # fmt: skip
