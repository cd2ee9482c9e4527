"""A judge behind HTTP says what it says in this process; what fails is no zero, and hostile requests and answers do no harm."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from footfall import cli
from footfall.commands._judges import JudgeInRun
from footfall.judging import Traits, traits
from footfall.registry import create
from footfall.reward.judge_server import JudgeServer, Limits
from footfall.store import Run
from footfall.types import Cost, Judge, Judgement, Problem, Reason, Step, Trajectory, Unjudged


@dataclass
class Lengths:
    """Values by the number of characters; of a step without any there is none."""

    name: str = "lengths"
    fails: int = 0
    """Of every three calls."""
    calls: int = 0

    @property
    def traits(self) -> Traits:
        return Traits(threshold=0.25, separators=("\n\n",), judge_partial=lambda given: self._values(given, 0.5))

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.calls += 1
        if self.calls % 3 < self.fails:
            raise RuntimeError("the model was not in the mood")
        return self._values(trajectories, 1.0)

    def _values(self, trajectories: Sequence[Trajectory], scale: float) -> list[Judgement]:
        nothing = Unjudged(Reason.UNREADABLE, "nothing is there")
        return [
            Judgement(
                t.id, tuple(scale / len(s.text) if s.text else None for s in t.steps), self.name, value=0.1,
                aspects={"ids": tuple(float(len(s.token_ids or ())) for s in t.steps)}, cost=Cost(scored_tokens=7), initial=0.3,
                failures=tuple(None if s.text else nothing for s in t.steps),
            )
            for t in trajectories
        ]  # fmt: skip


class Waiting(Lengths):
    """Says that it was asked, and answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.asked.set()
        self.go_on.wait(10)
        return super().judge(trajectories)


def traces(count: int = 5) -> list[Trajectory]:
    problem = Problem("p", "What is 2 + 2?", "4")
    steps = (Step("2 + 2 = 4", token_ids=(1, 2, 3), logprobs=(-0.1, -0.2, -0.3)), Step(""), Step("so \u2028 4"))
    return [Trajectory(f"t{k}", problem, steps[: 1 + k % 3], "4", k % 2 == 0, tokenizer="abc") for k in range(count)]


@contextmanager
def serving(judge: Judge, **given: Any) -> Iterator[str]:
    with JudgeServer(judge, "127.0.0.1", 0, **given) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_it_says_what_the_judge_says_and_all_of_it() -> None:
    own = Lengths()
    with serving(own) as url:
        judge = create("reward", "served", url=url, batch=2)
        said, known = judge.judge(traces()), traits(judge)
        assert known.judge_partial is not None
        unfinished = known.judge_partial(traces(1))
    assert judge.name == "served(lengths)" and own.calls == 3, "five traces, two a request"
    assert said == [replace(each, judge=judge.name) for each in own.judge(traces())]
    assert (known.threshold, known.separators) == (0.25, ("\n\n",)) and unfinished[0].values == (0.5 / 9,)


def test_any_program_asks_it_in_the_short_form() -> None:
    """The request of docs/judges.md, as curl sends it."""
    with serving(Lengths()) as url:
        connection = HTTPConnection(url.removeprefix("http://"))
        body = {"traces": [{"id": "a", "problem": "2 + 3 = ?", "steps": ["2 + 3 = 5.", "It is 5."]}]}
        connection.request("POST", "/v1/judge", json.dumps(body), {"Content-Type": "application/json"})
        told = json.loads(connection.getresponse().read())
        connection.close()
    assert told["judge"] == "lengths" and told["judgements"][0]["trajectory_id"] == "a"
    assert len(told["judgements"][0]["values"]) == 2


def test_a_judge_that_fails_now_and_then_costs_time() -> None:
    with serving(Lengths(fails=1)) as url:
        said = create("reward", "served", url=url, batch=1, first_wait=0.01).judge(traces(9))
    assert [each.values for each in said] == [each.values for each in Lengths().judge(traces(9))]


def test_one_that_always_fails_leaves_steps_without_values_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Lengths(fails=3)) as url:
        (said,) = create("reward", "served", url=url, retries=1, first_wait=0.01).judge(traces(1))
    why = said.failure(0)
    assert said.values == (None,) and why is not None and why.reason is Reason.FAILED_CALL
    assert "the model was not in the mood" in why and "attempt 2 of 2" in why
    assert "in judge" in caplog.text, "the server's own log has where it happened"


def test_where_nothing_listens_the_error_says_what_to_start() -> None:
    judge = create("reward", "served", url="http://127.0.0.1:1", retries=0)
    with pytest.raises(ConnectionError, match="is `footfall serve` running there"):
        judge.judge(traces(1))


def test_the_key_is_asked_for_and_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "correct horse battery".replace(" ", "-"))
    with serving(Lengths(), key="correct-horse-battery") as url:
        assert create("reward", "served", url=url, api_key_env="JUDGE_KEY").judge(traces(1))[0].values
        with pytest.raises(Exception, match="HTTP 401"):
            create("reward", "served", url=url, retries=0).judge(traces(1))
    with pytest.raises(ValueError, match="not set"):
        create("reward", "served", url=url, api_key_env="NO_SUCH_KEY")


def test_images_stay_here() -> None:
    pictured = replace(traces(1)[0], problem=Problem("p", "What is it?", images=("/etc/passwd",)))
    own = Lengths()
    with serving(own) as url:
        first, second = create("reward", "served", url=url).judge([pictured, traces(1)[0]])
    assert first.values == (None,) and "images" in str(first.failure(0)) and second.values == (1 / 9,)


def request(url: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    host, port = url.removeprefix("http://").split(":")
    connection = HTTPConnection(host, int(port), timeout=10)
    connection.request("POST", "/v1/judge", body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (b"{", {}, 400, "Expecting"),
        (b'{"traces": 3}', {}, 400, 'the field "traces"'),
        (b'{"traces": [{"problem": "p"}]}', {}, 400, "trace 1"),
        (b'{"traces": [' + b"[" * 100_000 + b"]}", {}, 400, ""),
        (b'{"traces": [{"problem": {"prompt": "?", "images": ["/etc/passwd"]}, "steps": ["a"]}]}', {}, 400, "images"),
        (b'{"traces": [' + b",".join([b'{"problem": "p", "steps": ["a"]}'] * 5) + b"]}", {}, 413, "at most 4"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "application/json"),
        (b"{}", {"Content-Length": "99999999999"}, 413, "longer than"),
        (b"{}", {"Content-Length": "-1"}, 411, "Content-Length"),
        (b"\xff\xfe", {}, 400, "utf-8"),
    ],
)  # fmt: skip
def test_a_bad_request_is_told_so_and_the_next_one_is_answered(
    body: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    with serving(Lengths(), limits=Limits(max_traces=4)) as url:
        got, told = request(url, body, **headers)
        assert got == status and words in told["error"]["message"]
        got, told = request(url, b'{"traces": [{"problem": "p", "steps": ["abcd"]}]}')
        assert got == 200 and told["judgements"][0]["values"] == [0.25]


def test_a_request_that_comes_by_the_byte_is_over_when_its_time_is() -> None:
    with serving(Lengths(), limits=Limits(patience=0.3)) as url:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as slow:
            slow.sendall(b"POST /v1/judge HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n")
            with pytest.raises(ConnectionError):
                for _ in range(50):
                    slow.sendall(b" ")
                    time.sleep(0.1)
        assert request(url, b'{"traces": []}')[0] == 200


def test_who_leaves_before_the_answer_is_there_is_no_error_of_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    judge = Waiting()
    body = b'{"traces": [{"problem": "p", "steps": ["a"]}]}'
    head = f"POST /v1/judge HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving(judge) as url:
        gone = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset
        gone.sendall(head.encode() + body)
        assert judge.asked.wait(10)
        gone.close()
        judge.go_on.set()
        assert request(url, body)[0] == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_who_leaves_while_others_are_read_is_not_read(reset: bool, capfd: pytest.CaptureFixture[str]) -> None:
    judge = Waiting()
    body = b'{"traces": [{"problem": "p", "steps": ["a"]}]}'
    head = f"POST /v1/judge HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving(judge) as url:
        place = ("127.0.0.1", int(url.rpartition(":")[2]))
        with socket.create_connection(place) as first, socket.create_connection(place) as patient:
            first.sendall(head.encode() + body)
            assert judge.asked.wait(10)
            leaving = [socket.create_connection(place) for _ in range(3)]
            for gone in leaving:
                gone.sendall(head.encode() + body)
            patient.sendall(head.encode() + body)
            time.sleep(0.3)  # all of them have been read and wait
            for gone in leaving:
                if reset:
                    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                gone.close()
            judge.go_on.set()
            assert b"200 OK" in first.recv(65536) and b"200 OK" in patient.recv(65536)
        assert request(url, body)[0] == 200
    assert judge.calls == 3 and capfd.readouterr().err == ""


def test_the_body_of_a_question_that_has_none_is_not_the_next_request() -> None:
    with serving(Lengths()) as url, socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as asking:
        asking.sendall(b"GET /v1/judge HTTP/1.1\r\nContent-Length: 4\r\n\r\nhelpGET /v1/judge HTTP/1.1\r\n\r\n")
        said = b"".join(iter(lambda: asking.recv(65536), b""))
    assert said.count(b"HTTP/1.1 ") == 1 and b"200 OK" in said and b'"lengths"' in said


class Rival:
    """Compares the traces of a problem: the value is the share of them, in one call, that are not longer."""

    name = "rival"
    traits = Traits(compares=True)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        def value(own: Trajectory) -> float:
            met = [len(t.text) <= len(own.text) for t in trajectories if t.problem == own.problem]
            return sum(met) / len(met)

        return [Judgement(t.id, (value(t),) * len(t.steps), self.name) for t in trajectories]


def rivals(*sizes: int) -> list[Trajectory]:
    """So many traces of each problem, of growing length; traces of all problems by turns."""
    rows = [(p, k) for k in range(max(sizes)) for p, size in enumerate(sizes) if k < size]
    return [Trajectory(f"{p}/{k}", Problem(f"p{p}", f"question {p}"), (Step("x" * (k + 1)),)) for p, k in rows]


def test_traces_that_are_compared_are_asked_about_in_one_request() -> None:
    own, given = Rival(), rivals(3, 3, 3)
    with serving(own) as url:
        judge = create("reward", "served", url=url, batch=4)
        assert [each.values for each in judge.judge(given)] == [each.values for each in own.judge(given)]
        assert traits(judge).compares


@pytest.mark.parametrize(
    ("sizes", "together", "chunks"),
    [
        ((3, 3, 3), True, [3, 3, 3]),
        ((2, 4, 1), True, [2, 4, 1]),
        ((1, 1, 1, 5, 1), True, [2, 6, 1]),
        ((3, 3, 3), False, [9]),
        ((2, 4, 1), False, [7]),
    ],
)
def test_chunks_hold_whole_problems_where_traces_are_compared(
    tmp_path: Path, sizes: tuple[int, ...], together: bool, chunks: list[int]
) -> None:
    given = sorted(rivals(*sizes), key=lambda t: t.id) if together else rivals(*sizes)
    with Run(tmp_path / "run", "score", {}) as run:
        said = JudgeInRun(run, Rival(), chunk=2).judge(given)
        assert [event["items"] for event in run.logged("chunk")] == chunks
    assert [each.values for each in said] == [each.values for each in Rival().judge(given)]


def test_a_chunk_goes_on_to_where_no_problem_does(tmp_path: Path) -> None:
    """Here two of four problems take turns."""
    given = [
        Trajectory(f"{k}", Problem(name, f"question {name}"), (Step("x" * (k + 1)),))
        for k, name in enumerate("aabcbcd")
    ]
    with Run(tmp_path / "run", "score", {}) as run:
        said = JudgeInRun(run, Rival(), chunk=1).judge(given)
        assert [event["items"] for event in run.logged("chunk")] == [2, 4, 1]
    assert [each.values for each in said] == [each.values for each in Rival().judge(given)]


def test_a_comparison_of_unequal_numbers_that_was_killed_goes_on(tmp_path: Path) -> None:
    asked: list[int] = []

    class Dying(Rival):
        def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
            asked.append(len(trajectories))
            if len(asked) == 2:
                raise KeyboardInterrupt
            return super().judge(trajectories)

    def start() -> list[Judgement]:
        with Run(tmp_path / "run", "score", {}) as run:
            return JudgeInRun(run, Dying(), chunk=2).judge(given)

    given = sorted(rivals(2, 4, 1), key=lambda t: t.id)
    with pytest.raises(KeyboardInterrupt):
        start()
    assert [each.values for each in start()] == [each.values for each in Rival().judge(given)]
    assert asked == [2, 4, 4, 1]


def test_values_of_two_judges_are_never_mixed_under_one_name() -> None:
    with serving(Lengths()) as first, serving(Lengths(name="another")) as second:
        judge = create("reward", "served", url=f"{first},{second}", batch=1, concurrency=1)
        with pytest.raises(RuntimeError, match="all addresses must serve one judge"):
            judge.judge(traces(20))


@pytest.mark.parametrize(
    "answer",
    [
        {"judgements": []},
        {"judgements": [{"trajectory_id": "t0", "values": [2.0, 1.0], "judge": "x"}]},
        {"judgements": [{"trajectory_id": "other", "values": [0.5], "judge": "x"}]},
        {"judgements": [{"trajectory_id": "t0", "values": ["high"], "judge": "x"}]},
        {"judgements": [{"trajectory_id": "t0", "values": [1e999], "judge": "x"}]},
        {"judgements": "all fine"},
        [],
    ],
)
def test_an_answer_that_is_no_judgement_of_the_trace_is_none(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Lengths()) as url:
        monkeypatch.setattr(JudgeServer, "answer", lambda self, *given: answer)
        (said,) = create("reward", "served", url=url, retries=0).judge(traces(1))
    why = said.failure(0)
    assert said.values == (None,) and why is not None and why.reason is Reason.FAILED_CALL


def test_what_answers_otherwise_is_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Lengths()) as url:
        monkeypatch.setattr(JudgeServer, "about", lambda self: {"object": "list", "data": []})
        with pytest.raises(ConnectionError, match="not as `footfall serve` does"):
            create("reward", "served", url=url, retries=0).judge(traces(1))


def test_commands_take_the_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "traces.jsonl"
    data.write_text('{"problem": "p", "steps": ["ab", "abcd"]}\n', encoding="utf-8")
    with serving(Lengths()) as url:
        words = ["score", str(data), "--judge", url, "--set", "batch=1", "--json", "--out", str(tmp_path / "run")]
        assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        found["rows"][0]["values"] == [0.5, 0.25] and found["threshold"] == 0.25 and found["judge"] == "served(lengths)"
    )


def test_serving_to_others_needs_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--judge", "length", "--host", "0.0.0.0"]) == 2
    assert "--key-env" in capsys.readouterr().err


def test_it_listens_at_the_new_kind_of_address_too_and_says_where_nobody_can() -> None:
    try:
        server = JudgeServer(Lengths(), "::1", 0)
    except ValueError as error:
        pytest.skip(str(error))
    with server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        judge = create("reward", "served", url=f"http://[::1]:{server.server_port}", retries=0)
        assert judge.about.judge == "lengths"
        thread.join()
        with pytest.raises(ValueError, match=f"--host ::1 --port {server.server_port}: nobody can listen there"):
            JudgeServer(Lengths(), "::1", server.server_port)


def test_the_command_serves_until_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked_once(server: JudgeServer, poll_interval: float) -> None:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        status, told = request(
            f"http://127.0.0.1:{server.server_port}", b'{"traces": [{"problem": "p", "steps": ["a"]}]}'
        )
        thread.join()
        assert status == 200 and len(told["judgements"][0]["values"]) == 1
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JudgeServer, "serve_forever", asked_once)
    assert cli.main(["serve", "--judge", "length", "--port", "0"]) == 0
    assert "is served at http://127.0.0.1:" in capsys.readouterr().err and not list(tmp_path.iterdir())
