"""Why steps have no value: how often each reason was given, those that are alike as one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from footfall.types import Problem

_NUMBER = re.compile(r"(?<!HTTP )\b\d+\b")
"""A status of a server is no number but a name."""
_ANY = "…"


def counted(reasons: Iterable[tuple[str | None, Problem]]) -> dict[str, int]:
    """How often each was given, the most frequent first.

    A reason that names its problem is counted with those of other problems. Where reasons are alike but for numbers, as the
    places at which replies broke off are, "…" stands for a number that differs.
    """
    return alike(Counter(in_general(reason, problem) for reason, problem in reasons))


def alike(told: Mapping[str, int]) -> dict[str, int]:
    """Reasons that differ in numbers alone as one."""
    alike: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for reason, count in told.items():
        alike[_NUMBER.sub(_ANY, reason)][reason] = count
    return dict(Counter({_common(list(group)): group.total() for group in alike.values()}).most_common())


def in_general(reason: str | None, problem: Problem) -> str:
    return (reason or "no reason given").replace(f"problem {problem.id!r}", "the problem")


def _common(reasons: Sequence[str]) -> str:
    """The words that all have, and the numbers in which they agree."""
    numbers = zip(*(_NUMBER.findall(reason) for reason in reasons), strict=True)
    agreed = iter([each[0] if len(set(each)) == 1 else _ANY for each in numbers])
    return _NUMBER.sub(lambda _: next(agreed), reasons[0])
