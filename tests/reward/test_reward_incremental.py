"""A prefix cache gives the logits of the full pass and runs only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from footfall.render import Reading
from footfall.reward.heads import Linear
from footfall.reward.incremental import PrefixCache
from footfall.reward.judge import Runner
from footfall.reward.prm import PRM
from footfall.reward.readout import Readout
from tests.reward.tiny_checkpoints import WIDTH, causal_lm

torch.set_num_threads(1)

TOLERANCE = 2e-5
"""Float32: keys come from another batch shape, and a mask takes another attention kernel."""
VOCABULARY = 50


class Tiny(PRM):
    """A random decoder with two outputs."""

    def __init__(self, kind: str, **shape: Any) -> None:
        nn.Module.__init__(self)
        self.backbone = causal_lm(kind, VOCABULARY, **shape).model
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.head = Linear(WIDTH, 2)
        self.readout = Readout("good", ("good", "bad"), ("good",))
        self.pad_id = 0
        self.eval()


MODELS = {kind: Tiny(kind) for kind in ("llama", "qwen2", "mistral")}
MODELS["mistral, window 6"] = Tiny("mistral", sliding_window=6)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Tiny:
    return MODELS[request.param]


def reading(*steps: Sequence[int]) -> Reading:
    """Steps of ids, each read at its last token."""
    ids: list[int] = []
    positions = []
    for step in steps:
        ids += step
        positions.append(len(ids) - 1)
    return Reading(tuple(ids), tuple(positions))


def same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, atol=TOLERANCE, rtol=TOLERANCE)


ROOT, A, B, C = [3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8], [9, 7]


def test_the_first_time_everything_is_run(model: Tiny) -> None:
    given = [reading(ROOT, A), reading(ROOT), reading(B, A, C)]
    found, tokens = PrefixCache(model, 1000).each_logits(given, 100)
    same(found, model.each_logits(given))
    assert tokens == [8, 5, 9]


def test_a_trace_that_grew_by_a_step_costs_that_step(model: Tiny) -> None:
    cache = PrefixCache(model, 1000)
    for steps, new in [((ROOT,), 5), ((ROOT, A), 3), ((ROOT, A, B), 4), ((ROOT, A, B, C), 2)]:
        found, tokens = cache.each_logits([reading(*steps)], 100)
        same(found, model.each_logits([reading(*steps)]))
        assert tokens == [new]


def test_equal_traces_are_run_once(model: Tiny) -> None:
    given = [reading(ROOT, A), reading(ROOT, B), reading(ROOT, A), reading(ROOT, A)]
    found, tokens = PrefixCache(model, 1000).each_logits(given, 100)
    same(found, model.each_logits(given))
    assert tokens == [8, 9, 0, 0]


def test_new_traces_share_their_prompt_which_is_read_once(model: Tiny) -> None:
    prompt, other = list(range(10, 22)), list(range(30, 45))
    cache = PrefixCache(model, 1000)
    given = [reading(prompt + A), reading(other + C), reading(prompt + B), reading(prompt + C, A), reading(other + B)]
    found, tokens = cache.each_logits(given, 100)
    same(found, model.each_logits(given))
    # A and C begin with the same token, but B does not: the prompt is shared, by the first in order.
    assert sum(tokens) == 12 + 3 + 4 + 5 + 15 + 2 + 4
    found, tokens = cache.each_logits([reading(prompt + ROOT)], 100)
    same(found, model.each_logits([reading(prompt + ROOT)]))
    assert tokens == [5], "a later one finds it too"
    cache.forget()
    assert cache.each_logits([reading(prompt + ROOT)], 100)[1] == [17]


def test_branches_share_what_they_have_in_common(model: Tiny) -> None:
    cache = PrefixCache(model, 1000)
    cache.each_logits([reading(ROOT, A)], 100)
    branches = [reading(ROOT, A, B), reading(ROOT, A, C), reading(ROOT, B), reading(ROOT, A, B, C)]
    found, tokens = cache.each_logits(branches, 100)
    same(found, model.each_logits(branches))
    assert tokens == [4, 2, 4, 6]


def test_pasts_of_different_lengths_and_none_share_a_batch(model: Tiny) -> None:
    cache = PrefixCache(model, 1000)
    cache.each_logits([reading(ROOT, A, B), reading(C)], 100)
    mixed = [reading(ROOT, A, B, C), reading(C, A), reading(B, B), reading(ROOT, C)]
    found, tokens = cache.each_logits(mixed, 1000)
    same(found, model.each_logits(mixed))
    assert tokens == [2, 3, 8, 2]


def test_a_trace_seen_before_costs_one_token(model: Tiny) -> None:
    cache = PrefixCache(model, 1000)
    first, _ = cache.each_logits([reading(ROOT, A)], 100)
    again, tokens = cache.each_logits([reading(ROOT, A), reading(ROOT)], 100)
    same(again[:1], first)
    same(again[1:], model.each_logits([reading(ROOT)]))
    assert tokens == [1, 1]


def test_what_was_unused_longest_is_forgotten_first() -> None:
    model = MODELS["llama"]
    cache = PrefixCache(model, 16)
    cache.each_logits([reading(ROOT)], 100)
    cache.each_logits([reading(A)], 100)
    cache.each_logits([reading(ROOT, C)], 100)
    _, tokens = cache.each_logits([reading(B, B)], 100)
    assert tokens == [8]
    _, tokens = cache.each_logits([reading(ROOT, C, A), reading(A, C)], 100)
    assert tokens == [3, 5], "the trace of A alone had to go, that of ROOT and C was used after it"


def test_no_more_tokens_are_held_than_allowed_but_the_last_trace() -> None:
    cache = PrefixCache(MODELS["llama"], 10)
    for steps in ((ROOT,), (A,), (B,), (ROOT, A), (C, C, C, C, C, C)):
        cache.each_logits([reading(*steps)], 100)
        held = [len(entry.ids) for entry in cache._entries.values()]
        assert sum(held) == cache._held
        assert sum(held) <= 10 or len(held) == 1
        assert set(cache._at.values()) <= set(cache._entries)


def test_a_trace_takes_the_place_of_what_it_grew_from() -> None:
    cache = PrefixCache(MODELS["llama"], 1000)
    for steps in ((ROOT,), (ROOT, A), (ROOT, A, B)):
        cache.each_logits([reading(*steps)], 100)
    assert cache._held == len(ROOT + A + B)
    assert cache.each_logits([reading(ROOT, C), reading(ROOT, A, C)], 100)[1] == [2, 2]


def test_memory_is_held_for_little_more_than_what_is_known(model: Tiny) -> None:
    """As in a beam search: sixteen traces grow from every round's best, and the room of the others is given back."""
    cache = PrefixCache(model, 200)
    best = [ROOT]
    for round in range(12):
        grown = [reading(*best, [1 + (7 * round + k) % 40, k % 9, 2]) for k in range(16)]
        found, _ = cache.each_logits(grown, 1000)
        same(found, model.each_logits(grown))
        best = [*best, list(grown[5].ids[-3:])]
        assert cache._held <= 200 and cache.room <= 2 * 200 + len(grown[0].ids)
    assert sum(map(len, cache._of_piece.values())) == len(cache._entries)


def test_what_follows_the_last_read_is_not_run(model: Tiny) -> None:
    """The end of a chat's turn, say: the next step stands in its place when the trace has grown."""
    cache = PrefixCache(model, 1000)
    closed = [Reading((*ROOT, 0, 0), (4,)), Reading((*ROOT, *A, 0, 0), (4, 7))]
    for asked, new in zip(closed, (5, 3), strict=True):
        found, tokens = cache.each_logits([asked], 100)
        same(found, model.each_logits([asked]))
        assert tokens == [new]


def test_nothing_is_left_after_forgetting() -> None:
    cache = PrefixCache(MODELS["llama"], 1000)
    cache.each_logits([reading(ROOT)], 100)
    cache.forget()
    assert cache.each_logits([reading(ROOT, A)], 100)[1] == [8]


def test_the_same_ids_read_elsewhere_do_not_borrow_the_wrong_logits(model: Tiny) -> None:
    cache = PrefixCache(model, 1000)
    ids = (*ROOT, *A, *B)
    for positions in ((7, 11), (4, 7, 11), (2, 4), (7,), (11,), (4, 7)):
        given = [Reading(ids, positions)]
        same(cache.each_logits(given, 100)[0], model.each_logits(given))


def test_an_empty_step_is_read_where_the_one_before_it_is(model: Tiny) -> None:
    cache = PrefixCache(model, 1000)
    for asked in (
        Reading((*ROOT, *A), (4, 4, 7)),
        Reading((*ROOT, *A), (4, 4, 7, 7)),
        Reading((*ROOT, *A, *C), (4, 7, 9)),
    ):
        same(cache.each_logits([asked], 100)[0], model.each_logits([asked]))


STEP = st.lists(st.integers(0, 2), min_size=1, max_size=3)
CALLS = st.lists(st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=1, max_size=3), min_size=1, max_size=4)


@pytest.mark.long
@pytest.mark.parametrize("cache_tokens", [0, 1000])
def test_out_of_memory_costs_smaller_batches_but_changes_nothing(
    cache_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS["llama"]
    traces = [reading([i, 1, 2, 3], [4, 5, i], [6, 7]) for i in range(8, 20)]
    plenty, costs = Runner(model, 64, cache_tokens).run(traces)
    forward = type(model.backbone).forward

    def scarce(self: Any, input_ids: Tensor, **rest: Any) -> Any:
        if input_ids.numel() > 20:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return forward(self, input_ids=input_ids, **rest)

    monkeypatch.setattr(type(model.backbone), "forward", scarce)
    runner = Runner(model, 64, cache_tokens)
    with pytest.warns(RuntimeWarning, match="out of memory: going on with (32|16) tokens a batch") as warned:
        found, paid = runner.run(traces)
    assert len(warned) == 2
    same(found, plenty)
    assert [cost.scored_tokens for cost in paid] == [cost.scored_tokens for cost in costs]
    same(runner.run(traces)[0], plenty)
    long = reading(list(range(21)), [3])
    with pytest.warns(RuntimeWarning), pytest.raises(torch.cuda.OutOfMemoryError):
        runner.run([*traces[:2], long])
    assert runner.token_budget == 16, "a trace that can never fit costs the next ones nothing"
    same(runner.run(traces)[0], plenty)


def test_running_out_of_memory_halfway_leaves_nothing_wrong_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["llama"]
    traces = [reading([i, 1, 2, 3], [4, 5, i]) for i in range(8, 20)]
    grown = [reading([i, 1, 2, 3], [4, 5, i], [6, 7]) for i in range(8, 20)]
    plenty, _ = Runner(model, 14, 1000).run(grown)
    runner = Runner(model, 14, 1000)
    forward, calls = type(model.backbone).forward, []

    def third_fails(self: Any, **rest: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return forward(self, **rest)

    monkeypatch.setattr(type(model.backbone), "forward", third_fails)
    with pytest.warns(RuntimeWarning):
        runner.run(traces)
    same(runner.run(grown)[0], plenty)


@pytest.mark.parametrize("before", [(4, 7), (4,), (4, 4, 7)])
def test_a_trace_with_an_empty_step_borrows_from_one_without(model: Tiny, before: tuple[int, ...]) -> None:
    ids = tuple(range(1, 12))
    cache = PrefixCache(model, 1000)
    cache.each_logits([Reading(ids[: before[-1] + 1], before)], 64)
    twice = Reading(ids[:10], (4, 4, 9))
    same(cache.each_logits([twice], 64)[0], model.each_logits([twice], 64))


def test_a_key_that_two_traces_share_by_chance_is_found_out(model: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("footfall.reward.incremental.prefix_hashes", lambda ids, ends: [end % 2 for end in ends])
    cache = PrefixCache(model, 1000)
    for start in (1, 2, 3, 1):
        wanted = [reading([start, 5, 6], [7, 8, start + n], [9] * n) for n in (1, 2)]
        same(cache.each_logits(wanted, 64)[0], model.each_logits(wanted, 64))


@pytest.mark.parametrize("name", MODELS)
@given(calls=CALLS, tokens=st.integers(1, 30), budget=st.integers(1, 40))
@settings(max_examples=12, deadline=None, database=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
def test_whatever_is_asked_in_whatever_order_the_logits_are_those_of_the_full_pass(
    name: str, calls: list[list[list[list[int]]]], tokens: int, budget: int
) -> None:
    """Few different ids, so that prefixes are often shared; a small cache, so that much is forgotten."""
    model = MODELS[name]
    cache = PrefixCache(model, tokens)
    for call in calls:
        readings = [reading(*steps) for steps in call]
        found, new = cache.each_logits(readings, budget)
        same(found, model.each_logits(readings))
        assert all(1 <= n <= len(r.ids) for n, r in zip(new, readings, strict=True))
