"""Heads that read more of the decoder: both orders of the steps, an inner layer, attentions and probabilities."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoModel

from footfall.registry import parts
from footfall.reward.heads import make_head
from footfall.reward.judge import PRMJudge, step_head
from footfall.reward.packed import pack_row, packing
from footfall.reward.prm import PRM
from footfall.reward.tapped import BothWays, PolicyState, Uncertainty, each_map, fuse, mean_over
from footfall.train import TrainConfig, train_prm
from footfall.train.data import collate, make_examples
from footfall.train.losses import soft_bce_loss
from footfall.train.objectives import make_objective
from footfall.types import Judged, Judgement, Trajectory
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)
HEADS: dict[str, dict[str, Any]] = {
    "both-ways": {}, "frozen-linear": {}, "policy-state": {"dropout": 0.0, "gradient": 1.0},
    "confidence-probe": {"dropout": 0.0}, "uncertainty": {"size": 16, "heads": 2, "window": 3, "dropout": 0.0},
}  # fmt: skip
MAPS = 8
"""Attention heads of all layers of the tiny decoder."""
TRACES = [trace("ok", "no", "ok", id="a"), trace("no", id="b"), trace("no", "ok", id="c")]


def tiny_model() -> Any:
    model = decoder()
    model.config.tie_word_embeddings = True
    model.tie_weights()
    return model


def prm(name: str, **settings: Any) -> PRM:
    head = {"name": name, **HEADS.get(name, {}), **settings}
    return PRM.from_backbone(tiny_model(), byte_tokenizer(), head=head, seed=3).eval()


def rows(n: int = 24) -> list[Judged]:
    """A step is good if and only if it says `ok`."""
    found = []
    for i in range(n):
        good = [(i * 7 + k * k * 3 + i // 3) % 3 != 0 for k in range(1 + i % 3)]
        made = trace(*("ok" if g else "no" for g in good), id=f"t{i}", prompt=f"q{i // 2}")
        found.append(Judged(made, Judgement(made.id, tuple(map(float, good)), "toy")))
    return found


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("heads", {"hidden": 1_000_000}, "at most 268,435,456 numbers"),
        ("heads", {"hidden": 0}, "a width is 1 or more"),
        ("layers", {"hidden": [-3]}, "a width is 1 or more"),
        ("layers", {"hidden": [8], "biases": [True]}, "a head of 2 layers has as many biases, not 1"),
        ("mean-of-members", {"members": 1_000_000, "hidden": [1000]}, "at most 268,435,456 numbers"),
        ("policy-state", {"layer": 99}, "reads the layer 99; this decoder has -3 to 2"),
        ("policy-state", {"layer": -3}, "layer -3 of this decoder is its embeddings, which know one token"),
        ("policy-state", {"gradient": -1.0}, "a share from 0 to 1"),
        ("confidence-probe", {"dropout": 1.0}, "a share from 0 to below 1"),
        ("uncertainty", {"size": 1_000_000}, "at most 268,435,456 numbers"),
        ("uncertainty", {"size": 15}, "heads divide size"),
        ("uncertainty", {"window": 0}, "each is 1 or more"),
        ("linear", {"width": 3}, "the head 'linear' takes no 'width'"),
        ("linear", {"decoder": 3}, "the head 'linear' takes no 'decoder'"),
    ],
)
def test_a_head_that_cannot_be_meant_is_refused_before_memory_is_taken(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        prm(name, **settings)


# -- BiPRM


def test_biprm_s_worked_fusion() -> None:
    a, backwards = torch.tensor([2.0, 0.5, -1.0]), torch.tensor([-0.5, 1.0, 1.5]).flip(0)
    gated = fuse(a, backwards, torch.tensor([0.75, 0.5, 0.25]))
    assert gated.tolist() == [1.875, 0.75, -0.625]
    assert gated.sigmoid().tolist() == pytest.approx([0.8670, 0.6792, 0.3486], abs=5e-5)
    assert fuse(a, backwards, 0.5).tolist() == [1.75, 0.75, -0.75]
    assert fuse(a, backwards, 1.0).tolist() == a.tolist(), "a gate of 1 is the plain PRM"


def test_a_step_is_read_in_both_orders_and_the_two_are_aligned() -> None:
    model = prm("both-ways", fusion="mean")
    head = model.head
    assert isinstance(head, BothWays)
    plain = PRM.from_backbone(tiny_model(), byte_tokenizer(), seed=3).eval()
    plain.head = head.value
    odd, reverse = trace("ok", "no", id="x"), trace("no", "ok", id="y")
    forwards, backwards = (plain.each_logits(plain.reads(t))[0].squeeze(-1) for t in (odd, reverse))
    fused = model.each_logits(model.reads(odd))[0].squeeze(-1)
    assert fused.tolist() == pytest.approx(((forwards + backwards.flip(0)) / 2).tolist(), abs=1e-5)
    (single,) = model.each_logits(model.reads(trace("no")))
    assert single.item() == pytest.approx(plain.each_logits(plain.reads(trace("no")))[0].item(), abs=1e-5), "one step"


def test_reversing_the_trace_and_turning_the_gate_gives_the_same_values() -> None:
    head = make_head({"name": "both-ways"}, 8, 1, seed=0)
    one, other = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    assert isinstance(head, BothWays)
    g = head.gate(torch.cat([one, other], dim=-1)).sigmoid()
    given = head(torch.cat([one, other], dim=-1))
    assert torch.allclose(given, fuse(head.value(other), head.value(one), 1 - g))


def test_batches_hold_both_orders_and_cost_counts_them() -> None:
    model = prm("both-ways")
    examples, report = make_examples(rows(6), model, make_objective("soft-bce", {}), "error")
    batch = collate(examples, model.pad_id)
    assert batch["input_ids"].shape[0] == 12 and batch["targets"].shape[0] == batch["mask"].shape[0] == 6
    assert report.tokens == sum(e.reading.tokens for e in examples) > sum(len(e.reading.ids) for e in examples)
    (said,) = PRMJudge(model).judge([TRACES[0]])
    assert said.cost.scored_tokens == model.read(TRACES[0]).tokens
    packed = collate(examples, model.pad_id, packed=True)
    assert packed["positions"].shape == batch["positions"].shape and packed["targets"].shape[0] == 6


# -- SPRM


def test_the_policy_state_is_that_before_the_last_layer_and_hardly_moves_the_policy() -> None:
    model = prm("policy-state", gradient=1e-4)
    assert isinstance(model.head, PolicyState)
    examples, _ = make_examples(rows(6), model, make_objective("soft-bce", {}), "error")
    batch = collate(examples, model.pad_id)
    targets, mask = batch.pop("targets"), batch.pop("mask")

    def moved(scale: float) -> float:
        model.zero_grad()
        assert isinstance(model.head, PolicyState)
        model.head.gradient = scale
        torch.autograd.backward([soft_bce_loss(model(**batch), targets, mask)])
        return sum(float(p.grad.abs().sum()) for p in model.backbone.parameters() if p.grad is not None)

    assert moved(1e-4) == pytest.approx(1e-4 * moved(1.0), rel=1e-3)
    inner = model.backbone(input_ids=batch["input_ids"], output_hidden_states=True, use_cache=False).hidden_states[-2]
    at = batch["positions"][0, 0]
    assert model(**batch)[0, 0].item() == pytest.approx(model.head(inner[0, at]).item(), abs=1e-5)


@pytest.mark.parametrize(("share", "head_lr"), [(1e-4, None), (1.0, 1e-4), (1e-4, 1e-3)])
def test_trained_by_adam_the_policy_moves_by_its_share_and_the_head_as_fast_as_told(
    share: float, head_lr: float | None, tmp_path: Path
) -> None:
    begun = prm("policy-state", gradient=share)
    before = {name: weight.detach().clone() for name, weight in begun.named_parameters()}
    config = TrainConfig("soft-bce", lr=1e-2, head_lr=head_lr, epochs=1, batch_size=8, eval_share=0, device="cpu")
    train_prm(rows(24), begun, config, tmp_path)
    far: dict[bool, float] = {True: 0.0, False: 0.0}
    for name, weight in begun.named_parameters():
        of_head = name.startswith("head")
        far[of_head] = max(far[of_head], float((weight - before[name]).detach().abs().max()))
    # Three updates by Adam at a falling rate: about two rates in all.
    assert (head_lr or 1e-2) < far[True] < 3 * (head_lr or 1e-2)
    assert 1e-2 * share < far[False] < 3e-2 * share


# -- UHead


def test_uhead_s_worked_numbers() -> None:
    tokens = torch.tensor([[[1.0, 2], [3, 4], [5, 6], [7, 8]]])
    assert mean_over(tokens, torch.tensor([[[False, True, True, False]]])).tolist() == [[[4.0, 5.0]]]
    for label, expected in ((0.0, 1.422231), (1.0, 0.974077)):  # its positive class is a wrong step, at logit 0.5
        loss = soft_bce_loss(torch.tensor([[-0.5]]), torch.tensor([label]), torch.tensor([True]), 3.0)
        assert float(loss) == pytest.approx(expected, abs=1e-6)
    with torch.device("meta"):
        for window, size in ((5, 9_848_833), (3, 7_489_537)):
            head = Uncertainty(36 * 32, 1, window=window)
            assert sum(p.numel() for p in head.parameters()) == size


def test_the_encoder_is_the_published_one() -> None:
    """IINemo/llm-uncertainty-head makes it as here below; it had ReLU where theirs has GELU."""
    head = Uncertainty(8, 1, seed=3).eval()
    made: Any = torch.nn.TransformerEncoderLayer
    published = made(d_model=512, nhead=16, dropout=0.1, activation="gelu", batch_first=True).eval()
    encoder: Any = head.encoder
    published.load_state_dict(encoder.layers[0].state_dict())
    x = torch.randn(1, 5, 512, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(encoder(x), published(x))
    with pytest.raises(ValueError, match="activation is gelu or relu, not 'tanh'"):
        prm("uncertainty", activation="tanh")


def test_later_steps_change_a_value_only_without_causal_masking() -> None:
    short, long = trace("ok", "no", id="s"), trace("ok", "no", "ok", id="l")
    for causal in (True, False):
        model = prm("uncertainty", causal=causal)
        first, second = (model.each_logits(model.reads(t))[0].squeeze(-1) for t in (short, long))
        same = torch.allclose(first, second[:2], atol=1e-5)
        assert same is causal
    model = prm("uncertainty")
    together = model.each_logits([r for t in TRACES for r in model.reads(t)])
    apart = [model.each_logits(model.reads(t))[0] for t in TRACES]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(together, apart, strict=True)), "padding is not seen"


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_all_steps_are_encoded_as_each_is_by_torch_s_own_encoder(layers: int, causal: bool) -> None:
    """The definition: for every step, the whole trace with this step's tokens marked."""
    head = make_head(
        {"name": "uncertainty", **HEADS["uncertainty"], "layers": layers, "causal": causal},
        8,
        1,
        decoder=tiny_model().config,
    )
    assert isinstance(head, Uncertainty)
    states = torch.randn(2, 12, MAPS * 3 + 4, generator=torch.Generator().manual_seed(0))
    positions, prompts = torch.tensor([[4, 5, 9], [11, 0, 0]]), torch.tensor([2, 3])
    given = states.clone().requires_grad_()
    logits = head.at(given, positions, prompts)
    told = head.features(states)
    for n, begin, steps in ((0, 2, [(2, 4), (5, 5), (6, 9)]), (1, 3, [(3, 11)])):
        for s, (first, last) in enumerate(steps):
            until = (last if causal else steps[-1][1]) + 1
            marks = torch.tensor([int(first <= t <= last) for t in range(begin, until)])
            read = head.encoder((told[n, begin:until] + head.marks(marks))[None])[0]
            expected = -head.classifier(read[first - begin : last + 1 - begin].mean(dim=0))
            torch.testing.assert_close(logits[n, s], expected, rtol=0, atol=1e-5)
    logits[0, 1].sum().backward()  # type: ignore[no-untyped-call]
    assert given.grad is not None
    moved = given.grad.abs().sum(dim=-1) > 0
    assert moved[0].tolist() == [2 <= t <= (5 if causal else 9) for t in range(12)] and not moved[1].any()
    with torch.no_grad():
        torch.testing.assert_close(head.at(states, positions, prompts), logits.detach(), rtol=0, atol=1e-5)


def test_one_layer_s_attention_is_held_at_a_time() -> None:
    """Those of all 28 layers of a 1.5B decoder are 88 GB, of 65,536 tokens in traces of 2,000 (12 heads, 2 bytes a number)."""
    model, maps = tiny_model(), list[Any]()

    def look(found: torch.Tensor) -> None:
        assert [each() is None for each in maps] == [True] * len(maps), "those of earlier layers are gone"
        maps.append(weakref.ref(found))

    backbone = prm("uncertainty").backbone
    with torch.inference_mode(), each_map(backbone, look):
        backbone(input_ids=torch.arange(5, 15)[None], use_cache=False)
    assert len(maps) == model.config.num_hidden_layers
    backbone.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match=r"shows the attention of 0 of its 2 layers"), each_map(backbone, look):
        backbone(input_ids=torch.arange(5, 15)[None], use_cache=False)


def test_an_attention_around_another_shows_its_map_once() -> None:
    """GPT-Neo's layers were counted twice, and the decoder was refused."""
    shape: dict[str, Any] = {"vocab_size": 32, "hidden_size": 16, "num_layers": 2, "num_heads": 2}
    made: Any = GPTNeoModel
    backbone = made(GPTNeoConfig(**shape, attention_types=[[["global"], 2]], bos_token_id=0, eos_token_id=0)).eval()
    backbone.set_attn_implementation("eager")
    maps: list[torch.Tensor] = []
    with torch.inference_mode(), each_map(backbone, maps.append):
        told = backbone(input_ids=torch.arange(5, 15)[None], use_cache=False, output_attentions=True).attentions
    torch.testing.assert_close(maps, list(told))


def test_a_decoder_with_an_output_matrix_of_its_own_is_read_by_its_attentions_alone() -> None:
    untied = type("Config", (), {"tie_word_embeddings": False, "num_hidden_layers": 2, "num_attention_heads": 2})
    with pytest.raises(ValueError, match="set its top to 0"):
        make_head({"name": "uncertainty"}, 8, 1, decoder=untied)
    assert make_head({"name": "uncertainty", "top": 0, "size": 16, "heads": 2}, 8, 1, decoder=untied).frozen
    with pytest.raises(ValueError, match="goes with a frozen decoder: leave lora_rank out"):
        prm("uncertainty").adapt(4, None, 0)


# -- all of them


@pytest.mark.parametrize("name", HEADS)
def test_a_head_trains_is_saved_and_says_the_same_when_it_is_loaded(name: str, tmp_path: Path) -> None:
    backbone = tmp_path / "base"
    tiny_model().save_pretrained(backbone)
    byte_tokenizer().save_pretrained(backbone)
    config = TrainConfig(
        head=name, head_options=HEADS[name], lr=1e-2, epochs=6, batch_size=4, eval_share=0.25, device="cpu"
    )
    result = train_prm(rows(), backbone, config, tmp_path / "run")
    judge = step_head(result.folder, device="cpu")
    assert judge.model.prm_config.head["name"] == name
    whole = [judgement.values for judgement in judge.judge(TRACES)]
    assert [j.values for t in TRACES for j in judge.judge([t])] == [pytest.approx(v, abs=1e-5) for v in whole]
    assert result.metrics["step_auc"] > 0.6
    if judge.model.head.frozen:
        kept, begun = judge.model.backbone.state_dict(), tiny_model().base_model.state_dict()
        assert all(torch.equal(kept[key], value) for key, value in begun.items()), "the decoder stays as it was"
    with pytest.raises(ValueError, match=f"has the head {name}; a further training cannot make it linear"):
        train_prm(rows(), result.folder, replace(config, head="linear", head_options={}), tmp_path / "more")


def test_wrong_use_is_told_in_one_line() -> None:
    with pytest.raises(ValueError, match="8 small heads are a head of their own"):
        PRM.from_backbone(tiny_model(), byte_tokenizer(), heads=8, head={"name": "both-ways"})
    with pytest.raises(ValueError, match="fusion is gate or mean, not 'sum'"):
        make_head({"name": "both-ways", "fusion": "sum"}, 8, 1)
    long: Trajectory = trace(*["ok"] * 200, id="long")
    with pytest.raises(ValueError, match="reads whole traces"):
        PRMJudge(prm("both-ways"), too_long="partial").judge([long])
    with pytest.raises(ValueError, match="or steps as a whole"):
        PRMJudge(prm("both-ways"), initial=True)


EVERY = sorted(parts("head"))


@pytest.mark.parametrize("name", EVERY)
def test_a_head_reads_traces_in_one_row_as_each_alone_or_says_that_it_cannot(name: str) -> None:
    """The confidence probe reads four states: packed, which is how a GPU trains, it was given one of them."""
    outputs = {"heads": 3} if name == "heads" else {"head": {"name": name, **HEADS.get(name, {})}}
    model = PRM.from_backbone(tiny_model(), byte_tokenizer(), seed=3, **outputs).eval()
    readings = [model.read(t) for t in TRACES]
    with torch.inference_mode(), packing(model.backbone):
        if not model.head.packable:
            with pytest.raises(ValueError, match=f"the head {name} reads more than a step's last state: packing=False"):
                model(*pack_row(readings, model.pad_id))
            return
        packed = model(*pack_row(readings, model.pad_id))
    for n, reading in enumerate(readings):
        torch.testing.assert_close(packed[n, : len(reading.positions)], model.logits([reading])[0], rtol=0, atol=1e-5)


def test_only_heads_that_read_one_state_a_step_are_packed(tmp_path: Path) -> None:
    assert {n for n in HEADS if prm(n).head.packable} == {"both-ways", "frozen-linear"}
    config = TrainConfig(epochs=1, eval_share=0, packing=True, device="cpu")
    with pytest.raises(ValueError, match="its head reads more than a step's last state"):
        train_prm(rows(), prm("confidence-probe"), config, tmp_path)
