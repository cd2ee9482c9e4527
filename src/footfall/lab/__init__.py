"""The lab: run a recipe against its baseline over seeds, decide its claims with an interval, keep the ledger."""

from footfall.lab.ledger import Row, read_ledger
from footfall.lab.recipe import Claim, Entry, Outcome, Recipe, Trial, catalogue, find
from footfall.lab.runner import Finding, run_recipe
from footfall.lab.verdicts import decide, effect, effect_by_looks

__all__ = [
    "Claim", "Entry", "Finding", "Outcome", "Recipe", "Row", "Trial", "catalogue", "decide", "effect",
    "effect_by_looks", "find", "read_ledger", "run_recipe",
]  # fmt: skip
