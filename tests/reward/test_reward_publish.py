"""Trained as a published family: the folder that is written is read by the family's own reader to the same scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.reward.checkpoint import checkpoint
from footfall.reward.families.eurus import ImplicitJudge
from footfall.reward.generative.critic import Critique
from footfall.reward.generative.genprm import GenPRM, verdicts
from footfall.train import TrainConfig, train_prm
from footfall.types import Cost, Judge, Judged, Judgement
from tests.reward.tiny_checkpoints import llama3_tokenizer, qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import trace

torch.set_num_threads(1)
TRACES = [trace("ok", "no", "ok", id="a"), trace("no", id="b"), trace("no", "ok", id="c")]
QUICK = TrainConfig(lr=3e-3, epochs=1, batch_size=8, eval_share=0.25, device="cpu")


def rows(n: int = 16) -> list[Judged]:
    found = []
    for i in range(n):
        good = [(i * 7 + k * k * 3 + i // 3) % 3 != 0 for k in range(1 + i % 2)]
        made = trace(*("ok" if g else "no" for g in good), id=f"t{i}", prompt=f"q{i // 2}")
        found.append(Judged(replace(made, correct=good[-1]), Judgement(made.id, tuple(map(float, good)), "toy")))
    return found


def decoder(tmp_path: Path, kind: str = "qwen2", **shape: Any) -> Path:
    save_checkpoint(tmp_path / "lm", kind, llama3_tokenizer() if kind == "llama" else qwen_tokenizer(), seed=1, **shape)
    return tmp_path / "lm"


@pytest.mark.parametrize(
    ("family", "kind", "shape"),
    [
        ("qwen2.5-math-prm", "qwen2", {}), ("trl", "qwen2", {}), ("trl", "llama", {}), ("rlhflow", "llama", {}),
        ("rlhflow", "llama", {"tie_word_embeddings": True}),
    ],
)  # fmt: skip
def test_what_is_published_is_read_by_the_family_to_the_same_scores(
    family: str, kind: str, shape: dict[str, Any], tmp_path: Path
) -> None:
    config = replace(QUICK, as_family=family, objective="ce")
    result = train_prm(rows(), decoder(tmp_path, kind, **shape), config, tmp_path / "run")
    published = tmp_path / "run" / "published"
    assert not (published / "step_head.json").exists() and (published / "config.json").is_file()
    theirs = checkpoint(published, family=family, device="cpu").judge(TRACES)
    ours = checkpoint(result.folder, device="cpu").judge(TRACES)
    for own, read in zip(ours, theirs, strict=True):
        assert read.values == pytest.approx(own.values, abs=1e-6)
    assert len({value for said in theirs for value in said.values}) > 1


def test_an_implicit_prm_is_published_as_a_plain_language_model(tmp_path: Path) -> None:
    base = decoder(tmp_path)
    config = replace(QUICK, as_family="eurus-prm", objective="log-ratio")
    result = train_prm(rows(), base, config, tmp_path / "run")
    published = tmp_path / "run" / "published"
    assert not (published / "step_head.json").exists()
    theirs = checkpoint(published, family="eurus-prm", base=str(base), device="cpu")
    ours = checkpoint(result.folder, device="cpu")
    assert isinstance(theirs, ImplicitJudge) and isinstance(ours, ImplicitJudge)
    assert theirs.beta == ours.beta == 0.001, "the authors train with 0.05, and read with this"
    for own, read in zip(ours.judge(TRACES), theirs.judge(TRACES), strict=True):
        assert read.values == pytest.approx(own.values, abs=1e-9)
        assert read.aspects["q"] == pytest.approx(own.aspects["q"], abs=1e-9) and any(read.aspects["q"])


def test_a_critic_is_published_as_a_plain_language_model(tmp_path: Path) -> None:
    config = replace(QUICK, as_family="genprm", objective="verdict")
    result = train_prm(rows(), decoder(tmp_path), config, tmp_path / "run")
    published = tmp_path / "run" / "published"
    stored = [(folder / "model.safetensors").read_bytes() for folder in (result.folder, published)]
    assert stored[0] == stored[1] and not (published / "step_head.json").exists()
    ours, theirs = checkpoint(result.folder, device="cpu"), checkpoint(published, family="genprm", device="cpu")
    values = [_verdict_values(judge) for judge in (ours, theirs)]
    assert values[0] == pytest.approx(values[1], abs=1e-9) and len(set(values[0])) > 1, "p(Yes) where a verdict stands"


def _verdict_values(judge: Judge) -> list[float | None]:
    """What the family's own reader says of every step, each with an empty analysis before it."""
    assert isinstance(judge, GenPRM)
    labels = [Judged(t, Judgement(t.id, (1.0,) * len(t.steps), "toy")) for t in TRACES]
    asked = [[Critique("", Cost(), verdict.request)] for row in labels for verdict in verdicts(row)]
    return [opinion.value for (opinion,) in judge.decide(asked, ("Yes", "No"))]


def test_wrong_use_is_told_in_one_line(tmp_path: Path) -> None:
    base = decoder(tmp_path)

    def refused(match: str, **changes: Any) -> None:
        with pytest.raises(ValueError, match=match):
            train_prm(rows(), base, replace(QUICK, **changes), tmp_path / "run")

    refused("holds one head with the outputs bad, good and cannot hold the outputs value, reward; leave --as out",
            as_family="trl", objective="value-and-reward")  # fmt: skip
    refused("cannot hold heads of your own", as_family="trl", heads=4)
    refused("a rlhflow is a llama decoder, and .* a qwen2", as_family="rlhflow")
    refused("'skywork-o1-prm' is a family that is only read here; PRMs are written as", as_family="skywork-o1-prm")
    refused("'nobody' is no family", as_family="nobody")
    refused("leave --family out", as_family="trl", family="pqm")
    refused("holds all weights, no adapter", as_family="trl", lora_rank=4)
    refused("is trained by the objective log-ratio", as_family="eurus-prm")
    llama = tmp_path / "llama"
    save_checkpoint(llama, "llama", llama3_tokenizer())
    for name, objective in (("eurus-prm", "log-ratio"), ("genprm", "verdict")):
        # Its own reader takes no other decoder, and would refuse what was published.
        with pytest.raises(ValueError, match=f"a {name} is a qwen2 decoder, and .* a llama: begin from such a decoder"):
            train_prm(rows(), llama, replace(QUICK, as_family=name, objective=objective), tmp_path / name)
    # What is made of a Llama with another vocabulary would be trained to its end, and then be refused by its own reader.
    other = tmp_path / "other-vocabulary"
    save_checkpoint(other, "llama", qwen_tokenizer())
    unread = r"'<\|start_header_id\|>' is not one token of its vocabulary; .* as the decoder of RLHFlow/Llama3.1-8B-PRM"
    with pytest.raises(ValueError, match=unread):
        train_prm(rows(), other, replace(QUICK, as_family="rlhflow"), tmp_path / "other")
    packed = tmp_path / "lm.gguf"
    packed.touch()
    with pytest.raises(
        ValueError, match=r"lm\.gguf is a GGUF file, and a folder .* is needed here .*load_model\('.*lm\.gguf'"
    ):
        train_prm(rows(), packed, replace(QUICK, as_family="trl"), tmp_path / "packed")
