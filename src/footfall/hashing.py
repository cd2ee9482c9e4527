"""Names for weights, vocabularies and prefixes of token sequences: a cache or a report knows by them what it speaks of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

_SAMPLED = 65536
_VOCABULARY = "_footfall_fingerprint"


def weights_fingerprint(module: nn.Module) -> str:
    """12 hex digits from every tensor's name, shape, type and an even sample of its numbers: quick at any size."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        flat = tensor.detach().reshape(-1)
        sample = flat[:: max(1, flat.numel() // _SAMPLED)].float().cpu()
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(sample.numpy().tobytes())
    return digest.hexdigest()[:12]


def vocabulary_fingerprint(tokenizer: Any, hidden: str | None = None) -> str:
    """Names a vocabulary by its content; ids may be carried over between equal fingerprints only.

    `hidden` is a token that takes no part: one that was added for a head.
    """
    known: dict[str | None, str] = getattr(tokenizer, _VOCABULARY, {})
    if hidden not in known:
        items = ((token, i) for token, i in tokenizer.get_vocab().items() if token != hidden)
        vocabulary = json.dumps(sorted(items, key=lambda item: item[1]))
        known = {**known, hidden: hashlib.sha256(vocabulary.encode()).hexdigest()[:16]}
        setattr(tokenizer, _VOCABULARY, known)
    return known[hidden]


def prefix_hashes(ids: tuple[int, ...], ends: Sequence[int]) -> list[int]:
    """A hash for each `ids[:end]`, ends ascending: h_k = hash(h_{k-1}, ids[end_{k-1} : end_k]), h_0 = 0.

    All together take one pass. Sequences that begin alike and are cut alike have equal hashes; that others have not is only
    very likely, so who finds something by a hash compares the ids.
    """
    pieces = (ids[start:end] for start, end in zip((0, *ends), ends, strict=False))
    return list(accumulate(pieces, lambda key, piece: hash((key, piece)), initial=0))[1:]
