"""RL of judges that write: what they are asked, what they are paid, and that it trains."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trl.trainer.grpo_config import GRPOConfig

from footfall.reward.generative.pairwise import RRM_QUESTION, match_reward, read_assistant
from footfall.reward.generative.rubric_rm import Checkpoint
from footfall.rl import judges
from footfall.rl.groups import deviation, standardised
from footfall.rl.judges import (
    Question,
    chunk_questions,
    grade_questions,
    grading_reward,
    pair_questions,
    train_judge,
)
from footfall.rl.trainer import CreditTrainer
from footfall.train.writers import asked
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


def test_rm_r1_s_group_of_the_card_by_the_unbiased_deviation() -> None:
    """The card divides by the population's; verl's `torch.std`, with which the authors trained, and TRL do not."""
    rewards = np.array([1.0, -1.0, 1.0, 1.0])
    assert standardised(rewards, eps=0) == pytest.approx([0.5, -1.5, 0.5, 0.5])
    by_population = standardised(rewards, eps=0) * deviation(rewards) / deviation(rewards, ddof=0)
    assert by_population == pytest.approx([0.5774, -1.7321, 0.5774, 0.5774], abs=5e-5)
    assert not standardised(np.ones(4)).any()


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


def test_a_judge_is_trained_by_what_its_verdicts_earn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path / "lm", "qwen2", qwen_tokenizer(), seed=1)
    rows = [Judged(trace(word, id=word), Judgement(word, (float(word == "ok"),), "toy")) for word in ("ok", "no")]
    questions = chunk_questions(rows)
    args = GRPOConfig(
        str(tmp_path / "run"), per_device_train_batch_size=4, num_generations=4, max_completion_length=4, max_steps=2,
        learning_rate=1e-2, use_cpu=True, bf16=False, report_to="none", save_strategy="no", disable_tqdm=True,
        gradient_checkpointing=False, logging_steps=1, epsilon_high=0.28,
    )  # fmt: skip
    paid: list[tuple[str, bool, float]] = []

    def reward(text: str, label: bool) -> float:
        paid.append((text, label, float(len(text) % 2)))
        return paid[-1][2]

    made: list[CreditTrainer] = []

    class Watched(CreditTrainer):
        def __init__(self, *given: Any, **named: Any) -> None:
            made.append(self)
            super().__init__(*given, **named)

    monkeypatch.setattr(judges, "CreditTrainer", Watched)
    found = train_judge(questions, reward, tmp_path / "lm", tmp_path / "out", args)
    assert 0 <= found["reward"] <= 1 and (tmp_path / "out" / "model.safetensors").is_file()
    (trainer,) = made
    assert len(paid) == 8 and [each.rollout.outcome for each in trainer.batch] == [pay for *_, pay in paid[-4:]]
    written = str(trainer.processing_class.decode(list(trainer.batch[0].ids)))
    assert written.startswith(paid[-4][0]), "what is paid is what was written"
    outcomes = np.array([pay for *_, pay in paid[-4:]])
    expected = (outcomes - outcomes.mean()) / (outcomes.std(ddof=1) + 1e-4)
    for each, advantage in zip(trainer.batch, expected, strict=True):
        assert each.advantages == pytest.approx(np.full(len(each.ids), advantage), abs=1e-6)
    prompt = trainer.batch[0].trajectory.problem.text
    assert prompt in {asked(each.request, trainer.processing_class) for each in questions}
    with pytest.raises(ValueError, match="have one label value at most"):
        train_judge([Question(questions[0].request, True)], lambda text, label: 0.0, tmp_path / "lm", tmp_path, args)


def test_a_grader_is_asked_with_its_rubric_and_paid_by_how_near_its_grade_is() -> None:
    rubric = (Checkpoint("sets up", 6.0), Checkpoint("answers", 4.0))
    (question,) = grade_questions([(trace("a", "b"), rubric, 8.0)])
    assert "sets up" in question.request.messages[0].content and question.label.steps == 2
    for text, reward in (('{"points": [6, 2]}', 1.0), ('{"points": [0, 2]}', 0.4), ("no grade", 0.0)):
        assert grading_reward(text, question.label) == pytest.approx(reward)
