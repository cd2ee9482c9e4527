"""A policy that is a table, whose exact policy gradient is known: what a credit's estimate is held against.

A problem wants `depth` right steps and then an answer. In every state, progress made and whether an error stands, the policy
draws one of four steps from a softmax over a row of logits:

    right    one step further; where an error stands, corrects it instead
    wrong    one step further, and an error stands
    filler   a step that is right and leads nowhere, such as a repetition; so is `right` once all is done
    stop     gives the answer: right if all is done and no error stands

After `horizon` steps the trace is cut and wrong. With d_t(s) the chance to be in s at step t, and Q, V of any gain of steps,

    J = V_1(s_1),      ∂J/∂θ_sa = Σ_t d_t(s) π(a|s) (Q_t(s, a) - V_t(s))

so both are sums over a few states, without sampling. Prefix values are V_t(s), which makes exact judges too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.rl.groups import Floats

ACTIONS = ("right", "wrong", "filler", "stop")
RIGHT, WRONG, FILLER, STOP = range(4)


@dataclass(frozen=True)
class Chain:
    """The states: 2 · progress + error."""

    depth: int = 3
    horizon: int = 8

    @property
    def states(self) -> int:
        return 2 * (self.depth + 1)

    def after(self, state: int, action: int) -> int:
        """The next state; that of `stop` is never looked at."""
        progress, error = divmod(state, 2)
        if action == RIGHT:
            return 2 * progress if error else 2 * min(progress + 1, self.depth)
        return 2 * min(progress + 1, self.depth) + 1 if action == WRONG else state

    @property
    def next(self) -> npt.NDArray[np.int64]:
        """(S, A)"""
        return np.array([[self.after(s, a) for a in range(4)] for s in range(self.states)])

    @property
    def solved(self) -> Floats:
        """(S, A) gain whose sum over a trace is 1 if its answer is right, and 0 if not."""
        gain = np.zeros((self.states, 4))
        gain[2 * self.depth, STOP] = 1
        return gain

    @property
    def wasted(self) -> Floats:
        """(S, A) gain whose sum over a trace is the number of steps that lead nowhere."""
        gain = np.zeros((self.states, 4))
        gain[:, FILLER] = 1
        gain[2 * self.depth, RIGHT] = 1
        return gain

    def policy(self, seed: int) -> Floats:
        """Logits (S, A) of a policy that is often right, and differs from seed to seed."""
        noise = np.random.default_rng([seed, 7]).normal(0, 0.5, (self.states, 4))
        logits: Floats = noise + np.array([1.0, 0.2, 0.0, -1.0])
        logits[2 * self.depth :, STOP] += 2.0
        return logits


def softmax(logits: Floats) -> Floats:
    """π (…, S, A)."""
    weights: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    chances: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return chances


class Solved(NamedTuple):
    """Of a gain: what a trace is expected to bring, its gradient, and the value of every state at every step."""

    value: float
    gradient: Floats
    """(S, A)"""
    values: Floats
    """(horizon + 1, S): V before each step, 0 when the trace is cut."""


def solve(chain: Chain, logits: Floats, gain: Floats) -> Solved:
    """Exactly, backwards for the values and forwards for the visits."""
    chances, onward = softmax(logits), chain.next
    goes_on = np.array([a != STOP for a in range(4)])
    values = np.zeros((chain.horizon + 1, chain.states))
    worth = np.zeros((chain.horizon, chain.states, 4))
    for t in range(chain.horizon - 1, -1, -1):
        worth[t] = gain + goes_on * values[t + 1][onward]
        values[t] = (chances * worth[t]).sum(axis=1)
    visits, gradient = np.zeros(chain.states), np.zeros_like(logits)
    visits[0] = 1
    for t in range(chain.horizon):
        gradient += visits[:, None] * chances * (worth[t] - values[t][:, None])
        moved = np.zeros(chain.states)
        np.add.at(moved, onward, visits[:, None] * chances * goes_on)
        visits = moved
    return Solved(float(values[0, 0]), gradient, values)


def expected(chain: Chain, logits: Floats, gain: Floats) -> Floats:
    """What a trace brings under each of several policies, (P, S, A) to (P,): `Solved.value` alone."""
    chances, onward, goes_on = softmax(logits), chain.next, np.arange(4) != STOP
    values = np.zeros(logits.shape[:2])
    for _ in range(chain.horizon):
        values = (chances * (gain + goes_on * values[:, onward])).sum(axis=-1)
    found: Floats = values[:, 0]
    return found


class Trace(NamedTuple):
    """What one rollout did: the state before each step, and the step."""

    states: npt.NDArray[np.int64]
    actions: npt.NDArray[np.int64]

    def solved(self, chain: Chain) -> bool:
        """Whether its answer is right."""
        return bool(chain.solved[self.states[-1], self.actions[-1]])


def sample(chain: Chain, logits: Floats, count: int, rng: np.random.Generator) -> list[Trace]:
    """Rollouts of the policy."""
    reach, onward = np.cumsum(softmax(logits), axis=1), chain.next
    draws = rng.random((count, chain.horizon))
    states, actions = np.zeros((2, count, chain.horizon + 1), np.int64)
    for t in range(chain.horizon):
        here = states[:, t]
        actions[:, t] = np.minimum((reach[here] <= draws[:, t, None]).sum(axis=1), STOP)
        states[:, t + 1] = onward[here, actions[:, t]]
    ended = actions[:, :-1] == STOP
    lengths = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, chain.horizon)
    return [Trace(states[i, :n], actions[i, :n]) for i, n in enumerate(lengths)]


def estimate(chances: Floats, traces: Sequence[Trace], advantages: Sequence[Floats], rollouts: int) -> Floats:
    """ĝ = Σ_i Σ_t A_it ∇ log π(a_it | s_it) / rollouts, (S, A)."""
    pushed = np.zeros_like(chances)
    states = np.concatenate([trace.states for trace in traces])
    pulled = np.concatenate(list(advantages))
    np.add.at(pushed, (states, np.concatenate([trace.actions for trace in traces])), pulled)
    visited = np.bincount(states, weights=pulled, minlength=len(chances))
    gradient: Floats = (pushed - visited[:, None] * chances) / rollouts
    return gradient
