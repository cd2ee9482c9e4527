"""Token-entropy steps (EDU-PRM): the card's numbers, what opens no step, and that no character or token is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.registry import create
from footfall.segment import Span, Token, entropy, entropy_of, split_steps, token_spans
from footfall.segment.tokens import is_symbol


def tokens_of(pieces: Sequence[str], entropies: Sequence[float | None]) -> list[Token]:
    ends = [sum(map(len, pieces[: k + 1])) for k in range(len(pieces))]
    return [Token(e - len(p), e, entropy=h) for p, e, h in zip(pieces, ends, entropies, strict=True)]


def steps(pieces: Sequence[str], entropies: Sequence[float], threshold: float = 1.0) -> list[str]:
    text = "".join(pieces)
    return [text[a:b] for a, b in entropy(threshold)(text, tokens_of(pieces, entropies))]


@pytest.mark.parametrize(
    ("probabilities", "nats", "anchor"),
    [((0.5, 0.5), 0.6931, False), ((0.55, 0.25, 0.2), 0.9973, False), ((0.4, 0.3, 0.2, 0.1), 1.2799, True)],
)
def test_the_entropies_of_the_card_and_which_of_them_is_an_anchor(
    probabilities: tuple[float, ...], nats: float, anchor: bool
) -> None:
    h = entropy_of(probabilities)
    assert h == pytest.approx(nats, abs=5e-5)
    assert steps(["So", " we"], [0, h]) == (["So", " we"] if anchor else ["So we"])


def test_a_sure_writer_has_no_entropy_and_an_even_one_the_logarithm_of_its_choices() -> None:
    assert entropy_of([1.0, 0.0]) == 0
    assert entropy_of([0.25] * 4) == pytest.approx(math.log(4))


def test_the_step_is_closed_before_the_anchor_and_only_above_the_threshold() -> None:
    assert steps(["We", " add", ".", " Then", " take"], [0.1, 1.0, 0, 1.01, 0.2]) == ["We add.", " Then take"]


def test_an_infinite_threshold_gives_one_step() -> None:
    assert steps(["a", "b", "c"], [9, 9, 9], math.inf) == ["abc"]


@pytest.mark.parametrize("symbol", ["(", ")", " =", "+", "×", "$", "\\", ".", ",", "\n", " ", "「", "^", "≤", ""])
def test_symbols_open_no_step(symbol: str) -> None:
    assert is_symbol(symbol)
    assert steps(["a", symbol, "b"], [0, 5, 0]) == [f"a{symbol}b"]


@pytest.mark.parametrize("word", [" So", "7", "例", "🙂", "x)", "½"])
def test_words_numbers_and_pictures_do(word: str) -> None:
    assert not is_symbol(word)
    assert steps(["a", word, "b"], [0, 5, 0]) == ["a", word + "b"]


def test_a_budget_of_cuts_is_spent_in_the_order_of_the_text() -> None:
    tokens = tokens_of(["a", "b", "c", "d"], [2, 2, 2, 2])
    assert entropy(max_cuts=2)("abcd", tokens) == [Span(0, 1), Span(1, 2), Span(2, 4)]
    assert entropy(max_cuts=0)("abcd", tokens) == [Span(0, 4)]


def test_it_is_a_named_part_and_gives_steps() -> None:
    segmenter = create("segmenter", "entropy", threshold=0.5)
    tokens = tokens_of(["One", ".", " Two"], [0, 0, 0.6])
    assert [step.text for step in split_steps("One. Two", segmenter, tokens)] == ["One.", " Two"]


def test_missing_data_is_an_error_that_names_the_token() -> None:
    with pytest.raises(ValueError, match="token 1 has no entropy"):
        entropy()("ab", tokens_of(["a", "b"], [0, None]))
    with pytest.raises(ValueError, match="none were given"):
        entropy()("ab")
    with pytest.raises(ValueError, match="token 1 has the characters 0 to 3"):
        entropy()("ab", [Token(0, 1, entropy=0), Token(0, 3, entropy=0)])
    with pytest.raises(ValueError, match="must not be negative"):
        entropy(-1)
    assert entropy()("") == []


PIECES = st.lists(st.text(max_size=4) | st.sampled_from(["\n", "🙂", "因为", "。", " ", "é", "👩‍👩‍👧"]), max_size=25)


@given(PIECES, st.data())
def test_characters_and_tokens_add_up_to_the_whole_for_any_text(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    tokens = tokens_of(pieces, [data.draw(st.floats(0, 3)) for _ in pieces])
    spans = entropy()(text, tokens)
    assert "".join(text[a:b] for a, b in spans) == text and all(a < b for a, b in spans)
    owned = token_spans(tokens, spans)
    assert len(owned) == len(spans)
    if spans:
        assert [k for a, b in owned for k in range(a, b)] == list(range(len(tokens)))
        assert all(text[a:b] == "".join(pieces[i:j]) for (a, b), (i, j) in zip(spans, owned, strict=True))
