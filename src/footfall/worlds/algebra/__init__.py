"""The algebra world: linear equations, systems of two, and quadratics."""

from footfall.worlds.algebra.policy import AlgebraPolicy
from footfall.worlds.algebra.world import AlgebraWorld

__all__ = ["AlgebraPolicy", "AlgebraWorld"]
