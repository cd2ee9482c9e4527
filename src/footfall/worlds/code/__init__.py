"""The code world: small Python functions with unit tests, written line by line."""

from footfall.worlds.code.policy import CodePolicy
from footfall.worlds.code.world import CodeWorld

__all__ = ["CodePolicy", "CodeWorld"]
