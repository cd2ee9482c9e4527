"""A device that is none, one that is not here, and one whose memory does not suffice: one line each, with the fix."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

from footfall import cli
from footfall.commands import score, train
from footfall.damaged import naming
from footfall.loading import out_of_memory, pick_device

TRACE = '{"problem": "2 + 3 = ?", "steps": ["2 + 3 = 5"]}\n'


@pytest.fixture(autouse=True)
def no_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    Path("traces.jsonl").write_text(TRACE, encoding="utf-8")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert cli.main([*words]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("footfall: ")]
    assert len(told) == 1
    return told[0]


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", "pass --device cpu"),
        ("cuda:1", "pass --device cpu"),
        ("gpu", "an NVIDIA GPU is cuda"),
        ("gpu:0", "an NVIDIA GPU is cuda"),
        ("meta", "models are not run there; --device takes cpu, cuda or cuda:N"),
        ("gtx", "no device is called 'gtx'; --device takes cpu, cuda or cuda:N"),
    ],
)
def test_a_device_that_cannot_be_used_is_one_line_with_the_fix(
    device: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in said(capsys, "sample", "--problems", "world:arithmetic:1", "--device", device)
    assert message in said(capsys, "train", "--data", "traces.jsonl", "--device", device)


def test_a_number_beyond_the_last_gpu_is_told_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1") == torch.device("cuda:1") and pick_device(None).type == "cuda"
    with pytest.raises(ValueError, match="there are 2 CUDA devices, counted from cuda:0"):
        pick_device("cuda:2")


@pytest.mark.parametrize(
    ("module", "words", "error"),
    [
        (
            train,
            ["train", "--data", "x"],
            torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        ),
        (
            score,
            ["score", "x"],
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        ),
        (
            score,
            ["score", "x"],
            RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
        ),
        (score, ["score", "x"], MemoryError("Unable to allocate 7 TiB")),
    ],
)
def test_no_memory_is_one_line_with_what_needs_less(
    module: ModuleType,
    words: list[str],
    error: Exception,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr(module, "main", fails)
    told = said(capsys, *words)
    assert told.startswith("footfall: out of memory: ") and "allocate" in told and "--batch-size" in told
    monkeypatch.setenv("FOOTFALL_DEBUG", "1")
    with pytest.raises(type(error)):
        cli.main(words)


def test_what_torch_itself_says_here_is_no_memory_and_no_damaged_file() -> None:
    with pytest.raises(RuntimeError) as refused, naming("a-model"):
        torch.empty(1 << 47)
    assert out_of_memory(refused.value)


def test_another_error_of_torch_is_seen_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> int:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(score, "main", fails)
    with pytest.raises(RuntimeError, match="mat1"):
        cli.main(["score", "x"])
