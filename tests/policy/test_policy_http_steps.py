"""How a server's text and tokens become steps, and which replies are no replies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.policy.http_client import AttemptError
from footfall.policy.http_wire import Choice, Cutter, Usage, pieces, read_reply, token_starts

TEXT = st.text(alphabet="ab \n", max_size=30)


def cut(text: str, separator: str = "\n\n") -> list[str]:
    return [text[piece.start : piece.end] for piece in pieces(text, separator)]


def test_text_is_cut_at_the_separator_and_no_step_is_empty() -> None:
    assert cut("a\n\nb") == cut("a\n\nb\n\n") == ["a", "b"]
    assert cut("a\n\n\n\nb") == ["a", "\n\nb"]
    assert cut("") == cut("\n\n\n") == []


@given(TEXT, st.sampled_from(["\n\n", "\n", "b", ""]))
def test_steps_joined_by_the_separator_are_the_text_but_for_trailing_white_space(text: str, separator: str) -> None:
    steps = cut(text, separator)
    assert all(step.strip() for step in steps)
    joined = separator.join(steps)
    rest = text.removeprefix(joined)
    assert text.startswith(joined) and not rest.removeprefix(separator).strip()


def test_tokens_are_found_past_the_end_and_without_their_leading_space() -> None:
    assert token_starts("so two", ["so", " two", "</s>"]) == [0, 2, 6]
    assert token_starts("so two", ["so", "two"]) == [0, 2]
    assert token_starts("so.\n\n", ["so", ".\n\n\n"]) == [0, 2]
    assert token_starts("é!", ["\ufffd", "\ufffd", "!"]) is None
    assert token_starts("so two", ["so"]) is None


@given(st.lists(TEXT, max_size=8), st.sampled_from(["\n\n", "\n"]))
def test_every_token_of_a_step_goes_to_that_step_once(tokens: list[str], separator: str) -> None:
    text = "".join(tokens)
    logprobs = tuple(-float(i) for i in range(len(tokens)))
    choice = Choice(text, "length", True, None, tuple(tokens), logprobs, tuple(range(len(tokens))))
    written = Cutter(separator, "end", "reported", "", keep_ids=True).read(choice)
    given_out = [value for step in written.steps for value in step.logprobs or ()]
    assert given_out == sorted(set(given_out), reverse=True)
    for step in written.steps:
        if step.token_ids is not None:
            assert "".join(tokens[i] for i in step.token_ids).removesuffix(separator) == step.text


def test_ids_that_do_not_spell_the_step_are_dropped_but_logprobs_stay() -> None:
    choice = Choice("a.", "stop", True, "\n\n", ("a", ".\n\n\n"), (-1.0, -2.0), (5, 6))
    written = Cutter("\n\n", "step", "reported", "", keep_ids=True).read(choice)
    assert written.finish == "step" and written.steps[0].token_ids is None
    assert written.steps[0].logprobs == (-1.0, -2.0)


def test_tokens_that_do_not_spell_the_text_leave_no_logprobs_and_say_so() -> None:
    choice = Choice("é!", "stop", True, None, ("\ufffd", "!"), (-1.0, -2.0))
    written = Cutter("\n\n", "end", "reported", "", keep_ids=False).read(choice)
    assert written.steps[0].logprobs is None and not written.spelled


GOOD: dict[str, Any] = {"index": 0, "text": "so", "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ([], "the answer is a list where a dict belongs"),
        ({}, "'choices' is a NoneType where a list belongs"),
        ({"choices": [GOOD, GOOD]}, "1 choices were asked for, the answer has 2"),
        ({"choices": [{**GOOD, "index": {}}]}, "'index' is a dict where a int belongs"),
        ({"choices": [{**GOOD, "text": 3}]}, "'text' is a int where a str belongs"),
        ({"choices": [{**GOOD, "finish_reason": "content_filter"}]}, "finish_reason is 'content_filter'"),
        ({"choices": [{**GOOD, "logprobs": {"tokens": ["a"], "token_logprobs": []}}]}, "1 tokens and 0 values"),
        (
            {"choices": [{**GOOD, "logprobs": {"tokens": ["a"], "token_logprobs": [None]}}]},
            "holds 'None' where a log-probability",
        ),
        ({"choices": [GOOD], "usage": {"prompt_tokens": "3"}}, "'prompt_tokens' is a str where a int belongs"),
        (
            {"choices": [GOOD], "usage": {"prompt_tokens": 3, "completion_tokens": -1}},
            "3 prompt tokens and -1 completion",
        ),
        ({"choices": [GOOD], "usage": {"prompt_tokens": 10**30, "completion_tokens": 1}}, "usage cannot be"),
        ({"choices": [{**GOOD, "text": "so \ud800"}]}, "half of a surrogate pair"),
        (  # as routers in front of several servers do
            {"error": {"message": "no credits left", "code": 402}},
            "the answer is an error, though with HTTP 200: no credits left",
        ),
        (
            {"object": "error", "error": ["busy"], "choices": None},
            r'HTTP 200: \{"object": "error", "error": \["busy"\]',
        ),
    ],
)
def test_a_malformed_reply_names_the_field(payload: object, reason: str) -> None:
    with pytest.raises(AttemptError, match=reason):
        read_reply(payload, "completions", 1)


def test_a_count_of_no_tokens_for_a_text_is_no_count_and_cached_tokens_are_tokens_of_the_prompt() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 0}
    assert read_reply({"choices": [GOOD], "usage": usage}, "completions", 1).usage is None
    empty = {**GOOD, "text": ""}
    assert read_reply({"choices": [empty], "usage": usage}, "completions", 1).usage == Usage(3, 0, 0)
    more = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 7}}
    assert read_reply({"choices": [GOOD], "usage": more}, "completions", 1).usage == Usage(0, 3, 1)


def test_a_chat_reply_without_content_names_the_likely_cause() -> None:
    with pytest.raises(AttemptError, match="reasoning or tool parser"):
        read_reply({"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}, "chat", 1)


def test_what_stopped_a_sample_is_read_from_either_servers_field() -> None:
    for field in ("stop_reason", "matched_stop"):
        for value, stop in (("\n\n", "\n\n"), (None, None), (128009, None)):
            (choice,) = read_reply({"choices": [{**GOOD, field: value}]}, "completions", 1).choices
            assert (choice.tells_stop, choice.stop) == (True, stop)
    (silent,) = read_reply({"choices": [GOOD]}, "completions", 1).choices
    assert not silent.tells_stop
