"""Several servers of one model: who is asked, who is left out and how long, and that what is written is the same."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from footfall.commands._options import policy_in_words, without_place
from footfall.policy import SamplingParams
from footfall.policy.http import HttpPolicy, http_policy
from footfall.policy.http_client import Server
from footfall.policy.http_pool import Pool
from footfall.types import Problem, Trajectory
from tests.policy.loopback_process import LoopbackProcess

PREFIXES = [Trajectory(str(k), Problem(str(k), f"How much is {k} plus {k}?"), separator="\n\n") for k in range(12)]
A, B, C = (f"http://node{k}:8000/v1" for k in (1, 2, 3))


def test_the_least_busy_is_asked_and_one_that_failed_is_left_out_longer_each_time() -> None:
    clock = [0.0]
    pool = Pool((A, B, C), first_wait=1.0, longest_wait=60.0, now=lambda: clock[0])
    with ExitStack() as under_way:
        assert [under_way.enter_context(pool.member()) for _ in range(4)] == [A, B, C, A]
        assert pool.failed(B, wait=0.0), "others can be asked at once"
        with pool.member() as url:
            assert url == C
        clock[0] = 1.0
        with pool.member() as url:
            assert url == B, "after a second it is tried again, for it is as little busy as C and stands before it"
        pool.failed(B, wait=0.0)
        clock[0] = 2.5
        with pool.member() as url:
            assert url == C, "now it is out for two"
        pool.answered(B)
    clock[0] = 10.0
    assert pool.failed(A, wait=30.0) and pool.failed(B, wait=0.0) and not pool.failed(C, wait=5.0)
    with pool.member() as url:
        assert url == B, "where all are out, the one whose time comes first"


def test_requests_that_fail_together_leave_a_server_out_no_longer_than_one_and_who_was_asked_in_vain_comes_last() -> (
    None
):
    clock = [0.0]
    pool = Pool((A, B, C), first_wait=1.0, longest_wait=60.0, now=lambda: clock[0])
    for _ in range(32):
        pool.failed(A, wait=0.0)
    clock[0] = 1.0
    with pool.member() as url, pool.member(been={A, B}) as other:
        assert (url, other) == (A, C)
    with pool.member(been={A, B, C}) as url:
        assert url == A, "who has been everywhere asks again"


def test_addresses_with_commas_are_a_pool_in_every_place_where_a_policy_is_named() -> None:
    assert Server(f"{A}, {B}/,{A}").urls == [A, B]
    words = policy_in_words(f"http,url={A},{B},model=toy,mode=chat")
    assert (words.url, words.model, words.mode) == (f"{A},{B}", "toy", "chat")
    assert policy_in_words(f"{A},{B}").url == f"{A},{B}"
    assert without_place(f"critic=http,url={A},{B},model=toy") == "critic=http,model=toy"
    assert without_place(f"{A},{B},model=toy") == without_place(f"{A},model=toy")
    with pytest.raises(ValueError, match="is not a server's address"):
        Server(f"{A},node2:8000")


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LoopbackProcess]]:
    folder = tmp_path_factory.mktemp("pool")
    servers = [LoopbackProcess(folder / f"{k}.jsonl") for k in range(2)]
    for server in servers:
        server.behave()
    yield servers
    for server in servers:
        server.stop()


def pooled(*urls: str) -> HttpPolicy:
    return http_policy(",".join(urls), first_wait=0.01, longest_wait=0.2, retries=3, read_timeout=5.0, concurrency=4)


def test_a_pool_writes_what_one_server_writes_and_all_take_part(servers: list[LoopbackProcess]) -> None:
    one = pooled(servers[0].url).sample(PREFIXES, 4)
    for server in servers:
        server.behave(delay=0.01)
    both = pooled(*(server.url for server in servers)).sample(PREFIXES, 4)
    assert [[c.steps for c in row] for row in both] == [[c.steps for c in row] for row in one]
    took = [len(server.entries("took")) for server in servers]
    assert sum(took) == 48 and min(took) >= 12


@pytest.fixture
def nobody() -> Iterator[list[str]]:
    """Addresses at which nobody answers."""
    with ExitStack() as held:
        places = [held.enter_context(socket.socket()) for _ in range(6)]
        for place in places:
            place.bind(("127.0.0.1", 0))
        yield [f"http://127.0.0.1:{place.getsockname()[1]}" for place in places]


def test_the_one_server_of_seven_that_is_up_is_found_and_has_no_more_requests_than_it_may(
    servers: list[LoopbackProcess], nobody: list[str]
) -> None:
    servers[0].behave(delay=0.02)
    rows = pooled(*nobody, servers[0].url).sample(PREFIXES, 4)
    assert not [c.error for row in rows for c in row if c.error]
    assert max(entry["in_flight"] for entry in servers[0].entries("took")) <= 4


def test_a_server_that_fails_or_dies_costs_no_sample(servers: list[LoopbackProcess]) -> None:
    whole = pooled(servers[0].url).sample(PREFIXES, 4, SamplingParams(seed=1))
    servers[1].behave(faults=[{"kind": "503", "every": 3}])
    policy = pooled(*(server.url for server in servers))
    spoilt = policy.sample(PREFIXES, 4, SamplingParams(seed=1))
    servers[1].stop()
    alone = policy.sample(PREFIXES, 4, SamplingParams(seed=1))
    for found in (spoilt, alone):
        assert [[c.steps for c in row] for row in found] == [[c.steps for c in row] for row in whole]
        assert not [c.error for row in found for c in row if c.error]
