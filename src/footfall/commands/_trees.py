"""`footfall label --trees`: new traces on the problems of given ones; where trees begin, who grows them, what they gave."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from footfall.commands._judges import without_seconds
from footfall.commands._options import PolicyOptions
from footfall.commands._parts import StandIns, make_part, open_policy
from footfall.commands._reasons import in_general
from footfall.drive.rollouts import ungradable
from footfall.drive.trees import TreeLabeller
from footfall.formats import Mapped, Spool
from footfall.formats.nouns import to_plain
from footfall.formats.spool import IN_MEMORY, Shards
from footfall.policy.protocol import Policy
from footfall.registry import System, declared, parts, systems
from footfall.store import Run, Task
from footfall.types import Harvest, Judged, Problem, Trajectory, content_key


class Found(NamedTuple):
    """Rows, wherever they lie, and what the trees that they are of tell beside them (`Harvest`)."""

    rows: Sequence[Judged]
    barren: Mapping[str, int] = MappingProxyType({})
    """Why problems have no tree, and how many."""
    rollouts: int = 0
    unfinished: int = 0


def tree_labeller(
    name: str,
    trees: int,
    asked: Mapping[str, Any],
    offered: Mapping[str, Any],
    opening: Callable[[PolicyOptions], Policy],
) -> TreeLabeller:
    """The method of that name, or of a published system's, with the options that were given."""
    known = systems("tree-labeller")
    system = known.get(name, System(name, {}))
    if system.part not in parts("tree-labeller"):
        *others, last = parts("tree-labeller")
        raise ValueError(f"--trees grows the trees of --method {', '.join(others)} or {last}; {name} has none")
    if not declared("tree-labeller", system.part).stored and not isinstance(opening, StandIns):
        opening = open_policy
    asked = {**system.settings, **asked, "trees": trees}
    made: TreeLabeller = make_part("tree-labeller", system.part, asked, offered, opening)
    return made


class _Top(NamedTuple):
    """Where a tree begins: a problem, and what its traces have after each step."""

    problem: Problem
    separator: str

    @property
    def key(self) -> str:
        return content_key(to_plain(self.problem), self.separator)


def growing(method: TreeLabeller) -> Task:
    """What a run does with a chunk of problems, in this process or in a worker: one harvest, of any number of rows."""

    def work(part: Sequence[_Top]) -> list[Harvest]:
        found = Harvest()
        for separator in dict.fromkeys(top.separator for top in part):
            found += method.harvest([top.problem for top in part if top.separator == separator], separator)
        rows = [Judged(trace, said and without_seconds(said)) for trace, said in found.rows]
        return [replace(found, rows=rows, cost=replace(found.cost, seconds=0.0))]

    return Task(work, "harvest", (method,))


def harvested(run: Run, method: TreeLabeller, traces: Sequence[Trajectory], chunk: int) -> Found:
    """What the trees of these traces' problems gave; rows stay in the run's shards."""
    tops = _tops(traces)
    shards, sizes = Shards(run.folder / "trees"), array("q")
    barren: Counter[str] = Counter()
    rollouts = unfinished = 0
    for (found,) in run.each(
        "trees", tops, len(tops), growing(method), key=lambda top: top.key, chunk=chunk, per_item=None,
        made_by=method.name, shards=shards,
    ):  # fmt: skip
        sizes.append(len(found.rows))
        barren.update(in_general(reason, problem) for problem, reason in found.barren)
        rollouts, unfinished = rollouts + found.rollouts, unfinished + found.unfinished
    rows: Spool[Judged] = Spool("harvest", shards, sizes, inside="rows")
    return Found(rows if len(rows) > IN_MEMORY else list(rows), barren, rollouts, unfinished)


def _tops(traces: Sequence[Trajectory]) -> Sequence[_Top]:
    """Each problem once, in the order of first traces and as its last one has it. Of many traces numbers are held, no more."""
    import numpy as np

    names = np.asarray(array("Q", (int(trace.prefix(0).key[:16], 16) for trace in traces)))
    _, first = np.unique(names, return_index=True)
    _, from_end = np.unique(names[::-1], return_index=True)
    places = (len(names) - 1 - from_end)[np.argsort(first)].data

    def top(place: int) -> _Top:
        trace = traces[place]
        return _Top(trace.problem, trace.separator)

    return Mapped(top, places)


def without_answer(traces: Sequence[Trajectory]) -> int:
    """How many different problems have no tree, for nobody could say which rollouts are right."""
    import numpy as np

    return len(np.unique(array("q", (hash(trace.problem.id) for trace in traces if ungradable(trace.problem)))))
