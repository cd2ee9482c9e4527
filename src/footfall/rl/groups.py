"""What reinforcement learning is told of a prompt's completions, and what a credit makes of them: numbers, no text.

A `Rollout` is one completion: T tokens in S steps, step rewards, the outcome, log-probabilities. A `Group` holds the
completions of one prompt. A `Credit` turns groups into one advantage a token, by a rule that is a pure function; a `Filter`
says which rollouts are trained on at all, and how much. Notation here and in all rules:

    i, j   rollouts of a group of G        k   steps, 1..S          t   tokens, 1..T
    r_k    the judge's value of step k     R   the outcome reward   V_0 the judge's value of the bare prompt

A judgement that failed is no zero: a rollout that lacks what a credit needs leaves its group before any statistic is taken,
gets the weight 0 on all its tokens, and `Credited.left` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from footfall.judging import IdleSettings
from footfall.types import Judgement, Reason, Trajectory, Unjudged

Floats: TypeAlias = npt.NDArray[np.float64]
Needs: TypeAlias = Literal["outcome", "rewards", "start", "ids", "old", "reference", "online", "token_scores", "flow",
                          "confidence"]  # fmt: skip
JUDGED = frozenset({"rewards", "start", "token_scores"})
"""What a judge alone can tell."""
_BY_TOKEN = ("ids", "old", "reference", "online", "token_scores", "flow")


@dataclass(frozen=True, eq=False)
class Rollout:
    """One completion as credits see it. What is not known is `None`; lists are taken for arrays."""

    lengths: npt.NDArray[np.int64]
    """(S,) tokens of each step, its separator and what the environment answered included; the end token is the last step's."""
    outcome: float | None = None
    """R: 1 for a right answer and 0 for a wrong one, or any other reward of the whole."""
    rewards: Floats | None = None
    """(S,) r_k."""
    start: float | None = None
    """V_0."""
    mask: npt.NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, bool))
    """(T,) true at tokens that the policy wrote: no other gets an advantage or counts in a mean over tokens. Empty: all."""
    ids: npt.NDArray[np.int64] | None = None
    """(T,)"""
    old: Floats | None = None
    """(T,) log-probabilities under the policy that sampled."""
    reference: Floats | None = None
    """(T,) under the frozen reference policy."""
    online: Floats | None = None
    """(T,) under a reward model that is a language model and is trained beside the policy."""
    token_scores: Floats | None = None
    """(T,) a score at every token: of the prefix that ends there, or of the token."""
    flow: Floats | None = None
    """(T,) how far the token's hidden state deviates from what a model of good text expects."""
    confidence: Floats | None = None
    """(S,) how sure the policy's own hidden states are of a right answer, at the end of each step."""
    aspects: Mapping[str, Floats] = field(default_factory=dict)
    """(S,) further numbers a step, NaN where there is none."""
    failure: Unjudged | None = None
    """Why it has no rewards."""
    unpaid: Unjudged | None = None
    """Why it has no outcome, where that is no reference answer's lack."""

    def __post_init__(self) -> None:
        lengths = np.asarray(self.lengths, np.int64)
        if lengths.ndim != 1 or not len(lengths) or (lengths < 0).any() or not lengths.sum():
            raise ValueError(f"a rollout has one length a step, and at least one token; got {lengths.tolist()}")
        found: dict[str, Any] = {"lengths": lengths}
        for name in (*_BY_TOKEN, "rewards", "confidence"):
            if (given := getattr(self, name)) is not None:
                found[name] = np.asarray(given, np.int64 if name == "ids" else np.float64)
        found["mask"] = np.asarray(self.mask, bool) if len(self.mask) else np.ones(int(lengths.sum()), bool)
        found["aspects"] = {name: np.asarray(column, np.float64) for name, column in self.aspects.items()}
        for name, array in {**found, **found["aspects"]}.items():
            if name not in ("lengths", "aspects"):
                wanted = int(lengths.sum()) if name in (*_BY_TOKEN, "mask") else len(lengths)
                if array.shape != (wanted,):
                    raise ValueError(f"{name} has the shape {array.shape} where the rollout has {wanted} of them")
                if name not in found["aspects"] and not np.isfinite(array).all():
                    raise ValueError(f"{name} of a rollout is not finite at {int(np.argmin(np.isfinite(array)))}")
        for name in ("outcome", "start"):
            if (number := getattr(self, name)) is not None and not math.isfinite(number):
                raise ValueError(f"{name} of a rollout is {number}")
        for name, array in found.items():
            object.__setattr__(self, name, array)

    @property
    def steps(self) -> int:
        """S."""
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """T."""
        return int(self.lengths.sum())

    def lacks(self, needs: Iterable[str]) -> Unjudged | None:
        """Why a credit with these needs cannot use it; `None` if it can."""
        missing = [name for name in needs if getattr(self, name) is None]
        if not missing:
            return None
        if self.failure is not None and {"rewards", "start"} & set(missing):
            return self.failure
        if self.unpaid is not None and "outcome" in missing:
            return self.unpaid
        return Unjudged(Reason.NO_REFERENCE, f"the rollout has no {' and no '.join(missing)}")

    @property
    def share(self) -> float:
        """Its outcome as a share of right, for rules that mean something by 0 and 1 and by nothing beyond; unknown: 0."""
        if self.outcome is not None and not -1e-9 <= self.outcome <= 1 + 1e-9:
            raise ValueError(
                f"an outcome is {self.outcome:g}, and the credit or filter wants outcomes in [0, 1]: pay by the answer or by "
                "probabilities (--outcome answer, min, mean, prod or last), or choose one that takes any, as grpo or spread"
            )
        return self.outcome or 0.0

    @property
    def right(self) -> bool:
        """Whether its outcome is that of a right answer, for rules that ask no more: R > ½."""
        return self.share > 0.5

    def known(self, name: Needs) -> Floats:
        """An array that the credit declared it needs."""
        found: Floats | None = getattr(self, name)
        if found is None:
            raise ValueError(f"the rollout has no {name}, and the credit did not say that it needs one")
        return found


@dataclass(frozen=True, eq=False)
class Group:
    """The completions of one prompt, in any order."""

    rollouts: tuple[Rollout, ...]
    prompt: str = ""
    """What messages call it."""


def rollout(
    trajectory: Trajectory,
    judgement: Judgement | None = None,
    outcome: float | None = None,
    *,
    tail: int = 0,
    after_error: float | None = None,
    **by_token: Any,
) -> Rollout:
    """The rollout of a trace (`trajectory_from_ids`) with what a judge said of its steps.

    `outcome` is 1 or 0 by `trajectory.correct` if it is not given. `tail` tokens that the policy wrote stand behind the last
    step (its end token). A judge that stops at the first error leaves later steps unjudged; `after_error` is their value.
    Without ids a step is one token. `by_token` are `old` (else the trace's own), `reference`, `online`, `token_scores`, `flow`.
    """
    parts = [part for step in trajectory.steps for part in step.parts]
    sampled = bool(parts) and all(part.token_ids is not None for part in parts)
    own: list[bool] = []
    lengths: list[int] = []
    for step in trajectory.steps:
        mine = [part.author == "policy" for part in step.parts for _ in part.token_ids or ()] if sampled else [True]
        own, lengths = own + mine, [*lengths, len(mine)]
    lengths, own = (lengths or [0]), own + [True] * tail
    lengths[-1] += tail
    found: dict[str, Any] = {"mask": own, **by_token}
    if sampled and not tail:
        found.setdefault("ids", [token for part in parts for token in part.token_ids or ()])
        if all(part.logprobs is not None or part.author != "policy" for part in parts):
            written = [part.logprobs or [0.0] * len(part.token_ids or ()) for part in parts]
            found.setdefault("old", [logprob for row in written for logprob in row])
    if outcome is None and trajectory.correct is not None:
        outcome = float(trajectory.correct)
    made = Rollout(np.array(lengths), outcome, **found)
    return made if judgement is None else _judged(made, judgement.check(trajectory), after_error)


def values_of(said: Judgement, after_error: float | None) -> list[float | None]:
    """A judgement's values of the steps, with `after_error` behind the first error of a judge that stops there."""
    return [
        after_error if value is None and (why := said.failure(k)) and why.reason is Reason.AFTER_ERROR else value
        for k, value in enumerate(said.values)
    ]


def _judged(made: Rollout, said: Judgement, after_error: float | None) -> Rollout:
    values = values_of(said, after_error)
    missing = [k for k, value in enumerate(values) if value is None]
    if missing or not values:
        why = said.failure(missing[0]) if missing else Unjudged(Reason.UNCHECKABLE, "the completion has no step")
        return replace(made, failure=why or Unjudged(Reason.OTHER, f"step {missing[0] + 1} was not judged"))
    kept = {name: np.array([np.nan if v is None else v for v in column]) for name, column in said.aspects.items()}
    scores = [value for row in said.token_values for value in row]
    found = np.array(scores) if made.token_scores is None and len(scores) == made.tokens else made.token_scores
    rewards = np.array(values, np.float64)
    return replace(made, rewards=rewards, start=said.initial, aspects=kept, token_scores=found)


# Arrays by step and by token.


def spread(per_step: npt.ArrayLike, lengths: npt.NDArray[np.int64]) -> Floats:
    """Each token has what its step has: (S,) to (T,)."""
    return np.repeat(np.asarray(per_step, np.float64), lengths)


def at_ends(per_step: npt.ArrayLike, lengths: npt.NDArray[np.int64]) -> Floats:
    """Each step's number on its last token, 0 elsewhere; that of a step without tokens on the token before it."""
    placed = np.zeros(int(lengths.sum()))
    np.add.at(placed, np.maximum(np.cumsum(lengths) - 1, 0), np.asarray(per_step, np.float64))
    return placed


def last_own(each: Rollout) -> npt.NDArray[np.int64]:
    """(S,) where each step's last token is that the policy wrote; of a step without any, its end."""
    ends = np.maximum(np.cumsum(each.lengths) - 1, 0)
    own = np.maximum.accumulate(np.where(each.mask, np.arange(each.tokens), -1))[ends]
    found: npt.NDArray[np.int64] = np.where(own > ends - each.lengths, own, ends)
    return found


def to_go(rewards: npt.ArrayLike, gamma: float = 1.0) -> Floats:
    """G_t = Σ_{s≥t} γ^(s-t) r_s."""
    rewards = np.asarray(rewards, np.float64)
    if gamma == 1.0:
        return np.cumsum(rewards[::-1])[::-1]
    total, found = 0.0, np.empty(len(rewards))
    for t in range(len(rewards) - 1, -1, -1):
        found[t] = total = rewards[t] + gamma * total
    return found


def by_step(per_token: Floats, lengths: npt.NDArray[np.int64]) -> Floats:
    """The sum over each step's tokens: (T,) to (S,)."""
    ends = np.concatenate([[0.0], np.cumsum(per_token)])[np.cumsum(lengths)]
    return np.diff(ends, prepend=0.0)


# Statistics of a group and of a batch.


def deviation(values: Floats, ddof: int = 1) -> float:
    """The std, unbiased unless `ddof` is 0; 0 where values differ by no more than the rounding of their mean."""
    if len(values) <= ddof or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return 0.0
    return float(values.std(ddof=ddof))


def standardised(values: npt.ArrayLike, eps: float = 1e-4, scale: bool = True) -> Floats:
    """(x - mean) / (std + ε) with the unbiased std; without `scale`, x - mean. One value, or equal ones, tell nothing: 0."""
    known: Floats = np.asarray(values, np.float64)
    if len(known) < 2:
        return np.zeros(len(known))
    centred: Floats = known - known.mean()
    if not scale:
        return centred
    width = deviation(known)
    return centred / (width + eps) if width else np.zeros(len(known))


def leave_one_out(values: npt.ArrayLike) -> Floats:
    """x_i - mean_{j≠i} x_j = G/(G-1) (x_i - mean x); 0 for one value alone."""
    centred = standardised(values, scale=False)
    return len(centred) / max(1, len(centred) - 1) * centred


def whitened(
    rows: Sequence[Sequence[Floats]], groups: Sequence[Sequence[Rollout]], ddof: int = 1, eps: float = 1e-8
) -> list[list[Floats]]:
    """(x - mean) / √(var + ε) over all tokens of the batch that the policy wrote."""
    own = [
        row[each.mask]
        for found, group in zip(rows, groups, strict=True)
        for row, each in zip(found, group, strict=True)
    ]
    pooled = np.concatenate(own) if own else np.zeros(0)
    if len(pooled) <= ddof:
        return [[np.zeros_like(row) for row in found] for found in rows]
    mean, scale = pooled.mean(), 1 / np.sqrt(pooled.var(ddof=ddof) + eps)
    return [[(row - mean) * scale for row in found] for found in rows]


Baseline = Literal["step", "total", "none"]


def dense(group: Sequence[Rollout], rewards: Sequence[Floats], baseline: Baseline = "step") -> list[Floats]:
    """Advantages from step rewards where the paper had a critic: the return-to-go of each step less what the others got.

        A_k = G_k - b_k,   b_k = mean_{j≠i} G_j,min(k, S_j)  (step)   or   mean_{j≠i} G_j,1  (total)   or   0

    No b_k depends on what rollout i did from step k on, so none biases the policy gradient. With the outcome alone as reward of
    the last step, the first two are RLOO.
    """
    returns = [to_go(row) for row in rewards]
    advantages = []
    for i, own in enumerate(returns):
        others = [row for j, row in enumerate(returns) if j != i]
        level = np.zeros(len(own))
        if others and baseline == "step":
            level = np.mean([row[np.minimum(np.arange(len(own)), len(row) - 1)] for row in others], axis=0)
        elif others and baseline == "total":
            level = np.full(len(own), np.mean([row[0] for row in others]))
        # A lone rollout is compared with nothing; only "none" gives it its return.
        advantages.append(own - level if others or baseline == "none" else np.zeros(len(own)))
    return [spread(row, each.lengths) for row, each in zip(advantages, group, strict=True)]


# Credits and filters.

Rule: TypeAlias = Callable[[Sequence[Sequence[Rollout]]], Sequence[Sequence[Floats]]]
"""Of groups whose rollouts have all that is needed: one (T,) array a rollout."""


class Credited(NamedTuple):
    """What a group's rollouts are trained with, in their order."""

    advantages: tuple[Floats, ...]
    """(T,) each; 0 at tokens of others and in rollouts that left."""
    weights: tuple[Floats, ...]
    """(T,) each, what multiplies a token's whole loss; 0 at tokens of others and in rollouts that left."""
    left: Mapping[int, Unjudged]
    """Rollouts that left the group, by index, with the reason."""


@dataclass(frozen=True)
class Credit:
    """A rule with what it needs. Calling it is the one way from groups to advantages."""

    needs: tuple[Needs, ...]
    rule: Rule
    weigh: Rule | None = None
    """(T,) factors of each token's loss, where the method has them."""
    also: tuple[Needs, ...] = ()
    """What it reads where it is known, and does without."""
    idle: IdleSettings = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", tuple(self.needs))  # a list is no part of a key

    def __call__(self, groups: Sequence[Group]) -> list[Credited]:
        """One result a group."""
        left = [
            {i: why for i, each in enumerate(group.rollouts) if (why := each.lacks(self.needs))} for group in groups
        ]
        kept = [[each for i, each in enumerate(group.rollouts) if i not in gone]
                for group, gone in zip(groups, left, strict=True)]  # fmt: skip
        advantages = self.rule(kept)
        weights = (
            [[np.ones(each.tokens) for each in group] for group in kept] if self.weigh is None else self.weigh(kept)
        )
        return [
            Credited(_in_place(group, gone, a), _in_place(group, gone, w), gone)
            for group, gone, a, w in zip(groups, left, advantages, weights, strict=True)
        ]


def reads_steps(credit: Credit) -> bool:
    """Whether the credit reads what the judge says of steps."""
    return bool(JUDGED & set(credit.needs))


def _in_place(group: Group, gone: Mapping[int, Unjudged], rows: Sequence[Floats]) -> tuple[Floats, ...]:
    given = iter(rows)
    return tuple(
        np.zeros(each.tokens) if i in gone else np.where(each.mask, next(given), 0.0)
        for i, each in enumerate(group.rollouts)
    )


def each_group(rule: Callable[[Sequence[Rollout]], Sequence[Floats]]) -> Rule:
    """A rule for a batch from one that looks at a group alone."""
    return lambda groups: [rule(group) if group else [] for group in groups]


class Chosen(NamedTuple):
    """A group to train on, once; a group that is used twice is chosen twice."""

    group: int
    weights: Floats
    """(G,) 0: the rollout is left out, of the group's statistics too; else the factor of its advantages."""


@dataclass(frozen=True)
class Filter:
    """Says what is trained on, and what it must know of a rollout for that."""

    needs: tuple[Needs, ...]
    choose: Callable[[Sequence[Group]], list[Chosen]]
    idle: IdleSettings = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", tuple(self.needs))

    def __call__(self, groups: Sequence[Group]) -> list[Chosen]:
        """Groups that are trained on."""
        return self.choose(groups)


FILTERED = Unjudged(Reason.NOT_ASKED, "the filter left it out")
"""Why a rollout that has all that is needed is not trained on."""


def left_out(rolled: Rollout, credit: Credit, keep: Filter | None) -> Unjudged:
    """Why a rollout that the filter did not choose is not trained on: what it lacks, of all that is needed, or `FILTERED`."""
    return rolled.lacks(dict.fromkeys((*credit.needs, *(keep.needs if keep else ())))) or FILTERED


def credited(groups: Sequence[Group], credit: Credit, keep: Filter | None = None) -> list[tuple[int, Credited]]:
    """The credit of what the filter keeps: the index of each chosen group with its advantages. Without a filter, all once."""
    if keep is None:
        return list(enumerate(credit(groups)))
    chosen = keep(groups)
    thinned = [Group(tuple(each for each, w in zip(groups[at].rollouts, weights, strict=True) if w), groups[at].prompt)
               for at, weights in chosen]  # fmt: skip
    found = []
    for (at, weights), said in zip(chosen, credit(thinned), strict=True):
        inside = np.flatnonzero(weights).tolist()
        place = {i: n for n, i in enumerate(inside)}
        blank = [np.zeros(each.tokens) for each in groups[at].rollouts]
        advantages = [weights[i] * said.advantages[place[i]] if i in place else row for i, row in enumerate(blank)]
        factors = [said.weights[place[i]] if i in place else row for i, row in enumerate(blank)]
        left = {i: said.left[place[i]] if i in place else left_out(each, credit, keep)
                for i, each in enumerate(groups[at].rollouts) if i not in place or place[i] in said.left}  # fmt: skip
        found.append((at, Credited(tuple(advantages), tuple(factors), left)))
    return found


def padded(rows: Sequence[Floats], width: int | None = None) -> Floats:
    """(B, T) as trainers want it, padded with zeros on the right."""
    width = max((len(row) for row in rows), default=0) if width is None else width
    if any(len(row) > width for row in rows):
        raise ValueError(f"a rollout has {max(len(row) for row in rows)} tokens and the batch is {width} wide")
    return np.stack([np.pad(row, (0, width - len(row))) for row in rows]) if rows else np.zeros((0, width))
