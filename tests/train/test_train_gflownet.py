"""Sub-trajectory balance: the worked numbers of the card, its gradient, the replay buffer, and a policy that is tuned by it."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402

from footfall.policy.embedded import embedded  # noqa: E402
from footfall.policy.protocol import SamplingParams  # noqa: E402
from footfall.render import encode  # noqa: E402
from footfall.train.gflownet import (  # noqa: E402
    BalanceConfig,
    ReplayBuffer,
    Solution,
    balance_gaps,
    balance_loss,
    state_log_probs,
    tune,
)
from footfall.types import Problem, Step, Trajectory  # noqa: E402
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge  # noqa: E402

CARD = ([0.8, 0.5], [-1.2, -0.7], [-5.0, -3.0, -0.1])


def tensors(rewards: list[float], steps: list[float], ends: list[float]) -> tuple[Tensor, Tensor, Tensor]:
    made = [torch.tensor(each, dtype=torch.float64) for each in (rewards, steps, ends)]
    return made[0], made[1], made[2]


def test_card_check_1_gaps_and_loss() -> None:
    gaps = balance_gaps(*tensors(*CARD))
    found = [float(gaps[at]) for at in ((0, 1), (0, 2), (1, 2))]
    assert found == pytest.approx([1.023144, 3.916291, 2.893147], abs=1e-6)
    assert float(balance_loss(*tensors(*CARD))) == pytest.approx(8.251485, abs=1e-6)


def test_a_decay_weighs_long_stretches_less() -> None:
    rewards, steps, ends = tensors(*CARD)
    by_hand = (0.5 * 1.023144**2 + 0.25 * 3.916291**2 + 0.5 * 2.893147**2) / 1.25
    assert float(balance_loss(rewards, steps, ends, decay=0.5)) == pytest.approx(by_hand, abs=1e-5)


def test_the_loss_stays_on_the_device_of_its_numbers() -> None:
    steps, ends = torch.zeros(3, device="meta"), torch.zeros(4, device="meta")
    assert balance_loss(steps, steps, ends).device.type == "meta"


@pytest.mark.parametrize("scale", [1.0, 0.5, 1.5])
def test_card_checks_2_and_3_the_balanced_sampler_of_a_toy(scale: float) -> None:
    a, b = 0.6 * scale, 0.2 * scale
    stop, to_a, to_b = (r / (1 + a + b) for r in (1.0, a, b))
    if scale == 1.0:
        assert (stop, to_a, to_b) == pytest.approx((0.5556, 0.3333, 0.1111), abs=1e-4)
    for reward, chance in ((a, to_a), (b, to_b)):
        loss = balance_loss(*tensors([reward], [math.log(chance)], [math.log(stop), 0.0]))
        assert float(loss) == pytest.approx(0, abs=1e-12)
    assert float(balance_loss(*tensors([a], [math.log(to_b)], [math.log(stop), 0.0]))) > 0.1


def test_training_a_table_by_the_loss_ends_at_the_cards_sampler() -> None:
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    end = torch.zeros(1, dtype=torch.float64)
    for _ in range(300):
        log_p = logits.log_softmax(dim=0)
        losses = [
            balance_loss(torch.tensor([reward]).double(), log_p[k : k + 1], torch.cat([log_p[:1], end]))
            for k, reward in ((1, 0.6), (2, 0.2))
        ]
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        optimizer.step()
    assert logits.softmax(dim=0).tolist() == pytest.approx([0.5556, 0.3333, 0.1111], abs=1e-3)


def test_lengths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rewards need 2 step and 3 end"):
        balance_loss(*tensors([0.5, 0.5], [-1, -1], [-1, -1]))


def solution(name: str, *rewards: float) -> Solution:
    steps = tuple(Step(f"{name} {k}") for k in range(len(rewards)))
    return Solution(Trajectory(name, Problem("p", "?"), steps), rewards)


def test_the_buffer_evicts_the_lowest_draws_by_reward_and_forgets_what_was_drawn() -> None:
    buffer = ReplayBuffer(size=3)
    for name, reward in (("a", 0.2), ("b", 0.9), ("c", 0.5), ("d", 0.6)):
        buffer.add(solution(name, reward, reward))
    assert [each.trajectory.id for each in buffer.waiting] == ["b", "c", "d"]
    first = [ReplayBuffer(3, list(buffer.waiting)).draw(1, np.random.default_rng(k))[0] for k in range(400)]
    share = sum(each.trajectory.id == "b" for each in first) / 400
    assert share == pytest.approx(0.9 / 2.0, abs=0.08)
    assert len(buffer.draw(5, np.random.default_rng(0))) == 3 and not buffer.waiting
    assert buffer.draw(2, np.random.default_rng(0)) == []


def test_log_probabilities_of_steps_and_ends_are_the_policys_own() -> None:
    policy, world = embedded(), ArithmeticWorld()
    (_, trace), *_ = world.traces(ArithmeticPolicy(), 1)
    reading = encode(policy.tokenizer, trace, policy.template)
    (steps, ends), *_ = state_log_probs(policy, [reading])
    logits = policy.engine.logits([reading.ids])[0].float().log_softmax(dim=-1)
    whole = sum(float(logits[k - 1, reading.ids[k]]) for k in range(reading.prompt_length, len(reading.ids)))
    assert steps.sum().item() == pytest.approx(whole, abs=1e-3)
    assert len(ends) == len(trace.steps) + 1 and steps.requires_grad


@pytest.mark.long
def test_tuning_changes_what_the_policy_writes_and_lowers_the_loss_on_its_own_samples() -> None:
    policy, world = embedded(), ArithmeticWorld(min_ops=2, max_ops=2)
    before, name = [p.detach().clone() for p in policy.engine.model.parameters()], policy.name
    prefixes = [world.prefix(problem) for problem in world.problems(4)]
    config = BalanceConfig(rounds=4, problems=4, batch=4, lr=1e-3)
    done = tune(policy, prefixes, ExactValueJudge(ArithmeticPolicy()), SamplingParams(max_tokens=100), config)
    assert len(done.losses) == 4 and done.cost.generated_tokens > 0
    assert done.losses[-1] < done.losses[0]
    assert any(bool((a != b).any()) for a, b in zip(before, policy.engine.model.parameters(), strict=True))
    assert policy.name != name
