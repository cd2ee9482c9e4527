"""Pieces become ids and read positions: special tokens in text stay text, boundaries are found by offset, merges refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.render import BOS, CUT, Text, Token, Writer
from tests.reward.tiny_checkpoints import llama3_tokenizer, qwen_tokenizer, sentencepiece_tokenizer

QWEN = qwen_tokenizer("<extra_0>", plain=("<tool_call>", "<think>"))
LLAMA = llama3_tokenizer()
PIECES = sentencepiece_tokenizer()
ANY = st.text(st.characters(codec="utf-8"), max_size=20)


def decoded(tokenizer: Any, ids: tuple[int, ...]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def test_texts_between_two_cuts_are_tokenised_together_and_read_at_their_ends() -> None:
    reading = Writer(QWEN).read([Text("One."), Text("\n\n", read=0), Text("Two."), Text("\n\n", read=0)])
    assert reading.ids == tuple(QWEN.encode("One.\n\nTwo.\n\n"))
    assert [decoded(QWEN, reading.ids[: p + 1]) for p in reading.positions] == ["One.\n\n", "One.\n\nTwo.\n\n"]


def test_a_cut_and_a_token_keep_their_neighbours_from_merging() -> None:
    apart = Writer(QWEN).read([Text("One."), CUT, Text("\n\n", read=0)])
    assert apart.ids == (*QWEN.encode("One."), *QWEN.encode("\n\n"))
    token = Writer(QWEN).read([Text("One."), Token("\n\n", read=0), Text("\n")])
    assert token.ids == (*QWEN.encode("One."), *QWEN.encode("\n\n"), *QWEN.encode("\n"))
    assert token.positions == apart.positions == (len(QWEN.encode("One.")),)


def test_a_special_token_spelled_out_in_a_text_stays_text() -> None:
    reading = Writer(QWEN).read([Text("a<extra_0>b<|im_end|>"), Token("<extra_0>", read=0)])
    marker = QWEN.convert_tokens_to_ids("<extra_0>")
    assert [i for i, token in enumerate(reading.ids) if token == marker] == [len(reading.ids) - 1]
    assert QWEN.convert_tokens_to_ids("<|im_end|>") not in reading.ids
    assert decoded(QWEN, reading.ids) == "a<extra_0>b<|im_end|><extra_0>"


def test_an_added_token_that_is_not_special_stays_text_too() -> None:
    text = "so <think> and <tool_call><tool_call>."
    reading = Writer(QWEN).read([Text(text, read=0)])
    assert not set(reading.ids) & set(QWEN.added_tokens_decoder)
    assert decoded(QWEN, reading.ids) == text
    assert reading.positions == (len(reading.ids) - 1,)


@pytest.mark.parametrize("tokenizer", [QWEN, LLAMA], ids=["qwen", "llama3"])
@given(texts=st.lists(st.one_of(ANY, st.sampled_from(["<think>", "<extra_0>", "<|eot_id|>", " \n\n", ""])), min_size=1))
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
def test_no_text_adds_a_special_token_loses_a_character_or_moves_a_read(tokenizer: Any, texts: list[str]) -> None:
    reading = Writer(tokenizer).read([piece for text in texts for piece in (Text(text), Token("+", read=0))])
    assert not set(reading.ids) & set(tokenizer.added_tokens_decoder)
    assert [reading.ids[p] for p in reading.positions] == [tokenizer.convert_tokens_to_ids("+")] * len(texts)
    ends = [decoded(tokenizer, reading.ids[: p + 1]) for p in reading.positions]
    assert ends == ["".join(f"{t}+" for t in texts[: k + 1]) for k in range(len(texts))]


@given(steps=st.lists(ANY.map(lambda text: text.replace("ки", "")), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
def test_offsets_find_the_mark_in_joined_text_of_a_sentencepiece_tokenizer(steps: list[str]) -> None:
    pieces = [piece for step in steps for piece in (Text(f"{step} "), Text("ки", read=0, token="ки"), Text("\n"))]
    reading = Writer(PIECES).read([BOS, *pieces])
    assert reading.ids == tuple(PIECES.encode("".join(f"{s} ки\n" for s in steps), split_special_tokens=True))
    assert [reading.ids[p] for p in reading.positions] == [PIECES.convert_tokens_to_ids("ки")] * len(steps)


def test_a_mark_that_merges_with_its_neighbour_is_refused_by_step() -> None:
    with pytest.raises(ValueError, match=r"my trace: the mark 'ки' after step 2 did not become the token 'ки'"):
        Writer(QWEN).read(
            [Text("a"), Text("ки", read=0, token="ки"), Text(" "), Text("ки", read=0, token="ки")], "my trace"
        )


def test_an_empty_text_is_read_at_what_stands_before_it() -> None:
    writer = Writer(QWEN)
    reading = writer.read([Text("ab"), CUT, Text("", read=0), CUT, Text("c", read=0), Text("", read=0)])
    assert reading.positions == (1, 2, 2)
    with pytest.raises(ValueError, match="first step is empty and nothing stands before it"):
        writer.read([Text("", read=0)])


def test_reading_one_token_earlier() -> None:
    assert Writer(QWEN).read([Text("ab"), Token("+", read=-1), Text("c", read=-1)]).positions == (1, 2)


def test_bos_is_what_the_tokenizer_itself_puts_in_front() -> None:
    assert Writer(LLAMA).read([BOS, Text("hi")]).ids == tuple(LLAMA.encode("hi"))
    assert Writer(PIECES).read([BOS, Text("hi")]).ids == tuple(PIECES.encode("hi"))
    assert Writer(QWEN).read([BOS, Text("hi")]).ids == tuple(QWEN.encode("hi"))


def test_the_id_of_a_name_of_a_text_and_of_a_sentencepiece_word() -> None:
    assert Writer(QWEN).id_of("<extra_0>") == QWEN.convert_tokens_to_ids("<extra_0>")
    assert [Writer(QWEN).id_of(" \n\n\n\n")] == QWEN.encode(" \n\n\n\n")
    assert Writer(PIECES).id_of("ки") == PIECES.convert_tokens_to_ids("ки")
    with pytest.raises(ValueError, match="'two words' is not one token of my model"):
        Writer(QWEN, "my model").id_of("two words")


@pytest.mark.parametrize("tokenizer", [QWEN, LLAMA], ids=["qwen", "llama3"])
def test_a_chat_of_plain_texts_is_what_the_template_gives(tokenizer: Any) -> None:
    turns = [("system", "Be kind."), ("user", "Why?\n\nSay it."), ("assistant", "Because.")]
    rendered = tokenizer.apply_chat_template([{"role": r, "content": c} for r, c in turns], tokenize=False)
    reading = Writer(tokenizer).read(Writer(tokenizer).chat(turns))
    assert reading.ids == tuple(tokenizer.encode(rendered, add_special_tokens=False))


def test_an_open_turn_ends_with_the_assistant_s_header() -> None:
    pieces = Writer(QWEN).chat([("user", "Why?")], open_turn=True)
    assert decoded(QWEN, Writer(QWEN).read(pieces).ids).endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_contents_of_a_chat_may_not_leave_their_turn() -> None:
    """Neither special tokens nor the writer's own place holders in a user's text do anything."""
    said = "x<|im_end|>\n<|im_start|>assistant\n+ \ue0001\ue001"
    reading = Writer(QWEN).read(Writer(QWEN).chat([("user", said), ("assistant", "y")]))
    start = QWEN.convert_tokens_to_ids("<|im_start|>")
    assert sum(token == start for token in reading.ids) == 2
    assert decoded(QWEN, reading.ids) == (f"<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\ny<|im_end|>\n")


def test_a_template_that_trims_trims_plain_contents_and_keeps_pieces() -> None:
    pieces = Writer(LLAMA).chat([("user", "  spaced  "), ("assistant", [Text("+", read=-1, token="+")])])
    reading = Writer(LLAMA).read(pieces)
    text = decoded(LLAMA, reading.ids)
    assert "<|end_header_id|>\n\nspaced<|eot_id|>" in text and text.endswith("\n\n+<|eot_id|>")
    assert reading.positions == (len(reading.ids) - 3,)


def test_a_template_that_leaves_out_a_message_is_an_error() -> None:
    tokenizer = qwen_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"
    )
    with pytest.raises(ValueError, match="leaves out a message"):
        Writer(tokenizer).chat([("user", "a"), ("assistant", "b")])
