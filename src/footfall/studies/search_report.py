"""Search costs for people: advice by rule, so that it cannot say what the figures do not; charts, and the words of the page.

A budget is a multiple of what one sample of the world's policy costs. An advised single sample says that search did not pay.
Worlds whose PRM hardly tells steps apart are summed up alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from markupsafe import Markup

from footfall.reports.charts import Point as Mark
from footfall.reports.charts import Series, line_chart
from footfall.reports.pictures import WIDE, Picture
from footfall.studies.frontier import Pick, cheapest_as_good, clearly_better
from footfall.studies.report import Extra, Study, dial_text, headed, how_sure, markdown, percent, shown, worlds_table
from footfall.studies.search import PRM, SINGLE, Plan, Point, SearchCosts, SearchSite, search_rows, together
from footfall.studies.search_judges import AGGREGATIONS, NOISE

LEVELS = {"low": 8, "middle": 32, "high": 128}
"""Budgets in samples."""
GOOD_AUC = 0.7
"""Of steps, mean over seeds: below that a PRM is near chance, and what is found with it says nothing of good PRMs."""
_FIGURES_AT = "middle"
"""The budget whose figures the paragraph has; the others are in the table."""
HEAD = ["method", "dial", "tokens a problem", "written", "read by the judge", "right, %", "answered, %"]
"""The columns of a table of points."""
PICK_HEAD = ["world", "judge", "budget", "advised", "most accurate", "judge helps"]
"""The columns of the table of advice."""
PRM_HEAD = ["world", "training traces", "AUC of steps", "AUC of solutions", "tells steps apart"]
"""The columns of the table of PRMs."""
_AUCS = ("step_auc", "solution_auc")
_HEIGHT = 620


class _Kind(NamedTuple):
    """Settings that are summed up together."""

    opening: str
    found: list[Pick]


def judge_pays(costs: SearchCosts, one: Pick) -> bool:
    """Whether the best within the budget is clearly better than the best that asks no judge."""
    alone = [point for point in costs.of(*one.setting) if not point.judged]
    without = cheapest_as_good(alone, one.limit)
    return without is None or clearly_better(one.best, without.best)


def _judge_of(one: Pick) -> str:
    return one.setting[1]


def advice(costs: SearchCosts) -> str:
    """One paragraph: about three sentences for each quality of judge."""
    names, times = _listed(list(LEVELS), "or"), _listed([str(times) for times in LEVELS.values()], "or")
    intro = (
        f"A budget is {names} at {times} times one sample's tokens. Named are the choices of the table below; "
        f"figures span the worlds at the {_FIGURES_AT} budget."
    )
    return " ".join([intro, *(_summed_up(costs, kind) for kind in _kinds(costs) if kind.found)])


def _kinds(costs: SearchCosts) -> list[_Kind]:
    """One a judge; two for trained PRMs: worlds where they tell steps apart, and worlds where they hardly do."""
    found = costs.picks(LEVELS)
    kinds = []
    for judge in dict.fromkeys(judge for _, judge in costs.settings()):
        own = [one for one in found if _judge_of(one) == judge]
        if judge != PRM:
            kinds.append(_Kind(f"With the {judge} judge", own))
            continue
        for good, what in ((True, "that tells steps apart"), (False, "that hardly tells steps apart")):
            worlds = [w for w in dict.fromkeys(one.world for one in own) if costs.tells_apart(w, GOOD_AUC) == good]
            aucs = [auc for w in worlds if (auc := costs.step_auc(w)) is not None]
            figures = f"AUC {_range(aucs, 2)}: {_listed(worlds, 'and')}"
            kinds.append(_Kind(f"With a PRM {what} ({figures})", [one for one in own if one.world in worlds]))
    return kinds


def _summed_up(costs: SearchCosts, kind: _Kind) -> str:
    shown = [one for one in kind.found if one.level == _FIGURES_AT]
    figures = [_figures(costs, shown)] if shown else []
    return " ".join([f"{kind.opening} {_takes(kind.found)}.", *figures, _worth(costs, kind.found)])


def _takes(found: Sequence[Pick]) -> str:
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
    singles = [costs.worlds["/".join(one.setting)] for one in found]
    right = _range([100 * one.point.accuracy.value for one in found])
    alone = _range([100 * single.single for single in singles])
    times = _range([one.point.tokens / single.tokens for one, single in zip(found, singles, strict=True)])
    return f"The choices are right on {right}% (one sample: {alone}%) for {times} times its tokens."


def _worth(costs: SearchCosts, found: Sequence[Pick]) -> str:
    """Where the best with the judge is clearly better than the best without, and at which budgets if not at all of them."""
    worlds: dict[str, list[str]] = {one.world: [] for one in found}
    for one in found:
        worlds[one.world] += [one.level] if judge_pays(costs, one) else []
    every = {world: sum(one.world == world for one in found) for world in worlds}
    yes = [world + ("" if len(at) == every[world] else f" ({', '.join(at)})") for world, at in worlds.items() if at]
    no = [world for world, at in worlds.items() if not at]
    if not yes:
        asking = list(dict.fromkeys(f"`{one.point.method}`" for one in found if one.point.judged))
        ask = "asks" if len(asking) == 1 else "ask"
        leave = f", though {_listed(asking, 'and')} among the choices {ask} it" if asking else ": leave it out"
        return f"The judge clearly helps nowhere{leave}."
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


def chart(costs: SearchCosts, world: str, judge: str, width: float = WIDE, titled: bool = True) -> Markup:
    """Accuracy against tokens a problem, one line a method; dashed if it uses no judge. Bands would hide the lines."""
    points = costs.of(world, judge)
    names = list(dict.fromkeys(point.method for point in costs.points))
    series = []
    for slot, name in enumerate(names):
        own = sorted((point for point in points if point.method == name), key=lambda point: point.tokens)
        if own:
            marks = [Mark(point.tokens, point.accuracy.value) for point in own]
            series.append(Series(name, marks, dashed=not own[0].judged, slot=slot))
    title = f"{world}, {judge} judge: what search costs and is worth"
    subtitle = "dashed: without a judge; intervals are in the tables"
    title, subtitle = headed(title, subtitle, width, titled)
    return line_chart(
        series, label=f"Accuracy on {world} with the {judge} judge against tokens a problem, one line a method",
        x_label="tokens a problem, written and judged", y_label="problems answered right", x_scale="log2",
        width=width, height=_HEIGHT, title=title, subtitle=subtitle,
    )  # fmt: skip


def _pictures(costs: SearchCosts, setting: tuple[str, ...]) -> list[Picture]:
    world, judge = setting
    shows = f"{_titled(world, judge)}: accuracy against tokens a problem"
    return [Picture(f"search_costs-{world}-{judge}", shows, partial(chart, costs, world, judge))]


def _titled(world: str, judge: str) -> str:
    return f"{world}, {judge} judge"


def _row(point: Point, full: bool = False) -> list[str]:
    return [
        point.method + (" *" if point.frontier else ""),
        dial_text(point),
        *(f"{tokens:,.0f}" for tokens in (point.tokens, point.policy_tokens, point.judge_tokens)),
        shown(point.accuracy, 100, 1, interval=True),
        f"{100 * point.answered:.1f}",
    ]


def _facts(costs: SearchCosts) -> dict[str, str]:
    plan = costs.plan
    return {
        "worlds": ", ".join(plan.worlds),
        "judges": ", ".join(plan.judges),
        "problems": f"{plan.problems} a world and seed",
        "seeds": f"{plan.seeds} from {plan.first_seed} on",
        "judge reads": "every trace anew" if plan.reread else "every step once",
        "intervals": "95%, Wilson's over the problems of all seeds; with the PRM, one for each seed, over seeds too",
        "not measured": ", ".join(costs.unmeasured),
    }


def _extras(costs: SearchCosts) -> list[Extra]:
    """What is advised, and how good the PRMs are."""
    picked = Extra(PICK_HEAD, pick_rows(costs), certainty(costs), len(PICK_HEAD))
    if not costs.prms:
        return [picked]
    prms = Extra(
        PRM_HEAD, prm_rows(costs), "mean over seeds (lowest to highest), on held-out traces", 1,
        title="How good the trained PRMs are", opening="how good the trained PRMs are on held-out traces, mean over seeds",
    )  # fmt: skip
    return [prms, picked]


def pick_rows(costs: SearchCosts) -> list[list[str]]:
    """What is advised for each world, judge and budget, in the columns of `PICK_HEAD`; budgets that agree share a row."""
    same: dict[tuple[str, ...], list[str]] = {}
    for one in costs.picks(LEVELS):
        judge = _judge_of(one) if _judge_of(one) != PRM else f"{PRM}, AUC {_number(costs.step_auc(one.world))}"
        best = "the same" if one.best is one.point else _place(one.best)
        helps = "clearly" if judge_pays(costs, one) else "no"
        same.setdefault((one.world, judge, _place(one.point), best, helps), []).append(one.level)
    return [[world, judge, ", ".join(levels), *rest] for (world, judge, *rest), levels in same.items()]


def _place(point: Point) -> str:
    dial = "" if point.method == SINGLE else f", {dial_text(point)}"
    return f"{point.method}{dial}: {percent(point.accuracy)} for {point.tokens:,.0f} tokens"


def certainty(costs: SearchCosts) -> str:
    """How many problems a point has, and how wide its interval is."""
    plan = costs.plan
    return how_sure(
        costs.points, f"{plan.seeds * plan.problems} problems ({plan.problems} of each of {plan.seeds} seeds)"
    )


def _picks(costs: SearchCosts) -> str:
    return f"{markdown(PICK_HEAD, pick_rows(costs), len(PICK_HEAD))}\n{certainty(costs)}\n"


def _methods(costs: SearchCosts) -> str:
    measured = {point.method for point in costs.points}
    body = []
    for row in search_rows().known.values():
        if row.name in measured:
            settings = [", ".join(f"{k}={v}" for k, v in row.at(b).items()) for b in row.budgets]
            body.append([f"`{row.name}`", f"`{row.method}`", settings[-1]])
    body += [[f"`{name}`", "–", f"not measured: {why}"] for name, why in costs.unmeasured.items()]
    return markdown(["method", "searcher", "settings at the dearest place"], body, 3)


def _judges(costs: SearchCosts) -> str:
    about = {
        "exact": "the scripted policy's own chance of success after each step",
        "noisy": f"whether the step is right, wrong about it on {100 * NOISE:.0f}% of the steps",
        "prm": "a PRM of 1.1M parameters, trained for the world on Monte Carlo labels of the policy's traces",
    }
    body = [[judge, about[judge], f"`{AGGREGATIONS[judge]}`"] for judge in costs.plan.judges]
    return markdown(["judge", "what it says", "aggregation"], body, 3)


def prm_rows(costs: SearchCosts) -> list[list[str]]:
    """How good the PRM of each world is: the mean over seeds and its ends, and whether the advice takes it for one that is."""
    return [
        [
            world, f"{seeds[0]['training_traces']}", *(_auc([seed[name] for seed in seeds]) for name in _AUCS),
            "yes" if costs.tells_apart(world, GOOD_AUC) else "hardly",
        ]
        for world, seeds in costs.prms.items()
    ]  # fmt: skip


def _auc(found: Sequence[float | None]) -> str:
    known = [one for one in found if one is not None]
    return f"{fmean(known):.2f} ({min(known):.2f} to {max(known):.2f})" if known else "–"


def _number(found: float | None) -> str:
    return "–" if found is None else f"{found:.2f}"


def _worlds(costs: SearchCosts) -> str:
    head = ["world", "judge", "policy", "one sample right", "tokens of a sample"]
    return worlds_table(
        costs, head, lambda w: [f"`{w.policy}`", f"{100 * w.single:.0f}%", f"{w.tokens:.0f}"], LEVELS, 3
    )


SEARCH = Study(
    name="search",
    docs="search_costs",
    question="Which search method at which budget",
    plan=Plan,
    lists=("worlds", "judges", "methods"),
    numbers=("seeds", "problems", "most", "reread", "prm_traces"),
    site=SearchSite,
    together=together,
    read=SearchCosts.from_dict,
    columns=("world", "judge"),
    titled=_titled,
    frontier="* on the cost/accuracy frontier",
    head=HEAD,
    row=_row,
    kinds=False,
    facts=_facts,
    advice=advice,
    caption="Problems answered right, by tokens a problem. Dashed: without a judge. Intervals are in the table.",
    pictures=_pictures,
    extras=_extras,
    left_out=lambda costs: {f"{name} not measured": why for name, why in costs.unmeasured.items()},
    own_blocks={
        "picks": _picks,
        "worlds": _worlds,
        "judges": _judges,
        "prms": lambda costs: markdown(PRM_HEAD, prm_rows(costs), 1),
        "methods": _methods,
    },
)
"""`footfall bench search`."""
