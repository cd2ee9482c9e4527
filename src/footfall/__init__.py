"""Footfall: process reward models, the whole loop. `import footfall` loads no torch.

judge = footfall.load("runs/train-…")          # or a hub id, or a name of `footfall list reward`
rows = footfall.read("traces.jsonl")
judgements = judge.judge([row.trajectory for row in rows])
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from footfall._version import __version__
from footfall.types import (
    Cost,
    Judge,
    Judged,
    Judgement,
    Message,
    Node,
    Part,
    Problem,
    Reason,
    Searcher,
    SearchResult,
    Step,
    Trajectory,
    Tree,
    Unjudged,
)

__all__ = [
    "Cost", "Judge", "Judged", "Judgement", "Message", "Node", "Part", "Problem", "Reason", "SearchResult", "Searcher",
    "Step", "Trajectory", "Tree", "Unjudged", "__version__", "load", "read",
]  # fmt: skip


def load(source: str | os.PathLike[str], **settings: Any) -> Judge:
    """The judge that `--judge` would name: a folder of `footfall train` or `calibrate`, a published PRM, a registered name.

    `settings` are those of `--set`: `footfall.load("runs/prm", device="cpu")`. A judge that asks a policy takes one, or what
    `--policy` would name: `footfall.load("monte-carlo", policy="embedded", rollouts=8)`.
    """
    from footfall.commands._judges import make_judge
    from footfall.commands._options import PolicyOptions

    if isinstance(settings.get("policy"), str):
        settings["policy"] = PolicyOptions(policy=settings["policy"])
    return make_judge(os.fspath(source), settings, {})


def read(
    source: str | os.PathLike[str] | Iterable[Any],
    format: str = "auto",
    names: Mapping[str, str] | None = None,
    segment: str | None = None,
) -> list[Judged]:
    """The traces of a file in any format of `footfall list format`, with their judgements if it has any.

    Or of records in memory: a list of dicts, a `datasets.Dataset`, a data frame. `names` are those of `--map`, e.g.
    `{"problem": "question_text", "steps": "cot"}`, and `segment` is how a solution that is one text is cut.
    """
    from footfall import formats

    solutions = None if segment is None else formats.Solutions(segment)
    return formats.read(source, format, names=names, solutions=solutions)
