"""The labelling methods that `footfall bench labels` compares, each with its dial. A new method is one row of `METHODS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from footfall.label.consensus import Consensus
from footfall.label.er_prm import EntropyRegularised
from footfall.label.noisy import Noisy
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import create, load, parts
from footfall.types import Judge, Judgement, Trajectory
from footfall.worlds.judges import Checker, TruthJudge

__all__ = ["METHODS", "NOT_LABELLERS", "Kind", "Method", "Setting", "chosen", "known_methods", "unmeasured"]

Kind = Literal["measured", "stand-in", "reference"]
"""`stand-in`: a critic of assumed quality takes part; `reference`: knows the truth or proves it, where that can be done."""

ROLLOUTS = (2.0, 4.0, 8.0, 16.0, 32.0)
VOTES = (1.0, 3.0, 5.0, 9.0)
FREE = (0.0,)


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


@dataclass(frozen=True, slots=True)
class Method:
    """A labeller, its dial, and how its labels are read."""

    name: str
    make: Callable[[Setting, float], Judge]
    dial: str = "rollouts"
    budgets: Sequence[float] = ROLLOUTS
    threshold: float = 0.5
    """The method's own: a step valued below it is called wrong."""
    kind: Kind = "measured"
    value: str | None = None
    """What estimates the value of the prefix: `values`, or the name of an aspect."""
    probability: bool = True
    """Whether labels lie in [0, 1], so that they can be calibrated."""
    logprobs: bool = False
    """Whether traces need the log-probabilities of their tokens."""
    worlds: tuple[str, ...] | None = None
    """The only worlds that it knows."""

    def lacks(self, setting: Setting, traces: Sequence[Trajectory]) -> str | None:
        """Why the method cannot be used here."""
        if self.worlds is not None and setting.name not in self.worlds:
            return f"it is for {', '.join(self.worlds)} alone"
        if self.logprobs and not all(step.logprobs for trace in traces for step in trace.steps):
            return "scripted policies give no log-probabilities"
        return None


def _rolled(part: str, dial: str = "rollouts", **fixed: Any) -> Callable[[Setting, float], Judge]:
    """A registered labeller that rolls out, with its dial set to a whole number."""

    def make(setting: Setting, budget: float) -> Judge:
        judge: Judge = create(
            "labeller", part, policy=setting.policy, params=setting.params, **{dial: int(budget)}, **fixed
        )
        return judge

    return make


def _monte_carlo(estimate: str) -> Callable[[Setting, float], Judge]:
    def make(setting: Setting, budget: float) -> Judge:
        return Remembered(_rolled("monte-carlo", estimate=estimate)(setting, budget), setting.memory)

    return make


def _narrow(setting: Setting, half_width: float) -> Judge:
    return _rolled("monte-carlo", half_width=half_width)(setting, ROLLOUTS[-1])


def _regularised(setting: Setting, budget: float) -> Judge:
    return EntropyRegularised(_monte_carlo("soft")(setting, budget))


def _relative(setting: Setting, budget: float) -> Judge:
    return _rolled("relative-progress", pass_rollouts=int(budget))(setting, budget)


def _scan(setting: Setting, budget: float) -> Judge:
    return _rolled("scan", responses=4 * int(budget))(setting, budget)


def _unprm(setting: Setting, budget: float) -> Judge:
    return _rolled("unprm", "draws", enough=max(1, int(budget) // 8))(setting, budget)


def _free(part: str, **fixed: Any) -> Callable[[Setting, float], Judge]:
    """A registered labeller without a dial, that generates nothing."""

    def make(setting: Setting, budget: float) -> Judge:
        judge: Judge = create("labeller", part, **fixed)
        return judge

    return make


def critic(setting: Setting, error: float, vote: int = 0) -> Judge:
    """One vote of a critic that is wrong on a share `error` of the steps, right and wrong ones alike.

    Half of the errors come back in every vote, for a critic that is asked again has not learned anything:
    with e = a + b - 2ab the flips at rate a = e / 2 are common to all votes and those at rate b are the vote's own.
    """
    common = error / 2
    own = (error - common) / (1 - 2 * common)
    seed = setting.params.seed
    truth = Remembered(TruthJudge(setting.world), setting.memory)
    systematic = Remembered(Noisy(truth, common, common, seed=seed), setting.memory)
    said = Noisy(systematic, own, own, seed=1000 * (seed + 1) + vote, price=setting.price)
    return Remembered(said, setting.memory)


def _critic(error: float) -> Callable[[Setting, float], Judge]:
    def make(setting: Setting, budget: float) -> Judge:
        votes = tuple(critic(setting, error, vote) for vote in range(int(budget)))
        return votes[0] if len(votes) == 1 else Consensus(votes, "majority")

    return make


def _agreed(setting: Setting, budget: float) -> Judge:
    return Consensus((_monte_carlo("hard")(setting, budget), critic(setting, 0.1)), "first-error")


METHODS: tuple[Method, ...] = (
    Method("monte-carlo", _monte_carlo("soft"), value="values"),
    Method("monte-carlo-hard", _monte_carlo("hard")),
    Method("monte-carlo-adaptive", _narrow, "half width", (0.3, 0.25, 0.2, 0.17), value="values"),
    Method("omegaprm", _rolled("omegaprm")),
    # With fewer rollouts than 5 it is the same as above.
    Method("omegaprm-lost", _rolled("omegaprm", lost=0.2), budgets=(5.0, 8.0, 16.0, 32.0)),
    Method("er-prm", _regularised, value="values"),
    # As relative progress allows: a step may lose a fifth of the chance of success.
    Method("pav", _rolled("pav"), threshold=-0.2, value="policy", probability=False),
    Method("relative-progress", _relative, value="success_rate"),
    Method("scan", _scan, budgets=ROLLOUTS[:4], value="success_rate"),
    Method("unprm", _unprm, "draws", logprobs=True),
    Method("freeprm", _free("freeprm"), "free", FREE),
    Method("critic-30", _critic(0.3), "votes", VOTES, kind="stand-in"),
    Method("critic-20", _critic(0.2), "votes", VOTES, kind="stand-in"),
    Method("critic-10", _critic(0.1), "votes", VOTES, kind="stand-in"),
    Method("consensus", _agreed, kind="stand-in"),
    Method("formal", _free("formal"), "free", FREE, kind="reference", worlds=("arithmetic", "logic", "algebra")),
    Method("execution", _free("execution", run="world"), "free", FREE, kind="reference", worlds=("code",)),
)
"""One row a method. Budgets go from cheap to dear."""

NOT_LABELLERS = ("always-right", "always-wrong", "exact-value", "length", "random")
"""Registered beside labellers, but sanity checks and oracles."""
_MADE_OF = ("noisy",)
"""Parts of rows that have another name."""
_UNMEASURED = {
    "grounded": "its tool reads every rollout, which takes longer than all other methods together",
    "prompted": "it needs a policy that follows instructions",
    "symbolic-mc": "it is `monte-carlo` with 5 rollouts",
}
_REFERENCES = ("formal-", "truth-")


def known_methods() -> dict[str, Method]:
    """All methods by name: the table's, then a free reference for each labeller called `formal-WORLD` or `truth-WORLD`."""
    found = {method.name: method for method in METHODS}
    for name in parts("labeller"):
        prefix = next((p for p in _REFERENCES if name.startswith(p)), None)
        if prefix is not None and name not in found and _needs_nothing(name):
            world = name.removeprefix(prefix)
            found[name] = Method(name, _free(name), "free", FREE, kind="reference", worlds=(world,))
    return found


def _needs_nothing(name: str) -> bool:
    takes = inspect.signature(load("labeller", name)).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in takes)


def chosen(names: Sequence[str] | None) -> list[Method]:
    """The methods of these names in the table's order; all without any. An unknown name is an error."""
    known = known_methods()
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"no labelling method is called {unknown[0]!r}; there are {', '.join(known)}")
    return [method for name, method in known.items() if names is None or name in names]


def unmeasured() -> dict[str, str]:
    """Registered labellers that no row of the table is made of, with the reason where one is known."""
    used = {*known_methods(), *NOT_LABELLERS, *_MADE_OF}
    return {name: _UNMEASURED.get(name, "no row in the table") for name in parts("labeller") if name not in used}
