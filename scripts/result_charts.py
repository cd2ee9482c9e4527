"""What `docs/results.md` answers its questions with, above the folded tables: a chart, and the few rows that decide.

All of it comes from the stored figures of `scripts.loop evaluate` and `scripts.pool_curves`. Figures of charts are rounded as
those of the tables are, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from footfall.benchmarks.processbench import SPLITS
from footfall.reports.charts import Bar, BarGroup, Point, Series, bar_chart, line_chart
from footfall.reports.pictures import Picture
from scripts.loop_measure import TOGETHER, Figure, sum_of, table_line, with_interval
from scripts.pool_curves import LEADS

SHIPPED, AGAIN = "final-0", "final-1"
"""The PRM that ships and its second training."""
VOTER = "vote-0"
SETS = {"gsm8k-test": "GSM8K test", "math-500": "MATH-500"}
RULES = {
    "majority": "majority",
    "best of N, last": "best of N",
    "weighted vote, last": "weighted vote",
    "any right": "any right",
}
"""How a pool is decided: by what it is stored under, and what it is called here. Solutions count by their last step's value."""
LABELS = {
    "distilled": "step scores of Qwen2.5-Math-PRM-7B",
    "omegaprm": "OmegaPRM's binary search",
    "outcome": "whether the answer is right",
    "prm800k": "people's (PRM800K)",
    "monte-carlo": "Monte Carlo, 8 rollouts a step",
}
KINDS = {
    "ce": "step head",
    "pqm": "PQM's ranking",
    "tdrm": "TDRM's targets",
    "biprm": "BiPRM, both directions",
    "uhead": "UHead, decoder frozen",
    "probe": "linear probe, decoder frozen",
    "few-ce": "step head, 1,400 rows",
    "pathfinder": "PathFinder-PRM, 1,400 rows",
    "outcome-ce": "step head, outcomes only",
    "implicit": "implicit PRM, outcomes only",
}
"""Kinds on a real model, those that learned from the same rows after their step head."""
POOL = "MATH-500, Qwen2.5-Math-PRM-7B"
FOLDS = ("prod", "min", "mean", "last", "max", "sum")
"""Of the step values to one score; `length-aware` is near the mean and is in the folded table."""


class Answer(NamedTuple):
    """The charts and the rows of one question."""

    pictures: Sequence[Picture]
    rows: str

    @property
    def block(self) -> str:
        """As a page has it."""
        return "\n".join([*(each.html for each in self.pictures), self.rows])


def first_errors(found: Mapping[str, Any]) -> Answer:
    """Mean F1 on ProcessBench of the PRM that ships, of its second training, of length only, and as published of others."""
    there = {name: found[name]["processbench"] for name in (SHIPPED, AGAIN)}
    shipped, together = there[SHIPPED], TOGETHER["processbench"]
    columns = (*SPLITS, together)
    measured = {
        f"{SHIPPED}, which ships": shipped["PRM"],
        f"{AGAIN}, trained again": there[AGAIN]["PRM"],
        "length only": shipped["length only"],
    }
    published = shipped["published"]
    bars = [_bar(name, "measured here", given[together]["f1"]) for name, given in measured.items()]
    bars += [BarGroup(name, [Bar("published", given[together] / 100)]) for name, given in published.items()]
    cases = f"{shipped['cases']:,} cases"
    words = (
        f"ProcessBench, mean F1 of four splits in percent, {cases}: "
        + ", ".join(f"{name} {with_interval(given[together]['f1'])}" for name, given in measured.items())
        + "; published "
        + ", ".join(f"{name} {given[together]}" for name, given in published.items())
    )

    def draw(width: float) -> Markup:
        return bar_chart(
            bars, label=words, x_label="mean F1 of four splits", title="ProcessBench: first errors",
            subtitle=f"{cases}; 95% intervals over cases", width=width,
        )  # fmt: skip

    rows = [
        table_line([name, *(with_interval(given[each]["f1"]) for each in columns)]) for name, given in measured.items()
    ]
    rows += [
        table_line([f"{name} (published)", *(str(given[each]) for each in columns)])
        for name, given in published.items()
    ]
    return Answer([Picture("results-first-errors", words, draw)], _table(["F1 of the first error", *columns], rows))


def votes(found: Mapping[str, Any]) -> Answer:
    """Accuracy by the number of samples and how they are decided, with the PRM that was trained to vote."""
    there = {title: found[VOTER][on] for on, title in SETS.items()}
    pictures = [_votes(f"results-votes-{on}", SETS[on], found[VOTER][on]) for on in SETS]
    tables = [f"{_heading(title, given)}\n\n{_vote_rows(given)}" for title, given in there.items()]
    return Answer(pictures, "\n".join(tables))


def _heading(title: str, given: Mapping[str, Any]) -> str:
    return f"**{title}**, {given['problems']:,} problems, accuracy in percent"


def _votes(stem: str, title: str, given: Mapping[str, Any]) -> Picture:
    last = str(max(given["n"]))
    by_rule = {name: given["accuracy"][rule] for rule, name in RULES.items()}
    slots = {"weighted vote": 0, "majority": 1, "best of N": 2, "any right": 3}
    lines = [
        Series(
            name, [_point(int(n), figure) for n, figure in by_rule[name].items()], emphasis=name == "weighted vote",
            dashed=name == "any right", slot=slot,
        )
        for name, slot in slots.items()
    ]  # fmt: skip
    lead = with_interval(given["− majority"]["weighted vote, last"][last], "+")
    words = (
        f"{title}, {given['problems']:,} problems, accuracy in percent by the number of samples; at N = {last}: "
        + ", ".join(f"{name} {with_interval(figures[last])}" for name, figures in by_rule.items())
        + f"; the weighted vote less the majority {lead}"
    )

    def draw(width: float) -> Markup:
        return line_chart(
            lines, label=words, x_label="N, samples a problem", y_label="problems solved", x_scale="log2",
            title=f"{title}: choosing among N", subtitle=f"{given['problems']:,} problems, 95% bands", width=width,
        )  # fmt: skip

    return Picture(stem, words, draw)


def _vote_rows(given: Mapping[str, Any]) -> str:
    ns = [str(n) for n in given["n"]]
    lines = []
    for rule, name in RULES.items():
        lines.append(table_line([name, *(with_interval(given["accuracy"][rule][n]) for n in ns)]))
        if "last" in rule:
            lead = (with_interval(given["− majority"][rule][n], "+") for n in ns)
            lines.append(table_line([f"{name} − majority", *lead]))
    return _table(["decided by", *(f"N = {n}" for n in ns)], lines)


def labels(found: Mapping[str, Any]) -> Answer:
    """F1 of the first error by the kind of label, the best first, with what was generated for the labels."""
    scored = {LABELS[next(iter(facts["labels"]))]: facts for facts in found.values()}
    scored = dict(sorted(scored.items(), key=lambda pair: _as_written(_f1(pair[1])), reverse=True))
    bars = [_bar(name, "F1", _f1(facts)) for name, facts in scored.items()]
    cases = f"{next(iter(scored.values()))['processbench']['cases']:,} cases"
    words = f"ProcessBench, mean F1 in percent by the kind of label, {cases}, one training each: " + ", ".join(
        f"{name} {with_interval(_f1(facts))}" for name, facts in scored.items()
    )

    def draw(width: float) -> Markup:
        return bar_chart(
            bars, label=words, x_label="mean F1 of four splits", title="ProcessBench F1 by kind of label",
            subtitle=f"one training each; 95% over {cases}", width=width,
        )  # fmt: skip

    lines = []
    for name, facts in scored.items():
        counts = [f"{sum_of(facts, key):,}" for key in ("traces", "steps", "generated tokens")]
        lines.append(table_line([name, *counts, with_interval(_f1(facts))]))
    head = ["labels", "labelled solutions", "labelled steps", "tokens generated for labels", "ProcessBench F1"]
    return Answer([Picture("results-labels", words, draw)], _table(head, lines))


def kinds(found: Mapping[str, Any]) -> Answer:
    """F1 and AUC of kinds of PRMs beside the step head that learned from the same rows."""
    there = {
        f"{KINDS[stem]}, seed {seed}": found[f"{stem}-{seed}"]
        for stem in KINDS
        for seed in (0, 1)
        if f"{stem}-{seed}" in found
    }
    measured = {name: given["processbench"]["figures"][TOGETHER["processbench"]] for name, given in there.items()}
    bars = [
        BarGroup(
            name, [Bar("F1 at the held-out threshold", *_as_written(own["f1"])), Bar("AUC", *_as_written(own["auc"]))]
        )
        for name, own in measured.items()
    ]
    words = "ProcessBench, mean F1 and mean AUC of four splits in percent: " + ", ".join(
        f"{name} {with_interval(own['f1'])} and {with_interval(own['auc'])}" for name, own in measured.items()
    )

    def draw(width: float) -> Markup:
        return bar_chart(
            bars, label=words, x_label="mean of four splits", title="ProcessBench by kind of PRM",
            subtitle="every second case; 95% over cases", width=width,
        )  # fmt: skip

    lines = []
    for name, given in there.items():
        own = given["processbench"]
        less = (own["difference"]["mean"], own["difference of AUC"]) if "difference" in own else ()
        f1_less, auc_less = (with_interval(each, "+") for each in less) if less else ("", "")
        seconds = f"{given['training seconds']:.0f}"
        shown = [with_interval(measured[name]["f1"]), f1_less, with_interval(measured[name]["auc"]), auc_less]
        lines.append(table_line([name, seconds, *shown]))
    head = ["kind", "seconds", "F1", "less its step head's", "AUC", "less its step head's"]
    return Answer([Picture("results-kinds", words, draw)], _table(head, lines))


def folds(found: Mapping[str, Any]) -> Answer:
    """The best of N by how step values are folded to one score, beside the majority, on stored candidates."""
    shown = found["pools"][POOL]
    last = max(shown["majority"], key=int)
    by_fold = {fold: shown[f"best of N, {fold}"] for fold in FOLDS}
    # The intervals of all lines are about as wide: two bands, and the table has the others.
    lines = [
        Series(
            "majority", [_point(int(n), _percent(each)) for n, each in shown["majority"].items()], dashed=True, slot=4
        )
    ]
    for slot, (fold, by_n) in zip((0, 1, 2, 3, 5, 6), by_fold.items(), strict=True):
        points = [_point(int(n), _percent(each), band=not slot) for n, each in by_n.items()]
        lines.append(Series(fold, points, emphasis=not slot, slot=slot))
    words = (
        f"{POOL}: accuracy in percent of the best of {last} by how step values are folded: "
        + ", ".join(f"{fold} {with_interval(_percent(by_n[last]))}" for fold, by_n in by_fold.items())
        + f"; majority {with_interval(_percent(shown['majority'][last]))}"
    )

    def draw(width: float) -> Markup:
        return line_chart(
            lines, label=words, x_label="N, candidates a problem", y_label="problems solved", x_scale="log2",
            title="MATH-500: how scores are folded", subtitle="500 problems; 95% bands of prod and majority", width=width,
        )  # fmt: skip

    ns = list(shown["majority"])
    rows = [table_line([name, *(with_interval(_percent(by_n[n])) for n in ns)]) for name, by_n in (
        ("majority", shown["majority"]), *((f"best of N, {fold}", by_n) for fold, by_n in by_fold.items())
    )]  # fmt: skip
    accuracies = _table(["accuracy in percent", *(f"N = {n}" for n in ns)], rows)
    return Answer(
        [Picture("results-aggregation", words, draw)], f"**{POOL}**\n\n{accuracies}\n{_leads(found[LEADS], last)}"
    )


def _leads(ahead: Mapping[str, Mapping[str, Sequence[float]]], last: str) -> str:
    """All choices and weighted votes, a column a pool."""
    rows = [
        table_line([rule, *(with_interval(_percent(by_rule[rule]), "+") for by_rule in ahead.values())])
        for rule in ahead[POOL]
    ]
    head = [f"less the majority, points, N = {last}", *ahead]
    return f"**All pools**\n\n{_table(head, rows)}"


def _f1(facts: Mapping[str, Any]) -> Figure:
    figure: Figure = facts["processbench"]["PRM"][TOGETHER["processbench"]]["f1"]
    return figure


def _percent(figure: Sequence[float]) -> Figure:
    return [100 * each for each in figure]


def _as_written(figure: Figure) -> tuple[float, float, float]:
    """A figure in percent as a share, rounded as in tables: 21.95 stands there as 21.9, where 0.2195 would be drawn as 22.0."""
    value, low, high = (float(f"{each:.1f}") / 100 for each in figure if each is not None)
    return value, low, high


def _point(n: int, figure: Figure, band: bool = True) -> Point:
    value, low, high = _as_written(figure)
    return Point(n, value, low, high) if band else Point(n, value)


def _bar(name: str, series: str, figure: Figure) -> BarGroup:
    return BarGroup(name, [Bar(series, *_as_written(figure))])


def _table(head: Sequence[str], lines: Sequence[str]) -> str:
    return "\n".join([table_line(head), table_line(["---", *["---:"] * (len(head) - 1)]), *lines]) + "\n"
