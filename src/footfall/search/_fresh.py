"""Sampled steps that say something new: repeats and cut ones are given up before anybody pays for judging them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from footfall.search.board import Board

__all__ = ["fresh"]


def fresh(board: Board, children: Sequence[int], taken: Collection[str] = ()) -> list[int]:
    """The first child of each text that is not `taken`; the others, and those cut at the length limit, are pruned."""
    first: dict[str, int] = {}
    cut: list[int] = []
    for child in dict.fromkeys(children):
        text = board.tree.nodes[child].step.written
        if board.finish(child) == "length":
            cut.append(child)
        elif text not in taken:
            first.setdefault(text, child)
    kept = list(first.values())
    board.prune(cut, "cut at the length limit")
    board.prune([c for c in dict.fromkeys(children) if c not in kept and c not in cut], "the text is there already")
    return kept
