"""MAH-DPO on TRL's trainer: every objective moves its own head, and mixed heads are one ordinary model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch
from trl.trainer.dpo_config import DPOConfig

from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.train.multi_head import MultiHeadDPOTrainer, Pair, answer_logps, best_and_worst, mixed, with_heads
from footfall.train.online import mix_heads
from footfall.types import Problem, Step, Trajectory
from tests.rl.test_rl_trainer import small

PAIRS = [
    pair
    for i in range(4)
    for pair in (
        Pair("right", f"Start with {i}.", f"{i} + 1 = {i + 1}", f"{i} + 1 = 9"),
        Pair("brief", f"Start with {i}.", "1", f"{i} and {i} and {i}"),
    )
]


def trainer(folder: Path, pairs: list[Pair] = PAIRS, **more: Any) -> MultiHeadDPOTrainer:
    args = DPOConfig(
        str(folder), per_device_train_batch_size=4, max_steps=8, learning_rate=1e-2, use_cpu=True, bf16=False,
        report_to="none", save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, logging_steps=1,
        lr_scheduler_type="constant",
    )  # fmt: skip
    return MultiHeadDPOTrainer(small(), load_tokenizer(str(EMBEDDED)), pairs, args, **more)


def test_training_puts_each_objective_ahead_under_its_own_head(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    made.train()
    log = [row for row in made.state.log_history if "loss" in row]
    assert log[0]["loss"] == pytest.approx(0.6931, abs=1e-3), "as long as policy and reference agree Δ is 0: ln 2"
    assert log[-1]["loss"] < 0.6 and log[-1]["ahead/right"] == log[-1]["ahead/brief"] == 1.0


def test_pairs_of_one_objective_give_other_heads_no_gradient_at_all(tmp_path: Path) -> None:
    made: Any = trainer(tmp_path)
    batch = made.data_collator([dict(row) for row in made.train_dataset if row["objective"] == 0])
    made.model.train()
    loss = made._compute_loss(made.model, batch)
    torch.autograd.backward([loss])
    heads = made.model.heads.grad
    assert heads[0].any() and not heads[1].any()


def test_mixed_heads_write_as_the_mean_of_their_logits_and_are_one_model(tmp_path: Path) -> None:
    model: Any = with_heads(small(), 3, noise=0.1)
    ids = torch.tensor([[1, 5, 9, 30]])
    with torch.no_grad():
        hidden = model.get_decoder()(input_ids=ids).last_hidden_state
        for weights in ([1.0, 0, 0], [0.2, 0.3, 0.5], [2.0, 0, 2.0]):
            one: Any = mixed(model, weights)
            wanted = mix_heads(torch.einsum("hvd,nld->hnlv", model.heads, hidden), weights)
            torch.testing.assert_close(one(input_ids=ids).logits.softmax(-1), wanted, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(mixed(model, [1, 0, 0]).lm_head.weight, model.lm_head.weight)
        one = mixed(model, [2.0, 0, 2.0])
        one.save_pretrained(tmp_path)
        again = type(one).from_pretrained(tmp_path)
        torch.testing.assert_close(again(input_ids=ids).logits, one(input_ids=ids).logits)
    with pytest.raises(ValueError, match="3 heads want as many weights"):
        mixed(model, [1, 0])


def test_an_answer_has_the_log_probability_of_its_own_tokens_alone() -> None:
    model: Any = with_heads(small(), 2, noise=0.1)
    ids, own = torch.tensor([[1, 5, 9, 30], [1, 5, 9, 0]]), torch.tensor([[0, 0, 1, 1], [0, 0, 1, 0]])
    batch = {"input_ids": ids, "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]), "completion_mask": own}
    with torch.no_grad():
        found = answer_logps(model, batch, torch.tensor([1]))
        logits = mixed(model, [0, 1])(input_ids=ids).logits.log_softmax(-1)
    assert found[0].item() == pytest.approx((logits[0, 1, 9] + logits[0, 2, 30]).item(), abs=1e-4)
    assert found[1].item() == pytest.approx(logits[1, 1, 9].item(), abs=1e-4)


def test_pairs_are_the_best_and_the_worst_of_each_problem() -> None:
    problems = [Problem(name, f"Problem {name}") for name in "ab"]
    traces = [Trajectory(f"{p.id}{k}", p, (Step(f"step {k}"),)) for p in problems for k in range(3)]
    (pair,) = best_and_worst(traces, [0.1, 0.9, None, 0.5, 0.5, 0.5], "values")
    assert pair == Pair("values", "Problem a", "step 1\n\n", "step 0\n\n")


def test_weights_name_every_objective(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give each of them a weight"):
        trainer(tmp_path, weights={"right": 1.0})


def test_an_answer_that_would_be_cut_is_refused(tmp_path: Path) -> None:
    long = [*PAIRS, Pair("right", "Start with 1.", "1 + 1 = 2", "9 " * 600)]
    with pytest.raises(ValueError, match=r"have \d{4} tokens, and the model reads 512: leave the pair out"):
        trainer(tmp_path, long)


@pytest.mark.parametrize("setting", [{"loss_type": ["ipo"]}, {"label_smoothing": 0.1}])
def test_another_loss_of_trl_is_refused(setting: dict[str, Any], tmp_path: Path) -> None:
    """It was taken and had no effect."""
    args = DPOConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **setting)
    with pytest.raises(ValueError, match=f"{next(iter(setting))}=.* would not be heeded: MAH-DPO has one loss"):
        MultiHeadDPOTrainer(small(), load_tokenizer(str(EMBEDDED)), PAIRS, args)
