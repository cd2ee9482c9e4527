"""Names for weights, so that a cache or a report can say exactly which model it speaks of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["weights_fingerprint"]

_SAMPLED = 65536


def weights_fingerprint(module: nn.Module) -> str:
    """12 hex digits from every tensor's name, shape, type and an even sample of its numbers: quick at any size."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        flat = tensor.detach().reshape(-1)
        sample = flat[:: max(1, flat.numel() // _SAMPLED)].float().cpu()
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(sample.numpy().tobytes())
    return digest.hexdigest()[:12]
