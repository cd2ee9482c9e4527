"""The container: facts (key and value) and tensors of a GGUF file, of versions 2 and 3.

Nothing in it is trusted: every length is held against the file's own, and an error names the file.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from footfall.damaged import naming

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 4


class TensorInfo(NamedTuple):
    """Where a tensor is; `kind` is ggml's number for how it is quantised."""

    shape: tuple[int, ...]
    kind: int
    offset: int


class Container(NamedTuple):
    """What stands before the weights: facts with their arrays, the tensors, and where their data begin."""

    file: Path
    facts: dict[str, Any]
    tensors: dict[str, TensorInfo]
    data_start: int

    @property
    def architecture(self) -> str:
        """llama, qwen2, gemma3, …"""
        return str(self.facts.get("general.architecture"))

    def fact(self, name: str, default: Any = None) -> Any:
        """A fact of the architecture, such as `block_count`."""
        return self.facts.get(f"{self.architecture}.{name}", default)


class _Cursor:
    """Reads a mapped file from front to back."""

    def __init__(self, data: mmap.mmap, name: str) -> None:
        self.data, self.name, self.at = data, name, 4

    def skip(self, length: int) -> int:
        """Go on by so many bytes, which must be there; gives where they begin."""
        start = self.at
        if length > len(self.data) - start:
            raise ValueError(f"{self.name} ends in its header: it is cut off, or no GGUF file")
        self.at += length
        return start

    def take(self, layout: str) -> Any:
        found = struct.unpack_from(layout, self.data, self.skip(struct.calcsize(layout)))
        return found[0] if len(found) == 1 else found

    def text(self) -> str:
        start = self.skip(self.take("<Q"))
        return self.data[start : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.take(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError(f"{self.name}: its metadata hold a value of the unknown type {kind}")
        inner, count = self.take("<IQ")
        if inner in _SCALARS:
            layout = np.dtype(_SCALARS[inner])
            start = self.skip(count * layout.itemsize)
            return np.frombuffer(self.data[start : self.at], layout).tolist()
        if inner != _STRING:
            raise ValueError(f"{self.name}: its metadata hold an array of the unknown type {inner}")
        return [self.text() for _ in range(count)]

    def tensor(self) -> tuple[str, TensorInfo]:
        name, dimensions = self.text(), self.take("<I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"{self.name}: the tensor {name} has {dimensions} dimensions")
        shape = [self.take("<Q") for _ in range(dimensions)]
        kind, offset = self.take("<IQ")
        return name, TensorInfo(tuple(reversed(shape)), kind, offset)


def is_gguf(source: str | Path) -> bool:
    """Whether this names a GGUF file rather than a folder or a hub id."""
    return str(source).lower().endswith(".gguf")


def read_container(file: str | Path) -> Container:
    """Facts and tensors of the file; the weights are not read."""
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file")
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise ValueError(f"{file.name} is not a GGUF file")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            cursor = _Cursor(data, file.name)
            version, n_tensors, n_facts = cursor.take("<IQQ")
            if version not in (2, 3):
                raise ValueError(f"{file.name} is GGUF version {version}; versions 2 and 3 can be read")
            with naming(file.name):
                facts = {cursor.text(): cursor.value(cursor.take("<I")) for _ in range(n_facts)}
                tensors = dict(cursor.tensor() for _ in range(n_tensors))
            alignment = facts.get("general.alignment", 32)
            if not isinstance(alignment, int) or not 0 < alignment <= len(data):
                raise ValueError(f"{file.name}: its tensors begin at multiples of {str(alignment)[:40]} bytes")
            return Container(file, facts, tensors, -(-cursor.at // alignment) * alignment)
