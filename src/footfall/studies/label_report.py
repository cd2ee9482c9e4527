"""Label costs for people: advice by rule, so that it cannot say what the figures do not; charts, and the words of the page.

A budget is a multiple of what the trace itself cost to write. A checker that proves or runs steps comes first, at the budgets
where no measured point is clearly better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from footfall.registry import Kind
from footfall.reports.charts import Series, line_chart
from footfall.reports.pictures import WIDE, Picture
from footfall.studies.frontier import Pick, clearly_better
from footfall.studies.label_setting import label_rows
from footfall.studies.labels import LabelCosts, LabelSite, Plan, Point, together
from footfall.studies.report import Study, dial_text, headed, how_sure, mark, markdown, percent, shown, worlds_table

LEVELS = {"low": 4, "middle": 16, "high": 64}
"""Budgets in lengths of a trace."""
_ORACLE = "truth-"
"""References that know the truth instead of finding it."""
HEAD = [
    "method", "dial", "tokens a trace", "first errors, %", "with a verdict, %", "right of those, %", "steps right, %",
    "later steps right, %", "labelled, %", "Brier", "ECE", "value MAE", "first errors / 1k tokens",
]  # fmt: skip
"""The columns of a table of points."""
_INTERVALS = ("first_error", "step_accuracy", "brier", "ece", "per_1000")
"""Figures with their intervals where there is room."""
_HEIGHT = 560
_VIEWS: dict[Kind, tuple[str, str]] = {
    "measured": ("", "measured"),
    "stand-in": ("-critics", "with a critic or tool of assumed quality"),
    "own traces": ("-own", "on traces that the method writes itself"),
}
"""The charts of a world: what the name of the file ends in, and what is drawn. What is free is in the first."""


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


def _named(point: Point) -> str:
    return f"`{point.method}`" if point.dial == "free" else f"`{point.method}` with {dial_text(point)}"


def advice(costs: LabelCosts) -> str:
    """One paragraph."""
    found = costs.picks(LEVELS)
    said = [*_checked(costs, found), _overall(found)]
    for name, world in costs.worlds.items():
        here = [one for one in found if one.world == name]
        if here:
            said.append(f"On {name} (a trace has {world.tokens:.0f} tokens): " + "; ".join(map(_choice, here)) + ".")
    plan = costs.plan
    given = [p for p in costs.points if p.kind in ("measured", "stand-in")]
    each = f"{plan.seeds * plan.traces} traces ({plan.traces} of each of {plan.seeds} seeds)"
    return " ".join([*said, *_critics(costs, found), *([how_sure(given, each)] if given else [])])


def _picks(costs: LabelCosts) -> str:
    """The advice as a table: what to use on each world at each budget."""
    found = costs.picks(LEVELS)
    free = checkers(costs, found)
    rows = []
    for one in found:
        checker = "–"
        if one.world in free and one.level in free[one.world][1]:
            checker = f"`{free[one.world][0].method}`, {percent(free[one.world][0].accuracy)}"
        best = "the same" if one.best is one.point else f"{_named(one.best)}, {percent(one.best.accuracy)}"
        budget = f"{one.level}, {LEVELS[one.level]}×"
        figures = [percent(one.point.accuracy), f"{one.point.tokens:,.0f}"]
        rows.append([one.world, budget, checker, _named(one.point), best, *figures])
    head = ["world", "budget", "checker, free", "advised without", "most accurate", "first errors", "tokens a trace"]
    return markdown(head, rows, 5)


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


def _pictures(costs: LabelCosts, setting: tuple[str, ...]) -> list[Picture]:
    """Up to three charts a world: measured, assumed, and on traces of its own."""
    (world,) = setting
    return [
        Picture(
            f"label_costs-{world}{end}",
            f"{world}: first-error accuracy against tokens a trace, {what}",
            partial(chart, costs, world, view),
        )
        for view, (end, what) in ((view, _VIEWS[view]) for view in _drawn(costs, world))
    ]


def _drawn(costs: LabelCosts, world: str) -> list[Kind]:
    """The charts that have something to show."""
    return [view for view in _VIEWS if any(_in(p, view) for p in costs.of(world))]


def _in(point: Point, view: Kind) -> bool:
    return point.kind == view or (view == "measured" and point.kind == "reference")


def chart(costs: LabelCosts, world: str, view: Kind | None = None, width: float = WIDE, titled: bool = True) -> Markup:
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
    title, subtitle = f"{world}: what labels cost and are worth", f"{what}; 95% bands over seeds{free}"
    title, subtitle = headed(title, subtitle, width, titled)
    return line_chart(
        series, label=f"First-error accuracy on {world} against generated tokens a trace, one line a method, {what}",
        x_label="generated tokens a trace", y_label="first errors named exactly", x_scale="log2",
        width=width, height=_HEIGHT, title=title, subtitle=subtitle,
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


def _row(point: Point, full: bool = False) -> list[str]:
    figures, intervals = point.figures, _INTERVALS if full else _INTERVALS[:1]
    shares = ("first_error", "said", "first_error_said", "step_accuracy", "later_accuracy", "coverage")
    return [
        point.method + (" *" if point.frontier else ""),
        dial_text(point),
        f"{point.tokens:,.0f}",
        *(shown(figures.get(name), 100, 1, interval=name in intervals) for name in shares),
        *(shown(figures.get(name), 1, 3, interval=name in intervals) for name in ("brier", "ece", "value_mae")),
        shown(point.per_1000.get("first_error"), 1, 2, interval="per_1000" in intervals),
    ]


def _facts(costs: LabelCosts) -> dict[str, str]:
    plan = costs.plan
    return {
        "worlds": ", ".join(costs.worlds),
        "traces": f"{plan.traces} a world and seed",
        "seeds": f"{plan.seeds} from {plan.first_seed} on",
        "critic": f"{plan.price} tokens a step and vote",
        "intervals": "95%, Student's t over seeds",
        "does not apply": "; ".join(f"{name}: {why}" for name, why in _nowhere(costs).items()),
        "not measured": ", ".join(costs.unmeasured),
    }


def _nowhere(costs: LabelCosts) -> dict[str, str]:
    """Methods that were measured on no world, with the reason."""
    measured = {point.method for point in costs.points}
    return {name: next(iter(why.values())) for name, why in costs.lacking.items() if name not in measured}


def _methods(costs: LabelCosts) -> str:
    known = label_rows().known
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


def _own(costs: LabelCosts) -> str:
    """Methods that write their own traces."""
    own = [p for p in costs.points if p.kind == "own traces"]
    return markdown(["world", *HEAD], [[p.world, f"`{p.method}`", *_row(p)[1:]] for p in own], 3)


def _worlds(costs: LabelCosts) -> str:
    head = ["world", "steps a trace", "tokens a trace", "traces with an error"]
    return worlds_table(
        costs, head, lambda w: [f"{w.steps:.1f}", f"{w.tokens:.0f}", f"{100 * w.errors:.0f}%"], LEVELS, 1
    )


def _left_out(costs: LabelCosts) -> dict[str, str]:
    return {
        **{f"{name} does not apply": next(iter(why.values())) for name, why in costs.lacking.items()},
        **{f"{name} not measured": why for name, why in costs.unmeasured.items()},
    }


LABELS = Study(
    name="labels",
    docs="label_costs",
    question="Which labelling method at which budget",
    plan=Plan,
    lists=("worlds", "methods"),
    numbers=("seeds", "traces", "price", "recover"),
    site=LabelSite,
    together=together,
    read=LabelCosts.from_dict,
    columns=("world",),
    titled=str,
    frontier="* on the cost/quality frontier",
    head=HEAD,
    row=_row,
    kinds=True,
    facts=_facts,
    advice=advice,
    caption="First errors named exactly, by generated tokens a trace. Bands: 95% intervals over seeds. Dashed: free.",
    pictures=_pictures,
    extras=lambda costs: [],
    left_out=_left_out,
    own_blocks={"picks": _picks, "own": _own, "worlds": _worlds, "methods": _methods},
)
"""`footfall bench labels`."""
