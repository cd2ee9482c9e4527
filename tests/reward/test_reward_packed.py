"""Traces packed in one row: what a model says and learns of each is what it says and learns of it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from footfall.render import Reading
from footfall.reward.packed import pack_row, packable, packed_attention, packing
from footfall.reward.prm import PRM
from footfall.train import TrainConfig, train_prm
from footfall.train.data import make_examples
from footfall.train.objectives import make_objective
from footfall.train.trainer import StepTrainer, training_arguments
from footfall.types import Judged, Judgement
from tests.reward.tiny_checkpoints import causal_lm
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, gemma, some_traces, trace

torch.set_num_threads(1)


DECODERS: dict[str, Callable[[], Any]] = {
    "llama": decoder,
    "qwen2": lambda: decoder("qwen2"),
    "gemma3": lambda: gemma(512),
}


def reader(name: str = "llama") -> PRM:
    return PRM.from_backbone(DECODERS[name](), byte_tokenizer(), seed=1, max_length=512)


def alone(model: PRM, readings: Sequence[Reading]) -> list[Tensor]:
    return [model.logits([reading])[0] for reading in readings]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("multiple", [1, 64])
def test_a_packed_trace_gets_the_logits_that_it_gets_alone(name: str, multiple: int) -> None:
    model = reader(name)
    readings = [model.read(t) for t in some_traces()]
    row = pack_row(readings, model.pad_id, multiple)
    assert row.input_ids.shape[1] % multiple == 0
    with torch.inference_mode(), packing(model.backbone):
        packed = model(*row)
    for n, expected in enumerate(alone(model, readings)):
        assert torch.allclose(packed[n, : len(expected)], expected, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.text("ab 1+\n.", max_size=12), min_size=1, max_size=4), min_size=1, max_size=5))
def test_neighbours_of_any_text_and_length_do_not_see_each_other(texts: list[list[str]]) -> None:
    model = reader()
    readings = [model.read(trace(*steps, id=f"t{i}")) for i, steps in enumerate(texts)]
    with torch.inference_mode(), packing(model.backbone):
        packed = model(*pack_row(readings, model.pad_id))
    for n, expected in enumerate(alone(model, readings)):
        assert torch.allclose(packed[n, : len(expected)], expected, atol=1e-5)


def test_inside_packing_a_padded_batch_is_still_read_as_before() -> None:
    model = reader()
    readings = [model.read(t) for t in some_traces()]
    before = model.logits(readings)
    with packing(model.backbone):
        assert torch.allclose(model.logits(readings), before, atol=1e-6)
    assert model.backbone.config._attn_implementation != "footfall_packed"


def test_a_window_shorter_than_a_trace_cannot_be_packed(tmp_path: Path) -> None:
    assert packable(gemma(512), 512) and not packable(gemma(16), 512)
    assert packable(gemma(16), 16)
    mistral = causal_lm("mistral", 50, sliding_window=16).model  # whose config names no kinds of layers
    assert packable(mistral, 16) and not packable(mistral, 17)
    model = PRM.from_backbone(gemma(16), byte_tokenizer(), seed=1)
    with pytest.raises(ValueError, match=r"cannot be packed.*leave packing out"):
        train_prm(judged(), model, TrainConfig(packing=True, eval_share=0, device="cpu"), tmp_path)


def test_what_the_attention_here_does_not_compute_is_not_packed() -> None:
    plain, capped, dropped = decoder("qwen2"), decoder("qwen2"), decoder("qwen2")
    capped.config.attn_logit_softcapping = 50.0
    dropped.config.attention_dropout = 0.1
    assert [packable(each, 512) for each in (plain, capped, dropped)] == [True, False, False]
    query = torch.zeros(1, 4, 2, 8)
    with pytest.raises(ValueError, match=r"Linear attends with s_aux.*packing=False"):
        packed_attention(
            torch.nn.Linear(1, 1), query, query, query, None, cu_seq_lens_q=torch.tensor([0, 2]), s_aux=torch.zeros(4)
        )


def judged() -> list[Judged]:
    traces = some_traces(6)
    return [
        Judged(t, Judgement(t.id, tuple((i + k) % 4 / 3 for k in range(len(t.steps))), "toy"))
        for i, t in enumerate(traces)
    ]


def updated(packed: bool, folder: Path) -> dict[str, Tensor]:
    """The weights after one step of plain gradient descent over all traces in one batch."""
    model, objective = reader("qwen2"), make_objective("soft-bce", {})
    examples = make_examples(judged(), model, objective, "error")[0]
    config = TrainConfig(epochs=1, batch_size=6, warmup=0.0, max_grad_norm=1e9, device="cpu")
    args = training_arguments(config, 0.5, folder, updates=1, cuda=False)
    args.optim = "sgd"
    with packing(model.backbone):
        StepTrainer(model, objective, args, examples, packed=packed).train()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def test_a_packed_update_is_the_padded_one(tmp_path: Path) -> None:
    packed, padded = updated(True, tmp_path), updated(False, tmp_path)
    start = reader("qwen2").state_dict()
    assert any(not torch.equal(packed[name], start[name]) for name in start), "something was learned"
    for name, tensor in padded.items():
        assert torch.allclose(packed[name], tensor, atol=2e-6), name


@pytest.mark.long
def test_a_compiled_training_is_the_plain_one_and_leaves_the_layers_as_they_were(tmp_path: Path) -> None:
    found = []
    for compile in (False, True):
        model = reader("qwen2")
        config = TrainConfig(packing=True, compile=compile, eval_share=0, epochs=1, batch_size=3, device="cpu")
        train_prm(judged(), model, config, tmp_path / str(compile))
        assert all(layer._compiled_call_impl is None for layer in model.backbone.layers)
        found.append(model.state_dict())
    assert all(torch.allclose(found[1][name], tensor, atol=1e-5) for name, tensor in found[0].items())


def test_training_packs_where_it_is_told_to_and_a_finished_model_reads_as_any_other(tmp_path: Path) -> None:
    folder = backbone_folder(tmp_path / "base", "qwen2")
    config = TrainConfig(packing=True, eval_share=0, epochs=1, batch_size=3, lora_rank=2, device="cpu", max_length=256)
    result = train_prm(judged(), folder, config, tmp_path / "run")
    model = PRM.load(result.folder, device="cpu")
    assert result.updates == 2 and len(model.score([model.read(t) for t in some_traces()])) == 7
