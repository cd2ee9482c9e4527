"""Families that say good or bad by a pair of vocabulary tokens at a mark, against the slow reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.reward.checkpoint import checkpoint
from footfall.reward.families.pathfinder import pathfinder
from footfall.reward.family import families
from tests.reward.families.reference import (
    QUESTION,
    STEPS,
    TOLERANCE,
    next_logits,
    prefix_by_prefix,
    trace,
    values,
)
from tests.reward.families.zoo import adapter_folder
from tests.reward.tiny_checkpoints import (
    llama3_tokenizer,
    qwen_tokenizer,
    random_linear,
    save_checkpoint,
    sentencepiece_tokenizer,
)

torch.set_num_threads(1)


def one_id(tokenizer: Any, text: str) -> int:
    (found,) = tokenizer.encode(text, add_special_tokens=False)
    return int(found)


def psa_text(steps: list[str]) -> str:
    question = QUESTION.replace("\n", "")
    numbered = (f"Step {k}: " + s.replace("\n", "") for k, s in enumerate(steps, 1))
    return f"{question} " + "".join(f"{s} \n\n\n\n\n " for s in numbered)


def psa_score(model: Any, tokenizer: Any, steps: list[str]) -> float:
    ids = tokenizer.encode(psa_text(steps))
    at = max(i for i, token in enumerate(ids) if token == one_id(tokenizer, " \n\n\n\n\n"))
    return float(next_logits(model, ids)[at, [one_id(tokenizer, " +"), one_id(tokenizer, " -")]].softmax(-1)[0])


def test_math_psa_is_read_from_a_bare_adapter_and_its_base(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    base, folder = tmp_path / "base", tmp_path / "Math-psa"
    plain = save_checkpoint(base, "qwen2", tokenizer)
    model = adapter_folder(folder, base, tokenizer, ["q_proj", "v_proj"])
    expected = prefix_by_prefix(lambda steps: psa_score(model, tokenizer, steps), STEPS)
    unadapted = prefix_by_prefix(lambda steps: psa_score(plain, tokenizer, steps), STEPS)

    assert values(checkpoint(folder), trace()) == pytest.approx(expected, abs=TOLERANCE)
    assert values(checkpoint(folder, base=str(base)), trace()) == pytest.approx(expected, abs=TOLERANCE)
    assert expected != pytest.approx(unadapted, abs=0.01)


def test_an_adapter_of_the_output_matrix_is_refused_rather_than_dropped(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    base, folder = tmp_path / "base", tmp_path / "Math-psa"
    save_checkpoint(base, "qwen2", tokenizer)
    adapter_folder(folder, base, tokenizer, ["q_proj", "lm_head"])
    with pytest.raises(ValueError, match=r"adapts what is not part of a Qwen2Model: .*lm_head"):
        checkpoint(folder)


def test_math_psa_takes_newlines_out_of_question_and_steps(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    folder = tmp_path / "math-psa-merged"
    model = save_checkpoint(folder, "qwen2", tokenizer)
    steps = ("She uses\n3 + 4.\n\n", "So\n\n9.", "\n\n\n\n\n")
    expected = prefix_by_prefix(lambda s: psa_score(model, tokenizer, s), steps)
    assert values(checkpoint(folder), trace(*steps)) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize(("kind", "name"), [("llama", "VersaPRM"), ("qwen2", "Qwen-PRM800K")])
def test_versaprm_takes_plus_for_good_though_the_pair_is_listed_minus_first(
    tmp_path: Path, kind: str, name: str
) -> None:
    tokenizer = llama3_tokenizer() if kind == "llama" else qwen_tokenizer()
    folder = tmp_path / name
    model = save_checkpoint(folder, kind, tokenizer)
    pair = [one_id(tokenizer, "-"), one_id(tokenizer, "+")]

    def score(steps: list[str]) -> float:
        ids = tokenizer.encode(f"{QUESTION} \n\n" + "".join(f"{s} \n\n\n\n" for s in steps))
        at = max(i for i, token in enumerate(ids) if token == one_id(tokenizer, " \n\n\n\n"))
        return float(next_logits(model, ids)[at, pair].softmax(-1)[1])

    judge = checkpoint(folder)
    assert judge.name.startswith("versaprm@")
    expected = prefix_by_prefix(score, STEPS)
    assert values(judge, trace()) == pytest.approx(expected, abs=TOLERANCE)
    judgement = judge.judge([trace()])[0]
    assert judgement.aspects["bad"] == pytest.approx([1 - p for p in expected], abs=TOLERANCE)


def test_er_prm_reads_mark_and_pair_with_their_leading_space_and_no_newline_between_steps(tmp_path: Path) -> None:
    tokenizer = llama3_tokenizer()
    folder = tmp_path / "Llama3.1-Math-PRM"
    model = save_checkpoint(folder, "llama", tokenizer)
    mark, plus, minus = (one_id(tokenizer, text) for text in (" ки", " +", " -"))

    def score(steps: list[str]) -> float:
        text = f"{QUESTION} " + "\n".join(f"Step {k}: {s} ки" for k, s in enumerate(steps, 1))
        ids = tokenizer.encode(text.replace(" ки\n", " ки"))
        at = max(i for i, token in enumerate(ids) if token == mark)
        return float(next_logits(model, ids)[at, [plus, minus]].softmax(-1)[0])

    assert values(checkpoint(folder), trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_pathfinder_of_the_card_reads_the_pair_of_its_second_pass() -> None:
    assert pathfinder().readout.columns(torch.tensor([[1.2, -0.3]])).values == pytest.approx((0.817574,), abs=1e-6)


@pytest.mark.parametrize("name", ["math-psa", "versaprm", "er-prm"])
def test_the_pair_softmax_is_not_the_softmax_of_the_vocabulary(name: str) -> None:
    """Logits 2.0 for good and 0.5 for bad give .817574, whatever the other words have (card, check 2)."""
    readout = families()[name].readout
    logits = torch.tensor([[2.0, 0.5]])[:, [("good", "bad").index(c) for c in readout.classes]]
    assert readout.columns(logits).values == pytest.approx((0.817574,), abs=1e-6)


@pytest.mark.parametrize("name", ["math-psa", "versaprm", "er-prm"])
def test_a_tokenizer_without_the_mark_is_of_another_family(tmp_path: Path, name: str) -> None:
    save_checkpoint(tmp_path, "llama" if name != "math-psa" else "qwen2", sentencepiece_tokenizer())
    # A SentencePiece vocabulary in Qwen's tokenizer class loses its spaces, which is noticed first.
    reason = (
        "turns .* into" if name == "math-psa" else f"not of the family {name}: .* is not one token of its vocabulary"
    )
    with pytest.raises(ValueError, match=reason):
        checkpoint(tmp_path, family=name)


@pytest.mark.parametrize("name", ["math-psa", "versaprm", "er-prm"])
def test_a_checkpoint_with_a_class_head_is_of_another_family(tmp_path: Path, name: str) -> None:
    kind = "qwen2" if name == "math-psa" else "llama"
    tokenizer = qwen_tokenizer() if kind == "qwen2" else llama3_tokenizer()
    save_checkpoint(tmp_path, kind, tokenizer, head={"score.weight": random_linear(2)})
    with pytest.raises(ValueError, match=f"not of the family {name}: it has a tensor score.weight"):
        checkpoint(tmp_path, family=name)
