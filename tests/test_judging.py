"""What judges declare of themselves is asked for in one way, of any judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from footfall.judging import (
    UNKNOWN,
    Bound,
    Traits,
    all_parts,
    as_trained,
    bound_of,
    chunks_of,
    forget,
    parts_of,
    read_partial,
    traits,
)
from footfall.rl.parts import JudgeInParts, Parts
from footfall.types import Judgement, Problem, Step, Trajectory

SOME = Bound(8, 1)
TRACE = Trajectory("t", Problem("p", "?"), (Step("a"),))


@dataclass
class Plain:
    """A judge that says nothing of itself."""

    name: str = "plain"
    forgotten: int = 0

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (0.5,) * len(t.steps), self.name) for t in trajectories]

    def forget(self) -> None:
        self.forgotten += 1


@dataclass
class Writes(Plain):
    most: Bound | None = SOME

    @property
    def traits(self) -> Traits:
        return Traits(threshold=0.3, at_most=lambda steps: self.most, judge_partial=self._partial)

    def _partial(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (0.1,) * len(t.steps), self.name) for t in trajectories]


@dataclass
class Around:
    """Declares nothing: its parts are found in its fields."""

    inner: Plain
    others: tuple[Plain, ...] = ()
    name: str = "around"
    settings: dict[str, float] = field(default_factory=dict)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.inner.judge(trajectories)


def test_a_judge_that_declares_nothing_has_no_traits() -> None:
    assert traits(Plain()) == Traits() and parts_of(Plain()) == () and bound_of(Plain(), 3) is None
    assert traits(None).threshold is None


def test_parts_are_found_in_fields_and_forget_together_once() -> None:
    shared, other = Plain(), Plain("other")
    judge = Around(shared, (other, shared))
    assert parts_of(judge) == (shared, other, shared) and len(all_parts(judge)) == 3
    forget(judge, shared, None)
    assert (shared.forgotten, other.forgotten) == (1, 1)


def test_a_judge_around_one_other_writes_what_that_one_does() -> None:
    assert bound_of(Around(Writes()), 3) == Bound(8, 1)
    assert bound_of(Around(Writes(most=None)), 3) == UNKNOWN
    assert bound_of(Around(Writes(), (Plain(),)), 3) is None, "of several nobody says what they write together"


def test_fragments_are_read_as_such_if_the_judge_can() -> None:
    assert [read_partial(judge, [TRACE])[0].values for judge in (Plain(), Writes())] == [(0.5,), (0.1,)]


def test_traits_that_are_none_are_a_bug_that_is_named() -> None:
    class Odd(Plain):
        traits = "all"

    with pytest.raises(AssertionError, match=r"Odd\.traits is a str"):
        traits(Odd())


def test_traces_are_read_with_the_only_separator_that_a_judge_knows() -> None:
    sampled = Trajectory("s", Problem("p", "?"), (Step("a", token_ids=(1, 2)),), separator="\n", tokenizer="v")
    (same,) = as_trained(["\n"], [sampled])
    assert same is sampled
    (other,) = as_trained(["\n\n"], [sampled])
    assert (other.separator, other.tokenizer, other.steps[0].token_ids) == ("\n\n", None, None), (
        "its ids hold the old one"
    )
    assert as_trained(["\n", "\n\n"], [sampled]) == as_trained([], [sampled]) == [sampled]
    assert as_trained([""], [sampled]) == [sampled], "steps with ends of their own say nothing of other traces"


@dataclass
class Tournament:
    """Says of each trace how many of its problem were put to it in the same call."""

    compares: bool
    name: str = "tournament"

    @property
    def traits(self) -> Traits:
        return Traits(compares=self.compares)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [
            Judgement(t.id, (float(sum(o.problem == t.problem for o in trajectories)),), self.name)
            for t in trajectories
        ]


@pytest.mark.parametrize(("size", "sizes"), [(1, [3, 1, 2]), (3, [3, 3]), (4, [4, 2]), (9, [6])])
def test_a_batch_in_parts_never_parts_what_is_compared(size: int, sizes: list[int]) -> None:
    """Problems of 3, 1 and 2 completions, as `rl --chunk` puts them to a judge."""
    batch = [
        Trajectory(f"{p}{k}", Problem(p, p), (Step("a"),)) for p, n in (("x", 3), ("y", 1), ("z", 2)) for k in range(n)
    ]
    met = [3.0, 3.0, 3.0, 1.0, 2.0, 2.0]
    assert chunks_of(Tournament(True), batch, size) == sizes
    assert [each.values[0] for each in JudgeInParts(Tournament(True), Parts(size)).judge(batch)] == met
    assert chunks_of(Tournament(False), batch, size) == size
