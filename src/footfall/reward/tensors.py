"""The tensors of a checkpoint folder, by name and without loading a model: safetensors only, never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

__all__ = ["TensorFiles", "local_folder"]

_INDEX = "model.safetensors.index.json"
_PATTERNS = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]


def local_folder(source: str | Path) -> Path:
    """The folder itself, or the downloaded snapshot of a hub id."""
    folder = Path(source)
    if folder.is_dir():
        return folder
    name = str(source)
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise FileNotFoundError(f"{name}: there is no such folder, and it is no hub id (owner/name)")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=_PATTERNS))
    except LocalEntryNotFoundError as error:
        raise FileNotFoundError(
            f"{name} is neither a folder nor in the hub's cache, and the hub was not reached"
        ) from error
    except HfHubHTTPError as error:
        raise FileNotFoundError(f"{name} could not be fetched from the hub: {error}") from error


class TensorFiles:
    """Names, shapes and single tensors of all safetensors files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = _files_by_tensor(folder)

    def __contains__(self, name: str) -> bool:
        return name in self._file

    @property
    def names(self) -> list[str]:
        return sorted(self._file)

    def shape(self, name: str) -> tuple[int, ...]:
        with safe_open(self.folder / self._file[name], framework="pt") as file:
            return tuple(file.get_slice(name).get_shape())

    def load(self, name: str) -> Tensor:
        """One tensor in float32."""
        with safe_open(self.folder / self._file[name], framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor.float()

    def rows(self, name: str, rows: list[int]) -> Tensor:
        """Some rows of a matrix in float32, without reading the others."""
        with safe_open(self.folder / self._file[name], framework="pt") as file:
            part = file.get_slice(name)
            count = part.get_shape()[0]
            if max(rows) >= count:
                raise ValueError(f"{self.folder}: {name} has {count} rows, none for token {max(rows)}")
            return torch.cat([part[row : row + 1] for row in rows]).float()


def _files_by_tensor(folder: Path) -> Mapping[str, str]:
    index = folder / _INDEX
    if index.is_file():
        stored = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        outside = [file for file in stored.values() if Path(file).name != file]
        if outside:
            raise ValueError(f"{index} names the file {outside[0]!r} outside its folder")
        return {str(name): str(file) for name, file in stored.items()}
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found.update(dict.fromkeys(file.keys(), path.name))
    if not found:
        pickles = sorted(p.name for p in [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
        hint = (
            f"; {pickles[0]} is a pickle, which can run code: convert it with a tool that you trust in a place apart"
            if pickles
            else ""
        )
        raise FileNotFoundError(f"{folder} holds no safetensors weights{hint}")
    return found
