"""What a completion is paid, for any trainer: who judges it, what the whole is worth, and both in one row of numbers.

A trainer that hands a credit nothing but (batch, time) rewards, as verl does, gets all of it in the row (`row_of`):

    step rewards   r_k on the last token of step k, as they are, so that other estimators can use them too
    R and V_0      on the first tokens that end no step, times 2^-90: no sum over the row sees them

A reward of 0 at a step's end and an R of 0 are marks that are smaller still. `advantages_of` reads rows again, gathers groups,
and returns what `credited` gives for the rollouts that the rows were made of, in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from footfall.answers import grade
from footfall.judging import IdleSettings, as_trained, idle_settings, traits
from footfall.rl.groups import (
    JUDGED,
    Credit,
    Filter,
    Floats,
    Group,
    Rollout,
    at_ends,
    credited,
    left_out,
    padded,
    reads_steps,
    rollout,
    values_of,
)
from footfall.search.votes import reward_of
from footfall.types import Judge, Judgement, Problem, Reason, Trajectory, Unjudged, failures_of

Row: TypeAlias = npt.NDArray[np.float32]
PaidBy: TypeAlias = Callable[[Trajectory], float | None]
"""What a graded completion is worth, by a function of the user's; None: nobody can say, and it leaves its group."""
CARRIED = frozenset({"outcome", "rewards", "start"})
"""What a credit may need of a row."""
_SCALE, _STEP, _LEAST = 2.0**-90, 2.0**-60, 2.0**-28
"""What R and V_0 are multiplied by; the least step reward, and the least |R|, that is told from 0."""
_END, _ZERO, _UNKNOWN, _UNJUDGED = (2.0**-k for k in (120, 121, 122, 123))
"""A step's end with the reward 0; R or V_0 is 0; it is not known; the steps have no rewards and R stands on the last token."""
_UNASKED = Unjudged(Reason.NOT_ASKED, "the run asks no judge")
_UNPAID = Unjudged(Reason.UNCHECKABLE, "the function that pays completions gave None")


@dataclass(frozen=True)
class Reward:
    """What is trained on: who judges steps, what a whole completion is worth, and how both become advantages."""

    credit: Credit
    judge: Judge | None = None
    """None: outcomes alone, which is the right or wrong of the answer."""
    keep: Filter | None = None
    outcome: str | PaidBy = "answer"
    """R: by the reference answer, the judge's step values aggregated (min, mean, last, …), or what a function of yours says."""
    aggregate: str = "min"
    """The proxy that a run logs and monitors watch: step values aggregated so, where the credit reads them; else R."""
    after_error: float | None = 0.0
    """The value of steps behind a first error, of judges that stop there. None: such rollouts leave their groups."""

    def __post_init__(self) -> None:
        by_judge = isinstance(self.outcome, str) and self.outcome != "answer"
        if self.judge is None and (JUDGED & self.needs or by_judge):
            raise ValueError("the credit, the filter or the outcome reads a judge's values: name a judge")

    @property
    def needs(self) -> frozenset[str]:
        """What credit and filter must know of a rollout."""
        return frozenset(self.credit.needs) | frozenset(self.keep.needs if self.keep else ())

    @property
    def by_steps(self) -> bool:
        """Whether the credit reads what the judge says of steps."""
        return reads_steps(self.credit)

    @property
    def idle(self) -> IdleSettings:
        """What does nothing with this credit, filter and judge."""
        return idle_settings(
            ("outcome" not in {*self.needs, *self.credit.also}, "outcome", "credits and filters that read outcomes"),
            (not self.by_steps, "aggregate", "credits that read steps: of others the outcome is logged"),
            (self.judge is None, "after_error", "what a judge says of steps"),
        )

    def unanswered(self, problems: Sequence[Problem]) -> int:
        """How many problems lack the reference answer that completions are paid by: nothing is learnt from these.

        If all of them do, they are refused.
        """
        if self.outcome != "answer" or "outcome" not in self.needs:
            return 0
        lacking = sum(problem.answer is None for problem in problems)
        if lacking and lacking == len(problems):
            raise ValueError(
                "no problem has a reference answer, and completions are paid by it: give answers, or let a judge decide what a "
                "completion is worth (outcome min, mean, …)"
            )
        return lacking

    def judged(self, traces: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement a trace, all in one batch; without a judge, none has a value."""
        if self.judge is None:
            nothing = [(None,) * len(trace.steps) for trace in traces]
            return [
                Judgement(trace.id, values, "none", failures=failures_of([_UNASKED] * len(values)))
                for trace, values in zip(traces, nothing, strict=True)
            ]
        said = self.judge.judge(as_trained(traits(self.judge).separators, traces))
        if len(said) != len(traces):
            raise ValueError(f"judge {self.judge.name!r} gave {len(said)} judgements for {len(traces)} trajectories")
        return [each.check(trace) for each, trace in zip(said, traces, strict=True)]

    def outcome_of(self, trace: Trajectory, said: Judgement) -> float | None:
        """R."""
        if self.outcome == "answer":
            return None if trace.correct is None else float(trace.correct)
        if not isinstance(self.outcome, str):
            return self.outcome(trace)
        return reward_of(values_of(said, self.after_error), self.outcome)

    def proxy(self, rolled: Rollout) -> float | None:
        """What the run says it is paid for the whole completion."""
        if not self.by_steps:
            return rolled.outcome
        return None if rolled.rewards is None else reward_of(rolled.rewards.tolist(), self.aggregate)

    def score(self, traces: Sequence[Trajectory]) -> list[float | None]:
        """The proxy of any traces: what probes for exploits are paid."""
        graded = [grade(replace(trace, answer=None)) for trace in traces]  # an exploit states its own answer or none
        said = self.judged(graded)
        return [self.proxy(self.rollout(trace, each)) for trace, each in zip(graded, said, strict=True)]

    def rollout(self, trace: Trajectory, said: Judgement, **known: Any) -> Rollout:
        """The numbers of a trace; one without any token counts as one, so that it can be looked at."""
        if not trace.steps:
            known.setdefault("tail", 1)
        if scores := [value for row in said.token_values for value in row]:
            known["token_scores"] = scores + scores[-1:] * known.get(
                "tail", 0
            )  # the end adds nothing to the last prefix
        given = None if self.judge is None else said
        R = self.outcome_of(trace, said)
        made = rollout(trace, given, R, after_error=self.after_error, **known)
        # What a judge or a function is to pay and cannot is not paid by the answer instead.
        why = made.failure if isinstance(self.outcome, str) else _UNPAID
        return made if self.outcome == "answer" else replace(made, outcome=R, unpaid=why)

    def of_ids(self, trace: Trajectory, said: Judgement, ids: Sequence[int]) -> Rollout:
        """The numbers of a trace that was made of a sampler's ids; those behind its steps are the end token and the like."""
        inside = sum(len(part.token_ids or ()) for step in trace.steps for part in step.parts)
        return self.rollout(trace, said, ids=list(ids), tail=len(ids) - inside)


def row_of(rolled: Rollout, needs: Sequence[str] = ("outcome", "rewards")) -> Row:
    """A rollout's rewards by token. `start` is told only to a credit that needs it.

    Where steps take up all tokens there is no room for R: such a rollout (cut off, every step one token) has no rewards. A
    single token has room for one number, which is R, written as where it stands beside rewards if the credit reads these.
    """
    facts = [rolled.outcome, *([rolled.start] if "start" in needs else [])]
    if rolled.rewards is not None and rolled.lengths.all() and rolled.tokens - rolled.steps >= len(facts):
        ends = np.cumsum(rolled.lengths) - 1
        row = at_ends(np.where(np.abs(rolled.rewards) < _STEP, _END, rolled.rewards), rolled.lengths)
        row[np.delete(np.arange(rolled.tokens), ends)[: len(facts)]] = [_fact(each) for each in facts]
    elif rolled.tokens == 1 and "rewards" in needs:
        row = np.array([_fact(rolled.outcome)])
    else:
        row = np.zeros(rolled.tokens)
        row[0] = _UNJUDGED
        row[-1] = _UNKNOWN if rolled.outcome is None else rolled.outcome
    return row.astype(np.float32)


def _fact(value: float | None) -> float:
    if value is None:
        return _UNKNOWN
    if not abs(value) < 1 / _LEAST:
        raise ValueError(
            f"an outcome of {value} does not fit into a row of rewards: scale it to less than {1 / _LEAST:g}"
        )
    return _ZERO if abs(value) < _LEAST else value * _SCALE


def rollout_of(row: npt.ArrayLike, own: npt.ArrayLike) -> Rollout:
    """The rollout of a row (padded on the right) with `own` true at tokens that the policy wrote.

    Of a row that was not made here the sum is R, as where a trainer puts an outcome on the last token.
    """
    values, mask = np.asarray(row, np.float64), np.asarray(own, bool)
    length = int(np.flatnonzero(mask | (values != 0))[-1:].sum()) + 1
    values, mask, size = values[:length], mask[:length], np.abs(values[:length])
    ends = (size >= _STEP) | (size == _END)
    facts = [None if x == _UNKNOWN else 0.0 if x == _ZERO else float(x) / _SCALE
             for x in values[(size > 0) & ~ends & (size != _UNJUDGED)]]  # fmt: skip
    why = Unjudged(Reason.FAILED_CALL, "the judge gave its steps no rewards, or its tokens had no room for them")
    if length == 1 and facts:
        return Rollout(np.array([1]), facts[0], mask=mask, failure=why)
    if _UNJUDGED in size or not facts or not ends.any():
        R = None if _UNKNOWN in size else float(values[size >= _STEP].sum())
        return Rollout(np.array([length]), R, mask=mask, failure=why if _UNJUDGED in size else None)
    at = np.flatnonzero(ends)
    lengths = np.diff(at, prepend=-1)
    lengths[-1] += length - 1 - at[-1]
    rewards = np.where(size[at] == _END, 0.0, values[at])
    return Rollout(lengths, facts[0], rewards, facts[1] if len(facts) > 1 else None, mask)


def advantages_of(
    rows: npt.ArrayLike, own: npt.ArrayLike, index: Sequence[Hashable], credit: Credit, keep: Filter | None = None
) -> tuple[Floats, dict[int, Unjudged]]:
    """(B, T) advantages of (B, T) rows, and which rows are not trained on: what they lack, or `FILTERED`. Completions with the
    same `index` are a group; one in which the policy wrote nothing is padding, and in no statistic.

    What is left out has advantages of 0. A group that the filter chose twice has its advantages twice.
    """
    if lacking := set(credit.needs) - CARRIED:
        raise ValueError(f"rewards by token cannot tell a credit the {' and '.join(sorted(lacking))} that it needs")
    given = np.asarray(rows, np.float64)
    rolled = [rollout_of(row, mask) for row, mask in zip(given, np.asarray(own, bool), strict=True)]
    if "rewards" in credit.needs and all(each.rewards is None and each.failure is None for each in rolled):
        raise ValueError("the credit reads rewards of steps and no row has any: let rows be made by `row_of`")
    written: dict[Hashable, list[int]] = {}
    for i, name in enumerate(index):
        written.setdefault(name, []).append(i)
    # verl fills a batch up with completions of no prompt, in which nobody wrote a token.
    members = {name: group for name, group in written.items() if np.asarray(own, bool)[group].any()}
    groups = [Group(tuple(rolled[i] for i in group), str(name)) for name, group in members.items()]
    found = [np.zeros(each.tokens) for each in rolled]
    left: dict[int, Unjudged] = {}
    places = list(members.values())
    chosen = credited(groups, credit, keep)
    for at in set(range(len(groups))) - {at for at, _ in chosen}:
        left |= {i: left_out(rolled[i], credit, keep) for i in places[at]}
    for at, said in chosen:
        left |= {places[at][n]: why for n, why in said.left.items()}
        for i, advantages, weights in zip(places[at], said.advantages, said.weights, strict=True):
            found[i] = found[i] + advantages * weights
    return padded(found, given.shape[1]), left
