"""The nouns of the library: what is solved, what was written, what was said about it and what it cost.

Everything is a small frozen dataclass. Whoever reads a `Trajectory` and says how good each `Step` is, is a
`Judge`; what it says is a `Judgement`. A step that could not be judged holds `None` and a reason, never a zero.
"""

from footfall.types.judgements import AFTER_ERROR, Judge, Judged, Judgement, Reason, Unjudged, failures_of
from footfall.types.traces import (
    IMAGE_HASH,
    Author,
    Cost,
    Json,
    Message,
    Part,
    Problem,
    Step,
    Trajectory,
    content_key,
    content_key_of,
    image_name,
    problem_rest,
    sampled_ids,
    sampled_logprobs,
)
from footfall.types.trees import Barren, Decision, Harvest, Node, Searcher, SearchResult, Tree

__all__ = [
    "AFTER_ERROR", "Author", "Barren", "Cost", "Decision", "Harvest", "IMAGE_HASH", "Json", "Judge", "Judged", "Judgement",
    "Message", "Node", "Part", "Problem", "Reason", "SearchResult", "Searcher", "Step", "Trajectory", "Tree", "Unjudged",
    "content_key", "content_key_of", "failures_of", "image_name", "problem_rest", "sampled_ids", "sampled_logprobs",
]  # fmt: skip
