"""A canary for checkpoints: traces whose ids and values are known are scored again at load.

A PRM with zeroed rotary buffers, a re-saved tokenizer or a lost head still runs and still gives numbers. Constant
values, other ids, other values or a reversed good/bad pair are refused, with the likely cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import torch

from footfall.render import Reading
from footfall.types import Problem, Step, Trajectory

CONSTANT = 1e-6


class CanaryError(ValueError):
    """The loaded weights or tokenizer do not do what they did when they were saved."""


class Reader(Protocol):
    """What a model must offer to be checked."""

    def read(self, trajectory: Trajectory) -> Reading:
        """The ids of a trace, and where each step is read."""
        ...

    def score(self, readings: Sequence[Reading]) -> list[tuple[float, ...]]:
        """One value a step, of each reading."""
        ...


class Place(NamedTuple):
    """A step of a canary trace."""

    trace: int
    step: int


@dataclass(frozen=True)
class CanaryTrace:
    """A trace as text, with the ids and values that belong to it."""

    prompt: str
    steps: tuple[str, ...]
    separator: str
    ids: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, trajectory: Trajectory) -> CanaryTrace:
        """The text of a trace; ids and values come when it is scored."""
        return cls(trajectory.problem.text, tuple(s.text for s in trajectory.steps), trajectory.separator)

    @property
    def trajectory(self) -> Trajectory:
        """The trace to be scored again."""
        steps = tuple(Step(text) for text in self.steps)
        return Trajectory("canary", Problem("canary", self.prompt), steps, separator=self.separator)


@dataclass(frozen=True)
class Canary:
    """Traces with their known values; `good` must be valued above `bad` where the pair is given."""

    traces: tuple[CanaryTrace, ...]
    good: Place | None = None
    bad: Place | None = None

    def value(self, place: Place) -> float:
        """The known value of a step."""
        return self.traces[place.trace].values[place.step]

    def to_dict(self) -> dict[str, Any]:
        """As the model's config keeps it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Canary:
        """What `to_dict` gave, from JSON."""

        def trace(t: Mapping[str, Any]) -> CanaryTrace:
            return CanaryTrace(t["prompt"], tuple(t["steps"]), t["separator"], tuple(t["ids"]), tuple(t["values"]))

        pair = (Place(*given[k]) if given.get(k) else None for k in ("good", "bad"))
        return cls(tuple(trace(t) for t in given["traces"]), *pair)


def default_pair() -> tuple[Trajectory, Trajectory]:
    """One problem solved rightly and wrongly, for models that bring no pair of their own."""
    problem = "Anna has 3 apples. She buys 4 more and gives 2 away. How many apples does she have?"
    good = CanaryTrace(problem, ("3 + 4 = 7.", "7 - 2 = 5.", "The answer is 5."), "\n\n")
    bad = CanaryTrace(problem, ("3 + 4 = 9.", "9 - 2 = 1.", "The answer is 1."), "\n\n")
    return good.trajectory, bad.trajectory


def make_canary(model: Reader, traces: Sequence[Trajectory]) -> Canary:
    """Write down what the model says now of these traces."""
    known = []
    for plain in map(CanaryTrace.of, traces):
        reading = model.read(plain.trajectory)
        with _full_precision():
            (values,) = model.score([reading])
        known.append(CanaryTrace(plain.prompt, plain.steps, plain.separator, reading.ids, values))
    return Canary(tuple(known))


def check_canary(model: Reader, canary: Canary, source: str, tolerance: float, chances: bool = False) -> None:
    """Score the canary again and compare; an error says what is wrong and the likely cause.

    Where values are probabilities (`chances`) a lost head says one half of everything, so a model may be sure of all steps.
    """
    readings = [model.read(trace.trajectory) for trace in canary.traces]
    for trace, reading in zip(canary.traces, readings, strict=True):
        if reading.ids != trace.ids:
            raise CanaryError(
                f"{source}: the tokenizer turns the canary trace into {len(reading.ids)} ids that differ from the "
                f"{len(trace.ids)} stored ones; its files were changed or read by another transformers version"
            )
    with _full_precision():
        values = model.score(readings)
    if not (chances and _sure(canary)):
        refuse_constant([v for trace_values in values for v in trace_values], source)
    _refuse_other_values(canary, values, source, tolerance)
    _refuse_reversed(canary, values, source)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Products of float32 matrices without TF32, whatever the process has set: else a model that was trained with it on would
    seem to have changed when it is loaded without."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _sure(canary: Canary) -> bool:
    """Whether the model said 0, or 1, of every step when it was saved: training can end there."""
    known = [value for trace in canary.traces for value in trace.values]
    return any(all(abs(value - end) <= CONSTANT for value in known) for end in (0.0, 1.0))


def refuse_constant(values: Sequence[float], source: str) -> None:
    """Different steps must not all get one value."""
    if len(values) > 1 and max(values) - min(values) <= CONSTANT:
        raise CanaryError(
            f"{source}: every canary step gets the value {values[0]:.6f}; the head is zero or missing, or the "
            "backbone's rotary buffers were lost on loading"
        )


def _refuse_other_values(canary: Canary, values: Sequence[tuple[float, ...]], source: str, tolerance: float) -> None:
    for n, (trace, now) in enumerate(zip(canary.traces, values, strict=True)):
        for k, (expected, value) in enumerate(zip(trace.values, now, strict=True)):
            if not abs(expected - value) <= tolerance:
                raise CanaryError(
                    f"{source}: step {k + 1} of canary trace {n + 1} is valued {value:.5f}, it was {expected:.5f} when "
                    f"the model was saved (tolerance {tolerance:g}); the weights or the base model changed"
                )


def _refuse_reversed(canary: Canary, values: Sequence[tuple[float, ...]], source: str) -> None:
    if canary.good is None or canary.bad is None:
        return
    good = values[canary.good.trace][canary.good.step]
    bad = values[canary.bad.trace][canary.bad.step]
    if good <= bad:
        raise CanaryError(
            f"{source}: the canary's good step is valued {good:.5f}, its bad step {bad:.5f}; "
            "the good class is probably read from the wrong output"
        )
