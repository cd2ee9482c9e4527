"""Log-probabilities of a batch's completions, each prompt read once for all completions of its group.

A trainer's batch repeats a prompt for every completion and pads both: of 64 completions of 70 tokens after 8 prompts of 60,
padded as stock GRPO does it, two tokens in three are padding or read again. Here all segments stand in one row without padding:

    prompt₁ without its last token,  its last token + completion₁ without its last,  the same for completion₂, …,  prompt₂ …

Every layer but attention takes tokens one by one. In attention a prompt's segment sees itself, and a completion's sees its
prompt's and itself. The maths is that of separate rows; gradients of a prompt's tokens come together from all its completions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention
from transformers import AttentionInterface

from footfall.loading import pack
from footfall.reward.packed import packable, packing

IMPLEMENTATION = "footfall_shared"
_PASS_TOKENS, _WASTE = 16384, 0.1
"""Tokens in one pass, and the share of padding among those that attend together."""
_UNREAD = -100


class Bucket(NamedTuple):
    """Segments of like length that attend together."""

    queries_SQ: Tensor
    """Where in the row their tokens are; past a segment's end any."""
    keys_SK: Tensor
    """Where what they see is: the prompt's tokens, then their own."""
    seen_S1QK: Tensor | None
    """`None`: causal, a prompt's."""


class Row(NamedTuple):
    """Prompts and completions as one row of N tokens."""

    ids_1N: Tensor
    positions_1N: Tensor
    targets_1N: Tensor
    """What follows each token; -100 within prompts, where nobody asks."""
    buckets: list[Bucket]
    order_N: Tensor
    """Where each token is among the padded queries of all buckets."""


class _Segment(NamedTuple):
    start: int
    length: int
    prompt: int
    """Where the segment before it starts."""
    read: int
    """Tokens of that one."""


def lay_out(prompts: Sequence[tuple[int, ...]], completions: Sequence[Sequence[int]], device: torch.device) -> Row:
    """The row of these completions, in order, each after its prompt."""
    ids: list[int] = []
    positions: list[int] = []
    targets: list[int] = []
    shared: dict[tuple[int, ...], _Segment] = {}
    own: list[_Segment] = []
    for prompt, completion in zip(prompts, completions, strict=True):
        read = len(prompt) - 1
        if prompt not in shared:
            shared[prompt] = _Segment(len(ids), read, 0, 0)
            ids += prompt[:-1]
            positions += range(read)
            targets += [_UNREAD] * read
        own.append(_Segment(len(ids), len(completion), shared[prompt].start, read))
        ids += [prompt[-1], *completion][: len(completion)]
        positions += range(read, read + len(completion))
        targets += completion
    buckets, order = [], torch.zeros(len(ids), dtype=torch.long)
    padded = 0
    for segments in (list(shared.values()), own):
        segments = [each for each in segments if each.length]
        for group in pack([each.length for each in segments], _PASS_TOKENS, _WASTE):
            made = _bucket([segments[i] for i in group], len(ids), device)
            buckets.append(made)
            size, width = made.queries_SQ.shape
            for s, i in enumerate(group):
                start, length = segments[i].start, segments[i].length
                order[start : start + length] = torch.arange(length) + (padded + s * width)
            padded += size * width
    ids_1N, positions_1N, targets_1N = torch.tensor([[ids], [positions], [targets]], device=device)
    return Row(ids_1N, positions_1N, targets_1N, buckets, order.to(device))


def _bucket(segments: Sequence[_Segment], tokens: int, device: torch.device) -> Bucket:
    start_S1, length_S1, prompt_S1, read_S1 = torch.tensor(segments).T[:, :, None]
    query_Q = torch.arange(int(length_S1.max()))
    key_K = torch.arange(int((read_S1 + length_S1).max()))
    queries_SQ = (start_S1 + query_Q).clamp(max=tokens - 1)
    keys_SK = torch.where(key_K < read_S1, prompt_S1 + key_K, start_S1 + key_K - read_S1).clamp(max=tokens - 1)
    seen_S1QK = (key_K <= (read_S1 + query_Q)[:, :, None])[:, None] if int(read_S1.max()) else None
    return Bucket(queries_SQ.to(device), keys_SK.to(device), None if seen_S1QK is None else seen_S1QK.to(device))


def shared_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    shared: Row | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of a row's tokens (1, H, N, D), each segment to its prompt and itself."""
    assert shared is not None
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    # As rows of a table, because a lookup's gradient is summed by row, which indexing does number by number.
    query_NC, key_NC, value_NC = (x[0].transpose(0, 1).flatten(1) for x in (query, key, value))
    found = []
    for bucket in shared.buckets:
        q_SHQD, k_SHKD, v_SHKD = (
            embedding(at, table_NC).view(*at.shape, query.shape[1], -1).transpose(1, 2)
            for at, table_NC in (
                (bucket.queries_SQ, query_NC), (bucket.keys_SK, key_NC), (bucket.keys_SK, value_NC),
            )
        )  # fmt: skip
        causal = bucket.seen_S1QK is None
        out_SHQD = scaled_dot_product_attention(
            q_SHQD, k_SHKD, v_SHKD, attn_mask=bucket.seen_S1QK, is_causal=causal, scale=scaling
        )
        found.append(out_SHQD.transpose(1, 2).flatten(2).flatten(0, 1))
    return embedding(shared.order_N, torch.cat(found)).view(1, len(shared.order_N), query.shape[1], -1), None


AttentionInterface.register(IMPLEMENTATION, shared_attention)


def shareable(model: Any, length: int) -> bool:
    """Whether a causal model can be called with such rows: not one whose layers are computed again in the backward pass."""
    return packable(model, length) and not getattr(model, "is_gradient_checkpointing", False)


def completion_logprobs(
    model: Any, ids_BL: Tensor, mask_BL: Tensor, kept: int, most: int | None = None, entropies: bool = False
) -> tuple[Tensor, Tensor | None]:
    """(B, T) log-probabilities, and entropies, of completions (the last `kept` tokens) by a model with TRL's fused head.

    `most` is the largest number of completions in one pass.
    """
    device, ids_BL, mask_BL = ids_BL.device, ids_BL.cpu(), mask_BL.bool().cpu()
    prompts = [tuple(ids[mask].tolist()) for ids, mask in zip(ids_BL[:, :-kept], mask_BL[:, :-kept], strict=True)]
    completions = [ids[mask].tolist() for ids, mask in zip(ids_BL[:, -kept:], mask_BL[:, -kept:], strict=True)]
    found_CBT = []
    order: list[int] = []
    with packing(model, IMPLEMENTATION):
        for rows in _passes(prompts, completions, most or len(prompts)):
            row = lay_out([prompts[i] for i in rows], [completions[i] for i in rows], device)
            out = model(
                input_ids=row.ids_1N, position_ids=row.positions_1N, shift_labels=row.targets_1N, fused_lm_head=True,
                shared=row,
            )  # fmt: skip
            said_C1N = torch.stack([out.log_probs, out.entropy] if entropies else [out.log_probs])
            lengths = torch.tensor([len(completions[i]) for i in rows], device=device)
            here_BT = torch.arange(kept, device=device) < lengths[:, None]
            made_CBT = said_C1N.new_zeros(len(said_C1N), *here_BT.shape)
            found_CBT.append(made_CBT.masked_scatter(here_BT, said_C1N[:, row.targets_1N != _UNREAD]))
            order += rows
    all_CBT = torch.cat(found_CBT, dim=1)[:, torch.tensor(order, device=device).argsort()]
    return all_CBT[0], all_CBT[1] if entropies else None


def _passes(prompts: Sequence[tuple[int, ...]], completions: Sequence[Sequence[int]], most: int) -> Iterator[list[int]]:
    """Rows by prompt, cut where a pass is full."""
    first = {prompt: i for i, prompt in reversed(list(enumerate(prompts)))}
    rows: list[int] = []
    tokens = 0
    for i in sorted(range(len(prompts)), key=lambda i: (first[prompts[i]], i)):
        new = len(completions[i]) + len(prompts[i]) * (not rows or prompts[rows[-1]] != prompts[i])
        if rows and (tokens + new > _PASS_TOKENS or len(rows) == most):
            yield rows
            rows, tokens = [], 0
            new = len(completions[i]) + len(prompts[i])
        rows.append(i)
        tokens += new
    if rows:
        yield rows
