"""A hub id with a revision, OWNER/NAME@REVISION: one form for every model that a command can be given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from footfall import cli
from footfall.loading import load_model
from footfall.train import TrainConfig
from footfall.train.bare import bare_model
from footfall.train.objectives import make_objective
from tests.reward.families.zoo import adapter_folder
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint

torch.set_num_threads(1)


class Hub:
    """Stands for the hub's client: gives one folder, and notes which revisions of which names are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.files = folder, set[tuple[str, str | None]](), set[str]()

    def __call__(self, name: str, revision: str | None = None, allow_patterns: Sequence[str] = ()) -> str:
        self.asked.add((name, revision))
        self.files.update(allow_patterns)
        return str(self.folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """It has a plain decoder, nothing of which says PRM."""
    save_checkpoint(tmp_path / "snapshot", "qwen2", qwen_tokenizer())
    hub = Hub(tmp_path / "snapshot")
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub)
    return hub


@pytest.fixture
def judged(tmp_path: Path) -> str:
    path = tmp_path / "judged.jsonl"
    rows = [
        {"problem": f"What is {n} + 4?", "steps": [f"{n} + 4 = {n + 4 + n % 2}.", "Done."], "labels": [1 - n % 2, 1],
         "answer": str(n + 4)}
        for n in range(8)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        "sample --problems world:arithmetic:1 --n 1 --max-tokens 4 --policy",
        "label --data DATA --rollouts 1 --max-tokens 4 --device cpu --policy",
        "search --problems world:arithmetic:1 --n 1 --judge truth-arithmetic --max-tokens 4 --policy",
        "train --data DATA --epochs 1 --device cpu --backbone",
        "rl --problems world:arithmetic:8 --held-out world:arithmetic:1 --updates 1 --prompts 1 --group 2 --measured 1 "
        "--max-tokens 4 --device cpu --model",
    ],
    ids=lambda words: words.split()[0],
)
def test_a_command_takes_a_revision_of_a_hub_id_and_keeps_it_in_its_run(
    words: str, hub: Hub, judged: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    code = cli.main([*words.replace("DATA", judged).split(), "some/decoder@v1.1", "--out", str(run), "--json"])
    assert code != 2, capsys.readouterr().err  # so small a model writes nothing that can be labelled, which is a 1
    assert hub.asked == {("some/decoder", "v1.1")}
    assert "some/decoder@v1.1" in (run / "config.json").read_text()


def test_an_adapter_at_a_revision_is_put_into_the_base_that_it_names(tmp_path: Path, hub: Hub) -> None:
    hub.folder = tmp_path / "adapter"
    adapted = adapter_folder(hub.folder, tmp_path / "snapshot", qwen_tokenizer(), ["q_proj"])
    qwen_tokenizer().save_pretrained(hub.folder)
    model, _ = load_model("some/adapter@v2", "cpu")
    assert hub.asked == {("some/adapter", "v2")}
    ids = torch.tensor([[3, 5, 8]])
    with torch.no_grad():
        assert torch.allclose(model(input_ids=ids).logits, adapted(input_ids=ids).logits, atol=1e-5)


def test_an_estimate_fetches_no_weights_of_that_revision(hub: Hub) -> None:
    bare_model("some/decoder@v1.1", TrainConfig(device="cpu"), make_objective("bce", {}))
    assert hub.asked == {("some/decoder", "v1.1")}
    assert "*.safetensors" not in hub.files
    load_model("some/decoder@v1.1", "cpu")
    assert "*.safetensors" in hub.files
