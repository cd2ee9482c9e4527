"""Judges that are models. Names are imported when they are first used, so `import footfall.reward` loads no torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from footfall.reward.config import PRMConfig

if TYPE_CHECKING:
    from footfall.reward.canary import Canary, CanaryError
    from footfall.reward.judge import PRMJudge, step_head
    from footfall.reward.prm import PRM

__all__ = ["PRM", "Canary", "CanaryError", "PRMConfig", "PRMJudge", "step_head"]

_HOMES = {
    "PRM": "prm",
    "Canary": "canary",
    "CanaryError": "canary",
    "PRMJudge": "judge",
    "step_head": "judge",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
