"""Judges that stop at the first error: what follows from a wrong step is worth no more than it.

A critic names the first wrong step and leaves those after it unjudged. That is a verdict on the whole trace, not a call that
failed:

    v_k = v_e   for the steps k after the first error e that the judge left out for that reason
"""

from __future__ import annotations

from dataclasses import replace

from footfall.types import Judgement, Reason, Unjudged, failures_of


def carried(said: Judgement) -> Judgement:
    """The same judgement with the error's value on the steps after it; unchanged if nothing was left out for that."""
    if not any(map(_stopped, said.failures)):
        return said
    values, failures = list(said.values), list(said.failures)
    known: float | None = None
    for k, value in enumerate(said.values):
        if value is None and known is not None and _stopped(failures[k]):
            values[k], failures[k] = known, None
        else:
            known = value
    return replace(said, values=tuple(values), failures=failures_of(failures))


def _stopped(why: Unjudged | None) -> bool:
    return why is not None and why.reason is Reason.AFTER_ERROR
