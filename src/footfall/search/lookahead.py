"""Looking ahead: a step is judged by where it leads. The further steps are written greedily, really judged, and given up."""

from __future__ import annotations

from collections.abc import Sequence

from footfall.search.board import Board
from footfall.search.method import Wish

__all__ = ["look_ahead"]


def look_ahead(board: Board, nodes: Sequence[int], steps: int, aggregation: str) -> Wish[list[float | None]]:
    """A score for each node: that of the path to it and up to `steps` greedy steps more, folded.

    With `steps` = 0 that of the path itself. Paths that are judged already are not judged again.
    """
    tips = list(nodes)
    for _ in range(steps):
        open_ = [i for i, tip in enumerate(tips) if not board.ended(tip)]
        found = yield from board.expand([tips[i] for i in open_], meta={"role": "lookahead"}, temperature=0)
        for i, children in zip(open_, found, strict=True):
            tips[i] = children[0] if children else tips[i]
    unread = sorted({tip for tip in tips if board.judgement(tip) is None})
    if unread:
        yield from board.score(unread)
    scores = [board.fold(tip, aggregation) for tip in tips]
    if steps:
        board.note("looked-ahead", nodes, f"scored {steps} greedy steps further", scores)
    return scores
