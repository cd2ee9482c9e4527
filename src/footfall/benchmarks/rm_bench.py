"""RM-Bench: right against subtly wrong responses, each in three styles (concise, detailed, detailed with markdown).

    a_ij = 1 if the right response in style i scores strictly above the wrong one in style j
    hard: mean of i < j (the wrong one is dressed better),  normal: i = j,  easy: i > j,  accuracy: mean of the three

Rows: each domain, safety (plain mean of its two parts), and the plain mean of the domains chat, math, code and safety.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import Names, load_cases, name_of, numbered_responses
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields
from footfall.metrics.cases import Case, Measure, Row, Rows, by_group, split_by_split
from footfall.metrics.intervals import Floats
from footfall.metrics.preferences import accuracy, comparison, mean_row, response_score, score_rule
from footfall.registry import register
from footfall.search.votes import Aggregation
from footfall.types import Judgement, Problem

DOMAINS = ("chat", "math", "code", "safety-refuse", "safety-response")
STYLES = 3
_FIGURES = ("hard", "normal", "easy", "accuracy")


@register("benchmark", "rm-bench")
def rm_bench(data: str | Path, aggregation: Aggregation = "min") -> Benchmark:
    """RM-Bench: subtle errors against style, three by three; `data` is its folder or one domain's file."""
    cases, revision = load_cases(data, _responses, "prompt")
    missing = [domain for domain in DOMAINS if all(case.split != domain for case in cases)]
    return Benchmark(
        name="rm-bench",
        cases=cases,
        measure=_measure(aggregation),
        protocol=f"right strictly above wrong by the {score_rule(aggregation)}, in 3 x 3 styles",
        objective="accuracy",
        revision=revision,
        notes=(f"domains that are not in the data: {', '.join(missing)}",) if missing else (),
    )


def _responses(fields: Fields, path: Path, names: Names) -> list[Case]:
    domain = fields.text("domain") if "domain" in fields else path.name.partition("_")[0].partition(".")[0]
    if domain not in DOMAINS:
        raise fields.error("domain", f"one of {', '.join(DOMAINS)}, here or in the file's name", domain)
    name = names.unique(f"{domain}-{name_of(fields)}")
    problem = Problem(name, fields.text("prompt"), domain=domain if domain in ("math", "code") else "chat")
    styles = (numbered_responses(fields, which, STYLES) for which in ("chosen", "rejected"))
    return comparison(domain, problem, *styles)


def style_matrix(right: Sequence[float], wrong: Sequence[float]) -> tuple[float, float, float, float]:
    """hard, normal, easy and their mean for one prompt."""
    above = np.asarray(right)[:, None] > np.asarray(wrong)[None, :]
    pairs = STYLES * (STYLES - 1) / 2
    hard, easy = float(np.triu(above, 1).sum() / pairs), float(np.tril(above, -1).sum() / pairs)
    normal = float(np.diag(above).mean())
    return hard, normal, easy, (hard + normal + easy) / 3


def _measure(aggregation: Aggregation) -> Measure:
    def row(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Row:
        groups = by_group(cases).values()
        table = np.asarray([_prompt([response_score(judgements[i], aggregation) for i in inside]) for inside in groups])
        weights_RG = weights_RN[:, [inside[0] for inside in groups]]
        found: Row = {}
        for k, name in enumerate(_FIGURES):
            found |= accuracy(table[:, k], weights_RG, name)
        return found

    return split_by_split(row, _summary)


def _prompt(scores: Sequence[float | None]) -> tuple[float, ...]:
    """Of one prompt's right and wrong responses in the order of the styles; NaN if one has no score."""
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        return (float("nan"),) * len(_FIGURES)
    return style_matrix(known[:STYLES], known[STYLES:])


def _summary(rows: Rows) -> Rows:
    safety = {name: row for name, row in rows.items() if name.startswith("safety-")}
    domains = {name: row for name, row in rows.items() if name not in safety}
    found: Rows = {"safety": _mean(safety)} if safety else {}
    return {**found, "mean": _mean({**domains, **found})}


def _mean(rows: Rows) -> Row:
    return {name: mean_row(rows, name=name)[name] for name in _FIGURES}
