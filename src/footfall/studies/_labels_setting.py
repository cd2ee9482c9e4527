"""One world under one seed as labelling methods see it, and judges that are asked but once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from footfall.policy.protocol import Policy, SamplingParams
from footfall.types import Judge, Judgement, Trajectory
from footfall.worlds.judges import Checker, TruthJudge


class Setting(NamedTuple):
    """One world under one seed, as methods see it: the completer, how it draws, and what a critic costs."""

    name: str
    world: Checker
    policy: Policy
    params: SamplingParams
    price: int
    memory: dict[tuple[str, str], Judgement]
    """What judges have said of the traces already; see `Remembered`."""


@dataclass(frozen=True)
class Remembered:
    """A judge that is asked about a trace once: methods that are made of it share what it said, and each pays for it."""

    inner: Judge
    memory: dict[tuple[str, str], Judgement]

    @property
    def name(self) -> str:
        return self.inner.name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        name = self.name
        if any((name, t.id) not in self.memory for t in trajectories):
            said = self.inner.judge(trajectories)
            self.memory.update({(name, t.id): one for t, one in zip(trajectories, said, strict=True)})
        return [self.memory[name, t.id] for t in trajectories]


@dataclass(frozen=True)
class ReadOnce:
    """A tool that reads a text once, whatever rollout it is of: what it says of a trace follows from the text alone."""

    inner: Judge
    memory: dict[tuple[str, str], Judgement]

    @property
    def name(self) -> str:
        return self.inner.name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        name, keys = self.name, [trajectory.key for trajectory in trajectories]
        unread = {
            (name, key): trajectory
            for key, trajectory in zip(keys, trajectories, strict=True)
            if (name, key) not in self.memory
        }
        self.memory.update(zip(unread, self.inner.judge(list(unread.values())), strict=True))
        return [replace(self.memory[name, k], trajectory_id=t.id) for k, t in zip(keys, trajectories, strict=True)]


def scripted(setting: Setting) -> Any:
    """The policy behind the store."""
    return getattr(setting.policy, "inner", setting.policy)


def truth_in(setting: Setting) -> Judge:
    """The truth of the world's steps."""
    return Remembered(TruthJudge(setting.world), setting.memory)
