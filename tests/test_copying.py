"""Many copies in one call. The kernel is compiled for CUDA only; where Triton is installed its interpreter runs it here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from footfall.copying import TRITON, _addressed, copy_each

LENGTHS = (1, 5, 17, 33)


def rows_and_entries(dtype: torch.dtype) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """A buffer of rows [a, b, rows, h, t, d], the beginnings of four of its rows, and as many entries of that length."""
    make = torch.Generator().manual_seed(0)
    buffer = torch.randn(3, 2, 6, 2, 40, 8, generator=make).to(dtype)
    rows = [buffer[:, :, row, :, :length] for row, length in zip((5, 0, 2, 3), LENGTHS, strict=True)]
    return buffer, rows, [torch.randn(3, 2, 2, length, 8, generator=make).to(dtype) for length in LENGTHS]


def test_each_target_gets_its_source_and_nothing_else_changes() -> None:
    buffer, rows, entries = rows_and_entries(torch.float32)
    wanted = buffer.clone()
    for row, entry in zip((5, 0, 2, 3), entries, strict=True):
        wanted[:, :, row, :, : entry.shape[3]] = entry
    copy_each(rows, entries)
    assert torch.equal(buffer, wanted)
    copy_each([], [])


def test_a_pair_is_a_start_a_length_and_the_distances_between_runs() -> None:
    buffer, rows, entries = rows_and_entries(torch.float32)
    to, of, together, *apart = _addressed(rows[1], entries[1], 2)
    assert (to, of) == (buffer.data_ptr(), entries[1].data_ptr())
    assert together == 5 * 8 // 2
    assert [2 * stride for stride in apart] == [*rows[1].stride()[:3], *entries[1].stride()[:3]]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (torch.zeros(3, 2, 2, 5, 9)[..., :8], "lie together"),
        (torch.zeros(3, 2, 2, 4, 8), "cannot go to"),
        (torch.zeros(3, 2, 2, 5, 8, dtype=torch.float64), "cannot go to"),
    ],
)
def test_what_the_kernel_cannot_copy_is_an_error(target: Tensor, said: str) -> None:
    _, _, entries = rows_and_entries(torch.float32)
    with pytest.raises(ValueError, match=said):
        _addressed(target, entries[1], 1)


@pytest.mark.skipif(not TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_kernel_copies_the_same(dtype: str) -> None:
    code = f"""
import torch
from footfall.copying import _launch
from tests.test_copying import rows_and_entries
buffer, rows, entries = rows_and_entries(torch.{dtype})
back = [torch.empty_like(entry) for entry in entries]
_launch(rows, entries)
_launch(back, rows)
assert all(torch.equal(a, b) for a, b in zip(back, entries)) and not torch.equal(buffer, torch.zeros_like(buffer))
_, before, _ = rows_and_entries(torch.{dtype})
assert torch.equal(buffer[:, :, 1], rows_and_entries(torch.{dtype})[0][:, :, 1])
"""
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
