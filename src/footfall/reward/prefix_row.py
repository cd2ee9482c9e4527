"""Traces of one call in one row of tokens: what several of them begin with is read once, and nothing is padded.

Completions of one prompt share the prompt, and often their first steps. In order of their ids, a trace adds to the row what it
does not share with the one before it:

    a b c d     a b c e     a f        the row  a b c d e f,  d at place 3, e at 3, f at 1

Every layer but attention takes tokens one by one. In attention a trace's own tokens see its path through the row up to
themselves. The maths is that of separate rows, so logits are the same up to rounding. Keys and values are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention
from transformers import AttentionInterface

from footfall.hashing import common_length
from footfall.render import Reading
from footfall.reward.last_layer import last_attention
from footfall.reward.packed import packable, packing
from footfall.reward.prm import PRM

IMPLEMENTATION = "footfall_prefix_row"


class Segment(NamedTuple):
    """What a trace adds to the row, and what it sees."""

    start: int
    """Where in the row its own tokens begin."""
    shared: int
    """Tokens of the trace that were there before it."""
    path: slice
    """Where among the paths of all traces its own is."""
    read: list[int]
    """Which of its tokens are read."""


class Row(NamedTuple):
    """Some readings as one row of N tokens."""

    ids_1N: Tensor
    positions_1N: Tensor
    """Counted from each trace's own start."""
    segments: list[Segment]
    """In the order of the readings."""
    paths_P: Tensor
    """Where in the row the tokens of each trace are, trace by trace."""
    mask_LL: Tensor
    """Added to scores: 0 at what a token sees, -inf elsewhere."""

    def read_at(self, segment: Segment) -> Tensor:
        """Where in the row a trace is read."""
        return self.paths_P[segment.path][segment.read]


def lay_out(readings: Sequence[Reading], dtype: torch.dtype = torch.float32) -> Row:
    """The row of these readings, whatever their order."""
    ids: list[int] = []
    positions: list[int] = []
    paths: list[list[int]] = [[] for _ in readings]
    added: list[tuple[int, int]] = [(0, 0) for _ in readings]
    before: tuple[int, ...] = ()
    path: list[int] = []
    for i in sorted(range(len(readings)), key=lambda i: readings[i].ids):
        own = readings[i].ids
        shared = common_length(before, own)
        paths[i] = path = [*path[:shared], *range(len(ids), len(ids) + len(own) - shared)]
        added[i], before = (len(ids), shared), own
        ids += own[shared:]
        positions += range(shared, len(own))
    ends = [*accumulate(map(len, paths))]
    segments = [
        Segment(*where, slice(end - len(each.ids), end), list(each.positions))
        for where, end, each in zip(added, ends, readings, strict=True)
    ]
    longest = max(map(len, paths))
    mask_LL = torch.full((longest, longest), float("-inf"), dtype=dtype).triu_(1)
    ids_1N, positions_1N = torch.tensor([[ids], [positions]])
    return Row(ids_1N, positions_1N, segments, torch.tensor([place for each in paths for place in each]), mask_LL)


def row_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    row: Row | None = None,
    last: nn.Module | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of a row's tokens (1, H, N, D), each to its trace; in the layer `last`, of those that are read alone."""
    assert row is not None
    heads, few = query.shape[1], key.shape[1]
    key_FPD, value_FPD = (
        embedding(row.paths_P, x[0].transpose(0, 1).flatten(1)).view(len(row.paths_P), few, -1).transpose(0, 1)
        for x in (key, value)
    )
    out_1NHD = query.new_zeros(1, query.shape[2], heads, value.shape[3])
    for each in row.segments:
        seen = each.path.stop - each.path.start
        k_HKD, v_HKD = (
            x[:, None, each.path].expand(-1, heads // few, -1, -1).flatten(0, 1) for x in (key_FPD, value_FPD)
        )
        if module is last:
            at: slice | Tensor = row.read_at(each)
            mask_QK = row.mask_LL[each.read, :seen]
        else:
            at = slice(each.start, each.start + seen - each.shared)
            mask_QK = row.mask_LL[each.shared : seen, :seen]
        if len(mask_QK):  # a trace that is another's beginning adds nothing
            found_1HQD = scaled_dot_product_attention(
                query[:, :, at], k_HKD[None], v_HKD[None], attn_mask=mask_QK, scale=scaling
            )
            out_1NHD[:, at] = found_1HQD.transpose(1, 2)
    return out_1NHD, None


AttentionInterface.register(IMPLEMENTATION, row_attention)


def can_share(model: PRM) -> bool:
    """Whether traces of a call can stand in one row: the head reads last states alone, the decoder takes an attention function.

    On a GPU, batches that are padded a little are faster than one attention a trace.
    """
    return model.device.type == "cpu" and model.head.plain and packable(model.backbone, model.max_length)


@torch.inference_mode()
def each_logits(model: PRM, readings: Sequence[Reading], token_budget: int) -> tuple[list[Tensor], list[int]]:
    """Logits (S, K) of each reading, in order, and the tokens that were run for it: those that the one before it had not."""
    logits: list[Tensor] = [torch.zeros(0, model.readout.outputs)] * len(readings)
    tokens = [0] * len(readings)
    last = last_attention(model.backbone)
    with packing(model.backbone, IMPLEMENTATION):
        for group in _passes(readings, token_budget):
            row = lay_out([readings[i] for i in group], next(model.backbone.parameters()).dtype)
            read = [row.read_at(each) for each in row.segments]
            read_R = torch.cat(read)
            with model.reading([read_R.tolist()], row.ids_1N.shape[1]):
                output = model.backbone(
                    input_ids=row.ids_1N, position_ids=row.positions_1N, use_cache=False, row=row, last=last
                )
            logits_RK = model.head.of(output.last_hidden_state[0][read_R])
            for i, each, own_SK in zip(group, row.segments, torch.split(logits_RK, [*map(len, read)]), strict=True):
                logits[i], tokens[i] = own_SK, each.path.stop - each.path.start - each.shared
    return logits, tokens


def _passes(readings: Sequence[Reading], token_budget: int) -> Iterator[list[int]]:
    """Places of readings by their ids, so that those that share most stand together, cut where a pass is full."""
    group: list[int] = []
    before: tuple[int, ...] = ()
    tokens = 0
    for i in sorted(range(len(readings)), key=lambda i: readings[i].ids):
        new = len(readings[i].ids) - common_length(before, readings[i].ids)
        if group and tokens + new > token_budget:
            yield group
            group, tokens, new = [], 0, len(readings[i].ids)
        group.append(i)
        tokens, before = tokens + new, readings[i].ids
    if group:
        yield group
