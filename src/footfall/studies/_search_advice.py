"""Which search method at which budget, by rule: so that the advice cannot say what the figures do not.

A budget is a multiple of what one sample of the world's policy costs. Within it the best point is that with the highest
accuracy; advised is the cheapest point on the frontier that is not clearly worse: the 95% interval of best − point, paired by
problem, reaches zero. What a smaller budget has stays unless the best is clearly better, and nothing below its mean takes its
place. An advised single sample says that search did not pay. Worlds whose PRM hardly tells steps apart are summed up alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from footfall.studies._search_points import PRM, Point, SearchCosts
from footfall.studies.frontier import advised, cheapest_as_good, clearly_better

LEVELS = {"low": 8, "middle": 32, "high": 128}
"""Budgets in samples."""
GOOD_AUC = 0.7
"""Of steps, mean over seeds: below that a PRM is near chance, and what is found with it says nothing of good PRMs."""
_FIGURES_AT = "middle"
"""The budget whose figures the paragraph has; the others are in the table."""


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
    judge_pays: bool
    """Whether the best is clearly better than the best that asks no judge."""


class _Kind(NamedTuple):
    """Settings that are summed up together."""

    opening: str
    found: list[Pick]


def picks(costs: SearchCosts) -> list[Pick]:
    """World by world and judge by judge, from the low budget to the high one."""
    found = []
    for world, judge in costs.settings():
        points = costs.of(world, judge)
        limits = [times * costs.worlds[f"{world}/{judge}"].tokens for times in LEVELS.values()]
        for level, limit, choice in zip(LEVELS, limits, advised(points, limits), strict=True):
            if choice is not None:
                found.append(Pick(world, judge, level, *choice, _judge_pays(points, limit, choice.best)))
    return found


def _judge_pays(points: Sequence[Point], limit: float, best: Point) -> bool:
    without = cheapest_as_good([point for point in points if not point.judged], limit)
    return without is None or clearly_better(best, without.best)


def advice(costs: SearchCosts) -> str:
    """One paragraph: about three sentences for each quality of judge."""
    names, times = _listed(list(LEVELS), "or"), _listed([str(times) for times in LEVELS.values()], "or")
    intro = (
        f"A budget is {names} at {times} times one sample's tokens. Named are the choices of the table below; "
        f"figures span the worlds at the {_FIGURES_AT} budget."
    )
    return " ".join([intro, *(_told(costs, kind) for kind in _kinds(costs) if kind.found)])


def _kinds(costs: SearchCosts) -> list[_Kind]:
    """One a judge; two for trained PRMs: worlds where they tell steps apart, and worlds where they hardly do."""
    found = picks(costs)
    kinds = []
    for judge in dict.fromkeys(judge for _, judge in costs.settings()):
        own = [one for one in found if one.judge == judge]
        if judge != PRM:
            kinds.append(_Kind(f"With the {judge} judge", own))
            continue
        for good, what in ((True, "that tells steps apart"), (False, "that hardly tells steps apart")):
            worlds = [w for w in dict.fromkeys(one.world for one in own) if costs.tells_apart(w, GOOD_AUC) == good]
            aucs = [auc for w in worlds if (auc := costs.step_auc(w)) is not None]
            figures = f"AUC {_range(aucs, 2)}: {_listed(worlds, 'and')}"
            kinds.append(_Kind(f"With a PRM {what} ({figures})", [one for one in own if one.world in worlds]))
    return kinds


def _told(costs: SearchCosts, kind: _Kind) -> str:
    shown = [one for one in kind.found if one.level == _FIGURES_AT]
    figures = [_figures(costs, shown)] if shown else []
    return " ".join([f"{kind.opening} {_methods(kind.found)}.", *figures, _worth(kind.found)])


def _methods(found: Sequence[Pick]) -> str:
    """What is advised on which world at each budget; budgets with the same advice together."""
    levels: dict[str, list[str]] = {}
    for level in LEVELS:
        levels.setdefault(_by_world([one for one in found if one.level == level]), []).append(level)
    opening = "no one method leads everywhere: take" if any(" on " in said for said in levels) else "take"
    if len(levels) == 1:
        return f"{opening} {next(iter(levels))}, whatever the budget"
    words = ["budget", *["one"] * len(levels)]
    takes = [
        f"at a {_listed(same, 'or')} {word} {said}" for (said, same), word in zip(levels.items(), words, strict=False)
    ]
    return f"{opening} {'; '.join(takes)}"


def _by_world(found: Sequence[Pick]) -> str:
    """The methods that are advised, each with its worlds; without, where one is advised on all that are summed up."""
    worlds: dict[str, list[str]] = {}
    for one in found:
        worlds.setdefault(f"`{one.point.method}`", []).append(one.world)
    if len(worlds) == 1:
        return next(iter(worlds))
    return _listed([f"{name} on {_listed(own, 'and')}" for name, own in worlds.items()], "and") or "nothing"


def _figures(costs: SearchCosts, found: Sequence[Pick]) -> str:
    singles = [costs.worlds[f"{one.world}/{one.judge}"] for one in found]
    right = _range([100 * one.point.accuracy.value for one in found])
    alone = _range([100 * single.single for single in singles])
    times = _range([one.point.tokens / single.tokens for one, single in zip(found, singles, strict=True)])
    return f"The choices are right on {right}% (one sample: {alone}%) for {times} times its tokens."


def _worth(found: Sequence[Pick]) -> str:
    """Where the best with the judge is clearly better than the best without, and at which budgets if not at all of them."""
    worlds: dict[str, list[str]] = {one.world: [] for one in found}
    for one in found:
        worlds[one.world] += [one.level] if one.judge_pays else []
    every = {world: sum(one.world == world for one in found) for world in worlds}
    yes = [world + ("" if len(at) == every[world] else f" ({', '.join(at)})") for world, at in worlds.items() if at]
    no = [world for world, at in worlds.items() if not at]
    if not yes:
        return "The judge clearly helps nowhere: leave it out."
    return f"The judge clearly helps on {_listed(yes, 'and')}" + (f", not on {_listed(no, 'or')}." if no else ".")


def _range(numbers: Sequence[float], decimals: int = 0) -> str:
    """`41–76`, or one number where both ends read the same."""
    if not numbers:
        return "unknown"
    low, high = (f"{end:.{decimals}f}" for end in (min(numbers), max(numbers)))
    return low if low == high else f"{low}–{high}"


def _listed(names: Sequence[str], last: str) -> str:
    """`a, b or c`."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
