"""`footfall bench kinds` for people: a table for each sort and size of labels, charts, and advice from the figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from markupsafe import Markup

from footfall.metrics.intervals import Interval
from footfall.reports.charts import Bar, BarGroup, bar_chart
from footfall.reports.pages import Section, figure, paragraph, report, responsive, table
from footfall.reports.pictures import Picture, files_of
from footfall.store import Run
from footfall.studies.kinds import FIGURES, QUALITY, ROBUST, KindPlan, KindRow, Kinds, KindSite, kinds, together
from footfall.studies.report import folded, in_words, markdown, shown
from footfall.studies.study import measure_plan

HEAD = (
    "kind", "F1", "AUC", "ECE", "best of 8", "beam", "paraphrase", "redundant", "order", "tokens trained", "s",
    "tokens a trace", "ms a trace",
)  # fmt: skip
CAPTION = (
    "quality and robustness in percent; cost of training, and of scoring one trace. ECE: lower is better; it means nothing of "
    "values that are no probabilities"
)
_USES = {"f1": "first errors", "best_of_n": "best of 8", "beam": "beam search"}
NAMED = 4
"""So many kinds that are not clearly behind are named; more are counted."""
FRAGILE = 0.05
"""A loss of AUC in another form of the trace from which on a kind is called fragile."""


def cells(row: KindRow, full: bool = False) -> list[str]:
    """A row of a table; with all intervals, or with that of the F1."""
    told = []
    for name in FIGURES:
        scale, decimals = (100, 1) if name in (*QUALITY, *ROBUST) else (1000, 2) if name == "score_seconds" else (1, 0)
        told.append(shown(row.figures.get(name), scale, decimals, full or name == "f1"))
    return [row.kind, *told]


def advice(found: Kinds) -> str:
    """What to train, by rule: the best by each use, whether its lead is more than the seeds' spread, and what is fragile."""
    said = [_overall(found)] if len(found.plan.labels) * len(found.plan.sizes) > 1 else []
    for labels in found.plan.labels:
        for size in map(int, found.plan.sizes):
            rows = found.of(labels, size)
            told = ", ".join(f"{words} {_leaders(rows, use)}" for use, words in _USES.items())
            said.append(f"On {size} traces with {labels} labels: {told}.")
    fragile = {
        form: sorted({r.kind for r in found.rows if form in r.figures and r.value("auc") - r.value(form) > FRAGILE})
        for form in ROBUST
    }
    for form, names in fragile.items():
        if names:
            who = _counted(names, sorted({row.kind for row in found.rows}))
            said.append(f"Where steps are changed ({form}), more than {FRAGILE:g} of AUC is lost by {who}.")
    measured = [row for row in found.rows if "score_tokens" in row.figures]
    if not measured:
        return "Nothing was measured: so few traces have no pair of a right and a wrong one, or one label only."
    cheap, dear = (pick(measured, key=lambda row: row.value("score_tokens")) for pick in (min, max))
    if dear.value("score_tokens") > 1.05 * cheap.value("score_tokens"):
        times = dear.value("score_tokens") / cheap.value("score_tokens")
        said.append(f"A trace costs `{dear.kind}` {times:.1f} times the tokens of `{cheap.kind}`.")
    return " ".join(said)


def _overall(found: Kinds) -> str:
    """Who finds first errors best on average over all sorts and sizes of labels, with the next two."""
    means = _means(found)
    if not means:
        return "No kind was measured with all labels and sizes."
    first, *rest = sorted(means, key=lambda kind: -means[kind])
    settings = [found.of(labels, int(size)) for labels in found.plan.labels for size in found.plan.sizes]
    led = sum(rows[0].kind == first for rows in settings)
    nexts = " and ".join(f"`{kind}` ({100 * means[kind]:.1f})" for kind in rest[:2])
    return (
        f"Over all labels and sizes first errors are found best by `{first}` (F1 {100 * means[first]:.1f} on average, best in "
        f"{led} of {len(settings)} settings){f', then by {nexts}' if nexts else ''}."
    )


def _means(found: Kinds) -> dict[str, float]:
    """F1 of the first error on average over all settings, of the kinds that were measured in all of them."""
    settings = len(found.plan.labels) * len(found.plan.sizes)
    known: dict[str, list[float]] = {}
    for row in found.rows:
        if "f1" in row.figures:
            known.setdefault(row.kind, []).append(row.value("f1"))
    return {kind: fmean(values) for kind, values in known.items() if len(values) == settings}


def _counted(names: Sequence[str], everyone: Sequence[str]) -> str:
    """The names, or where they are more than half, who is not among them."""
    others = [name for name in everyone if name not in names]
    if len(names) <= len(others):
        return in_words(names)
    return f"all kinds but {in_words(others)}" if others else "all kinds"


def _leaders(rows: Sequence[KindRow], use: str) -> str:
    """Who is best at a use, all of them where several are, and who is not clearly behind."""
    best = max(rows, key=lambda row: row.value(use))
    if use not in best.figures:
        return "no kind was measured"
    alike = [row.kind for row in rows if row.value(use) == best.value(use)]
    value = f"{100 * best.value(use):.1f}"
    if len(alike) == len(rows) > 1:
        return f"no kind above another ({value})"
    near = [row.kind for row in rows if row.kind not in alike and not _clear(best, row, use)]
    few = in_words(near) if 0 < len(near) <= NAMED else f"{len(near)} of {len(rows) - len(alike)} others"
    return f"{in_words(alike)} ({value}{f'; not clearly behind: {few}' if near else ''})"


def _clear(best: KindRow, row: KindRow, use: str) -> bool:
    """Whether the intervals of both lie apart; with one seed, whether it is more."""
    if use not in best.figures or use not in row.figures or math.isnan(best.figures[use].low):
        return best.value(use) > row.value(use)
    return best.figures[use].low > row.figures[use].high


@dataclass(frozen=True)
class KindStudy:
    """What `footfall bench` asks of a study."""

    name: str = "kinds"
    docs: str = "kinds"
    plan: type[KindPlan] = KindPlan
    lists: tuple[str, ...] = ("labels", "sizes", "methods")
    numbers: tuple[str, ...] = ("seeds", "pool", "beam", "passes")

    def run(self, plan: KindPlan, run: Run, workers: int = 1) -> Kinds:
        """Measure all units that are not there yet, seeds side by side in `workers`."""
        return together(plan, measure_plan(self.name, plan, KindSite, run, workers))

    def facts(self, found: Kinds) -> dict[str, str]:
        """What the figures depend on."""
        plan = found.plan
        return {
            "traces": f"of the embedded model on arithmetic problems, {', '.join(plan.sizes)}; {plan.seeds} seeds",
            "training": f"{plan.passes} {'pass' if plan.passes == 1 else 'passes'} over the traces",
            "test": f"{plan.pool} problems, 8 solutions each, {found.accuracy.value:.1%} right; {plan.beam} for beam search",
        }

    def page(self, found: Kinds) -> str:
        """The run's page."""
        charts = [figure(responsive(one.draw), one.words) for one in self._pictures(found)]
        sections = [Section("Advice", [paragraph(advice(found).replace("`", "")), *charts])]
        for labels in found.plan.labels:
            for size in map(int, found.plan.sizes):
                rows = [cells(row, True) for row in found.of(labels, size)]
                sections.append(Section(f"{size} traces, {labels} labels", [table(HEAD, rows, caption=CAPTION)]))
        return report(
            "Kinds of PRMs", f"Footfall bench: {self.name}", "Which kind of PRM?", self.facts(found), sections
        )

    def charts(self, found: Kinds) -> dict[str, str]:
        """By file name."""
        return files_of(self._pictures(found))

    def _pictures(self, found: Kinds) -> list[Picture]:
        return [
            Picture(f"{self.docs}-{name}", words, partial(_chart, found, name, words))
            for name, words in _drawn(found).items()
        ]

    def shown(self, found: Kinds) -> list[str | list[Sequence[str]]]:
        """What a terminal shows."""
        told: list[str | list[Sequence[str]]] = []
        for labels in found.plan.labels:
            for size in map(int, found.plan.sizes):
                rows = [cells(row)[: len(QUALITY) + 1] for row in found.of(labels, size)]
                told += [f"{size} traces, {labels} labels", [HEAD[: len(QUALITY) + 1], *rows]]
        return [*told, advice(found)]

    @property
    def blocks(self) -> dict[str, Callable[[Kinds], str]]:
        """What the documentation shows between its marks, from the figures alone."""
        return {
            "kinds-advice": lambda found: advice(found) + "\n",
            "kinds-overview": overview,
            "kinds-charts": lambda found: "\n".join(one.html for one in self._pictures(found)),
            "kinds-tables": as_markdown,
        }

    def left_out(self, found: Kinds) -> dict[str, str]:
        """Kinds that are not measured, with the reason."""
        return {f"not measured: {name}": why for name, why in kinds().unmeasured.items()}


def as_markdown(found: Kinds) -> str:
    """All tables, for the documentation."""
    return "\n".join(
        folded(f"{size} traces, {labels} labels", markdown(HEAD, [cells(row) for row in found.of(labels, size)], 1))
        for labels in found.plan.labels for size in map(int, found.plan.sizes)
    )  # fmt: skip


def overview(found: Kinds) -> str:
    """F1 of the first error with every sort and size of labels, best on average first, and what training and scoring take.

    Costs are those of the largest size with the first sort of labels.
    """
    settings = [(labels, size) for labels in found.plan.labels for size in map(int, found.plan.sizes)]
    rows = {(row.kind, (row.labels, row.size)): row for row in found.rows}
    dear = settings[len(found.plan.sizes) - 1]

    def told(kind: str) -> list[str]:
        f1, cost = [rows[kind, each].figures.get("f1") for each in settings], rows[kind, dear].figures
        seconds, score = shown(cost.get("train_seconds"), 1, 0), shown(cost.get("score_seconds"), 1000, 1)
        return [f"`{kind}`", *(shown(each, 100, 1) for each in f1), seconds, score]

    means = _means(found)
    best_first = sorted({row.kind for row in found.rows}, key=lambda kind: (-means.get(kind, -1.0), kind))
    head = ["kind", *(f"{labels}, {size}" for labels, size in settings), "s to train", "ms a trace"]
    return markdown(head, [told(kind) for kind in best_first], 1)


def after_more(found: Kinds, longer: Kinds) -> str:
    """Each kind after the passes of one plan and after more of another: as finder of first errors, as chooser, and its cost.

    Of the largest size and the first sort of labels that both plans have. The best finder after more passes stands first.
    """
    labels = next(each for each in found.plan.labels if each in longer.plan.labels)
    size = max(map(int, set(found.plan.sizes) & set(longer.plan.sizes)))
    before = {row.kind: row.figures for row in found.of(labels, size)}
    head = ["kind"]
    for name in ("F1", "best of 8", "s to train"):
        head += [f"{name}, {plan.passes} passes" for plan in (found.plan, longer.plan)]
    told = [
        [f"`{row.kind}`", *(
            shown(figures.get(name), scale, decimals, name == "f1")
            for name, scale, decimals in (("f1", 100, 1), ("best_of_n", 100, 1), ("train_seconds", 1, 0))
            for figures in (before[row.kind], row.figures)
        )]
        for row in longer.of(labels, size) if row.kind in before
    ]  # fmt: skip
    return markdown(head, told, 1)


_CHARTS = {
    "f1": "F1 of the first error, by kind and labels, on the largest size",
    "best_of_n": "Accuracy of best-of-8, by kind and labels, on the largest size",
}


def _drawn(found: Kinds) -> dict[str, str]:
    """The charts that have something to show."""
    size = max(map(int, found.plan.sizes))
    there = {name for row in found.rows if row.size == size for name in row.figures}
    return {name: words for name, words in _CHARTS.items() if name in there}


def _chart(found: Kinds, name: str, words: str, width: float = 760) -> Markup:
    size = max(map(int, found.plan.sizes))
    rows = {(row.kind, row.labels): row for row in found.rows if row.size == size}
    order = [row.kind for row in found.of(found.plan.labels[0], size)]
    groups = [
        BarGroup(kind, [
            _bar(labels, row.figures[name])
            for labels in found.plan.labels if (row := rows.get((kind, labels))) and name in row.figures
        ])
        for kind in order
    ]  # fmt: skip
    return bar_chart(groups, label=words, x_label=name.replace("_", " "), form="number", width=width)


def _bar(labels: str, found: Interval) -> Bar:
    """With its interval over seeds; one seed has none."""
    return Bar(labels, *found) if math.isfinite(found.low) else Bar(labels, found.value)


KINDS = KindStudy()
