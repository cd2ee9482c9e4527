"""What a 0 means in the `labels` of a file: a wrong step beside 1, a neutral one beside -1 and 1.

A list that has a -1 says which it is, one of 0 and 1 does not: in a file that has both, it may be either.
"""

from __future__ import annotations


class Signs:
    """Where the lists of a file stand, one that has a -1 and one that has a 0 and no -1."""

    def __init__(self) -> None:
        self._first: dict[bool, int] = {}

    def other(self, signed: bool, line: int) -> int | None:
        """Take note of a list; the line of the first of the other kind, if there is one."""
        self._first.setdefault(signed, line)
        return self._first.get(not signed)
