"""Weights of domains and traces by a meta set: the worked numbers of dreamprm and dreamprm-1.5, a toy that learns, a run that
is killed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from footfall import cli
from footfall.formats import write_parquet
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, TrainResult, train_prm
from footfall.train.objectives import make_objective
from footfall.train.reweight import train_reweighted
from footfall.train.row_weights import (
    InstanceNet,
    clipped_weights,
    domain_weights,
    hypergradient,
    sign_loss,
    solution_loss,
)
from footfall.types import Judged, Judgement
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, trace
from tests.train.test_train_prm import difference, stop_at

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
    found = hypergradient(lambda: (phi - aims) ** 2, lambda: (phi - 1) ** 2, [phi], torch.ones(2), [0.1])
    assert found.tolist() == pytest.approx([-0.4, 0.4], abs=1e-5), "the domain that agrees with the meta set gains"
    assert phi.item() == 0.0, "the parameters are left as they were"


@pytest.mark.parametrize("rates", [(0.05, 0.05, 0.05, 0.05), (0.05, 0.05, 0.2, 0.0)], ids=["one rate", "a head's own"])
def test_the_unrolled_gradient_is_that_of_finite_differences(rates: tuple[float, ...]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    inputs, aims = torch.randn(5, 3).double(), torch.randn(5).double()
    weights = torch.rand(5).double() + 0.5

    def losses() -> torch.Tensor:
        errors: torch.Tensor = (net(inputs).squeeze(-1) - aims) ** 2
        return errors

    def meta() -> torch.Tensor:
        loss: torch.Tensor = (net(inputs[:2] + 1).sum() - 1) ** 2
        return loss

    found = hypergradient(losses, meta, list(net.parameters()), weights, rates)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}

    def after(changed: torch.Tensor) -> float:
        slopes = torch.autograd.grad((changed * losses()).sum(), list(net.parameters()))
        with torch.no_grad():
            for parameter, slope, rate in zip(net.parameters(), slopes, rates, strict=True):
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
    assert sign_loss(right.logit(), ALL, torch.tensor([1.0])).item() == pytest.approx(0.09)
    assert sign_loss(right.logit(), ALL, torch.tensor([0.0])).item() == pytest.approx(0.49)
    net = InstanceNet()
    given = net(right, ALL)
    assert 0 < given.item() < 1 and sum(p.numel() for p in net.parameters()) == 2 * 10 + 10 + 10 + 1
    padded = net(torch.tensor([[0.9, 0.4, 0.8, 0.1]]), torch.tensor([[True, True, True, False]]))
    assert padded.item() == pytest.approx(given.item())


def domain_rows(name: str, honest: bool) -> list[Judged]:
    """Traces of a domain; a step is good if and only if it says `ok`, unless the domain's labels are turned over."""
    made = [
        trace(*("ok" if (i + k) % 3 else "no" for k in range(1 + i % 3)), id=f"{name}{i}", prompt=f"q{i}")
        for i in range(12)
    ]
    made = [replace(t, meta={"source": name}) for t in made]
    labels = [tuple(float((s.text == "ok") == honest) for s in t.steps) for t in made]
    return [Judged(t, Judgement(t.id, values, "toy")) for t, values in zip(made, labels, strict=True)]


def graded() -> list[Judged]:
    """The meta set: solutions of one word, right if it is `ok`; they have no labels."""
    solved = [trace(word, id=f"{word}{i}", prompt=f"m{i}") for i in range(6) for word in ("ok", "no")]
    return [Judged(replace(t, correct=t.id[:2] == "ok"), None) for t in solved]


@pytest.mark.long
def test_the_domain_whose_labels_are_turned_over_loses_weight() -> None:
    good, bad, meta = domain_rows("good", True), domain_rows("bad", False), graded()
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


@pytest.mark.parametrize(("by", "changes", "step"), [("domain", 1, 0.01), ("table", 5, 5e-3)])
def test_a_model_in_memory_is_fitted_by_the_settings_of_the_objective(by: Any, changes: int, step: float) -> None:
    """DreamPRM changes weights after 5 updates at 0.01, DreamPRM-1.5's table after each at 5e-3."""
    rows, names = [*domain_rows("good", True), *domain_rows("bad", False)], ["good"] * 12 + ["bad"] * 12
    model = PRM.from_backbone(decoder(), byte_tokenizer(), seed=0)
    found = train_reweighted(model, rows, names, graded(), by=by, updates=5, lr=1e-2)
    assert len(found.meta_losses) == changes
    if by == "domain":
        z = torch.tensor([step, -step])
        wanted = (F.softplus(z) / F.softplus(z).mean()).tolist()
        assert sorted(found.weights.values()) == pytest.approx(sorted(wanted), abs=1e-6)
    else:
        assert max(abs(weight - 1) for weight in found.weights.values()) <= changes * step + 1e-6


def test_what_weights_cannot_be_learned_from_is_told() -> None:
    good, model = domain_rows("good", True), PRM.from_backbone(decoder(), byte_tokenizer(), seed=0)
    with pytest.raises(ValueError, match=r"graded solutions.*'good0' has none"):
        train_reweighted(model, good, ["good"] * len(good), good)
    with pytest.raises(ValueError, match="right ones and wrong ones; 6 can be used"):
        train_reweighted(model, good, ["good"] * len(good), [row for row in graded() if row.trajectory.correct])
    with pytest.raises(ValueError, match="12 rows have 1 domains"):
        train_reweighted(model, good, ["good"], graded())
    with pytest.raises(ValueError, match=r"bradley-terry.* no loss of single traces"):
        make_objective("domain-weights", {"loss": "bradley-terry"})
    with pytest.raises(ValueError, match="unroll 1 at least"):
        make_objective("instance-weights", {"unroll": 0})


WEIGHED = TrainConfig(
    objective="domain-weights", objective_options={"domain": "source", "meta_lr": 0.2, "unroll": 2}, lr=1e-2, epochs=3,
    batch_size=6, eval_share=0.0, save_steps=3, device="cpu",
)  # fmt: skip
SINGLY: dict[str, Any] = {"objective": "instance-weights", "objective_options": {"meta_lr": 0.1}}
BY_NET: dict[str, Any] = {
    "objective": "instance-weights",
    "objective_options": {"by": "net", "meta_lr": 0.1, "unroll": 2},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backbone_folder(tmp_path_factory.mktemp("lm"))


def run(base: Path, out: Path, config: TrainConfig, **given: Any) -> TrainResult:
    rows = [*domain_rows("good", True), *domain_rows("bad", False)]
    return train_prm(rows, base, config, out, meta=graded(), **given)


def row_weights(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "row_weights.json").read_text())
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [{}, {"lora_rank": 4}, {"packing": True, "head_lr": 1e-3}, SINGLY, BY_NET],
    ids=["full", "lora", "packed", "table", "net"],
)
def test_a_run_that_was_killed_ends_with_the_same_model_and_the_same_weights_of_rows(
    change: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    config = replace(WEIGHED, **change)
    whole = run(base, tmp_path / "whole", config)
    for update in (5, 10):
        with pytest.raises(KeyboardInterrupt):
            run(base, tmp_path / "cut", config, progress=stop_at(update))
    seen: list[int] = []
    resumed = run(base, tmp_path / "cut", config, progress=lambda done, total: seen.append(done))
    assert seen == [10, 11, 12] and difference(whole, resumed) == 0
    assert row_weights(tmp_path / "cut") == row_weights(tmp_path / "whole")
    assert resumed.cost.scored_tokens == whole.cost.scored_tokens
    weights = row_weights(tmp_path / "whole")["weights"]
    if "instance" in config.objective:
        assert len(weights) == 24 and len({each["weight"] for each in weights}) > 1
    else:
        assert len(weights) == 2 and len(set(weights.values())) > 1


@pytest.mark.long
def test_traces_of_one_id_have_a_weight_each(base: Path, tmp_path: Path) -> None:
    rows = [row._replace(trajectory=replace(row.trajectory, id="same")) for row in domain_rows("good", True)]
    rows = [row._replace(judgement=row.judgement and replace(row.judgement, trajectory_id="same")) for row in rows]
    train_prm(rows, base, replace(WEIGHED, **SINGLY), tmp_path, meta=graded())
    assert [each["trace"] for each in row_weights(tmp_path)["weights"]] == ["same"] * len(rows)


@pytest.mark.long
def test_packed_rows_get_the_weights_that_padded_ones_get(base: Path, tmp_path: Path) -> None:
    padded, packed = (run(base, tmp_path / f"{on}", replace(WEIGHED, packing=on)) for on in (False, True))
    assert difference(padded, packed) < 1e-4
    found = [row_weights(tmp_path / f"{on}") for on in (False, True)]
    assert found[0]["weights"] == pytest.approx(found[1]["weights"], abs=1e-4)
    assert found[0]["meta_losses"] == pytest.approx(found[1]["meta_losses"], abs=1e-4)


@pytest.mark.long
def test_the_command_line_weighs_domains_by_a_file_of_graded_solutions(base: Path, tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows.parquet", [*domain_rows("good", True), *domain_rows("bad", False)], "judged")
    write_parquet(tmp_path / "meta.parquet", graded(), "judged")
    words = [
        "train", "--data", str(tmp_path / "rows.parquet"), "--meta", str(tmp_path / "meta.parquet"), "--backbone", str(base),
        "--objective", "domain-weights", "--set", "domain=source", "meta_lr=0.2", "unroll=1", "--lr", "0.01",
        "--epochs", "6", "--batch-size", "6", "--eval-share", "0", "--device", "cpu", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    assert cli.main(words) == 0
    weights = row_weights(tmp_path / "run")["weights"]
    assert weights["good"] > 1 > weights["bad"]


def test_wrong_use_of_a_meta_set_is_one_line(base: Path, tmp_path: Path) -> None:
    rows = [*domain_rows("good", True), *domain_rows("bad", False)]
    with pytest.raises(ValueError, match="soft-bce weighs no rows"):
        train_prm(rows, base, replace(WEIGHED, objective="soft-bce", objective_options={}), tmp_path, meta=graded())
    with pytest.raises(ValueError, match="'good0' says no 'corpus' to weigh it by"):
        run(base, tmp_path, replace(WEIGHED, objective_options={"domain": "corpus"}))
    with pytest.raises(ValueError, match="accumulation: rows are weighed by an update of one forward pass"):
        run(base, tmp_path, replace(WEIGHED, accumulation=2))
    held = [row for row in graded() if row.trajectory.problem.prompt == "m0"]
    with pytest.raises(ValueError, match="'ok0' is about a problem that the meta set decides by too"):
        run(base, tmp_path / "held", WEIGHED, held_out=held)
    with pytest.raises(ValueError, match="graded solutions"):
        train_prm(rows, base, WEIGHED, tmp_path / "share")
