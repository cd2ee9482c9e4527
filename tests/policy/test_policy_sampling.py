"""Drawing tokens: the right distribution, the right support, one uniform number a sequence."""

from __future__ import annotations

import pytest
import torch

from footfall.policy.drawing import draw, uniform
from footfall.policy.protocol import SamplingParams

LOGITS = torch.log(torch.tensor([0.5, 0.25, 0.15, 0.1]))


def drawn_from(logits: torch.Tensor, params: SamplingParams, n: int = 20_000) -> torch.Tensor:
    u = uniform(torch.arange(n), torch.zeros(n, dtype=torch.long))
    return torch.bincount(draw(logits.expand(n, -1), u, params).tokens_N, minlength=logits.numel()) / n


def test_tokens_come_in_proportion_to_their_probability() -> None:
    torch.testing.assert_close(drawn_from(LOGITS, SamplingParams()), LOGITS.exp(), atol=0.015, rtol=0)


def test_temperature_sharpens() -> None:
    expected = torch.softmax(LOGITS / 0.5, -1)
    torch.testing.assert_close(drawn_from(LOGITS, SamplingParams(temperature=0.5)), expected, atol=0.015, rtol=0)


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        (SamplingParams(top_k=2), 2),
        (SamplingParams(top_p=0.7), 2),
        (SamplingParams(top_p=0.8), 3),
        (SamplingParams(top_p=1e-300), 1),
    ],
)
def test_top_k_and_top_p_keep_only_the_head(params: SamplingParams, kept: int) -> None:
    head = LOGITS.exp()[:kept] / LOGITS.exp()[:kept].sum()
    frequencies = drawn_from(LOGITS, params)
    torch.testing.assert_close(frequencies[:kept], head, atol=0.015, rtol=0)
    assert frequencies[kept:].sum() == 0


def test_a_large_vocabulary_is_searched_in_blocks_with_the_same_result() -> None:
    logits = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0)) * 3
    u = uniform(torch.arange(64), torch.ones(64, dtype=torch.long))
    cdf = logits.double().softmax(-1).cumsum(-1)
    expected = torch.searchsorted(cdf, u.double()[:, None], right=True)[:, 0]
    assert (draw(logits, u, SamplingParams()).tokens_N == expected).float().mean() > 0.98


def test_a_token_of_probability_zero_is_never_drawn_even_at_the_edges() -> None:
    logits = torch.tensor([float("-inf"), 0.0, float("-inf"), 0.0, float("-inf")]).expand(4, -1)
    u = torch.tensor([0.0, 0.4999999, 0.5, 1 - 2**-24])
    assert draw(logits, u, SamplingParams()).tokens_N.tolist() == [1, 1, 3, 3]


def test_uniform_numbers_are_uniform_and_differ_by_seed_and_position() -> None:
    seeds = torch.arange(1000).repeat_interleave(20) * 7919
    u = uniform(seeds, torch.arange(20).repeat(1000))
    assert len(set(u.tolist())) > 19_900
    assert u.min() >= 0 and u.max() < 1
    counts = torch.histc(u, 10, 0, 1)
    assert (counts - 2000).abs().max() < 250
    assert torch.equal(u, uniform(seeds, torch.arange(20).repeat(1000)))


@pytest.mark.parametrize("temperature", [-0.5, float("nan"), float("inf")])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    """NaN drew the vocabulary's first token at each place."""
    with pytest.raises(ValueError, match="out of range"):
        SamplingParams(temperature=temperature)
