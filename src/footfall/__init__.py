"""Footfall: process reward models, the whole loop. `import footfall` loads no torch."""

from footfall.types import (
    Cost,
    Judge,
    Judged,
    Judgement,
    Message,
    Node,
    Problem,
    Searcher,
    SearchResult,
    Step,
    Trajectory,
    Tree,
)

__version__ = "0.1.0"
__all__ = [
    "Cost", "Judge", "Judged", "Judgement", "Message", "Node", "Problem", "SearchResult", "Searcher", "Step",
    "Trajectory", "Tree", "__version__",
]  # fmt: skip
