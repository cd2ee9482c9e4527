"""Weights of domains and traces by a meta set: the worked numbers of dreamprm and dreamprm-1.5, and a toy that learns."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from footfall.reward.prm import PRM
from footfall.train.reweight import (
    InstanceNet,
    clipped_weights,
    domain_weights,
    hypergradient,
    sign_loss,
    solution_loss,
    train_reweighted,
)
from footfall.types import Judged, Judgement
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)
ALL = torch.ones(1, 3, dtype=torch.bool)


def test_dreamprm_s_worked_weights_and_aggregation() -> None:
    assert domain_weights(torch.tensor([1.0, 0.0, -1.0])).tolist() == pytest.approx([1.6984, 0.8964, 0.4051], abs=5e-5)
    assert domain_weights(torch.tensor([0.7])).item() == 1.0, "one domain is plain regression"
    logits = torch.tensor([[0.9, 0.6, 0.8]]).logit()
    assert torch.sigmoid(logits.mean()).item() == pytest.approx(0.790785, abs=1e-6)
    for correct, loss in ((1.0, 0.043771), (0.0, 0.625340)):
        assert solution_loss(logits, ALL, torch.tensor([correct])).item() == pytest.approx(loss, abs=1e-6)


def test_dreamprm_s_worked_hypergradient() -> None:
    phi, aims = nn.Parameter(torch.zeros(())), torch.tensor([1.0, -1.0])
    found = hypergradient(lambda: (phi - aims) ** 2, lambda: (phi - 1) ** 2, [phi], torch.ones(2), 0.1)
    assert found.tolist() == pytest.approx([-0.4, 0.4], abs=1e-5), "the domain that agrees with the meta set gains"
    assert phi.item() == 0.0, "the parameters are left as they were"


def test_the_unrolled_gradient_is_that_of_finite_differences() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    inputs, aims = torch.randn(5, 3).double(), torch.randn(5).double()
    weights, rate = torch.rand(5).double() + 0.5, 0.05

    def losses() -> torch.Tensor:
        errors: torch.Tensor = (net(inputs).squeeze(-1) - aims) ** 2
        return errors

    def meta() -> torch.Tensor:
        loss: torch.Tensor = (net(inputs[:2] + 1).sum() - 1) ** 2
        return loss

    found = hypergradient(losses, meta, list(net.parameters()), weights, rate)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}

    def after(changed: torch.Tensor) -> float:
        slopes = torch.autograd.grad((changed * losses()).sum(), list(net.parameters()))
        with torch.no_grad():
            for parameter, slope in zip(net.parameters(), slopes, strict=True):
                parameter.sub_(slope, alpha=rate)
            value = float(meta())
            net.load_state_dict(before)
        return value

    for k in range(5):
        shift = torch.zeros(5).double()
        shift[k] = 1e-5
        expected = (after(weights + shift) - after(weights - shift)) / 2e-5
        assert found[k].item() == pytest.approx(expected, rel=2e-3, abs=1e-6)


def test_dreamprm_15_s_worked_table_and_losses() -> None:
    theta = torch.tensor([1.0, 3.7, -2.0], requires_grad=True)
    weights = clipped_weights(theta)
    assert weights.tolist() == [1.0, 3.0, -1.0]
    (slope,) = torch.autograd.grad(weights.sum(), theta)
    assert slope.tolist() == [1.0, 0.0, 0.0], "beyond the range an entry stays where it is"
    right = torch.tensor([[0.9, 0.4, 0.8]])
    assert sign_loss(right, ALL, torch.tensor([1.0])).item() == pytest.approx(0.09)
    assert sign_loss(right, ALL, torch.tensor([0.0])).item() == pytest.approx(0.49)
    net = InstanceNet()
    given = net(right, ALL)
    assert 0 < given.item() < 1 and sum(p.numel() for p in net.parameters()) == 2 * 10 + 10 + 10 + 1
    padded = net(torch.tensor([[0.9, 0.4, 0.8, 0.1]]), torch.tensor([[True, True, True, False]]))
    assert padded.item() == pytest.approx(given.item())


@pytest.mark.long
def test_the_domain_whose_labels_are_turned_over_loses_weight() -> None:
    def rows(name: str, honest: bool) -> list[Judged]:
        made = [
            trace(*("ok" if (i + k) % 3 else "no" for k in range(2)), id=f"{name}{i}", prompt=f"q{i}")
            for i in range(12)
        ]
        labels = [tuple(float((s.text == "ok") == honest) for s in t.steps) for t in made]
        return [Judged(t, Judgement(t.id, values, "toy")) for t, values in zip(made, labels, strict=True)]

    good, bad = rows("good", True), rows("bad", False)
    solved = [trace(word, id=f"{word}{i}", prompt=f"m{i}") for i in range(6) for word in ("ok", "no")]
    meta = [
        Judged(t.__class__(t.id, t.problem, t.steps, separator=t.separator, correct=t.id[:2] == "ok"),
               Judgement(t.id, (0.5,), "meta"))
        for t in solved
    ]  # fmt: skip
    model = PRM.from_backbone(decoder(), byte_tokenizer(), seed=0)
    domains = ["good"] * len(good) + ["bad"] * len(bad)
    found = train_reweighted(model, [*good, *bad], domains, meta, updates=60, unroll=2, lr=1e-2, meta_lr=0.2)
    assert found.weights["good"] > 1 > found.weights["bad"]
    alike = train_reweighted(model, [*good, *bad], domains, meta, updates=2, unroll=1, meta_lr=0.0)
    assert set(alike.weights.values()) == {1.0}, "no rate of the weights: plain regression"
    by_row = list(range(len(good) + len(bad)))
    singly = train_reweighted(
        model, [*good, *bad], by_row, meta, by="table", updates=40, unroll=1, lr=1e-2, meta_lr=0.1
    )
    halves = [list(singly.weights.values())[k : k + len(good)] for k in (0, len(good))]
    assert sum(halves[0]) > sum(halves[1]), "rows with turned labels lose, one by one"
    assert singly.tokens > 0 and all(-1 <= weight <= 3 for weight in singly.weights.values())
    net = train_reweighted(model, [*good, *bad], domains, meta, by="net", updates=4, unroll=2)
    assert all(0 < weight < 1 for weight in net.weights.values()) and len(net.meta_losses) == 2
    with pytest.raises(ValueError, match="graded solutions"):
        train_reweighted(model, good, ["good"] * len(good), good)
    with pytest.raises(ValueError, match="12 rows have 1 domains"):
        train_reweighted(model, good, ["good"], meta)
