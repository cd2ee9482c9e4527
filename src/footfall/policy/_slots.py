"""Keys and values of many sequences at once, and the attention that reads them.

Each sequence owns a row of two big buffers and sits at its own position in it, so sequences of any length decode in one
batch and a finished one is replaced without touching the rest. The attention is registered with transformers under the
name `IMPLEMENTATION`; a model set to it takes `slots=` in its forward call and needs no cache object of its own, which is why
any decoder that follows transformers' attention interface runs here. It is set only while the engine writes (`slot_attention`):
before and after that the model is anybody's, to be called, trained or saved.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel

from footfall.policy import _triton

__all__ = ["IMPLEMENTATION", "SlotView", "Slots", "check_attention", "slot_attention"]

IMPLEMENTATION = "footfall_slots"


class Slots:
    """`data[l, 0 or 1, r, h, t]`: key or value of layer l, row r, head h, position t."""

    def __init__(self, model: PreTrainedModel, rows: int, capacity: int) -> None:
        layers, heads, width = _shape(model)
        self.data = torch.zeros((layers, 2, rows, heads, capacity, width), dtype=model.dtype, device=model.device)

    @staticmethod
    def row_bytes(model: PreTrainedModel, capacity: int) -> int:
        layers, heads, width = _shape(model)
        return layers * 2 * heads * capacity * width * model.dtype.itemsize

    @property
    def rows(self) -> int:
        return self.data.shape[2]

    @property
    def capacity(self) -> int:
        return self.data.shape[4]

    def load(self, row: int, entry: Tensor, length: int) -> None:
        """Put the first `length` positions of a stored entry [l, 2, h, t, d] into a row."""
        self.data[:, :, row, :, :length] = entry[:, :, :, :length]

    def copy_out(self, row: int, length: int) -> Tensor:
        return self.data[:, :, row, :, :length].clone()

    def move(self, source: int, target: int, length: int) -> None:
        self.data[:, :, target, :, :length] = self.data[:, :, source, :, :length]


def _shape(model: PreTrainedModel) -> tuple[int, int, int]:
    """Layers, key heads, width of a head."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers, heads, width


class SlotView:
    """One forward call's view of the slots: rows 0…B-1, new tokens at `positions` [B, T], keys up to `length`."""

    def __init__(self, slots: Slots, positions_BT: Tensor, length: int) -> None:
        self.data = slots.data
        self.positions_BT = positions_BT
        self.length = length
        self.fused = positions_BT.is_cuda and positions_BT.shape[1] == 1 and _triton.AVAILABLE
        self._rows_B1 = torch.arange(positions_BT.shape[0], device=positions_BT.device)[:, None]
        self._masks: dict[int | None, Tensor] = {}

    def mask(self, window: int | None) -> Tensor:
        """[B, 1, T, L], 0 or -inf: a query at p sees keys at t <= p, and t > p - window where the layer has a window."""
        if window not in self._masks:
            keys_L = torch.arange(self.length, device=self.positions_BT.device)
            queries_BT1 = self.positions_BT[:, :, None]
            seen = keys_L <= queries_BT1
            if window is not None:
                seen &= keys_L > queries_BT1 - window
            hidden = torch.zeros(seen.shape, dtype=self.data.dtype, device=seen.device).masked_fill_(
                ~seen, float("-inf")
            )
            self._masks[window] = hidden[:, None]
        return self._masks[window]

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values [B, h, T, d]; returns all of the rows' [B, h, L, d]."""
        keys, values = self.data[layer, 0], self.data[layer, 1]
        keys[self._rows_B1, :, self.positions_BT] = key.transpose(1, 2)
        values[self._rows_B1, :, self.positions_BT] = value.transpose(1, 2)
        n = self.positions_BT.shape[0]
        return keys[:n, :, : self.length], values[:n, :, : self.length]


def _slot_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    slots: SlotView | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    if slots is None:
        raise RuntimeError(
            "the engine is writing with this model at this moment, in another thread; call it when the engine has returned"
        )
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    if slots.fused:
        out = _triton.decode_attention(
            query, key, value, slots.data, slots.positions_BT, layer, scaling, sliding_window or 0, softcap or 0.0
        )
        return out.transpose(1, 2), None
    keys, values = slots.write(layer, key, value)
    batch, n_query, n_new, width = query.shape
    mask = slots.mask(sliding_window)
    if n_new == 1:
        # The query heads of one key head become that head's queries, so that its keys are read once.
        query = query.view(batch, keys.shape[1], n_query // keys.shape[1], width)
    if softcap is None:
        out = nn.functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=scaling, enable_gqa=query.shape[1] != keys.shape[1]
        )
    else:
        out = _capped_attention(query, keys, values, mask, scaling, softcap)
    return out.reshape(batch, n_query, n_new, width).transpose(1, 2), None


def _capped_attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float, softcap: float
) -> Tensor:
    """softmax(cap · tanh(q·k·scale / cap)) v, which no fused kernel of torch computes (Gemma 2)."""
    groups = query.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
    scores = torch.tanh((query @ keys.transpose(2, 3)) * (scaling / softcap)) * softcap
    weights = (scores + mask).softmax(dim=-1, dtype=torch.float32)
    return weights.to(values.dtype) @ values


AttentionInterface.register(IMPLEMENTATION, _slot_attention)


def check_attention(model: PreTrainedModel) -> None:
    """Refuse a model whose attention cannot be exchanged."""
    if not getattr(type(model), "_supports_attention_backend", False):
        raise ValueError(
            f"{type(model).__name__} does not follow transformers' attention interface, so the in-process engine cannot "
            "run it; serve it by an OpenAI-compatible server and use the http policy"
        )


_writing: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_writing_guard = threading.Lock()


@contextmanager
def slot_attention(model: PreTrainedModel) -> Iterator[None]:
    """While it lasts the model reads and writes slots, in evaluation mode, for one thread; then it is as it was."""
    with _writing_guard:
        lock = _writing.setdefault(model, threading.RLock())
    with lock:
        modules = list(model.modules())
        training = [module for module in modules if module.training]
        configs = _configs([module.config for module in modules if isinstance(module, PreTrainedModel)])
        own = [config._attn_implementation_internal for config in configs]
        try:
            for module in training:
                module.training = False
            for config in configs:
                config._attn_implementation_internal = IMPLEMENTATION
            yield
        finally:
            for config, implementation in zip(configs, own, strict=True):
                config._attn_implementation_internal = implementation
            for module in training:
                module.training = True


def _configs(found: list[PreTrainedConfig]) -> list[Any]:
    """Each once, with those inside them."""
    known: dict[int, Any] = {}
    while found:
        config = found.pop()
        if id(config) not in known:
            known[id(config)] = config
            inner = (getattr(config, key, None) for key in config.sub_configs)
            found += [each for each in inner if each is not None]
    return list(known.values())
