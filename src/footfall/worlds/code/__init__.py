"""The code world: small Python functions with unit tests, written line by line."""

from footfall.worlds.code.world import CodePolicy, CodeWorld

__all__ = ["CodePolicy", "CodeWorld"]
