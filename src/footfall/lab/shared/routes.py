"""How alike solutions are: by what they say step by step, whatever the words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations

from footfall.lab.shared.known import WritesWell
from footfall.types import Trajectory

_RELATION = re.compile(r"[-+*/^() 0-9a-z]*=[-+*/^() 0-9a-z,=]*")


class ByRoute:
    """A policy's value of a prefix, worked out once for all wordings of the same relations."""

    def __init__(self, policy: WritesWell) -> None:
        self.policy, self.name = policy, policy.name
        self._known: dict[tuple[str, ...], float] = {}

    def value(self, prefix: Trajectory) -> float:
        """The exact chance of success."""
        key = (prefix.problem.id, *route(prefix))
        if key not in self._known:
            self._known[key] = self.policy.value(prefix)
        return self._known[key]


def route(trace: Trajectory) -> tuple[str, ...]:
    """What a solution says step by step: its relations without the words around them, its answer in full."""
    return tuple(_relations(step.text) for step in trace.steps)


def lines(trace: Trajectory) -> tuple[str, ...]:
    """Its steps as they are written."""
    return tuple(step.text for step in trace.steps)


@lru_cache(maxsize=1 << 16)
def _relations(text: str) -> str:
    found = "" if "answer" in text else "".join(_RELATION.findall(text))
    return re.sub(r"[a-z]{2,}|\s", "", found) or text


def similarity(traces: Sequence[Trajectory], parts: Callable[[Trajectory], tuple[str, ...]] = route) -> float:
    """Mean Jaccard similarity of the parts of two right solutions; 1 where there are no two."""
    routes = [set(parts(trace)) for trace in traces if trace.correct]
    shared = [len(a & b) / max(1, len(a | b)) for a, b in combinations(routes, 2)]
    return sum(shared) / len(shared) if shared else 1.0
