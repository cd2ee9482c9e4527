"""The harder tier of each world: declared by the world, graded and checked by the same rules, and harder."""

from __future__ import annotations

from typing import Any

import pytest

from footfall.commands._sources import world_source
from footfall.types import content_key
from footfall.worlds import (
    AlgebraPolicy,
    AlgebraWorld,
    ArithmeticPolicy,
    ArithmeticWorld,
    CodePolicy,
    CodeWorld,
    LogicPolicy,
    LogicWorld,
    MultilingualArithmetic,
    MultilingualPolicy,
    StepTruth,
)
from footfall.worlds.code.templates import HARD_FAMILIES

PLACES: list[tuple[Any, Any]] = [
    (ArithmeticWorld, ArithmeticPolicy()),
    (MultilingualArithmetic, MultilingualPolicy()),
    (LogicWorld, LogicPolicy()),
    (AlgebraWorld, AlgebraPolicy()),
    (CodeWorld, CodePolicy()),
]
KEYS = {
    "ArithmeticWorld": "2e1bebca53ec",
    "MultilingualArithmetic": "f84e97a6cfe8",
    "LogicWorld": "0c22b87f0849",
    "AlgebraWorld": "3b45fe03856e",
    "CodeWorld": "baed504ce42f",
}
"""Of the problems before there were tiers."""
worlds = pytest.mark.parametrize(("world", "policy"), PLACES, ids=lambda each: getattr(each, "__name__", ""))


@worlds
def test_a_world_without_a_tier_is_the_default_one(world: Any, policy: Any) -> None:
    assert world.at() == world.at("default") == world()
    assert world.at("hard") != world()
    with pytest.raises(ValueError, match="no tier called 'harder'"):
        world.at("harder")


@worlds
def test_the_faultless_trace_of_a_hard_problem_is_right_at_every_step(world: Any, policy: Any) -> None:
    hard = world.at("hard")
    for problem, trace in hard.traces(type(policy)(**_no_errors(policy)), 6, seed=3):
        assert trace.correct and trace.answer == problem.answer
        assert set(hard.check(trace)) == {StepTruth.RIGHT}, trace.text


def _no_errors(policy: Any) -> dict[str, Any]:
    if isinstance(policy, MultilingualPolicy):
        return {"base": ArithmeticPolicy(**_no_errors(policy.base))}
    if isinstance(policy, ArithmeticPolicy):
        return {"slip": (0,) * 4, "misread": (0,) * 4, "misread_tricky": (0,) * 4}
    return dict.fromkeys(policy.__dataclass_fields__, 0.0)


@worlds
def test_hard_problems_take_longer_to_write(world: Any, policy: Any) -> None:
    def mean(tier: Any) -> float:
        return sum(len(trace.text) for _, trace in world.at(tier).traces(policy, 25, seed=1)) / 25

    assert mean("hard") > mean("default")


@worlds
def test_tiers_share_their_splits(world: Any, policy: Any) -> None:
    """No hard training problem is a test problem of any tier."""
    ids = [
        {p.id for p in world.at("hard").problems(15, seed=s, split=split)}
        for split in ("train", "test")
        for s in (0, 1)
    ]
    assert not (ids[0] | ids[1]) & (ids[2] | ids[3])


def test_the_present_problems_have_not_changed_by_a_byte() -> None:
    keys = {
        world.__name__: content_key([[p.id, p.text, p.answer] for p in world().problems(20, seed=2)])[:12]
        for world, _ in PLACES
    }
    assert keys == KEYS


@pytest.mark.parametrize("family", HARD_FAMILIES)
def test_the_hard_programs_are_read_and_run(family: str) -> None:
    world = CodeWorld(families=(family,))
    policy = CodePolicy()
    for problem, trace in world.traces(policy, 3, seed=5):
        assert 0 <= policy.value(world.prefix(problem)) <= 1
        assert bool(trace.correct) or world.first_error(trace) >= 0


def test_a_tier_is_named_in_a_source() -> None:
    found = world_source("world:logic/hard:4", "test")
    assert found is not None and found.opened() == LogicWorld.at("hard")
    plain = world_source("world:logic:4", "test")
    assert plain is not None and plain.opened() == LogicWorld()
