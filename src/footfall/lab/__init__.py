"""The lab: run a recipe against its baseline over seeds, decide its claims with an interval, keep the ledger."""

from footfall.lab.ledger import Row, decide, effect, read_ledger
from footfall.lab.recipe import Claim, Entry, Outcome, Recipe, Trial, catalogue, find
from footfall.lab.runner import Finding, run_recipe

__all__ = [
    "Claim", "Entry", "Finding", "Outcome", "Recipe", "Row", "Trial", "catalogue", "decide", "effect", "find",
    "read_ledger", "run_recipe",
]  # fmt: skip
