"""Best-of-N pools: candidates that were drawn once, chosen among by a judge (card: best-of-n).

A pool is JSON lines, one problem a line, in either schema (a folder may hold several such files, each a split):

    {"id", "problem", "answer"?, "candidates": [{"steps": [text, …] or "text": text, "answer"?, "correct": bool}, …]}
    {"problem_id", "question", "gold_answer"?, "candidates": [{"steps", "answer", "is_correct", "is_correct_regraded"}, …]}

Any other file, say what `footfall sample` or `footfall score --to` wrote, or a pool whose candidates are texts, is read as
traces, and those of one problem are its candidates: right or wrong as they say, else as their answer is the reference.

Text is cut at blank lines. A scores file names a candidate "{problem id}#{index}", counted from 0, or by the id of its trace.
For N = 1, 2, 4, … up to the (smallest) pool: best-of-N by each aggregation, weighted vote, majority vote, pass@N and the
accuracy of one sample, each the expected value over random subsets of N (`footfall.metrics.preferences`); at the pool's size
it is the pool itself.

Votes count a candidate's own answer: that of the first schema's field, else what its text states, else (second schema) the
released field. `answer_regraded` of the second schema is never read: it was found with the reference answer in hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from footfall.answers import equal, extract, grade
from footfall.benchmarks.records import (
    Names,
    data_files,
    file_revision,
    name_of,
    no_records,
    records,
    response_steps,
    stem,
)
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields, FormatError, iter_read
from footfall.metrics.cases import Case, Measure, Rows, by_group
from footfall.metrics.intervals import Floats
from footfall.metrics.preferences import accuracy, best_of, sizes_up_to, subsets, vote_of
from footfall.registry import register
from footfall.search.votes import AGGREGATIONS, Aggregation, aggregate, group, pass_at_k
from footfall.types import Judgement, Problem, Step, Trajectory

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
    """Best-of-N pools: accuracy of a judge's choice among candidates, from any file of pools or traces.

    `labels` chooses the verdicts of the second schema. Votes compare answers as mathematics, which takes minutes for
    thousands of formulas; without `votes` they are left out. `drawn` subsets stand for all where there are more.
    """
    for how in (*aggregations, vote):
        if how not in AGGREGATIONS:
            raise ValueError(f"no aggregation is called {how!r}; there are {', '.join(AGGREGATIONS)}")
    files, others = _pool_files(data)
    names = Names()
    pools = [pool for path in files for pool in read_pools(path, labels, names)]
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
        notes=_notes(smallest, largest, others),
    )


def _pool_files(data: str | Path) -> tuple[list[Path], list[Path]]:
    """The files with pools, and those of a folder that hold something else."""
    files = data_files(data)
    if Path(data).is_file():
        return files, []
    pools = [path for path in files if (first := next(iter(records(path)), None)) is not None and "candidates" in first]
    if not pools:
        raise no_records(data, "problem with candidates")
    return pools, [path for path in files if path not in pools]


def _notes(smallest: int, largest: int, others: Sequence[Path]) -> tuple[str, ...]:
    notes = [] if smallest == largest else [f"pools have {smallest} to {largest} candidates; N ends at {smallest}"]
    if others:
        notes.append(f"files without candidates are left out: {', '.join(path.name for path in others)}")
    return tuple(notes)


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


def read_pools(path: Path, labels: Labels = "regraded", names: Names | None = None) -> Iterator[Pool]:
    """The pools of one file, one a record; `names` keep the problem ids of several files apart."""
    split, names = stem(path), Names() if names is None else names
    first = next(iter(records(path)), None)
    if first is not None and not _is_pool(first):
        yield from _pools_of_traces(path, first, names)
        return
    for fields in records(path):
        if "candidates" not in fields:
            raise _no_pool(fields)
        read = _released if "problem_id" in fields else _neutral
        problem, candidates = read(fields, names, labels)
        if not candidates:
            raise fields.wrong("candidates", "at least one candidate")
        cases = [_case(split, problem, i, candidate) for i, candidate in enumerate(candidates)]
        yield Pool(cases, [candidate.correct for candidate in candidates])


def _is_pool(first: Fields) -> bool:
    """Whether a file that begins so is of one of the two schemas, whose candidates are objects."""
    given = first.data.get("candidates")
    return isinstance(given, list) and all(isinstance(each, Mapping) for each in given)


def _pools_of_traces(path: Path, first: Fields, names: Names) -> Iterator[Pool]:
    """The traces of each problem together, in the order of the file."""
    found: dict[str, list[Trajectory]] = {}
    try:
        for row in iter_read(path):
            if row.trajectory.steps:
                found.setdefault(row.trajectory.problem.id, []).append(row.trajectory)
    except FormatError as error:
        if "candidates" in first or found:
            raise
        raise _no_pool(first) from error
    if max(map(len, found.values()), default=0) < 2:
        raise _no_pool(first)
    for given in found.values():
        traces = [_graded(trace, path) for trace in given]
        problem = replace(traces[0].problem, id=names.unique(traces[0].problem.id))
        yield Pool([_case_of(stem(path), problem, t) for t in traces], [bool(t.correct) for t in traces])


def _no_pool(first: Fields) -> FormatError:
    record = '{"id", "problem", "candidates": [{"steps", "correct"}, …]}'
    shape = f"all candidates of a problem in one record, as {record}, or several traces of it"
    fix = "`footfall sample --n` draws several; `footfall search` samples and chooses in one command"
    return first.error("candidates", shape, first.held(), fix)


def _case_of(split: str, problem: Problem, trace: Trajectory) -> Case:
    """A trace as a candidate; the judge is not told whether it is right."""
    truth = Judgement(trace.id, (None,) * len(trace.steps), "reference", float(bool(trace.correct)))
    return Case(split, replace(trace, problem=problem, correct=None), truth, problem.id)


def _graded(trajectory: Trajectory, path: Path) -> Trajectory:
    """With the answer that it states and whether it is right, which the trace itself may know."""
    graded = grade(trajectory)
    correct = graded.correct if trajectory.correct is None else trajectory.correct
    if correct is None:
        expected = f"whether trace {trajectory.id!r} is right, or its problem's reference answer"
        raise FormatError(str(path), expected, got="neither", fix='write "correct", or "answer" as the reference')
    return replace(graded, correct=correct)


class _Candidate(NamedTuple):
    steps: tuple[Step, ...]
    answer: str | None
    correct: bool


def _neutral(fields: Fields, names: Names, labels: Labels) -> tuple[Problem, list[_Candidate]]:
    problem = Problem(names.unique(name_of(fields)), fields.text("problem"), fields.text_or_none("answer"))
    candidates = []
    for given in fields.records("candidates"):
        steps = _steps(given) if "steps" in given else response_steps(given.text("text"))
        answer = given.text_or_none("answer")
        stated = extract(_text(steps)) if answer is None else answer
        candidates.append(_Candidate(steps, stated, _verdict(given, stated, problem)))
    return problem, candidates


def _verdict(given: Fields, stated: str | None, problem: Problem) -> bool:
    if "correct" in given or problem.answer is None:
        return given.boolean("correct")
    return stated is not None and equal(stated, problem.answer)


def _released(fields: Fields, names: Names, labels: Labels) -> tuple[Problem, list[_Candidate]]:
    verdict = "is_correct_regraded" if labels == "regraded" else "is_correct"
    name = names.unique(name_of(fields, "problem_id"))
    problem = Problem(name, fields.text("question"), fields.text_or_none("gold_answer"))
    candidates = []
    for given in fields.records("candidates"):
        steps = _steps(given)
        stated = extract(_text(steps)) or given.text_or_none("answer")
        candidates.append(_Candidate(steps, stated, given.boolean(verdict)))
    return problem, candidates


def _steps(given: Fields) -> tuple[Step, ...]:
    texts = given.texts("steps")
    if not texts:
        raise given.wrong("steps", "at least one step")
    return tuple(map(Step, texts))


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
    pool_of = {pool.cases[0].group: pool for pool in pools}
    several = len({pool.cases[0].split for pool in pools}) > 1

    def measure(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Rows:
        members = by_group(cases)
        rows: Rows = {}
        for split in dict.fromkeys(split for split, _ in members):
            groups = {group: inside for (of, group), inside in members.items() if of == split}
            said = [[judgements[i] for i in inside] for inside in groups.values()]
            figures = _figures([pool_of[group] for group in groups], said, settings)
            weights_RP = weights_RN[:, [inside[0] for inside in groups.values()]]
            by_n = [
                {name: accuracy(table[k], weights_RP)["accuracy"] for name, table in figures.items()}
                for k in range(len(settings.ns))
            ]
            rows[split] = dict(by_n[-1])
            rows |= {f"{split} N={n}" if several else f"N={n}": by_n[k] for k, n in enumerate(settings.ns)}
        return rows

    return measure


Said = Sequence[Sequence[Judgement]]
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
    shares = [sum(j.value is None and (not j.values or None in j.values) for j in row) / len(row) for row in said]
    if any(shares):
        found["unscored"] = _table(pools, settings, lambda p, n: shares[p])
    return found


def _any(said: Said, true_of: Callable[[Judgement], bool]) -> bool:
    return any(true_of(judgement) for row in said for judgement in row)


Scored = Sequence[Sequence["float | None"]]


def _scores(said: Said, how: str) -> Scored | None:
    """problem -> candidate -> score; nothing if a product is asked for and a value is negative."""
    if how == "prod" and _any(said, lambda j: any(v is not None and v < 0 for v in j.values)):
        return None
    return [[_score(judgement, how) for judgement in row] for row in said]


def _score(judgement: Judgement, how: str) -> float | None:
    """The step values as asked; the judge's own value if it is asked for, or if steps were not judged."""
    folded = None if how == "own" else aggregate(judgement.values, how)
    return judgement.value if folded is None else folded


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
