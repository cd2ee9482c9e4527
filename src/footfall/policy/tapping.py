"""What a model looks at while it writes, for a head that judges by that: no second pass over what was written.

    of every token that is fed   how much each attention head of each layer looks at it and the tokens before it (`window`),
                                 and the `top` probabilities of what comes next, before a model caps or scales its logits

A sequence keeps its row until its last token has been read as well; a search reads that token anyway when it goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from footfall.policy.decoding import Batch, EagerDecoder, Generated, Request
from footfall.policy.slots import Slots, SlotView


class Tap(Protocol):
    """Who is told."""

    @property
    def window(self) -> int:
        """Tokens that are looked at."""
        ...

    @property
    def top(self) -> int:
        """Probabilities that are told."""
        ...

    def keep(self, ids: Sequence[int], first: int, seen_TF: Tensor) -> None:
        """What was seen at `ids[first:]` of a sequence, in the order of `features`."""
        ...

    def forget(self) -> None:
        """The weights have changed."""
        ...


class TappedDecoder(EagerDecoder):
    """One step a call; what is seen at each token is kept by its request until all are written."""

    reads_last = True

    def __init__(self, model: PreTrainedModel, slots: Slots, tap: Tap) -> None:
        super().__init__(model, slots, False)
        self.tap = tap
        self._seen: defaultdict[int, list[Tensor]] = defaultdict(list)

    def begin(self) -> None:
        """A call begins; what is left of one that was broken off is dropped."""
        self._seen.clear()

    def logits(self, batch: Batch, tokens_N: Tensor, positions_N: Tensor, length: int) -> Tensor:
        """Those of the model, and on the way what it looks at."""
        looks: list[Tensor] = []
        said: list[Tensor] = []

        def look(weights_NHL: Tensor) -> None:
            looks.append(last_looks(weights_NHL, positions_N, self.tap.window))

        # A second pass knows the decoder alone, so it has the output layer's own numbers: Gemma 2 caps them, Granite scales.
        model: Any = self.model
        hook = model.get_output_embeddings().register_forward_hook(lambda module, given, out: said.append(out[:, -1]))
        try:
            logits_NV = self.forward(tokens_N, SlotView(self.slots, positions_N[:, None], length, look))
        finally:
            hook.remove()
        seen_NF = features(looks, said[0], self.tap.top).cpu()
        for row, owner in enumerate(batch.owner[: len(tokens_N)].tolist()):
            if owner >= 0:
                self._seen[owner].append(seen_NF[row])
        return logits_NV

    def hand_over(self, requests: Sequence[Request], results: Sequence[Generated]) -> None:
        """What was seen of all sequences of a call: from the last token of the prefix on, which is the first that is fed."""
        for owner, rows in self._seen.items():
            ids = (*requests[owner].ids, *results[owner].tokens)
            first = len(requests[owner].ids) - 1
            self.tap.keep(ids, first, torch.stack(rows[: len(ids) - first]))
        self._seen.clear()


def features(looks: Sequence[Tensor], logits_NV: Tensor, top: int) -> Tensor:
    """[N, layers · heads · window + top]: looks of all heads of all layers, then the highest probabilities, highest first."""
    looks_NF = torch.cat(list(looks), dim=1).flatten(1)
    likely = logits_NV.float().softmax(dim=-1).topk(top).values if top else logits_NV.new_zeros(len(looks_NF), 0)
    return torch.cat([looks_NF, likely.float()], dim=-1)


def last_looks(weights_BHL: Tensor, positions_B: Tensor, window: int) -> Tensor:
    """[B, H, window]: what a query at p gives to p, p − 1, …; 0 before the start."""
    at_BW = positions_B[:, None] - torch.arange(window, device=positions_B.device)
    found = weights_BHL.gather(2, at_BW.clamp(min=0)[:, None].expand(-1, weights_BHL.shape[1], -1))
    return found * (at_BW >= 0)[:, None]
