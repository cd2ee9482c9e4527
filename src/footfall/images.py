"""Images by content: a reference with the hash of what it points to is one name for every copy of the picture.

    plots/a.png  ->  plots/a.png#sha256=9f2c…      (`footfall.types.image_name` is then sha256:9f2c…)

Pixels stay where they are. A picture that cannot be read here (an address on the web) keeps its reference as its name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import Path
from urllib.parse import unquote_to_bytes

from footfall.types import IMAGE_HASH

MOST_BYTES = 64 << 20
"""Of one image; what is larger is refused."""


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
