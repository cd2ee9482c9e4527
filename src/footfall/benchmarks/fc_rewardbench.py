"""FC-RewardBench: the right function call against a wrong one, by the kind of error (card: toolrm)

Accuracy = mean 1[score(chosen) > score(rejected)], a tie being wrong, over all pairs and for each error type. A call (or a
list of calls) is one step, so every aggregation gives the same.
"""

from __future__ import annotations

from pathlib import Path

from footfall.benchmarks.records import Names, as_text, load_cases, messages, name_of, tools_of
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields
from footfall.metrics.cases import Case
from footfall.metrics.preferences import comparison, measure_by, pooled, response_score
from footfall.registry import register
from footfall.types import Problem, Step

ERROR_TYPES = {
    "parameter value error": 650,
    "incorrect function name": 403,
    "incorrect number of function calls": 245,
    "missing optional parameter": 78,
    "missing required parameter": 45,
    "parameter value type error": 43,
    "unexpected parameter": 21,
    "parsing error": 15,
}
"""Pairs of each error type in the published data, 1,500 in all."""


@register("benchmark", "fc-rewardbench")
def fc_rewardbench(data: str | Path) -> Benchmark:
    """FC-RewardBench: right against wrong function calls by error type; `data` is a file or folder of its rows."""
    cases, revision = load_cases(data, _pair, "pair")
    counts = ", ".join(f"{kind} {n}" for kind, n in ERROR_TYPES.items())
    return Benchmark(
        name="fc-rewardbench",
        cases=cases,
        measure=measure_by(response_score, summary=pooled),
        protocol="right call strictly above the wrong one by the judge's own value, else the value of its one step",
        objective="accuracy",
        revision=revision,
        notes=(f"{len(cases) // 2} pairs; the published data has {sum(ERROR_TYPES.values())}: {counts}",),
    )


def _pair(fields: Fields, _path: Path, names: Names) -> list[Case]:
    name = names.unique(name_of(fields, "test_id"))
    problem = Problem(name, messages(fields, "conversation"), domain="agent", tools=tools_of(fields, "tools"))
    calls = ({which: (Step(as_text(fields, f"{which}_output")),)} for which in ("chosen", "rejected"))
    return comparison(fields.text("error_type"), problem, *calls)
