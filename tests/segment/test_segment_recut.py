"""Sampled traces cut anew between their tokens: nothing is lost, and a policy can go on from any cut."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.embedded import embedded
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.policy.splitting import in_lines
from footfall.policy.torch_policy import AnyCut, TorchPolicy, next_tokens
from footfall.segment import confidence, confidence_threshold
from footfall.segment.tokens import recut, written
from footfall.types import Trajectory
from footfall.worlds import ArithmeticWorld

WORLD = ArithmeticWorld()
PARAMS = SamplingParams(max_tokens=200, seed=1)


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    torch.set_num_threads(1)
    return embedded()


@pytest.fixture(scope="module")
def traces(policy: TorchPolicy) -> list[Trajectory]:
    prefixes = [WORLD.prefix(problem) for problem in WORLD.problems(4, 0)]
    return [trace for row in draw_traces(policy, prefixes, 2, PARAMS) for trace in row]


def ids(trace: Trajectory) -> list[int]:
    return [i for step in trace.steps for i in step.token_ids or ()]


def test_texts_and_ids_add_up_to_what_was_written(policy: TorchPolicy, traces: list[Trajectory]) -> None:
    threshold = confidence_threshold((p for t in traces for s in t.steps for p in s.logprobs or ()), share=0.05)
    again = [recut(trace, confidence(threshold), policy.tokenizer) for trace in traces]
    assert any(len(new.steps) != len(old.steps) for new, old in zip(again, traces, strict=True))
    for new, old in zip(again, traces, strict=True):
        assert new.text.strip() == old.text.strip() and ids(new) == ids(old)
        assert in_lines(new, policy.tokenizer).steps == old.steps
        for step in new.steps[:-1]:
            assert step.logprobs is not None and step.logprobs[-1] < 0


def test_places_of_tokens_that_share_a_character(policy: TorchPolicy) -> None:
    text = "Ян: 扬 = 5."
    text_again, tokens = written(policy.tokenizer, tuple(policy.tokenizer.encode(text, add_special_tokens=False)))
    assert text_again == text and len(tokens) > len(text)
    assert all(a.end == b.start for a, b in pairwise(tokens)) and tokens[-1].end == len(text)


def test_rollouts_go_on_from_the_middle_of_a_line(policy: TorchPolicy, traces: list[Trajectory]) -> None:
    whole = recut(traces[0], confidence(0.5), policy.tokenizer)
    cut = whole.prefix(1)
    assert not cut.text.endswith("\n")
    ((greedy,),) = AnyCut(policy).sample([cut], 1, replace(PARAMS, temperature=0.0))
    joined = greedy.after(cut, policy.name)
    assert joined.text.startswith(cut.text) and "The answer is" in joined.text
    (said,) = MonteCarlo(AnyCut(policy), 4, "hard", params=PARAMS).judge([whole])
    assert None not in said.values and said.values[-1] == float(bool(traces[0].correct))


def test_what_the_model_thought_is_what_it_sampled_from(policy: TorchPolicy, traces: list[Trajectory]) -> None:
    ((greedy,),) = draw_traces(policy, [WORLD.prefix(traces[0].problem)], 1, replace(PARAMS, temperature=0.0))
    (thought,) = next_tokens(policy, [greedy])
    assert list(thought.best) == ids(greedy) and all(a != b for a, b in zip(thought.best, thought.second, strict=True))
    drawn = [logprob for step in greedy.steps for logprob in step.logprobs or ()]
    sure = [h for h, logprob in zip(thought.entropy, drawn, strict=True) if logprob > -1e-3]
    assert sure and max(sure) < 0.05


def test_a_trace_without_logprobs_is_refused(policy: TorchPolicy, traces: list[Trajectory]) -> None:
    bare = replace(traces[0], steps=tuple(replace(step, logprobs=None) for step in traces[0].steps))
    with pytest.raises(ValueError, match="without token_ids or logprobs"):
        recut(bare, confidence(), policy.tokenizer)


def test_what_no_cut_can_keep_is_refused(policy: TorchPolicy, traces: list[Trajectory]) -> None:
    for change in ({"observation": "7"}, {"action": "go()"}, {"author": "person"}):
        step = replace(traces[0].steps[0], **change)  # type: ignore[arg-type]
        trace = replace(traces[0], steps=(step, *traces[0].steps[1:]))
        with pytest.raises(ValueError, match="which no new cut can keep"):
            recut(trace, confidence(0.5), policy.tokenizer)
        with pytest.raises(ValueError, match="does not hold the ids"):
            in_lines(trace, policy.tokenizer)
