"""One world under one seed as labelling methods see it, and stand-ins for what a labeller asks and a world does not have.

A critic errs at known rates, a tool reads steps. Two kinds of critic: `Setting.critic` is right or wrong about a step and has
no words; `Setting.critic_model` is a chat model that writes what prompts ask for, so that real prompts, real parsing and real
votes are measured.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from footfall.label.consensus import Consensus
from footfall.label.critic import ScriptedCritic
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import StudyRow, create, declared, label_row, load
from footfall.simulate import Noisy
from footfall.studies.study import Rows, rows_of
from footfall.types import Cost, Judge, Judged, Judgement, Problem, Trajectory
from footfall.worlds.judges import Checker, TruthJudge
from footfall.worlds.scripted import WithLogprobs, has_likelihood, with_logprobs


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


@dataclass(frozen=True)
class ExactLogprobs:
    """A judge of traces that hold the exact log-probabilities of the scripted policy that wrote them."""

    inner: Judge
    writer: Any

    @property
    def name(self) -> str:
        return self.inner.name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.inner.judge([with_logprobs(self.writer, trace) for trace in trajectories])


class Paid(Protocol):
    """A tree, or several, and what they cost."""

    @property
    def cost(self) -> Cost: ...


@runtime_checkable
class OwnTraces(Protocol):
    """A method that writes its own traces: whole labelled traces from problems alone, one a leaf of its trees."""

    @property
    def name(self) -> str: ...

    def grow(self, problems: Sequence[Problem], separator: str) -> Sequence[Paid]:
        """The trees of all problems."""
        ...

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        """The traces of the trees."""
        ...


class Setting(NamedTuple):
    """One world under one seed, as methods see it: the completer, how it draws, and what a critic costs."""

    name: str
    world: Checker
    policy: Policy
    params: SamplingParams
    price: int
    memory: dict[tuple[str, str], Judgement]
    """What judges have said of the traces already; see `Remembered`."""

    @property
    def scripted(self) -> Any:
        """The policy behind the store."""
        return getattr(self.policy, "inner", self.policy)

    def labeller(self, name: str, **settings: Any) -> Judge:
        """A registered labeller over the completer, if it takes one; what it said of a trace is remembered."""
        takes = inspect.signature(load("labeller", name)).parameters
        offered = {"policy": self.policy, "params": self.params}
        own = {key: value for key, value in offered.items() if key in takes}
        return Remembered(create("labeller", name, **own, **settings), self.memory)

    def with_logprobs(self) -> Setting:
        """The same with rollouts that hold the exact log-probabilities of the scripted policy."""
        return self._replace(policy=WithLogprobs(self.policy, self.scripted))

    def truth(self) -> Judge:
        """The truth of the world's steps."""
        return Remembered(TruthJudge(self.world), self.memory)

    def critic(self, error: float, vote: int = 0) -> Judge:
        """One vote of a critic that is wrong on a share `error` of the steps, right and wrong ones alike.

        Half of the errors come back in every vote, for a critic that is asked again has not learned anything:
        with e = a + b - 2ab the flips at rate a = e / 2 are common to all votes and those at rate b are the vote's own.
        """
        common = error / 2
        own = (error - common) / (1 - 2 * common)
        seed = self.params.seed
        systematic = Remembered(Noisy(self.truth(), common, common, seed=seed), self.memory)
        said = Noisy(systematic, own, own, seed=1000 * (seed + 1) + vote, price=self.price)
        return Remembered(said, self.memory)

    def votes(self, error: float, n: int) -> Judge:
        """The majority of a critic's votes."""
        found = tuple(self.critic(error, vote) for vote in range(n))
        return found[0] if len(found) == 1 else Consensus(found, "majority")

    def critic_model(self, traces: Sequence[Trajectory]) -> Policy:
        """A chat model that knows these traces and writes about them when it is asked.

        It errs on about one step in five: 5% for want of knowledge, 10% misled by a prompt, 5% by chance; 2% of its replies
        say nothing. A reply costs the setting's price for each step that it is about, a meta-critique too.
        """
        return ScriptedCritic(traces, self.truth(), seed=self.params.seed, price=self.price)

    def tool(self) -> Judge:
        """Reads steps: a prover or exact algebra; code runs with the reference's lines behind each step."""
        name, settings = declared("world", self.name).verifier
        return ReadOnce(create("labeller", name, **settings), self.memory)


def label_rows() -> Rows:
    """Every labeller, and every method that grows trees of its own."""
    return rows_of(("labeller", "tree-labeller"), label_row(), given=("policy", "params"))


def chosen(names: Sequence[str] | None) -> list[StudyRow]:
    """The rows of these names in the tables' order; all without any. An unknown name is an error."""
    return label_rows().chosen(names, "labelling")


def make_labeller(row: StudyRow, setting: Setting, budget: float) -> Judge | OwnTraces:
    """The labeller of a row in a setting."""
    if row.logprobs:
        inner = make_labeller(replace(row, logprobs=False), setting.with_logprobs(), budget)
        return inner if isinstance(inner, OwnTraces) else ExactLogprobs(inner, setting.scripted)
    if row.make is None:
        return setting.labeller(row.method, **row.at(budget))
    made: Judge | OwnTraces = row.make(setting, budget)
    return made


def lacks(row: StudyRow, setting: Setting) -> str | None:
    """Why the method cannot be used here."""
    if row.worlds is not None and setting.name not in row.worlds:
        return f"it is for {', '.join(row.worlds)} alone"
    if row.logprobs and not has_likelihood(setting.scripted):
        return "the log-probabilities of this policy are not known"
    return None
