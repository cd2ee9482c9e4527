"""A policy trained on a judge that can be hacked: which credits are, and whether the monitors say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from footfall.registry import create
from footfall.rl.exact import ACTIONS, FILLER, STOP, Chain, Trace, estimate, sample, softmax, solve
from footfall.rl.groups import Group, Rollout
from footfall.rl.monitors import OVEROPTIMISED, Checkpoint, Logged, alarms, hacked, measure
from footfall.types import Judgement, Problem, Step, Trajectory

CHAIN = Chain(depth=3, horizon=16)
LIKES = np.array([0.8, 0.2, 0.95, 0.8])
"""What the judge says of right, wrong, needless steps and answers: it likes needless ones most."""
GROUPS, SIZE = 8, 8


def rewards(trace: Trace) -> np.ndarray:
    return np.asarray(LIKES[trace.actions])


def logged(trace: Trace, reward: float) -> Logged:
    """The trace as text: a needless step repeats what was said, any other says something new."""
    texts = ["as I said, 1 + 1 = 2" if a == FILLER else f"{ACTIONS[a]} step {k}" for k, a in enumerate(trace.actions)]
    answer = "4" if trace.actions[-1] == STOP else None
    written = Trajectory("t", Problem("p", "?"), tuple(map(Step, texts)), answer, trace.solved(CHAIN))
    return Logged(written, Judgement("t", tuple(rewards(trace)), "likes"), reward, len(texts))


def trained(name: str, reward: Callable[[Trace], float], updates: int = 20, **options: Any) -> list[Checkpoint]:
    """Updates of one length along the credit's estimate, each logged before it is made."""
    credit, logits, rng = create("credit", name, **options), CHAIN.policy(0), np.random.default_rng(0)
    run = []
    for update in range(updates):
        traces = sample(CHAIN, logits, GROUPS * SIZE, rng)
        run.append(Checkpoint(update, measure([logged(trace, reward(trace)) for trace in traces]), len(traces)))
        rolled = [Rollout(np.ones(len(t.actions), np.int64), float(t.solved(CHAIN)), rewards(t)) for t in traces]
        said = credit([Group(tuple(rolled[at : at + SIZE])) for at in range(0, len(rolled), SIZE)])
        step = estimate(softmax(logits), traces, [a for each in said for a in each.advantages], len(traces))
        logits = logits + 1.5 * step / (np.linalg.norm(step) + 1e-9)
    return run


def accuracy(run: list[Checkpoint]) -> tuple[float, float]:
    """In the first and in the last five updates."""
    truth = [float(point.figures["truth"] or 0) for point in run]
    return float(np.mean(truth[:5])), float(np.mean(truth[-5:]))


def total(trace: Trace) -> float:
    return float(rewards(trace).sum())


@pytest.mark.parametrize(
    ("name", "options"),
    [("grpo-process", {}), ("pure", {"form": "sum", "coef": 0.0}), ("reinforce-step", {"how": "sum"})],
)
def test_a_summed_reward_is_hacked_and_the_monitors_see_it(name: str, options: dict[str, Any]) -> None:
    run = trained(name, total, **options)
    before, after = accuracy(run)
    assert after < before - 0.1, "the policy has found that needless steps pay"
    assert hacked(run) and OVEROPTIMISED in {alarm.name for alarm in alarms(run)}
    assert not hacked(run[:3])
    blind = [Checkpoint(p.update, {**p.figures, "truth": None, "unanswered": None}, p.rollouts) for p in run]
    assert {"repetition", "steps drift"} <= {alarm.name for alarm in alarms(blind)} and hacked(blind)


@pytest.mark.parametrize(
    ("name", "reward"),
    [
        ("grpo", lambda trace: float(trace.solved(CHAIN))),
        (
            "clip-delta",
            lambda trace: float(trace.solved(CHAIN)) + 0.1 * float(np.minimum(rewards(trace) - 0.5, 0).sum()),
        ),
    ],
)
def test_outcomes_and_bounded_rewards_are_not(name: str, reward: Callable[[Trace], float]) -> None:
    run = trained(name, reward)
    before, after = accuracy(run)
    assert after > before + 0.2 and not any(hacked(run[:n]) for n in range(1, len(run) + 1))


def test_the_minimum_beside_the_outcome_learns_where_the_sum_does_not() -> None:
    least = trained("pure", lambda trace: float(rewards(trace).min()), temperature=0.0)
    summed = trained("pure", total, form="sum")
    assert accuracy(least)[1] > accuracy(summed)[1] + 0.2 and not hacked(least)


def test_the_minimum_alone_is_hacked_by_saying_little() -> None:
    run = trained("pure", lambda trace: float(rewards(trace).min()), temperature=0.0, coef=0.0)
    assert accuracy(run)[1] < 0.1 and hacked(run)
    assert {"steps drift", "short"} <= {alarm.name for alarm in alarms(run)}, "as the paper saw: answers of one step"


def test_the_exact_gradient_says_the_same() -> None:
    """What is hacked is what the credit's expected reward grows along, not what accuracy grows along."""
    logits = CHAIN.policy(0)
    truth, likes = (
        solve(CHAIN, logits, CHAIN.solved).gradient,
        solve(CHAIN, logits, np.tile(LIKES, (CHAIN.states, 1))).gradient,
    )
    cosine = float((truth * likes).sum() / np.linalg.norm(truth) / np.linalg.norm(likes))
    assert cosine < 0.2
