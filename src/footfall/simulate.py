"""Simulated judges: the truth of a world, or exact values, with errors of a known size and at a stated price.

`Noisy` errs at given rates, as a critic would on a world's traces. Of each step the truth says right (1) or wrong (0). With
probability `false_positive` a wrong step passes as right, with probability `false_negative` a right one is called wrong, with
probability `silent` nothing is said. What happens at a step depends on the seed and the text up to there alone, so the same
trace is always judged the same, in any batch. A critic writes before it says anything: `price` is what that counts for.

`Blurred` is a judge of known quality: the exact value of each prefix under a scripted policy, or the truth, blurred by a
known amount.

    v' = sigmoid(logit(v) + σ z),   z ~ N(0, 1), drawn by the seed and the text up to there alone

v is first brought into [floor, 1 − floor], since no value model is certain. Right and wrong finished solutions are then told
apart with the AUC Φ(√2 logit(1 − floor) / σ): 0.94 by default. Reading a trace costs its words; a judge that writes before
it says anything also costs `price`.

`Priced` says what a judge's reading costs where nothing is really read: one cost model for benchmarks and recipes. A judge
reads as a PRM does that keeps what it has read (`cache_tokens`): a problem's text once, then every new step once, so a trace
that grew by a step costs that step, and a text that was read before costs nothing. A word is a token and a step has one more
for its end, as scripted policies count. One token read counts as one written. With `reread` every judgement reads the problem
and the whole trace anew, as a PRM without a cache does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

from footfall.judging import Traits
from footfall.registry import VOTES, Declared, StudyRow, label_row, register
from footfall.types import Cost, Judge, Judgement, Reason, Trajectory, Unjudged, content_key, failures_of
from footfall.worlds import TruthJudge
from footfall.worlds.judges import Valued, truth_of


def chance(*parts: object) -> float:
    """A number in [0, 1) that is drawn by content: the same for the same parts."""
    return int(content_key("chance", *parts)[:13], 16) / 16**13


@dataclass(frozen=True)
class Noisy:
    """Flips what another judge says. A step that the other left unlabelled stays so, with its reason."""

    truth: Judge = field(default_factory=TruthJudge)
    false_positive: float = 0.1
    """Share of the wrong steps that are called right."""
    false_negative: float = 0.1
    """Share of the right steps that are called wrong."""
    silent: float = 0.0
    seed: int = 0
    price: int = 0
    """Generated tokens that a trace costs for each of its steps."""

    def __post_init__(self) -> None:
        if self.price < 0:
            raise ValueError(f"price is a number of tokens, not {self.price}")
        for name in ("false_positive", "false_negative", "silent"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, not {getattr(self, name)}")

    @property
    def name(self) -> str:
        """Its error rates and seed, and whose truth it bends."""
        rates = f"fp={self.false_positive:g},fn={self.false_negative:g},silent={self.silent:g}"
        priced = f",price={self.price}" if self.price else ""
        return f"noisy({rates},seed={self.seed}{priced},{self.truth.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The truth of each step, with errors drawn from the seed and the prefix."""
        said = self.truth.judge(trajectories)
        return [self._flip(t, judgement) for t, judgement in zip(trajectories, said, strict=True)]

    def _flip(self, trajectory: Trajectory, truth: Judgement) -> Judgement:
        values: list[float | None] = []
        failures: list[Unjudged | None] = []
        for k, true in enumerate(truth.check(trajectory).values):
            key = trajectory.prefix(k + 1).key
            if true is None:
                failures.append(truth.failure(k) or Unjudged(Reason.UNCHECKABLE, "no truth is known"))
                values.append(None)
            elif chance(self.seed, key, "silent") < self.silent:
                failures.append(Unjudged(Reason.UNDECIDED, "the noisy judge is silent"))
                values.append(None)
            else:
                rate = self.false_negative if true >= 0.5 else self.false_positive
                wrong = chance(self.seed, key, "flip") < rate
                failures.append(None)
                values.append(float((true >= 0.5) != wrong))
        cost = truth.cost + Cost(generated_tokens=self.price * len(values))
        return Judgement(trajectory.id, tuple(values), self.name, failures=failures_of(failures), cost=cost)


def _critic(place: int, percent: int) -> StudyRow:
    """A critic of a study that is wrong on so many percent of the steps; the dial is how many of its votes are counted."""
    return label_row(
        place, f"critic-{percent}", "votes", VOTES, kind="stand-in",
        make=lambda setting, n: setting.votes(percent / 100, int(n)),
    )  # fmt: skip


@register("labeller", "noisy", Declared(study=(_critic(100, 30), _critic(101, 20), _critic(102, 10))))
def noisy(
    false_positive: float = 0.1,
    false_negative: float = 0.1,
    silent: float = 0.0,
    seed: int = 0,
    world: str = "arithmetic",
    price: int = 0,
) -> Noisy:
    """The truth of a world with given error rates: a stand-in for a critic."""
    return Noisy(truth_of(world), false_positive, false_negative, silent, seed, price)


_NORMAL = NormalDist()


def normal(*parts: object) -> float:
    """A number of the standard normal distribution that is drawn by content."""
    return _NORMAL.inv_cdf(min(max(chance(*parts), 1e-9), 1 - 1e-9))


def blurred_value(value: float, shift: float, floor: float) -> float:
    """A value moved by `shift` on the scale of logits."""
    inside = min(max(value, floor), 1 - floor)
    return 1 / (1 + math.exp(-(math.log(inside / (1 - inside)) + shift)))


@dataclass(frozen=True)
class Blurred:
    """Known values with a normal error on the scale of logits. The same text always has the same value."""

    policy: Valued
    """A scripted policy, whose exact values are known, or a `TruthJudge`."""
    sigma: float = 2.0
    seed: int = 0
    floor: float = 0.1
    price: int = 0
    """Generated tokens that a judgement costs."""
    _said: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sigma < 0 or self.price < 0 or not 0 < self.floor < 0.5:
            raise ValueError(
                f"sigma and price must not be negative and floor lies in (0, 0.5), not {self.sigma}, {self.price} "
                f"and {self.floor}"
            )

    @property
    def name(self) -> str:
        """Blur, floor and seed, and the policy whose values are blurred."""
        priced = f",price={self.price}" if self.price else ""
        return f"blurred(sigma={self.sigma:g},floor={self.floor:g},seed={self.seed}{priced},{self.policy.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The exact value of each prefix, blurred by a draw of its own."""
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        values = tuple(self._value(trajectory.prefix(k + 1)) for k in range(len(trajectory.steps)))
        cost = Cost(generated_tokens=self.price, scored_tokens=len(trajectory.text.split()), calls=1)
        return Judgement(trajectory.id, values, self.name, cost=cost)

    def _value(self, prefix: Trajectory) -> float:
        key = prefix.key
        if key not in self._said:
            shift = self.sigma * normal(self.seed, key, "blur")
            self._said[key] = blurred_value(self.policy.value(prefix), shift, self.floor)
        return self._said[key]


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
