"""Footfall: process reward models, the whole loop. `import footfall` loads no torch."""

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

__version__ = "0.1.0"
__all__ = [
    "Cost", "Judge", "Judged", "Judgement", "Message", "Node", "Part", "Problem", "Reason", "SearchResult", "Searcher",
    "Step", "Trajectory", "Tree", "Unjudged", "__version__",
]  # fmt: skip
