"""Self-training: the card's worked numbers, a toy logistic task, and the loop of a PRM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from footfall.metrics.steps import calibration_error
from footfall.train import TrainConfig
from footfall.train.self_training import Taught, pair_label, pseudo_label, self_train_prm, self_training
from footfall.types import Judged, Judgement
from tests.reward.tiny_models import backbone_folder, trace

torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("both", "first", "confidence", "kept"),
    [((0.95, 0.75), True, 0.85, True), ((0.9, 0.7), True, 0.80, False), ((0.6, 0.5), True, 0.55, False),
     ((0.15, 0.05), False, 0.90, True)],
)  # fmt: skip
def test_pairs_of_the_card(both: tuple[float, float], first: bool, confidence: float, kept: bool) -> None:
    found = pair_label(*both)
    assert found.first is first
    assert found.confidence == pytest.approx(confidence)
    assert found.sure() is kept


@given(st.floats(0, 1), st.floats(0, 1))
def test_swapping_a_pair_flips_the_label_and_keeps_the_confidence(p: float, q: float) -> None:
    there, back = pair_label(p, q), pair_label(1 - q, 1 - p)
    assert there.confidence == pytest.approx(back.confidence)
    if abs(p + q - 1) > 1e-9:
        assert there.first != back.first


def test_a_trace_is_labelled_up_to_its_first_predicted_error_if_all_steps_there_are_sure() -> None:
    found = pseudo_label(Judgement("t", (0.9, 0.1, 0.5), "prm"))
    assert found is not None and found.values == (1.0, 0.0, None)
    assert found.failures == (None, None, "after the first predicted error")
    assert pseudo_label(Judgement("t", (0.9, 0.7, 0.1), "prm")) is None
    assert pseudo_label(Judgement("t", (0.8, 0.9), "prm")) is None, "confidence must be above the threshold"
    assert pseudo_label(Judgement("t", (0.9, None), "prm")) is None
    assert pseudo_label(Judgement("t", (), "prm")) is None


@given(st.lists(st.floats(0, 1).filter(lambda p: p != 0.5), min_size=1, max_size=5))
def test_half_keeps_everything_and_one_keeps_nothing(values: list[float]) -> None:
    said = Judgement("t", tuple(values), "prm")
    assert pseudo_label(said, 0.5) is not None
    assert pseudo_label(said, 1.0) is None


Point = tuple[tuple[float, float], float]


def logistic(rows: Sequence[Point]) -> npt.NDArray[np.float64]:
    """Weights of a logistic regression by gradient descent with a little decay."""
    x = np.array([[*features, 1.0] for features, _ in rows])
    y = np.array([label for _, label in rows])
    weights = np.zeros(3)
    for _ in range(500):
        weights -= 0.3 * (x.T @ (1 / (1 + np.exp(-x @ weights)) - y) / len(y) + 0.02 * weights)
    return weights


def test_a_logistic_toy_with_few_labels_does_not_get_worse_and_knows_what_it_knows() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(800) < 0.5
    points = rng.normal(size=(800, 2)) + np.where(labels[:, None], 1.0, -1.0)
    rows: list[Point] = [((float(a), float(b)), float(y)) for (a, b), y in zip(points, labels, strict=True)]
    labelled, unlabelled = rows[:40], rows[40:]

    def chances(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return 1 / (1 + np.exp(-(np.array([[*f, 1.0] for f, _ in unlabelled]) @ weights)))

    def teach(number: int, weights: npt.NDArray[np.float64]) -> list[Point]:
        p = chances(weights)
        return [(f, float(q > 0.5)) for (f, _), q in zip(unlabelled, p, strict=True) if max(q, 1 - q) > 0.8]

    models: list[Taught[npt.NDArray[np.float64], Point]] = self_training(
        labelled, lambda number, given, before: logistic(given), teach, rounds=2
    )
    truth = np.array([y for _, y in unlabelled])
    accuracies = [float(((chances(m.model) > 0.5) == truth).mean()) for m in models]
    assert len(models) == 3 and accuracies[-1] >= accuracies[0]
    p = chances(models[0].model)
    sure = np.maximum(p, 1 - p) > 0.8
    assert float(calibration_error(p[sure], truth[sure])) < float(calibration_error(p, truth))


def test_the_loop_ends_when_no_more_is_kept() -> None:
    fits: list[int] = []

    def fit(number: int, rows: Sequence[int], before: int | None) -> int:
        fits.append(len(rows))
        return number

    found = self_training([0, 1], fit, lambda number, model: [7] * (number if number < 3 else 2), rounds=9)
    assert fits == [2, 3, 4] and [len(each.kept) for each in found] == [0, 1, 2]
    assert len(self_training([0], fit, lambda number, model: [], rounds=3)) == 1


@pytest.mark.long
def test_a_prm_teaches_itself_and_a_killed_loop_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = backbone_folder(tmp_path / "base")
    traces = [trace("fine" if i % 2 else "wrong", id=f"t{i}", prompt=f"q{i}") for i in range(40)]
    labelled = [Judged(t, Judgement(t.id, (float("fine" in t.text),), "person")) for t in traces[:12]]
    config = TrainConfig(lr=5e-3, epochs=3, eval_share=0, device="cpu", batch_size=4)

    def run(out: Path) -> tuple[tuple[int, ...], bytes]:
        result = self_train_prm(labelled, traces[12:], base, config, out, confidence=0.6, rounds=1)
        return result.kept, (result.folder / "head.safetensors").read_bytes()

    whole = run(tmp_path / "whole")
    assert whole[0][0] == 0 and whole[0][1] > 20, "the toy is easy: it is sure of nearly all"

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("footfall.train.self_training.pseudo_label", kill)
        run(tmp_path / "cut")
    before = (tmp_path / "cut" / "model-00" / "result.json").stat().st_mtime_ns
    assert run(tmp_path / "cut") == whole
    assert (tmp_path / "cut" / "model-00" / "result.json").stat().st_mtime_ns == before
