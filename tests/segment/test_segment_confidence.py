"""Confidence steps (AdaptiveStep): the card's numbers, the quantile, both sides, and that nothing is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.registry import create
from footfall.segment import Span, Token, confidence, confidence_threshold, token_spans

CARD = (0.99, 0.95, 0.40, 0.98, 0.97, 0.30, 0.99, 0.96, 0.92, 0.88)
LOGS = [math.log(c) for c in CARD]
LETTERS = "abcdefghij"


def tokens_of(pieces: Sequence[str], logprobs: Sequence[float | None]) -> list[Token]:
    ends = [sum(map(len, pieces[: k + 1])) for k in range(len(pieces))]
    return [Token(e - len(p), e, logprob) for p, e, logprob in zip(pieces, ends, logprobs, strict=True)]


def test_the_cards_quantile_and_its_three_steps() -> None:
    threshold = confidence_threshold(LOGS, share=0.2)
    assert threshold == pytest.approx(0.88)
    tokens = tokens_of(LETTERS, LOGS)
    spans = confidence(threshold)(LETTERS, tokens)
    assert token_spans(tokens, spans) == [Span(0, 3), Span(3, 6), Span(6, 10)]


def test_a_break_in_front_of_the_unsure_token_is_the_other_convention() -> None:
    tokens = tokens_of(LETTERS, LOGS)
    assert confidence(0.88, side="before")(LETTERS, tokens) == [Span(0, 2), Span(2, 5), Span(5, 10)]


@pytest.mark.parametrize(("threshold", "n_steps"), [(0.52, 2), (0.4005, 2), (0.3995, 1), (0.25, 1)])
def test_a_logprob_of_minus_0_9163_is_a_confidence_of_40_percent(threshold: float, n_steps: int) -> None:
    assert len(confidence(threshold)("ab", tokens_of("ab", [-0.9163, -0.01]))) == n_steps


def test_the_last_token_ends_the_last_step_however_unsure_it_was() -> None:
    assert confidence(0.5)("ab", tokens_of("ab", [0.0, -9.0])) == [Span(0, 2)]


def test_a_threshold_of_zero_never_breaks() -> None:
    assert confidence(0.0)(LETTERS, tokens_of(LETTERS, [-50.0] * 10)) == [Span(0, 10)]


@given(st.lists(st.floats(-30, 0), min_size=1, max_size=200, unique=True), st.floats(0, 0.99))
def test_the_share_of_break_tokens_on_the_corpus_is_the_one_asked_for(logprobs: list[float], share: float) -> None:
    threshold = confidence_threshold(logprobs, share)
    below = sum(math.exp(logprob) < threshold for logprob in logprobs)
    tied = sum(math.exp(logprob) == threshold for logprob in logprobs)  # exp can make two logprobs one probability
    assert below <= share * len(logprobs) + 1e-6 < below + tied + 1e-6 * 2


def test_a_share_that_is_a_whole_number_of_tokens_loses_none_to_rounding() -> None:
    logprobs = [math.log((k + 1) / 100) for k in range(100)]
    assert confidence_threshold(logprobs, 0.29) == pytest.approx(0.30)


def test_it_is_a_named_part() -> None:
    segmenter = create("segmenter", "confidence", threshold=0.5)
    assert segmenter("ab", tokens_of("ab", [-1.0, 0.0])) == [Span(0, 1), Span(1, 2)]


def test_missing_data_and_thresholds_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="token 0 has no logprob"):
        confidence()("ab", tokens_of("ab", [None, 0.0]))
    with pytest.raises(ValueError, match="none were given"):
        confidence()("ab")
    with pytest.raises(ValueError, match="must be a probability"):
        confidence(25)
    with pytest.raises(ValueError, match="'after' or 'before'"):
        confidence(side="behind")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="from 0 to below 1"):
        confidence_threshold([0.0], 1.0)
    with pytest.raises(ValueError, match="no logprobs"):
        confidence_threshold([])
    assert confidence()("") == []


PIECES = st.lists(st.text(max_size=4) | st.sampled_from(["\n", "🙂", "因为", "。", " ", "👩‍👩‍👧"]), max_size=25)


@given(PIECES, st.data(), st.sampled_from(["after", "before"]))
def test_characters_and_tokens_add_up_to_the_whole_for_any_text(
    pieces: list[str], data: st.DataObject, side: str
) -> None:
    text = "".join(pieces)
    tokens = tokens_of(pieces, [data.draw(st.floats(-5, 0)) for _ in pieces])
    spans = create("segmenter", "confidence", side=side)(text, tokens)
    assert "".join(text[a:b] for a, b in spans) == text and all(a < b for a, b in spans)
    if spans:
        owned = token_spans(tokens, spans)
        assert [k for a, b in owned for k in range(a, b)] == list(range(len(tokens)))
        assert all(text[a:b] == "".join(pieces[i:j]) for (a, b), (i, j) in zip(spans, owned, strict=True))


@given(st.text(st.sampled_from("a🙂é因"), min_size=1, max_size=10), st.data())
def test_tokens_that_share_a_character_stay_in_order(text: str, data: st.DataObject) -> None:
    """A byte-level vocabulary cuts a picture into several tokens, all of which have its one character as their place."""
    tokens = [
        Token(k, k + 1, data.draw(st.floats(-3, 0)))
        for k, character in enumerate(text)
        for _ in range(len(character.encode()))
    ]
    spans = confidence(0.4)(text, tokens)
    owned = token_spans(tokens, spans)
    assert "".join(text[a:b] for a, b in spans) == text
    assert [k for a, b in owned for k in range(a, b)] == list(range(len(tokens)))
