"""Tiny checkpoints of the families with class heads and scalar heads, by family name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from tests.reward.tiny_checkpoints import (
    llama3_tokenizer,
    qwen_tokenizer,
    random_linear,
    save_checkpoint,
    sentencepiece_tokenizer,
)


class Made(NamedTuple):
    """A saved checkpoint, and what a slow reference needs of it."""

    folder: Path
    model: Any
    tokenizer: Any
    head: dict[str, Tensor]

    def linear(self, name: str, hidden: Tensor) -> Tensor:
        """The stored layer `name` applied to hidden states."""
        return hidden @ self.head[f"{name}.weight"].T + self.head.get(f"{name}.bias", torch.zeros(1))


def _layer(name: str, rows: int, bias: bool = True, seed: int = 7) -> dict[str, Tensor]:
    weight = {f"{name}.weight": random_linear(rows, seed=seed)}
    return {**weight, f"{name}.bias": 0.2 * torch.arange(rows) - 0.1} if bias else weight


def _saved(
    folder: Path, model_type: str, tokenizer: Any, head: dict[str, Tensor], architecture: str | None = None
) -> Made:
    config = {"architectures": [architecture]} if architecture else None
    drop = ("lm_head.weight",)
    return Made(
        folder, save_checkpoint(folder, model_type, tokenizer, head=head, drop=drop, config=config), tokenizer, head
    )


def reasoneval_7b(folder: Path, rows: int = 3) -> Made:
    tokenizer = sentencepiece_tokenizer()
    tokenizer.pad_token = "<s>"
    return _saved(folder, "mistral", tokenizer, _layer("score_head", rows, bias=False), "ReasonEval_7B")


def reasoneval_34b(folder: Path) -> Made:
    tokenizer = sentencepiece_tokenizer("<pad>")
    tokenizer.pad_token = "<pad>"
    return _saved(folder, "llama", tokenizer, _layer("score_head", 3), "ReasonEval_34B")


def token_classifier(folder: Path, rows: int = 2) -> Made:
    return _saved(folder, "qwen2", qwen_tokenizer(), _layer("score", rows), "Qwen2ForTokenClassification")


def token_classifier_with_bos(folder: Path) -> Made:
    return _saved(folder, "llama", llama3_tokenizer(), _layer("score", 2), "LlamaForTokenClassification")


def mathminos(folder: Path, rows: int = 1) -> Made:
    return _saved(folder, "mistral", _with_spaced_mark(), _layer("score", rows), "MistralForTokenClassification")


def reasonflux_7b(folder: Path, rows: int = 2) -> Made:
    head = {**_layer("score.0", 32), **_layer("score.2", rows, seed=8)}
    return _saved(folder, "qwen2", qwen_tokenizer("<extra_0>"), head, "Qwen2ForProcessRewardModel")


def reasonflux_1_5b(folder: Path, rows: int = 1) -> Made:
    made = Made(
        folder, save_checkpoint(folder, "qwen2", qwen_tokenizer()), qwen_tokenizer(), _layer("reward_head", rows)
    )
    save_file(
        {name.removeprefix("reward_head."): t for name, t in made.head.items()}, folder / "reward_head.safetensors"
    )
    return made


def actprm(folder: Path, outputs: int = 1) -> Made:
    generator = torch.Generator().manual_seed(3)
    head: dict[str, Tensor] = {}
    for layer, (taken, given) in {"nn1": (32, 8), "nn2": (8, 8), "nn_out": (8, outputs)}.items():
        for part in ("model", "reg_model"):
            head[f"score.{part}.{layer}.weight"] = 0.3 * torch.randn(4, taken, given, generator=generator)
            head[f"score.{part}.{layer}.bias"] = 0.3 * torch.randn(4, given, generator=generator)
    return _saved(folder, "qwen2", qwen_tokenizer("<extra_0>"), head, "Qwen2ForEnsemblePRM")


def babelscape(folder: Path, rows: int = 1) -> Made:
    return _saved(folder, "llama", llama3_tokenizer(), _layer("reward_head", rows))


def universal_prm(folder: Path, rows: int = 1) -> Made:
    return _saved(folder, "qwen2", qwen_tokenizer(), {**_layer("score.0", 32), **_layer("score.2", rows, seed=8)})


def llemma(folder: Path, rows: int = 2) -> Made:
    """The output matrix repeats two rows for the whole vocabulary, as the authors' conversion leaves it."""
    tokenizer = sentencepiece_tokenizer()
    model = save_checkpoint(folder, "llama", tokenizer)
    pair = random_linear(rows)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = pair.repeat(len(tokenizer) // rows, 1)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return Made(folder, model, tokenizer, {"pair.weight": pair})


def pqm(folder: Path, rows: int = 1, wrapped: bool = False) -> Made:
    """`wrapped`: all names under `pretrained_model.`, as a sharded trainer saves them."""
    made = _saved(folder, "llama", llama3_tokenizer("[PRM]"), _layer("v_head.summary", rows))
    if wrapped:
        weights = load_file(folder / "model.safetensors")
        renamed = {n if n.startswith("v_head") else f"pretrained_model.{n}": t for n, t in weights.items()}
        save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    return made


def _with_spaced_mark() -> Any:
    """Mistral's vocabulary has `▁и` as one token."""
    plain = sentencepiece_tokenizer()
    stored = json.loads(plain.backend_tokenizer.to_str())
    stored["model"]["vocab"]["▁и"] = len(stored["model"]["vocab"])
    stored["model"]["merges"].append(["▁", "и"])
    wrap: Any = PreTrainedTokenizerFast
    backend = Tokenizer.from_str(json.dumps(stored))
    return wrap(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>")


MAKERS: dict[str, tuple[str, Callable[[Path], Made]]] = {
    "reasoneval-7b": ("tuned", reasoneval_7b),
    "reasoneval-34b": ("tuned", reasoneval_34b),
    "trl": ("tuned", token_classifier),
    "trl-blank-line": ("Qwen2.5-Math-7B-Instruct-PRM-0.2", token_classifier),
    "pure": ("PURE-PRM-7B", token_classifier),
    "mathminos": ("tuned", mathminos),
    "reasonflux-prm-7b": ("ReasonFlux-PRM-7B", reasonflux_7b),
    "reasonflux-prm-1.5b": ("ReasonFlux-PRM-1.5B", reasonflux_1_5b),
    "actprm": ("tuned", actprm),
    "babelscape": ("Llama-3.1-8B-PRM800k-PDDL-r", babelscape),
    "universal-prm": ("Universal-PRM-7B", universal_prm),
    "llemma-prm": ("llemma-7b-prm-metamath-level-1to3-hf", llemma),
    "pqm": ("tuned", pqm),
}
"""Family: the name of the folder by which it is found (`tuned` where the weights alone say it), and its maker."""
