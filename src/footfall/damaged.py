"""Files of models are of others and may be damaged: what they claim is held against their size before memory is taken,
and whatever a library says of them becomes one line that names them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from footfall.terminal import one_line

_NUMBERS_A_BYTE = 8
"""Of the most tightly packed weights."""
_LONGEST = 300
_LONGEST_LINE = 2000
_LARGEST_TEXT = 1 << 28
_OF_TOKENIZERS = (".json", ".model", ".txt", ".jinja", ".tiktoken")
_MOST_GROWTH = 10_000
_LONGEST_PADDING = 1 << 22
LFS_POINTER = b"version https://git-lfs"
"""A file begins with this where Git LFS has left its pointer and not the content."""
_NO_MEMORY = ("out of memory", "alloc_failed", "can't allocate memory", "not enough memory")
"""What torch, its libraries and drivers say; they agree on no type of error."""


def says_no_memory(said: str) -> bool:
    """Whether a library's message is that memory did not suffice."""
    return any(words in said.lower() for words in _NO_MEMORY)


@contextmanager
def naming(source: str | Path) -> Iterator[None]:
    """What a library raises over the files in `source` is a ValueError that names them.

    Libraries raise errors of all kinds over damage, bare `Exception` among them. Those that say that a file, a package or
    memory is missing stay what they are.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None or isinstance(error, FileNotFoundError) or str(source) in str(error):
            raise
        raise OSError(f"{source}: {one_line(str(error), _LONGEST_LINE)}") from error  # of a library, in its own words
    except (ImportError, MemoryError):
        raise
    except BaseException as error:  # a panic of a library in Rust is no Exception
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        said = one_line(str(error), _LONGEST_LINE)
        ours = type(error).__module__.startswith("footfall.")
        if ours or (isinstance(error, RuntimeError) and says_no_memory(said)):  # a name in the file may say it too
            raise
        if isinstance(error, ValueError):
            if said == str(error) and str(source) in said:
                raise
            raise ValueError(said if str(source) in said else f"{source}: {said}") from error
        why = f"{type(error).__name__}: {said}"[:_LONGEST]
        raise ValueError(f"{source}: a file of it is damaged or not what it should be ({why})") from error


def text_of(path: Path) -> str:
    """The text of a file that comes with a model or a run: a plain file of a size that such files have."""
    _check_size(path)
    return path.read_text(encoding="utf-8")


def json_of(path: Path) -> Any:
    """What such a file holds."""
    try:
        return json.loads(text_of(path))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error


def check_claims(config: Any, tensors: int, size: int, source: str | Path) -> None:
    """A config that claims more than `tensors` tensors in `size` bytes can hold is refused, before a model is built by it.

    Each layer has a tensor, and each matrix of width x n has that many numbers in the file.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config

    def claimed(name: str) -> int:
        found = getattr(text, name, None)
        if found is not None and (not isinstance(found, int) or found < 0):
            raise ValueError(f"{source}: its config says {name} = {str(found)[:40]}, which is no size")
        return found or 0

    most = _NUMBERS_A_BYTE * size
    layers, width = claimed("num_hidden_layers"), max(1, claimed("hidden_size"))
    inner = claimed("num_attention_heads") * claimed("head_dim")
    for name, needed, there in (
        ("num_hidden_layers", layers, tensors),
        ("hidden_size", width, most),
        ("vocab_size", claimed("vocab_size") * width, most),
        ("head_dim", inner * width, most),
    ):
        if needed > there:
            raise ValueError(
                f"{source}: its config says {name} = {getattr(text, name)}, more than its weights can be "
                f"({tensors} tensors, {size} bytes); the config or the weights are damaged"
            )
    for name in ("intermediate_size", "num_key_value_heads"):
        found = getattr(text, name, None)
        for each in found if isinstance(found, list | tuple) else [found or 0]:
            if not isinstance(each, int) or not 0 <= each * width <= most:
                raise ValueError(
                    f"{source}: its config says {name} = {str(each)[:40]}, more than its weights can be ({size} bytes)"
                )


def check_sizes(folder: Path) -> None:
    """What libraries read of a folder beside the weights are plain files of a size that such files have; none is a pointer."""
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.suffix in _OF_TOKENIZERS:
            _check_size(file)
        if file.suffix in (*_OF_TOKENIZERS, ".safetensors") and file.is_file():
            with file.open("rb") as stream:
                if stream.read(len(LFS_POINTER)) == LFS_POINTER:
                    raise ValueError(
                        f"{file} is a Git LFS pointer to the file and not the file: run `git lfs pull` in its clone, or "
                        "fetch it by `hf download`"
                    )


def _check_size(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no plain file but a folder, pipe or device")
    if path.exists() and path.stat().st_size > _LARGEST_TEXT:
        raise ValueError(
            f"{path} has {path.stat().st_size} bytes; no tokenizer or config has more than {_LARGEST_TEXT}"
        )


def check_tokenizer(folder: Path) -> None:
    """Its files are of a size that tokenizers have, and the rules of `tokenizer.json` make no text grow without limit."""
    check_sizes(folder)
    path = folder / "tokenizer.json"
    if not path.is_file():
        return
    with naming(path):
        stored = json.loads(path.read_bytes())
        growth = 1
        rules = [stored.get("normalizer"), stored.get("decoder")]
        while rules:
            rule = rules.pop()
            if not isinstance(rule, dict):
                continue
            rules += [*rule.get("normalizers", ()), *rule.get("decoders", ())]
            growth *= max(1, len(rule.get("content", ""))) if rule.get("type") == "Replace" else 1
            if growth > _MOST_GROWTH:
                raise ValueError(f"{path}: its rules make a text more than {_MOST_GROWTH} times as long")
        padding = stored.get("padding") or {}
        if (
            isinstance(padding["strategy"] if padding else None, dict)
            and padding["strategy"]["Fixed"] > _LONGEST_PADDING
        ):
            raise ValueError(f"{path} pads every text to {padding['strategy']['Fixed']} tokens")
