"""What a judge is measured on: trajectories whose truth is known, in splits and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.types import Judgement, Trajectory

Indices = npt.NDArray[np.int64]


class Case(NamedTuple):
    """A trajectory whose truth is known, and the split or category that it is counted in."""

    split: str
    trajectory: Trajectory
    truth: Judgement
    """Step truth in `values` (None: not known), outcome truth in `value` (1.0: the right or chosen one)."""
    group: str = ""
    """Cases of one split and group (the candidates of one problem) are compared with each other and resampled together;
    without a group a case stands alone."""


def by_split(cases: Sequence[Case]) -> dict[str, Indices]:
    """The numbers of the cases of each split, in the order of appearance."""
    names = np.asarray([case.split for case in cases])
    return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
