"""Where each segmenter cuts, by example; and that cutting never loses a character, for any text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.registry import create, parts
from footfall.segment import Segmenter, Span, Token, blank_lines, lines, numbered, sentences, split_steps, step_markers

ALL: dict[str, Segmenter] = {
    "lines": lines(), "lines, blocks kept": lines(keep_blocks=True), "blank-lines": blank_lines(),
    "blank-lines, all": blank_lines(keep_blocks=False), "sentences": sentences(), "numbered": numbered(),
    "step-markers": step_markers(),
}  # fmt: skip
FRAGMENTS = ["\n", "\n\n", "\r\n", " ", ". ", "e.g. ", "Step 1:", "Step 2:", "2. ", "3.14", "$$", "\\[", "\\]", "```", "。",
             "A", "b", "?", "\t", "\\begin{a}", "\\end{a}", "\u2028", "🙂", "\x85"]  # fmt: skip
ANY_TEXT = st.text(max_size=80) | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)


def steps(text: str, segmenter: Segmenter) -> list[str]:
    return [step.text for step in split_steps(text, segmenter)]


@pytest.mark.parametrize("name", ALL)
@given(text=ANY_TEXT)
def test_spans_join_to_the_text_and_none_is_empty_or_blank_beside_others(name: str, text: str) -> None:
    spans = ALL[name](text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)
    assert len(spans) <= 1 or all(text[start:end].strip() for start, end in spans)


@pytest.mark.parametrize("name", ALL)
@given(text=ANY_TEXT)
def test_steps_are_never_empty_and_keep_every_character_that_is_not_white_space(name: str, text: str) -> None:
    found = steps(text, ALL[name])
    assert all(step.strip() for step in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_the_separator_belongs_to_the_step_that_it_closes() -> None:
    assert blank_lines()("ab\n\ncd") == [Span(0, 4), Span(4, 6)]
    assert lines()("ab\n\ncd\n") == [Span(0, 4), Span(4, 7)]
    assert sentences()("So. Then") == [Span(0, 4), Span(4, 8)]


def test_lines_cut_at_line_breaks_of_either_kind_and_keep_indentation() -> None:
    assert steps("a\r\nb\n\n  c\n", lines()) == ["a", "b", "  c"]
    assert steps("$$\nx\n$$\nb", lines()) == ["$$", "x", "$$", "b"]
    assert steps("$$\nx\n$$\nb", lines(keep_blocks=True)) == ["$$\nx\n$$", "b"]


def test_blank_lines_cut_paragraphs_whatever_white_space_the_blank_line_holds() -> None:
    assert steps("a\nb\n\nc\r\n\r\nd\n \t\n\n\ne", blank_lines()) == ["a\nb", "c", "d", "e"]


def test_blank_lines_inside_display_mathematics_and_code_do_not_cut() -> None:
    for block in ("$$\nx\n\ny\n$$", "\\[x\n\ny\\]", "\\begin{align*}\nx\n\ny\n\\end{align*}", "```python\nx\n\ny\n```"):
        assert steps(f"So\n{block}\n\nThen", blank_lines()) == [f"So\n{block}", "Then"]
        assert len(steps(f"So\n{block}\n\nThen", blank_lines(keep_blocks=False))) == 3


def test_a_block_that_is_never_closed_is_no_block() -> None:
    assert steps("costs $$ a\n\nb\n\nc", blank_lines()) == ["costs $$ a", "b", "c"]
    assert steps("x \\\\[2pt] y\n\nb \\] c", blank_lines()) == ["x \\\\[2pt] y", "b \\] c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pi is 3.14 here. So r = 2.5. Then stop.", ["Pi is 3.14 here.", "So r = 2.5.", "Then stop."]),
        (
            "Use e.g. Euler's rule, cf. Eq. 3 and Fig. (2). Done.",
            ["Use e.g. Euler's rule, cf. Eq. 3 and Fig. (2).", "Done."],
        ),
        ("Dr. Who asks: is it 7? No. It is 8!", ["Dr. Who asks: is it 7?", "No.", "It is 8!"]),
        ("apples, pears, etc. and plums. Next", ["apples, pears, etc. and plums.", "Next"]),
        ("The line meets A. Then B follows.", ["The line meets A.", "Then B follows."]),
        ('He said "yes." (True.) So on...  Then', ['He said "yes."', "(True.)", "So on...", "Then"]),
        ("1. First do this. Then that.\n2. Second.", ["1. First do this.", "Then that.", "2. Second."]),
        ("因为x=1。所以y=2！完", ["因为x=1。", "所以y=2！", "完"]),
        ("x = 3\ny = 4\n\nso 7", ["x = 3\ny = 4", "so 7"]),
        ("We get $$a = 1. \\quad B = 2.$$ Done. Ok.", ["We get $$a = 1. \\quad B = 2.$$ Done.", "Ok."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert steps(text, sentences()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Step 1: add.\nso\nStep 2: take.", ["Step 1: add.\nso", "Step 2: take."]),
        ("Let us see.\n\n### Step 1\nadd\n\n**Step 2.** take", ["Let us see.", "### Step 1\nadd", "**Step 2.** take"]),
        ("1. add\n2. take\r\n3) done", ["1. add", "2. take", "3) done"]),
        ("1. it is\n42. So on\n2. next", ["1. it is\n42. So on", "2. next"]),
        ("3.14 is pi\n1. one\n2. two", ["3.14 is pi", "1. one", "2. two"]),
        ("Step 1: list\n1. x\n2. y\nStep 2: end\nStep 1 said", ["Step 1: list\n1. x\n2. y", "Step 2: end\nStep 1 said"]),
        ("no numbers\nat all", ["no numbers\nat all"]),
    ],
)  # fmt: skip
def test_numbered(text: str, expected: list[str]) -> None:
    assert steps(text, numbered()) == expected


def test_white_space_alone_is_no_step_unless_asked() -> None:
    assert split_steps(" \n\n ", lines()) == ()
    assert [step.text for step in split_steps(" \n\n ", lines(), keep_empty=True)] == [""]
    assert split_steps("", lines(), keep_empty=True) == ()


def test_a_segmenter_that_loses_text_is_refused() -> None:
    def leaky(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
        return [Span(0, 2), Span(3, len(text))]

    with pytest.raises(ValueError, match="step 1 ends at 2, step 2 starts at 3"):
        split_steps("abcdef", leaky)


def test_all_are_found_by_name() -> None:
    assert {"lines", "blank-lines", "sentences", "numbered"} <= set(parts("segmenter"))
    assert create("segmenter", "lines")("a\nb") == [Span(0, 2), Span(2, 3)]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("unit", ["\\[ \\begin{x} ``` a.\n\n", ".", " ", "\n", ")", "1. ", "a. ", "\n1. ", "。"])
def test_a_degenerate_text_of_a_hundred_thousand_characters_is_no_trouble(name: str, unit: str) -> None:
    """A model caught in a loop writes such; a rule of quadratic cost would hang here."""
    text = unit * (100_000 // len(unit))
    assert ALL[name]("So." + text + "end")[-1].end == len(text) + 6
