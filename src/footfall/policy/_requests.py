"""What goes into the engine and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Generated", "Request", "Usage"]


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to write: the ids it continues, its own seed, and a rule that says where it may stop early."""

    ids: tuple[int, ...]
    seed: int
    max_tokens: int
    shared: int = 0
    """How many of `ids` other requests are likely to share (the problem's prompt)."""
    stops: Callable[[list[int]], bool] | None = None
    """Called after a token in `stop_tokens` was drawn."""


@dataclass(slots=True)
class Generated:
    """What was written after a request's ids; `ended` if by an end-of-text token, which is left out of `tokens`."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False
    stopped: bool = False
    prefilled: int = 0
    """Prefix tokens that had to be read for this sequence; others are charged to the sequence they were read for."""
    cached: int = 0
    decoded: int = 0


@dataclass(slots=True)
class Usage:
    """Tokens that went through the model, and tokens that did not have to."""

    prefilled: int = 0
    cached: int = 0
    decoded: int = 0
    steps: int = 0
