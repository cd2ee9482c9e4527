"""`footfall score --judge FOLDER` on checkpoints as a hub holds them: what works, and what is refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from footfall import cli
from tests.reward.tiny_checkpoints import qwen_tokenizer, random_linear, save_checkpoint

torch.set_num_threads(1)


@pytest.fixture
def prm(tmp_path: Path) -> Path:
    """A tiny PRM of Qwen's family."""
    head = {"score.0.weight": random_linear(32), "score.0.bias": torch.ones(32), "score.2.weight": random_linear(2, seed=8),
            "score.2.bias": torch.zeros(2)}  # fmt: skip
    folder = tmp_path / "any-name"
    save_checkpoint(folder, "qwen2", qwen_tokenizer("<extra_0>"), head=head, drop=("lm_head.weight",))
    return folder


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"problem": "What is 3 + 4?", "steps": ["3 + 4 = 7.", "The answer is 7."]}) + "\n")
    return path


def score(traces: Path, prm: Path, *more: str) -> int:
    return cli.main(["score", str(traces), "--judge", str(prm), "--out", str(traces.parent / "run"), "--json", *more])


def test_a_checkpoint_is_recognised_under_any_name(prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(traces, prm) == 0
    assert "qwen2.5-math-prm@" in capsys.readouterr().out


def test_asked_for_as_another_family_it_is_refused(prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(traces, prm, "--set", "family=skywork-o1-prm") != 0
    assert "is not of the family skywork-o1-prm: it has no tensor v_head.summary.weight" in capsys.readouterr().err


def change(prm: Path, name: str, tensor: torch.Tensor) -> None:
    file = prm / "model.safetensors"
    save_file({**load_file(file), name: tensor}, file, metadata={"format": "pt"})


def test_a_head_of_another_width_is_refused(prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(prm, "score.2.weight", random_linear(3))
    change(prm, "score.2.bias", torch.zeros(3))
    assert score(traces, prm) != 0
    assert "3 outputs, its family has 2" in capsys.readouterr().err


def test_a_head_that_says_the_same_of_everything_is_refused(
    prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(prm, "score.2.weight", torch.zeros(2, 32))
    assert score(traces, prm) != 0
    assert "every canary step gets the value 0.5" in capsys.readouterr().err


def test_a_tokenizer_that_drops_spaces_is_refused(prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = prm / "tokenizer.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    model = stored["model"]
    model["merges"] = [pair for pair in model["merges"] if "Ġ" not in "".join(pair)]
    model["vocab"] = {token.replace("Ġ", "gone"): i for token, i in model["vocab"].items()}
    file.write_text(json.dumps(stored), encoding="utf-8")
    assert score(traces, prm) != 0
    assert "turns '3 + 4 = 7.' into '3+4=7.'" in capsys.readouterr().err


def test_pickled_weights_are_refused(prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (prm / "model.safetensors").rename(prm / "pytorch_model.bin")
    assert score(traces, prm) != 0
    assert "is a pickle" in capsys.readouterr().err


def test_a_hub_id_that_cannot_be_reached_says_so(
    traces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert score(traces, Path("nobody/no-such-prm")) != 0
    assert "nobody/no-such-prm" in capsys.readouterr().err
