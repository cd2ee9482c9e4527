"""Several servers of one model, used as one: the least busy is asked first, one that failed is left out for a while.

    --policy http://node1:8000/v1,http://node2:8000/v1

The request, its seed included, is the same for each of them, so where servers are deterministic it does not matter who answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Member:
    """One server of a pool."""

    url: str
    busy: int = 0
    """Requests under way."""
    failures: int = 0
    """In a row."""
    out_until: float = 0.0


class Pool:
    """Chooses the server of each request, and remembers who failed."""

    def __init__(
        self, urls: tuple[str, ...], first_wait: float, longest_wait: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._members = [_Member(url) for url in urls]
        self._first_wait, self._longest_wait, self._now = first_wait, longest_wait, now

    @contextmanager
    def member(self, been: Collection[str] = ()) -> Iterator[str]:
        """The address for one request: of those that are not left out the least busy, else the one whose time comes first.

        Where the request has `been` in vain comes after the others: who fails is seldom busy.
        """
        now = self._now()
        in_use = [member for member in self._members if member.out_until <= now]
        in_use = [member for member in in_use if member.url not in been] or in_use
        chosen = min(in_use, key=lambda m: m.busy) if in_use else min(self._members, key=lambda m: m.out_until)
        chosen.busy += 1
        try:
            yield chosen.url
        finally:
            chosen.busy -= 1

    def answered(self, url: str) -> None:
        """It works (again)."""
        self._of(url).failures = 0

    def failed(self, url: str, wait: float) -> bool:
        """Leave it out for `wait` seconds, or longer the more often it failed in a row; whether another can be asked now.

        Of many requests that were under way when it failed, and fail with the first, it is not left out any longer.
        """
        member, now = self._of(url), self._now()
        if member.out_until <= now:
            member.failures += 1
            wait = max(wait, self._first_wait * 2 ** min(member.failures - 1, 40))
        member.out_until = max(member.out_until, now + min(self._longest_wait, wait))
        return any(other.out_until <= now for other in self._members if other is not member)

    def _of(self, url: str) -> _Member:
        return next(member for member in self._members if member.url == url)
