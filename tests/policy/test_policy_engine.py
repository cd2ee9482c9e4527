"""The engine writes what `generate` would write, whatever shares its batch, and reads each prefix once."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.policy.decoding import Batch, Decoder, EagerDecoder, GraphDecoder, Request
from footfall.policy.engine import Engine, worth_compiling
from footfall.policy.protocol import SamplingParams
from footfall.policy.slots import Slots, _runs
from tests.policy.tiny_models import ARCHITECTURES, random_prompts, tiny_model

GREEDY = SamplingParams(temperature=0)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def requests(prompts: list[tuple[int, ...]], n: int = 1, new: int = 20, shared: int = 0) -> list[Request]:
    return [Request(ids, 100 * i + j, new, shared) for i, ids in enumerate(prompts) for j in range(n)]


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_tokens_equal_those_of_generate(architecture: str, device: str) -> None:
    prompts = random_prompts([5, 12, 30, 1])
    engine = Engine(tiny_model(architecture, device), [], rows=3)
    plain: Any = tiny_model(architecture, device)
    for ids, written in zip(prompts, engine.generate(requests(prompts), GREEDY), strict=True):
        expected = plain.generate(
            torch.tensor([ids], device=device), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert written.tokens == expected[0, len(ids) :].tolist()


def test_logprobs_are_those_of_a_plain_forward_pass() -> None:
    (ids,) = random_prompts([9])
    (written,) = Engine(tiny_model("llama"), []).generate(requests([ids]), SamplingParams(temperature=0.7, top_k=50))
    whole = torch.tensor([[*ids, *written.tokens]])
    logprobs = tiny_model("llama")(whole).logits[0, len(ids) - 1 : -1].log_softmax(-1)
    expected = logprobs[torch.arange(20), torch.tensor(written.tokens)]
    torch.testing.assert_close(torch.tensor(written.logprobs), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.long
def test_a_sequence_does_not_depend_on_what_else_is_in_the_batch() -> None:
    prompts = random_prompts([4, 17, 9, 40, 23])
    alone = [Engine(tiny_model("llama"), []).generate([r], SamplingParams())[0].tokens for r in requests(prompts, 3)]
    together = Engine(tiny_model("llama"), [], rows=4).generate(requests(prompts, 3), SamplingParams())
    assert [g.tokens for g in together] == alone
    assert len({tuple(tokens) for tokens in alone}) == 15


def test_finished_rows_are_refilled_at_once() -> None:
    prompts = random_prompts([6] * 10)
    lengths = [3, 30, 3, 3, 3, 3, 3, 3, 3, 3]
    engine = Engine(tiny_model("llama"), [], rows=2)
    mixed = [Request(ids, i, n) for i, (ids, n) in enumerate(zip(prompts, lengths, strict=True))]
    written = engine.generate(mixed, GREEDY)
    assert [len(g.tokens) for g in written] == lengths
    assert engine.usage.steps == 30, "one row runs the long sequence while the other runs the nine short ones"


def test_a_prompt_is_read_once_for_all_its_samples() -> None:
    prompts = random_prompts([21, 21])
    engine = Engine(tiny_model("llama"), [])
    written = engine.generate(requests(prompts, n=16, new=4), SamplingParams())
    assert engine.usage.prefilled == 2 * 20
    assert engine.usage.cached == 2 * 15 * 20
    assert sum(g.prefilled for g in written) == engine.usage.prefilled


def test_all_prefixes_of_a_trace_cost_one_reading_of_the_trace() -> None:
    (trace,) = random_prompts([60])
    engine = Engine(tiny_model("llama"), [])
    engine.generate(requests([trace[:n] for n in (20, 31, 47, 60)], n=2, new=3), SamplingParams())
    assert engine.usage.prefilled == 59


def test_traces_of_one_problem_share_the_reading_of_its_prompt() -> None:
    (prompt,) = random_prompts([40])
    tails = random_prompts([10, 10, 10], seed=2)
    engine = Engine(tiny_model("llama"), [])
    engine.generate(requests([prompt + t for t in tails], new=2, shared=40), GREEDY)
    assert engine.usage.prefilled == 40 + 3 * 9


def test_what_was_written_need_not_be_read_again_when_kept() -> None:
    (prompt,) = random_prompts([30])
    engine = Engine(tiny_model("llama"), [])
    (first,) = engine.generate(requests([prompt], new=12), GREEDY, keep=True)
    before = engine.usage.prefilled
    (second,) = engine.generate(requests([prompt + tuple(first.tokens)], new=8), GREEDY)
    assert engine.usage.prefilled == before
    (whole,) = Engine(tiny_model("llama"), []).generate(requests([prompt], new=20), GREEDY)
    assert first.tokens + second.tokens == whole.tokens


def test_each_token_of_a_prefix_was_either_read_or_found() -> None:
    """The last tokens of the first prefix, past a block of eight, are read again: its block is known as the third one's."""
    trace, other = random_prompts([20, 15])
    prompts = [trace, trace[:13], trace[:9] + other[9:]]
    engine = Engine(tiny_model("llama"), [])
    written = engine.generate(requests(prompts, new=2), GREEDY)
    assert [g.prefilled + g.cached for g in written] == [19, 12, 14]
    assert engine.usage.prefilled == sum(g.prefilled for g in written) < sum(len(ids) - 1 for ids in prompts)


def test_a_full_prefix_cache_costs_time_but_changes_nothing() -> None:
    prompts = random_prompts([50, 60, 70, 80])
    small = Engine(tiny_model("llama"), [], rows=2, cache_bytes=200_000)
    roomy = Engine(tiny_model("llama"), [], rows=2)
    written = [[g.tokens for g in e.generate(requests(prompts, 2), SamplingParams())] for e in (small, roomy)]
    assert written[0] == written[1]


@pytest.mark.long
def test_prefixes_that_do_not_fit_the_cache_together_are_still_read_once_each() -> None:
    """Forty prefixes of 50 tokens in a cache for six; two samples of each, and a shorter prefix within each."""
    longer = random_prompts([51] * 40)
    prompts = [ids for whole in longer for ids in (whole, whole[:31])]
    bytes_a_token = Slots.row_bytes(tiny_model("llama"), 1)
    for keep in (False, True):
        engine = Engine(tiny_model("llama"), [], rows=8, cache_bytes=600 * bytes_a_token)
        written = engine.generate(requests(prompts, 2), SamplingParams(), keep=keep)
        assert engine.usage.prefilled == 40 * 50 and engine.cache.used <= engine.cache.budget
        roomy = Engine(tiny_model("llama"), [], rows=8).generate(requests(prompts, 2), SamplingParams(), keep=keep)
        assert [g.tokens for g in written] == [g.tokens for g in roomy]


@pytest.mark.parametrize("decoder", [EagerDecoder, GraphDecoder])
def test_slots_that_are_too_short_are_given_back_before_longer_ones_are_made(decoder: type[Decoder]) -> None:
    model = tiny_model("llama")
    slots = Slots(model, 2, 32)
    made: Any = decoder(model, slots, False)  # type: ignore[call-arg]
    data, gone = weakref.ref(slots.data), weakref.ref(made)
    gc.disable()
    try:
        del slots, made
        assert gone() is None and data() is None, "memory waits for a garbage collection"
    finally:
        gc.enable()


def with_memory_for(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding more rows than these at once runs out of memory."""
    run = EagerDecoder.run

    def scarce(self: EagerDecoder, batch: Batch, n: int, params: SamplingParams) -> Any:
        if n > rows:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return run(self, batch, n, params)

    monkeypatch.setattr(EagerDecoder, "run", scarce)


@pytest.mark.long
def test_out_of_memory_costs_rows_but_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = requests(random_prompts([4, 17, 9, 40, 23]), 3)
    plenty = Engine(tiny_model("llama"), [], rows=16).generate(wanted, SamplingParams())
    with_memory_for(5, monkeypatch)
    engine = Engine(tiny_model("llama"), [], rows=16, cache_bytes=1 << 20)
    with pytest.warns(RuntimeWarning, match="out of memory: going on with [84] rows") as warned:
        scarce = engine.generate(wanted, SamplingParams())
    assert len(warned) == 2
    assert [g.tokens for g in scarce] == [g.tokens for g in plenty]
    assert engine.usage.decoded == sum(g.decoded for g in scarce), "what was begun in vain is not paid for"
    again = engine.generate(wanted, SamplingParams())
    assert [g.tokens for g in again] == [g.tokens for g in plenty], (
        "and it keeps to what it has learnt, without a warning"
    )


@pytest.mark.parametrize("others_leave", [True, False])
def test_what_others_held_when_memory_ran_short_is_taken_once_it_is_free(
    others_leave: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory of 64 sequences, of which others hold all but a few at first: the engine decodes in so few rows only until they
    have gone. What it holds itself is no reason to begin anew."""
    wanted = requests(random_prompts([5, 60]), 8)
    longest = max(len(each.ids) + each.max_tokens for each in wanted)
    row = Slots.row_bytes(tiny_model("llama"), Engine(tiny_model("llama"), [])._capacity(longest))
    others = 50 * row

    def left() -> int:
        held = 0 if engine is None or engine._slots is None else engine._slots.data.nbytes
        return 64 * row - others - held

    engine: Engine | None = None
    engine = Engine(tiny_model("llama"), [], rows=16, cache_bytes=1 << 20, memory=left)
    engine.generate(wanted, GREEDY)
    assert engine._slots is not None and engine._slots.rows == 7
    with_memory_for(3, monkeypatch)
    with pytest.warns(RuntimeWarning, match="going on with 3 rows"):
        short = engine.generate(wanted, GREEDY)
    monkeypatch.undo()
    before = engine._slots
    if others_leave:
        others = 0
    found = engine.generate(wanted, GREEDY)
    assert engine._slots is not None and engine._slots.rows == (16 if others_leave else 3)
    assert engine.generate(wanted, GREEDY) and (engine._slots is before) is not others_leave
    assert [each.tokens for each in found] == [each.tokens for each in short]


def test_memory_that_becomes_free_in_the_middle_of_a_call_serves_its_other_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An eighth of the memory holds the keys and values of 100 tokens, and a group's prefixes fill half of that at most."""
    room = 100 * Slots.row_bytes(tiny_model("llama"), 1)
    free, groups, run = 8 * room, [], Engine._run

    def others_leave_after_the_first(self: Engine, group: Any, *rest: Any) -> None:
        nonlocal free
        groups.append(len(group))
        run(self, group, *rest)
        free = 1 << 40

    monkeypatch.setattr(Engine, "_run", others_leave_after_the_first)
    monkeypatch.setattr("footfall.policy.engine._CACHE_BYTES", room)  # else 1 GiB at least
    engine = Engine(tiny_model("llama"), [], rows=4, memory=lambda: free)
    assert len(engine.generate(requests(random_prompts([30] * 5), n=2), GREEDY)) == 10
    assert groups == [2, 8], "one prefix, then all the others at once"


@pytest.mark.long
def test_a_cache_that_holds_one_prefix_still_does_after_memory_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory_for(2, monkeypatch)
    room = 100 * Slots.row_bytes(tiny_model("llama"), 1)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        written = Engine(tiny_model("llama"), [], rows=64, cache_bytes=room).generate(
            requests(random_prompts([80]), 8), GREEDY
        )
    assert len(written) == 8


def test_a_key_that_two_prefixes_share_by_chance_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = requests(random_prompts([20, 20, 33, 41]), 2)
    plain = Engine(tiny_model("llama"), []).generate(wanted, SamplingParams())
    monkeypatch.setattr("footfall.policy.slots.prefix_hashes", lambda ids, ends: [end % 3 for end in ends])
    mixed_up = Engine(tiny_model("llama"), []).generate(wanted, SamplingParams())
    assert [g.tokens for g in mixed_up] == [g.tokens for g in plain]


def test_out_of_memory_while_prefixes_are_read_makes_smaller_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = requests(random_prompts([20] * 12), new=3)
    plenty = Engine(tiny_model("llama"), []).generate(wanted, GREEDY)
    read, passes = Engine._read, []

    def scarce(self: Engine, chunk: list[tuple[int, ...]]) -> list[int]:
        passes.append(len(chunk))
        if len(chunk) > 4:
            raise RuntimeError("CUDA error: out of memory")  # not all libraries raise torch's own error
        return read(self, chunk)

    monkeypatch.setattr(Engine, "_read", scarce)
    monkeypatch.setattr("footfall.policy.engine._PREFILL_TOKENS", 12 * 19)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        found = Engine(tiny_model("llama"), []).generate(wanted, GREEDY)
    assert [g.tokens for g in found] == [g.tokens for g in plenty]
    assert passes[:2] == [12, 6] and max(passes[2:]) <= 4


@pytest.mark.long
def test_what_can_never_fit_does_not_cost_the_next_call_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(tiny_model("llama"), [], rows=16, cache_bytes=1 << 20)
    with monkeypatch.context() as patched:
        with_memory_for(0, patched)
        with pytest.warns(RuntimeWarning), pytest.raises(torch.cuda.OutOfMemoryError):
            engine.generate(requests(random_prompts([5, 60])), GREEDY)
    long = requests(random_prompts([100, 100]), 8)
    assert len(engine.generate(long, GREEDY)) == 16
    assert engine.usage.steps == 20, "all sixteen rows at once"
    assert engine.cache.budget == 1 << 20


def test_an_error_of_another_kind_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def broken(self: Engine, *_: Any) -> None:
        calls.append(self)
        raise RuntimeError("the sizes of tensors do not match")

    monkeypatch.setattr(Engine, "_run", broken)
    with pytest.raises(RuntimeError, match="sizes"):
        Engine(tiny_model("llama"), []).generate(requests(random_prompts([5])), GREEDY)
    assert len(calls) == 1


@pytest.mark.long
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12), rows=st.integers(1, 6), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_rows_that_are_moved_together_go_on_where_they_were(lengths: list[int], rows: int, seed: int) -> None:
    prompts = random_prompts([3 + n for n in lengths])
    mixed = [Request(ids, seed + i, n) for i, (ids, n) in enumerate(zip(prompts, lengths, strict=True))]
    alone = [Engine(tiny_model("llama"), [], rows=1).generate([request], SamplingParams())[0] for request in mixed]
    together = Engine(tiny_model("llama"), [], rows=rows).generate(mixed, SamplingParams())
    assert [g.tokens for g in together] == [g.tokens for g in alone]


def test_groups_that_were_done_before_memory_ran_out_are_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = random_prompts([30, 30, 30])
    room = 100 * Slots.row_bytes(tiny_model("llama"), 1)
    engine = Engine(tiny_model("llama"), [], rows=4, cache_bytes=room)
    calls: list[int] = []
    run = Engine._run

    def second_fails(self: Engine, group: Any, *rest: Any) -> None:
        calls.append(len(group))
        if len(calls) == 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        run(self, group, *rest)

    monkeypatch.setattr(Engine, "_run", second_fails)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        written = engine.generate(requests(prompts, n=2), SamplingParams())
    assert calls == [2, 2, 2, 2]
    assert all(len(g.tokens) == 20 for g in written)


def test_an_end_token_ends_the_sequence_and_is_not_part_of_it() -> None:
    (ids,) = random_prompts([8])
    (free,) = Engine(tiny_model("mistral-sliding-window"), []).generate(requests([ids]), GREEDY)
    end = free.tokens[5]
    (ended,) = Engine(tiny_model("mistral-sliding-window"), [end]).generate(requests([ids]), GREEDY)
    assert ended.ended and ended.tokens == free.tokens[: free.tokens.index(end)]


def test_too_long_a_sequence_is_refused_with_the_limit() -> None:
    with pytest.raises(ValueError, match=r"620 tokens but the model takes 512.*max_tokens"):
        Engine(tiny_model("llama"), []).generate(requests(random_prompts([600]), new=20), GREEDY)


def test_a_model_outside_the_attention_interface_is_refused_with_a_way_out() -> None:
    class Closed(type(tiny_model("llama"))):  # type: ignore[misc]
        _supports_attention_backend = False

    model = tiny_model("llama")
    model.__class__ = Closed
    with pytest.raises(ValueError, match="http policy"):
        Engine(model, [])


@pytest.mark.cuda
def test_on_cuda_rows_that_finish_at_different_times_change_nothing() -> None:
    prompts = random_prompts([7] * 40)
    lengths = [3 + 5 * (i % 9) for i in range(40)]
    mixed = [Request(ids, i, n) for i, (ids, n) in enumerate(zip(prompts, lengths, strict=True))]
    written = [Engine(tiny_model("llama", d), [], rows=32).generate(mixed, GREEDY) for d in ("cuda", "cpu")]
    assert [g.tokens for g in written[0]] == [g.tokens for g in written[1]]


def test_a_call_is_worth_compiling_for_if_it_may_write_millions_of_tokens_and_never_on_the_cpu() -> None:
    request = Request((1, 2), 0, 1000)
    assert not worth_compiling([request] * 15_999) and worth_compiling([request] * 16_000)
    engine = Engine(tiny_model("llama"), [])
    engine.generate([Request((1, 2), 0, 2)], SamplingParams(max_tokens=2))
    assert engine.compile is None


@given(st.lists(st.integers(0, 30), unique=True))
def test_rows_are_filled_in_stretches_that_cover_each_once(rows: list[int]) -> None:
    runs = _runs(rows)
    assert [n for first, last in runs for n in range(first, last + 1)] == sorted(rows)
    assert all(after > last + 1 for (_, last), (after, _) in pairwise(runs))
