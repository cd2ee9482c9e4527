"""Label costs for people: charts of each world, tables, the page of a run, and the blocks of the documentation's page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from footfall.bench._frontier import mark, markdown, shown
from footfall.bench._labels_advice import LEVELS, advice, dial_text
from footfall.bench._labels_methods import known_methods
from footfall.bench._labels_points import LabelCosts, Point
from footfall.bench.page import footer, header
from footfall.bench.plots import Series, line_chart
from footfall.bench.report import Section, figure, page, paragraph, table
from footfall.bench.svg import Markup

__all__ = ["BLOCKS", "HEAD", "chart", "charts", "costs_page", "rows"]

HEAD = [
    "method", "dial", "tokens a trace", "first errors, %", "with a verdict, %", "right of those, %", "steps right, %",
    "labelled, %", "Brier", "ECE", "value MAE", "first errors / 1k tokens",
]  # fmt: skip
"""The columns of a table of points."""
_CHART = (820, 560)


def charts(costs: LabelCosts) -> dict[str, Markup]:
    """Two charts a world by file name, beside `label_costs.json`: what is measured, and what is assumed."""
    return {_file(w, assumed): chart(costs, w, assumed) for w in costs.worlds for assumed in _drawn(costs, w)}


def _file(world: str, assumed: bool) -> str:
    return f"label_costs-{world}-critics.svg" if assumed else f"label_costs-{world}.svg"


def _drawn(costs: LabelCosts, world: str) -> tuple[bool, ...]:
    """The second chart only if there is a stand-in to show."""
    return (False, True) if any(p.kind == "stand-in" for p in costs.of(world)) else (False,)


def chart(costs: LabelCosts, world: str, assumed: bool = False) -> Markup:
    """First-error accuracy against tokens a trace, one line a method; what is free is a level, dashed.

    `assumed`: the methods with a critic or tool of assumed quality, beside the best that is measured.
    """
    shown = [p for p in costs.of(world) if p.kind in ("measured", "stand-in")]
    kind = "stand-in" if assumed else "measured"
    paid = [p.tokens for p in shown if p.tokens > 0]
    if not paid:
        raise ValueError(f"no method on {world} generated a token, so there is no cost to draw")
    names = list(dict.fromkeys(p.method for p in costs.points if p.kind == kind))
    lines = [(slot, name, [p for p in shown if p.method == name]) for slot, name in enumerate(names)]
    series = [_line(slot, name, own, paid) for slot, name, own in lines if own]
    if assumed:
        best = sorted((p for p in shown if p.kind == "measured" and p.frontier and p.tokens), key=lambda p: p.tokens)
        series.append(
            Series("best measured", [mark(p.accuracy, p.tokens) for p in best], emphasis=True, slot=len(names))
        )
    what = "with a critic or tool of assumed quality" if assumed else "measured"
    width, height = _CHART
    return line_chart(
        [line for line in series if line.points],
        label=f"First-error accuracy on {world} against generated tokens a trace, one line a method, {what}",
        title=f"{world}: what labels cost and are worth", subtitle=f"{what}; 95% bands over seeds; dashed: free",
        x_label="generated tokens a trace", y_label="first errors named exactly", x_scale="log2",
        width=width, height=height,
    )  # fmt: skip


def _line(slot: int, name: str, own: Sequence[Point], paid: Sequence[float]) -> Series:
    points = sorted(own, key=lambda p: p.tokens)
    if any(p.tokens for p in points):
        return Series(name, [mark(p.accuracy, p.tokens) for p in points], slot=slot)
    return Series(name, [mark(points[0].accuracy, x) for x in (min(paid), max(paid))], dashed=True, slot=slot)


def rows(points: Sequence[Point]) -> list[list[str]]:
    """One row a point, in the columns of `HEAD`."""
    return [_row(point) for point in points]


def _row(point: Point) -> list[str]:
    figures = point.figures
    shares = ("first_error", "said", "first_error_said", "step_accuracy", "coverage")
    return [
        point.method + (" *" if point.frontier else ""),
        dial_text(point),
        f"{point.tokens:,.0f}",
        *(shown(figures.get(name), 100, 1, interval=name == "first_error") for name in shares),
        *(shown(figures.get(name), 1, 3) for name in ("brier", "ece", "value_mae")),
        shown(point.per_1000.get("first_error"), 1, 2),
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
        drawn = [figure(chart(costs, world, assumed), caption) for assumed in _drawn(costs, world)]
        told = table(HEAD, rows(costs.of(world)), caption="* on the cost/quality frontier", text_columns=2)
        sections.append(Section(world, [*drawn, told]))
    return page("Label costs", top, *(section.markup() for section in sections), footer())


def _frontier(costs: LabelCosts) -> str:
    """The points on the frontier of each world; with a critic in italics."""
    body = []
    for world in costs.worlds:
        for point in sorted((p for p in costs.of(world) if p.frontier), key=lambda p: p.tokens):
            name, *cells = _row(point)
            name = name.removesuffix(" *")
            body.append([world, f"*{name}*" if point.kind == "stand-in" else f"`{name}`", *cells])
    return markdown(["world", *HEAD], body, 3)


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
        f"![{world}: first-error accuracy against tokens a trace{', critics' if assumed else ''}]({_file(world, assumed)})\n"
        for world in costs.worlds
        for assumed in _drawn(costs, world)
    )


BLOCKS: dict[str, Callable[[LabelCosts], str]] = {
    "label-costs-advice": lambda costs: advice(costs) + "\n",
    "label-costs-charts": _charts,
    "label-costs-frontier": _frontier,
    "label-costs-own": _own,
    "label-costs-worlds": _worlds,
    "label-costs-methods": _methods,
}
"""What `docs/label_costs.md` shows between its marks, from the figures alone."""
