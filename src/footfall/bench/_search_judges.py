"""Judges of three qualities for `footfall bench search`, and what their reading costs: the cost model is here and nowhere else.

A judge reads as a PRM does that keeps what it has read (`cache_tokens`): a problem's text once, then every new step once.
A word is a token and a step has one more for its end, as scripted policies count. One token read counts as one written.
With `reread` every judgement reads the whole trace anew, as a PRM without a cache does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from footfall.label.noisy import Noisy
from footfall.types import Cost, Judge, Judgement, Trajectory
from footfall.worlds.judges import Checker, TruthJudge, Valued

__all__ = ["AGGREGATIONS", "NOISE", "QUALITIES", "Priced", "Values", "exact_values", "noisy_values", "tokens_of_text"]

QUALITIES = ("exact", "noisy", "prm")
AGGREGATIONS = {"exact": "last", "noisy": "mean", "prm": "min"}
"""How methods that fold step values do it: the last value is all that counts if values are exact, and not if each may err."""
NOISE = 0.2
"""The share of the steps on which the noisy judge is wrong."""

Values = Callable[[Trajectory], float | None]
"""The value of a prefix's last step."""


def tokens_of_text(text: str) -> int:
    """Words and an end."""
    return len(text.split()) + 1


def exact_values(policy: Valued) -> Values:
    """The policy's own chance of success after each prefix."""
    return policy.value


def noisy_values(world: Checker, seed: int) -> Values:
    """Whether the last step is right, and wrong about it on a share `NOISE` of the steps."""
    judge: Judge = Noisy(TruthJudge(world), NOISE, NOISE, seed=seed)
    return lambda prefix: judge.judge([prefix])[0].values[-1]


@dataclass
class Priced:
    """A scripted judge that states what its reading would cost. Values are worked out once for all that share `memory`."""

    name: str
    values: Values
    memory: dict[str, float | None]
    reread: bool = False
    _read: set[str] = field(default_factory=set)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        prefixes = [trajectory.prefix(k + 1) for k in range(len(trajectory.steps))]
        keys = [prefix.key for prefix in prefixes]
        for key, prefix in zip(keys, prefixes, strict=True):
            if key not in self.memory:
                self.memory[key] = self.values(prefix)
        found = tuple(self.memory[key] for key in keys)
        failures = tuple("no truth is known" if value is None else None for value in found)
        return Judgement(
            trajectory.id, found, self.name, failures=failures if any(failures) else (),
            cost=Cost(scored_tokens=self._tokens(trajectory, keys), calls=1),
        )  # fmt: skip

    def _tokens(self, trajectory: Trajectory, keys: Sequence[str]) -> int:
        """Of what is read for this judgement: the parts that were not read before."""
        pieces: list[tuple[str, str]] = [(trajectory.problem.id, trajectory.problem.text)]
        pieces += [(key, step.written) for key, step in zip(keys, trajectory.steps, strict=True)]
        new = [(key, text) for key, text in pieces if self.reread or key not in self._read]
        self._read.update(key for key, _ in new)
        return sum(tokens_of_text(text) for _, text in new)

    def forget(self) -> None:
        """Read everything anew."""
        self._read.clear()


def prm_of(path: Any) -> Judge:
    """A trained PRM from a folder, which counts for itself what it reads."""
    from footfall.reward.judge import step_head

    return step_head(path, device="cpu", cache_tokens=1 << 16)
