"""One world under one seed as labelling methods see it, and stand-ins for what a labeller asks and a world does not have.

A critic errs at known rates, a tool reads steps. Two kinds of critic: `critic` is right or wrong about a step and has no
words; `Critiqued` is a chat model that writes what `prompted` asks for, so that the real prompts, the real parsing and the
real votes are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from footfall.label.consensus import Consensus
from footfall.label.critic import ScriptedCritic
from footfall.label.grounded import Grounded, GroundedTrees
from footfall.label.prompted import PROMPTS, PromptedJudge, prompted
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import create
from footfall.simulate.noisy import Noisy
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


def critic(setting: Setting, error: float, vote: int = 0) -> Judge:
    """One vote of a critic that is wrong on a share `error` of the steps, right and wrong ones alike.

    Half of the errors come back in every vote, for a critic that is asked again has not learned anything:
    with e = a + b - 2ab the flips at rate a = e / 2 are common to all votes and those at rate b are the vote's own.
    """
    common = error / 2
    own = (error - common) / (1 - 2 * common)
    seed = setting.params.seed
    systematic = Remembered(Noisy(truth_in(setting), common, common, seed=seed), setting.memory)
    said = Noisy(systematic, own, own, seed=1000 * (seed + 1) + vote, price=setting.price)
    return Remembered(said, setting.memory)


def votes(error: float) -> Callable[[Setting, float], Judge]:
    """The majority of a critic's votes."""

    def make(setting: Setting, budget: float) -> Judge:
        found = tuple(critic(setting, error, vote) for vote in range(int(budget)))
        return found[0] if len(found) == 1 else Consensus(found, "majority")

    return make


@dataclass(frozen=True)
class Critiqued:
    """`prompted` with a scripted critic that knows the traces it is asked about.

    The critic errs on about one step in five: 5% for want of knowledge, 10% misled by a prompt, 5% by chance; 2% of its
    replies say nothing. A reply costs the setting's price for each step that it is about, a meta-critique too.
    """

    setting: Setting
    how: Mapping[str, Any]
    """Arguments of `prompted`."""

    @property
    def name(self) -> str:
        return self._over(()).name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self._over(trajectories).judge(trajectories)

    def _over(self, traces: Sequence[Trajectory]) -> PromptedJudge:
        seed = self.setting.params.seed
        model = ScriptedCritic(traces, truth_in(self.setting), seed=seed, price=self.setting.price)
        return prompted(model, seed=seed, **self.how)


def asked(**how: Any) -> Callable[[Setting, float], Judge]:
    """A prompted judge whose dial is how often each question is asked."""
    return lambda setting, budget: Critiqued(setting, {"n": int(budget), **how})


def in_turn(**how: Any) -> Callable[[Setting, float], Judge]:
    """A prompted judge whose dial is how many of the prompts it uses."""
    return lambda setting, budget: Critiqued(setting, {"prompts": ",".join(list(PROMPTS)[: int(budget)]), **how})


def grounded(setting: Setting, budget: float) -> Judge:
    """Rollouts that a tool reads: a prover or exact algebra; code runs with the reference's lines behind each step."""
    return Grounded(setting.policy, _tool(setting), rollouts=int(budget), params=setting.params)


def grounded_trees(setting: Setting, budget: float) -> GroundedTrees:
    """Trees of the same problems, grown by rounds of verified rollouts."""
    return GroundedTrees(setting.policy, _tool(setting), rounds=int(budget), params=setting.params)


def _tool(setting: Setting) -> Judge:
    tool = create("labeller", "execution", run="world") if setting.name == "code" else create("labeller", "formal")
    return ReadOnce(tool, setting.memory)
