"""A published PRM as backbone: its layout, head and read-out are kept, it learns, and it is saved and loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.reward.checkpoint import checkpoint, to_train
from footfall.reward.config import CONFIG_FILE
from footfall.reward.judge import PRMJudge, step_head
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, train_prm
from footfall.train.data import make_examples
from footfall.train.objectives import fitted_to, make_objective
from footfall.types import Judged, Judgement
from tests.reward.families.zoo import adapter_folder, folder_of
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import trace

torch.set_num_threads(1)
QUICK = TrainConfig(lr=3e-3, epochs=4, batch_size=8, eval_share=0.25, device="cpu")


def toy_rows(n: int = 32) -> list[Judged]:
    """A step is good if and only if it says `ok`; the last but one has no label now and then."""
    rows = []
    for i in range(n):
        good = [(i * 7 + k * k * 3 + i // 3) % 3 != 0 for k in range(1 + i % 3)]
        t = trace(*("ok" if g else "no" for g in good), id=f"t{i}", prompt=f"q{i // 2}")
        labels = tuple(None if i % 5 == 0 and k == 1 else float(g) for k, g in enumerate(good))
        rows.append(Judged(t, Judgement(t.id, labels, "toy")))
    return rows


CASES: dict[str, dict[str, Any]] = {
    "qwen2.5-math-prm": {"objective": "ce"},
    "skywork-o1-prm": {},
    "math-shepherd": {"objective": "ce", "objective_options": {"values": {"bad": 0, "good": 1}}},
    "pure": {},
    "reasoneval-7b": {"objective": "bce"},
    "actprm": {"epochs": 8},
    "universal-prm": {},
    "rlhflow": {"lora_rank": 4, "lr": 1e-2},
}
"""Classes in another order than the loss has them, a margin, three classes under a loss of one output, an output that is a
probability, one sequence a prefix, and adapters."""


@pytest.mark.long
@pytest.mark.parametrize("family", CASES)
def test_a_published_prm_is_trained_as_it_is_read(family: str, tmp_path: Path) -> None:
    folder = folder_of(family)
    result = train_prm(toy_rows(), folder, replace(QUICK, **CASES[family]), tmp_path / "run")
    assert result.metrics["step_auc"] > 0.9
    assert result.curve[-1][1] < result.curve[0][1]
    stored = json.loads((result.folder / CONFIG_FILE).read_text(encoding="utf-8"))
    assert stored["family"] == family and stored["training"]["labels_by"] == ["toy"]
    trained, before = step_head(result.folder, device="cpu"), checkpoint(folder, device="cpu")
    assert trained.name.startswith(f"{family}@") and trained.name != before.name
    assert isinstance(before, PRMJudge)
    t = trace("ok", "no", prompt="new")
    assert trained.model.reads(t) == before.model.reads(t), "the layout is kept"
    assert trained.model.readout == before.model.readout
    good, bad = trained.judge([trace("ok", prompt="new"), trace("no", prompt="new")])
    assert good.values[0] is not None and bad.values[0] is not None and good.values[0] > bad.values[0]


@pytest.mark.long
def test_training_goes_on_from_a_fine_tuned_one_and_its_outputs_may_become_quantiles(tmp_path: Path) -> None:
    config = replace(QUICK, objective="ce")
    first = train_prm(toy_rows(), folder_of("qwen2.5-math-prm"), config, tmp_path / "first")
    more = train_prm(toy_rows(), first.folder, config, tmp_path / "more")
    assert more.metrics["loss"] < first.metrics["loss"]
    wide = train_prm(toy_rows(), first.folder, replace(QUICK, objective="quantile"), tmp_path / "wide")
    judge = step_head(wide.folder, device="cpu")
    (said,) = judge.judge([trace("ok")])
    assert judge.name.startswith("qwen2.5-math-prm@") and set(said.aspects) == {"q10", "q50", "q90"}
    with pytest.raises(ValueError, match=r"is of the family qwen2\.5-math-prm"):
        train_prm(toy_rows(), first.folder, replace(config, family="trl"), tmp_path / "other")


def test_family_footfall_puts_a_fresh_head_on_any_decoder(tmp_path: Path) -> None:
    config = replace(QUICK, epochs=1, family="footfall")
    result = train_prm(toy_rows(), folder_of("math-shepherd"), config, tmp_path)
    assert step_head(result.folder, device="cpu").name.startswith("step-head@")


def test_what_a_family_has_not_cannot_be_asked_for(tmp_path: Path) -> None:
    for change, message in (({"marker": "<step>"}, "reads at None"), ({"heads": 3}, "small heads")):
        with pytest.raises(ValueError, match=message):
            train_prm(toy_rows(), folder_of("skywork-o1-prm"), replace(QUICK, **change), tmp_path / message[:5])
    with pytest.raises(ValueError, match=r"has the classes \(\).*needs \('bad', 'good'\)"):
        train_prm(toy_rows(), folder_of("skywork-o1-prm"), replace(QUICK, objective="ce"), tmp_path / "ce")


def test_a_published_adapter_is_merged_before_it_is_trained(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    save_checkpoint(tmp_path / "base", "qwen2", tokenizer)
    adapter_folder(tmp_path / "Math-psa", tmp_path / "base", tokenizer, ["q_proj", "v_proj"])
    model = to_train(tmp_path / "Math-psa", None, torch.float32)
    assert isinstance(model, PRM) and all(p.requires_grad for p in model.parameters())
    said = PRMJudge(model).judge([trace("One.", "Two.")])[0].values
    assert said == pytest.approx(checkpoint(tmp_path / "Math-psa").judge([trace("One.", "Two.")])[0].values, abs=1e-5)


def test_a_model_that_sees_each_prefix_apart_has_an_example_a_labelled_step() -> None:
    model = to_train(folder_of("universal-prm"), None, torch.float32)
    assert model is not None
    t = trace("ok", "no", "so", id="t")
    rows = [Judged(t, Judgement("t", (1.0, None, 0.0), "toy")), Judged(t, Judgement("t", (None,) * 3, "toy"))]
    examples, report = make_examples(rows, model, fitted_to(make_objective("soft-bce", {}), model.readout), "error")
    assert [len(e.trajectory.steps) for e in examples] == [1, 3]
    assert [e.targets for e in examples] == [(1.0,), (0.0,)]
    assert [e.reading for e in examples] == [model.reads(t)[0], model.reads(t)[2]]
    assert (report.used, report.steps, report.unlabelled) == (1, 3, 1)
    assert report.tokens == sum(len(e.reading.ids) for e in examples)
