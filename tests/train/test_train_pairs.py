"""Pairwise training: the worked numbers of the ToolRM card, and pairs that no shuffle, split or batch parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.trainer_pt_utils import get_length_grouped_indices

from footfall.registry import create
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, train_prm
from footfall.train.data import make_examples
from footfall.train.losses import bradley_terry_loss
from footfall.train.objectives import make_objective
from footfall.train.trainer import LengthGrouped, evaluate
from footfall.types import Judged, Judgement
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, trace

torch.set_num_threads(1)
PAIRS = TrainConfig(
    objective="bradley-terry", objective_options={"centering": 0.01}, lr=3e-3, epochs=4, batch_size=8, eval_share=0.2,
    device="cpu",
)  # fmt: skip


def pair(i: int, chosen_first: bool = True) -> list[Judged]:
    """The chosen trace ends in `ok`; both have steps before it that say nothing."""
    rows = []
    for chosen in (chosen_first, not chosen_first):
        steps = ["so"] * (i % 3) + ["ok" if chosen else "no"]
        t = trace(*steps, id=f"{i}-{chosen}", prompt=f"q{i}")
        rows.append(Judged(t, Judgement(t.id, (None,) * (i % 3) + (float(chosen),), "toy")))
    return rows


def scorer() -> PRM:
    return PRM.from_backbone(decoder(), byte_tokenizer())


def loss(chosen: float, rejected: float, centering: float) -> float:
    rewards, targets = torch.tensor([[[chosen]], [[rejected]]]), torch.tensor([[1.0], [0.0]])
    return float(bradley_terry_loss(rewards, targets, torch.ones(2, 1, dtype=torch.bool), centering))


@pytest.mark.parametrize(
    ("chosen", "rejected", "expected"), [(1.5, 0.2, 0.241008), (0.0, 0.3, 0.854355), (1.0, -0.5, 0.201413)]
)
def test_the_losses_of_the_cards_basereward_and_themis(chosen: float, rejected: float, expected: float) -> None:
    assert loss(chosen, rejected, 0.0) == pytest.approx(expected, abs=1e-6)
    assert loss(chosen + 7, rejected + 7, 0.0) == pytest.approx(expected, abs=1e-6), "a constant changes nothing"


@pytest.mark.parametrize(
    ("chosen", "rejected", "plain", "centred"),
    [(1.5, -0.5, 0.126928, 0.136928), (3.5, 1.5, 0.126928, 0.376928), (0.5, 1.0, 0.974077, 0.996577)],
)
def test_the_losses_of_the_card(chosen: float, rejected: float, plain: float, centred: float) -> None:
    assert loss(chosen, rejected, 0.0) == pytest.approx(plain, abs=1e-6)
    assert loss(chosen, rejected, 0.01) == pytest.approx(centred, abs=1e-6)


@given(st.floats(-20, 20), st.floats(-20, 20), st.floats(-5, 5))
def test_without_centering_only_the_difference_counts(chosen: float, rejected: float, offset: float) -> None:
    assert loss(chosen + offset, rejected + offset, 0.0) == pytest.approx(loss(chosen, rejected, 0.0), abs=1e-3)
    assert loss(chosen, rejected, 0.0) <= loss(chosen, rejected, 0.01)


def test_the_loss_is_the_mean_over_pairs_read_at_the_labelled_step_whichever_comes_first() -> None:
    # Two pairs, three steps at most; the second pair has its rejected trace first.
    logits = torch.full((4, 3, 1), 99.0)
    mask = torch.zeros(4, 3, dtype=torch.bool)
    targets = torch.zeros(4, 3)
    for row, (step, reward, side) in enumerate([(2, 1.5, 1.0), (0, -0.5, 0.0), (1, 1.0, 0.0), (2, 0.5, 1.0)]):
        logits[row, step, 0], mask[row, step], targets[row, step] = reward, True, side
    found = float(bradley_terry_loss(logits, targets, mask, 0.01))
    assert found == pytest.approx((0.136928 + 0.996577) / 2, abs=1e-6)


def test_traces_that_are_no_pair_are_refused() -> None:
    one = torch.ones(2, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match="one trace with the label 1 and one with the label 0"):
        bradley_terry_loss(torch.zeros(2, 1, 1), torch.ones(2, 1), one, 0.0)
    with pytest.raises(ValueError, match="even number of traces"):
        bradley_terry_loss(torch.zeros(1, 1, 1), torch.ones(1, 1), one[:1], 0.0)
    with pytest.raises(ValueError, match="one labelled step"):
        bradley_terry_loss(torch.zeros(2, 2, 1), torch.ones(2, 2), torch.ones(2, 2, dtype=torch.bool), 0.0)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 4), st.integers(0, 5))
def test_a_shuffle_keeps_pairs_side_by_side_and_in_one_batch(half: list[int], pairs: int, seed: int) -> None:
    lengths = [length for one in half for length in (one, one + 1)]
    order = list(LengthGrouped(lengths, 2 * pairs, seed, lambda: 0, together=2))
    assert sorted(order) == list(range(len(lengths)))
    assert all(first % 2 == 0 and second == first + 1 for first, second in zip(order[::2], order[1::2], strict=True))


def test_single_examples_are_shuffled_as_before() -> None:
    lengths, generator = [5, 3, 8, 1, 9, 2], torch.Generator().manual_seed(7 * 1_000_003 + 1)
    plain = get_length_grouped_indices(lengths, 4, generator=generator)  # type: ignore[no-untyped-call]
    assert list(LengthGrouped(lengths, 4, 7, lambda: 1)) == plain


def test_rows_that_are_no_neighbours_of_one_problem_are_refused() -> None:
    objective = make_objective("bradley-terry", {})
    whole = [*pair(0), *pair(1)]
    assert len(make_examples(whole, scorer(), objective, "error")[0]) == 4
    with pytest.raises(ValueError, match=r"row 1 .* different problems"):
        make_examples([whole[0], whole[2], whole[1], whole[3]], scorer(), objective, "error")
    with pytest.raises(ValueError, match="different problems"):
        make_examples(whole[:3], scorer(), objective, "error")
    unlabelled = Judged(whole[1].trajectory, None)
    with pytest.raises(ValueError, match="none can be left out"):
        make_examples([whole[0], unlabelled], scorer(), objective, "error")
    with pytest.raises(ValueError, match="names no side of a pair"):
        objective.target(0.5)


def test_held_out_pairs_are_measured_whole_however_batches_are_packed() -> None:
    objective, reader = make_objective("bradley-terry", {"centering": 0.01}), scorer()
    rows = [row for i in range(7) for row in pair(i, chosen_first=i % 2 == 0)]
    examples, _ = make_examples(rows, reader, objective, "error")
    small, large = (evaluate(reader, examples, objective, budget) for budget in (30, 4096))
    assert small["loss"] == pytest.approx(large["loss"], abs=1e-5)


@pytest.mark.long
def test_a_preference_is_learned_by_the_same_trainer(tmp_path: Path) -> None:
    rows = [row for i in range(40) for row in pair(i, chosen_first=i % 3 > 0)]
    result = train_prm(rows, backbone_folder(tmp_path / "lm"), PAIRS, tmp_path / "run")
    assert result.metrics["step_auc"] > 0.95
    judge = create("reward", "step-head", path=str(result.folder), device="cpu")
    good, bad = judge.judge([trace("so", "ok", prompt="new"), trace("so", "no", prompt="new")])
    assert good.values[-1] > bad.values[-1]
    again = train_prm(rows, tmp_path / "lm", PAIRS, tmp_path / "again")
    assert again.curve == result.curve


def test_an_odd_batch_would_part_pairs_and_is_refused(tmp_path: Path) -> None:
    rows = [row for i in range(4) for row in pair(i)]
    with pytest.raises(ValueError, match="batch_size 7 parts the 2 rows"):
        train_prm(rows, backbone_folder(tmp_path / "lm"), replace(PAIRS, batch_size=7), tmp_path / "run")
