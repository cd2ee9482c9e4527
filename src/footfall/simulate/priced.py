"""What a judge's reading costs where nothing is really read: one cost model for benchmarks and recipes.

A judge reads as a PRM does that keeps what it has read (`cache_tokens`): a problem's text once, then every new step once, so
a trace that grew by a step costs that step, and a text that was read before costs nothing. A word is a token and a step has
one more for its end, as scripted policies count. One token read counts as one written. With `reread` every judgement reads
the problem and the whole trace anew, as a PRM without a cache does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from footfall.judging import Traits
from footfall.types import Cost, Judge, Judgement, Reason, Trajectory, Unjudged, failures_of

__all__ = ["Priced", "Reader", "tokens_of_text"]

_UNKNOWN = Unjudged(Reason.NOT_ASKED, "no value is known")


def tokens_of_text(text: str) -> int:
    """Words and an end."""
    return len(text.split()) + 1


class Reader(NamedTuple):
    """Who says it: of whole steps, and of traces whose last step is a beginning."""

    steps: Judge
    fragments: Judge


@dataclass
class Priced:
    """A judge that states what its reading would cost. What it says of a text is asked once for all that share `memory`."""

    name: str
    reader: Reader
    memory: dict[str, float | None]
    reread: bool = False
    _read: set[str] = field(default_factory=set)
    _begun: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Beginnings of steps that were read, by what stands before them."""

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """What the inner judge says, each prefix read once, at the cost that the reader would have."""
        keys = [[t.prefix(k + 1).key for k in range(len(t.steps))] for t in trajectories]
        self._ask(self.reader.steps, trajectories, keys)
        return [self._judgement(t, own, False) for t, own in zip(trajectories, keys, strict=True)]

    @property
    def traits(self) -> Traits:
        """It reads unfinished steps too."""
        return Traits(judge_partial=self.judge_partial)

    def judge_partial(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The last step is a beginning."""
        keys = [[t.prefix(k + 1).key for k in range(len(t.steps))] for t in trajectories]
        cut = [[*own[:-1], *(f"{key}, unfinished" for key in own[-1:])] for own in keys]
        self._ask(self.reader.fragments, trajectories, cut)
        return [self._judgement(t, own, True) for t, own in zip(trajectories, cut, strict=True)]

    def _ask(self, judge: Judge, trajectories: Sequence[Trajectory], keys: Sequence[Sequence[str]]) -> None:
        """All that is not known in one batch; a trace that another one begins with is read with that one."""
        new = {
            own[-1]: (t, own) for t, own in zip(trajectories, keys, strict=True) if own and own[-1] not in self.memory
        }
        within = {key for _, own in new.values() for key in own[:-1]}
        asked = [pair for key, pair in new.items() if key not in within]
        said = judge.judge([trajectory for trajectory, _ in asked]) if asked else []
        for (_, own), judgement in zip(asked, said, strict=True):
            for key, value in zip(own, judgement.values, strict=True):
                self.memory.setdefault(key, value)

    def _judgement(self, trajectory: Trajectory, keys: Sequence[str], partial: bool) -> Judgement:
        found = tuple(self.memory[key] for key in keys)
        failures = failures_of(_UNKNOWN if value is None else None for value in found)
        return Judgement(
            trajectory.id, found, self.name, failures=failures,
            cost=Cost(scored_tokens=self._tokens(trajectory, keys, partial), calls=1),
        )  # fmt: skip

    def _tokens(self, trajectory: Trajectory, keys: Sequence[str], partial: bool) -> int:
        """Of what is read for this judgement: the parts that were not read before. A beginning has no end."""
        befores = [trajectory.problem.id, *keys][: len(keys)]
        pieces = [(trajectory.problem.id, tokens_of_text(trajectory.problem.text))]
        for before, key, step in zip(befores, keys, trajectory.steps, strict=True):
            pieces.append((key, tokens_of_text(step.written) - self._already(before, step.written)))
        new = [(key, tokens) for key, tokens in pieces if self.reread or key not in self._read]
        self._read.update(key for key, _ in new)
        cut = partial and bool(keys)
        if cut:
            self._begun[befores[-1]].add(trajectory.steps[-1].written)
        return sum(tokens for _, tokens in new) - (cut and keys[-1] in {key for key, _ in new})

    def _already(self, before: str, step: str) -> int:
        """Words of this step that were read as its beginning."""
        if self.reread:
            return 0
        return max((len(b.split()) for b in self._begun.get(before, ()) if f"{step} ".startswith(f"{b} ")), default=0)

    def forget(self) -> None:
        """Read everything anew."""
        self._read.clear()
        self._begun.clear()
