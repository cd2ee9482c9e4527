"""The whole loop on one machine, and its report. Light: the command line reads the sizes without loading torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DemoSettings"]


@dataclass(frozen=True)
class DemoSettings:
    """Sizes of the demo; the defaults fit into a few minutes on two cores."""

    train_problems: int = 140
    traces: int = 4
    """Sampled for each training problem."""
    rollouts: int = 8
    """Completions of each prefix, for its label."""
    test_problems: int = 200
    n: int = 16
    """Candidates for each test problem."""
    epochs: int = 2
    lr: float = 3e-4
    aggregation: str = "min"
    quality_traces: int = 200
    """Training traces on which the labeller is measured against exact values."""
    max_tokens: int = 200
