"""Names by content, of weights, vocabularies, prefixes and images: a cache or a report knows by them what it speaks of.

Images: a reference with the hash of what it points to is one name for every copy of the picture.

    plots/a.png  ->  plots/a.png#sha256=9f2c…      (`footfall.types.image_name` is then sha256:9f2c…)

Pixels stay where they are. A picture that cannot be read here (an address on the web) keeps its reference as its name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
import base64
import binascii
import os
from pathlib import Path
from urllib.parse import unquote_to_bytes

from footfall.types import IMAGE_HASH

_SAMPLED = 65536
_VOCABULARY = "_footfall_fingerprint"


def checksum(file: Path) -> str:
    """SHA-256 of a file of any size."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


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


MOST_BYTES = 64 << 20
"""Of one image; what is larger is refused."""


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Of the longest beginning that both have."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def pinned(reference: str, folder: str | os.PathLike[str] | None) -> str:
    """The reference with the content's hash behind it, where the content is at hand: a file under `folder`, or a `data:` URL.

    A path that leads out of the folder is not followed: the data that names it is not trusted. `None`: there is no folder.
    A reference that has a hash already is checked, where the content is at hand.
    """
    place, marked, stated = reference.rpartition(IMAGE_HASH) if IMAGE_HASH in reference else (reference, "", "")
    content = _inline(place) if place.startswith("data:") else _file(place, folder)
    if content is None:
        return reference
    digest = hashlib.sha256(content).hexdigest()
    if marked and stated != digest:
        raise ValueError(f"the image {_short(place)} has the sha256 {digest}, its reference says {stated}")
    return f"{place}{IMAGE_HASH}{digest}"


def _short(reference: str) -> str:
    return reference if len(reference) <= 60 else f"{reference[:40]}…"


def _inline(reference: str) -> bytes | None:
    head, comma, body = reference.partition(",")
    if not comma:
        return None
    if not head.endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the image {reference[:40]}… is no base64: {error}") from error


def _file(reference: str, folder: str | os.PathLike[str] | None) -> bytes | None:
    if folder is None:
        return None
    root = Path(folder).resolve()
    try:
        path = (root / reference).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return None
        size = path.stat().st_size
    except (OSError, ValueError):  # a name that no file can have
        return None
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes, an image has at most {MOST_BYTES:,}")
    return path.read_bytes()
