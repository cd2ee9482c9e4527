"""Completions that a run keeps for people: of some updates, a few, every token with its advantage.

They are told before the checkpoint of their update is saved. A killed run goes on from its last checkpoint and tells those of
later updates again, the same ones, so no kill leaves a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from footfall.rl.batches import Rolled
from footfall.rl.settings import RlSettings

LONGEST = 400
"""Tokens that are kept of a completion."""


def is_shown(update: int, settings: RlSettings, saved: bool) -> bool:
    """Whether completions of an update are kept: those that were asked for, or those of checkpoints."""
    return update in settings.traces_at if settings.traces_at else saved


def shown(batch: Sequence[Rolled], tokenizer: Any, settings: RlSettings) -> list[dict[str, Any]]:
    """Right ones, wrong ones and those that left their groups in turn; one that teaches nothing only where all are so."""
    taught = [each for each in batch if each.left is not None or each.advantages.any()]
    if not taught and settings.traces_at:
        taught = list(batch)
    kinds: dict[str, list[Rolled]] = {}
    for each in taught:
        kinds.setdefault("left" if each.left is not None else str(each.trajectory.correct), []).append(each)
    in_turn = [each for each in chain.from_iterable(zip_longest(*kinds.values())) if each is not None]
    return [_told(each, tokenizer) for each in in_turn[: settings.traces_shown]]


def _told(each: Rolled, tokenizer: Any) -> dict[str, Any]:
    return {
        "problem": each.trajectory.problem.id, "text": each.trajectory.problem.text, "correct": each.trajectory.correct,
        "reward": each.reward, "left": each.left and str(each.left),
        "tokens": [tokenizer.decode([token]) for token in each.ids[:LONGEST]],
        "advantages": [round(float(a), 4) for a in each.advantages[:LONGEST]],
        "left_out": max(0, len(each.ids) - LONGEST),
    }  # fmt: skip
