"""Footfall: process reward models, the whole loop. `import footfall` loads no torch.

judge = footfall.load("runs/train-…")          # or a hub id, or a name of `footfall list reward`
rows = footfall.read("traces.jsonl")
judgements = judge.judge([row.trajectory for row in rows])
"""

import os
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

    `settings` are those of `--set`, and `policy=…` for a judge that asks one: `footfall.load("runs/prm", device="cpu")`.
    """
    from footfall.commands._judges import make_judge

    return make_judge(os.fspath(source), settings, {})


def read(source: str | os.PathLike[str], format: str = "auto") -> list[Judged]:
    """The traces of a file in any format of `footfall list format`, with their judgements if it has any."""
    from footfall import formats

    return formats.read(os.fspath(source), format)
