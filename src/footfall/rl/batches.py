"""A batch of whole groups as a trainer takes it: one row a rollout, its advantages, and why some rollouts are not trained on.

A batch keeps its number of rows. A group that the filter chose twice stands there twice; the rest are groups that it dropped,
with nothing to train on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from footfall.rl.groups import Credit, Filter, Floats, Group, Rollout, credited, left_out
from footfall.rl.monitors import Logged
from footfall.types import Judgement, Trajectory, Unjudged

_SAID_BESIDE = {"start": "bare problems", "token_scores": "single tokens"}
"""What a judge may value besides steps, as rollouts have it and in words."""


@dataclass(frozen=True, eq=False)
class Rolled:
    """One completion of the last batch: what was written, said and made of it."""

    trajectory: Trajectory
    judgement: Judgement
    ids: tuple[int, ...]
    rollout: Rollout
    reward: float | None
    """`None` if it left its group."""
    left: Unjudged | None = None
    advantages: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def logged(self) -> Logged:
        """As monitors want it."""
        return Logged(self.trajectory, self.judgement, self.reward, len(self.ids))


class Rows(NamedTuple):
    """Rollouts are counted over all groups."""

    order: list[int]
    """The rollout of each row."""
    advantages_BT: Floats
    own_BT: Floats
    """1 at tokens that are trained on."""
    weights_BT: Floats
    """The credit's factors of tokens' losses. They are in the advantages already; a loss's other terms need them."""
    out: dict[int, Unjudged]
    """Rollouts that are not trained on: what they lack, or `FILTERED`."""


def rows_of(groups: Sequence[Group], credit: Credit, keep: Filter | None, width: int) -> Rows:
    """The rows of groups that are all of one size, `width` tokens wide."""
    rollouts = [each for group in groups for each in group.rollouts]
    _refuse_silent(rollouts, credit)
    said = credited(groups, credit, keep)
    count, size = len(rollouts), len(groups[0].rollouts)
    advantages_BT, own_BT, weights_BT = (np.zeros((count, width)) for _ in range(3))
    order: list[int] = []
    out: dict[int, Unjudged] = {}
    for at, group in said:
        for i, rolled in enumerate(groups[at].rollouts):
            row, source = len(order), at * size + i
            order.append(source)
            if i in group.left:
                out[source] = group.left[i]
                continue
            advantages_BT[row, : rolled.tokens] = group.advantages[i] * group.weights[i]
            own_BT[row, : rolled.tokens] = rolled.mask
            weights_BT[row, : rolled.tokens] = group.weights[i]
    chosen = {at for at, _ in said}
    dropped = [i for i in range(count) if i // size not in chosen]
    out |= {i: left_out(rollouts[i], credit, keep) for i in dropped}
    order += dropped[: count - len(order)]
    if len(order) != count:
        raise ValueError(f"the filter chose {len(order)} rollouts where the batch has {count}")
    return Rows(order, advantages_BT, own_BT, weights_BT, out)


def _refuse_silent(rollouts: Sequence[Rollout], credit: Credit) -> None:
    """A judge that values steps, and never what else the credit needs, is no failed call: nothing would ever be learnt."""
    judged = [each for each in rollouts if each.rewards is not None]
    for name, what in _SAID_BESIDE.items():
        if name in credit.needs and judged and all(getattr(each, name) is None for each in judged):
            raise ValueError(f"the judge values no {what}, and the credit needs that: name another judge or credit")
