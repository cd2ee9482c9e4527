"""Keys and values of many sequences at once, the attention that reads them, and those of prefixes seen before.

Each sequence owns a row of two big buffers and sits at its own position in it, so sequences of any length decode in one
batch and a finished one is replaced without touching the rest. The attention is registered with transformers under the
name `IMPLEMENTATION`; a model set to it takes `slots=` in its forward call and needs no cache object of its own, which is why
any decoder that follows transformers' attention interface runs here. It is set only while the engine writes (`slot_attention`):
before and after that the model is anybody's, to be called, trained or saved.
"""

from __future__ import annotations

import importlib.util
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel

from footfall.hashing import prefix_hashes

IMPLEMENTATION = "footfall_slots"
_TRITON = importlib.util.find_spec("triton") is not None
"""Whether the Triton compiler is installed (it comes with torch's CUDA builds)."""
_BLOCK = 8


class Slots:
    """`data[l, 0 or 1, r, h, t]`: key or value of layer l, row r, head h, position t."""

    def __init__(self, model: PreTrainedModel, rows: int, capacity: int) -> None:
        layers, heads, width = _shape(model)
        self.data = torch.zeros((layers, 2, rows, heads, capacity, width), dtype=model.dtype, device=model.device)

    @staticmethod
    def row_bytes(model: PreTrainedModel, capacity: int) -> int:
        """Bytes of one row: keys and values of `capacity` tokens in all layers."""
        layers, heads, width = _shape(model)
        return layers * 2 * heads * capacity * width * model.dtype.itemsize

    @property
    def rows(self) -> int:
        """How many sequences there is room for."""
        return self.data.shape[2]

    @property
    def capacity(self) -> int:
        """Tokens that a row holds."""
        return self.data.shape[4]

    def load(self, rows: Sequence[int], entry: Tensor, length: int) -> None:
        """Put the first `length` positions of a stored entry [l, 2, h, t, d] into rows, neighbours in one copy.

        A copy into buffers of more than 2³¹ numbers is cut into many small kernels, so that a copy a row would be a third of
        the time of thousands of rows.
        """
        for first, last in _runs(rows):
            self.data[:, :, first : last + 1, :, :length] = entry[:, :, None, :, :length]

    def copy_out(self, row: int, length: int) -> Tensor:
        """A copy of the keys and values of a row's first tokens."""
        return self.data[:, :, row, :, :length].clone()

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first tokens of one row over another's."""
        self.data[:, :, target, :, :length] = self.data[:, :, source, :, :length]


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last of each stretch of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def _shape(model: PreTrainedModel) -> tuple[int, int, int]:
    """Layers, key heads, width of a head."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers, heads, width


class SlotView:
    """One forward call's view of the slots: rows 0…B-1, new tokens at `positions` [B, T], keys up to `length`.

    `look` is told the weights [B, H, L] of each layer, first to last, where one token a row is read.
    """

    def __init__(
        self, slots: Slots, positions_BT: Tensor, length: int, look: Callable[[Tensor], None] | None = None
    ) -> None:
        self.data, self.positions_BT, self.length, self.look = slots.data, positions_BT, length, look
        self.fused = positions_BT.is_cuda and positions_BT.shape[1] == 1 and _TRITON and look is None
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
        # A trainer's autocast makes them half precision where the weights are not.
        keys[self._rows_B1, :, self.positions_BT] = key.transpose(1, 2).to(keys.dtype)
        values[self._rows_B1, :, self.positions_BT] = value.transpose(1, 2).to(values.dtype)
        n = self.positions_BT.shape[0]
        return keys[:n, :, : self.length], values[:n, :, : self.length]


@lru_cache(maxsize=1)
def _decode_kernel() -> Any:
    import triton
    import triton.language as tl

    # fmt: off
    @triton.jit  # type: ignore[untyped-decorator]
    def decode(  # type: ignore[no-untyped-def]
        q, k_new, v_new, data, positions, out, scale, window, softcap,
        q_row, q_head, new_row, new_head, kv_side, kv_row, kv_head,
        GROUPS: tl.constexpr, PADDED: tl.constexpr, WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    ):
        # fmt: on
        row, head = tl.program_id(0), tl.program_id(1)
        position = tl.load(positions + row)
        d = tl.arange(0, PADDED_WIDTH)
        g = tl.arange(0, PADDED)
        d_ok = d < WIDTH
        key = tl.load(k_new + row * new_row + head * new_head + d, mask=d_ok, other=0.0)
        value = tl.load(v_new + row * new_row + head * new_head + d, mask=d_ok, other=0.0)
        keys = data + row.to(tl.int64) * kv_row + head * kv_head
        values = keys + kv_side
        tl.store(keys + position * WIDTH + d, key, mask=d_ok)
        tl.store(values + position * WIDTH + d, value, mask=d_ok)
        query = tl.load(
            q + row * q_row + (head * GROUPS + g)[:, None] * q_head + d[None, :],
            mask=(g < GROUPS)[:, None] & d_ok[None, :],
            other=0.0,
        )
        # The new token itself comes from registers: the store above is not ordered before the loads below.
        score = tl.sum(query.to(tl.float32) * key.to(tl.float32)[None, :], axis=1) * scale
        if softcap > 0:
            score = softcap * (2 * tl.sigmoid(2 * score / softcap) - 1)
        best = score
        total = tl.full([PADDED], 1.0, tl.float32)
        mixed = tl.zeros([PADDED, PADDED_WIDTH], tl.float32) + value.to(tl.float32)[None, :]
        first = tl.where(window > 0, tl.maximum(position - window + 1, 0), 0)
        for start in range(first // BLOCK * BLOCK, position, BLOCK):
            t = start + tl.arange(0, BLOCK)
            t_ok = (t < position) & (t >= first)
            k = tl.load(keys + t[:, None] * WIDTH + d[None, :], mask=t_ok[:, None] & d_ok[None, :], other=0.0)
            scores = tl.dot(query, tl.trans(k), input_precision="ieee").to(tl.float32) * scale
            if softcap > 0:
                scores = softcap * (2 * tl.sigmoid(2 * scores / softcap) - 1)
            scores = tl.where(t_ok[None, :], scores, float("-inf"))
            new_best = tl.maximum(best, tl.max(scores, axis=1))
            shrink = tl.exp(best - new_best)
            weights = tl.exp(scores - new_best[:, None])
            v = tl.load(values + t[:, None] * WIDTH + d[None, :], mask=t_ok[:, None] & d_ok[None, :], other=0.0)
            mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
            total = total * shrink + tl.sum(weights, axis=1)
            best = new_best
        tl.store(
            out + row * q_row + (head * GROUPS + g)[:, None] * q_head + d[None, :],
            (mixed / total[:, None]).to(out.dtype.element_ty),
            mask=(g < GROUPS)[:, None] & d_ok[None, :],
        )

    return decode


@torch.library.custom_op("footfall::decode_attention", mutates_args={"data"})
def _decode_attention(
    query: Tensor, key: Tensor, value: Tensor, data: Tensor, positions: Tensor,
    layer: int, scaling: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    """Decode attention on CUDA: one query token a row against the row's own keys, read once and only up to its length.

    softmax(q·k·scale) v for T = 1 with grouped heads: [B, H, 1, d] queries against rows 0…B-1 of `data` [l, 2, r, h, t, d].
    Stores the new key and value at `positions` on the way. Without it every row would be read up to the longest one.
    """
    rows, n_query, _, width = query.shape
    n_key = key.shape[1]
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    out = query.new_empty(query.shape)
    groups = n_query // n_key
    padded = max(16, 1 << (groups - 1).bit_length())
    padded_width = max(16, 1 << (width - 1).bit_length())
    _decode_kernel()[(rows, n_key)](
        query, key, value, data[layer, 0], positions, out, scaling, window, softcap,
        query.stride(0), query.stride(1), key.stride(0), key.stride(1),
        data.stride(1), data.stride(2), data.stride(3),
        GROUPS=groups, PADDED=padded, WIDTH=width, PADDED_WIDTH=padded_width, BLOCK=64, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


@_decode_attention.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, data: Tensor, positions: Tensor,
    layer: int, scaling: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    return query.new_empty(query.shape)


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
        out = _decode_attention(
            query, key, value, slots.data, slots.positions_BT, layer, scaling, sliding_window or 0, softcap or 0.0
        )
        return out.transpose(1, 2), None
    keys, values = slots.write(layer, key, value)
    batch, n_query, n_new, width = query.shape
    mask = slots.mask(sliding_window)
    if n_new == 1:
        # The query heads of one key head become that head's queries, so that its keys are read once.
        query = query.view(batch, keys.shape[1], n_query // keys.shape[1], width)
    if slots.look is not None:
        slots.look(_weights(query, keys, mask, scaling, softcap).reshape(batch, n_query, -1))
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
    weights = _weights(query, keys, mask, scaling, softcap)
    return weights.to(values.dtype) @ values.repeat_interleave(query.shape[1] // keys.shape[1], 1)


def _weights(query: Tensor, keys: Tensor, mask: Tensor, scaling: float, softcap: float | None) -> Tensor:
    """softmax of q·k·scale, capped or not, in float32."""
    scores = query @ keys.repeat_interleave(query.shape[1] // keys.shape[1], 1).transpose(2, 3)
    scores = scores * scaling if softcap is None else torch.tanh(scores * (scaling / softcap)) * softcap
    return (scores + mask).softmax(dim=-1, dtype=torch.float32)


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


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """The keys and values [l, 2, h, t, d] of the sequence `ids`; any prefix of it can be read from it."""

    ids: tuple[int, ...]
    data: Tensor

    @property
    def bytes(self) -> int:
        """What it takes of the cache's budget."""
        return self.data.numel() * self.data.element_size()


class PrefixCache:
    """Least recently used entries within a byte budget, indexed at every 8th token."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget = budget_bytes
        self.used = 0
        self._entries: OrderedDict[tuple[int, ...], Entry] = OrderedDict()
        self._blocks: dict[int, Entry] = {}

    def longest(self, ids: Sequence[int]) -> tuple[Entry | None, int]:
        """The entry that shares the longest beginning with `ids` (to the last block), and how much it shares."""
        ids = tuple(ids)
        if ids in self._entries:
            self._entries.move_to_end(ids)
            return self._entries[ids], len(ids)
        found, known = None, 0
        for key in _keys(ids):
            entry = self._blocks.get(key)
            if entry is None:
                break
            found, known = entry, known + _BLOCK
        if found is None:
            return None, 0
        self._entries.move_to_end(found.ids)
        shared = known if found.ids[:known] == ids[:known] else 0
        for ours, theirs in zip(ids[shared:], found.ids[shared:], strict=False):
            if ours != theirs:
                break
            shared += 1
        return found, shared

    def put(self, entry: Entry) -> None:
        """Keep an entry; the least recently used ones make room. One larger than the whole budget is not kept."""
        if entry.ids in self._entries or entry.bytes > self.budget:
            return
        self._entries[entry.ids] = entry
        self.used += entry.bytes
        self._blocks.update(dict.fromkeys(_keys(entry.ids), entry))
        while self.used > self.budget:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self._blocks.clear()
        self.used = 0

    def _drop(self, ids: tuple[int, ...]) -> None:
        entry = self._entries.pop(ids)
        self.used -= entry.bytes
        for key in _keys(ids):
            if self._blocks.get(key) is entry:
                del self._blocks[key]


def _keys(ids: tuple[int, ...]) -> list[int]:
    """Of the prefixes that end at a block."""
    return prefix_hashes(ids, range(_BLOCK, len(ids) + 1, _BLOCK))
