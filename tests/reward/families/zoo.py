"""One tiny checkpoint a family, and one more for each further tokenizer kind that it comes with."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import torch

from tests.reward.families.head_checkpoints import MAKERS
from tests.reward.tiny_checkpoints import (
    causal_lm,
    llama3_tokenizer,
    qwen_tokenizer,
    random_linear,
    save_checkpoint,
    sentencepiece_tokenizer,
)

__all__ = ["ZOO", "Entry", "adapter_folder", "folder_of"]


class Entry(NamedTuple):
    """A checkpoint of `family`, saved in a folder whose name says so where nothing else does."""

    family: str
    folder: str
    make: Callable[[Path], Any]


def _qwen_math_prm(folder: Path) -> None:
    head = {"score.0.weight": random_linear(32), "score.0.bias": torch.ones(32),
            "score.2.weight": random_linear(2, seed=8), "score.2.bias": torch.tensor([0.3, -0.1])}  # fmt: skip
    save_checkpoint(folder, "qwen2", qwen_tokenizer("<extra_0>"), head=head, drop=("lm_head.weight",))


def _skywork(folder: Path) -> None:
    head = {"v_head.summary.weight": random_linear(1), "v_head.summary.bias": torch.tensor([0.2])}
    save_checkpoint(folder, "qwen2", qwen_tokenizer(), head=head)


def _causal(kind: str, tokenizer: Callable[..., Any], *added: str) -> Callable[[Path], Any]:
    return lambda folder: save_checkpoint(folder, kind, tokenizer(*added))


OWN = {
    "qwen2.5-math-prm": Entry("qwen2.5-math-prm", "tuned", _qwen_math_prm),
    "skywork-o1-prm": Entry("skywork-o1-prm", "tuned", _skywork),
    "math-shepherd": Entry(
        "math-shepherd", "math-shepherd-mistral-7b-prm", _causal("mistral", sentencepiece_tokenizer)
    ),
    "math-shepherd, llama": Entry("math-shepherd", "math-shepherd-llama", _causal("llama", sentencepiece_tokenizer)),
    "rlhflow": Entry("rlhflow", "Llama3.1-8B-PRM-Mistral-Data", _causal("llama", llama3_tokenizer)),
    "math-psa": Entry("math-psa", "Math-psa-merged", _causal("qwen2", qwen_tokenizer)),
    "versaprm, llama": Entry("versaprm", "VersaPRM", _causal("llama", llama3_tokenizer)),
    "versaprm, qwen": Entry("versaprm", "Qwen-PRM800K", _causal("qwen2", qwen_tokenizer)),
    "er-prm": Entry("er-prm", "Llama3.1-Math-PRM", _causal("llama", llama3_tokenizer)),
    "pathfinder-prm": Entry("pathfinder-prm", "tuned", _causal("qwen2", qwen_tokenizer, "<+>", "<->", "<extra>")),
    "eurus-prm": Entry("eurus-prm", "EurusPRM-Stage2", _causal("qwen2", qwen_tokenizer)),
}
ZOO = {**OWN, **{family: Entry(family, folder, make) for family, (folder, make) in MAKERS.items()}}


@cache
def _home() -> TemporaryDirectory[str]:
    """Kept as long as the process, so that all tests share the saved checkpoints."""
    return TemporaryDirectory(prefix="zoo-")


@cache
def folder_of(name: str) -> Path:
    """The checkpoint's folder, saved on first use."""
    entry = ZOO[name]
    folder = Path(_home().name) / str(list(ZOO).index(name)) / entry.folder
    entry.make(folder)
    return folder


def adapter_folder(folder: Path, base: Path, tokenizer: Any, targets: list[str]) -> Any:
    """A LoRA adapter as peft saves it from the whole language model, with weights that matter; gives the adapted model."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM")
    model = peft.get_peft_model(causal_lm("qwen2", len(tokenizer)), config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(0.5 * torch.randn(weight.shape, generator=generator))
    model.save_pretrained(folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": str(base)}))
    return model.eval()
