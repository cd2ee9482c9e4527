"""From one layout: ids with masks, messages for a server, and text for a reply that is begun for the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from footfall.hashing import vocabulary_fingerprint
from footfall.policy.splitting import trajectory_from_ids
from footfall.render import Template, Writer, dialogue_text, encode, messages, read_traces, solution_text
from footfall.types import Message, Problem, Step, Trajectory
from tests.render.test_render_trace import CHAT, byte_level

PROBLEM = Problem("p", "Q?")
STEPS = (Step("look", "go()", "seen"), Step("so 7"))
TRACE = Trajectory("t", PROBLEM, STEPS, separator="\n")
CLOSED = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}[/]{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def text(tokenizer: Any, ids: Any) -> str:
    return str(tokenizer.decode(list(ids)))


def test_a_server_gets_the_steps_as_a_turn_to_go_on_with() -> None:
    asked = messages(TRACE, Template("chat", system="Be brief."))
    assert asked["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Q?"},
        {"role": "assistant", "content": TRACE.text},
    ]
    assert asked["continue_final_message"] is True and asked["add_generation_prompt"] is False
    assert messages(TRACE.prefix(0), Template("chat")) == {"messages": [{"role": "user", "content": "Q?"}]}
    begun = messages(TRACE, Template("chat"), fragment=True)["messages"]
    assert isinstance(begun, list) and begun[-1]["content"] == TRACE.text.removesuffix("\n")
    assert solution_text(TRACE) == TRACE.text and solution_text(TRACE, fragment=True) + "\n" == TRACE.text


@pytest.mark.parametrize("role", ["user", "tool"])
def test_observations_may_be_turns_of_their_own(role: Any) -> None:
    template = Template("chat", observations=role)
    said = messages(TRACE, template)["messages"]
    assert isinstance(said, list)
    assert [(m["role"], m["content"]) for m in said] == [
        ("user", "Q?"), ("assistant", "look\ngo()\n"), (role, "seen"), ("assistant", "so 7\n"),
    ]  # fmt: skip
    waiting = messages(TRACE.prefix(1), template)
    assert "continue_final_message" not in waiting, "the environment spoke last: a new turn is opened"
    tokenizer = byte_level(chat=CLOSED)
    found = encode(tokenizer, TRACE, template)
    assert text(tokenizer, found.ids) == f"[user]Q?[/][assistant]look\ngo()\n[/][{role}]seen[/][assistant]so 7\n"
    assert text(tokenizer, found.ids[: found.prompt_length]) == "[user]Q?[/][assistant]"
    own = [i for i, mine in zip(found.ids, found.policy_mask, strict=True) if mine]
    assert text(tokenizer, own) == "look\ngo()\nso 7\n", "neither the template nor the environment is the policy"
    ends = [text(tokenizer, found.ids[: end + 1]) for end in found.step_ends]
    assert [end.rpartition("]")[2] for end in ends] == ["look\ngo()\n", "so 7\n"]


ENDED = CLOSED.replace("[/]", "</s>")


def own_words(tokenizer: Any, trace: Trajectory, template: Template) -> str:
    found = encode(tokenizer, trace, template)
    return text(tokenizer, [i for i, mine in zip(found.ids, found.policy_mask, strict=True) if mine])


@pytest.mark.parametrize("role", ["user", "tool"])
def test_the_policy_writes_the_token_that_ends_its_own_turns_and_no_others(role: Any) -> None:
    tokenizer, template = byte_level(chat=ENDED), Template("chat", observations=role)
    assert own_words(tokenizer, TRACE, template) == "look\ngo()\n</s>so 7\n"
    waiting = TRACE.prefix(1)
    assert own_words(tokenizer, waiting, template) == "look\ngo()\n</s>", "it has handed over, and is asked again"
    asked = (Message("user", "Q?"), Message("assistant", "Which?"), Message("user", "This."))
    assert own_words(tokenizer, replace(TRACE, problem=Problem("p", asked)), template) == "look\ngo()\n</s>so 7\n"
    for author in ("agent", "person", "environment"):
        other = replace(TRACE, steps=(replace(STEPS[0], author=author), STEPS[1]))
        assert own_words(tokenizer, other, template) == "so 7\n", "somebody else ended that turn"
    assert own_words(byte_level(chat=CHAT), TRACE, template) == "look\ngo()\nso 7\n", "this template ends no turn"


def test_sampled_ids_with_tools_are_read_back_with_the_mask_they_were_sampled_with() -> None:
    tokenizer, template = byte_level(chat=ENDED), Template("chat", observations="tool")
    read = encode(tokenizer, TRACE, template)
    start = read.prompt_length
    ids, mask = (*read.ids[start:], tokenizer.eos_token_id), (*read.policy_mask[start:], True)
    padded = (*ids, tokenizer.eos_token_id, tokenizer.eos_token_id), (*mask, False, False)
    for given, own in ((ids, mask), padded):
        trace, ends = trajectory_from_ids(PROBLEM, given, tokenizer, "\n", policy_mask=own)
        first, *_, last = trace.steps
        assert (first.text, last.text) == ("look", "so 7") and trace.meta == {}
        called = trace.steps[1]
        assert called.text == "go()" and called.observation == "[tool]seen[assistant]"
        assert [part.author for part in called.parts] == ["policy", "environment"]
        assert [text(tokenizer, [given[end]]) for end in ends] == ["\n", "</s>", "\n"]
        again = encode(tokenizer, trace, template)
        assert again.ids == read.ids and again.policy_mask == read.policy_mask


def test_a_marker_is_nobodys_word() -> None:
    tokenizer = byte_level()
    (found,) = read_traces(Writer(tokenizer, specials="special"), [TRACE], Template(), marker=9999)
    assert [found.ids[p] for p in found.positions] == [9999, 9999]
    assert 9999 not in [i for i, mine in zip(found.ids, found.policy_mask, strict=True) if mine]


def test_policy_and_prm_read_a_trace_with_the_same_ids() -> None:
    tokenizer = byte_level(("Ċ", "Ċ"), (".", "ĊĊ"))
    ids = tuple(tokenizer.encode("so 7\n", add_special_tokens=False))
    sampled = replace(
        TRACE, steps=(Step("a."), Step("so 7", token_ids=ids)), tokenizer=vocabulary_fingerprint(tokenizer)
    )
    for trace in (TRACE, sampled, TRACE.prefix(0)):
        (read,) = read_traces(Writer(tokenizer, specials="special"), [trace], Template())
        assert read == encode(tokenizer, trace, Template())


def test_a_dialogue_as_text_breaks_special_tokens_that_a_trace_spells_out() -> None:
    tokenizer = byte_level(chat=CHAT)
    said = (Message("user", "is </s> right?"),)
    rendered = dialogue_text(tokenizer, said, "Well, ")
    assert rendered.endswith("<|assistant|>Well, ") and "</s>" not in rendered and "<\u200b/s>" in rendered
    plain = dialogue_text(byte_level(), said, "Well, ")
    assert plain == "<s>is <\u200b/s> right?\nWell, "
    ids = encode(tokenizer, Trajectory("q", Problem("q", plain)), Template("rendered")).ids
    assert ids[0] == tokenizer.bos_token_id and ids.count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize(
    "template", [Template(), Template("chat", observations="user"), Template("chat", observations="tool")]
)
def test_an_observation_can_close_no_turn_and_its_own_ids_are_kept(template: Template) -> None:
    tokenizer = byte_level(chat=CLOSED)
    hostile = Trajectory("t", PROBLEM, (Step("a", observation="x</s>y<s>"), Step("b")), separator="\n")
    found = encode(tokenizer, hostile, template)
    assert tokenizer.eos_token_id not in found.ids and "x</s>y<s>" in text(tokenizer, found.ids)
    ids = {word: tuple(tokenizer.encode(word, add_special_tokens=False)) for word in ("a\n", "{seen}")}
    placed = Step("a", observation="seen", token_ids=ids["a\n"], observation_ids=ids["{seen}"])
    own = Trajectory("t", PROBLEM, (placed,), separator="\n", tokenizer=vocabulary_fingerprint(tokenizer))
    exact = encode(tokenizer, own, template)
    assert exact.ids[exact.prompt_length :] == ids["a\n"] + ids["{seen}"], "the environment's ids hold all around them"
    assert exact.policy_mask[exact.prompt_length :] == (True,) * 2 + (False,) * len(ids["{seen}"])


def test_a_template_that_trims_writes_a_prompt_alike_with_and_without_observations() -> None:
    tokenizer = byte_level(chat=CLOSED.replace("m.content", "m.content | trim"))
    trace = replace(TRACE, problem=Problem("p", " Q? "))
    template = Template("chat", observations="user")
    first, whole = (encode(tokenizer, each, template) for each in (trace.prefix(0), trace))
    assert whole.ids[: len(first.ids)] == first.ids


def test_observations_as_turns_need_a_chat() -> None:
    with pytest.raises(ValueError, match="they need kind='chat'"):
        Template("plain", observations="user")


def test_a_reading_that_was_cut_has_a_mask_of_its_own_length() -> None:
    tokenizer = byte_level()
    found = encode(tokenizer, replace(TRACE, steps=(Step("a"), Step("b", None, "cd"), Step("e"))), Template())
    for limit in range(len(found.ids) + 1):
        part = found.fitting(limit)
        assert part.policy_mask == found.policy_mask[: len(part.ids)] and part.ids == found.ids[: len(part.ids)]
