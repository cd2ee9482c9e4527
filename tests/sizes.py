"""How much of what the long tier samples is run."""

from __future__ import annotations

import os

SOAK = os.environ.get("FOOTFALL_SOAK") == "1"
"""Whole sweeps in place of samples drawn by a seed; hours rather than minutes."""
