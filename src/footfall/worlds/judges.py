"""Judges that know: the true class of each step, and the exact value of each prefix and of each unfinished step.

Of all steps w that a scripted policy may write after a prefix, those that begin with the fragment f are left:

    V(f) = Σ_{w begins with f} P(w) V(after w) / Σ_{w begins with f} P(w)

So a judge cannot see an error before it is written, and a fragment that leaves all open has the value of its prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from footfall.judging import Traits
from footfall.registry import Declared, StudyRow, create, register
from footfall.types import Judgement, Reason, Trajectory, Unjudged, failures_of
from footfall.worlds.arithmetic import ArithmeticPolicy, ArithmeticWorld
from footfall.worlds.logic import LogicPolicy
from footfall.worlds.scripted import ScriptedPolicy, has_likelihood, keep, registered_name
from footfall.worlds.world import Said, StepTruth


class Checker(Protocol):
    """A world that knows the class of every step, or `None` of one that it cannot read.

    A world that also has `said(trajectory)` gives the reasons with it.
    """

    def check(self, trajectory: Trajectory) -> Sequence[StepTruth | None]: ...


class Valued(Protocol):
    """A policy that knows its own probability of success."""

    @property
    def name(self) -> str: ...

    def value(self, prefix: Trajectory) -> float: ...


@dataclass(frozen=True, slots=True)
class TruthJudge:
    """The truth of each step: 1 right, 0 wrong, a parameter for right-but-built-on-an-error, `None` if unreadable.

    One 0/1 aspect a class (`right`, `wrong`, `consequent`); the rationale names the class, and the reason where the
    world gives one. By name it is `truth-WORLD`.
    """

    world: Checker = field(default_factory=ArithmeticWorld)
    consequent: float = 0.0

    @property
    def name(self) -> str:
        return f"truth-{registered_name(self.world)}(consequent={self.consequent:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def value(self, prefix: Trajectory) -> float:
        """The truth of the last step, so that this can stand where a policy's exact values do; 0 if it is unreadable."""
        return (self._judge(prefix).values[-1] if prefix.steps else 1.0) or 0.0

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = self._said(trajectory)
        worth = {StepTruth.RIGHT: 1.0, StepTruth.WRONG: 0.0, StepTruth.CONSEQUENT: self.consequent}
        failures = failures_of(None if t is not None else Unjudged(Reason.UNCHECKABLE, why) for t, why in said)
        return Judgement(
            trajectory.id,
            values=tuple(None if truth is None else worth[truth] for truth, _ in said),
            judge=self.name,
            aspects={
                kind.value: tuple(None if truth is None else float(truth is kind) for truth, _ in said)
                for kind in StepTruth
            },
            rationales=tuple(None if t is None else f"{t.value}: {why}" if why else t.value for t, why in said),
            failures=failures,
        )

    def _said(self, trajectory: Trajectory) -> Sequence[Said]:
        """Class and reason of each step; no reason where the world has none."""
        said = getattr(self.world, "said", None)
        if said is not None:
            found: list[Said] = said(trajectory)
            return found
        return [Said(truth, "") for truth in self.world.check(trajectory)]


def truth_of(world: str, consequent: float = 0.0) -> TruthJudge:
    """The truth of the world that is registered as `world`."""
    return TruthJudge(create("world", world), consequent)


def _truth_in(world: str) -> Declared:
    """The truth of a world is what studies hold methods against there."""
    return Declared(study=(StudyRow(kind="reference", worlds=(world,)),))


@register("labeller", "truth-arithmetic", _truth_in("arithmetic"))
def truth_arithmetic(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of an arithmetic trace: 1 right, 0 wrong, a parameter for right-but-built-on-an-error."""
    return truth_of("arithmetic", consequent)


@register("labeller", "truth-arithmetic-multilingual", _truth_in("arithmetic-multilingual"))
def truth_arithmetic_multilingual(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of an arithmetic trace in the language of its problem."""
    return truth_of("arithmetic-multilingual", consequent)


@register("labeller", "truth-logic", _truth_in("logic"))
def truth_logic(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of a deduction."""
    return truth_of("logic", consequent)


@register("labeller", "truth-algebra", _truth_in("algebra"))
def truth_algebra(consequent: float = 0.0) -> TruthJudge:
    """The truth of each step of solving an equation."""
    return truth_of("algebra", consequent)


@register("labeller", "truth-code", _truth_in("code"))
def truth_code(consequent: float = 0.0) -> TruthJudge:
    """The truth of each line of a small program."""
    return truth_of("code", consequent)


@register("labeller", "exact-value", Declared(control=True))
@dataclass(frozen=True, slots=True)
class ExactValueJudge:
    """The exact value of each prefix under a scripted policy: what Monte Carlo labels estimate."""

    policy: Valued = field(default_factory=ArithmeticPolicy)

    def __post_init__(self) -> None:
        if not hasattr(self.policy, "value"):
            raise ValueError(f"exact values are known of a scripted policy only, not of {self.policy.name}")

    @property
    def name(self) -> str:
        return f"exact-value({self.policy.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        values = tuple(self.policy.value(trajectory.prefix(i + 1)) for i in range(len(trajectory.steps)))
        return Judgement(trajectory.id, values, self.name)


@dataclass(frozen=True, slots=True)
class ExactFragmentJudge:
    """Exact values under a scripted policy, of finished steps and of fragments."""

    policy: ScriptedPolicy[Any] = field(default_factory=LogicPolicy)
    _known: dict[tuple[str, ...], float] = field(default_factory=dict, repr=False, compare=False)
    """Values of prefixes that were met: in a search most are met again."""

    @property
    def name(self) -> str:
        return ExactValueJudge(self.policy).name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, self._values(t), self.name) for t in trajectories]

    @property
    def traits(self) -> Traits:
        return Traits(judge_partial=self.judge_partial)

    def judge_partial(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The last step is a fragment, words of a step that is not over."""
        return [self._partial(trajectory) for trajectory in trajectories]

    def _partial(self, trajectory: Trajectory) -> Judgement:
        before = trajectory.prefix(len(trajectory.steps) - 1)
        value = self._of_fragment(before, trajectory.steps[-1].text)
        return Judgement(trajectory.id, (*self._values(before), value), self.name)

    def _values(self, trajectory: Trajectory) -> tuple[float, ...]:
        texts = (trajectory.problem.id, *(step.text for step in trajectory.steps))
        values = []
        for k in range(1, len(texts)):
            known = self._known.get(texts[: k + 1])
            if known is None:
                known = keep(self._known, texts[: k + 1], self.policy.value(trajectory.prefix(k)))
            values.append(known)
        return tuple(values)

    def _of_fragment(self, before: Trajectory, fragment: str) -> float:
        if not has_likelihood(self.policy):
            raise ValueError(
                f"the moves of {self.policy} cannot be listed; take a policy of the arithmetic, logic, algebra or code world"
            )
        writer = self.policy.writer(before.problem)
        total = worth = 0.0
        for move in writer.moves(writer.state_after(before)):
            texts = [move.text(wording) for wording in move.wordings]
            fits = sum(text == fragment or text.startswith(fragment + " ") for text in texts)
            chance = move.probability * fits / len(texts)
            if chance:
                total, worth = total + chance, worth + chance * writer.value(move.after)
        return worth / total if total else self.policy.value(before)
