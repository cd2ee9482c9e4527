"""What was said about a trace: a value for each step, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from footfall.types.traces import Cost, Trajectory


class Reason(str, Enum):
    """Why a step has no value: what code may go by. The sentence for people is the `Unjudged` that has the reason."""

    AFTER_ERROR = "after-error"
    """The judge stops at the first error, and this step comes after it."""
    CUT = "cut"
    """What should have said it was cut at max_tokens."""
    FAILED_CALL = "failed-call"
    """A policy, a server or a tool failed."""
    TOO_LONG = "too-long"
    """It does not fit in the context."""
    NO_REFERENCE = "no-reference"
    """Something to compare with is missing: a reference answer, an outcome, tests, log-probabilities."""
    UNREADABLE = "unreadable"
    """There was a reply, but no verdict in it."""
    UNDECIDED = "undecided"
    """Votes are tied, judges differ, or the judge is not sure enough."""
    UNCHECKABLE = "uncheckable"
    """A checker does not understand the step, or no truth of it is known."""
    NOT_ASKED = "not-asked"
    """The judge did not look at it: not rated, valued in another row, no budget."""
    OTHER = "other"
    """A reason from a file or a judge that names none of these."""


class Unjudged(str):
    """Why a step has no value, in words, with its `reason` from the closed set."""

    __slots__ = ("reason",)
    reason: Reason

    def __new__(cls, reason: Reason, words: str) -> Unjudged:
        made = super().__new__(cls, words)
        made.reason = reason
        return made

    def __getnewargs__(self) -> tuple[Reason, str]:  # type: ignore[override]
        return self.reason, str(self)

    @property
    def stored(self) -> str:
        """As files hold it: `[cut] all 8 rollouts were cut before their end`."""
        return f"[{self.reason.value}] {self}"

    @classmethod
    def read(cls, stored: str) -> Unjudged:
        """From a file. One from before reasons were told apart is `other`, but for the one that searches go by."""
        code, closed, words = stored.partition("] ")
        if closed and code.startswith("[") and code[1:] in {reason.value for reason in Reason}:
            return cls(Reason(code[1:]), words)
        return cls(Reason.AFTER_ERROR if "after the first error" in stored else Reason.OTHER, stored)


AFTER_ERROR = Unjudged(Reason.AFTER_ERROR, "after the first error")


def failures_of(reasons: Iterable[Unjudged | None]) -> tuple[Unjudged | None, ...]:
    """`Judgement.failures` from one reason or `None` a step: empty if there is none."""
    found = tuple(reasons)
    return found if any(reason is not None for reason in found) else ()


def _numbers(trajectory: str, values: Any) -> tuple[float | None, ...]:
    """Python's own floats of a list, an array or a tensor: files, messages and comparisons know no others."""
    if type(values) is tuple and all(value is None or type(value) is float for value in values):
        return values
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, Iterable) or isinstance(listed, str):
        raise TypeError(f"judgement of {trajectory!r}: its values are {values!r}, not one number or None a step")
    return tuple(value if value is None else _number(trajectory, i, value) for i, value in enumerate(listed, 1))


def _number(trajectory: str, step: int, value: Any) -> float:
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"judgement of {trajectory!r}: step {step} has the value {value!r}, which is no number")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One value a step, from one judge. `None` means not judged; `failures` then says why."""

    trajectory_id: str
    values: tuple[float | None, ...]
    judge: str
    value: float | None = None
    """The judge's own word on the whole trajectory, if it has one; not an aggregate of `values`."""
    aspects: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Further numbers a step, e.g. `{"successes": (3, 0), "rollouts": (8, 8)}`."""
    rationales: tuple[str | None, ...] = ()
    failures: tuple[Unjudged | None, ...] = ()
    cost: Cost = field(default_factory=Cost)
    initial: float | None = None
    """The value of the empty prefix, before any step: what the first step's advantage is measured from."""
    token_values: tuple[tuple[float, ...], ...] = ()
    """Where the judge has them, the values at every token of each step."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _numbers(self.trajectory_id, self.values))
        for name in ("value", "initial"):
            number = getattr(self, name)
            if number is not None and type(number) is not float:
                object.__setattr__(self, name, float(number))
        n = len(self.values)
        columns = {**{f"aspects[{name!r}]": column for name, column in self.aspects.items()},
                   "rationales": self.rationales or self.values, "failures": self.failures or self.values,
                   "token_values": self.token_values or self.values}  # fmt: skip
        for name, column in columns.items():
            if len(column) != n:
                raise ValueError(f"judgement of {self.trajectory_id!r}: {name} has {len(column)} entries for {n} steps")
        for why in self.failures:
            if why is not None and not isinstance(why, Unjudged):
                raise TypeError(
                    f"judgement of {self.trajectory_id!r}: {why!r} names no Reason; say Unjudged(Reason.…, …)"
                )
        numbers = {"value": self.values, **{f"aspect {name!r}": column for name, column in self.aspects.items()}}
        for name, column in numbers.items():
            for i, number in enumerate(column):
                if number is not None and not math.isfinite(number):
                    raise ValueError(f"judgement of {self.trajectory_id!r}: step {i + 1} has the {name} {number}")
        for name, number in (("value as a whole", self.value), ("initial value", self.initial)):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"judgement of {self.trajectory_id!r}: its {name} is {number}")
        if not all(math.isfinite(value) for row in self.token_values for value in row):
            raise ValueError(f"judgement of {self.trajectory_id!r}: a token's value is not finite")

    def failure(self, step: int) -> Unjudged | None:
        """Why this step (0-based) has no value, if that is known."""
        return self.failures[step] if self.failures else None

    def check(self, trajectory: Trajectory) -> Judgement:
        """Itself, if it has one value for each step of `trajectory`; an error that names the trace if not."""
        if len(self.values) != len(trajectory.steps):
            raise ValueError(
                f"trajectory {trajectory.id!r} has {len(trajectory.steps)} steps "
                f"but judge {self.judge!r} gave {len(self.values)} values"
            )
        return self

    def _repr_html_(self) -> str:
        from footfall.notebook import table

        rows = [[i, value if value is not None else self.failure(i - 1) or "not judged"]
                for i, value in enumerate(self.values, 1)]  # fmt: skip
        return table(f"{self.trajectory_id}, judged by {self.judge}", ["step", "value"], rows)

    def first_below(self, threshold: float) -> int | None:
        """0-based index of the first step valued strictly below `threshold`, -1 if there is none.

        `None` if an unjudged step comes first: then nobody can say.
        """
        for i, value in enumerate(self.values):
            if value is None:
                return None
            if value < threshold:
                return i
        return -1


class Judged(NamedTuple):
    """A trajectory with what one judge said of it: a row of process data."""

    trajectory: Trajectory
    judgement: Judgement | None

    def _repr_html_(self) -> str:
        """The steps with their values, as notebooks show it."""
        from footfall.notebook import steps

        trace, said = self
        if said is None:
            return trace._repr_html_()
        why = {i: str(reason) for i, reason in enumerate(said.failures) if reason is not None}
        texts = [step.written for step in trace.steps]
        return steps(f"{trace.headline}\njudge: {said.judge}", texts, said.values, why)


def _no_trace(row: Judged, name: str) -> NoReturn:
    """A row that is given where a trace is wanted, say to a judge, says so."""
    hint = "" if name.startswith("_") else "; what takes traces is given [row.trajectory for row in rows]"
    raise AttributeError(f"a Judged, a row of trajectory and judgement, has no {name!r}{hint}")


if not TYPE_CHECKING:  # a type checker knows the fields, and would take any other for one
    Judged.__getattr__ = _no_trace


class Judge(Protocol):
    """Reads traces, says how good each step is. The order of the result is the order of the input."""

    @property
    def name(self) -> str:
        """Who judges: kind, weights and settings, so that two judges with one name say the same."""
        ...

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement for each trace, with one value for each of its steps."""
        ...
