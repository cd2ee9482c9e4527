"""Fine-tuning a policy so that it samples solutions in proportion to their reward: sub-trajectory balance (card: gflownet).

A state s_i is the problem with its first i steps, an action the next step, and stopping there earns R(s_i) = Π_{j≤i} r_j, r_j
the judge's value of step j. For a solution of n steps and all 0 ≤ i < j ≤ n

    δ_ij = ln R(s_i) + Σ_{t=i+1..j} ln π(step_t | s_{t−1}) + ln π(end | s_j) − ln R(s_j) − ln π(end | s_i)
    loss = Σ_ij λ^(j−i) δ_ij² / Σ_ij λ^(j−i)

All are 0 for who samples in proportion to R. Solutions go through a replay buffer: drawn without replacement in proportion to
their mean reward, removed after use, the lowest evicted when it is full. `maximise` trains by the policy gradient of R instead,
(R − mean R) ∇ ln π, on what was just drawn: the reward maximiser that a GFlowNet is compared with.

What differs from the reference code: step resolution, not token resolution, and logits that are not divided by the temperature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from footfall.loading import padded
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Reading, encode
from footfall.train.finite import refuse_not_finite
from footfall.types import Cost, Judge, Trajectory


def balance_gaps(rewards_n: Tensor, steps_n: Tensor, ends_n1: Tensor, floor: float = 1e-6) -> Tensor:
    """δ_ij (n + 1, n + 1) of a solution, of which i < j count.

    `rewards_n` r_j and log-probabilities `steps_n` are the n steps', log-probabilities `ends_n1` the n + 1 states'.
    """
    n = len(rewards_n)
    if len(steps_n) != n or len(ends_n1) != n + 1:
        raise ValueError(
            f"{n} rewards need {n} step and {n + 1} end log-probabilities, not {len(steps_n)} and {len(ends_n1)}"
        )
    start = ends_n1.new_zeros(1)
    flow_n1 = torch.cat([start, rewards_n.clamp(min=floor).log().cumsum(0)])
    path_n1 = torch.cat([start, steps_n.cumsum(0)])
    level_n1 = flow_n1 - path_n1 - ends_n1
    return level_n1[:, None] - level_n1[None, :]


def balance_loss(
    rewards_n: Tensor, steps_n: Tensor, ends_n1: Tensor, decay: float = 1.0, floor: float = 1e-6
) -> Tensor:
    """The loss of one solution, 0 at the target."""
    gaps = balance_gaps(rewards_n, steps_n, ends_n1, floor)
    i, j = torch.triu_indices(len(gaps), len(gaps), offset=1, device=gaps.device)
    weights = torch.pow(torch.tensor(decay).to(gaps), j - i)
    loss: Tensor = (weights * gaps[i, j] ** 2).sum() / weights.sum()
    return loss


class Solution(NamedTuple):
    """A solution and the value of each of its steps."""

    trajectory: Trajectory
    rewards: tuple[float, ...]

    @property
    def mean(self) -> float:
        """What it is drawn and kept by."""
        return math.fsum(self.rewards) / len(self.rewards)


@dataclass
class ReplayBuffer:
    """Solutions that wait to be learned from."""

    size: int = 1000
    waiting: list[Solution] = field(default_factory=list)

    def add(self, solution: Solution) -> None:
        """One more; the one of the lowest mean reward goes if there are too many."""
        self.waiting.append(solution)
        if len(self.waiting) > self.size:
            self.waiting.remove(min(self.waiting, key=lambda each: each.mean))

    def draw(self, n: int, rng: np.random.Generator) -> list[Solution]:
        """Up to `n` different ones in proportion to their mean reward; they are gone from here."""
        weights = np.array([max(each.mean, 1e-6) for each in self.waiting])
        n = min(n, len(weights))
        at = rng.choice(len(weights), n, replace=False, p=weights / weights.sum()).tolist() if n else []
        drawn = [self.waiting[k] for k in at]
        self.waiting = [each for k, each in enumerate(self.waiting) if k not in set(at)]
        return drawn


@dataclass(frozen=True)
class BalanceConfig:
    """How a policy is tuned: the published settings but for the learning rate (3e-6 there, of a model of 3B)."""

    rounds: int = 40
    problems: int = 16
    """A round; each is solved `samples` times."""
    samples: int = 2
    batch: int = 16
    """Solutions an update."""
    buffer: int = 1000
    decay: float = 1.0
    lr: float = 1e-4
    last_lr: float = 1e-6
    """The rate falls to this on a cosine."""
    max_grad_norm: float = 5.0
    seed: int = 0


class Balanced(NamedTuple):
    """The loss of each update, and what sampling and judging cost."""

    losses: tuple[float, ...]
    cost: Cost


def tune(
    policy: TorchPolicy,
    prefixes: Sequence[Trajectory],
    judge: Judge,
    params: SamplingParams,
    config: BalanceConfig = BalanceConfig(),
    how: Literal["balance", "maximise"] = "balance",
) -> Balanced:
    """Fit the policy's model, in place, on solutions of these problems that it writes; those of one step are skipped."""
    model, rng, buffer = policy.engine.model, np.random.default_rng(config.seed), ReplayBuffer(config.buffer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.rounds, config.last_lr)
    losses: list[float] = []
    cost = Cost()
    for number in range(config.rounds):
        asked = [prefixes[k] for k in rng.choice(len(prefixes), min(config.problems, len(prefixes)), replace=False)]
        drawn = draw_traces(policy, asked, config.samples, replace(params, seed=params.seed + 1000 * (number + 1)))
        traces = [trace for row in drawn for trace in row]
        said = judge.judge(traces)
        cost += Cost.total([*(trace.cost for trace in traces), *(each.cost for each in said)])
        pairs = [(t, tuple(v for v in j.values if v is not None)) for t, j in zip(traces, said, strict=True)]
        fresh = [Solution(t, rewards) for t, rewards in pairs if len(t.steps) == len(rewards) > 1]
        for solution in fresh:
            buffer.add(solution)
        taken = buffer.draw(config.batch, rng) if how == "balance" else fresh
        if taken:
            with torch.enable_grad():
                loss = _loss(policy, taken, config.decay, how)
                optimizer.zero_grad(set_to_none=True)
                refuse_not_finite(float(loss.detach()), "the loss", len(losses))
                torch.autograd.backward([loss])
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
            refuse_not_finite(float(norm), "the gradient's norm", len(losses))
            optimizer.step()
            losses.append(float(loss.detach()))
        schedule.step()
    return Balanced(tuple(losses), cost)


def _loss(policy: TorchPolicy, taken: Sequence[Solution], decay: float, how: Literal["balance", "maximise"]) -> Tensor:
    readings = [encode(policy.tokenizer, each.trajectory, policy.template) for each in taken]
    found = state_log_probs(policy, readings)
    if how == "balance":
        rewards = [torch.tensor(each.rewards) for each in taken]
        each_loss = [
            balance_loss(r.to(steps), steps, ends, decay) for r, (steps, ends) in zip(rewards, found, strict=True)
        ]
        return torch.stack(each_loss).mean()
    earned_N = torch.tensor([math.prod(each.rewards) for each in taken])
    written_N = torch.stack([steps.sum() + ends[-1] for steps, ends in found])
    return -((earned_N - earned_N.mean()).to(written_N) * written_N).mean()


def state_log_probs(policy: TorchPolicy, readings: Sequence[Reading]) -> list[tuple[Tensor, Tensor]]:
    """ln π of each step, its separator included, and of ending at each state, of each solution; with gradient."""
    model, eos = policy.engine.model, int(policy.tokenizer.eos_token_id)
    ids_NT = padded([reading.ids for reading in readings]).to(model.device)
    log_NTV = model(input_ids=ids_NT, use_cache=False).logits.float().log_softmax(dim=-1)
    said_NT = log_NTV[:, :-1].gather(-1, ids_NT[:, 1:, None]).squeeze(-1)
    found = []
    for row, reading in enumerate(readings):
        states = [reading.prompt_length - 1, *reading.positions]
        steps = torch.stack([said_NT[row, a:b].sum() for a, b in pairwise(states)])
        found.append((steps, log_NTV[row, states, eos]))
    return found
