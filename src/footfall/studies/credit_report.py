"""`footfall bench credit` for people: tables by judge, two charts, and a paragraph of advice that follows from the figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from markupsafe import Markup

from footfall.registry import serving
from footfall.reports.charts import Bar, BarGroup, bar_chart
from footfall.reports.pages import Section, figure, paragraph, report, responsive, table
from footfall.reports.pictures import Picture, files_of
from footfall.store import Run
from footfall.studies.credits import (
    ERROR,
    FIGURES,
    CreditGradients,
    CreditPlan,
    CreditRow,
    CreditSite,
    left_out,
    together,
)
from footfall.studies.report import in_words, markdown, shown
from footfall.studies.study import measure_plan

HEAD = ("credit", "direction", "one batch", "noise", "rollouts", "wasted")
UNBIASED, SOUND, ASTRAY = 0.99, 0.95, 0.7
"""Directions from which on a credit is called unbiased, sound with every judge, or led astray."""
EXACT, HACKABLE = "exact", "hackable"
_DECIMALS = {"direction": 3, "batch": 2, "noise": 2, "rollouts": 0, "wasted": 2}


def cells(row: CreditRow, full: bool = False) -> list[str]:
    """A row of a table; with all intervals, or with that of the direction."""
    told = [shown(row.figures.get(name), 1, _DECIMALS[name], full or name == "direction") for name in FIGURES]
    if "rollouts" not in row.figures:
        told[FIGURES.index("rollouts")] = "never"
    return [row.method + ("" if row.asks else " †"), *told]


def advice(found: CreditGradients) -> str:
    """What to use, by rule: fewest rollouts among what is unbiased, and what stays sound whatever the judge is like."""
    usual = next(row for row in found.rows if row.method == serving("credit"))
    said = [
        f"Without a judge `{usual.method}` needs {_needed([usual])} rollouts for an error of {ERROR:g} of the gradient."
    ]
    for judge in found.plan.judges:
        rows = [row for row in found.of(judge) if row.asks]
        level = UNBIASED if judge == EXACT else SOUND
        best = min(
            (row for row in rows if row.value("direction") >= level),
            key=lambda row: row.value("rollouts"),
            default=None,
        )
        if best is None or best.value("rollouts") >= usual.value("rollouts"):
            said.append(f"With the {judge} judge no credit that listens to it needs fewer and keeps its direction.")
        else:
            said.append(
                f"With the {judge} judge `{best.method}` needs {_needed([best])}, "
                f"and points {best.value('direction'):.2f} along the gradient."
            )
    by_method = {
        name: [row for row in found.rows if row.method == name] for name in dict.fromkeys(r.method for r in found.rows)
    }
    listening = {name: rows for name, rows in by_method.items() if rows[0].asks}
    sound = [name for name, rows in listening.items() if min(row.value("direction") for row in rows) >= SOUND]
    if sound:
        first = min(sound, key=lambda name: max(row.value("rollouts") for row in listening[name]))
        keep = "keep" if len(sound) > 1 else "keeps"
        said.append(
            f"Of {len(listening)} credits that listen to a judge {in_words(sound)} {keep} {SOUND:g} of the direction with "
            f"every judge here; of these `{first}` needs fewest rollouts at worst, {_needed(listening[first])}."
        )
    astray: dict[str, list[str]] = {}
    for name, rows in listening.items():
        low = {row.judge: at for row in rows if math.isfinite(at := row.value("direction")) and at < ASTRAY}
        if low:
            astray.setdefault(HACKABLE if HACKABLE in low else min(low, key=lambda judge: low[judge]), []).append(name)
    said += [_astray(judge, names) for judge, names in astray.items()]
    return " ".join(said)


def _astray(judge: str, names: Sequence[str]) -> str:
    """What not to train by, and on which judge."""
    judged = "a judge that can be hacked" if judge == HACKABLE else f"the {judge} judge"
    where = "with the worst one here" if judge == HACKABLE else "with it"
    keep = "they keep" if len(names) > 1 else "it keeps"
    return (
        f"Do not train by {in_words(names)} on {judged}: {where} {keep} less than {ASTRAY:g} of the direction, and no number "
        "of rollouts mends that."
    )


def _needed(rows: Sequence[CreditRow]) -> str:
    most = max(row.value("rollouts") for row in rows)
    return f"{most:.0f}" if math.isfinite(most) else "endlessly many"


@dataclass(frozen=True)
class CreditStudy:
    """What `footfall bench` asks of a study."""

    name: str = "credit"
    docs: str = "credit_gradients"
    plan: type[CreditPlan] = CreditPlan
    lists: tuple[str, ...] = ("judges",)
    numbers: tuple[str, ...] = ("seeds", "batches", "groups", "size", "depth", "horizon")

    def run(self, plan: CreditPlan, run: Run, workers: int = 1) -> CreditGradients:
        """Measure all units that are not there yet, seeds side by side in `workers`."""
        return together(plan, measure_plan(self.name, plan, CreditSite, run, workers))

    def facts(self, found: CreditGradients) -> dict[str, str]:
        """What the figures depend on."""
        plan = found.plan
        return {
            "policy": f"a table, {plan.depth} right steps and an answer, {plan.horizon} steps at most",
            "accuracy": f"{found.accuracy.value:.1%} over {plan.seeds} policies",
            "batch": f"{plan.groups} groups of {plan.size} rollouts; {plan.batches} batches a policy",
        }

    def page(self, found: CreditGradients) -> str:
        """The run's page."""
        charts = [figure(responsive(one.draw), one.words) for one in self._pictures(found)]
        sections = [Section("Advice", [paragraph(advice(found).replace("`", "")), *charts])]
        for judge in found.plan.judges:
            rows = [cells(row, True) for row in found.of(judge)]
            sections.append(Section(f"The {judge} judge", [table(HEAD, rows, caption=_CAPTION)]))
        heading = "How well does each credit estimate the policy gradient?"
        return report("Credit gradients", f"Footfall bench: {self.name}", heading, self.facts(found), sections)

    def charts(self, found: CreditGradients) -> dict[str, str]:
        """By file name."""
        return files_of(self._pictures(found))

    def _pictures(self, found: CreditGradients) -> list[Picture]:
        return [
            Picture(f"{self.docs}-{name}", words(found), partial(draw, found)) for name, draw, words in _drawn(found)
        ]

    def shown(self, found: CreditGradients) -> list[str | list[Sequence[str]]]:
        """What a terminal shows."""
        told: list[str | list[Sequence[str]]] = []
        for judge in found.plan.judges:
            told += [f"{judge} judge; {_CAPTION}", [HEAD, *(cells(row) for row in found.of(judge))]]
        return [*told, advice(found)]

    def left_out(self, found: CreditGradients) -> dict[str, str]:
        """Credits that are not measured, with the reason."""
        return {f"not measured: {name}": why for name, why in left_out().items()}

    @property
    def blocks(self) -> dict[str, Callable[[CreditGradients], str]]:
        """What the page of the documentation shows between its marks, from the figures alone."""
        return {
            "credit-gradients-advice": lambda found: advice(found) + "\n",
            "credit-gradients-sizes": lambda found: how_sure(found) + "\n",
            "credit-gradients-charts": lambda found: "\n".join(one.html for one in self._pictures(found)),
            "credit-gradients-table": _table,
            "credit-gradients-batches": _batches,
        }


def how_sure(found: CreditGradients) -> str:
    """What the figures were measured on, and how wide their intervals are."""
    plan = found.plan
    said = (
        f"Measured on {plan.seeds} policies that are tables ({plan.depth} right steps and an answer, {plan.horizon} steps at "
        f"most; {found.accuracy.value:.1%} right), by {plan.batches} batches a policy of {plan.groups} groups of {plan.size} "
        "rollouts."
    )
    directions, rollouts = (
        [row.figures[name] for row in found.rows if name in row.figures and math.isfinite(row.figures[name].low)]
        for name in ("direction", "rollouts")
    )
    if not directions or not rollouts:
        return said
    wide = [each.high - each.low for each in directions]
    shares = [(each.high - each.low) / each.value for each in rollouts]
    return (
        f"{said} 95% intervals over the policies: {median(wide):.3f} wide at the median and {max(wide):.2f} at most for "
        f"directions; for rollouts {median(shares):.0%} of the figure at the median and {max(shares):.0%} at most."
    )


def _table(found: CreditGradients) -> str:
    """One row a credit, with direction and rollouts by judge; those that the last judge leads astray stand last."""
    return _by_judge(found, ("direction", "rollouts"), ("wasted",))


def _batches(found: CreditGradients) -> str:
    """What one batch is worth: its direction, and its noise, in the order of the other table."""
    return _by_judge(found, ("one batch", "noise"))


def _by_judge(found: CreditGradients, each: Sequence[str], last: Sequence[str] = ()) -> str:
    """One row a credit, with these columns of `HEAD` for each judge, and further ones for the last."""
    judges = found.plan.judges
    columns = [(judge, what) for judge in judges for what in each] + [(judges[-1], what) for what in last]
    by_place = {(row.method, row.judge): row for row in found.rows}
    body = []
    for row in found.of(judges[-1]):
        told = {judge: dict(zip(HEAD, cells(by_place[row.method, judge]), strict=True)) for judge in judges}
        figures = [told[judge][what].partition(" ")[0] for judge, what in columns]
        body.append([f"`{row.method}`" + ("" if row.asks else " †"), *figures])
    return markdown(["credit", *(f"{judge}: {what}" for judge, what in columns)], body, 1)


_CAPTION = "† listens to no judge; never: its bias alone is larger than the error"


def _directions(found: CreditGradients, width: float = 760) -> Markup:
    judges = found.plan.judges
    rows = {(row.method, row.judge): row for row in found.rows}
    groups = []
    for last in found.of(judges[-1]):
        asked = [(judge, rows[last.method, judge].figures.get("direction")) for judge in judges] if last.asks else [
            ("no judge", last.figures.get("direction"))]  # fmt: skip
        groups.append(BarGroup(last.method, [Bar(name, value.value) for name, value in asked if value is not None]))
    return bar_chart(groups, label="Direction by credit and judge", x_label="cosine of mean estimate and exact gradient",
                     form="number", width=width)  # fmt: skip


def _rollouts(found: CreditGradients, width: float = 760) -> Markup:
    first = found.plan.judges[0]
    rows = sorted((row for row in found.of(first) if "rollouts" in row.figures), key=lambda row: row.value("rollouts"))
    groups = [BarGroup(row.method, [Bar(first, row.value("rollouts"))]) for row in rows]
    return bar_chart(groups, label=f"Rollouts needed with the {first} judge", x_label=f"rollouts to an error of {ERROR:g}",
                     form="number", width=width)  # fmt: skip


def _about_rollouts(found: CreditGradients) -> str:
    first = found.plan.judges[0]
    like = "exact" if first == EXACT else f"the {first} one"
    return f"Rollouts that each credit needs for one error, where the judge is {like}; those with too much bias are left out"


_Chart = tuple[str, Callable[..., Markup], Callable[[CreditGradients], str]]
_CHARTS: tuple[_Chart, ...] = (
    (
        "direction",
        _directions,
        lambda found: "How far along the exact gradient each credit's mean estimate points, by judge",
    ),
    ("rollouts", _rollouts, _about_rollouts),
)


def _drawn(found: CreditGradients) -> list[_Chart]:
    """The charts that have something to show: with the first judge no credit may get there by any number of rollouts."""
    first = found.plan.judges[0]
    there = {
        name for row in found.rows for name in row.figures if name == "direction" or row.judge == first
    }  # fmt: skip
    return [chart for chart in _CHARTS if chart[0] in there]


CREDIT = CreditStudy()
