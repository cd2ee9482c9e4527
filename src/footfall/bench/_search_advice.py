"""Which search method at which budget, by rule: so that the advice cannot say what the figures do not.

A budget is a multiple of what one sample of the world's policy costs. Within it the best point is that with the highest
accuracy; advised is the cheapest point on the frontier that is not clearly worse: the 95% interval of best − point, paired by
problem, reaches zero. What a smaller budget has stays unless the best is clearly better, and nothing below its mean takes its
place. An advised single sample says that search did not pay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from footfall.bench._frontier import advised, cheapest_as_good, clearly_better, dial_text, how_sure, percent
from footfall.bench._search_methods import SINGLE
from footfall.bench._search_points import Point, SearchCosts

__all__ = ["LEVELS", "Pick", "advice", "picks"]

LEVELS = {"low": 8, "middle": 32, "high": 128}
"""Budgets in samples."""
_MOST = 3
"""Methods that are named where several are advised as often."""


class Pick(NamedTuple):
    """The advice for one world, judge and budget."""

    world: str
    judge: str
    level: str
    point: Point
    best: Point
    """The most accurate within the budget; often the same."""
    again: bool
    """Advised at a smaller budget already."""


def picks(costs: SearchCosts) -> list[Pick]:
    """World by world and judge by judge, from the low budget to the high one."""
    found = []
    for world, judge in costs.settings():
        single = costs.worlds[f"{world}/{judge}"].tokens
        choices = advised(costs.of(world, judge), [times * single for times in LEVELS.values()])
        rows = zip(LEVELS, choices, strict=True)
        found += [Pick(world, judge, level, *choice) for level, choice in rows if choice is not None]
    return found


def advice(costs: SearchCosts) -> str:
    """One paragraph."""
    found = picks(costs)
    judges = list(dict.fromkeys(judge for _, judge in costs.settings()))
    said = [_of_judge(judge, [one for one in found if one.judge == judge]) for judge in judges]
    levels = ", ".join(f"{level} is {times} times" for level, times in LEVELS.items())
    intro = [f"As a budget, {levels} the tokens of one sample."]
    if any(one.again for one in found):
        intro.append("Where the advice is the same at a larger budget, nothing that fits it is clearly better.")
    plan = costs.plan
    each = f"{plan.seeds * plan.problems} problems ({plan.problems} of each of {plan.seeds} seeds)"
    return " ".join([*intro, *said, *_free(costs, found), how_sure(costs.points, each)])


def _of_judge(judge: str, found: Sequence[Pick]) -> str:
    """What is advised most often at each budget, then world by world."""
    most = [f"{level} {_most([one for one in found if one.level == level])}" for level in LEVELS]
    worlds = dict.fromkeys(one.world for one in found)
    told = "; ".join(f"{world}: {_of_world([one for one in found if one.world == world])}" for world in worlds)
    return f"With the {judge} judge, advised most often: {', '.join(most)} ({told})."


def _most(found: Sequence[Pick]) -> str:
    votes = Counter(one.point.method for one in found)
    most = max(votes.values(), default=0)
    names = [f"`{name}`" for name, count in votes.items() if count == most]
    return "no one method" if not names or (len(found) > 1 and most == 1) else " or ".join(names[:_MOST])


def _of_world(found: Sequence[Pick]) -> str:
    """Budgets with the same advice are named together, with what is more accurate but not clearly so."""
    levels: dict[str, list[Pick]] = {}
    for one in found:
        levels.setdefault(_choice(one.point), []).append(one)
    return ", ".join(f"{_when(same)} {choice}{_ties(same)}" for choice, same in levels.items())


def _when(same: Sequence[Pick]) -> str:
    return "at any budget" if len(same) == len(LEVELS) else " and ".join(one.level for one in same)


def _ties(same: Sequence[Pick]) -> str:
    others = list(dict.fromkeys(_choice(one.best) for one in same if one.best is not one.point))
    return f" (not clearly better: {'; '.join(others)})" if others else ""


def _choice(point: Point) -> str:
    dial = "" if point.method == SINGLE else f" with {dial_text(point.dial, point.budget)}"
    return f"`{point.method}`{dial}, {percent(point.accuracy)} for {point.tokens:,.0f} tokens"


def _free(costs: SearchCosts, found: Sequence[Pick]) -> list[str]:
    """Where a judge is worth its tokens at all: whether the best with it beats the best without, at the middle budget."""
    parts = []
    for one in found:
        if one.level != "middle":
            continue
        limit = LEVELS["middle"] * costs.worlds[f"{one.world}/{one.judge}"].tokens
        without = cheapest_as_good([p for p in costs.of(one.world, one.judge) if not p.judged], limit)
        if without is not None:
            worth = clearly_better(one.best, without.best)
            parts.append(f"{one.world}/{one.judge} {'yes' if worth else 'no'}")
    named = f"At {LEVELS['middle']} times the tokens of a sample"
    return (
        [f"{named}, is the best with a judge clearly better than the best without? {', '.join(parts)}."]
        if parts
        else []
    )
