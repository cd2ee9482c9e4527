"""What a model wrote, cut into steps: no id lost, none moved, and the text said once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaTokenizer

from footfall.hashing import vocabulary_fingerprint
from footfall.policy.splitting import SampledTrajectory, StepSplitter, trajectory_from_ids
from footfall.types import Problem

ALIGNED = ["a", "b c", " d", " ", "  ", ".", "x=", "\n", "\n\n", ".\n\n", " \n", "\n\n\n", "🙂"]
"""Separators end tokens, as in the vocabularies of most models."""
STRADDLING = [*ALIGNED, "\n\nT", "\n}\n", "\nx", "\n\n \n\ny\n\nz"]
"""Some tokens end one step and begin the next, or hold a whole one."""


class Pieces:
    """A tokenizer whose token i is the text `vocabulary[i]`."""

    bos_token_id: int | None = None
    eos_token_id: int | None = None
    chat_template: Any = None

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = vocabulary

    def decode(self, token_ids: Any, **_: Any) -> str:
        return "".join(self.vocabulary[i] for i in token_ids)

    def encode(self, text: Any, **_: Any) -> list[int]:
        raise NotImplementedError

    def get_vocab(self) -> dict[str, int]:
        raise NotImplementedError

    def apply_chat_template(self, conversation: Any, **_: Any) -> Any:
        raise NotImplementedError


def splitter(separator: str = "\n\n", vocabulary: Sequence[str] = STRADDLING) -> StepSplitter:
    return StepSplitter(Pieces(vocabulary), len(vocabulary), separator)


def texts(tokens: Sequence[str], separator: str = "\n\n") -> list[str]:
    ids = [STRADDLING.index(token) for token in tokens]
    return [step.text for step in splitter(separator).split(ids, [-1.0] * len(ids))]


@pytest.mark.parametrize(
    ("tokens", "steps"),
    [
        (["a", "\n\n", "b c", "\n\n"], ["a", "b c"]),
        (["a", "\n\n", "b c"], ["a", "b c"]),  # the last step needs no separator
        (["a", "\n", "\n", "b c"], ["a", "b c"]),  # the separator in two tokens
        (["a", ".\n\n", "b c"], ["a.", "b c"]),  # the separator inside a token
        (["\n", "\n\n", "a", "\n\n"], ["a"]),  # leading line breaks
        (["a", "\n\n", "\n\n", "\n", "b c"], ["a", "b c"]),  # stray separators between
        (["a", "\n\n", " ", "\n\n", "b c"], ["a", "b c"]),  # a blank step is none
        (["a", "\n\n", "  ", "x=", "\n\n"], ["a", "  x="]),  # indentation stays
        (["a", "\n\n\n", "b c"], ["a", "b c"]),
        (["a", "\n", "b c", "\n\n"], ["a\nb c"]),  # one line break is no separator here
        (["a", "\n\nT", " d", "\n\n"], ["a", "T d"]),  # a token that begins the next step
        (["a", "\n\nT"], ["a\n\nT"]),  # ... of which nothing else came
        (["\n"], [""]),
        ([], []),
    ],
)
def test_steps_are_cut_at_separators_however_these_are_tokenised(tokens: list[str], steps: list[str]) -> None:
    assert texts(tokens) == steps


def test_a_token_with_a_whole_step_inside_keeps_that_step_where_its_ids_are() -> None:
    assert texts(["a", "\n}\n", "b c", "\n", "x="], separator="\n") == ["a\n}", "b c", "x="]


def test_ids_of_stray_separators_stay_with_the_step_before_or_lead_the_first() -> None:
    tokens = ["\n", "a", "\n\n", "\n\n", "b c", "\n"]
    steps = splitter().split([STRADDLING.index(t) for t in tokens], [-float(i) for i in range(6)])
    assert [len(step.token_ids or ()) for step in steps] == [4, 2]
    assert [step.logprobs for step in steps] == [(0.0, -1.0, -2.0, -3.0), (-4.0, -5.0)]


def test_blanks_in_front_are_dropped_where_a_solution_begins_and_are_indentation_after_other_steps() -> None:
    tokens = [STRADDLING.index(token) for token in ["  ", "x=", "\n", "  ", "b c"]]
    logprobs = [0.0] * len(tokens)
    assert [step.text for step in splitter("\n").split(tokens, logprobs)] == ["x=", "  b c"]
    assert [step.text for step in splitter("\n").split(tokens, logprobs, first=False)] == ["  x=", "  b c"]
    (cut,) = splitter("\n").split(tokens[:2], logprobs[:2], first=False)
    assert cut.text == "  x="
    blank_lines = [STRADDLING.index(token) for token in [" \n", "\n", "  ", "x="]]
    assert [step.text for step in splitter().split(blank_lines, [0.0] * 4, first=False)] == ["  x="]


def _bytes_and_spaces() -> Any:
    """A vocabulary as Llama 2 and Mistral have it: spaces in front of words, and unknown characters byte by byte."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "a", "▁a", "▁▁", "▁▁▁▁"]
    return LlamaTokenizer(
        vocab={token: i for i, token in enumerate(tokens)}, merges=[("▁", "a"), ("▁", "▁"), ("▁▁", "▁▁")]
    )


@pytest.mark.parametrize(
    ("separator", "text", "steps"),
    [
        ("\n", "a\n    a\n        a", ["a", "    a", "        a"]),  # its decoder drops a blank in front of a text
        ("。", "a。aa。aaa", ["a", "aa", "aaa"]),  # three tokens, none of which is a character
        ("ки", "aки\naки", ["a", "\na"]),
    ],
)
def test_steps_of_a_vocabulary_that_spells_characters_in_bytes_and_spaces_before_words(
    separator: str, text: str, steps: list[str]
) -> None:
    tokenizer = _bytes_and_spaces()
    ids = tokenizer.encode(text, add_special_tokens=False)
    made = StepSplitter(tokenizer, len(tokenizer), separator)
    assert [step.text for step in made.split(ids, [0.0] * len(ids))] == steps
    ends = [made.closes_step(ids[: k + 1]) for k in range(len(ids))]
    assert ids[ends.index(True)] in made.closing, "the engine looks there"


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        splitter("")


def test_only_tokens_with_the_separators_last_character_are_looked_at() -> None:
    assert {STRADDLING[i] for i in splitter(".\n").closing} == {token for token in STRADDLING if "\n" in token}


SEPARATORS = st.sampled_from(["\n", "\n\n", ".\n\n"])


def tokens_of(vocabulary: Sequence[str]) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, len(vocabulary) - 1), max_size=14)


def said(text: str, separator: str) -> list[str]:
    """What a text says between its separators, but for blanks."""
    return [part.strip() for part in text.split(separator) if part.strip()]


@given(tokens_of(STRADDLING), SEPARATORS)
def test_every_id_is_kept_once_in_order_with_its_logprob(tokens: list[int], separator: str) -> None:
    logprobs = [-float(i) for i in range(len(tokens))]
    steps = splitter(separator).split(tokens, logprobs)
    assert [i for step in steps for i in step.token_ids or ()] == tokens
    assert [x for step in steps for x in step.logprobs or ()] == logprobs
    assert all(step.token_ids for step in steps), "every step has a token to be read at"


@given(tokens_of(STRADDLING), SEPARATORS)
def test_the_steps_joined_by_separators_say_what_was_written(tokens: list[int], separator: str) -> None:
    made = splitter(separator)
    steps = made.split(tokens, [0.0] * len(tokens))
    written = "".join(STRADDLING[i] for i in tokens)
    assert said(separator.join(step.text for step in steps), separator) == said(written, separator)
    assert all(step.text.strip() for step in steps) or (len(steps) == 1 and not written.strip(f" {separator}"))


@given(tokens_of(ALIGNED), SEPARATORS)
def test_where_separators_end_tokens_each_steps_text_is_that_of_its_ids(tokens: list[int], separator: str) -> None:
    for step in splitter(separator, ALIGNED).split(tokens, [0.0] * len(tokens)):
        assert separator not in step.text
        assert (
            said("".join(ALIGNED[i] for i in step.token_ids or ()), separator) == [step.text.strip()][: bool(step.text)]
        )


@given(tokens_of(ALIGNED), SEPARATORS)
def test_stopping_after_each_step_gives_the_steps_of_one_go(tokens: list[int], separator: str) -> None:
    """Indentation too; past ".\\n\\n" one go keeps a line break more."""
    made = splitter(separator, ALIGNED)
    one_go = [step.text for step in made.split(tokens, [0.0] * len(tokens)) if step.text]
    step_by_step: list[str] = []
    start = 0
    for end in range(1, len(tokens) + 1):
        if made.closes_step(tokens[start:end]):
            (step,) = made.split(tokens[start:end], [0.0] * (end - start), first=not step_by_step)
            step_by_step.append(step.text)
            start = end
    rest = made.split(tokens[start:], [0.0] * (len(tokens) - start), first=not step_by_step)
    step_by_step += [step.text for step in rest if step.text]
    if separator == ".\n\n":
        one_go, step_by_step = [text.strip() for text in one_go], [text.strip() for text in step_by_step]
    assert step_by_step == one_go


PROBLEM = Problem("p", "What is 3 + 4?")
END = 2
WORDS = ["\n", "\n\n", "<end>", *STRADDLING]


class Words(Pieces):
    """The same with a vocabulary, and a token that ends a text."""

    eos_token_id: int | None = END

    def get_vocab(self) -> dict[str, int]:
        return {f"{i}:{text}": i for i, text in enumerate(self.vocabulary)}


def sampled(ids: Sequence[int], separator: str = "\n\n", **more: Any) -> SampledTrajectory:
    return trajectory_from_ids(PROBLEM, ids, Words(WORDS), separator, **more)


@given(st.lists(st.sampled_from([i for i in range(len(WORDS)) if i != END]), max_size=14), SEPARATORS, st.booleans())
def test_the_steps_of_a_completions_ids_joined_are_its_ids(ids: list[int], separator: str, ended: bool) -> None:
    logprobs = [-float(i) for i in range(len(ids))]
    trajectory, ends = sampled(ids + [END] * ended, separator, logprobs=logprobs + [-9.0] * ended)
    assert [i for step in trajectory.steps for i in step.token_ids or ()] == ids
    assert [x for step in trajectory.steps for x in step.logprobs or ()] == logprobs
    assert len(ends) == len(trajectory.steps)
    starts = [0, *(end + 1 for end in ends)]
    for step, start, end in zip(trajectory.steps, starts, ends, strict=False):
        assert tuple(ids[start : end + 1]) == step.token_ids
    assert starts[-1] == len(ids), "the last step ends with the text"
    assert trajectory.meta == ({} if ended else {"finish": "length"})


def test_ids_become_steps_with_their_ends_and_what_comes_after_the_end_is_in_none() -> None:
    ids = [WORDS.index(text) for text in ("a", ".\n\n", "b c", " d")]
    trajectory, ends = sampled([*ids, END, 0, 0], id="t7", author="grpo")
    assert [step.text for step in trajectory.steps] == ["a.", "b c d"] and ends == (1, 3)
    assert (trajectory.id, trajectory.author, trajectory.problem) == ("t7", "grpo", PROBLEM)
    assert trajectory.tokenizer == vocabulary_fingerprint(Words(WORDS)) and trajectory.separator == "\n\n"
    assert all(step.logprobs is None for step in trajectory.steps)
    assert trajectory.text == "a.\n\nb c d\n\n"


def test_other_ends_can_be_named_and_a_completion_may_be_empty() -> None:
    ids = [WORDS.index("a"), END, WORDS.index("x=")]
    assert sampled(ids, end_ids=[ids[2]]).step_ends == (1,)
    trajectory, ends = sampled([END])
    assert trajectory.steps == () and ends == () and trajectory.id == "p"


def test_what_the_environment_put_between_is_the_observation_of_the_step_before() -> None:
    a, b, stop, tool = (WORDS.index(text) for text in ("a", "b c", ".\n\n", "x="))
    ids, mask = [a, stop, b, END, tool, tool, a, END, 0], [True] * 4 + [False] * 2 + [True] * 2 + [False]
    logprobs = [-float(i) for i in range(len(ids))]
    trajectory, ends = sampled(ids, logprobs=logprobs, policy_mask=mask, end_ids=[END, 0])
    assert [(step.text, step.observation) for step in trajectory.steps] == [("a.", None), ("b c", "x=x="), ("a", None)]
    assert [step.token_ids for step in trajectory.steps] == [(a, stop), (b, END), (a,)]
    assert [step.observation_ids for step in trajectory.steps] == [None, (tool, tool), None]
    assert [step.logprobs for step in trajectory.steps] == [(-0.0, -1.0), (-2.0, -3.0), (-6.0,)]
    assert ends == (1, 3, 6), "a reward belongs to a token that the policy wrote"
    assert trajectory.meta == {}


def test_a_policy_that_was_cut_or_waits_for_its_tool_has_not_ended() -> None:
    a, tool = WORDS.index("a"), WORDS.index("x=")
    for ids, mask in (([a, END, tool], [True, True, False]), ([a, tool, a, END], [True, False, True, False])):
        assert sampled(ids, policy_mask=mask).trajectory.meta == {"finish": "length"}
    (first, second), ends = sampled([tool, a, END], policy_mask=[False, True, True])[0].steps, (0, 1)
    assert (first.author, second.author) == ("environment", "policy") and ends == (0, 1)
    with pytest.raises(ValueError, match=r"2 ids but 1 entries of policy_mask"):
        sampled([a, END], policy_mask=[True])


def test_logprobs_that_do_not_fit_the_ids_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'p': 2 ids but 1 logprobs"):
        sampled([3, 4], logprobs=[-1.0])


def test_ids_of_a_tensor_or_an_array_are_the_same_ids() -> None:
    ids = [i for i in range(len(WORDS)) if i != END][:4] + [END]
    plain = sampled(ids, logprobs=[-0.5] * len(ids))
    for same in (torch.tensor(ids), np.array(ids)):
        found = sampled(same, logprobs=torch.full((len(ids),), -0.5))  # type: ignore[arg-type]
        assert found == plain and all(type(i) is int for step in found.trajectory.steps for i in step.token_ids or ())
