"""Rows of `scripts/kinds.py` in the form that each kind of PRM learns from, and what its judges that write have said.

steps      labels of steps, as `scripts/loop.py` has them
types      the same with what is wrong in a wrong step: its mathematics where computer algebra finds a false equation in it,
           its consistency otherwise (PathFinder-PRM asks a large model instead)
chains     verifications that say what the labels say, up to so many, as many of wrong solutions as of right ones where
           there are enough
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.damaged import naming
from footfall.label.error_types import ErrorTypes
from footfall.label.formal import Formal
from footfall.reward.generative.critic import Chain
from footfall.types import Judged
from scripts.loop_data import Said
from scripts.smol_rows import read_lines


def typed_rows(rows: Sequence[Judged]) -> list[Judged]:
    """The rows with the aspects `math` and `consistency`; labels are hard, below one half is wrong."""
    rated = [
        Judged(row.trajectory, replace(row.judgement, values=tuple(map(_rating, row.judgement.values))))
        for row in rows if row.judgement is not None
    ]  # fmt: skip
    traces = [row.trajectory for row in rated]
    judge = ErrorTypes(Said("labels", rated), (Said("by-algebra", list(map(_by_algebra, rated))),))
    return list(map(Judged, traces, judge.judge(traces)))


def _by_algebra(row: Judged) -> Judged:
    """What is wrong in each wrong step: its mathematics if an equation in it is false, else its consistency.

    Each is read alone. Earlier steps can verify what it states and, outside the domain algebra, which none of these rows is of,
    never refute it; they take most of the time.
    """
    trace, said = row
    assert said is not None
    wrong = [k for k, rating in enumerate(said.values) if rating == -1]
    alone = Formal().judge([replace(trace, steps=(trace.steps[k],)) for k in wrong])
    false = {k for k, found in zip(wrong, alone, strict=True) if found.values[0] == 0}
    math = tuple(float(k not in false) for k in range(len(trace.steps)))
    consistent = tuple(float(k not in wrong or k in false) for k in range(len(trace.steps)))
    return Judged(
        trace, replace(said, judge="by-algebra", values=math, aspects={"math": math, "consistency": consistent})
    )


def _rating(label: float | None) -> float | None:
    return None if label is None else 1.0 if label >= 0.5 else -1.0


def chosen_chains(rows: Sequence[Judged], most: int) -> list[Judged]:
    """At most so many rows that have a chain, as many about wrong as about right solutions as long as there are both."""
    sides: tuple[list[Judged], list[Judged]] = ([], [])
    for row in rows:
        labels = [] if row.judgement is None else [value for value in row.judgement.values if value is not None]
        if labels:
            sides[labels[-1] < 0.5].append(row)
    few = min(most // 2, *map(len, sides))
    taken = {row.trajectory.id for side in sides for row in side[:few]}
    rest = [row for side in sides for row in side[few:]]
    taken |= {row.trajectory.id for row in rest[: most - len(taken)]}
    return [row for row in rows if row.trajectory.id in taken]


class Verified(NamedTuple):
    """What the chains about a trace say, and the tokens that were written for them."""

    chains: tuple[tuple[bool, ...] | None, ...]
    tokens: int


def verified(chains: Sequence[Chain], steps: int) -> Verified:
    """Each chain's verdicts up to the first wrong step; more verdicts than there are steps cannot be read."""
    return Verified(
        tuple(_read(chain, steps) for chain in chains), sum(chain.cost.generated_tokens for chain in chains)
    )


def _read(chain: Chain, steps: int) -> tuple[bool, ...] | None:
    if chain.reason is not None or not 0 < len(chain.verdicts) <= steps:
        return None
    wrong = [k for k, verdict in enumerate(chain.verdicts) if not verdict]
    return tuple(chain.verdicts[: wrong[0] + 1]) if wrong else tuple(chain.verdicts)


def verified_lines(found: Mapping[tuple[str, str], Verified]) -> Iterable[dict[str, Any]]:
    for (split, id), said in found.items():
        chains = [None if chain is None else "".join(map(str, map(int, chain))) for chain in said.chains]
        yield {"id": id, "split": split, "chains": chains, "tokens": said.tokens}


def verified_of(file: Path) -> dict[tuple[str, str], Verified]:
    """What the stage verify left, by split and trace."""
    found = {}
    with naming(file):
        for row in read_lines(file):
            chains = tuple(None if c is None else tuple(mark == "1" for mark in str(c)) for c in row["chains"])
            found[row["split"], row["id"]] = Verified(chains, int(row["tokens"]))
    return found


def mean_verdicts(chains: Sequence[tuple[bool, ...] | None], steps: int) -> list[float | None]:
    """The mean verdict of each step over the chains that reach it; None where nobody does."""
    said = [chain for chain in chains if chain is not None]
    reached = [[float(chain[k]) for chain in said if k < len(chain)] for k in range(steps)]
    return [fmean(each) if each else None for each in reached]
