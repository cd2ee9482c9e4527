"""What commands read: problems and traces from a file, or from a world by `world:NAME:N[:SPLIT]`."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from footfall.commands._options import PolicyOptions
from footfall.commands._parts import make_part, open_policy
from footfall.formats import read_problems
from footfall.registry import create, load
from footfall.types import Judged, Problem

__all__ = ["WorldSource", "read_source", "world_rows", "world_source"]


class WorldSource(NamedTuple):
    """`n` problems of one split of a world."""

    world: str
    n: int
    split: str


def world_source(source: str, default_split: str) -> WorldSource | None:
    """`world:arithmetic:64` or `world:arithmetic:64:test` taken apart; `None` if it is a path."""
    if not source.startswith("world:"):
        return None
    _, world, *rest = source.split(":")
    if not 1 <= len(rest) <= 2 or not rest[0].isdigit() or int(rest[0]) < 1:
        raise ValueError(
            f"{source!r}: a world is named as world:NAME:N or world:NAME:N:SPLIT, e.g. world:arithmetic:64"
        )
    load("world", world)
    return WorldSource(world, int(rest[0]), rest[1] if len(rest) == 2 else default_split)


def read_source(source: str, seed: int, default_split: str) -> list[Problem]:
    """The problems of a file or of a world; a source without any is an error."""
    found = world_source(source, default_split)
    if found is None:
        problems = read_problems(source)
    else:
        problems = create("world", found.world).problems(found.n, seed=seed, split=found.split)
    if not problems:
        raise ValueError(f"{source}: there is no problem in it")
    return problems


def world_rows(source: WorldSource, policy: PolicyOptions, seed: int) -> list[Judged]:
    """One trace a problem, with the truth of each step: the scripted writer's where no policy is named."""
    writer = open_policy(policy if policy.policy else replace(policy, policy=f"scripted-{source.world}"))
    traces = create("world", source.world).traces(writer, source.n, seed=seed, split=source.split)
    found = [trajectory for _, trajectory in traces]
    truth = make_part("labeller", f"truth-{source.world}", {})
    return [Judged(t, j) for t, j in zip(found, truth.judge(found), strict=True)]
