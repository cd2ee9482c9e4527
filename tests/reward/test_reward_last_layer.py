"""The last layer run at the read tokens alone: the logits of the full pass, with less work, and nothing left behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoModel, GPT2Config, GptOssConfig, LlamaModel

from footfall.loading import pack
from footfall.render import Reading
from footfall.reward.incremental import PrefixCache
from footfall.reward.last_layer import KNOWN, decoder_layers, only_read
from footfall.reward.prm import PRM, pad
from tests.reward.tiny_models import byte_tokenizer, decoder, gemma, some_traces

torch.set_num_threads(1)

TOLERANCE = 2e-5
"""Float32: fewer rows in a product and a mask where there was none take other kernels."""


def built(config: Any) -> Any:
    build: Any = AutoModel
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build.from_config(config).eval()


def mixture() -> Any:
    """A mixture of experts, which gives more than one thing; it has attention that no kernel of torch computes."""
    return built(GptOssConfig(
        vocab_size=len(byte_tokenizer()), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=512,
        initializer_range=0.2, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ))  # fmt: skip


DECODERS: dict[str, Callable[[], Any]] = {
    "llama": decoder,
    "qwen2": lambda: decoder("qwen2"),
    "gemma3": lambda: gemma(512),
    "gemma3, window 16 in all but the last": lambda: gemma(16),
    "gemma3, window 16 in the last too": lambda: gemma(16, "sliding_attention"),
    "gpt-oss": mixture,
    "gpt2, whose layers have another name": lambda: built(
        GPT2Config(vocab_size=len(byte_tokenizer()), n_embd=32, n_layer=2, n_head=4, n_positions=512)
    ),
}


SMALL = {
    "vocab_size": len(byte_tokenizer()), "hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 512,
    "sliding_window": 16, "initializer_range": 0.2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def small(kind: str) -> Any:
    """A decoder of this kind, with those of the sizes that it has."""
    config: Any = CONFIG_MAPPING[kind]
    has = vars(config())
    return built(config(**{name: size for name, size in SMALL.items() if name in has}))


class Twice(LlamaModel):  # type: ignore[no-untyped-call]
    """A decoder that goes through its layers twice."""

    def forward(self, input_ids: Any = None, inputs_embeds: Any = None, **given: Any) -> Any:
        first = super().forward(input_ids=input_ids, inputs_embeds=inputs_embeds, **given)
        return super().forward(inputs_embeds=first.last_hidden_state, **given)


def reader(name: str = "llama", **given: Any) -> PRM:
    return of(DECODERS[name](), **given)


def of(backbone: Any, **given: Any) -> PRM:
    return PRM.from_backbone(backbone, byte_tokenizer(), seed=1, max_length=512, **given).eval()


@torch.inference_mode()
def full(model: PRM, readings: Sequence[Reading]) -> list[Tensor]:
    """Of a pass that computes everything."""
    found: Tensor = model(**pad(readings, model.pad_id)._asdict())
    return [logits[: len(reading.positions)] for logits, reading in zip(found, readings, strict=True)]


def same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("name", DECODERS)
def test_logits_are_those_of_the_full_pass(name: str) -> None:
    model = reader(name)
    readings = [model.read(t) for t in some_traces()]
    expected = full(model, readings)
    same(model.each_logits(readings), expected)
    cache = PrefixCache(model, 10_000)
    same(cache.each_logits([reading._replace(positions=reading.positions[:1]) for reading in readings], 300)[0],
         [logits[:1] for logits in expected])  # fmt: skip
    same(cache.each_logits(readings, 300)[0], expected)


@pytest.mark.parametrize("kind", KNOWN)
def test_logits_of_every_known_decoder_are_those_of_the_full_pass(kind: str) -> None:
    model = of(small(kind))
    readings = [model.read(t) for t in some_traces()]
    same(model.each_logits(readings), full(model, readings))


def test_a_decoder_of_another_kind_is_run_in_full() -> None:
    config = decoder().config
    config.model_type = "twice"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = of(Twice(config))
    readings = [model.read(t) for t in some_traces()]
    same(model.each_logits(readings), full(model, readings))


def test_adapters_are_in_the_logits_too() -> None:
    pytest.importorskip("peft")
    model = reader("qwen2", lora_rank=2)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(len(name)))
    readings = [model.read(t) for t in some_traces()]
    same(model.each_logits(readings), full(model, readings))


@pytest.mark.parametrize("part", ["self_attn.q_proj", "self_attn.o_proj", "mlp"])
def test_the_last_layer_sees_the_read_tokens_alone(part: str) -> None:
    model = reader()
    readings = [model.read(t) for t in some_traces()]
    seen: dict[str, int] = {}
    layers = decoder_layers(model.backbone)
    for name, layer in {"first": layers[0], "last": layers[-1]}.items():
        inside = layer.get_submodule(part)
        run, of_layer = inside.forward, name
        inside.forward = lambda x, run=run, of=of_layer: (seen.update({of: x[..., 0].numel()}), run(x))[1]
    model.logits(readings)
    assert seen["last"] == sum(len(reading.positions) for reading in readings)
    assert seen["first"] == len(readings) * max(len(reading.ids) for reading in readings)


def test_in_the_last_layer_only_read_tokens_attend(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader()
    readings = [model.read(t) for t in some_traces()]
    queries: list[int] = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def counted(query: Tensor, *given: Any, **named: Any) -> Tensor:
        queries.append(query.shape[2])
        return attend(query, *given, **named)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    model.logits(readings)
    assert queries == [max(len(r.ids) for r in readings), max(len(r.positions) for r in readings)]


def test_afterwards_and_in_other_threads_the_model_is_as_it_was() -> None:
    model = reader()
    readings = [model.read(t) for t in some_traces()]
    batch = pad(readings, model.pad_id)
    attention: Any = decoder_layers(model.backbone)[-1].self_attn
    config = attention.config

    @torch.inference_mode()
    def states() -> Tensor:
        found: Tensor = model.backbone(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        return found

    expected, elsewhere = states(), []
    with pytest.raises(KeyError), only_read(model.backbone, batch.positions.tolist(), batch.input_ids.shape[1]):
        assert not torch.allclose(states(), expected, atol=1e-2)
        other = threading.Thread(target=lambda: elsewhere.append(states()))
        other.start()
        other.join()
        raise KeyError
    assert torch.equal(elsewhere[0], expected)
    assert torch.equal(states(), expected)
    assert attention.config is config
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.backbone.modules())


def test_a_batch_has_room_for_the_pasts_of_its_traces() -> None:
    assert pack([10, 10, 10, 10], 40) == [[0, 1, 2, 3]]
    assert pack([10, 10, 10, 10], 40, pasts=[10, 10, 10, 10]) == [[0, 1], [2, 3]]
    assert pack([10, 10, 10, 10], 60, pasts=[0, 20, 0, 20]) == [[0, 1], [2, 3]], "padded to the deepest"
    assert pack([10, 10], 30, pasts=[50, 5]) == [[0], [1]]


def test_a_decoder_that_sees_later_tokens_too_keeps_its_own_attention() -> None:
    backbone = decoder("qwen2")
    backbone.config.is_causal = False
    model = PRM.from_backbone(backbone, byte_tokenizer(), seed=1, max_length=512).eval()
    readings = [model.read(t) for t in some_traces()]
    for reading in readings:
        same([model.logits([reading])[0]], full(model, [reading]))


def test_threads_that_judge_with_one_model_leave_it_as_it_was() -> None:
    model = reader()
    readings = [model.read(t) for t in some_traces()]
    found: list[list[Tensor]] = []
    expected = full(model, readings)
    attention: Any = decoder_layers(model.backbone)[-1].self_attn
    config, switch = attention.config, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda: found.extend(model.each_logits(readings) for _ in range(20)))
            for _ in range(4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(switch)
    assert len(found) == 80 and attention.config is config
    for logits in found:
        same(logits, expected)
