"""How far two judges agree: Cohen's kappa, the confusion table, and where they differ.

    κ = (p_o - p_e) / (1 - p_e)      p_o: observed agreement, p_e: agreement by chance, from each one's own rates
    χ² = Σ (observed - expected)² / expected      whether two properties have anything to do with each other

Steps are counted where both have said something; a judge with no word on a step is not taken to have said no.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from footfall.types import Judgement, Trajectory

__all__ = [
    "Agreement",
    "Difference",
    "agreement",
    "chi_squared",
    "cohen_kappa",
    "confusion",
    "first_error",
    "first_error_kappa",
    "verdicts",
]


def confusion(a: Sequence[Hashable], b: Sequence[Hashable]) -> Counter[tuple[Hashable, Hashable]]:
    """How often `a` said x where `b` said y."""
    return Counter(zip(a, b, strict=True))


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> float | None:
    """Agreement beyond chance; `None` if there is nothing to compare or both always say the same one thing."""
    n = len(a)
    if n == 0:
        return None
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / n
    said_a, said_b = Counter(a), Counter(b)
    chance = sum(said_a[word] * said_b[word] for word in said_a) / (n * n)
    return None if chance == 1 else (observed - chance) / (1 - chance)


def chi_squared(table: Sequence[Sequence[float]]) -> float | None:
    """χ² of a table of counts: Σ (observed - expected)² / expected under independence; of [[a, b], [c, d]] with margins m

        χ² = n (ad - bc)² / (m_1 m_2 m_3 m_4),   1 degree of freedom: above 3.84 the two are related (p < 0.05)

    `None` if a row or a column is empty: then nobody can say. (Self-PRM: does who solves a problem also judge it right?)
    """
    rows, columns = [sum(row) for row in table], [sum(column) for column in zip(*table, strict=True)]
    if not table or not all(rows) or not all(columns):
        return None
    expected = [[row * column / sum(rows) for column in columns] for row in rows]
    pairs = ((o, e) for seen, due in zip(table, expected, strict=True) for o, e in zip(seen, due, strict=True))
    return float(sum((o - e) ** 2 / e for o, e in pairs))


def verdicts(judgement: Judgement, threshold: float = 0.5) -> tuple[bool | None, ...]:
    """Whether each step is good: valued at least `threshold`."""
    return tuple(None if value is None else value >= threshold for value in judgement.values)


def first_error(said: Sequence[bool | None]) -> int | None:
    """0-based index of the first bad step, -1 if there is none; `None` if a step without a verdict comes first."""
    for i, good in enumerate(said):
        if good is None:
            return None
        if not good:
            return i
    return -1


class Difference(NamedTuple):
    """A step on which two judges say different things."""

    trajectory_id: str
    step: int
    """From 0 on."""
    text: str
    a: float
    b: float


@dataclass(frozen=True)
class Agreement:
    """Two judges over the same traces."""

    judges: tuple[str, str]
    steps: int
    """Steps on which both have a verdict."""
    silent: int
    """Steps on which one or both have none."""
    observed: float | None
    kappa: float | None
    table: Mapping[tuple[bool, bool], int]
    """How often (a says good, b says good)."""
    traces: int
    """Traces in which both can name a first error (or none)."""
    same_first_error: float | None
    first_error_kappa: float | None
    differences: tuple[Difference, ...]


def agreement(
    trajectories: Sequence[Trajectory],
    a: Sequence[Judgement],
    b: Sequence[Judgement],
    thresholds: tuple[float, float] = (0.5, 0.5),
) -> Agreement:
    """Compare two judges' judgements of the same traces, step by step and by first error."""
    said_a: list[bool] = []
    said_b: list[bool] = []
    differences: list[Difference] = []
    errors: list[tuple[int, int]] = []
    silent = 0
    for trajectory, of_a, of_b in zip(trajectories, a, b, strict=True):
        good_a, good_b = (
            verdicts(of_a.check(trajectory), thresholds[0]),
            verdicts(of_b.check(trajectory), thresholds[1]),
        )
        for k, (x, y) in enumerate(zip(good_a, good_b, strict=True)):
            u, v = of_a.values[k], of_b.values[k]
            if x is None or y is None or u is None or v is None:
                silent += 1
                continue
            said_a.append(x)
            said_b.append(y)
            if x != y:
                differences.append(Difference(trajectory.id, k, trajectory.steps[k].text, u, v))
        first_a, first_b = first_error(good_a), first_error(good_b)
        if first_a is not None and first_b is not None:
            errors.append((first_a, first_b))
    table = Counter(zip(said_a, said_b, strict=True))
    return Agreement(
        judges=(a[0].judge if a else "", b[0].judge if b else ""),
        steps=len(said_a),
        silent=silent,
        observed=(table[True, True] + table[False, False]) / len(said_a) if said_a else None,
        kappa=cohen_kappa(said_a, said_b),
        table={(x, y): table[x, y] for x in (True, False) for y in (True, False)},
        traces=len(errors),
        same_first_error=sum(x == y for x, y in errors) / len(errors) if errors else None,
        first_error_kappa=first_error_kappa(errors),
        differences=tuple(differences),
    )


def first_error_kappa(errors: Sequence[tuple[int, int]]) -> float | None:
    """Kappa over the steps that two judges name as the first error (-1: none)."""
    return cohen_kappa([x for x, _ in errors], [y for _, y in errors])
