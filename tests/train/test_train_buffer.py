"""FreePRM's buffer loss: the worked numbers of its card first, then what the buffer does to noisy outcome labels."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from footfall.train.losses import buffer_loss, last_labelled, soft_bce_loss
from footfall.train.objectives import make_objective

LOGITS = torch.tensor([[[0.5, 0.2, 0.3]] * 2]).log()
"""Two steps, both with (p_r, p_w, p_b) = (.5, .2, .3)."""
BOTH = torch.tensor([[True, True]])
LAST = math.log(2)


def pseudo(label: float, factor: float | None) -> float:
    """The loss of the first of two steps; the second one's is the outcome's."""
    return 2 * float(buffer_loss(LOGITS, torch.full((1, 2), label), BOTH, factor)) - LAST


@pytest.mark.parametrize(
    ("label", "losses", "expectation"),
    [(1.0, (0.6931, 0.4308, 0.2231), 0.5521), (0.0, (1.6094, 1.0498, 0.6931), 1.3346)],
)
def test_losses_are_those_of_the_card(label: float, losses: tuple[float, ...], expectation: float) -> None:
    for factor, loss in zip((0.0, 0.5, 1.0), losses, strict=True):
        assert pseudo(label, factor) == pytest.approx(loss, abs=5e-5)
    assert pseudo(label, None) == pytest.approx(expectation, abs=5e-5)


@pytest.mark.parametrize("factor", [None, 0.0, 0.5, 1.0])
def test_a_sure_model_has_a_finite_loss_and_gradient(factor: float | None) -> None:
    logits = torch.tensor([[[-200.0, 200.0, -200.0]] * 2]).requires_grad_()
    loss = buffer_loss(logits, torch.ones(1, 2), BOTH, factor)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert 300 < loss.item() <= 400 and bool(gradient.isfinite().all())


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_the_last_step_has_a_true_label_and_no_buffer(label: float) -> None:
    one = buffer_loss(LOGITS[:, :1], torch.tensor([[label]]), BOTH[:, :1])
    assert float(one) == pytest.approx(0.6931, abs=5e-5)
    thrice = buffer_loss(LOGITS[:, :1], torch.tensor([[label]]), BOTH[:, :1], last_weight=3)
    assert float(thrice) == pytest.approx(3 * LAST, abs=1e-5)


def test_the_expectation_has_the_mean_gradient_of_the_drawn_factor() -> None:
    logits = LOGITS.clone().requires_grad_()
    ones = torch.ones(1, 2)
    (mean,) = torch.autograd.grad(buffer_loss(logits, ones, BOTH), logits)
    drawn = [torch.autograd.grad(buffer_loss(logits, ones, BOTH, beta), logits)[0] for beta in (0.0, 1.0)]
    assert torch.allclose(mean, 0.7 * drawn[0] + 0.3 * drawn[1], atol=1e-6)


@given(st.floats(-6, 6), st.floats(-6, 6), st.sampled_from([0.0, 1.0]))
def test_a_pseudo_label_can_only_shrink_the_buffer(right: float, wrong: float, label: float) -> None:
    """dE/dz_b = p_b p / (p + p_b), never below 0: under the drawn factor no pseudo label ever feeds the third class."""
    logits = torch.tensor([[[right, wrong, 0.0]] * 2], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(2 * buffer_loss(logits, torch.full((1, 2), label), BOTH), logits)
    p_r, p_w, p_b = logits.detach()[0, 0].softmax(-1).tolist()
    own = p_r if label else p_w
    assert float(gradient[0, 0, 2]) == pytest.approx(p_b * own / (own + p_b), abs=1e-9)


def test_an_unlabelled_step_has_no_part_and_the_last_labelled_one_is_the_outcome() -> None:
    mask = torch.tensor([[True, True, False], [False, True, True], [False, False, False]])
    assert last_labelled(mask).tolist() == [[False, True, False], [False, False, True], [False, False, False]]
    logits = torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    (gradient,) = torch.autograd.grad(buffer_loss(logits, targets, mask), logits)
    assert bool((gradient[~mask] == 0).all()) and bool((gradient[mask].abs().sum(-1) > 0).all())
    assert buffer_loss(logits, targets, torch.zeros_like(mask)).item() == 0.0


def test_what_the_loss_cannot_take_is_refused() -> None:
    with pytest.raises(ValueError, match="not 1 outputs"):
        buffer_loss(torch.zeros(1, 2, 1), torch.ones(1, 2), BOTH)
    with pytest.raises(ValueError, match="no outcome"):
        make_objective("buffer", {}).target(0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        make_objective("buffer", {"factor": 2.0})
    with pytest.raises(TypeError, match="boolean"):
        last_labelled(torch.ones(1, 2))


# A toy set: a trace is five steps and its outcome. A feature says whether a step is wrong; in a wrong trace one of its
# steps is, so 80% of its pseudo labels are false. Wrong traces are half of all.


def toy() -> tuple[Tensor, Tensor, Tensor]:
    """Features (N, 5, 2), outcomes as pseudo labels (N, 5), whether each step is truly wrong (N, 5)."""
    generator = torch.Generator().manual_seed(0)
    n = 400
    outcome = (torch.arange(n) % 2).float()
    at = torch.randint(0, 5, (n,), generator=generator)
    wrong = (torch.arange(5)[None] == at[:, None]) & (outcome[:, None] == 0)
    features = torch.stack([wrong.float(), torch.ones(n, 5)], dim=-1)
    return features, outcome[:, None].expand(n, 5).clone(), wrong


def fitted(outputs: int, updates: int) -> Tensor:
    """Probabilities (N, 5, outputs, at least two) of a linear head after so many updates on the pseudo labels."""
    features, targets, _ = toy()
    mask = torch.ones_like(targets, dtype=torch.bool)
    head = torch.nn.Linear(2, outputs, bias=False)
    torch.nn.init.zeros_(head.weight)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(updates):
        logits = head(features)
        loss = buffer_loss(logits, targets, mask) if outputs == 3 else soft_bce_loss(logits, targets, mask)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    logits = head(features).detach()
    return logits.softmax(-1) if outputs == 3 else torch.cat([logits.sigmoid(), 1 - logits.sigmoid()], -1)


@pytest.mark.long
def test_the_buffer_model_thinks_less_ill_of_good_steps_in_wrong_traces_while_it_learns() -> None:
    """At the optimum the buffer is empty and both models are the same one: what it absorbs, it absorbs on the way."""
    _, targets, wrong = toy()
    fine = (targets == 0) & ~wrong
    assert float(fine.sum() / (targets == 0).sum()) == pytest.approx(0.8)
    gaps = [float((fitted(1, n)[fine] - fitted(3, n)[fine][:, :2])[:, 1].mean()) for n in (10, 40, 300)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[0] > 0.05 and gaps[2] < 0.01


def test_a_factor_of_one_gives_pseudo_labels_no_say() -> None:
    """With β = 1 an all-buffer answer costs a pseudo label nothing: it is the optimum."""
    certain = torch.tensor([[[-20.0, -20.0, 20.0]] * 2])
    for label in (0.0, 1.0):
        loss = buffer_loss(certain, torch.full((1, 2), label), torch.tensor([[True, True]]), 1.0)
        last = buffer_loss(certain[:, :1], torch.full((1, 1), label), torch.tensor([[True]]), 1.0)
        assert float(2 * loss - last) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.long
def test_the_last_steps_keep_the_buffer_from_saturating() -> None:
    """The outcome term has no buffer, and the head is shared: p_b stays away from 1 where traces are right."""
    _, targets, _ = toy()
    assert float(fitted(3, 300)[targets == 1][:, 2].max()) < 0.1
