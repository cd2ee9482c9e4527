"""RL of judges that write: what they are asked, what they are paid, and that it trains."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from trl.trainer.grpo_config import GRPOConfig

from footfall.reward.generative.pairwise import RRM_QUESTION, match_reward, read_assistant
from footfall.train.judge_rl import Question, chunk_questions, pair_questions, train_judge
from footfall.types import Judged, Judgement
from tests.reward.tiny_checkpoints import qwen_tokenizer, save_checkpoint
from tests.reward.tiny_models import trace

torch.set_num_threads(1)


def test_chunks_are_asked_about_up_to_the_first_error_as_many_of_either_label() -> None:
    rows = [Judged(trace("a", "b", "c"), Judgement("t", (1.0, 0.0, 0.0), "toy")),
            Judged(trace("d", "e"), Judgement("t", (1.0, 1.0), "toy"))]  # fmt: skip
    found = chunk_questions(rows)
    assert sorted(question.label for question in found) == [False, True]
    (wrong,) = [question for question in found if not question.label]
    assert wrong.request.messages[0].content.endswith("[Chunk]\nb"), (
        "what comes after the first error is not asked about"
    )


def test_pairs_are_a_right_and_a_wrong_answer_of_one_problem_in_either_order() -> None:
    from dataclasses import replace

    traces = [
        replace(trace(word, prompt=f"q{i}"), correct=word == "good") for i in range(40) for word in ("good", "bad")
    ]
    found = pair_questions([*traces, replace(trace("x", prompt="alone"), correct=True)], RRM_QUESTION)
    assert sum(question.label for question in found) * 2 == len(found) > 10
    for question in found:
        text = question.request.messages[0].content
        assert question.label == (text.index("good") < text.index("bad"))
    reward = partial(match_reward, read_assistant)
    assert [reward("\\boxed{Assistant 1}", label) for label in (True, False)] == [1.0, -1.0]


def test_a_judge_is_trained_by_what_its_verdicts_earn(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "lm", "qwen2", qwen_tokenizer(), seed=1)
    rows = [Judged(trace(word, id=word), Judgement(word, (float(word == "ok"),), "toy")) for word in ("ok", "no")]
    questions = chunk_questions(rows)
    args = GRPOConfig(
        str(tmp_path / "run"), per_device_train_batch_size=4, num_generations=4, max_completion_length=4, max_steps=2,
        learning_rate=1e-2, use_cpu=True, bf16=False, report_to="none", save_strategy="no", disable_tqdm=True,
        gradient_checkpointing=False, logging_steps=1, epsilon_high=0.28,
    )  # fmt: skip
    found = train_judge(questions, lambda text, label: float(len(text) % 2), tmp_path / "lm", tmp_path / "out", args)
    assert 0 <= found["reward"] <= 1 and (tmp_path / "out" / "model.safetensors").is_file()
    with pytest.raises(ValueError, match="have one label value at most"):
        train_judge([Question(questions[0].request, True)], lambda text, label: 0.0, tmp_path / "lm", tmp_path, args)
