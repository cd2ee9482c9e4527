"""How tests run `footfall rl` with a small model, and what they read of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import safetensors.torch
import torch

from footfall.policy.embedded import EMBEDDED
from tests.rl.test_rl_trainer import small

SIZES = ("--problems", "world:arithmetic:24", "--prompts", "2", "--group", "4", "--checkpoint-every", "2", "--measured", "6",
         "--max-tokens", "16", "--lr", "1e-3", "--device", "cpu")  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer with the embedded model's tokenizer."""
    folder = tmp_path_factory.mktemp("small") / "model"
    small().save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((EMBEDDED / name).read_bytes())
    return folder


def words(model: Path, out: Path, *more: str) -> list[str]:
    return ["rl", "--model", str(model), "--out", str(out), *SIZES, "--json", *more]


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def weights(out: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(out / "model" / "model.safetensors")
