"""TRL's PRM trainer beside Footfall's: the same rows, weights and settings on both sides of the benchmark."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.scoring import ShapedModel
from benchmarks.training import measure
from benchmarks.training_quality import by_footfall, by_trl, over_trl, stepwise
from benchmarks.trl_prm import as_tokens, token_classifier, trl_prm
from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.reward.checkpoint import checkpoint
from footfall.reward.publish import begin_as, publish
from footfall.train.config import TrainConfig
from footfall.types import Judged, Judgement, Problem, Step, Trajectory

TRACE = Trajectory("t", Problem("p", "1 + 2 = ?"), (Step("1 + 2 = 3"), Step("Answer: 4")), separator="\n")


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """Token-classification weights that both sides begin from."""
    publish(begin_as(EMBEDDED, "trl", torch.float32, 0), tmp_path / "start")
    return tmp_path / "start"


@pytest.fixture
def trl() -> Any:
    return pytest.importorskip("trl.experimental.prm", reason="needs a TRL that has a PRM trainer")


def test_the_classifier_holds_the_backbone_itself() -> None:
    backbone = ShapedModel("embedded", torch.device("cpu")).backbone
    model = token_classifier(backbone, torch.device("cpu"))
    assert type(model).__name__ == "LlamaForTokenClassification"
    assert model.model is backbone and not any(p.is_meta for p in model.parameters())
    assert model(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 2)


def test_a_trl_without_a_prm_trainer_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trl.experimental.prm", None)
    with pytest.raises(
        SystemExit, match=r"^this TRL has no PRM trainer; 1\.13 is the last that has: pip install [^\n]+$"
    ):
        trl_prm()


def test_trl_reads_the_tokens_that_footfall_reads_and_cuts_soft_labels(trl: Any, start: Path) -> None:
    judge: Any = checkpoint(start, device="cpu")
    reading = judge.model.read(TRACE)
    row = stepwise(Judged(TRACE, Judgement("t", (1.0, 0.9), "rollouts")))
    theirs = trl.PRMTrainer.tokenize_row(row, load_tokenizer(str(start)), "\n", None, None, False, False)
    assert theirs == as_tokens(reading.ids, reading.positions, [1, 0]), "0.9 became 0"


def test_hard_labels_in_one_batch_teach_both_sides_the_same(trl: Any, start: Path, tmp_path: Path) -> None:
    rows = [Judged(TRACE, Judgement("t", labels, "truth")) for labels in ((1.0, 0.0), (1.0, 0.0))]
    config = TrainConfig(lr=3e-4, epochs=3, eval_share=0, device="cpu", packing=True)
    ours, theirs = by_footfall(rows, start, config, tmp_path / "ours"), by_trl(rows, start, config, tmp_path / "theirs")
    said = [checkpoint(folder, device="cpu").judge([TRACE])[0].values for folder in (start, ours, theirs)]
    assert said[1] == pytest.approx(said[2], abs=1e-3)
    assert said[0] != pytest.approx(said[1], abs=1e-2), "nothing was learnt"


@pytest.mark.parametrize("rank", [None, 2])
def test_one_run_has_both_sides_and_their_ratio(trl: Any, rank: int | None) -> None:
    arguments = argparse.Namespace(rank=rank, batch=1, traces=8, ways=["trl", "packed"])
    found = measure("embedded", torch.device("cpu"), arguments)
    assert found["trl"]["updates"] == found["packed"]["updates"] == 2
    ratio = found["packed"]["tokens_per_second"] / found["trl"]["tokens_per_second"]
    assert found["over_trl"] == {"trl": {"packed": ratio}}
    assert 0 < found["trl"]["share_of_matmul"] < 1


def test_differences_are_of_equal_labels_or_of_one_source_seed_by_seed() -> None:
    arms = {
        "trl, exact": (0.8, 0.9), "footfall, exact": (0.9, 0.9), "footfall, rollouts soft": (1.0, 1.0),
        "trl, rollouts above 0": (0.9, 0.9), "trl, rollouts as it cuts them": (0.7, 0.7),
    }  # fmt: skip
    found = over_trl({name: [{"auc": v, "f1": v} for v in values] for name, values in arms.items()})
    hard = {f"rollouts soft, over trl, rollouts {way}": way for way in ("above 0", "as it cuts them")}
    assert set(found) == {"exact", *hard}, "soft labels stand against both ways in which TRL has them"
    assert [found[name]["auc"][0] for name in hard] == pytest.approx([0.1, 0.3])
    mean, low, high = found["exact"]["f1"]
    assert (
        mean == pytest.approx(0.05) and low == pytest.approx(0.05 - 12.7062 * 0.05) and high == pytest.approx(0.1 - low)
    )
