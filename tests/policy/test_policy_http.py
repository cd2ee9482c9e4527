"""The HTTP policy against a real server process on loopback: one that works, fails, stalls, drops, dies and comes back."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from footfall.policy import Completion, Policy, SamplingParams
from footfall.policy.http import HttpPolicy, http_policy
from footfall.policy.http_client import Server, ServerRefusedError
from footfall.registry import create
from footfall.types import Cost, Message, Problem, Step, Trajectory
from tests.policy.loopback_process import LoopbackProcess


class Loopback(LoopbackProcess):
    """The server process, and what the tests ask of it."""

    def wait_for(self, event: str, count: int) -> None:
        """Until the log holds `count` such lines; ten seconds are far more than it takes."""
        deadline = time.monotonic() + 10
        while len(self.entries(event)) < count:
            assert time.monotonic() < deadline, f"{len(self.entries(event))} of {count} times {event!r}"
            time.sleep(0.01)

    def took(self) -> Counter[str]:
        """How often each (seed, prompt) arrived."""
        return Counter(entry["key"] for entry in self.entries("took"))

    def answered(self) -> Counter[str]:
        return Counter(entry["key"] for entry in self.entries("answered"))

    def policy(self, **options: Any) -> HttpPolicy:
        patience = {"first_wait": 0.01, "longest_wait": 0.2, "retries": 3, "read_timeout": 5.0, "concurrency": 8}
        return http_policy(self.url, **{**patience, **options})


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    loopback = Loopback(tmp_path_factory.mktemp("loopback") / "log.jsonl")
    yield loopback
    loopback.stop()


@pytest.fixture
def loopback(process: Loopback) -> Loopback:
    process.behave()
    return process


def prefix(text: str, *steps: str, separator: str = "\n\n") -> Trajectory:
    return Trajectory(text, Problem(text, text), tuple(map(Step, steps)), separator=separator)


def texts(completions: list[Completion]) -> list[str]:
    return ["\n\n".join(step.text for step in completion.steps) for completion in completions]


PREFIXES = [prefix(f"How much is {k} plus {k}?") for k in range(12)]
ONE_STEP = SamplingParams(until="step")


# What it sends and what it makes of the answer


def test_every_prefix_and_index_gives_one_completion_from_one_request_in_order(loopback: Loopback) -> None:
    policy: Policy = loopback.policy()
    written = policy.sample(PREFIXES, n=3)
    assert [[c.index for c in row] for row in written] == [[0, 1, 2]] * 12
    assert all(c.finish == "end" and c.error is None and c.steps for row in written for c in row)
    assert set(loopback.took().values()) == {1} and len(loopback.took()) == 36
    assert loopback.took() == loopback.answered()
    alone = [policy.sample([p], n=3)[0] for p in PREFIXES]
    assert [texts(row) for row in alone] == [texts(row) for row in written]


def test_sample_index_is_the_same_however_many_are_asked_for(loopback: Loopback) -> None:
    policy = loopback.policy()
    many = policy.sample(PREFIXES[:2], n=6)
    later = policy.sample(PREFIXES[:2], n=2, first=3)
    assert [texts(row) for row in later] == [texts(row[3:5]) for row in many]
    assert [c.index for c in later[0]] == [3, 4]
    assert len(set(texts(many[0]))) > 1
    other_run = policy.sample(PREFIXES[:1], n=6, params=SamplingParams(seed=1))
    assert texts(other_run[0]) != texts(many[0])


def test_a_request_says_all_of_the_sampling_parameters_and_switches_the_servers_own_off(loopback: Loopback) -> None:
    params = SamplingParams(temperature=0.7, top_p=0.9, max_tokens=77)
    loopback.policy().sample([prefix("Q", "one", "two")], params=params)
    (sent,) = (entry["request"] for entry in loopback.entries("took"))
    seed = sent.pop("seed")
    assert 0 <= seed < 2**31
    assert sent == {
        "model": "toy", "prompt": "Q\none\n\ntwo\n\n", "max_tokens": 77, "temperature": 0.7, "top_p": 0.9, "n": 1,
        "logprobs": 1, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }  # fmt: skip


def test_without_neutral_and_logprobs_only_the_standard_fields_are_sent(loopback: Loopback) -> None:
    policy = loopback.policy(neutral=False, logprobs=False, template="Q: {prompt} {json} A: {steps}")
    (first,), (second,) = (
        policy.sample([prefix("{steps}?")]),
        policy.sample([prefix("x")], params=SamplingParams(top_k=5)),
    )
    sent, with_top_k = (entry["request"] for entry in loopback.entries("took"))
    assert set(sent) == {"model", "prompt", "max_tokens", "temperature", "top_p", "seed", "n"}
    assert sent["prompt"] == "Q: {steps}? {json} A: "
    assert with_top_k["top_k"] == 5
    assert first[0].steps[0].logprobs is None and second[0].finish == "end"


def test_until_step_stops_at_the_separator_and_steps_one_by_one_make_the_same_kind_of_trace(loopback: Loopback) -> None:
    policy = loopback.policy()
    loopback.behave(text="so two\n\nthen four\n\nten")
    for step_stop in ("reported", "cut", "assumed"):
        ((one,),) = loopback.policy(step_stop=step_stop).sample([prefix("Q")], params=ONE_STEP)
        assert (one.finish, [s.text for s in one.steps]) == ("step", ["so two"])
        assert one.steps[0].logprobs == (-0.25, -0.5)
    loopback.behave(text="ten")
    ((last,),) = policy.sample([prefix("Q", "a")], params=ONE_STEP)
    assert (last.finish, [s.text for s in last.steps]) == ("end", ["ten"])
    assert last.after(prefix("Q", "a"), policy.name).text == "a\n\nten\n\n"


def test_a_server_that_does_not_say_what_stopped_a_step_is_not_guessed_about(loopback: Loopback) -> None:
    loopback.behave(no_stop_reason=True, text="so\n\nten")
    with pytest.raises(ServerRefusedError, match="step_stop='cut'"):
        loopback.policy().sample([prefix("Q")], params=ONE_STEP)
    ((cut,),) = loopback.policy(step_stop="cut").sample([prefix("Q")], params=ONE_STEP)
    assert (cut.finish, cut.steps[0].text) == ("step", "so")
    assert "stop" not in loopback.entries("took")[-1]["request"]
    ((whole,),) = loopback.policy().sample([prefix("Q")])
    assert (whole.finish, len(whole.steps)) == ("end", 2)


def test_max_tokens_gives_finish_length_and_logprobs_go_to_the_step_their_token_starts_in(loopback: Loopback) -> None:
    loopback.behave(text="so two\n\nthen four ten")
    ((cut,),) = loopback.policy().sample([prefix("Q")], params=SamplingParams(max_tokens=4))
    assert cut.finish == "length"
    assert [(s.text, s.logprobs) for s in cut.steps] == [("so two", (-0.25, -0.5)), ("then four", (-0.75, -1.0))]


def test_an_empty_step_is_an_error_not_a_success(loopback: Loopback) -> None:
    loopback.behave(text="\n\nso")
    ((empty,),) = loopback.policy().sample([prefix("Q", "a")], params=ONE_STEP)
    assert empty.finish == "error" and "begins with '\\n\\n'" in str(empty.error)


def test_chat_sends_messages_and_goes_on_with_an_unfinished_turn(loopback: Loopback) -> None:
    policy = loopback.policy(mode="chat", system="Be brief.")
    asked = Problem("p", (Message("user", "Hi"), Message("assistant", "Yes?"), Message("user", "2+2?")))
    ((fresh,), (longer,)) = policy.sample([Trajectory("t", asked), Trajectory("u", asked, (Step("It is"),))])
    first, second = (entry["request"] for entry in sorted(loopback.entries("took"), key=lambda e: len(e["key"])))
    assert [turn["role"] for turn in first["messages"]] == ["system", "user", "assistant", "user"]
    assert "continue_final_message" not in first and first["logprobs"] is True
    assert second["messages"][-1] == {"role": "assistant", "content": "It is\n\n"}
    assert second["continue_final_message"] is True and second["add_generation_prompt"] is False
    assert fresh.finish == longer.finish == "end" and fresh.steps[0].logprobs is not None


def test_in_chat_observations_may_be_turns_of_their_own(loopback: Loopback) -> None:
    looked = Trajectory("t", Problem("p", "Q"), (Step("look", "go()", "seen"), Step("so")))
    for role in ("user", "tool"):
        policy = loopback.policy(mode="chat", observations=role)
        policy.sample([looked.prefix(1), looked])
        took = [entry["request"] for entry in loopback.entries("took")[-2:]]
        waiting, going_on = sorted(took, key=lambda request: len(request["messages"]))
        assert [m["role"] for m in waiting["messages"]] == ["user", "assistant", role]
        assert "continue_final_message" not in waiting, "a new turn is opened"
        assert going_on["messages"][2:] == [
            {"role": role, "content": "seen"},
            {"role": "assistant", "content": "so\n\n"},
        ]
        assert policy.name != loopback.policy(mode="chat").name, "it writes otherwise, so it has another name"
    with pytest.raises(ValueError, match="need mode='chat'"):
        loopback.policy(observations="tool")


def test_in_chat_a_separator_that_the_template_dropped_is_not_made_part_of_the_step(loopback: Loopback) -> None:
    loopback.behave(text="\n\nso two")
    ((written,),) = loopback.policy(mode="chat").sample([prefix("Q", "a")])
    assert [s.text for s in written.steps] == ["so two"]


def test_batch_n_asks_once_for_all_samples_and_puts_choices_in_order(loopback: Loopback) -> None:
    (row,) = loopback.policy(batch_n=True).sample(PREFIXES[:1], n=4)
    assert sum(loopback.took().values()) == 1
    assert [c.index for c in row] == [0, 1, 2, 3] and len(set(texts(row))) > 1
    assert [c.cost.calls for c in row] == [1, 0, 0, 0]
    assert texts(loopback.policy(batch_n=True).sample(PREFIXES[:1], n=4)[0]) == texts(row)


class WordTokenizer:
    """Ids are word lengths: enough to see that ids, not text, were sent."""

    bos_token_id: int | None = 1
    eos_token_id: int | None = 2
    chat_template: Any = None

    def encode(self, text: Any, **options: Any) -> list[int]:
        return [len(word) for word in text.split(" ")]

    def decode(self, token_ids: Any, **options: Any) -> str:
        return ""

    def get_vocab(self) -> dict[str, int]:
        return {"a": 0}

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        raise NotImplementedError


def test_with_a_tokenizer_prompts_go_as_ids_and_sampled_ids_come_back(loopback: Loopback) -> None:
    loopback.behave(text="so two\n\nthen")
    policy = HttpPolicy(Server(loopback.url), tokenizer=WordTokenizer())
    ((written,),) = policy.sample([prefix("how much", "it is")])
    assert loopback.entries("took")[0]["request"]["prompt"] == [1, 3, 5, 2, 2, 2]
    assert [s.token_ids for s in written.steps] == [(2, 6), (4,)]
    assert written.after(prefix("how much", "it is"), policy.name).tokenizer == written.tokenizer is not None


def test_cost_counts_tokens_calls_and_no_more_than_the_wall_clock(loopback: Loopback) -> None:
    loopback.behave(cached=2, text="so two\n\nthen", faults=[{"kind": "500", "times": 1, "match": "5 plus"}])
    started = time.perf_counter()
    written = loopback.policy().sample(PREFIXES)
    elapsed = time.perf_counter() - started
    cost = Cost.total(c.cost for row in written for c in row)
    assert written[0][0].cost.prompt_tokens == 6 - 2
    assert (cost.cached_tokens, cost.generated_tokens, cost.calls) == (24, 36, 12), "what was tried twice counts once"
    assert 0 < cost.seconds <= elapsed


def test_missing_usage_counts_zero_and_is_told_once(loopback: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    loopback.behave(no_usage=True)
    policy = loopback.policy(logprobs=False)
    written = policy.sample(PREFIXES[:3])
    assert Cost.total(c.cost for row in written for c in row).generated_tokens == 0 and not policy.counts_tokens
    assert [record.message.endswith("token counts of its samples are 0") for record in caplog.records] == [True]


def test_without_usage_the_tokens_that_are_listed_with_their_logprobs_count(loopback: Loopback) -> None:
    counted = loopback.policy().sample(PREFIXES[:3])
    loopback.behave(no_usage=True)
    policy = loopback.policy()
    written = policy.sample(PREFIXES[:3])
    more = [c.cost.generated_tokens - d.cost.generated_tokens for (c,), (d,) in zip(written, counted, strict=True)]
    assert more == [1, 1, 1], "the end of the text is listed too"
    assert policy.counts_tokens


# Who it is


def test_the_model_is_asked_for_when_it_is_not_named(loopback: Loopback) -> None:
    assert loopback.policy().name.startswith("http:toy:completions:")
    loopback.behave(models=["toy", "big"])
    with pytest.raises(ValueError, match="serves toy, big; name one by model="):
        loopback.policy().sample(PREFIXES[:1])
    assert loopback.policy(model="big").sample(PREFIXES[:1])[0][0].finish == "end"


def test_the_name_tells_prompt_formats_apart_and_holds_no_secret(loopback: Loopback) -> None:
    plain = loopback.policy(model="m", api_key="sk-secret")
    assert plain.name == loopback.policy(model="m", concurrency=2).name
    others: list[dict[str, Any]] = [{"template": "{prompt}: {steps}"}, {"mode": "chat"}, {"batch_n": True}]
    assert len({plain.name, *(loopback.policy(model="m", **other).name for other in others)}) == 4
    assert "sk-secret" not in repr(plain) + plain.name


def test_the_key_comes_from_the_named_variable_and_is_never_repeated(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.behave(api_key="sk-good")
    monkeypatch.setenv("MY_KEY", "sk-good")
    assert loopback.policy(api_key_env="MY_KEY").sample(PREFIXES[:1])[0][0].finish == "end"
    with pytest.raises(ServerRefusedError, match=r"401.*check api_key") as refused:
        loopback.policy(api_key="sk-bad").sample(PREFIXES)
    assert "sk-bad" not in str(refused.value)
    with pytest.raises(ValueError, match="NO_SUCH_KEY"):
        loopback.policy(api_key_env="NO_SUCH_KEY")


def test_it_is_found_by_name_and_survives_pickling(loopback: Loopback) -> None:
    policy = create("policy", "http", url=loopback.url, model="toy")
    again = pickle.loads(pickle.dumps(policy))
    assert again.name == policy.name and again.sample(PREFIXES[:1])[0][0].finish == "end"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": "no holes"}, "must hold {prompt}"),
        ({"mode": "talk"}, "'completions' and 'chat'"),
        ({"system": "x"}, "no system message"),
        ({"concurrency": 0}, "out of range"),
        ({"url": "localhost:8000"}, "write e.g."),
        ({"url": "http://me:pw@host/v1"}, "api_key"),
        ({"api_key": "two\nlines"}, "white space"),
    ],
)
def test_impossible_settings_are_refused_when_the_policy_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        http_policy(**{"url": "http://localhost:1", **options})


# When the server misbehaves


@pytest.mark.long
@pytest.mark.parametrize("kind", ["500", "429", "drop", "truncated", "wrong-n", "nan", "close"])
def test_what_fails_twice_is_asked_again_and_nothing_is_lost_or_doubled(loopback: Loopback, kind: str) -> None:
    calm = [texts(row) for row in loopback.policy().sample(PREFIXES, n=2)]
    loopback.behave(faults=[{"kind": kind, "times": 2}])
    written = loopback.policy().sample(PREFIXES, n=2)
    assert [texts(row) for row in written] == calm
    assert {c.cost.calls for row in written for c in row} == {1}
    assert set(loopback.took().values()) == {3} and len(loopback.took()) == 24
    assert set(loopback.answered().values()) == {1} and len(loopback.answered()) == 24


@pytest.mark.parametrize(
    ("kind", "reason", "attempts"),
    [
        ("503", "HTTP 503: trouble 503", 4),
        ("drop", "RemoteProtocolError", 4),
        ("truncated", "not whole JSON", 4),
        ("wrong-n", "1 choices were asked for, the answer has 0", 4),
        ("huge", "longer than max_bytes", 1),
    ],
)
def test_a_request_that_never_works_is_an_error_with_its_reason_and_the_others_come_back(
    loopback: Loopback, kind: str, reason: str, attempts: int
) -> None:
    calm = loopback.policy().sample(PREFIXES)
    loopback.behave(faults=[{"kind": kind, "match": "7 plus"}])
    server = Server(loopback.url, retries=3, first_wait=0.01, max_bytes=1_000_000)
    written = HttpPolicy(server).sample(PREFIXES)
    (bad,) = written.pop(7)
    assert (bad.finish, bad.steps, bad.cost.calls) == ("error", (), 1)
    assert reason in str(bad.error) and f"attempt {attempts} of 4" in str(bad.error)
    assert [texts(row) for row in written] == [texts(row) for k, row in enumerate(calm) if k != 7]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["stall", "drip"])
def test_a_stalled_request_times_out_and_the_others_come_back(loopback: Loopback, kind: str) -> None:
    loopback.behave(faults=[{"kind": kind, "match": "3 plus"}, {"kind": kind, "match": "4 plus", "times": 1}])
    written = loopback.policy(read_timeout=3.0, total_timeout=4.5, retries=1).sample(PREFIXES)
    finishes = [row[0].finish for row in written]
    assert finishes == ["end"] * 3 + ["error"] + ["end"] * 8
    if kind == "stall":
        loopback.wait_for("hung-up", 3)
    assert ("read_timeout" if kind == "stall" else "total_timeout") in str(written[3][0].error)


def test_retry_after_is_honoured_and_one_beyond_patience_is_an_error(loopback: Loopback) -> None:
    loopback.behave(faults=[{"kind": "429", "times": 1, "retry_after": "0.5"}])
    policy = loopback.policy(longest_wait=1.0)
    assert policy.sample(PREFIXES[:1])[0][0].finish == "end"
    first, second = (entry["time"] for entry in loopback.entries("took"))
    assert second - first >= 0.5
    loopback.behave(faults=[{"kind": "429", "retry_after": "3600"}])
    ((given_up,),) = policy.sample(PREFIXES[:1])
    assert given_up.cost.calls == 1 and "asks for a wait of 3600 s" in str(given_up.error)


def test_waits_double_up_to_the_longest_and_their_jitter_is_seeded() -> None:
    server = Server("http://localhost:1", first_wait=1.0, longest_wait=5.0)
    waits = [server.wait("q", attempt) for attempt in range(1, 7)]
    for wait, full in zip(waits, [1, 2, 4, 5, 5, 5], strict=True):
        assert full / 2 <= wait <= full
    assert waits == [server.wait("q", attempt) for attempt in range(1, 7)]
    assert waits != [server.wait("other", attempt) for attempt in range(1, 7)]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"kind": "400", "message": "Unrecognized field: min_p"}, "Unrecognized field: min_p; .*neutral=False"),
        (
            {"kind": "422", "message": "body.top_logprobs: extra"},
            "top_logprobs: extra; if it is about a field .*one of: ",
        ),
        (
            {"kind": "400", "message": "logprobs are off"},
            r"are off; logprobs=False \(--logprobs False\) leaves out logprobs$",
        ),
        (
            {"kind": "500", "message": "[{'loc': ('body', 'top_k'), 'msg': 'at least 0'}]"},
            "--neutral False.* leaves out top_k$",
        ),
        ({"kind": "500", "message": "logprobs is not supported for this model"}, "--logprobs False"),
        ({"kind": "400", "message": "x" * 5000}, "400: x{499}…; if it is about a field"),
        ({"kind": "404", "message": "no model"}, "404: no model; check the url"),
        ({"kind": "403"}, "check api_key"),
        ({"kind": "400", "message": "max_tokens=99 cannot be greater than max_model_len=64."}, "fewer tokens"),
    ],
)
def test_what_can_never_work_raises_at_once_with_the_servers_words_and_the_fix(
    loopback: Loopback, fault: dict[str, Any], message: str
) -> None:
    loopback.behave(faults=[fault])
    with pytest.raises(ServerRefusedError, match=message):
        loopback.policy(concurrency=1).sample(PREFIXES)
    assert sum(loopback.took().values()) == 1


def test_a_server_that_insists_on_uuids_as_request_ids_gets_one_for_each_attempt_the_same_in_every_run(
    loopback: Loopback,
) -> None:
    loopback.behave(uuids=True, faults=[{"kind": "500", "times": 1, "match": "1 plus"}])
    assert {row[0].finish for row in loopback.policy().sample(PREFIXES[:3])} == {"end"}
    ids = sorted(entry["id"] for entry in loopback.entries("took"))
    assert len(set(ids)) == 4
    loopback.behave(uuids=True, faults=[{"kind": "500", "times": 1, "match": "1 plus"}])
    loopback.policy().sample(PREFIXES[:3])
    assert sorted(entry["id"] for entry in loopback.entries("took")) == ids


def test_a_refusal_of_one_prefix_is_that_prefixs_error_only(loopback: Loopback) -> None:
    too_long = {"kind": "400", "match": "0 plus", "message": "maximum context length is 8 tokens"}
    odd = {"kind": "400", "match": "9 plus", "message": "cannot do this one"}
    loopback.behave(faults=[too_long, odd])
    written = loopback.policy(concurrency=1).sample(PREFIXES[:10])
    assert [row[0].finish for row in written] == ["error", *["end"] * 8, "error"]
    assert "maximum context length" in str(written[0][0].error) and "cannot do" in str(written[9][0].error)
    assert set(loopback.took().values()) == {1}


def test_no_more_requests_are_in_flight_than_concurrency_allows(loopback: Loopback) -> None:
    loopback.behave(delay=0.02)
    loopback.policy(concurrency=3).sample(PREFIXES, n=2)
    assert max(entry["in_flight"] for entry in loopback.entries("took")) == 3


def test_a_server_that_dies_and_comes_back_on_its_port_is_survived(process: Loopback) -> None:
    process.behave()
    calm = [texts(row) for row in process.policy().sample(PREFIXES, n=4)]
    process.behave(delay=0.3)
    policy = process.policy(first_wait=0.2, longest_wait=2.0, retries=6, concurrency=4, model="toy")
    written: list[list[Completion]] = []
    thread = threading.Thread(target=lambda: written.extend(policy.sample(PREFIXES, n=4)))
    thread.start()
    process.wait_for("took", 10)  # the last ones are not answered yet
    process.stop()
    process.start()
    thread.join()
    assert [texts(row) for row in written] == calm
    assert {c.cost.calls for row in written for c in row} == {1} and max(process.took().values()) > 1
    assert len(process.answered()) == 48


def test_a_server_that_is_not_there_is_an_error_for_each_sample_and_named_when_asked_for_its_model() -> None:
    policy = http_policy("http://127.0.0.1:9", model="m", retries=1, first_wait=0.01)
    assert ["ConnectError" in str(c.error) for c in policy.sample(PREFIXES[:1], n=2)[0]] == [True, True]
    with pytest.raises(ConnectionError, match="is the server running"):
        http_policy("http://127.0.0.1:9", retries=0).sample(PREFIXES[:1])


# Where it is called from


def test_it_works_inside_a_running_event_loop_and_from_threads(loopback: Loopback) -> None:
    policy = loopback.policy()
    expected = texts(policy.sample(PREFIXES[:1], n=2)[0])

    async def in_a_notebook() -> list[str]:
        return texts(policy.sample(PREFIXES[:1], n=2)[0])

    assert asyncio.run(in_a_notebook()) == expected
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(texts(policy.sample(PREFIXES[:1], n=2)[0]))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_ctrl_c_cancels_what_is_in_flight_and_leaves_no_thread_behind(loopback: Loopback) -> None:
    loopback.behave(faults=[{"kind": "stall"}])
    policy = loopback.policy(model="toy")

    def interrupt() -> None:
        loopback.wait_for("took", 8)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    # A shell that starts the suite in the background leaves SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            policy.sample(PREFIXES)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not [t for t in threading.enumerate() if t.name.startswith("footfall-http")]
    assert sum(loopback.took().values()) == 8


def test_nothing_asked_for_is_nothing_sent(loopback: Loopback) -> None:
    assert loopback.policy().sample([]) == []
    assert loopback.policy().sample(PREFIXES[:2], n=0) == [[], []]
    with pytest.raises(ValueError, match="empty separator"):
        loopback.policy().sample([prefix("Q", separator="")], params=ONE_STEP)
    with pytest.raises(ValueError, match="has images"):
        loopback.policy().sample([Trajectory("t", Problem("p", "x", images=("a.png",)))])
    assert not loopback.took()
