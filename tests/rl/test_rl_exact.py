"""The tabular policy: its gradient is exact, by enumeration and by differences, and estimates come near it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from footfall.rl.exact import FILLER, RIGHT, STOP, WRONG, Chain, Trace, estimate, sample, softmax, solve

SMALL = Chain(depth=1, horizon=4)


def every_trace(chain: Chain, chances: np.ndarray) -> Iterator[tuple[Trace, float]]:
    """All that the policy can write, with how likely it is."""

    def grow(states: list[int], actions: list[int], chance: float) -> Iterator[tuple[Trace, float]]:
        for action in range(4):
            done, p = [*actions, action], chance * float(chances[states[-1], action])
            if action == STOP or len(done) == chain.horizon:
                yield Trace(np.array(states), np.array(done)), p
            else:
                yield from grow([*states, chain.after(states[-1], action)], done, p)

    yield from grow([0], [], 1.0)


def test_where_steps_lead() -> None:
    chain = Chain(depth=2)
    assert chain.after(0, RIGHT) == 2 and chain.after(0, WRONG) == 3 and chain.after(2, FILLER) == 2
    assert chain.after(3, RIGHT) == 2, "an error is corrected before anything else"
    assert chain.after(4, RIGHT) == 4 and chain.after(4, WRONG) == 5, "there is no progress beyond the last step"


def test_an_answer_is_right_if_all_is_done_and_no_error_stands() -> None:
    chain = Chain(depth=1)
    assert Trace(np.array([0, 2]), np.array([RIGHT, STOP])).solved(chain)
    assert not Trace(np.array([0]), np.array([STOP])).solved(chain)
    assert not Trace(np.array([0, 3]), np.array([WRONG, STOP])).solved(chain)
    assert not Trace(np.array([0, 2]), np.array([RIGHT, FILLER])).solved(chain), "it was cut"


@pytest.mark.parametrize("gain", ["solved", "wasted"])
def test_value_and_gradient_are_those_of_all_traces(gain: str) -> None:
    logits = SMALL.policy(3)
    chances = softmax(logits)
    brings = getattr(SMALL, gain)
    found = solve(SMALL, logits, brings)
    traces = list(every_trace(SMALL, chances))
    assert sum(p for _, p in traces) == pytest.approx(1)
    totals = [float(brings[trace.states, trace.actions].sum()) for trace, _ in traces]
    assert found.value == pytest.approx(sum(p * total for (_, p), total in zip(traces, totals, strict=True)))
    # The policy gradient theorem, with the whole return at every step.
    pulled = [np.full(len(trace.states), p * total) for (trace, p), total in zip(traces, totals, strict=True)]
    np.testing.assert_allclose(estimate(chances, [trace for trace, _ in traces], pulled, 1), found.gradient, atol=1e-12)


def test_the_gradient_is_what_small_changes_of_the_logits_bring() -> None:
    chain = Chain(depth=3, horizon=8)
    logits = chain.policy(0)
    found = solve(chain, logits, chain.solved)
    for at in np.ndindex(logits.shape):
        moved = logits.copy()
        moved[at] += 1e-6
        slope = (solve(chain, moved, chain.solved).value - found.value) / 1e-6
        assert slope == pytest.approx(found.gradient[at], abs=1e-5)


def test_prefix_values_are_the_share_of_rollouts_that_end_right() -> None:
    chain = Chain(depth=2, horizon=6)
    logits = chain.policy(1)
    found = solve(chain, logits, chain.solved)
    traces = sample(chain, logits, 4000, np.random.default_rng(0))
    assert np.mean([trace.solved(chain) for trace in traces]) == pytest.approx(found.value, abs=0.03)
    through = [trace for trace in traces if len(trace.states) > 1 and trace.states[1] == 2]
    assert np.mean([trace.solved(chain) for trace in through]) == pytest.approx(found.values[1, 2], abs=0.04)


def test_samples_are_the_seeds() -> None:
    first, second = (sample(SMALL, SMALL.policy(0), 20, np.random.default_rng(5)) for _ in range(2))
    assert all((a.actions == b.actions).all() for a, b in zip(first, second, strict=True))
