"""One family of each basic read-out against the slow reference: class head, pair at and before a mark, scalar head."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from footfall.reward.checkpoint import checkpoint
from tests.reward.families.reference import (
    QUESTION,
    STEPS,
    TOLERANCE,
    hidden,
    next_logits,
    prefix_by_prefix,
    trace,
    values,
)
from tests.reward.tiny_checkpoints import (
    llama3_tokenizer,
    qwen_tokenizer,
    random_linear,
    save_checkpoint,
    sentencepiece_tokenizer,
)

torch.set_num_threads(1)


def test_qwen_math_prm_reads_the_second_class_at_each_marker(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer("<extra_0>")
    head = {"score.0.weight": random_linear(32), "score.0.bias": torch.ones(32), "score.2.weight": random_linear(2, seed=8),
            "score.2.bias": torch.tensor([0.3, -0.1])}  # fmt: skip
    model = save_checkpoint(tmp_path, "qwen2", tokenizer, head=head, drop=("lm_head.weight",))
    system = "Please reason step by step, and put your final answer within \\boxed{}."

    def score(steps: list[str]) -> float:
        text = tokenizer.apply_chat_template(
            [{"role": "system", "content": system}, {"role": "user", "content": QUESTION},
             {"role": "assistant", "content": "<extra_0>".join(steps) + "<extra_0>"}], tokenize=False,
        )  # fmt: skip
        ids = tokenizer.encode(text, add_special_tokens=False)
        at = max(i for i, token in enumerate(ids) if token == tokenizer.convert_tokens_to_ids("<extra_0>"))
        inner = (hidden(model, ids)[at] @ head["score.0.weight"].T + head["score.0.bias"]).relu()
        return float((inner @ head["score.2.weight"].T + head["score.2.bias"]).softmax(-1)[1])

    judge = checkpoint(tmp_path)
    assert judge.name.startswith("qwen2.5-math-prm@")
    assert values(judge, trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_math_shepherd_reads_plus_against_minus_at_the_mark_itself(tmp_path: Path) -> None:
    tokenizer = sentencepiece_tokenizer()
    folder = tmp_path / "my-math-shepherd-tune"
    model = save_checkpoint(folder, "mistral", tokenizer)
    mark, plus, minus = (tokenizer.convert_tokens_to_ids(t) for t in ("ки", "+", "-"))

    def score(steps: list[str]) -> float:
        text = f"{QUESTION} " + "\n".join(f"Step {k}: {s} ки" for k, s in enumerate(steps, 1))
        ids = tokenizer.encode(text)
        at = max(i for i, token in enumerate(ids) if token == mark)
        return float(next_logits(model, ids)[at, [plus, minus]].softmax(-1)[0])

    assert values(checkpoint(folder), trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_rlhflow_reads_one_token_before_the_plus_of_each_turn(tmp_path: Path) -> None:
    tokenizer = llama3_tokenizer()
    folder = tmp_path / "Llama3.1-8B-PRM-Deepseek-Data"
    model = save_checkpoint(folder, "llama", tokenizer)
    pair = [tokenizer.convert_tokens_to_ids(t) for t in ("+", "-")]

    def score(steps: list[str]) -> float:
        turns = []
        for k, step in enumerate(steps):
            turns += [
                {"role": "user", "content": step if k else f"{QUESTION} {step}"},
                {"role": "assistant", "content": "+"},
            ]
        ids = tokenizer.encode(tokenizer.apply_chat_template(turns, tokenize=False), add_special_tokens=False)
        return float(next_logits(model, ids)[-3, pair].softmax(-1)[0])

    assert values(checkpoint(folder), trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)


def test_skywork_squashes_the_value_at_the_newline_after_each_step(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    head = {"v_head.summary.weight": random_linear(1), "v_head.summary.bias": torch.tensor([0.2])}
    model = save_checkpoint(tmp_path, "qwen2", tokenizer, head=head)
    newline = tokenizer.encode("\n")[-1]

    def score(steps: list[str]) -> float:
        ids = tokenizer.encode(f"{QUESTION}\n")
        for step in steps:
            ids += [*tokenizer.encode(step), newline]
        return float((hidden(model, ids)[-1] @ head["v_head.summary.weight"].T + 0.2).sigmoid())

    assert values(checkpoint(tmp_path), trace()) == pytest.approx(prefix_by_prefix(score, STEPS), abs=TOLERANCE)
