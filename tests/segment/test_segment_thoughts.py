"""Thoughts of a long chain of thought: where they begin, by example; and that cutting loses nothing, for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.registry import create
from footfall.segment import Span, Token, split_steps, thoughts, token_spans


def steps(text: str, **options: object) -> list[str]:
    return [step.text for step in split_steps(text, thoughts(**options))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<think>\nTwo and two is five. Wait, that is four.\n\nAlternatively, count.\n</think>\n\nThe answer is 4.",
            ["<think>\nTwo and two is five.", "Wait, that is four.", "Alternatively, count.\n</think>", "The answer is 4."],
        ),
        ("It is 5.\nHmm, no. Let me check: 4.\n</think>It is 4. Wait for it.",
         ["It is 5.", "Hmm, no.", "Let me check: 4.\n</think>", "It is 4. Wait for it."]),
        ("<think>It is 5. But wait, is it", ["<think>It is 5.", "But wait, is it"]),
        ("No tags here. Wait. Really?", ["No tags here.", "Wait. Really?"]),
        ("Intro.\n<think>a. Wait, b</think> c\n<think>d. Hold on, e</think>\nf",
         ["Intro.", "<think>a.", "Wait, b</think>", " c", "<think>d.", "Hold on, e</think>", "f"]),
        ("<think>\nWait, what?</think>", ["<think>\nWait, what?</think>"]),
        ("所以是五。等等，应该是四。换个方法。", ["所以是五。", "等等，应该是四。", "换个方法。"]),
    ],
)  # fmt: skip
def test_thoughts(text: str, expected: list[str]) -> None:
    assert [step.strip() for step in steps(text)] == [step.strip() for step in expected]


@pytest.mark.parametrize(
    "text",
    [
        "They wait for the bus. Waiting is dull.",
        "You can alternatively add. I will actually add.",
        "So\n$$\na.\nWait\n$$\nand on.",
        "So\n```\n# a.\nwait()\n```\nand on.",
    ],
)
def test_words_that_are_no_turn_cut_nothing(text: str) -> None:
    assert len(steps(text)) == 1


def test_a_formula_left_open_in_a_thought_does_not_hide_the_end_of_the_section() -> None:
    assert len(steps("<think>costs $$ a. Wait, b</think>\nSo $$ b.")) == 3


def test_short_thoughts_can_be_kept_together_but_sections_always_part() -> None:
    text = "<think>Five. Wait. Hmm, no. Wait, it is four and not five.</think>Four."
    assert len(steps(text)) == 5
    assert len(steps(text, min_length=20)) == 3
    assert len(steps(text, min_length=10_000)) == 2


def test_tags_and_turns_can_be_given() -> None:
    text = "[T]uno. Aspetta, due[/T]due"
    assert steps(text, pivots=["aspetta"], opening="[T]", closing="[/T]") == ["[T]uno.", "Aspetta, due[/T]", "due"]
    assert steps(text, pivots=[]) == [text]
    with pytest.raises(ValueError, match="tags must not be empty"):
        thoughts(opening="")


def test_it_is_a_named_part_and_a_token_belongs_to_the_step_it_begins_in() -> None:
    text = "Five. Wait, no."
    spans = create("segmenter", "thoughts")(text)
    assert spans == [Span(0, 6), Span(6, 15)]
    assert token_spans([Token(0, 4), Token(4, 7), Token(7, 15)], spans) == [Span(0, 2), Span(2, 3)]


FRAGMENTS = [
    "<think>",
    "</think>",
    "Wait",
    ", ",
    ". ",
    "\n",
    "\n\n",
    "Alternatively",
    "$$",
    "```",
    "等等",
    "。",
    "🙂",
    "x",
]
ANY_TEXT = st.text(max_size=80) | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)


@given(ANY_TEXT, st.integers(0, 10))
def test_spans_join_to_the_text_and_none_is_empty_or_blank_beside_others(text: str, min_length: int) -> None:
    spans = thoughts(min_length=min_length)(text)
    assert "".join(text[a:b] for a, b in spans) == text
    assert all(a < b for a, b in spans)
    assert len(spans) <= 1 or all(text[a:b].strip() for a, b in spans)
