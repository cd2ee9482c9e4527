"""Many small heads on one backbone: mean and spread of each step, kept through saving and training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.reward.config import PRMConfig
from footfall.reward.heads import Heads, through_members
from footfall.reward.judge import PRMJudge, step_head
from footfall.reward.prm import PRM
from footfall.reward.readout import MeanOfHeads
from footfall.train import TrainConfig, train_prm
from footfall.train.objectives import fitted_to, make_objective
from footfall.types import Judged, Judgement
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, some_traces, trace

torch.set_num_threads(1)


def ensemble(heads: int = 4) -> PRM:
    return PRM.from_backbone(decoder(), byte_tokenizer(), heads=heads, head_width=8)


def test_the_value_is_the_mean_of_the_heads_and_the_aspect_spread_their_sample_deviation() -> None:
    logits = torch.tensor([[0.97, 0.98, 0.98, 0.965], [0.6, 0.4, 0.5, 0.5]]).logit()
    columns = MeanOfHeads(members=4).columns(logits)
    assert columns.values == pytest.approx([0.97375, 0.5], abs=1e-5)
    deviation = math.sqrt(sum((p - 0.97375) ** 2 for p in (0.97, 0.98, 0.98, 0.965)) / 3)
    assert columns.aspects["spread"] == pytest.approx([deviation, math.sqrt(0.02 / 3)], abs=1e-5)


def test_one_head_has_no_spread() -> None:
    assert MeanOfHeads(members=1).columns(torch.tensor([[0.3], [2.0]])).aspects["spread"] == (0.0, 0.0)


def test_every_head_is_a_network_of_its_own() -> None:
    heads, x = Heads(6, members=3, hidden=5, seed=1), torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    for e, logit in enumerate(heads(x).T):
        h = x
        for n, (weight, bias) in enumerate(zip(heads.weights, heads.biases, strict=True)):
            h = (h.relu() if n else h) @ weight[e] + bias[e]
        torch.testing.assert_close(logit, h.squeeze(-1))
    assert len({round(v, 6) for v in heads(x)[0].tolist()}) == 3


def test_drift_is_the_mean_squared_distance_from_the_start() -> None:
    heads = Heads(4, members=2, hidden=3)
    assert heads.drift() == 0
    with torch.no_grad():
        for p in heads.parameters():
            p.add_(0.5)
    assert heads.drift().item() == pytest.approx(0.25)


def test_a_saved_ensemble_says_the_same_and_remembers_where_it_began(tmp_path: Path) -> None:
    model = ensemble()
    with torch.no_grad():
        for p in model.head.parameters():
            p.add_(0.01)
    before = PRMJudge(model).judge(some_traces())
    model.save(tmp_path)
    after = step_head(tmp_path, device="cpu")
    for a, b in zip(before, after.judge(some_traces()), strict=True):
        assert a.values == pytest.approx(b.values, abs=1e-5)
        assert a.aspects["spread"] == pytest.approx(b.aspects["spread"], abs=1e-5)
    head = PRM.load(tmp_path, device="cpu").head
    assert isinstance(head, Heads) and head.drift().item() == pytest.approx(1e-4, rel=1e-3)


def test_heads_and_classes_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="no classes"):
        PRMConfig.from_dict(
            {"backbone": "b", "max_length": 8, "classes": ["a", "b"], "good": ["b"], "heads": 2}, "step_head.json"
        )


def test_a_model_with_one_linear_head_is_named_as_before_there_were_several() -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer())
    name = model.fingerprint()
    model.prm_config = replace(model.prm_config, head={"name": "linear", "hidden": 7})
    assert model.fingerprint() == name


def rows() -> list[Judged]:
    found = []
    for i in range(24):
        good = i % 2 == 0
        t = trace("fine" if good else "wrong", id=f"r{i}", prompt=f"q{i}")
        found.append(Judged(t, Judgement(t.id, (float(good),), "toy")))
    return found


@pytest.mark.long
def test_an_ensemble_learns_and_the_anchor_holds_it_back(tmp_path: Path) -> None:
    base = backbone_folder(tmp_path / "base")
    config = TrainConfig(heads=4, lr=3e-3, epochs=4, eval_share=0.25, device="cpu", batch_size=8)
    free = train_prm(rows(), base, replace(config, anchor=0.0), tmp_path / "free")
    held = train_prm(rows(), base, replace(config, anchor=1e4), tmp_path / "held")
    assert free.metrics["step_auc"] > 0.9
    drifts = []
    for result in (free, held):
        head = PRM.load(result.folder, device="cpu").head
        assert isinstance(head, Heads)
        drifts.append(head.drift().item())
    assert drifts[1] < drifts[0] / 2
    said = step_head(free.folder, device="cpu").judge([rows()[0].trajectory])[0]
    assert said.aspects["spread"][0] is not None and said.aspects["spread"][0] > 0


def test_objectives_that_need_classes_or_pairs_are_refused(tmp_path: Path) -> None:
    base = backbone_folder(tmp_path / "base")
    for objective in ("ce", "bradley-terry"):
        with pytest.raises(ValueError, match=r"classes"):
            train_prm(rows(), base, TrainConfig(heads=2, objective=objective, device="cpu"), tmp_path / objective)


def test_the_mean_of_members_is_read_and_fitted_as_one_probability(tmp_path: Path) -> None:
    """It was squashed a second time, to values from 0.5 to 0.73, and its networks were not trained at all."""
    members = TrainConfig(
        head="mean-of-members", head_options={"members": 4, "hidden": [16]}, lr=1e-2, epochs=8, batch_size=8,
        eval_share=0.25, device="cpu",
    )  # fmt: skip
    base = backbone_folder(tmp_path / "lm")
    result = train_prm(rows(), base, members, tmp_path / "run")
    model = PRM.load(result.folder, device="cpu")
    head: Any = model.head
    fresh = PRM.from_backbone(str(base), head=head.settings, seed=members.seed).head
    moved = [not torch.equal(a, b) for a, b in zip(head.parameters(), fresh.parameters(), strict=True)]
    assert all(moved), "every network learns"
    states = torch.randn(5, head.weights[0].shape[1], generator=torch.Generator().manual_seed(0))
    each_E5 = through_members(states, head.weights, head.biases)[..., 0].sigmoid().T
    values = model.values(head.of(states[None]))[0]
    torch.testing.assert_close(values, each_E5.mean(dim=0))
    objective = fitted_to(make_objective("soft-bce", {}), model.readout)
    targets, mask = torch.tensor([1.0, 0.0, 0.5, 0.2, 1.0]), torch.ones(5, dtype=torch.bool)
    loss = objective.loss(head.of(states[None])[0], targets, mask)
    torch.testing.assert_close(loss, torch.nn.functional.binary_cross_entropy(values, targets))
    assert result.metrics["brier"] < 0.2 and result.curve[-1][1] < result.curve[0][1]


def test_the_mean_of_members_holds_one_output(tmp_path: Path) -> None:
    config = TrainConfig("quantile", head="mean-of-members", eval_share=0, device="cpu")
    with pytest.raises(ValueError, match="the head mean-of-members gives one probability, and 3 outputs are asked"):
        train_prm(rows(), backbone_folder(tmp_path / "lm"), config, tmp_path / "run")
