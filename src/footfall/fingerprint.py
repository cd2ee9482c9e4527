"""Names for weights, so that a cache or a report can say exactly which model it speaks of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["weights_fingerprint"]

_SAMPLED = 256


def weights_fingerprint(module: nn.Module) -> str:
    """12 hex digits from every parameter's name, shape and first and last values: quick at any size."""
    import torch

    digest = hashlib.sha256()
    with torch.no_grad():
        for name, tensor in sorted(module.state_dict().items()):
            flat = tensor.detach().reshape(-1)
            ends = torch.cat([flat[:_SAMPLED], flat[-_SAMPLED:]]).float().cpu()
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(ends.numpy().tobytes())
    return digest.hexdigest()[:12]
