"""Prompts read once for their group: the numbers of TRL's padded batch on every device, in both precisions."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from benchmarks.rl import SHAPES, shaped
from benchmarks.shared_prompts import batch, compared, same

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.mark.parametrize("device", DEVICES)
def test_logprobs_and_gradients_are_those_of_the_padded_batch(tmp_path: Path, device: str) -> None:
    shaped("narrow", tmp_path / "model", device)
    ids, mask = batch(SHAPES["narrow"]["vocab_size"], device, prompts=2, group=3, longest=10)
    told = compared(str(tmp_path / "model"), device, ids, mask, 10, str(tmp_path / "out"))
    assert same(told), told


def test_a_mask_that_hides_a_prompt_is_not_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the comparison is for: a completion that does not see all of its prompt."""
    import footfall.rl.shared_prompts as shared

    whole = shared._bucket

    def short(*given: object) -> shared.Bucket:
        found = whole(*given)  # type: ignore[arg-type]
        if found.seen_S1QK is not None:
            found.seen_S1QK[..., :2] = False
        return found

    monkeypatch.setattr(shared, "_bucket", short)
    shaped("narrow", tmp_path / "model", "cpu")
    ids, mask = batch(SHAPES["narrow"]["vocab_size"], "cpu", prompts=2, group=2, longest=6)
    told = compared(str(tmp_path / "model"), "cpu", ids, mask, 6, str(tmp_path / "out"))
    assert not same(told) and torch.isfinite(torch.tensor(told["footfall float32 against stock float32"]["gradient"]))
