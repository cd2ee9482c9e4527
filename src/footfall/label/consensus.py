"""Consensus of judges. As a filter (Qwen2.5-Math-PRM, arXiv 2501.07301) it keeps a trace only if all name one first error.

    rule          a step is
    first-error   1 before the common first error, 0 at it; a trace on which the judges differ has no labels at all
    and           good if all say so           or         good if any says so
    majority      what more than half of those with a verdict say; a tie is no label

For and, or and majority `min_agreement` is the share of all judges that must say what is said in the end; a step that
falls short, or on which too few have a verdict, has no label, and the reason tells who said what. A judge's verdict is
good at `threshold` or above; a Monte Carlo labeller with `estimate="hard"` thus says good where any rollout succeeded.

How far two judges agree: Cohen's kappa, the confusion table, and where they differ.

    κ = (p_o - p_e) / (1 - p_e)      p_o: observed agreement, p_e: agreement by chance, from each one's own rates
    χ² = Σ (observed - expected)² / expected      whether two properties have anything to do with each other

Steps are counted where both have said something; a judge with no word on a step is not taken to have said no.

Two judges side by side are the values of one, and what the other says as an aspect (card: birm).
BiRM learns two things of a step: the chance to reach the right answer from it (Monte Carlo values), and whether the step is
right (a critic's verdicts). `Beside` writes both into one judgement; the objective `value-and-reward` reads them there.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, NamedTuple

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, label_row, load, register
from footfall.types import AFTER_ERROR, Cost, Judge, Judgement, Reason, Trajectory, Unjudged, failures_of


def confusion(a: Sequence[Hashable], b: Sequence[Hashable]) -> Counter[tuple[Hashable, Hashable]]:
    """How often `a` said x where `b` said y."""
    return Counter(zip(a, b, strict=True))


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> float | None:
    """Agreement beyond chance; `None` if there is nothing to compare or both always say the same one thing."""
    n = len(a)
    if n == 0:
        return None
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / n
    said_a, said_b = Counter(a), Counter(b)
    chance = sum(said_a[word] * said_b[word] for word in said_a) / (n * n)
    return None if chance == 1 else (observed - chance) / (1 - chance)


def chi_squared(table: Sequence[Sequence[float]]) -> float | None:
    """χ² of a table of counts: Σ (observed - expected)² / expected under independence; of [[a, b], [c, d]] with margins m

        χ² = n (ad - bc)² / (m_1 m_2 m_3 m_4),   1 degree of freedom: above 3.84 the two are related (p < 0.05)

    `None` if a row or a column is empty: then nobody can say. (Self-PRM: does who solves a problem also judge it right?)
    """
    rows, columns = [sum(row) for row in table], [sum(column) for column in zip(*table, strict=True)]
    if not table or not all(rows) or not all(columns):
        return None
    expected = [[row * column / sum(rows) for column in columns] for row in rows]
    pairs = ((o, e) for seen, due in zip(table, expected, strict=True) for o, e in zip(seen, due, strict=True))
    return float(sum((o - e) ** 2 / e for o, e in pairs))


def verdicts(judgement: Judgement, threshold: float = 0.5) -> tuple[bool | None, ...]:
    """Whether each step is good: valued at least `threshold`."""
    return tuple(None if value is None else value >= threshold for value in judgement.values)


def first_error(said: Sequence[bool | None]) -> int | None:
    """0-based index of the first bad step, -1 if there is none; `None` if a step without a verdict comes first."""
    for i, good in enumerate(said):
        if good is None:
            return None
        if not good:
            return i
    return -1


class Difference(NamedTuple):
    """A step on which two judges say different things."""

    trajectory_id: str
    step: int
    """From 0 on."""
    text: str
    a: float
    b: float


@dataclass(frozen=True)
class Agreement:
    """Two judges over the same traces."""

    judges: tuple[str, str]
    steps: int
    """Steps on which both have a verdict."""
    silent: int
    """Steps on which one or both have none."""
    observed: float | None
    kappa: float | None
    table: Mapping[tuple[bool, bool], int]
    """How often (a says good, b says good)."""
    traces: int
    """Traces in which both can name a first error (or none)."""
    same_first_error: float | None
    first_error_kappa: float | None
    differences: tuple[Difference, ...]


def agreement(
    trajectories: Sequence[Trajectory],
    a: Sequence[Judgement],
    b: Sequence[Judgement],
    thresholds: tuple[float, float] = (0.5, 0.5),
) -> Agreement:
    """Compare two judges' judgements of the same traces, step by step and by first error."""
    said_a: list[bool] = []
    said_b: list[bool] = []
    differences: list[Difference] = []
    errors: list[tuple[int, int]] = []
    silent = 0
    for trajectory, of_a, of_b in zip(trajectories, a, b, strict=True):
        good_a, good_b = (
            verdicts(of_a.check(trajectory), thresholds[0]),
            verdicts(of_b.check(trajectory), thresholds[1]),
        )
        for k, (x, y) in enumerate(zip(good_a, good_b, strict=True)):
            u, v = of_a.values[k], of_b.values[k]
            if x is None or y is None or u is None or v is None:
                silent += 1
                continue
            said_a.append(x)
            said_b.append(y)
            if x != y:
                differences.append(Difference(trajectory.id, k, trajectory.steps[k].text, u, v))
        first_a, first_b = first_error(good_a), first_error(good_b)
        if first_a is not None and first_b is not None:
            errors.append((first_a, first_b))
    table = Counter(zip(said_a, said_b, strict=True))
    return Agreement(
        judges=(a[0].judge if a else "", b[0].judge if b else ""),
        steps=len(said_a),
        silent=silent,
        observed=(table[True, True] + table[False, False]) / len(said_a) if said_a else None,
        kappa=cohen_kappa(said_a, said_b),
        table={(x, y): table[x, y] for x in (True, False) for y in (True, False)},
        traces=len(errors),
        same_first_error=sum(x == y for x, y in errors) / len(errors) if errors else None,
        first_error_kappa=first_error_kappa(errors),
        differences=tuple(differences),
    )


def first_error_kappa(errors: Sequence[tuple[int, int]]) -> float | None:
    """Kappa over the steps that two judges name as the first error (-1: none)."""
    return cohen_kappa([x for x, _ in errors], [y for _, y in errors])


Rule = Literal["first-error", "and", "or", "majority"]


def common_first_error(said: Sequence[Sequence[bool | None]]) -> int | None:
    """The first error that all judges name (-1: all say there is none); `None` if they differ or one cannot say."""
    errors = {first_error(verdict) for verdict in said}
    return errors.pop() if len(errors) == 1 else None


def combine_step(said: Sequence[bool | None], rule: Rule, min_agreement: float = 0.0) -> bool | None:
    """What judges say together of one step; `None` if they say nothing, tie, or agree too little.

    Under `and` one bad verdict decides whatever the silent ones would say, under `or` one good verdict; the opposite
    needs every verdict.
    """
    votes = Counter(word for word in said if word is not None)
    if rule == "majority":
        together = None if votes[True] == votes[False] else votes[True] > votes[False]
    else:
        decisive = rule == "or"
        together = decisive if votes[decisive] else None if None in said or not said else not decisive
    if together is None or votes[together] < min_agreement * len(said):
        return None
    return together


@dataclass(frozen=True)
class Consensus:
    """A judge made of judges. Their own values stand in the aspects `judge 1`, `judge 2`, …"""

    judges: tuple[Judge, ...]
    rule: Rule = "first-error"
    min_agreement: float = 0.0
    thresholds: tuple[float, ...] = ()
    """One a judge; without any, 0.5 for all."""

    def __post_init__(self) -> None:
        if len(self.judges) < 2:
            raise ValueError(f"a consensus needs at least two judges, got {len(self.judges)}")
        if self.thresholds and len(self.thresholds) != len(self.judges):
            raise ValueError(
                f"{len(self.thresholds)} thresholds for {len(self.judges)} judges: give one a judge, or none"
            )
        if not 0 <= self.min_agreement <= 1:
            raise ValueError(f"min_agreement is a share of the judges, not {self.min_agreement}")

    @property
    def name(self) -> str:
        limits = "/".join(f"{t:g}" for t in self._thresholds)
        who = ";".join(judge.name for judge in self.judges)
        return f"consensus({self.rule},min={self.min_agreement:g},thresholds={limits},{who})"

    @property
    def _thresholds(self) -> tuple[float, ...]:
        return self.thresholds or (0.5,) * len(self.judges)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """What the judges agree on by the rule, each asked once."""
        return self.combine(trajectories, [judge.judge(trajectories) for judge in self.judges])

    def agreements(self, trajectories: Sequence[Trajectory], said: Sequence[Sequence[Judgement]]) -> list[Agreement]:
        """How far each pair of judges agrees, given what each said of the traces."""
        pairs = combinations(zip(said, self._thresholds, strict=True), 2)
        return [agreement(trajectories, a, b, (s, t)) for (a, s), (b, t) in pairs]

    def combine(self, trajectories: Sequence[Trajectory], said: Sequence[Sequence[Judgement]]) -> list[Judgement]:
        """The consensus of judgements that are there already: one list a judge, each in the order of the traces."""
        rows = zip(*said, strict=True)
        return [self._combine(t, row) for t, row in zip(trajectories, rows, strict=True)]

    def _combine(self, trajectory: Trajectory, said: Sequence[Judgement]) -> Judgement:
        good = [verdicts(j.check(trajectory), t) for j, t in zip(said, self._thresholds, strict=True)]
        pairs = self._filtered(trajectory, said, good) if self.rule == "first-error" else self._by_step(said, good)
        return Judgement(
            trajectory.id,
            tuple(value for value, _ in pairs),
            self.name,
            aspects={f"judge {i}": j.values for i, j in enumerate(said, 1)},
            failures=failures_of(reason for _, reason in pairs),
            cost=Cost.total(j.cost for j in said),
        )

    def _filtered(
        self, trajectory: Trajectory, said: Sequence[Judgement], good: Sequence[Sequence[bool | None]]
    ) -> list[tuple[float | None, Unjudged | None]]:
        n = len(trajectory.steps)
        error = common_first_error(good)
        if error is None:
            return [(None, _named_errors(said, good))] * n
        kept = n if error < 0 else error
        labels: list[tuple[float | None, Unjudged | None]] = [(1.0, None)] * kept
        if error >= 0:
            labels += [(0.0, None)] + [(None, AFTER_ERROR)] * (n - kept - 1)
        return labels

    def _by_step(
        self, said: Sequence[Judgement], good: Sequence[Sequence[bool | None]]
    ) -> list[tuple[float | None, Unjudged | None]]:
        labels: list[tuple[float | None, Unjudged | None]] = []
        for k, votes in enumerate(zip(*good, strict=True)):
            together = combine_step(votes, self.rule, self.min_agreement)
            labels.append((None, _votes(said, votes, k)) if together is None else (float(together), None))
        return labels


def _named_errors(said: Sequence[Judgement], good: Sequence[Sequence[bool | None]]) -> Unjudged:
    """Who names which step, counted from 1, and why a judge cannot name one."""
    words = []
    for i, (judgement, verdict) in enumerate(zip(said, good, strict=True), 1):
        error = first_error(verdict)
        if error is None:
            at = verdict.index(None)
            words.append(f"judge {i} cannot say ({_reason(judgement, at)})")
        else:
            words.append(f"judge {i} finds no error" if error < 0 else f"judge {i} finds step {error + 1} wrong")
    return Unjudged(Reason.UNDECIDED, f"the judges differ: {', '.join(words)}")


def _votes(said: Sequence[Judgement], votes: Sequence[bool | None], step: int) -> Unjudged:
    words = [
        f"judge {i} says {'good' if vote else 'bad'}"
        if vote is not None
        else f"judge {i} cannot say ({_reason(j, step)})"
        for i, (j, vote) in enumerate(zip(said, votes, strict=True), 1)
    ]
    return Unjudged(Reason.UNDECIDED, f"the judges differ: {', '.join(words)}")


def _reason(judgement: Judgement, step: int) -> str:
    return judgement.failure(step) or "no reason given"


def _study(setting: Any, budget: float) -> Consensus:
    """Monte Carlo, and a critic that is wrong on a tenth of the steps."""
    rates = setting.labeller("monte-carlo", rollouts=int(budget), estimate="hard")
    return Consensus((rates, setting.critic(0.1)), "first-error")


@register(
    "labeller",
    "consensus",
    Declared(
        study=(label_row(110, make=_study, kind="stand-in"),),
        systems={"consensus-filter": {"judges": "monte-carlo,critic", "rule": "first-error"}},
    ),
)
def consensus(
    policy: Policy,
    judges: str = "monte-carlo,critic",
    rule: Rule = "first-error",
    min_agreement: float = 0.0,
    params: SamplingParams = SamplingParams(),
) -> Consensus:
    """Several judges, named with commas between, as one: by default Monte Carlo and a critic on one first error.

    Each takes the same policy and sampling parameters, so far as it takes any; Monte Carlo gives hard labels. Judges with
    other settings or policies are put together in Python: `Consensus((a, b))`.
    """
    names = [name.strip() for name in judges.split(",")]
    more = [{"estimate": "hard"} if name == "monte-carlo" else {} for name in names]
    made = (judge_by_name(name, policy=policy, params=params, **own) for name, own in zip(names, more, strict=True))
    return Consensus(tuple(made), rule, min_agreement)


def judge_by_name(name: str, **offered: Any) -> Judge:
    """The registered labeller or reward of this name, with what is offered so far as it takes it."""
    try:
        factory = load("labeller", name)
    except KeyError:
        factory = load("reward", name)
    takes = inspect.signature(factory).parameters
    judge: Judge = factory(**{key: value for key, value in offered.items() if key in takes})
    return judge


@dataclass(frozen=True)
class Beside:
    """What `values` says, with the values of `other` as the aspect of that name. A step may have the one without the other."""

    values: Judge
    other: Judge
    aspect: str = "reward"

    @property
    def name(self) -> str:
        return f"beside({self.values.name};{self.aspect}={self.other.name})"

    @property
    def judges(self) -> tuple[Judge, Judge]:
        """Those that it is made of: what they cost is what it costs."""
        return self.values, self.other

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The first judge's values, with the other's as an aspect."""
        pairs = zip(self.values.judge(trajectories), self.other.judge(trajectories), trajectories, strict=True)
        return [self._joined(one.check(t), two.check(t)) for one, two, t in pairs]

    def _joined(self, one: Judgement, two: Judgement) -> Judgement:
        aspects = {**one.aspects, self.aspect: two.values}
        return replace(one, judge=self.name, aspects=aspects, cost=one.cost + two.cost)


@register(
    "labeller",
    "beside",
    Declared(
        unmeasured="its values are those of another row, with a second judge as an aspect",
        systems={"birm": {"judges": "monte-carlo,critic", "aspect": "reward"}},
    ),
)
def beside(
    policy: Policy,
    judges: str = "monte-carlo,critic",
    aspect: str = "reward",
    params: SamplingParams = SamplingParams(),
) -> Beside:
    """Two judges, with a comma between: the first gives the values, the second the aspect `reward` (labels of BiRM).

    Both take the same policy and sampling parameters, so far as they take any; others are put together in Python:
    `Beside(a, b)`.
    """
    names = [name.strip() for name in judges.split(",")]
    if len(names) != 2:
        raise ValueError(f"judges names two judges with a comma between, not {judges!r}")
    values, other = (judge_by_name(name, policy=policy, params=params) for name in names)
    return Beside(values, other, aspect)
