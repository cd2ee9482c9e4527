"""`scripts/loop.py` with options that cannot be meant, and over a folder whose files are damaged: one line that says what."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from scripts import loop

FACTS = {"validation": {"threshold": 0.5}, "labels": {}, "config": {"seed": 0}, "against": ["processbench"], "seen": {}}
SCORE = {"id": "a", "split": "gsm8k-test", "scores": [0.5]}


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which it ends."""
    with pytest.raises(SystemExit) as stop:
        loop.main(words)
    said = (str(stop.value.code) if isinstance(stop.value.code, str) else capsys.readouterr().err).strip()
    assert stop.value.code and "\n" not in said, said
    return said


@pytest.mark.parametrize(
    "words",
    [
        ("--n", "0"), ("--n", "9" * 5000), ("--problems", "-5"), ("--seed", str(2**64)), ("--lr", "nan"), ("--every", "0"),
        ("--truth", "7"), ("--rows", "gold:all"), ("--hard-at", "-1"), ("--chunk", "1e9"), ("--budget", "0"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_meant(
    words: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(capsys, "train", "--model", "none", "--out", str(tmp_path), *words)
    assert f"argument {words[0]}: " in said and len(said) < 200


def test_a_stage_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stage, needed in (
        ("prepare", "--data"),
        ("evaluate", "--data"),
        ("train", "--model"),
        ("score", "--data and --model"),
    ):
        assert f"the stage {stage} needs {needed}" in told(capsys, stage, "--out", str(tmp_path))
    assert "facts.json" in told(capsys, "score", "--out", str(tmp_path), "--model", "m", "--data", "d")


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("prm-prm/facts.json", b"{"),
        ("prm-prm/facts.json", b"[" * 100_000),
        ("prm-prm/facts.json", b"[]"),
        ("prm-prm/facts.json", json.dumps({**FACTS, "validation": {}}).encode()),
        ("prm-prm/facts.json", json.dumps({**FACTS, "config": 3}).encode()),
        ("", json.dumps({**FACTS, "labels": {"gold": 3}}).encode()),
        ("scores-prm-gsm8k-test.jsonl.gz", b"no gzip"),
        ("scores-prm-gsm8k-test.jsonl.gz", gzip.compress(json.dumps(SCORE).encode(), mtime=0)[:-6]),
        ("scores-prm-gsm8k-test.jsonl.gz", gzip.compress(b'{"id": [1], "split": "s", "scores": [1]}', mtime=0)),
        ("scores-prm-gsm8k-test.jsonl.gz", gzip.compress(json.dumps({**SCORE, "scores": [1e999]}).encode(), mtime=0)),
        ("search-prm-gsm8k-test-mcts.json", b"\xff"),
        ("search-prm-gsm8k-test.json", b'{"majority 4": {"right": "01", "generated": 1e999}}'),
    ],
)
def test_a_damaged_file_of_an_earlier_stage_is_named(
    file: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prm-prm").mkdir()
    (tmp_path / "prm-prm" / "facts.json").write_text(json.dumps(FACTS), encoding="utf-8")
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "gsm8k-test.jsonl").write_text('{"id": "a", "problem": "1 + 1", "answer": "2"}\n')
    (tmp_path / (file or "prm-prm/facts.json")).write_bytes(data)
    said = told(capsys, "evaluate", "--out", str(tmp_path), "--data", "none")
    assert str(tmp_path / file) in said and len(said) < 700
    assert not (tmp_path / "evaluate.json").exists()


def test_what_is_trained_on_is_held_against_a_list_of_what_is_measured_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evaluation.json").write_text('{"processbench": 3}')
    said = told(capsys, "train", "--out", str(tmp_path), "--model", "none")
    assert f"{tmp_path / 'evaluation.json'} is not what its stage wrote (processbench)" in said
