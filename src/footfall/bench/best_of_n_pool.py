"""Best-of-N pools: candidates that were drawn once, chosen among by a judge (card: best-of-n).

A pool is JSON lines, one problem a line, in either schema:

    {"id", "problem", "answer"?, "candidates": [{"steps": [text, …] or "text": text, "answer"?, "correct": bool}, …]}
    {"problem_id", "question", "gold_answer"?, "candidates": [{"steps", "answer", "is_correct", "is_correct_regraded"}, …]}

Text is cut at blank lines. A scores file names a candidate "{problem id}#{index}", counted from 0. For N = 1, 2, 4, … up to
the (smallest) pool: best-of-N by each aggregation, weighted vote, majority vote, pass@N and the accuracy of one sample,
each the expected value over random subsets of N (`footfall.bench._pool`); at the pool's size it is the pool itself.

Votes count a candidate's own answer: that of the first schema's field, else what its text states, else (second schema) the
released field. `answer_regraded` of the second schema is never read: it was found with the reference answer in hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from footfall.answers import extract
from footfall.bench._pool import best_of, sizes_up_to, subsets, vote_of
from footfall.bench._records import Names, data_files, name_of, no_records, records, response_steps
from footfall.bench.groups import Measure, Rows, ratio
from footfall.bench.intervals import Floats
from footfall.bench.processbench import file_revision
from footfall.bench.runner import Benchmark, Case
from footfall.formats import Fields
from footfall.registry import register
from footfall.search.aggregate import AGGREGATIONS, Aggregation, aggregate
from footfall.search.votes import group, pass_at_k
from footfall.types import Judgement, Problem, Step, Trajectory

__all__ = ["Labels", "Pool", "best_of_n_pool", "read_pools"]

Labels = Literal["regraded", "released"]


@register("benchmark", "best-of-n")
def best_of_n_pool(
    data: str | Path,
    aggregations: Sequence[Aggregation] = ("min", "prod", "last", "mean"),
    vote: Aggregation = "last",
    labels: Labels = "regraded",
    votes: bool = True,
    drawn: int = 256,
    seed: int = 0,
) -> Benchmark:
    """Best-of-N pools: accuracy of a judge's choice among candidates, from any JSON lines of them.

    `labels` chooses the verdicts of the second schema. Votes compare answers as mathematics, which takes minutes for
    thousands of formulas; without `votes` they are left out. `drawn` subsets stand for all where there are more.
    """
    for how in (*aggregations, vote):
        if how not in AGGREGATIONS:
            raise ValueError(f"no aggregation is called {how!r}; there are {', '.join(AGGREGATIONS)}")
    files = data_files(data)
    pools = [pool for path in files for pool in read_pools(path, labels)]
    if not pools:
        raise no_records(data, "problem with candidates")
    smallest, largest = min(len(p.cases) for p in pools), max(len(p.cases) for p in pools)
    return Benchmark(
        name="best-of-n",
        cases=[case for pool in pools for case in pool.cases],
        measure=_measure(pools, _Settings(tuple(aggregations), vote, sizes_up_to(smallest), votes, drawn, seed)),
        protocol=f"expected value over subsets of N candidates; best of N by {', '.join(aggregations)} of the step values "
        f"(own: the judge's own value), weighted vote by {vote}, majority, pass and one sample need no judge; a product or a "
        "weighted vote needs values that are not negative",
        objective=f"best_{aggregations[0]}" if aggregations else "majority",
        revision=file_revision(files),
        notes=() if smallest == largest else (f"pools have {smallest} to {largest} candidates; N ends at {smallest}",),
    )


@dataclass(frozen=True)
class Pool:
    """The candidates of one problem."""

    cases: list[Case]
    correct: list[bool]

    @cached_property
    def answers(self) -> list[int | None]:
        """For each candidate the first one with an equal answer, `None` without an answer. Slow, hence found once."""
        problem = self.cases[0].trajectory.problem
        return group([case.trajectory.answer for case in self.cases], problem.domain)


def read_pools(path: Path, labels: Labels = "regraded") -> Iterator[Pool]:
    """The pools of one file, one a record."""
    split, names = path.name.partition(".")[0], Names()
    for fields in records(path):
        read = _released if "problem_id" in fields else _neutral
        problem, candidates = read(fields, names, labels)
        if not candidates:
            raise fields.wrong("candidates", "at least one candidate")
        cases = [_case(split, problem, i, candidate) for i, candidate in enumerate(candidates)]
        yield Pool(cases, [candidate.correct for candidate in candidates])


class _Candidate(NamedTuple):
    steps: tuple[Step, ...]
    answer: str | None
    correct: bool


def _neutral(fields: Fields, names: Names, labels: Labels) -> tuple[Problem, list[_Candidate]]:
    problem = Problem(names.unique(name_of(fields)), fields.text("problem"), fields.text_or_none("answer"))
    candidates = []
    for given in fields.records("candidates"):
        steps = tuple(map(Step, given.texts("steps"))) if "steps" in given else response_steps(given.text("text"))
        answer = given.text_or_none("answer")
        stated = extract(_text(steps)) if answer is None else answer
        candidates.append(_Candidate(steps, stated, given.boolean("correct")))
    return problem, candidates


def _released(fields: Fields, names: Names, labels: Labels) -> tuple[Problem, list[_Candidate]]:
    verdict = "is_correct_regraded" if labels == "regraded" else "is_correct"
    name = names.unique(name_of(fields, "problem_id"))
    problem = Problem(name, fields.text("question"), fields.text_or_none("gold_answer"))
    candidates = []
    for given in fields.records("candidates"):
        steps = tuple(map(Step, given.texts("steps")))
        stated = extract(_text(steps)) or given.text_or_none("answer")
        candidates.append(_Candidate(steps, stated, given.boolean(verdict)))
    return problem, candidates


def _text(steps: Sequence[Step]) -> str:
    return "\n\n".join(step.text for step in steps)


def _case(split: str, problem: Problem, index: int, candidate: _Candidate) -> Case:
    name = f"{problem.id}#{index}"
    trajectory = Trajectory(name, problem, candidate.steps, candidate.answer)
    truth = Judgement(name, (None,) * len(candidate.steps), "reference", float(candidate.correct))
    return Case(split, trajectory, truth, problem.id)


class _Settings(NamedTuple):
    aggregations: tuple[str, ...]
    vote: str
    ns: tuple[int, ...]
    votes: bool
    subsets: int
    seed: int


def _measure(pools: Sequence[Pool], settings: _Settings) -> Measure:
    """Over whole pools: a candidate that was not scored (or is not in the scores file) is still a candidate."""
    place = {case.trajectory.id: (p, i) for p, pool in enumerate(pools) for i, case in enumerate(pool.cases)}

    def measure(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Rows:
        said: dict[int, list[Judgement | None]] = {}
        first: dict[int, int] = {}
        for number, (case, judgement) in enumerate(zip(cases, judgements, strict=True)):
            p, i = place[case.trajectory.id]
            said.setdefault(p, [None] * len(pools[p].cases))[i] = judgement
            first.setdefault(p, number)
        figures = _figures([pools[p] for p in said], list(said.values()), settings)
        weights_RP = weights_RN[:, list(first.values())]
        rows = {
            f"N={n}": {name: _mean(table_NP[k], weights_RP) for name, table_NP in figures.items()}
            for k, n in enumerate(settings.ns)
        }
        return {cases[0].split: dict(rows[f"N={settings.ns[-1]}"]), **rows}

    return measure


def _mean(values_P: Floats, weights_RP: Floats) -> Floats:
    known = np.isfinite(values_P)
    return ratio(weights_RP[:, known] @ values_P[known], weights_RP[:, known].sum(axis=1))


Said = Sequence[Sequence["Judgement | None"]]
"""problem -> candidate -> what the judge said."""


def _figures(pools: Sequence[Pool], said: Said, settings: _Settings) -> dict[str, Floats]:
    """figure -> accuracy by N and problem; NaN where there is nothing to choose by."""
    names = [*settings.aggregations, *(["own"] if _any(said, lambda j: j.value is not None) else [])]
    found = {f"best_{how}": _best(pools, _scores(said, how), settings) for how in names}
    if settings.votes and any(case.trajectory.answer is not None for pool in pools for case in pool.cases):
        ones = [[1.0] * len(pool.cases) for pool in pools]
        found["weighted"] = _vote(pools, _scores(said, settings.vote), settings)
        found["majority"] = _vote(pools, ones, settings)
    found["pass"] = _table(pools, settings, lambda p, n: pass_at_k(len(pools[p].cases), sum(pools[p].correct), n))
    found["one_sample"] = _table(pools, settings, lambda p, n: sum(pools[p].correct) / len(pools[p].cases))
    if _any(said, lambda j: None in j.values) or any(None in row for row in said):
        shares = [sum(j is None or None in j.values for j in row) / len(row) for row in said]
        found["unscored"] = _table(pools, settings, lambda p, n: shares[p])
    return found


def _any(said: Said, true_of: Callable[[Judgement], bool]) -> bool:
    return any(judgement is not None and true_of(judgement) for row in said for judgement in row)


Scored = Sequence[Sequence["float | None"]]


def _scores(said: Said, how: str) -> Scored | None:
    """problem -> candidate -> score; nothing if a product is asked for and a value is negative."""
    if how == "own":
        return [[None if j is None else j.value for j in row] for row in said]
    if how == "prod" and _any(said, lambda j: any(v is not None and v < 0 for v in j.values)):
        return None
    return [[None if j is None else aggregate(j.values, how) for j in row] for row in said]


def _best(pools: Sequence[Pool], scores: Scored | None, settings: _Settings) -> Floats:
    if scores is None:
        return _table(pools, settings, lambda p, n: math.nan)
    return _table(pools, settings, lambda p, n: best_of(scores[p], pools[p].correct, n))


def _vote(pools: Sequence[Pool], weights: Scored | None, settings: _Settings) -> Floats:
    """A negative weight would take votes away from the answer that it was given for: then there is no figure."""
    if weights is None or any(weight is not None and weight < 0 for row in weights for weight in row):
        return _table(pools, settings, lambda p, n: math.nan)

    def accuracy(p: int, n: int) -> float:
        inside_SM = subsets(len(pools[p].cases), n, settings.subsets, settings.seed)
        return vote_of(inside_SM, pools[p].answers, weights[p], pools[p].correct)

    return _table(pools, settings, accuracy)


def _table(pools: Sequence[Pool], settings: _Settings, accuracy: Callable[[int, int], float]) -> Floats:
    return np.asarray([[accuracy(p, n) for p in range(len(pools))] for n in settings.ns])
