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


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_numbers_where_scores_are_far_below_zero(device: str) -> None:
    """As those of some heads of Qwen2.5 are: cuDNN's attention, the default on H100 and H200, gave NaN with 704 keys."""
    from footfall.rl.shared_prompts import lay_out, shared_attention

    row = lay_out([tuple(range(65))] * 2, [range(640), range(300)], torch.device(device))
    made = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, row.ids_1N.shape[1], 64, generator=made).bfloat16() for _ in range(3))
    query[..., 0], key[..., 0] = 1.0, -120 * 64**0.5
    q, k, v = leaves = [each.to(device).requires_grad_() for each in (query, key, value)]
    out, _ = shared_attention(torch.nn.Identity(), q, k, v, attention_mask=None, shared=row)
    torch.autograd.backward([out.float().square().sum()])
    assert all(each.grad is not None and each.grad.isfinite().all() for each in leaves)
    assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
