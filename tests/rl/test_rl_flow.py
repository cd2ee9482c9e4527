"""The flow of RLFR: what its scores are, what it learns from, and that a run with it goes on as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from footfall.registry import create
from footfall.rl.flow import TIME, Flow, FlowReward, errors, neighbours
from footfall.rl.online import Sequences
from footfall.rl.rewards import Reward
from tests.rl.test_rl_trainer import graded, small, trainer

DRAWN = torch.Generator().manual_seed(0)
TARGET, NEAR, NOISE = (torch.randn(5, 8, generator=DRAWN) for _ in range(3))
HALF, LATE = torch.full((5,), 0.5), torch.full((5,), TIME)


def test_a_network_that_knows_the_velocity_deviates_nowhere() -> None:
    def perfect(x_ND: torch.Tensor, time_N: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return (x_ND - NOISE) / time_N[:, None]

    assert errors(perfect, TARGET, NEAR, HALF, LATE, NOISE).abs().max() < 1e-10
    assert pytest.approx(4) == TIME / (1 - TIME), "the factor of the card, which cancels under min-max"


def test_a_new_network_says_nothing_so_the_error_is_the_velocity_itself() -> None:
    found = errors(Flow(8), TARGET, NEAR, HALF, LATE, NOISE)
    torch.testing.assert_close(found, (TARGET - NOISE).square().mean(dim=-1))


def test_what_it_has_learnt_from_deviates_less_and_tokens_of_others_have_no_score() -> None:
    beside = FlowReward(8, lr=3e-3)
    known, strange = torch.ones(3, 4, 6, 8), -2 * torch.ones(3, 4, 6, 8)
    own = torch.ones(4, 6)
    own[:, -1] = 0
    for seed in range(150):
        beside.learn((known, known), own, [True, False, True, True], seed)
    like, unlike = (beside.scores((states, states), own, 7) for states in (known, strange))
    assert like[:, :-1].mean() < 0.5 * unlike[:, :-1].mean() and not like[:, -1].any()


def test_it_learns_from_right_completions_alone() -> None:
    beside = FlowReward(8)
    states = (torch.ones(3, 2, 5, 8), torch.zeros(3, 2, 5, 8))
    assert beside.learn(states, torch.ones(2, 5), [False, False], 0) is None
    other = (states[0].clone(), states[1])
    other[0][:, 1] = 50.0
    first = FlowReward(8).learn(states, torch.ones(2, 5), [True, False], 0)
    assert first == FlowReward(8).learn(other, torch.ones(2, 5), [True, False], 0), (
        "wrong completions have no part in it"
    )


def test_a_neighbour_is_the_token_before_and_padding_does_not_matter() -> None:
    model = small().train(False)
    ids = torch.tensor([[1, 7, 9, 11, 30]])
    target, near = neighbours(model, Sequences(ids, torch.ones_like(ids), 2))
    assert target.shape == (3, 1, 2, 32)
    torch.testing.assert_close(near[:, :, 1], target[:, :, 0])
    padded = torch.cat([torch.zeros(1, 2, dtype=torch.long), ids], dim=1)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1]])
    torch.testing.assert_close(neighbours(model, Sequences(padded, mask, 2))[0], target, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_run_scores_its_tokens_and_a_resumed_one_ends_with_the_same_weights(tmp_path: Path) -> None:
    reward = Reward(create("credit", "rlfr"))
    whole = graded(trainer(tmp_path / "whole", reward, steps=4))
    whole.train()
    assert all(each.rollout.flow is not None and (each.rollout.flow >= 0).all() for each in whole.batch)
    assert "flow_loss" in whole.state.log_history[-2]
    first = graded(trainer(tmp_path / "cut", reward, steps=2, save_strategy="steps", save_steps=2))
    first.train()
    again = graded(trainer(tmp_path / "cut", reward, steps=4))
    again.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-2"))
    for own, other in zip(whole.beside.flow.flow.parameters(), again.beside.flow.flow.parameters(), strict=True):
        torch.testing.assert_close(own, other)
