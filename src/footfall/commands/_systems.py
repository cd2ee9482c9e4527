"""Published systems by their own names, where a judge is asked for: the labeller that stands for one, or where it is.

A system that labels given traces is that labeller with the system's settings; what the user sets goes before them. One that
does something else (chooses traces, grows trees, trains) is no judge, and the answer says what it is and how it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from footfall.lab.catalogue import catalogue

__all__ = ["SYSTEMS", "System", "not_a_judge"]


class System(NamedTuple):
    """A registered labeller, and the settings with which it is the system."""

    labeller: str
    settings: Mapping[str, Any] = {}


SYSTEMS = {
    "math-shepherd": System("monte-carlo", {"rollouts": 8, "estimate": "hard"}),
    "consensus-filter": System("consensus", {"judges": "monte-carlo,critic", "rule": "first-error"}),
    "aurora": System("prompted", {"prompts": "all", "reference": True, "cut": True}),
    "versaprm": System("prompted", {"prompts": "reason", "reference": True, "cut": True}),
    "birm": System("beside", {"judges": "monte-carlo,critic", "aspect": "reward"}),
    "grounded-prm": System("grounded"),
    "fover": System("formal"),
    "prlcoder": System("execution"),
}

_ELSEWHERE = {
    "prm800k": "its labels are people's, read as any data in the format prm800k; which traces to label is chosen by "
    "footfall.label.selection",
    "actprm": "it chooses which traces are worth a label while a PRM is trained: footfall.train.active, docs/training.md",
    "adaptivestep": "it cuts traces into steps, which monte-carlo then labels: footfall.segment.recut, docs/labelling.md",
    "edu-prm": "it writes traces of its own, trees that branch where the writer is unsure: `footfall label --method edu-prm "
    "--trees N`, footfall.label.edu_prm",
    "hrm-hnc": "it grows trees of its own and merges their nodes: `footfall label --method hrm-hnc --trees N`, "
    "footfall.label.hrm_hnc",
    "hgs-prm": "its labels are of programs that it changes itself: footfall.label.hgs_prm; its search is `footfall search "
    "--method hgs-prm`",
    "ssrm": "a PRM labels what it is sure of, and is trained on that: footfall.train.self_training, docs/training.md",
    "multilingual-prm": "it translates traces that have labels: footfall.label.translation",
}


def not_a_judge(name: str) -> str | None:
    """What a system of that name is and how it is run, if there is one and it judges no given traces."""
    entry = next((entry for entry in catalogue() if entry.recipe.name == name), None)
    if entry is None:
        return None
    where = _ELSEWHERE.get(name, f"it is of the stage {entry.recipe.stage}")
    return f"{name!r} is a published system that labels no given traces: {where}; `footfall lab run {name}` measures it"
