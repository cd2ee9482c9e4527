"""How well each credit estimates the policy gradient, where the exact one is known: judges right, blurred or hackable.

A tabular policy (`footfall.rl.exact`) writes groups of rollouts. A credit makes of a batch of them an estimate ĝ of g, the
gradient of accuracy. Credits differ in scale, which a learning rate takes up, so an estimate is judged up to the factor c that
suits it best:

    direction  cos(E ĝ, g): 1 is unbiased; the share of the best first-order gain in accuracy that the mean step has
    batch      E cos(ĝ, g) of a single batch
    noise      tr Var ĝ / |E ĝ|²
    rollouts   how many are needed until E |c ĝ - g|² = (1/2)² |g|²; none is enough where bias alone is larger
    wasted     how much more a step along E ĝ raises the number of steps that lead nowhere than one along g of equal length

Judges: `exact` says the true prefix value, `noisy` the same blurred with a standard deviation of 0.25, alike for equal
prefixes; `hackable` likes needless steps most: 0.95, right ones 0.8, wrong ones 0.2. Outcomes are always true. Log-ratios of
reward models are those that a judge's values imply.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from footfall.metrics.intervals import Interval
from footfall.registry import StudyRow, create, declared, parts, serving, systems
from footfall.rl.exact import FILLER, RIGHT, STOP, WRONG, Chain, Solved, Trace, estimate, sample, softmax, solve
from footfall.rl.groups import Credit, Filter, Floats, Group, Rollout, credited
from footfall.studies.study import (
    Figures,
    Measured,
    Place,
    Site,
    Unit,
    interval_from,
    interval_json,
    kept,
    over_seeds,
    plan_fields,
    row_from,
    row_json,
)

JUDGES = ("exact", "noisy", "hackable")
BLUR = 0.25
SCALE = 0.05
"""β of reward models that are language models: what their log-ratios are multiplied by."""
ERROR = 0.5
"""The error that rollouts are counted to, relative to the length of the exact gradient."""
FIGURES = ("direction", "batch", "noise", "rollouts", "wasted")
FROM_JUDGES = {"rewards", "start", "online", "token_scores"}


@dataclass(frozen=True)
class CreditPlan:
    """What is measured."""

    judges: tuple[str, ...] = JUDGES
    seeds: int = 3
    batches: int = 60
    groups: int = 4
    """Of a batch."""
    size: int = 8
    """Rollouts of a group."""
    depth: int = 3
    horizon: int = 8
    first_seed: int = 0

    def __post_init__(self) -> None:
        if unknown := [judge for judge in self.judges if judge not in JUDGES]:
            raise ValueError(f"no judge is called {unknown[0]!r}; there are {', '.join(JUDGES)}")
        for name, least in (("seeds", 1), ("batches", 2), ("groups", 1), ("size", 2), ("depth", 1), ("horizon", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: at least {least} is needed")
        if self.horizon <= self.depth:
            raise ValueError(f"horizon={self.horizon}: {self.depth} steps and an answer do not fit")
        if self.horizon > 1000:
            raise ValueError(f"horizon={self.horizon}: at most 1,000 tokens are computed exactly")

    @property
    def worlds(self) -> tuple[str, ...]:
        return ("chain",)


class Method(NamedTuple):
    """A credit, or the usual credit of what a filter keeps."""

    name: str
    credit: Credit
    keep: Filter | None
    asks: bool
    """Whether a judge has a say in it."""


def methods() -> dict[str, Method]:
    """Registered credits, the systems that they name, and the usual credit behind each filter."""
    measured = [name for name in parts("credit") if not declared("credit", name).unmeasured]
    made: dict[str, Credit] = {name: create("credit", name) for name in measured}
    made |= {name: create("credit", part, **settings) for name, (part, settings) in systems("credit").items()}
    found = [Method(name, credit, None, bool(FROM_JUDGES & set(credit.needs))) for name, credit in made.items()]
    usual = serving("credit")
    for name in parts("filter"):
        asks = bool(FROM_JUDGES & set(declared("filter", name).needs))
        found.append(Method(f"{usual} + {name}", made[usual], create("filter", name), asks))
    return {method.name: method for method in sorted(found, key=lambda method: method.name)}


def left_out() -> dict[str, str]:
    """Credits that are not measured, with the reason."""
    return {name: why for name in parts("credit") if (why := declared("credit", name).unmeasured)}


class Said(NamedTuple):
    """What a judge says of anything that a policy can write."""

    table: Floats
    """(horizon + 1, S, A) after step t, that came to state s by action a."""
    start: float
    """Of the bare problem."""
    reads_answers: bool
    """Whether it values a finished trace by its answer."""


def judge_table(judge: str, chain: Chain, solved: Solved, seed: int) -> Said:
    """A judge by name."""
    if judge == "hackable":
        table = np.full((chain.horizon + 1, chain.states, 4), 0.8)
        table[..., FILLER], table[..., WRONG] = 0.95, 0.2
        table[:, 2 * chain.depth, RIGHT] = 0.95
        return Said(table, 0.8, False)
    table = np.repeat(solved.values[:, :, None], 4, axis=2)
    if judge == "exact":
        return Said(table, solved.value, True)
    blur = np.random.default_rng([seed, 11]).normal(0, BLUR, table.shape)
    return Said(np.clip(table + blur, 0, 1), float(np.clip(solved.value + blur[0, 0, 0], 0, 1)), True)


@dataclass
class CreditSite(Site):
    """One seed: its policy, its batches, and every method on them with every judge."""

    @cached_property
    def chain(self) -> Chain:
        return Chain(self.plan.depth, self.plan.horizon)

    @cached_property
    def logits(self) -> Floats:
        return self.chain.policy(self.seed)

    @cached_property
    def truth(self) -> Solved:
        return solve(self.chain, self.logits, self.chain.solved)

    @cached_property
    def traces(self) -> list[Trace]:
        count = self.plan.batches * self.plan.groups * self.plan.size
        return sample(self.chain, self.logits, count, np.random.default_rng([self.seed, 3]))

    def units(self) -> list[Unit]:
        return [Unit(StudyRow(name), 0.0) for name in methods()]

    def settings(self) -> list[tuple[str, ...]]:
        return [(judge,) for judge in self.plan.judges]

    def about(self) -> dict[str, Any]:
        return {"accuracy": self.truth.value, "gradient": float(np.linalg.norm(self.truth.gradient))}

    def measured(self) -> Iterator[tuple[Place, Figures]]:
        for judge in self.plan.judges:
            for index, method in enumerate(methods().values()):
                # What no judge has a say in is the same with all of them.
                whose = judge if method.asks else "any"
                path = self.folder / "units" / f"{self.seed}-{whose}" / f"{method.name}.json"
                yield ((judge,), index), kept(path, partial(self._unit, judge, method))

    def _unit(self, judge: str, method: Method) -> dict[str, Any]:
        per_batch = self.plan.groups * self.plan.size
        chances = softmax(self.logits)
        rollouts = self._rollouts(judge, "old" in method.credit.needs)
        estimates = []
        for at in range(0, len(self.traces), per_batch):
            starts = range(at, at + per_batch, self.plan.size)
            groups = [Group(tuple(rollouts[start : start + self.plan.size])) for start in starts]
            used, advantages = [], []
            for g, said in credited(groups, method.credit, method.keep):
                used += self.traces[starts[g] : starts[g] + self.plan.size]
                advantages += [a * w for a, w in zip(said.advantages, said.weights, strict=True)]
            estimates.append(estimate(chances, used, advantages, per_batch) if used else np.zeros_like(chances))
        wasted = solve(self.chain, self.logits, self.chain.wasted).gradient
        return figures_of(np.array(estimates), self.truth.gradient, wasted, per_batch)

    @cached_property
    def _made(self) -> dict[tuple[str, bool], list[Rollout]]:
        return {}

    def _rollouts(self, judge: str, to_old: bool) -> list[Rollout]:
        """Of all traces; a reward model's log-ratio is to the policy that sampled, or to the reference."""
        if (judge, to_old) not in self._made:
            self._made[judge, to_old] = self._roll(judge, to_old)
        return self._made[judge, to_old]

    def _roll(self, judge: str, to_old: bool) -> list[Rollout]:
        said = judge_table(judge, self.chain, self.truth, self.seed)
        log_p, log_ref = np.log(softmax(self.logits)), np.log(softmax(self.logits / 2))
        found = []
        for trace in self.traces:
            at, n = (trace.states, trace.actions), len(trace.states)
            onward, after = self.chain.next[at], np.arange(1, n + 1)
            right, stopped = trace.solved(self.chain), trace.actions[-1] == STOP
            values, exact = said.table[after, onward, trace.actions], self.truth.values[after, onward]
            if stopped:
                exact[-1] = right
                values[-1] = right if said.reads_answers else values[-1]
            base = log_p[at] if to_old else log_ref[at]
            found.append(Rollout(
                np.ones(n, np.int64), float(right), values, said.start, ids=trace.actions, old=log_p[at],
                reference=log_ref[at], online=base + np.diff(values, prepend=said.start) / SCALE, token_scores=values,
                confidence=values, aspects={"solved": np.where(exact > 0.95, 1.0, np.where(exact < 0.05, 0.0, 0.5))},
            ))  # fmt: skip
        return found


def figures_of(estimates: Floats, exact: Floats, wasted: Floats, per_batch: int) -> dict[str, Any]:
    """The figures of a method from its estimates (B, S, A); `None` where it has no direction at all."""
    rows, g, waste = estimates.reshape(len(estimates), -1), exact.ravel(), wasted.ravel()
    mean = rows.mean(axis=0)
    variance = float(rows.var(axis=0, ddof=1).sum())
    # The square of a mean of noisy rows is too long by the noise that is left in it.
    length = float(mean @ mean) - variance / len(rows)
    sizes = np.linalg.norm(rows, axis=1)
    if length <= 0:
        return dict.fromkeys(FIGURES)
    exact_length = float(np.linalg.norm(g))
    direction = min(1.0, float(mean @ g) / (math.sqrt(length) * exact_length))
    cosines = rows[sizes > 0] @ g / (sizes[sizes > 0] * exact_length)
    left = ERROR**2 - (1 - direction**2)
    noise = variance / length
    return {
        "direction": direction,
        "batch": float(cosines.sum()) / len(rows),
        "noise": noise,
        "rollouts": per_batch * noise * direction**2 / left if left > 0 and direction > 0 else None,
        "wasted": float(mean @ waste) / math.sqrt(length) - float(g @ waste) / exact_length,
    }


@dataclass(frozen=True)
class CreditRow:
    """A method with one judge, over all seeds. A figure that some seed does not have is left out."""

    judge: str
    method: str
    asks: bool
    """Whether a judge has a say in it."""
    figures: Mapping[str, Interval]

    def value(self, name: str) -> float:
        """A figure; infinite rollouts where no number is enough, and below all others what has no direction."""
        missing = {"rollouts": math.inf, "direction": -math.inf}.get(name, math.nan)
        return self.figures[name].value if name in self.figures else missing


@dataclass(frozen=True)
class CreditGradients:
    """All that `footfall bench credit` found."""

    plan: CreditPlan
    accuracy: Interval
    rows: tuple[CreditRow, ...]

    def of(self, judge: str) -> list[CreditRow]:
        """The rows of a judge, those that point best first."""
        return sorted((row for row in self.rows if row.judge == judge), key=lambda row: -row.value("direction"))

    def to_dict(self) -> dict[str, Any]:
        return {
            "plan": asdict(self.plan),
            "accuracy": interval_json(self.accuracy),
            "rows": [row_json(row) for row in self.rows],
            "left_out": left_out(),
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> CreditGradients:
        """From its JSON."""
        plan = CreditPlan(**plan_fields(given["plan"]))
        return cls(plan, interval_from(given["accuracy"]), tuple(row_from(CreditRow, row) for row in given["rows"]))


def together(plan: CreditPlan, measured: Measured) -> CreditGradients:
    """Means over seeds."""
    known = list(methods().values())
    rows = []
    for ((judge,), index), seeds in measured.figures.items():
        whole = [name for name in FIGURES if all(seed[name] is not None for seed in seeds)]
        means = over_seeds(seeds, whole)
        for name in ("direction", "batch"):
            if name in means:
                value, low, high = means[name]
                # The comparisons keep a NaN, which max and min may not.
                means[name] = Interval(value, -1.0 if low < -1 else low, 1.0 if high > 1 else high)
        rows.append(CreditRow(judge, known[index].name, known[index].asks, means))
    accuracy = over_seeds(measured.worlds["chain"], ["accuracy"], ["accuracy"])["accuracy"]
    return CreditGradients(plan, accuracy, tuple(rows))
