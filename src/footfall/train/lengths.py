"""How long a sequence may be: `max_length` and the model's context hold in every training, and nothing is cut."""

from __future__ import annotations


def length_limit(wanted: int | None, *known: int | None) -> int | None:
    """Tokens at most: what was asked for (`max_length`, None: no matter) and no more than the model's known contexts."""
    return min((limit for limit in (wanted, *known) if limit is not None), default=None)
