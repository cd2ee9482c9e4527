"""Language models are trained by `transformers.Trainer` and by TRL, to the very weights of a plain loop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling, SFTTrainer

from footfall.loading import load_model
from footfall.policy.embedded import EMBEDDED
from footfall.reward.packed import packing
from footfall.train import TrainConfig, language, sft, train_prm
from footfall.train.imitation import ImitationConfig, planned
from footfall.train.planned import Keeping, Plan, fit_loss
from footfall.train.sft import Taught, fit_sft
from tests.train.test_train_language import QUICK, model, rows

torch.set_num_threads(1)
ROWS = [Taught(tuple(range(20 + k, 40 + 2 * k)), 5 + k % 3) for k in range(12)]
"""Ids that mean nothing: only the gradients matter."""
CONFIG = ImitationConfig(lr=3e-3, epochs=3, batch_tokens=128, warmup=0.2)


def small() -> Any:
    lm: Any = load_model(str(EMBEDDED), "cpu")[0]
    return lm.float()


def plan() -> Plan:
    return planned([len(row.ids) for row in ROWS], CONFIG)


def mean_loss(lm: Any, batch: Sequence[int]) -> Tensor:
    """−log π of the learned tokens, a row at a time, over their number: written out."""
    losses = []
    for row in (ROWS[i] for i in batch):
        logits_TV = lm(input_ids=torch.tensor([row.ids]), use_cache=False).logits[0]
        said_T = logits_TV[:-1].log_softmax(-1).gather(1, torch.tensor(row.ids[1:])[:, None])[:, 0]
        losses.append(-said_T[row.first - 1 :])
    return torch.cat(losses).mean()


def by_hand(lm: Any, plan: Plan) -> list[float]:
    """The loop that the trainers must not differ from; the loss of every update."""
    optimizer = torch.optim.AdamW(lm.parameters(), lr=plan.lr, weight_decay=plan.weight_decay)
    losses = []
    for update, batch in enumerate(batch for epoch in plan.epochs for batch in epoch):
        for group in optimizer.param_groups:
            group["lr"] = plan.lr * plan.rate(update)
        loss = mean_loss(lm, batch)
        optimizer.zero_grad()
        torch.autograd.backward([loss])
        torch.nn.utils.clip_grad_norm_(lm.parameters(), plan.max_grad_norm)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.fixture(scope="module")
def plain() -> tuple[Any, list[float]]:
    """The model of a plain loop, and its losses."""
    lm = small()
    return lm, by_hand(lm, plan())


@pytest.fixture(scope="module")
def padded() -> tuple[Any, list[float]]:
    """The model of TRL's trainer with padded batches, and its losses."""
    lm = small()
    return lm, list(fit_sft(lm, load_model(str(EMBEDDED), "cpu")[1], ROWS, plan()))


def test_the_rate_rises_and_falls_to_zero_over_all_epochs() -> None:
    ten = Plan([[[0]] * 5] * 2, 1.0, warmup=0.2)
    assert [ten.rate(k) for k in range(10)] == [0.5, 1.0, 1.0, *(k / 8 for k in range(7, 0, -1))]
    assert Plan([[[0], [0]], [[0]]], 1.0).means([1.0, 3.0, 5.0]) == (2.0, 5.0)


def test_the_trainer_ends_with_the_weights_of_a_plain_loop_to_the_bit(plain: tuple[Any, list[float]]) -> None:
    ours, (theirs, expected) = small(), plain
    losses = fit_loss(ours, plan(), lambda batch: mean_loss(ours, batch))
    assert losses == pytest.approx(plan().means(expected), rel=1e-6)
    assert all(map(torch.equal, ours.parameters(), theirs.parameters())) and not ours.training


def test_trl_s_sft_has_the_losses_of_a_plain_loop(
    plain: tuple[Any, list[float]], padded: tuple[Any, list[float]]
) -> None:
    expected = plan().means(plain[1])
    assert padded[1] == pytest.approx(expected, rel=1e-4) and expected[-1] < 0.8 * expected[0]


def test_packed_critiques_have_the_losses_and_the_weights_of_padded_ones(padded: tuple[Any, list[float]]) -> None:
    (one, expected), other = padded, small()
    tokenizer = load_model(str(EMBEDDED), "cpu")[1]
    widths: list[tuple[int, ...]] = []
    other.register_forward_pre_hook(lambda _, given, named: widths.append(named["input_ids"].shape), with_kwargs=True)
    with packing(other):
        found = fit_sft(other, tokenizer, ROWS, plan(), packed=True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert all(torch.allclose(p, q, atol=1e-4) for p, q in zip(one.parameters(), other.parameters(), strict=True))
    assert widths == [(1, sum(len(ROWS[i].ids) for i in batch)) for epoch in plan().epochs for batch in epoch]


def test_a_packed_row_of_critiques_is_read_as_each_of_them_alone() -> None:
    """A change in one critique moves no logit of its neighbours, before or behind it."""
    lm = small()
    collate = DataCollatorForLanguageModeling(0, padding_free=True)
    changed = Taught([99] * len(ROWS[1].ids), ROWS[1].first)
    with torch.no_grad(), packing(lm):
        first, second = (
            lm(**{k: v for k, v in collate([row.columns() for row in rows]).items() if k != "labels"}).logits[0]
            for rows in (ROWS[:3], [ROWS[0], changed, ROWS[2]])
        )
    a, b = len(ROWS[0].ids), len(ROWS[0].ids) + len(ROWS[1].ids)
    assert torch.equal(first[:a], second[:a]) and torch.equal(first[b:], second[b:])
    assert not torch.allclose(first[a:b], second[a:b])
    with torch.no_grad():
        alone = lm(input_ids=torch.tensor([ROWS[2].ids])).logits[0]
    assert torch.allclose(first[b:], alone, atol=1e-4)


@pytest.mark.parametrize("rank", [None, 4], ids=["full", "lora"])
def test_a_critic_learns_the_same_packed_or_padded(rank: int | None, tmp_path: Path) -> None:
    config = replace(QUICK, family="thinkprm", objective="verdict", epochs=2, lora_rank=rank)
    plain = train_prm(rows(8), model(tmp_path), config, tmp_path / "plain")
    other = train_prm(rows(8), model(tmp_path), replace(config, packing=True), tmp_path / "packed")
    assert [loss for _, loss in other.curve] == pytest.approx([loss for _, loss in plain.curve], rel=1e-4)
    assert other.metrics["loss"] == pytest.approx(plain.metrics["loss"], rel=1e-3)


def test_randomness_of_the_caller_is_left_as_it_was() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    lm, one_epoch = small(), replace(plan(), epochs=plan().epochs[:1])
    fit_loss(lm, one_epoch, lambda batch: mean_loss(lm, batch))
    assert torch.equal(torch.rand(1), expected)


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(tmp_path: Path, plain: tuple[Any, list[float]]) -> None:
    (whole, losses), cut = plain, small()
    expected = plan().means(losses)
    seen: list[int] = []

    def killed(done: int, of: int) -> None:
        seen.append(done)
        if len(seen) == 5:
            raise RuntimeError("killed")

    keeping = Keeping(tmp_path / "kept", steps=2)
    with pytest.raises(RuntimeError, match="killed"):
        fit_loss(cut, plan(), lambda batch: mean_loss(cut, batch), killed, keeping)
    again = small()
    found = fit_loss(again, plan(), lambda batch: mean_loss(again, batch), lambda done, of: seen.append(done), keeping)
    assert seen[5:] == list(range(5, plan().updates + 1)), "from the checkpoint after the fourth update"
    assert found == pytest.approx(expected) and all(map(torch.equal, again.parameters(), whole.parameters()))


def test_a_critic_is_trained_by_trl_and_an_implicit_prm_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SFTTrainer] = []

    class Watched(sft.PlannedSFT):
        def __init__(self, *given: Any, **named: Any) -> None:
            made.append(self)
            super().__init__(*given, **named)

    monkeypatch.setattr(sft, "PlannedSFT", Watched)
    train_prm(rows(8), model(tmp_path), replace(QUICK, epochs=1), tmp_path / "implicit")
    assert not made
    config = replace(QUICK, family="thinkprm", objective="verdict", epochs=1)
    train_prm(rows(8), model(tmp_path), config, tmp_path / "critic")
    assert len(made) == 1 and isinstance(made[0], SFTTrainer)


def test_without_trl_a_critic_is_refused_in_one_line_and_an_implicit_prm_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "footfall.train.sft", raising=False)
    monkeypatch.setitem(sys.modules, "trl.trainer.sft_config", None)
    config = replace(QUICK, family="thinkprm", objective="verdict", epochs=1)
    with pytest.raises(
        ModuleNotFoundError, match=r"trained by TRL, which is not installed: pip install 'footfall\[rl\]'"
    ):
        train_prm(rows(8), model(tmp_path), config, tmp_path / "critic")
    assert train_prm(rows(8), model(tmp_path), replace(QUICK, epochs=1), tmp_path / "implicit").updates


def test_a_language_model_s_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    config: TrainConfig = replace(QUICK, epochs=3, save_steps=1)
    expected = train_prm(rows(), model(tmp_path), config, tmp_path / "whole")
    updates: list[int] = []

    def killed(done: int, of: int) -> None:
        updates.append(done)
        if done == 3 and len(updates) == 3:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        train_prm(rows(), model(tmp_path), config, tmp_path / "cut", progress=killed)
    found = train_prm(rows(), model(tmp_path), config, tmp_path / "cut", progress=killed)
    assert updates[3] == 3, "the update that was not kept is made again, no other"
    assert found.metrics == expected.metrics and found.curve == expected.curve
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]
    assert not list((tmp_path / "cut").rglob("checkpoint-*")), "a finished run keeps none"


@pytest.mark.parametrize("option", ["packing", "gradient_checkpointing"])
def test_an_implicit_prm_learns_the_same_packed_or_with_activations_computed_twice(option: str, tmp_path: Path) -> None:
    config: TrainConfig = replace(QUICK, epochs=2)
    plain = train_prm(rows(), model(tmp_path), config, tmp_path / "plain")
    chosen: dict[str, Any] = {option: True}
    other = train_prm(rows(), model(tmp_path), replace(config, **chosen), tmp_path / "other")
    assert [loss for _, loss in other.curve] == pytest.approx([loss for _, loss in plain.curve], rel=1e-4)
    assert other.metrics["loss"] == pytest.approx(plain.metrics["loss"], rel=1e-3)


def test_packed_log_probabilities_are_those_of_padded_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    lm, trace = small(), rows(1)[0].trajectory
    items = [language.Item(trace, 0, tuple(row.ids), row.first, 1.0) for row in ROWS[:5]]
    with torch.no_grad(), packing(lm):
        expected = language.written_log_probs(lm, items)
        monkeypatch.setattr(language, "padded", None)
        assert torch.allclose(language.written_log_probs(lm, items, packed=True), expected, atol=1e-4)


def test_a_setting_that_would_be_left_unheeded_is_refused(tmp_path: Path) -> None:
    for name, config in (("schedule", replace(QUICK, schedule="cosine")), ("compile", replace(QUICK, compile=True))):
        with pytest.raises(ValueError, match=f"trained without {name}; leave that out"):
            train_prm(rows(8), model(tmp_path), config, tmp_path / name)


def test_texts_of_any_judge_are_learned_to_their_end_and_none_is_cut(tmp_path: Path) -> None:
    from trl.trainer.sft_config import SFTConfig

    from footfall.reward.generative.critic import Request, say

    folder = model(tmp_path)
    tokenizer = load_model(str(folder), "cpu")[1]
    tokenizer.pad_token = None  # as a Llama's, for which TRL takes the end of a text
    tokenizer.save_pretrained(folder)
    assert load_model(str(folder), "cpu")[1].pad_token is None
    row = sft.written("ab", "cd", tokenizer)
    assert tokenizer.decode(list(row.ids[row.first :])) == "cd" + str(tokenizer.eos_token)
    args = SFTConfig(
        str(tmp_path / "run"), per_device_train_batch_size=4, num_train_epochs=6, learning_rate=3e-3, use_cpu=True,
        bf16=False, report_to="none", save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, logging_steps=1,
    )  # fmt: skip
    texts = [(Request(say(f"q{k}")), "good" if k % 2 else "bad") for k in range(8)]
    found = sft.train_sft(texts, folder, tmp_path / "out", args)
    assert found["train_loss"] < 5
    free = sft.train_sft(texts, folder, tmp_path / "free", replace(args, padding_free=True, max_length=None))
    assert free["train_loss"] == pytest.approx(found["train_loss"], rel=1e-4), "TRL's rows without padding, kept apart"
    saved, known = load_model(str(tmp_path / "out"), "cpu")
    assert known.pad_token is None
    assert saved.config.pad_token_id is None and saved.generation_config.pad_token_id is None
    with pytest.raises(ValueError, match=r"a row has \d+ tokens, the limit is 3"):
        sft.train_sft(texts, folder, tmp_path / "out", replace(args, max_length=3))
    with pytest.raises(ValueError, match="no texts"):
        sft.train_sft([], folder, tmp_path / "out", args)


def test_items_keep_what_is_scored(tmp_path: Path) -> None:
    """The log-ratio's units are pairs where traces are compared."""
    items = [language.Item(rows(1)[0].trajectory, 0, (1,) * (3 + k), 2, 1.0) for k in range(6)]
    made = language._plan(items, 2, small(), replace(QUICK, epochs=1))
    assert sorted(unit for batch in made.epochs[0] for unit in batch) == [0, 1, 2]
