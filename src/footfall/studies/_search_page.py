"""Search costs for people: one chart for each world and judge, tables, the page of a run, and the blocks of the docs' page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from footfall.reports._blocks import Section, figure, page, paragraph, table
from footfall.reports._lines import Point as Mark
from footfall.reports._lines import Series, line_chart
from footfall.reports.bench_page import footer, header
from footfall.reports.svg import Markup
from footfall.studies._search_advice import GOOD_AUC, LEVELS, advice, picks
from footfall.studies._search_judges import AGGREGATIONS, NOISE
from footfall.studies._search_methods import METHODS, SINGLE
from footfall.studies._search_points import PRM, Point, SearchCosts
from footfall.studies.frontier import dial_text, equals, folded, how_sure, markdown, percent, shown, ties

HEAD = ["method", "dial", "tokens a problem", "written", "read by the judge", "right, %", "answered, %"]
"""The columns of a table of points."""
PICK_HEAD = ["world", "judge", "budget", "advised", "most accurate", "judge helps"]
"""The columns of the table of advice."""
PRM_HEAD = ["world", "training traces", "AUC of steps", "AUC of solutions", "tells steps apart"]
"""The columns of the table of PRMs."""
_AUCS = ("step_auc", "solution_auc")
_CHART = (820, 620)


def chart_file(world: str, judge: str) -> str:
    """The name of a chart beside `search_costs.json`."""
    return f"search_costs-{world}-{judge}.svg"


def chart(costs: SearchCosts, world: str, judge: str) -> Markup:
    """Accuracy against tokens a problem, one line a method; dashed if it uses no judge. Bands would hide the lines."""
    points = costs.of(world, judge)
    names = list(dict.fromkeys(point.method for point in costs.points))
    series = []
    for slot, name in enumerate(names):
        own = sorted((point for point in points if point.method == name), key=lambda point: point.tokens)
        if own:
            marks = [Mark(point.tokens, point.accuracy.value) for point in own]
            series.append(Series(name, marks, dashed=not own[0].judged, slot=slot))
    width, height = _CHART
    return line_chart(
        series, label=f"Accuracy on {world} with the {judge} judge against tokens a problem, one line a method",
        title=f"{world}, {judge} judge: what search costs and is worth",
        subtitle="dashed: without a judge; intervals are in the tables", x_label="tokens a problem, written and judged",
        y_label="problems answered right", x_scale="log2", width=width, height=height,
    )  # fmt: skip


def rows(points: Sequence[Point]) -> list[list[str]]:
    """One row a point, in the columns of `HEAD`."""
    return [_row(point) for point in points]


def _row(point: Point) -> list[str]:
    return [
        point.method + (" *" if point.frontier else ""),
        dial_text(point.dial, point.budget),
        *(f"{tokens:,.0f}" for tokens in (point.tokens, point.policy_tokens, point.judge_tokens)),
        shown(point.accuracy, 100, 1, interval=True),
        f"{100 * point.answered:.1f}",
    ]


def costs_page(costs: SearchCosts) -> str:
    """The run's page: advice, then chart and table of each world and judge."""
    plan = costs.plan
    facts = {
        "worlds": ", ".join(plan.worlds),
        "judges": ", ".join(plan.judges),
        "problems": f"{plan.problems} a world and seed",
        "seeds": f"{plan.seeds} from {plan.first_seed} on",
        "judge reads": "every trace anew" if plan.reread else "every step once",
        "intervals": "95%, Wilson's over the problems of all seeds; with the PRM, one for each seed, over seeds too",
        "not measured": ", ".join(costs.unmeasured),
    }
    top = header("Footfall bench: search", "Which search method at which budget", facts)
    told = table(PICK_HEAD, pick_rows(costs), caption=certainty(costs), text_columns=len(PICK_HEAD))
    sections = [Section("Advice", [paragraph(advice(costs).replace("`", "")), told])]
    if costs.prms:
        told = table(PRM_HEAD, prm_rows(costs), caption="mean over seeds (lowest to highest), on held-out traces")
        sections.append(Section("How good the trained PRMs are", [told]))
    for world, judge in costs.settings():
        drawn = figure(chart(costs, world, judge), "Problems answered right, by tokens a problem.")
        told = table(HEAD, rows(costs.of(world, judge)), caption="* on the cost/accuracy frontier", text_columns=2)
        sections.append(Section(f"{world}, {judge} judge", [drawn, told]))
    return page("Search costs", top, *(section.markup() for section in sections), footer())


def pick_rows(costs: SearchCosts) -> list[list[str]]:
    """What is advised for each world, judge and budget, in the columns of `PICK_HEAD`; budgets that agree share a row."""
    same: dict[tuple[str, ...], list[str]] = {}
    for one in picks(costs):
        judge = one.judge if one.judge != PRM else f"{PRM}, AUC {_number(costs.step_auc(one.world))}"
        best = "the same" if one.best is one.point else _place(one.best)
        helps = "clearly" if one.judge_pays else "no"
        same.setdefault((one.world, judge, _place(one.point), best, helps), []).append(one.level)
    return [[world, judge, ", ".join(levels), *rest] for (world, judge, *rest), levels in same.items()]


def _place(point: Point) -> str:
    dial = "" if point.method == SINGLE else f", {dial_text(point.dial, point.budget)}"
    return f"{point.method}{dial}: {percent(point.accuracy)} for {point.tokens:,.0f} tokens"


def certainty(costs: SearchCosts) -> str:
    """How many problems a point has, and how wide its interval is."""
    plan = costs.plan
    return how_sure(
        costs.points, f"{plan.seeds * plan.problems} problems ({plan.problems} of each of {plan.seeds} seeds)"
    )


def _picks(costs: SearchCosts) -> str:
    return f"{markdown(PICK_HEAD, pick_rows(costs), len(PICK_HEAD))}\n{certainty(costs)}\n"


def _frontier(costs: SearchCosts) -> str:
    """The points on the frontier of each world and judge. Exact ties share a row."""
    body = []
    for world, judge in costs.settings():
        there = sorted((p for p in costs.of(world, judge) if p.frontier), key=lambda p: p.tokens)
        for first, *others in ties(there):
            body.append([world, judge, f"`{first.method}`" + equals(first, others), *_row(first)[1:]])
    return markdown(["world", "judge", *HEAD], body, 4)


def _all(costs: SearchCosts) -> str:
    """Every point of each world and judge, folded."""
    told = []
    for world, judge in costs.settings():
        points = costs.of(world, judge)
        body = [[f"`{p.method}`" + (" \\*" if p.frontier else ""), *_row(p)[1:]] for p in points]
        methods = len({p.method for p in points})
        summary = f"{world}, {judge} judge: {methods} methods, {len(points)} points"
        told.append(folded(summary, markdown(HEAD, body, 2)))
    return "\n".join(told)


def _worlds(costs: SearchCosts) -> str:
    levels = [f"{level}: {times}×" for level, times in LEVELS.items()]
    body = []
    for name, w in costs.worlds.items():
        budgets = [f"{times * w.tokens:,.0f}" for times in LEVELS.values()]
        body.append([*name.split("/"), f"`{w.policy}`", f"{100 * w.single:.0f}%", f"{w.tokens:.0f}", *budgets])
    return markdown(["world", "judge", "policy", "one sample right", "tokens of a sample", *levels], body, 3)


def _methods(costs: SearchCosts) -> str:
    measured = {point.method for point in costs.points}
    body = []
    for row in METHODS:
        if row.name in measured:
            settings = [", ".join(f"{k}={v}" for k, v in row.settings(b).items()) for b in row.budgets]
            body.append([f"`{row.name}`", f"`{row.part or row.name}`", settings[-1]])
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


def _charts(costs: SearchCosts) -> str:
    return "\n".join(
        f"![{world}, {judge} judge: accuracy against tokens a problem]({chart_file(world, judge)})\n"
        for world, judge in costs.settings()
    )


BLOCKS: dict[str, Callable[[SearchCosts], str]] = {
    "search-costs-advice": lambda costs: advice(costs) + "\n",
    "search-costs-picks": _picks,
    "search-costs-charts": _charts,
    "search-costs-frontier": _frontier,
    "search-costs-all": _all,
    "search-costs-worlds": _worlds,
    "search-costs-judges": _judges,
    "search-costs-prms": lambda costs: markdown(PRM_HEAD, prm_rows(costs), 1),
    "search-costs-methods": _methods,
}
"""What `docs/search_costs.md` shows between its marks, from the figures alone."""
