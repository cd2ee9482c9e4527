"""Rows for a head that reads later steps: their traces may not all end where they go wrong.

People often label up to the first error, and many sets of rows end each trace there. In such rows a step that others follow is
right, and a last one may be wrong. A head that reads forwards cannot see what follows. One that can learns this alone, is
nearly always right on held-out rows of the same sources, and knows nothing of whole solutions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from footfall.registry import declared
from footfall.reward.config import CONFIG_FILE, read_json
from footfall.reward.prm import PRM
from footfall.train.config import TrainConfig
from footfall.train.data import checked
from footfall.train.objectives import Objective
from footfall.types import Judged

FEWEST = 20
"""Of fewer traces that end at their first wrong step nobody can say that they were cut there."""
NEARLY_ALL = 0.95
"""Of whole solutions many go on after their first wrong step; from this share of those that end at it they were cut."""


def refuse_cut_traces(
    rows: Sequence[Judged], backbone: str | Path | PRM, config: TrainConfig, objective: Objective
) -> None:
    """An error if the head reads later steps and nearly all traces with a wrong step end at their first one."""
    head = _head_of(backbone, config)
    name = head.get("name")
    ahead = None if name is None else declared("head", str(name)).ahead
    if ahead is None or any(head.get(setting) != value for setting, value in ahead.items()):
        return
    if found := cut_at_errors(rows, objective):
        ends, wrong = found
        raise ValueError(
            f"the head {name} also reads what comes after a step, and of {wrong} training traces with a wrong step {ends} end "
            "at their first one: it would learn where traces end, not which steps are wrong; keep the steps after the first "
            "error, without labels (null), or take a head that reads forwards alone (leave head out)"
        )


def cut_at_errors(rows: Sequence[Judged], objective: Objective) -> tuple[int, int] | None:
    """How many traces end at their first wrong step, of how many that have one; None if they were not cut there."""
    ends = [last for row in rows if (last := ends_at_error(row, objective)) is not None]
    return (sum(ends), len(ends)) if sum(ends) >= max(FEWEST, NEARLY_ALL * len(ends)) else None


def ends_at_error(row: Judged, objective: Objective) -> bool | None:
    """Whether the first wrong step is the trace's last. None: there is no wrong one, or nobody can say which is the first (an
    unlabelled step comes before, as where outcomes alone are labelled), or the trace has no other step."""
    trace, said = row
    if said is None or len(said.check(trace).values) < 2:
        return None
    for k, label in enumerate(said.values):
        if label is None:
            return None
        checked(label, objective, trace, k)
        if not objective.is_good(label):
            return k == len(said.values) - 1
    return None


def _head_of(backbone: str | Path | PRM, config: TrainConfig) -> Mapping[str, Any]:
    """The name and settings of the head that will be trained, as far as they are known before anything is loaded."""
    if isinstance(backbone, PRM):
        return backbone.prm_config.head
    if (Path(backbone) / CONFIG_FILE).is_file():
        stored = read_json(Path(backbone)).get("head")
        return stored if isinstance(stored, Mapping) else {}  # of an earlier version, or damaged, which loading tells
    return {} if config.head is None else {"name": config.head, **config.head_options}
