"""Label costs for people: charts of each world, tables, the page of a run, and the blocks of the documentation's page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from footfall.reports._blocks import Section, figure, page, paragraph, table
from footfall.reports._lines import Series, line_chart
from footfall.reports.bench_page import footer, header
from footfall.reports.svg import Markup
from footfall.studies._labels_advice import LEVELS, advice, dial_text
from footfall.studies._labels_methods import Kind, known_methods
from footfall.studies._labels_points import LabelCosts, Point
from footfall.studies.frontier import equals, folded, mark, markdown, shown, ties

HEAD = [
    "method", "dial", "tokens a trace", "first errors, %", "with a verdict, %", "right of those, %", "steps right, %",
    "later steps right, %", "labelled, %", "Brier", "ECE", "value MAE", "first errors / 1k tokens",
]  # fmt: skip
"""The columns of a table of points."""
_INTERVALS = ("first_error", "step_accuracy", "brier", "ece", "per_1000")
"""Figures with their intervals where there is room."""
_CHART = (820, 560)
_VIEWS: dict[Kind, tuple[str, str]] = {
    "measured": ("", "measured"),
    "stand-in": ("-critics", "with a critic or tool of assumed quality"),
    "own traces": ("-own", "on traces that the method writes itself"),
}
"""The charts of a world: what the name of the file ends in, and what is drawn. What is free is in the first."""


def charts(costs: LabelCosts) -> dict[str, Markup]:
    """Up to three charts a world by file name, beside `label_costs.json`: measured, assumed, and on traces of its own."""
    return {_file(w, view): chart(costs, w, view) for w in costs.worlds for view in _drawn(costs, w)}


def _file(world: str, view: Kind) -> str:
    return f"label_costs-{world}{_VIEWS[view][0]}.svg"


def _drawn(costs: LabelCosts, world: str) -> list[Kind]:
    """The charts that have something to show."""
    return [view for view in _VIEWS if any(_in(p, view) for p in costs.of(world))]


def _in(point: Point, view: Kind) -> bool:
    return point.kind == view or (view == "measured" and point.kind == "reference")


def chart(costs: LabelCosts, world: str, view: Kind | None = None) -> Markup:
    """First-error accuracy against tokens a trace, one line a method; what is free is a level, dashed.

    `view`: the kind of method to draw, by default the first that there is; others than the measured stand beside the best
    that is measured.
    """
    there = _drawn(costs, world)
    view = view or (there[0] if there else "measured")
    points = costs.of(world)
    names = list(dict.fromkeys(p.method for p in costs.points if _in(p, view)))
    lines = [(slot, name, [p for p in points if p.method == name]) for slot, name in enumerate(names)]
    ends = _ends(costs, world)
    series = [_line(slot, name, own, ends) for slot, name, own in lines if own]
    best = sorted((p for p in points if p.kind == "measured" and p.frontier and p.tokens), key=lambda p: p.tokens)
    if view != "measured" and best:
        marks = [mark(p.accuracy, p.tokens) for p in best]
        series.append(Series("best measured", marks, emphasis=True, slot=len(names)))
    what = _VIEWS[view][1]
    free = "; dashed: free" if any(line.dashed for line in series) else ""
    width, height = _CHART
    return line_chart(
        series, label=f"First-error accuracy on {world} against generated tokens a trace, one line a method, {what}",
        title=f"{world}: what labels cost and are worth", subtitle=f"{what}; 95% bands over seeds{free}",
        x_label="generated tokens a trace", y_label="first errors named exactly", x_scale="log2",
        width=width, height=height,
    )  # fmt: skip


def _ends(costs: LabelCosts, world: str) -> tuple[float, float]:
    """Where the level of what is free begins and ends: as the others do, or at the budgets if all is free."""
    paid = [p.tokens for p in costs.of(world) if p.tokens > 0] or [
        times * costs.worlds[world].tokens for times in LEVELS.values()
    ]
    return min(paid), max(paid)


def _line(slot: int, name: str, own: Sequence[Point], ends: tuple[float, float]) -> Series:
    paid = [mark(p.accuracy, p.tokens) for p in own if p.tokens > 0]
    if paid:
        return Series(name, paid, slot=slot)
    return Series(name, [mark(own[0].accuracy, x) for x in ends], dashed=True, slot=slot)


def rows(points: Sequence[Point], intervals: Sequence[str] = ("first_error",)) -> list[list[str]]:
    """One row a point, in the columns of `HEAD`; these figures have their intervals with them."""
    return [_row(point, intervals) for point in points]


def _row(point: Point, intervals: Sequence[str] = ("first_error",)) -> list[str]:
    figures = point.figures
    shares = ("first_error", "said", "first_error_said", "step_accuracy", "later_accuracy", "coverage")
    return [
        point.method + (" *" if point.frontier else ""),
        dial_text(point),
        f"{point.tokens:,.0f}",
        *(shown(figures.get(name), 100, 1, interval=name in intervals) for name in shares),
        *(shown(figures.get(name), 1, 3, interval=name in intervals) for name in ("brier", "ece", "value_mae")),
        shown(point.per_1000.get("first_error"), 1, 2, interval="per_1000" in intervals),
    ]


def costs_page(costs: LabelCosts) -> str:
    """The run's page: advice, then chart and table of each world."""
    plan = costs.plan
    facts = {
        "worlds": ", ".join(costs.worlds),
        "traces": f"{plan.traces} a world and seed",
        "seeds": f"{plan.seeds} from {plan.first_seed} on",
        "critic": f"{plan.price} tokens a step and vote",
        "intervals": "95%, Student's t over seeds",
        "does not apply": "; ".join(f"{name}: {why}" for name, why in _nowhere(costs).items()),
        "not measured": ", ".join(costs.unmeasured),
    }
    top = header("Footfall bench: labels", "Which labelling method at which budget", facts)
    sections = [Section("Advice", [paragraph(advice(costs).replace("`", ""))])]
    for world in costs.worlds:
        caption = "First errors named exactly, by generated tokens a trace."
        drawn = [figure(chart(costs, world, view), caption) for view in _drawn(costs, world)]
        told = table(HEAD, rows(costs.of(world), _INTERVALS), caption="* on the cost/quality frontier", text_columns=2)
        sections.append(Section(world, [*drawn, told]))
    return page("Label costs", top, *(section.markup() for section in sections), footer())


def _frontier(costs: LabelCosts) -> str:
    """The points on the frontier of each world; with a critic in italics. Exact ties share a row."""
    body = []
    for world in costs.worlds:
        there = sorted((p for p in costs.of(world) if p.frontier), key=lambda p: p.tokens)
        tied = [same for kind in _VIEWS for same in ties([p for p in there if p.kind == kind])]
        for first, *others in sorted(tied, key=lambda same: same[0].tokens):
            body.append([world, _name(first) + equals(first, others, _quote(first)), *_row(first)[1:]])
    return markdown(["world", *HEAD], body, 3)


def _quote(point: Point) -> str:
    return "*" if point.kind == "stand-in" else "`"


def _name(point: Point) -> str:
    return f"{_quote(point)}{point.method}{_quote(point)}"


def _all(costs: LabelCosts) -> str:
    """Every point of each world, folded."""
    head = [*HEAD[:1], "kind", *HEAD[1:]]
    told = []
    for world in costs.worlds:
        points = costs.of(world)
        body = [[_name(p) + (" \\*" if p.frontier else ""), p.kind, *_row(p, _INTERVALS)[1:]] for p in points]
        methods = len({p.method for p in points})
        told.append(folded(f"{world}: {methods} methods, {len(points)} points", markdown(head, body, 3)))
    return "\n".join(told)


def _own(costs: LabelCosts) -> str:
    """Methods that write their own traces."""
    own = [p for p in costs.points if p.kind == "own traces"]
    return markdown(["world", *HEAD], [[p.world, f"`{p.method}`", *_row(p)[1:]] for p in own], 3)


def _worlds(costs: LabelCosts) -> str:
    levels = [f"{level}: {times}×" for level, times in LEVELS.items()]
    body = []
    for name, w in costs.worlds.items():
        budgets = [f"{times * w.tokens:,.0f}" for times in LEVELS.values()]
        body.append([name, f"{w.steps:.1f}", f"{w.tokens:.0f}", f"{100 * w.errors:.0f}%", *budgets])
    return markdown(["world", "steps a trace", "tokens a trace", "traces with an error", *levels], body, 1)


def _nowhere(costs: LabelCosts) -> dict[str, str]:
    """Methods that were measured on no world, with the reason."""
    measured = {point.method for point in costs.points}
    return {name: next(iter(why.values())) for name, why in costs.lacking.items() if name not in measured}


def _methods(costs: LabelCosts) -> str:
    known = known_methods()
    worlds: dict[str, dict[str, None]] = {}
    for point in costs.points:
        worlds.setdefault(point.method, {})[point.world] = None
    body = []
    for method, where in ((known[name], where) for name, where in worlds.items() if name in known):
        budgets = "–" if method.dial == "free" else f"{method.dial} {', '.join(f'{b:g}' for b in method.budgets)}"
        on = "all" if len(where) == len(costs.worlds) else ", ".join(where)
        body.append([f"`{method.name}`", budgets, f"{method.threshold:g}", on, method.kind])
    absent = [[f"`{name}`", "–", "–", "–", f"does not apply: {why}"] for name, why in _nowhere(costs).items()]
    absent += [[f"`{name}`", "–", "–", "–", f"not measured: {why}"] for name, why in costs.unmeasured.items()]
    return markdown(["method", "dial", "wrong below", "worlds", "kind"], body + absent, 5)


def _charts(costs: LabelCosts) -> str:
    return "\n".join(
        f"![{world}: first-error accuracy against tokens a trace, {_VIEWS[view][1]}]({_file(world, view)})\n"
        for world in costs.worlds
        for view in _drawn(costs, world)
    )


BLOCKS: dict[str, Callable[[LabelCosts], str]] = {
    "label-costs-advice": lambda costs: advice(costs) + "\n",
    "label-costs-charts": _charts,
    "label-costs-frontier": _frontier,
    "label-costs-all": _all,
    "label-costs-own": _own,
    "label-costs-worlds": _worlds,
    "label-costs-methods": _methods,
}
"""What `docs/label_costs.md` shows between its marks, from the figures alone."""
