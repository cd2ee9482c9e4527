"""How positions are scaled, which a model was trained with and which changes its numbers at every position.

    linear    frequencies divided by a factor        (Gemma 3 from 4B on, DeepSeek-Coder)
    yarn      high frequencies kept, low ones divided (Qwen with a longer context)
    llama3    the same by another rule                (Llama 3.1 and later)

The first two stand in the metadata. Of the third a file has only the quotients of all frequencies, as a tensor; the rule is
known again by them.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from footfall.gguf.container import Container

FACTORS = "rope_freqs.weight"
_BASE, _SLIDING_BASE = 1e4, 1e4
_LOW, _HIGH, _CONTEXT = 1.0, 4.0, 8192
"""Of all models of Llama 3.1 to 3.3; their factors are 8 and 32."""


def rope_parameters(given: Container, factors: Tensor | None) -> dict[str, Any]:
    """What transformers wants to know of scaled positions; nothing where they are not scaled."""
    base = float(given.fact("rope.freq_base", _BASE))
    scaling = _stated(given) if factors is None else _by_factors(given, factors, base)
    if not scaling:
        return {}
    scaled = {"rope_theta": base, **scaling}
    if given.architecture != "gemma3":
        return {"rope_parameters": scaled}
    near = {"rope_type": "default", "rope_theta": float(given.fact("rope.freq_base_swa", _SLIDING_BASE))}
    return {"rope_parameters": {"full_attention": scaled, "sliding_attention": near}}


def _stated(given: Container) -> dict[str, Any]:
    kind, factor = given.fact("rope.scaling.type", "none"), given.fact("rope.scaling.factor")
    if kind == "none" or factor is None or factor == 1:
        return {}
    if kind == "linear":
        return {"rope_type": "linear", "factor": float(factor)}
    if kind == "yarn":
        before = given.fact("rope.scaling.original_context_length", given.fact("context_length"))
        return {"rope_type": "yarn", "factor": float(factor), "original_max_position_embeddings": before}
    raise ValueError(f"{given.file.name} scales its positions by {kind!r}; linear and yarn can be read")


def _by_factors(given: Container, factors: Tensor, base: float) -> dict[str, Any]:
    """The rule of Llama 3 that gives these factors, or a warning that there is none."""
    factor = float(factors.max())
    if torch.allclose(factors.double().cpu(), llama_3_factors(2 * len(factors), base, factor), rtol=1e-3):
        return {
            "rope_type": "llama3", "factor": factor, "low_freq_factor": _LOW, "high_freq_factor": _HIGH,
            "original_max_position_embeddings": _CONTEXT,
        }  # fmt: skip
    warnings.warn(
        f"{given.file.name}: {FACTORS} scales positions by no rule that is known here and is left out; what the model says "
        "will be another, the more the longer a text is",
        stacklevel=2,
    )
    return {}


def llama_3_factors(width: int, base: float, factor: float) -> Tensor:
    """What each frequency of a head of this width is divided by.

    1 where a wave is shorter than 8192 / 4 positions, `factor` where it is longer than 8192, and between the two
    1 / ((1 - s) / factor + s) with s falling from 1 to 0.
    """
    waves = 2 * math.pi * base ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    smooth = ((_CONTEXT / waves - _LOW) / (_HIGH - _LOW)).clamp(0, 1)
    return 1 / ((1 - smooth) / factor + smooth)
