"""The HTTP policy against the loopback server in the ways of llama.cpp, whose replies were recorded (October 2026)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from footfall.policy import SamplingParams
from footfall.policy.http import HttpPolicy, http_policy
from footfall.policy.http_client import AttemptError, ServerRefusedError
from footfall.policy.http_wire import Choice, Cutter, read_reply
from footfall.types import Problem, Step, Trajectory
from tests.policy.loopback_process import LoopbackProcess

ONE_STEP = SamplingParams(until="step")
ASKED = Problem("q", "How much is 2 plus 2?")
FRESH = Trajectory("fresh", ASKED)
BEGUN = Trajectory("begun", ASKED, (Step("so two"),))


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackProcess]:
    loopback = LoopbackProcess(tmp_path_factory.mktemp("loopback") / "log.jsonl")
    yield loopback
    loopback.stop()


def policy(process: LoopbackProcess, text: str, **options: Any) -> HttpPolicy:
    process.behave(llama_cpp=True, text=text)
    return http_policy(process.url, first_wait=0.01, retries=1, **options)


@pytest.mark.parametrize("mode", ["completions", "chat"])
def test_it_is_asked_what_stopped_a_step_and_its_word_is_taken(process: LoopbackProcess, mode: Any) -> None:
    ((step,),) = policy(process, "so two\n\nthen ten", mode=mode).sample([FRESH], params=ONE_STEP)
    assert process.entries("took")[-1]["request"]["verbose"] is True
    assert (step.finish, [s.text for s in step.steps], step.steps[0].logprobs) == ("step", ["so two"], (-0.25,))
    ((end,),) = policy(process, "ten", mode=mode).sample([FRESH], params=ONE_STEP)
    assert (end.finish, [s.text for s in end.steps]) == ("end", ["ten"])


def test_strict_servers_are_not_sent_the_field_and_whole_answers_need_it_not(process: LoopbackProcess) -> None:
    policy(process, "ten").sample([FRESH])
    policy(process, "ten", step_stop="cut").sample([FRESH], params=ONE_STEP)
    assert not any("verbose" in entry["request"] for entry in process.entries("took"))
    with pytest.raises(ServerRefusedError, match="--step-stop cut"):
        policy(process, "so\n\nten", neutral=False).sample([FRESH], params=ONE_STEP)


@pytest.mark.parametrize("logprobs", [True, False])
def test_the_chat_turn_that_it_gives_back_is_not_taken_for_written(process: LoopbackProcess, logprobs: bool) -> None:
    writer = policy(process, "then four\n\nten", mode="chat", logprobs=logprobs)
    ((step,),), ((whole,),) = writer.sample([BEGUN], params=ONE_STEP), writer.sample([BEGUN])
    assert (step.finish, [s.text for s in step.steps]) == ("step", ["then four"])
    assert [s.text for s in whole.steps] == ["then four", "ten"]
    assert whole.steps[1].logprobs == ((-0.75,) if logprobs else None)


def test_a_writer_that_truly_says_its_turn_again_is_believed() -> None:
    cutter = Cutter("\n\n", "end", "reported", "so two\n\n", keep_ids=False)
    tokens = ("so", " two", "\n\n", "ten")
    by_tokens = Choice("so two\n\nten", "stop", True, None, tokens, (-1.0,) * 4, of_llama_cpp=True)
    of_another = Choice("so two\n\nten", "stop", True, None)
    for choice in (by_tokens, of_another):
        assert [s.text for s in cutter.read(choice).steps] == ["so two", "ten"]


@pytest.mark.parametrize("mode", ["completions", "chat"])
@pytest.mark.parametrize("server", [{}, {"llama_cpp": True}])
def test_after_a_separator_more_than_needed_the_same_step_is_gone_on_with(
    process: LoopbackProcess, mode: Any, server: dict[str, Any]
) -> None:
    writer = policy(process, "", mode=mode)
    line = Trajectory("line", ASKED, (Step("so two"),), separator="\n")
    process.behave(lead="\n\n", text="then four\nten", **server)
    ((step,),) = writer.sample([line], params=ONE_STEP)
    first, second = (entry["key"] for entry in process.entries("took"))
    assert first.endswith("so two\n") and second.endswith("so two\n\n")
    assert (step.finish, [s.text for s in step.steps]) == ("step", ["\nthen four"])
    assert step.after(line, "w").text == "so two\n\nthen four\n"
    assert step.cost.calls == 2 and step.steps[0].logprobs is not None


def test_two_blank_lines_before_a_step_are_kept_with_the_logprobs_of_all() -> None:
    cutter = Cutter("\n", "step", "reported", "", keep_ids=False)
    first = cutter.read(Choice("", "stop", True, "\n", ("\n",), (-0.5,)))
    second = cutter._replace(begun=first.blank).read(Choice("", "stop", True, "\n", ("\n",), (-0.7,)))
    assert second.blank == Step("\n\n", logprobs=(-0.5, -0.7))
    third = cutter._replace(begun=second.blank).read(
        Choice("then four", "stop", True, "\n", ("then four", "\n"), (-0.9, -1.0))
    )
    assert third.steps == (Step("\n\nthen four", logprobs=(-0.5, -0.7, -0.9, -1.0)),)


def test_other_servers_never_give_the_turn_back_so_what_repeats_it_was_written() -> None:
    """Tokens that do not spell the text (a character broken over two of them) prove nothing there."""
    cutter = Cutter("\n\n", "end", "reported", "so two\n\n", keep_ids=False)
    broken = Choice("so two\n\n≈ ten", "stop", True, None, ("so two", "\n\n", "\ufffd", "\ufffd", " ten"), (-1.0,) * 5)
    assert [s.text for s in cutter.read(broken).steps] == ["so two", "≈ ten"]


def test_what_it_says_aside_is_not_trusted() -> None:
    payload = {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}], "__verbose": {"index": [1]}}
    with pytest.raises(AttemptError, match="__verbose: 'index'"):
        read_reply(payload, "completions", 1)


def test_all_choices_of_a_request_are_paid_for_though_it_counts_the_first_alone(process: LoopbackProcess) -> None:
    (row,) = policy(process, "so two ten", batch_n=True).sample([FRESH], n=3)
    assert [c.cost.generated_tokens for c in row] == [3 * 4, 0, 0]


def test_ids_come_from_the_rows_of_its_logprobs() -> None:
    rows = [{"id": 7, "token": "so", "logprob": -1.0}, {"id": 2, "token": "", "logprob": -2.0}]
    payload: dict[str, Any] = {
        "choices": [{"text": "so", "index": 0, "finish_reason": "stop", "logprobs": {"content": rows}}]
    }
    (choice,) = read_reply(payload, "completions", 1).choices
    assert (choice.token_ids, choice.tells_stop) == ((7, 2), False)
    del rows[1]["id"]
    assert read_reply(payload, "completions", 1).choices[0].token_ids is None


def test_a_prefix_longer_than_its_context_is_that_prefixs_error(process: LoopbackProcess) -> None:
    writer = policy(process, "ten")
    message = "request (3001 tokens) exceeds the available context size (1024 tokens), try increasing it"
    process.behave(llama_cpp=True, text="ten", faults=[{"kind": "400", "match": "so two", "message": message}])
    (bad,), (good,) = writer.sample([BEGUN, FRESH])
    assert (bad.finish, good.finish) == ("error", "end") and "available context size" in str(bad.error)
