"""RMB: helpfulness and harmlessness preferences, as pairs and as one best response against several losers.

A pair counts 1 if the chosen response scores strictly above the rejected one; a best-of-n set counts 1 if the best scores
strictly above every loser. Rows: each category, then `pairwise` and `best-of-n` over all their comparisons.
"""

from __future__ import annotations

from pathlib import Path

from footfall.benchmarks.records import Names, load_cases, messages, name_of, response_steps
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields
from footfall.metrics.cases import Case, Rows
from footfall.metrics.intervals import Floats
from footfall.metrics.preferences import Compared, comparison, measure_by, pooled_row, response_score, score_rule
from footfall.registry import register
from footfall.search.votes import Aggregation
from footfall.types import Problem

KINDS = ("pairwise", "best-of-n")


@register("benchmark", "rmb")
def rmb(data: str | Path, aggregation: Aggregation = "min") -> Benchmark:
    """RMB: preference pairs and best-of-n sets by category; `data` is its folder or one of its files."""
    cases, revision = load_cases(data, _comparison, "comparison")
    return Benchmark(
        name="rmb",
        cases=cases,
        measure=measure_by(lambda judgement: response_score(judgement, aggregation), summary=_by_kind),
        protocol=f"every chosen response strictly above every other by the {score_rule(aggregation)}",
        objective="accuracy",
        revision=revision,
    )


def _comparison(fields: Fields, _path: Path, names: Names) -> list[Case]:
    pairwise = "pair_uid" in fields
    kind = KINDS[0] if pairwise else KINDS[1]
    category = "/".join([kind, *fields.text("category_path").split("/")[1:]])
    name = names.unique(f"{kind}-{name_of(fields, 'pair_uid' if pairwise else 'bon_uid')}")
    problem = Problem(name, messages(fields, "conversation_input"), domain="chat")
    chosen = fields.record("chosen" if pairwise else "bon_best")
    others = [fields.record("reject")] if pairwise else fields.records("loser_list")
    if not others:
        raise fields.wrong("loser_list", "at least one response")
    wrong = {f"rejected-{i}": response_steps(given.text("answer")) for i, given in enumerate(others)}
    return comparison(category, problem, {"chosen": response_steps(chosen.text("answer"))}, wrong)


def _by_kind(rows: Rows, compared: Compared, weights_RN: Floats) -> Rows:
    splits = {kind: [name for name in rows if name.startswith(f"{kind}/")] for kind in KINDS}
    return {kind: pooled_row(compared, weights_RN, inside) for kind, inside in splits.items() if inside}
