"""Scalar heads against a slow reference: MathMinos, ReasonFlux-PRM-1.5B, Babelscape, Universal-PRM, llemma, PQM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from footfall.judging import traits
from footfall.reward.checkpoint import checkpoint
from footfall.reward.families.llemma import llemma as llemma_family
from tests.reward.families.head_checkpoints import (
    babelscape,
    llemma,
    mathminos,
    pqm,
    reasonflux_1_5b,
    universal_prm,
)
from tests.reward.families.reference import QUESTION, STEPS, TOLERANCE, hidden, prefix_by_prefix, trace, values
from tests.reward.tiny_checkpoints import causal_lm, sentencepiece_tokenizer

torch.set_num_threads(1)


def test_mathminos_gives_the_raw_logit_at_the_mark_with_its_space(tmp_path: Path) -> None:
    made = mathminos(tmp_path)
    mark = made.tokenizer.encode("и")[-1]
    assert made.tokenizer.convert_ids_to_tokens(mark) == "▁и"

    def score(steps: list[str]) -> float:
        text = f"Human: {QUESTION}\n\nAssistant:" + "".join(f"Step {k}: {s} и\n" for k, s in enumerate(steps, 1))
        ids = made.tokenizer.encode(text)
        marks = [i for i, token in enumerate(ids) if token == mark]
        assert len(marks) == len(steps)
        return float(made.linear("score", hidden(made.model, ids)[marks[-1]]))

    judge = checkpoint(tmp_path)
    assert judge.name.startswith("mathminos@")
    assert traits(judge).threshold == 0.0
    assert values(judge, trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_reasonflux_1_5b_values_each_prefix_at_its_last_token(tmp_path: Path) -> None:
    made = reasonflux_1_5b(tmp_path / "ReasonFlux-PRM-1.5B")

    def score(steps: list[str]) -> float:
        ids = made.tokenizer.encode(QUESTION + "\n\n".join(steps))
        return float(made.linear("reward_head", hidden(made.model, ids)[-1]).sigmoid())

    assert values(checkpoint(made.folder), trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_a_pickled_reward_head_is_refused_and_the_conversion_told(tmp_path: Path) -> None:
    made = reasonflux_1_5b(tmp_path / "ReasonFlux-PRM-1.5B")
    (made.folder / "reward_head.safetensors").unlink()
    torch.save({}, made.folder / "reward_head.pt")
    with pytest.raises(ValueError, match=r"pickle reward_head\.pt.*convert it in a place apart"):
        checkpoint(made.folder)


def test_babelscape_gives_the_scalar_at_the_line_with_the_mark(tmp_path: Path) -> None:
    made = babelscape(tmp_path / "Llama-3.1-8B-PRM800k-PDDL-r")
    (mark,) = made.tokenizer.encode("ки", add_special_tokens=False)

    def score(steps: list[str]) -> float:
        lines = "\n".join(f"Step {k}: {s}\nки" for k, s in enumerate(steps, 1))
        ids = made.tokenizer.encode(f"Problem: {QUESTION}\nSteps:\n{lines}")
        at = max(i for i, token in enumerate(ids) if token == mark)
        return float(made.linear("reward_head", hidden(made.model, ids)[at]))

    assert values(checkpoint(made.folder), trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_babelscape_refuses_a_second_head_it_cannot_name(tmp_path: Path) -> None:
    made = babelscape(tmp_path / "Llama-3.1-8B-PRM800k-r")
    weights = load_file(made.folder / "model.safetensors")
    save_file({**weights, "other.weight": torch.ones(1, 32)}, made.folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"one head of one layer.*other, reward_head"):
        checkpoint(made.folder)


@pytest.mark.parametrize("family", [None, "universal-prm-reference"])
def test_universal_prm_shows_the_answer_only_when_asked(family: str | None, tmp_path: Path) -> None:
    made = universal_prm(tmp_path / "Universal-PRM-7B")
    known = "9" if family else "There is no reference answer for this question."

    def score(steps: list[str]) -> float:
        question = f"{QUESTION}\n\n###\n\nThe reference answer is: {known}"
        turns = [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": question},
        ]
        text = made.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = made.tokenizer.encode(text) + made.tokenizer.encode("\n\n".join(steps) + "\n\n")
        ids.append(made.tokenizer.eos_token_id)
        inner = made.linear("score.0", hidden(made.model, ids)[-1]).relu()
        return float(made.linear("score.2", inner).sigmoid())

    told = trace()
    told = replace(told, problem=replace(told.problem, answer="9"))
    judge = checkpoint(made.folder, family=family)
    assert values(judge, told) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_llemma_takes_the_mean_output_at_the_first_newline_after_a_step(tmp_path: Path) -> None:
    made = llemma(tmp_path / "llemma-7b-prm-prm800k-level-1to3-hf")
    newline = made.tokenizer.convert_tokens_to_ids("<0x0A>")
    steps = ("Blank lines\n\ninside go.", " So do spaces. ", "One\nnewline stays.")

    def score(given: list[str]) -> float:
        text = "".join(s.replace("\n\n", "").strip() + "\n\n" for s in given)
        ids = made.tokenizer.encode(f"# Question\n\n{QUESTION}\n\n# Solution\n\n{text}")
        pairs = [i for i in range(len(ids) - 1) if ids[i : i + 2] == [newline, newline]]
        logits_V = hidden(made.model, ids)[pairs[-1]] @ load_file(made.folder / "model.safetensors")["lm_head.weight"].T
        return float(logits_V.mean().sigmoid())

    judge = checkpoint(made.folder)
    assert judge.name.startswith("llemma-prm@")
    assert values(judge, trace(*steps)) == pytest.approx(prefix_by_prefix(score, steps), abs=TOLERANCE)


def test_llemma_of_the_card_is_the_squashed_mean_of_two_logits() -> None:
    mean = torch.tensor([[0.3, 2.1]]).mean(dim=-1, keepdim=True)
    assert llemma_family().readout.columns(mean).values == pytest.approx([0.768525], abs=1e-6)


def test_llemma_refuses_the_output_matrix_of_a_language_model(tmp_path: Path) -> None:
    folder = tmp_path / "llemma-7b-prm-of-another-make"
    tokenizer = sentencepiece_tokenizer()
    causal_lm("llama", len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with pytest.raises(ValueError, match="do not repeat 2"):
        checkpoint(folder)


@pytest.mark.parametrize("wrapped", [False, True])
def test_pqm_gives_the_raw_q_value_at_its_token(wrapped: bool, tmp_path: Path) -> None:
    made = pqm(tmp_path, wrapped=wrapped)
    mark = made.tokenizer.convert_tokens_to_ids("[PRM]")

    def score(steps: list[str]) -> float:
        answer = " [PRM]\n".join(f"Step {k}: {s}" for k, s in enumerate(steps, 1)) + " [PRM]"
        ids = made.tokenizer.encode(f"[INST] {QUESTION}  [/INST]\n{answer}", add_special_tokens=False)
        at = max(i for i, token in enumerate(ids) if token == mark)
        return float(made.linear("v_head.summary", hidden(made.model, ids)[at]))

    judge = checkpoint(tmp_path)
    assert judge.name.startswith("pqm@")
    assert traits(judge).threshold is None
    assert values(judge, trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)
