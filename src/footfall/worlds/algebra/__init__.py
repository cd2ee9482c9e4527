"""The algebra world: linear equations, systems of two, and quadratics."""

from footfall.worlds.algebra.world import AlgebraPolicy, AlgebraWorld

__all__ = ["AlgebraPolicy", "AlgebraWorld"]
