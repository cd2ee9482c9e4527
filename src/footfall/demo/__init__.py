"""The whole loop on one machine, and its report."""

from footfall.demo.settings import DemoSettings

__all__ = ["DemoSettings"]
