"""Training of step-head PRMs. Names are imported when they are first used, so `import footfall.train` loads no torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from footfall.train.config import TrainConfig
from footfall.train.decontaminate import Overlap, find_overlaps, normalise

if TYPE_CHECKING:
    from footfall.train.data import DataReport
    from footfall.train.objectives import Objective
    from footfall.train.prm import train_prm
    from footfall.train.run import TrainResult
    from footfall.train.trainer import StepTrainer

__all__ = [
    "DataReport", "Objective", "Overlap", "StepTrainer", "TrainConfig", "TrainResult", "find_overlaps", "normalise",
    "train_prm",
]  # fmt: skip

_HOMES = {
    "DataReport": "data",
    "Objective": "objectives",
    "StepTrainer": "trainer",
    "TrainResult": "run",
    "train_prm": "prm",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
