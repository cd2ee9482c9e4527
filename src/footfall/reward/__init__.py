"""Judges that are models. Names are imported when they are first used, so `import footfall.reward` loads no torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from footfall.reward.config import StepHeadConfig

if TYPE_CHECKING:
    from footfall.reward.canary import Canary, CanaryError
    from footfall.reward.judge import StepHeadJudge, step_head
    from footfall.reward.step_head import StepHeadModel

__all__ = ["Canary", "CanaryError", "StepHeadConfig", "StepHeadJudge", "StepHeadModel", "step_head"]

_HOMES = {
    "Canary": "canary",
    "CanaryError": "canary",
    "StepHeadJudge": "judge",
    "StepHeadModel": "step_head",
    "step_head": "judge",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
