"""What a training takes of each GPU: the formula against bytes that were counted, and the example configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env

from footfall import cli
from footfall.formats import write_parquet
from footfall.reward.prm import PRM, pad
from footfall.train.memory import Layout, Size, layout_of, size_of, training_memory
from tests.reward.tiny_models import byte_tokenizer, decoder, trace
from tests.train.test_train_prm import toy_rows

torch.set_num_threads(1)
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "accelerate").glob("*.yaml"))
SEVEN_B = Size(7_070_619_136, 7_070_619_136, 28, 3584, 512, 18944, 544_997_376)
"""A decoder of the shape of Qwen2.5-7B."""


def bytes_of(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("lora_rank", [None, 2])
def test_weights_gradients_and_optimizer_are_the_bytes_that_a_step_leaves(lora_rank: int | None) -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer(), lora_rank=lora_rank)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    batch = pad([model.read(trace("3 + 4 = 7", "so 7"))], model.pad_id)
    torch.autograd.backward([model(**batch._asdict()).sum()])
    optimizer.step()
    found = training_memory(size_of(model), Layout(), 0, half=False, lora=lora_rank is not None)
    assert found.weights == bytes_of(model.parameters())
    assert found.gradients == bytes_of(p.grad for p in model.parameters() if p.grad is not None)
    moments = [v for state in optimizer.state.values() for name, v in state.items() if name != "step"]
    assert found.optimizer == bytes_of(moments) and found.activations == found.communication == 0


def test_activations_are_about_what_autograd_keeps() -> None:
    model = PRM.from_backbone(decoder(), byte_tokenizer())
    batch = pad([model.read(trace("3 + 4 = 7", "so 7" * 9))] * 4, model.pad_id)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(**batch._asdict())  # held, so that what is kept stays kept
    found = training_memory(size_of(model), Layout(), batch.input_ids.numel(), half=False).activations
    assert logits.requires_grad and 0.6 < found / sum(kept.values()) < 1.6


def test_sharding_divides_what_it_parts() -> None:
    size = Size(1000, 600, 2, 8, 4, 16, 300)
    plain, *others = (
        training_memory(size, Layout(4, kind), 10) for kind in ("none", "optimizer", "gradients", "weights")
    )
    assert (plain.weights, plain.gradients, plain.optimizer) == (4000, 2400, 4800)
    assert [each.optimizer for each in others] == [1200] * 3
    assert [each.gradients for each in others] == [2400, 600, 600]
    assert [each.weights for each in others] == [4000, 4000, 1000]
    assert plain.communication == 6 * 600 and others[-1].communication == 2 * 6 * 300
    assert training_memory(size, Layout(), 10, lora=True).weights == 4 * 600 + 2 * 400
    saved = training_memory(size, Layout(checkpointing=True), 10).activations
    assert saved == 4 * 10 * 2 * 8 + plain.activations / 2


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_configuration_is_one_for_accelerate_and_a_seven_b_fits_by_it(file: Path) -> None:
    kind, _, nodes = file.stem.partition("-")
    layout = layout_of(file)
    assert layout.processes == {"1x8": 8, "4x8": 32}[nodes]
    assert layout.sharding == {"ddp": "none", "fsdp2": "weights", "zero3": "weights"}[kind]
    gib = training_memory(SEVEN_B, layout, 4096).total / 2**30
    assert gib > 80 if kind == "ddp" else gib < 80, (
        "all of its weights take more than a GPU of 80 GiB has, a share does not"
    )
    command = ["--config_file", str(file), "-m", "footfall", "train"]
    args, *_ = _validate_launch_command(launch_command_parser().parse_args(command))
    if kind == "zero3":
        assert args.use_deepspeed and args.zero_stage == 3
        return
    environment = prepare_multi_gpu_env(args)
    assert args.num_processes == layout.processes
    assert environment.get("FSDP_VERSION") == ("2" if kind == "fsdp2" else None)


def test_the_command_estimates_from_a_configuration_without_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder with a config and a tokenizer is enough: a decoder of 7 billion weights in seconds."""
    from transformers import Qwen2Config

    shape = Qwen2Config(
        hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
        vocab_size=152064,
    )  # fmt: skip
    shape.save_pretrained(tmp_path / "7b")
    byte_tokenizer().save_pretrained(tmp_path / "7b")
    write_parquet(tmp_path / "judged.parquet", toy_rows(), "judged")
    words = [
        "train",
        "--data",
        str(tmp_path / "judged.parquet"),
        "--backbone",
        str(tmp_path / "7b"),
        "--estimate",
        "--json",
    ]
    assert cli.main([*words, "--accelerate", str(EXAMPLES[-2])]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == SEVEN_B.weights + 3584 + 1 and found["processes"] == 8
    assert found["gib_a_gpu"]["communication"] == pytest.approx(2 * 6 * SEVEN_B.unit / 2**30, abs=1e-3)
    assert found["gib_a_gpu"]["weights"] == pytest.approx(4 * found["trained"] / 8 / 2**30, abs=1e-3)
    assert not (tmp_path / "7b" / "model.safetensors").exists()
