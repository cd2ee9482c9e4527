"""Policies that are tables learn by reinforcement: any credit, any filter, any judge, and accuracy is exact at every update.

A problem is a sequence of operations of some kinds. The states and steps are those of `footfall.rl.exact`; the policy knows how
far it is, which kind comes next, and whether an error stands, and has one row of logits for each kind and each of the two:

    π(a | kind, error) = softmax_a θ[kind, error],      accuracy = mean over held-out problems of the exact J(θ)

so some problems are easy and some nearly hopeless, a kind that is learnt on some helps on others, and it matters which step of
a wrong trace is blamed. Each update draws problems, writes a group for each, and takes one step of Adam along the credit's
estimate: like the optimizers of real runs it takes up the scale of a credit, so all of them have one learning rate.

Judges are fixed before training, as a stored PRM is, and blurred alike for equal prefixes:

    steps      right steps 0.85, wrong ones 0.2, needless ones 0.85, an answer that does not follow 0.35
    liked      the same, with 0.95 for needless steps: they are liked best
    values     the chance of the policy, as it was at first, to solve the problem from here on
    truth      1 for every step that is not wrong, 0 for wrong ones; not blurred
    critic     the same, wrong about one step in five;  critics: the share of four such critiques that call a step right

Reward models that learn beside the policy (credits that need `online`) are tables too: π_φ begins as the policy and takes one
step on the outcomes of each batch, by PRIME's loss or, where the credit reads log-ratios to the old policy, by OPRL's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from footfall.lab.recipe import Arm, Outcome, Trial
from footfall.registry import create
from footfall.rl.exact import FILLER, RIGHT, STOP, WRONG, Chain, Trace, estimate, expected, sample, softmax, solve
from footfall.rl.groups import Credit, Filter, Floats, Group, Rollout, credited
from footfall.rl.monitors import Checkpoint, hacked
from footfall.search.votes import aggregate
from footfall.types import Cost

Kinds: TypeAlias = npt.NDArray[np.int64]
"""Of a problem's operations, and the last row for when all is done."""
JUDGES = ("steps", "liked", "values", "truth", "critic", "critics")
BLUR, ONLINE_SCALE = 0.15, 1.0
"""Of judges; β of reward models that learn: traces have five steps, not a thousand tokens."""


@dataclass(frozen=True)
class Way:
    """How a policy is trained."""

    credit: Credit
    judge: str = "steps"
    keep: Filter | None = None
    worth: Callable[[Trace, Rollout, Chain], float] | None = None
    """R of a rollout, where it is not 1 for a right answer and 0 for others."""
    answers: float = 1.0
    """Share of problems whose outcome is known."""
    proxy: str = "mean"
    """The aggregate of step rewards that monitors are told."""
    learns: int | None = None
    """Updates after which a reward model that learns beside the policy is frozen."""
    reader: Callable[[Chain, Sequence[Kinds], int], Reader] | None = None
    """Makes what reads hidden states beside the policy, from the problems it is trained on and a seed."""


@lru_cache(maxsize=256)
def way(
    credit: str,
    judge: str = "steps",
    *,
    keep: str | None = None,
    worth: Callable[[Trace, Rollout, Chain], float] | None = None,
    **options: Any,
) -> Way:
    """A registered credit with its options, and a registered filter. Equal ways are one, so `learn` knows them again."""
    return Way(create("credit", credit, **options), judge, None if keep is None else create("filter", keep), worth)


@dataclass(frozen=True)
class Sizes:
    """Of one training."""

    updates: int = 40
    groups: int = 4
    size: int = 8
    lr: float = 0.05
    kinds: int = 32
    depth: int = 5
    horizon: int = 14
    problems: int = 64
    held_out: int = 16
    every: int = 4
    """Updates between two looks at accuracy."""


HARD = Sizes(depth=16, horizon=25)
"""The untrained policy solves one in ten."""


class Reader(Protocol):
    """A model of the policy's hidden states that learns beside it (`footfall.lab.shared.readers`)."""

    def read(
        self, policy: Table, problems: Sequence[Kinds], traces: Sequence[Sequence[Trace]], groups: Sequence[Group]
    ) -> list[Group]:
        """The groups with what it says of their rollouts, from which it learns too."""
        ...


class Learned(NamedTuple):
    """What became of a policy."""

    accuracy: Floats
    """(looks, held-out problems), exact: at the start, every few updates, and at the end."""
    wasted: float
    """Expected steps that lead nowhere, of a trace at the end."""
    run: tuple[Checkpoint, ...]
    """Proxy and truth of every batch, as monitors want them."""
    cost: Cost
    chain: Chain
    policy: Table
    problems: tuple[list[Kinds], list[Kinds]]
    """For training, and held out."""

    @property
    def before(self) -> float:
        """Accuracy of the untrained policy."""
        return float(self.accuracy[0].mean())

    @property
    def end(self) -> float:
        """Accuracy after the last update."""
        return float(self.accuracy[-1].mean())

    @property
    def along(self) -> float:
        """Mean accuracy of all looks after the first: what learns faster has more."""
        return float(self.accuracy[1:].mean())

    @property
    def hacked(self) -> bool:
        """Whether the monitors' rule says so at the end."""
        return hacked(self.run)

    @property
    def truly_hacked(self) -> bool:
        """Whether exact accuracy ends more than 10 points below its best look, and the reward higher than it was then."""
        means = self.accuracy.mean(axis=1)
        best, width = int(means.argmax()), len(self.run) // (len(means) - 1)
        then, now = (np.mean([point.figures["proxy"] for point in part])
                     for part in (self.run[max(0, best - 1) * width : (best + 1) * width], self.run[-width:]))  # fmt: skip
        return bool(means[best] - means[-1] > 0.1 and now > then)

    @property
    def stopped(self) -> float:
        """Accuracy at the look before the rule's first alarm; without one, at the end."""
        first = next((n for n in range(2, len(self.run) + 1) if hacked(self.run[:n])), None)
        return (
            self.end
            if first is None
            else float(self.accuracy[first * (len(self.accuracy) - 1) // len(self.run)].mean())
        )

    def best_of(self, n: int) -> float:
        """Chance that one of n samples is right, after the last update."""
        return float((1 - (1 - self.accuracy[-1]) ** n).mean())


class Adam:
    """Ascent, with the usual 0.9 and 0.999."""

    def __init__(self, lr: float) -> None:
        self.lr, self.count, self.mean, self.square = lr, 0, np.zeros(1), np.zeros(1)

    def step(self, gradient: Floats) -> Floats:
        """What is added to the weights."""
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean, square = self.mean / (1 - 0.9**self.count), self.square / (1 - 0.999**self.count)
        found: Floats = self.lr * mean / (np.sqrt(square) + 1e-8)
        return found


class Table:
    """θ (kinds + 1, 2, A) with its optimizer; the last row is for when all is done."""

    def __init__(self, weights: Floats, lr: float) -> None:
        self.weights, self.optimizer = weights.copy(), Adam(lr)

    def logits(self, kinds: Kinds) -> Floats:
        """(S, A) of a problem, by the states of `Chain`."""
        found: Floats = self.weights[kinds].reshape(-1, 4)
        return found

    def climb(self, gradients: Sequence[tuple[Kinds, Floats]]) -> None:
        """One step along the sum of gradients by state, each of a problem."""
        total = np.zeros_like(self.weights)
        for kinds, gradient in gradients:
            np.add.at(total, kinds, gradient.reshape(-1, 2, 4))
        self.weights = self.weights + self.optimizer.step(total)


def beginner(kinds: int, rng: np.random.Generator) -> Floats:
    """θ of a policy that is often right, at some kinds seldom."""
    found: Floats = rng.normal(0, 0.3, (kinds + 1, 2, 4)) + np.array([1.2, 0.6, -0.2, -2.0])
    found[:, :, WRONG] += rng.normal(0, 1.0, (kinds + 1, 1))
    found[-1, :, STOP] += 2.5
    return found


def judge_table(judge: str, chain: Chain, logits: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    """(horizon + 1, S, A) what it says after step t that came to s by a; and of the bare problem."""
    if judge not in JUDGES:
        raise ValueError(f"no judge of tables is called {judge!r}; there are {', '.join(JUDGES)}")
    shape = (chain.horizon + 1, chain.states, 4)
    blur = rng.normal(0, BLUR, shape)
    answered = np.arange(chain.states) == 2 * chain.depth
    if judge == "values":
        solved = solve(chain, logits, chain.solved)
        table = np.repeat(solved.values[:, :, None], 4, axis=2)
        table[..., STOP] = answered
        return np.clip(table + blur, 0, 1), solved.value
    sure = judge in ("truth", "critic", "critics")
    right, wrong, loose = (1.0, 0.0, 0.0) if sure else (0.85, 0.2, 0.35)
    table = np.full(shape, right)
    table[..., WRONG], table[..., STOP] = wrong, np.where(answered, right, loose)
    if judge == "liked":
        table[..., FILLER] = table[:, 2 * chain.depth, RIGHT] = 0.95
    if sure:
        votes = {"truth": 0, "critic": 1, "critics": 4}[judge]
        return (rng.binomial(votes, 0.6 * table + 0.2) / votes if votes else table), 0.5
    return np.clip(table + blur, 0, 1), 0.5


def outcome_pulls(ratios: Floats, right: Floats) -> Floats:
    """-∂/∂q of PRIME's mean CE(σ(β q), R)."""
    pulls: Floats = ONLINE_SCALE * (right - 1 / (1 + np.exp(-ONLINE_SCALE * ratios))) / len(ratios)
    return pulls


def pair_pulls(ratios: Floats, steps: Floats, right: Floats, tasks: Sequence[int]) -> Floats:
    """-∂/∂q of OPRL's mean -log σ(S⁺ - S⁻) over pairs of one task, S = β q / steps."""
    scores, pulls, pairs = ONLINE_SCALE * ratios / steps, np.zeros(len(ratios)), 0
    for i in np.flatnonzero(right > 0.5):
        for j in np.flatnonzero((right <= 0.5) & (np.asarray(tasks) == tasks[int(i)])):
            push = ONLINE_SCALE / (1 + np.exp(scores[i] - scores[j]))
            pulls[i], pulls[j], pairs = pulls[i] + push / steps[i], pulls[j] - push / steps[j], pairs + 1
    return pulls / max(1, pairs)


@lru_cache(maxsize=1024)
def learn(given: Way, sizes: Sizes, seed: int) -> Learned:
    """Train one policy. Policy, problems and judge follow from the seed, so ways can be compared pair by pair.

    Recipes share ways (GRPO is a baseline of nine): one process trains each of them once.
    """
    return _Training(given, sizes, seed).run()


class _Training:
    def __init__(self, given: Way, sizes: Sizes, seed: int) -> None:
        self.given, self.sizes, self.chain = given, sizes, Chain(sizes.depth, sizes.horizon)
        self.rng = np.random.default_rng([seed, 17])
        self.onward, needs = self.chain.next, set(given.credit.needs)
        first = beginner(sizes.kinds, self.rng)
        self.policy, self.reference = Table(first, sizes.lr), Table(first, 0.0)
        self.beside = Table(first, sizes.lr) if "online" in needs else None
        self.against: Literal["old", "reference"] = "old" if "old" in needs else "reference"
        self.train, self.held_out = (self._problems(count) for count in (sizes.problems, sizes.held_out))
        self.said = [judge_table(given.judge, self.chain, self.policy.logits(kinds), np.random.default_rng([seed, 19, p]))
                     for p, kinds in enumerate(self.train)]  # fmt: skip
        self.reader = None if given.reader is None else given.reader(self.chain, self.train, seed)
        self.answered = np.random.default_rng([seed, 23]).random(sizes.problems) < given.answers

    def _problems(self, count: int) -> list[Kinds]:
        drawn = self.rng.integers(0, self.sizes.kinds, (count, self.sizes.depth))
        return [np.append(row, self.sizes.kinds) for row in drawn]

    def _look(self, gain: Floats) -> Floats:
        return expected(self.chain, np.stack([self.policy.logits(kinds) for kinds in self.held_out]), gain)

    def run(self) -> Learned:
        looks, points, steps = list[Floats](), list[Checkpoint](), 0
        for update in range(self.sizes.updates):
            if update % self.sizes.every == 0:
                looks.append(self._look(self.chain.solved))
            places = self.rng.choice(len(self.train), self.sizes.groups, replace=False).tolist()
            traces = [sample(self.chain, self.policy.logits(self.train[p]), self.sizes.size, self.rng) for p in places]
            groups = [Group(tuple(self._rolled(p, own))) for p, own in zip(places, traces, strict=True)]
            if self.reader is not None:
                groups = self.reader.read(self.policy, [self.train[p] for p in places], traces, groups)
            self._learn_scores(places, traces, groups, update)
            climbed = []
            for g, made in credited(groups, self.given.credit, self.given.keep):
                kinds, pulls = (
                    self.train[places[g]],
                    [a * w for a, w in zip(made.advantages, made.weights, strict=True)],
                )
                climbed.append((kinds, estimate(softmax(self.policy.logits(kinds)), traces[g], pulls, 1)))
            self.policy.climb(climbed)
            rolled, everyone = (
                [each for group in groups for each in group.rollouts],
                [trace for own in traces for trace in own],
            )
            steps += sum(each.steps for each in rolled)
            truth = float(np.mean([trace.solved(self.chain) for trace in everyone]))
            told = [aggregate(each.known("rewards").tolist(), self.given.proxy) or 0.0 for each in rolled]
            points.append(Checkpoint(update, {"proxy": float(np.mean(told)), "truth": truth}, len(rolled)))
        looks.append(self._look(self.chain.solved))
        cost = Cost(generated_tokens=steps, scored_tokens=steps)
        wasted = float(np.mean(self._look(self.chain.wasted)))
        found = (self.chain, self.policy, (self.train, self.held_out))
        return Learned(np.array(looks), wasted, tuple(points), cost, *found)

    def _rolled(self, place: int, traces: Sequence[Trace]) -> Iterator[Rollout]:
        kinds, (table, start) = self.train[place], self.said[place]
        models = {"old": self.policy, "reference": self.reference, "online": self.beside}
        logs = {name: np.log(softmax(model.logits(kinds))) for name, model in models.items() if model is not None}
        for trace in traces:
            at, right = (trace.states, trace.actions), trace.solved(self.chain)
            values = table[np.arange(1, len(trace.states) + 1), self.onward[at], trace.actions]
            own: dict[str, Any] = {name: row[at] for name, row in logs.items()}
            lengths = np.ones(len(values), np.int64)
            made = Rollout(lengths, float(right), values, start, ids=trace.actions, token_scores=values, **own)
            if self.given.worth is not None:
                made = replace(made, outcome=self.given.worth(trace, made, self.chain))
            yield made if self.answered[place] else replace(made, outcome=None)

    def _learn_scores(
        self, places: Sequence[int], traces: Sequence[Sequence[Trace]], groups: Sequence[Group], at: int
    ) -> None:
        """A reward model that learns beside the policy takes its step; the scores in `groups` are from before it."""
        if self.beside is None or (self.given.learns is not None and at >= self.given.learns):
            return
        rolled = [each for group in groups for each in group.rollouts]
        ratios = np.array([float((each.known("online") - each.known(self.against)).sum()) for each in rolled])
        right = np.array([float(each.outcome or 0) for each in rolled])
        counts = np.array([each.steps for each in rolled], np.float64)
        tasks = np.repeat(places, self.sizes.size).tolist()
        pulls = pair_pulls(ratios, counts, right, tasks) if self.against == "old" else outcome_pulls(ratios, right)
        climbed = []
        for place, own, mine in zip(places, traces, np.split(pulls, len(places)), strict=True):
            kinds = self.train[place]
            spread = [np.full(len(trace.states), pull) for trace, pull in zip(own, mine, strict=True)]
            climbed.append((kinds, estimate(softmax(self.beside.logits(kinds)), own, spread, 1)))
        self.beside.climb(climbed)


def train_all(
    trial: Trial, ways: Mapping[str, Way], sizes: Sizes = Sizes(), policies: int = 6, first: int = 0
) -> dict[str, list[Learned]]:
    """Each way on the same policies, problems and judges: so many a seed, from the `first` on."""
    sizes = replace(sizes, updates=trial.size(sizes.updates, 3))
    seeds = [1000 * trial.seed + first + n for n in range(trial.size(policies, 2))]
    return {name: [learn(given, sizes, seed) for seed in seeds] for name, given in ways.items()}


def compared(trial: Trial, ways: Mapping[str, Way], hard: Sequence[str] = ()) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems; `NAME, hard` of some on hard ones."""
    more = train_all(trial, {f"{name}, hard": ways[name] for name in hard}, HARD)
    return outcome_of(train_all(trial, ways) | more)


def outcome_of(trained: Mapping[str, Sequence[Learned]], others: Sequence[Learned] = (), /, **more: Arm) -> Outcome:
    """Arms `before`, `NAME` (accuracy at the end) and `NAME, along` (its mean over the updates) of every way.

    `others` are runs that `more` was made of; what they cost is counted.
    """
    arms: dict[str, Arm] = {"before": [each.before for each in next(iter(trained.values()))]}
    for name, runs in trained.items():
        arms |= {name: [each.end for each in runs], f"{name}, along": [each.along for each in runs]}
    everyone = [*others, *(each for runs in trained.values() for each in runs)]
    return Outcome(arms | more, Cost.total(each.cost for each in everyone))
