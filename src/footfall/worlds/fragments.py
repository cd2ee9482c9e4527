"""The exact value of an unfinished step: what the best possible judge of fragments would say.

Of all steps w that the policy may write after the prefix, those that begin with the fragment f are left:

    V(f) = Σ_{w begins with f} P(w) V(after w) / Σ_{w begins with f} P(w)

So a judge cannot see an error before it is written, and a fragment that leaves all open has the value of its prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from footfall.types import Judgement, Trajectory
from footfall.worlds._memo import keep
from footfall.worlds._scripted import ScriptedPolicy, Writer
from footfall.worlds.judges import ExactValueJudge
from footfall.worlds.logic_policy import LogicPolicy

__all__ = ["ExactFragmentJudge"]


@dataclass(frozen=True, slots=True)
class ExactFragmentJudge:
    """Exact values under a scripted policy, of finished steps and of fragments."""

    policy: ScriptedPolicy[Any] = field(default_factory=LogicPolicy)
    _known: dict[tuple[str, ...], float] = field(default_factory=dict, repr=False, compare=False)
    """Values of prefixes that were met: in a search most are met again."""

    @property
    def name(self) -> str:
        return ExactValueJudge(self.policy).name  # type: ignore[arg-type]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, self._values(t), self.name) for t in trajectories]

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
        writer = self.policy.writer(before.problem)
        if not isinstance(writer, Writer):
            raise ValueError(
                f"the moves of {self.policy} cannot be listed; take a policy of the logic or algebra world"
            )
        total = worth = 0.0
        for move in writer.script.moves(writer.state_after(before)):
            fits = sum(word == fragment or word.startswith(fragment + " ") for word in move.wordings)
            chance = move.probability * fits / len(move.wordings)
            if chance:
                total, worth = total + chance, worth + chance * writer.value(move.after)
        return worth / total if total else self.policy.value(before)
