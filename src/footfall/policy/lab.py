"""The lab's model, which ships with the package: it reads and writes every world."""

from __future__ import annotations

from pathlib import Path

from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import Declared, register

LAB = Path(__file__).parent.parent / "models" / "lab"
"""A Llama of 9.5 million parameters, trained by `scripts/train_lab_model.py`."""


@register("policy", "embedded-lab", Declared(separator="\n"))
def lab(device: str | None = None, rows: int | None = None, compile: bool | None = None) -> TorchPolicy:
    """The Llama of 9.5 million parameters that ships with the package and writes traces of every world."""
    return TorchPolicy.load(LAB, device or "cpu", label="embedded-lab", rows=rows, compile=compile)
