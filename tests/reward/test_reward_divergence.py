"""What tuning changed, read out as a reward: the worked numbers of irm-divergence, and a pair of models that differ."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from footfall.reward.divergence import (
    Contrast,
    SparseCoder,
    activations,
    layer_divergence,
    read_out,
    rescaled,
    ridge,
    signed_targets,
)
from footfall.reward.prm import PRM
from footfall.types import Step
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)


def pair() -> tuple[PRM, PRM]:
    """A model, and a copy whose last MLP was changed a lot and whose first a little."""
    base = PRM.from_backbone(decoder(), byte_tokenizer(), seed=0)
    tuned = copy.deepcopy(base)
    for name, weight in tuned.backbone.named_parameters():
        if ".mlp." in name:
            with torch.no_grad():
                weight.mul_(1.01 if "layers.0." in name else 1.5)
    return base, tuned


def contrasts(n: int = 12) -> list[Contrast]:
    made = []
    for i in range(n):
        start = trace(f"So {i} + 1 = {i + 1}.", id=f"c{i}", prompt=f"q{i}")
        ends = [Step(text) for text in (f"ok {i}", f"no {i}", "...")]
        made.append(Contrast(*(replace(start, steps=(*start.steps, end)) for end in ends)))
    return made


def test_the_card_s_worked_target_and_ridge() -> None:
    points, targets = signed_targets(np.array([[3.0, 0.0]]), np.array([[1.0, 5.0]]), np.array([[1.0, 2.0]]))
    assert points.tolist() == [[3, 0], [1, 5]] and targets.tolist() == pytest.approx([2.828427, -3.0], abs=1e-6)
    x, y = np.array([[2.0], [1.0], [-1.0], [-2.0]]), np.array([3.0, 1.0, -1.0, -3.0])
    probe = ridge(x, y)
    assert probe.weights[0] == pytest.approx(1.272727, abs=1e-6) and probe.intercept == pytest.approx(0.0)
    assert ridge(x, y, 1e-9).weights[0] == pytest.approx(1.4, abs=1e-6), "ordinary least squares"
    assert ridge(x, -y).weights[0] == pytest.approx(-probe.weights[0]), "negated targets, negated probe"
    assert ridge(x + 5, y + 1)(np.array([[7.0]]))[0] == pytest.approx(1 + 2 * 1.272727, abs=1e-5)


def test_rescaling_takes_the_outer_tenths_for_the_ends() -> None:
    scaled = rescaled(np.arange(11.0), -1.0, 1.0)
    assert scaled[0] == scaled[1] == -1 and scaled[9] == scaled[10] == 1 and scaled[5] == pytest.approx(0.0)
    assert rescaled(np.ones(3), 0.0, 1.0).tolist() == [0.5] * 3


def test_a_model_and_itself_do_not_diverge_and_a_tuned_one_does_where_it_was_tuned() -> None:
    base, tuned = pair()
    assert set(layer_divergence(base.backbone, base.backbone).values()) == {0.0}
    moved = layer_divergence(base.backbone, tuned.backbone)
    assert list(moved) == sorted(moved) and moved[max(moved)] > moved[0] > 0
    with pytest.raises(ValueError, match="no MLP layers are found"):
        layer_divergence(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    other = PRM.from_backbone(decoder(), byte_tokenizer()).backbone.layers[0]
    with pytest.raises(ValueError, match="not a pair"):
        layer_divergence(other, tuned.backbone)


def test_a_sparse_coder_learns_to_make_what_it_is_shown() -> None:
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    coder = SparseCoder(8, 16)
    before = float((coder(x)[1] - x).square().mean().detach())
    features, made = coder.fit(x, 150)(x)
    assert float((made - x).square().mean().detach()) < 0.2 * before and bool((features >= 0).all())


def test_the_implied_reward_puts_good_steps_above_bad_ones_and_a_random_probe_knows_nothing_of_it() -> None:
    base, tuned = pair()
    found = read_out(base, tuned, contrasts(), top=1, features=32, updates=60)
    assert found.layers == (max(found.divergence),) and len(found.points) == len(found.implied) == 12
    good, bad = found.implied[::2], found.implied[1::2]
    assert float((good > bad).mean()) == 1.0
    assert len(found.chance) == 12 and not np.allclose(found.chance, found.implied)
    again = read_out(base, tuned, contrasts(), top=1, features=32, updates=60)
    assert np.array_equal(found.implied, again.implied)
    with pytest.raises(ValueError, match="3 contrasts cannot be parted"):
        read_out(base, tuned, contrasts(3))


def test_activations_are_those_where_the_last_step_ends() -> None:
    base, _ = pair()
    t = trace("one", "two")
    (both,) = activations(base, [t, t.prefix(1)], [0])
    seen: list[torch.Tensor] = []
    hook = base.backbone.layers[0].mlp.register_forward_hook(lambda module, given, output: seen.append(output))
    base.logits([base.read(t)])
    hook.remove()
    first, last = base.read(t).positions
    assert torch.allclose(both[0], seen[0][0, last]) and torch.allclose(both[1], seen[0][0, first], atol=1e-5)
