"""Text to ids, step by step: a boundary between steps is a boundary between tokens, whatever the vocabulary merges."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from footfall.hashing import vocabulary_fingerprint
from footfall.render import Template, check_round_trip, encode, prompt_ids, template_for
from footfall.types import Message, Problem, Step, Trajectory

CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
fast_tokenizer: Any = PreTrainedTokenizerFast
PLAIN = Template()
PROBLEM = Problem("p1", "What is 3 + 4?", "7")
TRACE = Trajectory("t1", PROBLEM, (Step("3 + 4 = 7."), Step("The answer is 7.")))


def byte_level(*merges: tuple[str, str], chat: str | None = None) -> Any:
    """All bytes, and whatever tokens the merges make. `Ċ` is the line break, `Ġ` the space."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate([*alphabet, *(a + b for a, b in merges)])}
    inner = Tokenizer(models.BPE(vocabulary, list(merges)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    made: Any = fast_tokenizer(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")
    made.chat_template = chat
    return made


@cache
def merging() -> Any:
    """A vocabulary in which the end of a sentence and a blank line are one token, as in many real ones."""
    return byte_level(("Ċ", "Ċ"), (".", "ĊĊ"), ("Ċ", "3"), (".ĊĊ", "T"))


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def test_a_separator_that_would_merge_with_the_step_does_not() -> None:
    tokenizer = merging()
    (whole,) = ids_of(tokenizer, ".\n\n")  # joined as text, the boundary is gone
    encoded = encode(tokenizer, TRACE, PLAIN)
    assert whole not in encoded.ids
    (separator,) = ids_of(tokenizer, "\n\n")
    assert [encoded.ids[end] for end in encoded.step_ends] == [separator, separator]


def test_prompt_and_first_step_do_not_merge_either() -> None:
    tokenizer = merging()
    (whole,) = ids_of(tokenizer, "\n3")
    encoded = encode(tokenizer, TRACE, PLAIN)
    assert whole not in encoded.ids
    assert encoded.ids[encoded.prompt_length - 1] == ids_of(tokenizer, "\n")[0]


def test_a_trace_is_prompt_then_each_step_with_its_separator() -> None:
    tokenizer = merging()
    parts = [[tokenizer.bos_token_id, *ids_of(tokenizer, "What is 3 + 4?\n")]]
    parts += [ids_of(tokenizer, step.text) + ids_of(tokenizer, "\n\n") for step in TRACE.steps]
    encoded = encode(tokenizer, TRACE, PLAIN)
    whole = [i for part in parts for i in part]
    assert list(encoded.ids) == whole
    assert encoded.prompt_length == len(parts[0])
    assert encoded.step_ends == (len(parts[0] + parts[1]) - 1, len(whole) - 1)


def test_the_ids_of_a_prefix_begin_the_ids_of_the_trace() -> None:
    whole = encode(merging(), TRACE, PLAIN)
    for k in range(3):
        prefix = encode(merging(), TRACE.prefix(k), PLAIN)
        assert whole.ids[: len(prefix.ids)] == prefix.ids
        assert prefix.step_ends == whole.step_ends[:k]


def sampled(tokenizer: str) -> Trajectory:
    """Sampled with ids that no tokenizer would choose: two single line breaks instead of the pair."""
    odd = (*ids_of(merging(), "3 + 4 = 7."), *ids_of(merging(), "\n") * 2)
    return replace(TRACE, tokenizer=tokenizer, steps=(replace(TRACE.steps[0], token_ids=odd), TRACE.steps[1]))


def test_sampled_ids_are_used_as_they_are_with_the_same_vocabulary_only() -> None:
    own = sampled(vocabulary_fingerprint(merging()))
    kept = encode(merging(), own, PLAIN)
    assert own.steps[0].token_ids is not None
    assert kept.ids[kept.prompt_length : kept.step_ends[0] + 1] == own.steps[0].token_ids
    foreign = sampled("another vocabulary")
    assert encode(merging(), foreign, PLAIN) == encode(merging(), TRACE, PLAIN)
    other = byte_level(("Ċ", "Ċ"))
    assert encode(other, own, PLAIN) == encode(other, TRACE, PLAIN)


def test_only_what_carries_no_ids_of_this_vocabulary_is_tokenised(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = byte_level()
    mixed = (Step("3 + 4 = 7.", token_ids=(5, 6)), Step("The answer is 7."))
    own = replace(TRACE, steps=mixed, tokenizer=vocabulary_fingerprint(tokenizer))
    asked: list[str] = []
    plain = tokenizer.encode

    def watched(text: str, **options: Any) -> list[int]:
        asked.append(text)
        return list(plain(text, **options))

    monkeypatch.setattr(tokenizer, "encode", watched)

    def tokenised(trace: Trajectory) -> list[str]:
        asked.clear()
        encode(tokenizer, trace, PLAIN, prompt=(1,))
        return sorted(asked)

    assert tokenised(own) == [TRACE.separator, "The answer is 7."]
    assert tokenised(replace(own, steps=mixed[:1])) == []
    foreign = replace(own, tokenizer="another vocabulary")
    assert tokenised(foreign) == ["3 + 4 = 7.", "The answer is 7."], "the separator is remembered"


@pytest.mark.parametrize("template", [PLAIN, Template("chat")])
def test_a_prompt_may_be_tokenised_before(template: Template) -> None:
    tokenizer = byte_level(chat=CHAT)
    before = prompt_ids(tokenizer, PROBLEM, template)
    kept = list(before)
    assert encode(tokenizer, TRACE, template, before) == encode(tokenizer, TRACE, template)
    assert before == kept


def test_equal_vocabularies_have_equal_fingerprints() -> None:
    assert vocabulary_fingerprint(byte_level(("Ċ", "Ċ"))) == vocabulary_fingerprint(byte_level(("Ċ", "Ċ")))
    assert vocabulary_fingerprint(byte_level(("Ċ", "Ċ"))) != vocabulary_fingerprint(byte_level((".", "Ċ")))


def test_chat_templates_open_the_assistants_turn() -> None:
    tokenizer = byte_level(chat=CHAT)
    assert template_for(tokenizer) == Template("chat")
    assert template_for(merging()) == Template("plain")
    encoded = encode(tokenizer, TRACE, Template("chat", system="Be brief."))
    assert tokenizer.decode(encoded.ids[: encoded.prompt_length]) == (
        "<|system|>Be brief.<|user|>What is 3 + 4?<|assistant|>"
    )
    assert tokenizer.decode(encoded.ids[encoded.prompt_length :]) == TRACE.text


def test_chat_prompts_keep_their_turns() -> None:
    tokenizer = byte_level(chat=CHAT)
    turns = (Message("user", "Hi"), Message("assistant", "Hello"), Message("user", "3 + 4?"))
    encoded = encode(tokenizer, Trajectory("t", Problem("p", turns)), Template("chat"))
    assert tokenizer.decode(encoded.ids) == "<|user|>Hi<|assistant|>Hello<|user|>3 + 4?<|assistant|>"


def test_a_step_with_no_token_to_read_it_at_is_an_error_that_names_it() -> None:
    empty = replace(TRACE, separator="", steps=(Step("a"), Step("")))
    with pytest.raises(ValueError, match=r"'t1': step 2 is empty and has no separator"):
        encode(merging(), empty, PLAIN)
    with_separator = replace(empty, separator="\n")
    assert len(encode(merging(), with_separator, PLAIN).step_ends) == 2


def test_a_tokenizer_that_drops_spaces_is_refused() -> None:
    check_round_trip(merging(), "good")
    spaceless = byte_level()
    spaceless.backend_tokenizer.normalizer = None
    spaceless.backend_tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace(" ", "")])
    with pytest.raises(ValueError, match=r"the tokenizer of bad turns '3 \+ 4 = 7.' into '3\+4=7.'"):
        check_round_trip(spaceless, "bad")


def test_a_tokenizer_that_does_not_know_a_character_is_refused() -> None:
    words = Tokenizer(models.WordLevel({"3": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(ValueError, match="the tokenizer of words turns"):
        check_round_trip(fast_tokenizer(tokenizer_object=words, unk_token="[UNK]"), "words")


HOSTILE = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", ".", "\n", "\n\n", ".\n\n", "3", "T", " ", "\r\n", "\u2028", "🙂", "<s>", "</s>", "\x00"]),
    st.lists(st.sampled_from([".", "\n", "3", "T", " "]), max_size=12).map("".join),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(HOSTILE, max_size=6), st.sampled_from(["\n", "\n\n", ".\n\n", " ки\n"]), HOSTILE)
def test_every_step_ends_at_a_token_of_its_own(texts: list[str], separator: str, prompt: str) -> None:
    tokenizer = merging()
    steps: Any = tuple(map(Step, texts))
    trace = Trajectory("t", Problem("p", prompt), steps, separator=separator)
    encoded = encode(tokenizer, trace, PLAIN)
    ends = (encoded.prompt_length - 1, *encoded.step_ends)
    assert len(encoded.step_ends) == len(texts)
    assert all(a < b for a, b in pairwise(ends))
    assert ends[-1] == len(encoded.ids) - 1
    for text, begin, end in zip(texts, ends, encoded.step_ends, strict=False):
        assert tokenizer.decode(encoded.ids[begin + 1 : end + 1]) == text + separator


def test_an_observation_is_read_whether_or_not_its_step_has_ids() -> None:
    tokenizer = byte_level()
    step = Step("look", "go()", "seen")
    plain = encode(tokenizer, Trajectory("t", PROBLEM, (step,)), PLAIN)
    assert tokenizer.decode(plain.ids[plain.prompt_length :]) == "look\ngo()\nseen\n\n"
    ids = tuple(ids_of(tokenizer, "look\ngo()"))
    sampled = replace(step, token_ids=ids)
    own = encode(tokenizer, Trajectory("t", PROBLEM, (sampled,), tokenizer=vocabulary_fingerprint(tokenizer)), PLAIN)
    assert own == plain
    placed = replace(sampled, observation_ids=tuple(ids_of(tokenizer, "<seen>")))
    exact = encode(tokenizer, Trajectory("t", PROBLEM, (placed,), tokenizer=vocabulary_fingerprint(tokenizer)), PLAIN)
    assert tokenizer.decode(exact.ids[exact.prompt_length :]) == "look\ngo()<seen>"


def test_the_mask_holds_what_the_policy_wrote_and_nothing_else() -> None:
    tokenizer = byte_level()
    steps = (Step("ab", None, "cd"), Step("ef", author="person"), Step("gh"))
    found = encode(tokenizer, Trajectory("t", PROBLEM, steps, separator="|"), PLAIN)
    kept = [token for token, own in zip(found.ids, found.policy_mask, strict=True) if own]
    assert tokenizer.decode(kept) == "abgh|"
    assert len(found.policy_mask) == len(found.ids) and found.step_ends[-1] == len(found.ids) - 1


def test_images_come_in_the_order_of_the_trace() -> None:
    problem = replace(PROBLEM, images=("a",))
    trace = Trajectory("t", problem, (Step("x", images=("b", "c")), Step("y", images=("d",))))
    assert encode(byte_level(), trace, PLAIN).images == ("a", "b", "c", "d")
