"""Scripted policies remember what they read, but not without end; and what they forgot they read again the same way."""

from __future__ import annotations

import pytest

from footfall.types import Step
from footfall.worlds import LogicPolicy, LogicWorld, scripted
from footfall.worlds.scripted import keep


def test_a_full_memo_drops_what_was_put_in_first() -> None:
    memo = {k: k for k in range(3)}
    assert keep(memo, 3, 9, most=3) == 9
    assert memo == {1: 1, 2: 2, 3: 9}


def test_a_writer_keeps_a_bounded_number_of_prefixes_and_its_values_do_not_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, ((problem, trace),) = LogicPolicy(), LogicWorld().traces(LogicPolicy(), 1, seed=4)
    writer = policy.writer(problem)
    assert isinstance(writer, scripted.Writer)
    prefixes = [trace.prefix(k) for k in range(len(trace.steps) + 1)]
    prefixes += [trace.prefix(0).extend([Step(f"Nobody can read this, {k}.")]) for k in range(8)]
    before = [policy.value(prefix) for prefix in prefixes]
    monkeypatch.setattr(scripted, "keep", lambda memo, key, value: keep(memo, key, value, most=4))
    writer._read.clear()
    assert [policy.value(prefix) for prefix in prefixes + prefixes] == before + before
    assert len(writer._read) == 4
