"""Traces of one call in one row: logits of separate passes, each shared beginning read once, nothing kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from footfall.judging import Traits, keep_nothing
from footfall.loading import load_model
from footfall.policy.embedded import EMBEDDED
from footfall.render import Reading
from footfall.reward import prefix_row
from footfall.reward.judge import PRMJudge, Runner
from footfall.reward.prm import PRM
from footfall.types import Judge, Judgement, Problem, Step, Trajectory
from tests.reward.test_reward_incremental import MODELS, Tiny, reading

torch.set_num_threads(1)

TOLERANCE = 2e-5
"""Float32: attention is another kernel, and sums are made in another order."""
MODEL = MODELS["llama"]


def alone(model: Tiny, readings: Sequence[Reading]) -> list[torch.Tensor]:
    return [model.logits([each])[0, : len(each.positions)] for each in readings]


def test_what_traces_begin_with_is_in_the_row_once() -> None:
    row = prefix_row.lay_out([reading([1, 2, 3, 4]), reading([1, 6]), reading([1, 2, 3], [5])])
    assert row.ids_1N.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert row.positions_1N.tolist() == [[0, 1, 2, 3, 3, 1]]
    assert [row.read_at(each).tolist() for each in row.segments] == [[3], [5], [2, 4]]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral"])
@pytest.mark.parametrize("token_budget", [1, 9, 1000])
def test_logits_are_those_of_each_trace_alone(kind: str, token_budget: int) -> None:
    model = MODELS[kind]
    readings = [
        reading([1, 2, 3], [4, 5]),
        reading([1, 2, 3], [4, 6], [7]),
        reading([1, 2, 3]),  # the beginning of others adds nothing
        reading([1, 2, 3], [4, 5]),
        reading([9]),
    ]
    found, tokens = prefix_row.each_logits(model, readings, token_budget)
    for own, wanted in zip(found, alone(model, readings), strict=True):
        torch.testing.assert_close(own, wanted, atol=TOLERANCE, rtol=0)
    if token_budget == 1000:
        assert sorted(tokens) == [0, 1, 2, 2, 3]  # 1 2 3, then 4 5, then 6 7 behind 1 2 3 4, and 9


STEPS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=20, deadline=None, phases=[Phase.generate])
@given(st.lists(STEPS, min_size=1, max_size=6), st.integers(1, 40))
def test_any_traces(traces: list[list[list[int]]], token_budget: int) -> None:
    readings = [reading(*steps) for steps in traces]
    found, tokens = prefix_row.each_logits(MODEL, readings, token_budget)
    for own, wanted in zip(found, alone(MODEL, readings), strict=True):
        torch.testing.assert_close(own, wanted, atol=TOLERANCE, rtol=0)
    beginnings = {each.ids[:end] for each in readings for end in range(1, len(each.ids) + 1)}
    assert sum(tokens) == len(beginnings) or sum(len(each.ids) for each in readings) > token_budget


class Behind:
    """A judge that asks another."""

    name = "behind"

    def __init__(self, inner: Judge) -> None:
        self.inner = inner

    @property
    def traits(self) -> Traits:
        return Traits(parts=(self.inner,))

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return self.inner.judge(trajectories)


@pytest.fixture(scope="module")
def prm() -> PRM:
    backbone, tokenizer = load_model(EMBEDDED, "cpu", torch.float32)
    return PRM.from_backbone(backbone.train(False), tokenizer, seed=1).eval()


def test_a_judge_that_keeps_nothing_says_the_same(prm: PRM) -> None:
    """Also behind another; the second call costs what the first did."""
    problem = Problem("p", "Compute 2 + 3 + 4.")
    traces = [
        Trajectory(str(i), problem, tuple(map(Step, steps)), separator="\n")
        for i, steps in enumerate([["2 + 3 = 5", "5 + 4 = 9"], ["2 + 3 = 5", "5 + 4 = 8"], ["2 + 3 = 6"], []])
    ]
    plain, told = PRMJudge(prm), PRMJudge(prm, cache_tokens=1000)
    judge = Behind(told)
    keep_nothing(judge)
    wanted, first, second = plain.judge(traces), judge.judge(traces), judge.judge(traces)
    for own, other in zip(first, wanted, strict=True):
        assert own.values == pytest.approx(other.values, abs=1e-6)
    assert [each.values for each in first] == [each.values for each in second]
    cost = [sum(each.cost.scored_tokens for each in said) for said in (wanted, first, second)]
    assert cost[1] == cost[2] < cost[0] / 2


class Bounded(Tiny):
    max_length = 20


@pytest.mark.parametrize(("window", "ran"), [(6, 1), (20, 4)])
def test_a_model_that_cannot_read_rows_keeps_the_cache_that_it_has(window: int, ran: int) -> None:
    """One whose window does not hold a whole trace."""
    runner = Runner(Bounded("mistral", sliding_window=window), cache_tokens=100)
    runner.keep_nothing()
    runner.run([reading([1, 2, 3])])
    _, (cost,) = runner.run([reading([1, 2, 3], [4])])
    assert cost.scored_tokens == ran
