"""GGUF files: header, weights and vocabulary, read without the package `gguf` and without a copy in float32 on the way."""

from footfall.gguf.model import load_gguf
from footfall.gguf.vocabulary import gguf_tokenizer

__all__ = ["gguf_tokenizer", "load_gguf"]
