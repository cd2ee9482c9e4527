"""`footfall label --method omegaprm --trees N`: process data from the problems of a file, by OmegaPRM's tree search."""

from __future__ import annotations

import time
from collections.abc import Sequence

from footfall.commands._judges import without_seconds
from footfall.label.binary_search import BinarySearch
from footfall.label.omegaprm import OmegaPRM
from footfall.label.tally import ungradable
from footfall.store import Run
from footfall.types import Cost, Judge, Judged, Trajectory

__all__ = ["grown_rows", "tree_search", "without_answer"]


def tree_search(judge: Judge, searches: int) -> OmegaPRM:
    """The tree search with the policy and the rollouts of the binary search that `--method omegaprm` is."""
    if not isinstance(judge, BinarySearch):
        raise ValueError(f"--trees grows the trees of --method omegaprm; {judge.name} has none")
    if judge.lost or judge.estimate != "hard":
        raise ValueError("--trees values nodes by their success rates: it takes no --values and no --set lost=…")
    return OmegaPRM(judge.policy, judge.rollouts, searches, params=judge.params)


def grown_rows(run: Run, method: OmegaPRM, traces: Sequence[Trajectory], chunk: int) -> list[Judged]:
    """A row for each valued node of the trees of these traces' problems, each problem once, in order.

    Chunks are not saved, for a tree has any number of rows: after a kill the rollout store has what was paid for.
    """
    rows: list[Judged] = []
    tops = list({trace.prefix(0).key: (trace.problem, trace.separator) for trace in traces}.values())
    for index, start in enumerate(range(0, len(tops), chunk)):
        begun, part = time.monotonic(), tops[start : start + chunk]
        for separator in dict.fromkeys(separator for _, separator in part):
            found = method.collect([problem for problem, own in part if own == separator], separator)
            rows += [Judged(trace, said and without_seconds(said)) for trace, said in found]
        seconds = round(time.monotonic() - begun, 3)
        run.log("chunk", stage="trees", index=index, items=len(part), seconds=seconds)
    run.cost += Cost.total(row.judgement.cost for row in rows if row.judgement is not None)
    return rows


def without_answer(traces: Sequence[Trajectory]) -> int:
    """How many different problems have no tree, for nobody could say which rollouts are right."""
    return len({trace.problem.id for trace in traces if ungradable(trace.problem)})
