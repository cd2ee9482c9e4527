"""A calibrated judge as a folder: the map, and which judge it belongs to.

    calibration.json   kind, numbers, the judge's name by content, and `of`: the judge as --judge takes it, its settings

A judge that is a folder is named relative to this one, so that both can be moved together, and found from anywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from footfall.registry import parts
from footfall.reward.calibrated import Calibration
from footfall.store import write_json

__all__ = ["CALIBRATION", "Inside", "inside", "write_calibrated"]

CALIBRATION = "calibration.json"


class Inside(NamedTuple):
    """The judge that a calibration is for, as `--judge` and `--set` name it."""

    judge: str
    settings: Mapping[str, Any]


def write_calibrated(folder: Path, made: Calibration, judge: str, settings: Mapping[str, Any]) -> None:
    """Make `folder` a judge."""
    named = any(judge in parts(kind) for kind in ("labeller", "reward"))
    of = {"name": judge} if named or not Path(judge).exists() else {"folder": os.path.relpath(judge, folder)}
    write_json(folder / CALIBRATION, {**asdict(made), "of": {**of, "settings": dict(settings)}})


def inside(folder: Path) -> Inside | None:
    """The judge that is calibrated in `folder`; `None` if that holds no calibrated judge."""
    path = folder / CALIBRATION
    if not path.is_file():
        return None
    try:
        of: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["of"]
        found = of["name"] if "name" in of else str(folder / of["folder"])
        return Inside(os.path.normpath(found) if "folder" in of else found, of["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} does not say which judge it is for ({error!r}); write it by `footfall calibrate`"
        ) from error
