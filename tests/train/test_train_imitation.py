"""Fine-tuning a policy on traces: what is learned, what is not, and that it is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template
from footfall.train.imitation import ImitationConfig, Lesson, imitate, lessons, token_batches
from footfall.types import Problem, Step, Trajectory
from tests.reward.tiny_models import byte_tokenizer, decoder

torch.set_num_threads(1)
PLAIN = Template("plain")


def written(question: str, *steps: str) -> Trajectory:
    return Trajectory(question, Problem(question, question), tuple(map(Step, steps)), separator="\n")


def test_the_problem_is_read_and_the_steps_and_the_end_are_learned() -> None:
    tokenizer = byte_tokenizer()
    (lesson,) = lessons([written("Q?", "one", "two")], tokenizer, PLAIN)
    assert _learned(tokenizer, lesson) == "one\ntwo\n"
    assert lesson.ids[-1] == tokenizer.eos_token_id and lesson.learned[-1]


def _learned(tokenizer: Any, lesson: Lesson) -> str:
    ids = [i for i, learned in zip(lesson.ids[:-1], lesson.learned[:-1], strict=True) if learned]
    return str(tokenizer.decode(ids))


def test_what_the_environment_answered_is_read_and_not_learned() -> None:
    tokenizer = byte_tokenizer()
    trace = Trajectory("t", Problem("t", "Q?"), (Step("ask", None, "told"), Step("so")), separator="\n")
    (lesson,) = lessons([trace], tokenizer, PLAIN)
    assert "told" in str(tokenizer.decode(lesson.ids)) and _learned(tokenizer, lesson) == "askso\n"


def test_an_end_is_learned_only_where_the_policy_ended() -> None:
    steps = [(Step("so"),), (Step("ask", None, "told"),), (Step("no", author="person"),)]
    traces = [Trajectory("t", Problem("t", "Q?"), each, separator="\n") for each in steps]
    cut = replace(traces[0], meta={"finish": "length"})
    found = lessons([*traces, cut], byte_tokenizer(), PLAIN)
    assert [lesson.learned[-1] for lesson in found] == [True, False, False, False]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), st.integers(0, 5))
def test_batches_hold_every_trace_once_and_no_more_tokens_than_allowed(lengths: list[int], seed: int) -> None:
    batches = token_batches(lengths, 512, torch.Generator().manual_seed(seed))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(max(lengths[i] for i in batch) * len(batch) <= 512 for batch in batches if len(batch) > 1)
    assert batches == token_batches(lengths, 512, torch.Generator().manual_seed(seed))


def test_a_policy_writes_what_it_was_shown() -> None:
    model, tokenizer = decoder(context=256), byte_tokenizer()
    shown = [written("A?", "yes", "The answer is 1."), written("B?", "no", "The answer is 2.")] * 8
    done = imitate(model, tokenizer, shown, PLAIN, ImitationConfig(lr=1e-2, epochs=30, batch_tokens=256))
    assert done.losses[-1] < 0.1 < done.losses[0] and done.too_long == 0
    policy = TorchPolicy(model, tokenizer, label="tiny", template=PLAIN)
    params = SamplingParams(temperature=0, max_tokens=40)
    found = policy.sample([written("A?"), written("B?")], 1, params)
    assert [[step.text for step in row[0].steps] for row in found] == [
        ["yes", "The answer is 1."], ["no", "The answer is 2."],
    ]  # fmt: skip
    assert [row[0].finish for row in found] == ["end", "end"]


def test_traces_that_are_too_long_are_counted_and_nothing_left_is_an_error() -> None:
    model, tokenizer = decoder(context=256), byte_tokenizer()
    config = ImitationConfig(epochs=1, max_length=20)
    assert imitate(model, tokenizer, [written("A?", "x"), written("A?", "x" * 50)], PLAIN, config).too_long == 1
    with pytest.raises(ValueError, match="raise max_length"):
        imitate(model, tokenizer, [written("A?", "x" * 50)], PLAIN, config)
