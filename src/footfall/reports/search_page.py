"""Pages of searches. Of a whole run: accuracies with intervals and against N, what it cost, and the choices it was surest of.

Accuracy against the number of samples is one line a way of choosing, with 95% bands and the numbers behind them.

Of one search: its tree, with every decision in order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from markupsafe import Markup

from footfall.metrics.intervals import bootstrap_mean
from footfall.metrics.preferences import sizes_up_to
from footfall.reports.charts import Bar, BarGroup, Point, Series, bar_chart, line_chart
from footfall.reports.pages import (
    CostRow,
    Named,
    Section,
    cost_table,
    details,
    facts_list,
    figure,
    items,
    limited_in_words,
    paragraph,
    render,
    report,
    responsive,
    table,
)
from footfall.reports.svg import clip
from footfall.reports.traces import TraceView, extremes, scale_of, traces_section, view_of
from footfall.search.searcher import told
from footfall.search.votes import Curve, curve
from footfall.types import Cost, Json, Judged, Node, SearchResult, Tree

_SHADES = 5
_WIDTH = 560.0
"""Of a node's text before it is opened."""


def tree_page(result: SearchResult, facts: dict[str, str] | None = None) -> str:
    """The page of one result; `facts` are shown at its top."""
    tree = result.tree
    if tree is None:
        raise ValueError(f"the result for problem {result.problem.id!r} has no tree to show")
    path = _chosen_path(result)
    sections = [
        Section("Problem", [paragraph(result.problem.text, "written")]),
        Section("Tree", [render("tree", "key"), _drawn(result, tree, frozenset(path))], _counted(tree)),
        *([_candidates(result)] if result.candidates else []),
        Section("Decisions", [_decisions(result)], "What was done, in order. Nodes are numbered as in the tree."),
    ]
    name = result.problem.id
    shown = {**(facts or {}), **_facts(result)}
    return report(f"Search: {name}", "Footfall search", f"{name}: {_outcome(result)}", shown, sections)


def _outcome(result: SearchResult) -> str:
    if result.answer is None:
        return "no answer"
    right = None if result.chosen is None else result.chosen.correct
    return f"{result.answer} ({'not checked' if right is None else 'right' if right else 'wrong'})"


def _facts(result: SearchResult) -> dict[str, str]:
    return {
        "reference": result.problem.answer or "",
        "policy": _cost(result.policy_cost),
        "judge": _cost(result.judge_cost),
        "stopped by": f"the budget of {result.stopped}" if result.stopped else "",
        "failure": result.failure or "",
    }


def _chosen_path(result: SearchResult) -> list[int]:
    """The nodes from the top to the chosen one; none if nothing was chosen."""
    assert result.tree is not None
    chosen = next((d for d in reversed(result.decisions) if d.what == "chosen" and d.nodes), None)
    return [] if chosen is None else result.tree.path(chosen.nodes[0])


def _counted(tree: Tree) -> str:
    pruned, ended = sum(node.pruned for node in tree.nodes), sum(node.terminal for node in tree.nodes)
    return f"{len(tree.nodes):,} nodes, {ended:,} of them ends, {pruned:,} pruned."


def _drawn(result: SearchResult, tree: Tree, path: frozenset[int]) -> Markup:
    """All nodes, children inside their parents; from the last node on, since children come later, so no tree is too deep."""
    said: defaultdict[int, list[str]] = defaultdict(list)
    for number, decision in enumerate(result.decisions, 1):
        for named in decision.nodes:
            said[named].append(f"{number}. {decision.what}" + (f": {decision.why}" if decision.why else ""))
    below: defaultdict[int, list[Markup]] = defaultdict(list)
    for i in reversed(range(len(tree.nodes))):
        node = tree.nodes[i]
        below[node.parent].append(_node(i, node, i in path, said[i], below.pop(i, [])[::-1]))
    roots = below.pop(-1, [])[::-1]
    return render("tree", "tree", roots=roots) if roots else paragraph("Nothing was written.")


def _node(i: int, node: Node, chosen: bool, said: list[str], children: list[Markup]) -> Markup:
    shade = "unjudged" if node.value is None else f"v{min(max(int(node.value * _SHADES), 0), _SHADES - 1)}"
    words, written = clip(" ".join(node.step.written.split()), _WIDTH), node.step.written
    return render(
        "tree", "node", number=i, style=f"{shade}{' chosen' if chosen else ' pruned' if node.pruned else ''}",
        worth="n/a" if node.value is None else f"{node.value:.2f}", words=words, flags=_flags(node, chosen),
        cost=_cost(node.cost), written=None if words == written else written, notes=[*_about(node), *said],
        children=children, open=bool(children) and not node.pruned,
    )  # fmt: skip


def _flags(node: Node, chosen: bool) -> list[tuple[str, str]]:
    flags = [("★ chosen", "true")] if chosen else []
    flags += [("✂ pruned", "predicted")] if node.pruned else []
    flags += [("■ end", "predicted")] if node.terminal else []
    flags += [("lookahead", "predicted")] if node.meta.get("role") == "lookahead" else []
    return flags


def _about(node: Node) -> list[str]:
    visits = [f"visits {node.visits}"] if node.visits else []
    return [*visits, *(f"{name}: {value}" for name, value in node.meta.items())]


def _cost(cost: Cost) -> str:
    counts = {"written": cost.generated_tokens, "read": cost.scored_tokens, "prompt": cost.prompt_tokens}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _candidates(result: SearchResult) -> Section:
    chosen = None if result.chosen is None else result.chosen.id
    rows = []
    for (trace, _), score in zip(result.candidates, result.scores, strict=True):
        right = {True: "right", False: "wrong", None: "not checked"}[trace.correct]
        name = f"#{trace.id.rpartition('#')[2]}" + (" ★" if trace.id == chosen else "")
        said = str(trace.meta.get("error", "")) or (trace.answer if trace.answer is not None else "no answer")
        rows.append([name, said, right, "n/a" if score is None else f"{score:.3f}"])
    return Section("Candidates", [table(["node", "answer", "", "score"], rows, caption="★ chosen", text_columns=3)])


def _decisions(result: SearchResult) -> Markup:
    return items(list(told(result)), ordered="told")


_SHOWN = 10
_NAMED = 10
"""Traces, and problems without an answer, that are shown."""
_OF_A_CURVE = 20_000
"""The first problems, which accuracy against N is of: their candidates are numbers in memory, and resampled at every N."""
ACCURACIES = {
    "single": "one sample",
    "chosen": "chosen",
    "oracle": "oracle (best possible)",
    "candidates_mean": "mean of its candidates",
    "candidates_any": "any of its candidates",
}
"""The accuracies of a search by their names for people."""


def search_page(
    results: Sequence[SearchResult],
    found: Mapping[str, Any],
    judge: Named | None,
    *,
    independent: bool,
    seed: int,
    config: Mapping[str, Json],
) -> str:
    """One run. `found` is its result.json, candidates that are `independent` give a curve."""
    method = f"{found['method']} of {found['n']}" if found["n"] else found["method"]
    chosen = found["accuracy"].get("chosen")
    reached = f"{percentage(chosen['value'])}% right" if chosen else "no problem has a reference answer"
    costs = [CostRow(who, Cost(**found[f"{who}_cost"])) for who in ("policy", "judge")]
    sections = [
        *_accuracy(found, method),
        *(_curve(results, seed) if independent and chosen else ()),
        *_without_answer(found),
        *_traces(results),
        Section("What it cost", [cost_table(costs)]),
    ]
    problems = limited_in_words(found, "problems") or f"{found['problems']:,}"
    facts = {
        "method": str(found["settings"]), "policy": str(Named(found["policy_given"], found["policy"])),
        "judge": str(judge or ""), "aggregate": str(found["aggregate"] or ""),
        "problems": f"{problems}, accuracy over {found['decided']:,}",
        "budget": ", ".join(f"{limit:g} {name}" for name, limit in found["budget"].items() if limit is not None),
        "seed": str(seed),
    }  # fmt: skip
    numbers = [
        (ACCURACIES[name], f"{percentage(a['value'])}%", "95% interval {} to {}".format(*map(percentage, a["ci95"])))
        for name, a in found["accuracy"].items()
    ]
    return report(
        f"Search: {method}", "Footfall search", f"{method}: {reached}", facts, sections, numbers=numbers, config=config
    )


def _accuracy(found: Mapping[str, Any], method: str) -> list[Section]:
    bars = [(ACCURACIES[name], a["value"], *a["ci95"]) for name, a in found["accuracy"].items()]
    if not bars:
        return []
    groups = [BarGroup(name, [Bar(method, *numbers)]) for name, *numbers in bars]
    said = ", ".join(f"{name} {100 * value:.1f}%" for name, value, *_ in bars)
    chart = responsive(lambda w: bar_chart(groups, label=f"Accuracy: {said}", x_label="problems solved", width=w))
    return [Section("Accuracy", [figure(chart, "Whiskers are 95% intervals over problems.")])]


def _curve(results: Sequence[SearchResult], seed: int) -> list[Section]:
    """The first n candidates of each problem, chosen from in every way; problems that lost a candidate are left out."""

    def whole() -> Iterator[SearchResult]:
        for r in islice(results, _OF_A_CURVE):
            if r.problem.answer is not None and r.candidates and not any("error" in t.meta for t, _ in r.candidates):
                yield r

    sizes = [(len(r.candidates), min((s for s in r.scores if s is not None), default=None)) for r in whole()]
    most = min((candidates for candidates, _ in sizes), default=0)
    if most < 2:
        return []
    scored = all(lowest is not None for _, lowest in sizes)
    votes = scored and all(lowest is not None and lowest >= 0 for _, lowest in sizes)  # weights are not negative
    rules = ("single", "majority", *(("best",) if scored else ()), *(("weighted",) if votes else ()), "oracle")
    points = accuracy_points(curve(whole(), sizes_up_to(most), rules), seed)
    first = f" of the first {_OF_A_CURVE:,}" if len(results) > _OF_A_CURVE else ""
    caption = f"The first N candidates of each of {len(sizes):,} problems{first}, by how one is chosen. Shaded: 95% intervals."
    return [Section("Accuracy against the number of samples", accuracy_blocks(points, caption))]


def _without_answer(found: Mapping[str, Any]) -> list[Section]:
    made = []
    for title, problems, how in (
        ("No answer", found["unanswered"], "counted as wrong"),
        ("Failed", found["failed"], "not counted; the same command line tries them again"),
    ):
        if problems:
            shown = {name[:80]: str(why) for name, why in islice(problems.items(), _NAMED)}
            lead = f"{len(problems):,} problems, {how}; the first {len(shown)}:"
            made.append(Section(title, [facts_list(shown)], lead))
    return made


def _traces(results: Sequence[SearchResult]) -> list[Section]:
    """What was chosen: wrong answers with the highest score first, right ones last."""
    chosen, span = 0, (math.inf, -math.inf)

    def worth(result: SearchResult) -> float | None:
        nonlocal chosen, span
        if (picked := _chosen(result)) is None:
            return None
        (trace, said), score = picked
        known = [value for value in said.values if value is not None] if said else []
        chosen, span = chosen + 1, (min(span[0], *known), max(span[1], *known)) if known else span
        return score if trace.correct is None else (1 + abs(score)) * (1 if trace.correct else -1)

    def view(picked: tuple[Judged, float]) -> TraceView:
        row, score = picked
        return view_of(row, scale=scale, said=f"score {score:.3f}" if row.judgement else "not judged")

    shown = list(filter(None, map(_chosen, extremes(results, worth, _SHOWN, attrgetter("problem.id")))))
    if not shown:
        return []
    scale = scale_of(span if span[0] <= span[1] else ())
    lead = (
        f"{len(shown)} of {chosen:,} chosen solutions: wrong ones that were scored highest, then right ones. "
        "footfall search --out RUN --explain ID makes the page of one problem’s whole search."
    )
    return [traces_section("Chosen solutions, step by step", lead, list(map(view, shown)), judge="the judge")]


def _chosen(result: SearchResult) -> tuple[Judged, float] | None:
    """What was chosen with its judgement and score, 0 without one."""
    if result.chosen is None:
        return None
    for row, score in zip(result.candidates, result.scores, strict=True):
        if row.trajectory.id == result.chosen.id:
            return row, score or 0.0
    return Judged(result.chosen, None), 0.0


RULE_NAMES = {
    "single": "single",
    "majority": "majority",
    "best": "best_of_n",
    "weighted": "weighted_vote",
    "oracle": "oracle",
}
"""The rules of `footfall.search.votes:curve` by their names in a report."""

_KNOWN = {
    # key: (name, colour slot, emphasis, dashed); a method keeps its colour from one report to the next.
    "oracle": ("oracle", 3, False, True),
    "weighted_vote": ("weighted vote", 0, True, False),
    "best_of_n": ("best-of-N", 2, False, False),
    "majority": ("majority", 1, False, False),
    "single": ("single", 4, False, False),
}


def accuracy_points(accuracy: Curve, seed: int) -> dict[str, list[Point]]:
    """The points of each rule's line, with bootstrap intervals over problems."""
    return {
        RULE_NAMES[rule]: [Point(n, *bootstrap_mean(row, seed)) for n, row in zip(accuracy.ns, rows, strict=True)]
        for rule, rows in accuracy.correct.items()
    }


def curve_name(key: str) -> str:
    """What a reader calls a method: `best_of_n` is best-of-N."""
    return _KNOWN[key][0] if key in _KNOWN else key.replace("_", " ")


def accuracy_svg(
    curves: Mapping[str, Sequence[Point]],
    *,
    title: str = "",
    subtitle: str = "",
    x_label: str = "N, samples per problem",
    y_label: str = "problems solved",
    width: float = 760,
    height: float = 420,
) -> Markup:
    """Accuracy against N, one line a method, with 95% bands; each point's x is N."""
    series = [_series(key, points, i) for i, (key, points) in enumerate(curves.items())]
    ends = ", ".join(f"{s.name} {100 * s.points[-1].y:.1f}%" for s in series if s.points)
    return line_chart(
        series, label=f"Accuracy against the number of samples. At the largest N: {ends}", title=title,
        subtitle=subtitle, x_label=x_label, y_label=y_label, x_scale="log2", width=width, height=height,
    )  # fmt: skip


def _series(key: str, points: Sequence[Point], place: int) -> Series:
    """A known method in its own colour; the others start at the one that no known method has."""
    name, slot, emphasis, dashed = _KNOWN.get(key, (curve_name(key), 5 + place, False, False))
    return Series(name, points, emphasis, dashed, slot)


def accuracy_blocks(curves: Mapping[str, Sequence[Point]], caption: str) -> list[Markup]:
    """The chart for a desk and for a phone, and its numbers behind a line that opens them."""
    chart = responsive(lambda width: accuracy_svg(curves, width=width, height=420 if width > 500 else 340))
    return [figure(chart, caption), details("The numbers behind the figure", _numbers(curves))]


def _numbers(curves: Mapping[str, Sequence[Point]]) -> Markup:
    by_n = {key: {p.x: p for p in points} for key, points in curves.items()}
    rows = [
        [f"{n:g}", *(_interval(points.get(n)) for points in by_n.values())]
        for n in sorted({n for points in by_n.values() for n in points})
    ]
    return table(["N", *map(curve_name, by_n)], rows, caption="Percent of problems solved, with 95% intervals")


def _interval(point: Point | None) -> str:
    if point is None:
        return "–"
    known = point.low is not None and point.high is not None
    return f"{100 * point.y:.1f}" + (f" [{percentage(point.low)}, {percentage(point.high)}]" if known else "")


def percentage(fraction: float | None) -> str:
    """0.073 is 7.3; a minus is written as one, and zero has none."""
    text = f"{100 * (fraction or 0.0):.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", "−")
