"""Which method at which budget, by rule: so that the advice cannot say what the figures do not.

A budget is a multiple of what the trace itself cost to write, for tokens of one world are not those of another. Within
a budget the best measured point is that with the highest first-error accuracy; advised is the cheapest point on the
frontier that is not clearly worse: the 95% interval over seeds of best − point, the same traces for both, reaches zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from footfall.bench import _frontier
from footfall.bench._frontier import cheapest_as_good, clearly_better, percent
from footfall.bench._labels_points import LabelCosts, Point

__all__ = ["LEVELS", "Pick", "advice", "better_critics", "clearly_better", "dial_text", "pick", "picks"]

LEVELS = {"low": 4, "middle": 16, "high": 64}
"""Budgets in lengths of a trace."""


class Pick(NamedTuple):
    """The advice for one world and budget."""

    world: str
    level: str
    limit: float
    """Tokens a trace."""
    point: Point
    best: Point
    """The most accurate one within the budget; often the same."""


def pick(points: Sequence[Point], world: str, level: str, limit: float) -> Pick | None:
    """Among the points of one world; `None` if nothing is that cheap."""
    choice = cheapest_as_good([p for p in points if p.kind == "measured" and p.frontier], limit)
    return None if choice is None else Pick(world, level, limit, choice.point, choice.best)


def picks(costs: LabelCosts) -> list[Pick]:
    """World by world, from the low budget to the high one."""
    found = [
        pick(costs.of(name), name, level, times * world.tokens)
        for name, world in costs.worlds.items()
        for level, times in LEVELS.items()
    ]
    return [one for one in found if one is not None]


def better_critics(costs: LabelCosts, one: Pick) -> list[str]:
    """Stand-ins that, within the same budget, are clearly better than the best measured method."""
    there = [p for p in costs.of(one.world) if p.kind == "stand-in" and p.tokens <= one.limit]
    return list(dict.fromkeys(p.method for p in there if clearly_better(p, one.best)))


def dial_text(point: Point) -> str:
    """`8 rollouts`, `1 vote`, `half width 0.2`, `free`."""
    return _frontier.dial_text(point.dial, point.budget)


def _named(point: Point) -> str:
    return f"`{point.method}`" if point.dial == "free" else f"`{point.method}` with {dial_text(point)}"


def advice(costs: LabelCosts) -> str:
    """One paragraph."""
    found = picks(costs)
    said = [_overall(found)]
    for name, world in costs.worlds.items():
        here = [one for one in found if one.world == name]
        said.append(f"On {name} (a trace has {world.tokens:.0f} tokens): " + "; ".join(map(_choice, here)) + ".")
    return " ".join([*said, *_critics(costs, found)])


def _overall(found: Sequence[Pick]) -> str:
    parts = []
    for level, times in LEVELS.items():
        votes = Counter(one.point.method for one in found if one.level == level)
        if votes:
            most = max(votes.values())
            names = " or ".join(f"`{name}`" for name, count in votes.items() if count == most)
            names = "no one method" if most == 1 < len(votes) else names
            parts.append(f"at a {level} budget ({times} times the tokens of a trace) {names}")
    worlds = len({one.world for one in found})
    where = f"over {worlds} worlds" if worlds > 1 else "here"
    return f"Advised most often {where}: {', '.join(parts)}." if parts else "Nothing was measured."


def _choice(one: Pick) -> str:
    tokens = f"{one.point.tokens:,.0f} tokens" if one.point.tokens else "nothing"
    tie = "" if one.best is one.point else f"; {_named(one.best)} is not clearly better for {one.best.tokens:,.0f}"
    return f"{one.level}, {_named(one.point)}, {percent(one.point.accuracy)} for {tokens}{tie}"


def _critics(costs: LabelCosts, found: Sequence[Pick]) -> list[str]:
    """Which critics would be worth their price at the middle budget."""
    if not any(p.kind == "stand-in" for p in costs.points):
        return []
    parts = []
    for one in found:
        if one.level == "middle":
            names = better_critics(costs, one)
            parts.append(f"{', '.join(f'`{name}`' for name in names) or 'none'} on {one.world}")
    price = f"At {costs.plan.price} tokens a step and vote"
    what = "these methods with a critic or tool of assumed quality are clearly better at the middle budget"
    return [f"{price} {what}: {'; '.join(parts)}."]
