"""Names for the beginnings of token sequences: a cache finds a long prefix without hashing each beginning whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

__all__ = ["beginning_keys"]


def beginning_keys(ids: tuple[int, ...], ends: Sequence[int]) -> list[int]:
    """A key for each `ids[:end]`, ends ascending: key_k = hash(key_{k-1}, ids[end_{k-1} : end_k]), key_0 = 0.

    All together take one pass. Sequences that begin alike and are cut alike have equal keys; that others have not is only very
    likely, so who finds something by a key compares the ids.
    """
    pieces = (ids[start:end] for start, end in zip((0, *ends), ends, strict=False))
    return list(accumulate(pieces, lambda key, piece: hash((key, piece)), initial=0))[1:]
