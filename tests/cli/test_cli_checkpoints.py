"""`footfall score --judge FOLDER` on checkpoints as a hub holds them: what works, and what is refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from httpx import Request, Response
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RevisionNotFoundError,
)
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


@pytest.mark.parametrize(
    ("file", "other", "said"),
    [
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("model.safetensors", "weights.safetensors", "has weights.safetensors, but weights are loaded from model.safetensors"),
    ],
)  # fmt: skip
def test_a_folder_that_lacks_a_file_is_told_which(
    prm: Path, traces: Path, capsys: pytest.CaptureFixture[str], file: str, other: str | None, said: str
) -> None:
    (prm / file).rename(prm / (other or "elsewhere"))
    assert score(traces, prm) == 2
    assert said in capsys.readouterr().err


def test_a_download_that_is_not_whole_is_told_as_such(
    prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (prm / "model.safetensors").rename(prm / "model-00001-of-00002.safetensors")
    index = {"a": "model-00001-of-00002.safetensors", "score.0.weight": "model-00002-of-00002.safetensors"}
    (prm / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    assert score(traces, prm) == 2
    assert "lacks 1 of its files with weights, model-00002-of-00002.safetensors first" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_told_as_such(
    prm: Path, traces: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    (prm / file).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert score(traces, prm) == 2
    assert f"{file} is a Git LFS pointer to the file and not the file: run `git lfs pull`" in capsys.readouterr().err


def test_a_file_with_weights_is_not_its_folder(prm: Path, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(traces, prm / "model.safetensors") == 2
    assert f"is a file with weights; name its folder, {prm}" in capsys.readouterr().err


def test_a_published_prm_without_its_owner_gets_its_hub_id(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(traces, Path("qwen2.5-math-prm-7b")) == 2
    assert "as a published PRM it is 'Qwen/Qwen2.5-Math-PRM-7B'" in capsys.readouterr().err


def test_info_says_as_which_family_a_folder_is_read(prm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", str(prm), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"] == "qwen2.5-math-prm"


class Hub:
    """Stands for the hub's client: notes what is asked for, and gives a folder or raises."""

    def __init__(self, gives: Path | Exception) -> None:
        self.gives, self.asked = gives, ("", "")

    def __call__(self, name: str, revision: str | None = None, **more: object) -> str:
        self.asked = (name, revision or "")
        if isinstance(self.gives, Exception):
            raise self.gives
        return str(self.gives)


def answered(code: int, kind: type[HfHubHTTPError] = HfHubHTTPError) -> HfHubHTTPError:
    response: Any = Response(
        code, request=Request("GET", "http://hub")
    )  # versions of the client have types of their own
    return kind("no", response=response)


def unreached(why: Exception) -> LocalEntryNotFoundError:
    try:
        raise LocalEntryNotFoundError("not in the cache") from why
    except LocalEntryNotFoundError as error:
        return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (answered(401), "the hub does not give it (401): there is no model of this name, or it is private or gated"),
        (unreached(answered(403)), "the hub does not give it (403)"),
        (unreached(ConnectionRefusedError("refused")), "the hub was not reached (refused); try again, or download it"),
        (unreached(answered(500)), "the hub was not reached (no); try again, or download it"),
        (answered(404, RevisionNotFoundError), "it has no such revision"),
    ],
)  # fmt: skip
def test_a_hub_id_that_cannot_be_fetched_says_why_and_what_to_do(
    traces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.snapshot_download", Hub(error))
    assert score(traces, Path("some/prm")) == 2
    err = capsys.readouterr().err
    assert "some/prm is no folder here; taken for a hub id, " in err
    assert said in err


def test_offline_by_a_variable_the_variable_is_named(
    traces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.snapshot_download", Hub(unreached(ConnectionError())))
    assert score(traces, Path("some/prm")) == 2
    assert "HF_HUB_OFFLINE forbids asking the hub: unset it, or download it" in capsys.readouterr().err


def test_a_hub_id_may_have_a_revision(
    prm: Path, traces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(prm)
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub)
    assert score(traces, Path("some/prm@v1.1")) == 0
    assert hub.asked == ("some/prm", "v1.1")
