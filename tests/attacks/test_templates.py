"""A chat template comes with a model and is a program: one that would run for ever is stopped, wherever it is applied."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.render import pieces
from footfall.render.trace import Template, dialogue_text, prompt_ids
from footfall.types import Message, Problem

LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}{{ messages[0].content }}"
PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"


def tokenizer(template: str) -> Any:
    made = load_tokenizer(str(EMBEDDED))
    made.chat_template = template
    return made


@pytest.fixture
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST_TEMPLATE_LINES", 5_000)


def test_a_template_that_loops_is_stopped_with_its_tokenizers_name(few_lines: None) -> None:
    made = tokenizer(LOOPS)
    for render in (
        lambda: prompt_ids(made, Problem("p", "1 + 1 = ?"), Template("chat")),
        lambda: dialogue_text(made, [Message("user", "1 + 1 = ?")]),
        lambda: pieces.Writer(made).chat([("user", "1 + 1 = ?")]),
        lambda: pieces.Writer(made).turn_end,
    ):
        with pytest.raises(
            ValueError, match=r"chat template of .*embedded does not end: it was stopped after 5,000 lines"
        ):
            render()
    assert sys.gettrace() is None


def test_a_template_that_ends_is_rendered_as_before_and_a_debugger_stays(few_lines: None) -> None:
    made = tokenizer(PLAIN)
    turns = [{"role": "user", "content": f"{k}?"} for k in range(300)]

    def debugger(frame: object, event: str, value: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        assert pieces.templated(made, turns, tokenize=False) == "".join(f"[user]{k}?" for k in range(300))
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(10**9) %}x{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 1 // 0 }}",
        "{% if %}",
        "{{ raise_exception('no system messages') }}",
        "{{ messages[9].content }}",
        "{{ nothing }}",
    ],
)
def test_what_a_template_raises_is_a_line_with_its_tokenizers_name(template: str) -> None:
    with pytest.raises(ValueError, match=r"chat template of .*embedded"):
        prompt_ids(tokenizer(template), Problem("p", "1 + 1 = ?"), Template("chat"))
