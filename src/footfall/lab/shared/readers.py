"""Models that read a policy's hidden states beside it, where the policy is a table: RLCM's probe and RLFR's flow.

A table has no hidden states, so they are made up. For the probe they are what the policy knows of itself: whether an error
stands, how far it is, and its chances of each step there. For the flow a token's is the sum of three fixed random vectors a
layer: of the kind that it stands at, of whether an error stands, and of the step itself.

    probe    c = σ(w · x) learns by cross-entropy the share Y of `forced` completions from a prefix that are right
    flow     `footfall.rl.flow`, taught on the training problems' right solutions at first, then on right rollouts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from footfall.lab.shared.tables import Adam, Kinds, Learned, Table
from footfall.metrics.steps import calibration_error
from footfall.rl.exact import RIGHT, STOP, Chain, Trace, sample, softmax, solve
from footfall.rl.groups import Floats, Group

PASSES, LR = 16, 0.1
"""Of the probe, a batch."""
WIDTH, LAYERS, TAUGHT = 16, 3, 100
"""Of hidden states, and the flow's steps on right solutions, 16 problems each, before training."""


class Probe:
    """RLCM's: rollouts get confidences and the aspect `solved`; with `brier`, -(c - Y)² is added to the outcome."""

    def __init__(
        self, chain: Chain, problems: Sequence[Kinds], seed: int, forced: int = 4, brier: bool = False
    ) -> None:
        self.chain, self.forced, self.brier = chain, forced, brier
        self.rng, self.weights, self.optimizer = np.random.default_rng([seed, 29]), np.zeros(7), Adam(LR)

    def prefixes(self, policy: Table, kinds: Kinds, traces: Sequence[Trace]) -> tuple[list[Floats], list[Floats]]:
        """For each trace (S, 7) what is known after each step, and (S,) how many of the forced completions are right.

        NaN after the last step: nothing is left to complete.
        """
        logits, states = policy.logits(kinds), np.arange(self.chain.states)
        values = solve(self.chain, logits, self.chain.solved).values
        known = np.column_stack([np.ones(len(states)), states % 2, states // 2 / self.chain.depth, softmax(logits)])
        after = [self.chain.next[trace.states, trace.actions] for trace in traces]
        shares = [self.rng.binomial(self.forced, values[np.arange(1, len(at) + 1), at]) / self.forced for at in after]
        for row in shares:
            row[-1] = np.nan
        return [known[at] for at in after], shares

    def learn(self, known: Floats, shares: Floats) -> None:
        """Passes over prefixes; those without a share count nothing."""
        known, shares = known[np.isfinite(shares)], shares[np.isfinite(shares)]
        for _ in range(PASSES if len(shares) else 0):
            self.weights = self.weights + self.optimizer.step(known.T @ (shares - self.says(known)) / len(shares))

    def says(self, known: Floats) -> Floats:
        """c."""
        found: Floats = 1 / (1 + np.exp(-known @ self.weights))
        return found

    def read(
        self, policy: Table, problems: Sequence[Kinds], traces: Sequence[Sequence[Trace]], groups: Sequence[Group]
    ) -> list[Group]:
        """Learns from all prefixes of the batch, then says its confidence at each."""
        seen = [self.prefixes(policy, kinds, own) for kinds, own in zip(problems, traces, strict=True)]
        self.learn(*(np.concatenate([row for group in seen for row in group[part]]) for part in (0, 1)))
        found = []
        for group, (known, shares) in zip(groups, seen, strict=True):
            rollouts = []
            for each, x, share in zip(group.rollouts, known, shares, strict=True):
                sure = self.says(x)
                off = float(np.mean((sure - share)[:-1] ** 2)) if self.brier and len(share) > 1 else 0.0
                outcome = None if each.outcome is None else each.outcome - off
                rollouts.append(replace(each, confidence=sure, aspects={"solved": share}, outcome=outcome))
            found.append(Group(tuple(rollouts)))
        return found


def prefix_calibration(trained: Learned, seed: int, size: int = 8) -> float:
    """Calibration error at prefixes of held-out problems, of a new probe that learnt on the training problems."""
    chain = trained.chain
    probe, rng = Probe(chain, (), seed), np.random.default_rng([seed, 31])
    parts = []
    for problems in trained.problems:
        drawn = [probe.prefixes(trained.policy, kinds, sample(chain, trained.policy.logits(kinds), size, rng))
                 for kinds in problems]  # fmt: skip
        parts.append([np.concatenate([row for one in drawn for row in one[part]]) for part in (0, 1)])
    (known, shares), (new, truth) = parts
    for _ in range(PASSES):
        probe.learn(known, shares)
    measured = np.isfinite(truth)
    return float(calibration_error(probe.says(new[measured]), truth[measured]))


class FlowReader:
    """RLFR's: rollouts get `flow`, how far each token's hidden state deviates from those of right solutions."""

    def __init__(self, chain: Chain, problems: Sequence[Kinds], seed: int) -> None:
        from footfall.rl.flow import FlowReward

        self.draw, self.model = 1_000_000 * seed, FlowReward(WIDTH, blocks=1, lr=1e-2, seed=seed)
        rng, sizes = np.random.default_rng([seed, 37]), (1 + max(int(each.max()) for each in problems), 2, 4)
        kind, error, action = (rng.normal(0, 3**-0.5, (LAYERS, size, WIDTH)) for size in sizes)
        self.hidden = kind[:, :, None, None] + error[:, None, :, None] + action[:, None, None, :]
        steps = np.arange(chain.depth + 1)
        right = Trace(2 * steps, np.where(steps == chain.depth, STOP, RIGHT))
        for _ in range(TAUGHT):
            some = rng.choice(len(problems), min(16, len(problems)), replace=False)
            self.learn(*self.states([(problems[p], right) for p in some]), [True] * len(some))

    def states(self, pairs: Sequence[tuple[Kinds, Trace]]) -> tuple[Any, Any]:
        """(K, B, T, D) hidden states and those of the tokens before, zeros at first; and (B, T) which tokens there are."""
        import torch

        width = 1 + max(len(trace.actions) for _, trace in pairs)
        hidden, own = (
            np.zeros((LAYERS, len(pairs), width, WIDTH), np.float32),
            np.zeros((len(pairs), width), np.float32),
        )
        for row, (kinds, trace) in enumerate(pairs):
            there = slice(1, len(trace.actions) + 1)
            hidden[:, row, there] = self.hidden[:, kinds[trace.states // 2], trace.states % 2, trace.actions]
            own[row, there] = 1
        both, known = torch.from_numpy(hidden), torch.from_numpy(own)
        return (both[:, :, 1:], both[:, :, :-1]), known[:, 1:]

    def learn(self, states: Any, own: Any, right: Sequence[bool]) -> None:
        """One step of the flow, with noise of its own."""
        self.draw += 2
        self.model.learn(states, own, right, self.draw)

    def read(
        self, policy: Table, problems: Sequence[Kinds], traces: Sequence[Sequence[Trace]], groups: Sequence[Group]
    ) -> list[Group]:
        """Says how far tokens deviate, then learns from right rollouts."""
        pairs = [(kinds, trace) for kinds, own in zip(problems, traces, strict=True) for trace in own]
        states, own_BT = self.states(pairs)
        scores = iter(self.model.scores(states, own_BT, self.draw).numpy())
        found = [
            Group(tuple(replace(each, flow=next(scores)[: each.tokens]) for each in group.rollouts)) for group in groups
        ]
        self.learn(states, own_BT, [bool(each.outcome) for group in groups for each in group.rollouts])
        return found
