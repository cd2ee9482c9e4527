"""Which method at which budget, by rule: so that the advice cannot say what the figures do not.

A budget is a multiple of what the trace itself cost to write, for tokens of one world are not those of another. Within
a budget the best measured point is that with the highest first-error accuracy; advised is the cheapest point on the
frontier that is not clearly worse: the 95% interval over seeds of best − point, the same traces for both, reaches zero.
What a smaller budget has stays unless the best is clearly better, and nothing below its mean takes its place. A checker
that proves or runs steps comes first, at the budgets where no measured point is clearly better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from footfall.studies import frontier as _frontier
from footfall.studies._labels_points import LabelCosts, Point
from footfall.studies.frontier import advised, clearly_better, how_sure, percent

LEVELS = {"low": 4, "middle": 16, "high": 64}
"""Budgets in lengths of a trace."""
_ORACLE = "truth-"
"""References that know the truth instead of finding it."""


class Pick(NamedTuple):
    """The advice for one world and budget."""

    world: str
    level: str
    limit: float
    """Tokens a trace."""
    point: Point
    best: Point
    """The most accurate one within the budget; often the same."""
    again: bool
    """Advised at a smaller budget already."""


def picks_of(points: Sequence[Point], world: str, limits: Mapping[str, float]) -> list[Pick]:
    """Among the points of one world, by level, from the low budget to the high one; none where nothing is that cheap."""
    choices = advised([p for p in points if p.kind == "measured"], list(limits.values()))
    rows = zip(limits.items(), choices, strict=True)
    return [Pick(world, level, limit, *choice) for (level, limit), choice in rows if choice is not None]


def picks(costs: LabelCosts) -> list[Pick]:
    """World by world, from the low budget to the high one."""
    return [
        one
        for name, world in costs.worlds.items()
        for one in picks_of(costs.of(name), name, {level: times * world.tokens for level, times in LEVELS.items()})
    ]


def checkers(costs: LabelCosts, found: Sequence[Pick]) -> dict[str, tuple[Point, list[str]]]:
    """By world: the best labeller that proves or runs steps, and the levels where nothing measured is clearly better."""
    best = {}
    for world in costs.worlds:
        proofs = [p for p in costs.of(world) if p.kind == "reference" and not p.method.startswith(_ORACLE)]
        if proofs:
            one = max(proofs, key=lambda p: p.accuracy.value)
            lost = {p.level for p in found if p.world == world and clearly_better(p.best, one)}
            best[world] = one, [level for level in LEVELS if level not in lost]
    return best


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
    said = [*_checked(costs, found), _overall(found)]
    for name, world in costs.worlds.items():
        here = [one for one in found if one.world == name]
        if here:
            said.append(f"On {name} (a trace has {world.tokens:.0f} tokens): " + "; ".join(map(_choice, here)) + ".")
    plan = costs.plan
    given = [p for p in costs.points if p.kind in ("measured", "stand-in")]
    each = f"{plan.seeds * plan.traces} traces ({plan.traces} of each of {plan.seeds} seeds)"
    return " ".join([*said, *_critics(costs, found), *([how_sure(given, each)] if given else [])])


def _checked(costs: LabelCosts, found: Sequence[Pick]) -> list[str]:
    """Where a checker applies it is free, and often the best."""
    parts = []
    for world, (point, levels) in checkers(costs, found).items():
        if levels:
            when = "" if len(levels) == len(LEVELS) else f" at a {' or '.join(levels)} budget"
            parts.append(f"`{point.method}` on {world}{when}, {percent(point.accuracy)}")
    if not parts:
        return []
    told = "it generates no token, and no measured method is clearly better"
    return [f"Where a checker applies, use it: {told} ({'; '.join(parts)}). Otherwise as follows."]


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
    best = f"{_named(one.best)}, {percent(one.best.accuracy)} for {one.best.tokens:,.0f} tokens"
    tie = "" if one.best is one.point else f" (not clearly better: {best})"
    if one.again:
        return f"{one.level}, the same again, for nothing clearly better fits{tie}"
    tokens = f"{one.point.tokens:,.0f} tokens" if one.point.tokens else "nothing"
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
