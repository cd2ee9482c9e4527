"""A server that lies, repeats the key, never ends or answers with nonsense fails its own requests, and nothing else.

Each attack answers one prompt of a batch; the others are answered well. The failed request is a completion with its reason,
the batch is whole, and what is stored of it holds neither the key nor anything that a file cannot hold.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from footfall import cli
from footfall.formats import read_parquet, write_parquet
from footfall.policy import Completion, SamplingParams
from footfall.policy.http import HttpPolicy, Job, http_policy
from footfall.policy.http_client import AttemptError, Outcome, Server, ServerRefusedError, Session
from footfall.policy.http_tokens import read_told
from footfall.policy.http_wire import likeliest_tokens, model_ids
from footfall.policy.protocol import finished
from footfall.types import Problem, Trajectory
from tests.policy.loopback_process import LoopbackProcess

KEY = 'sk-a"b%c\\d1234567890'
PREFIXES = [Trajectory(f"p{k}", Problem(f"p{k}", f"p{k}: how much is 3 - 4?")) for k in range(4)]
STEP = SamplingParams(until="step")
HUGE = 10**400
GOOD: dict[str, Any] = {
    "choices": [{
        "index": 0, "text": "so\n\nten", "finish_reason": "stop", "stop_reason": None, "token_ids": [1, 2, 3],
        "logprobs": {"tokens": ["so", "\n\n", "ten"], "token_logprobs": [-0.5, -0.25, -0.125],
                     "top_logprobs": [{"so": -0.5}, {"\n\n": -0.25}, {"ten": -0.125}]},
    }],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
    "__verbose": {"index": 0, "stop_type": "word", "stopping_word": "\n\n"},
}  # fmt: skip


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackProcess]:
    loopback = LoopbackProcess(tmp_path_factory.mktemp("loopback") / "log.jsonl")
    yield loopback
    loopback.stop()


def body(value: object, **more: Any) -> dict[str, Any]:
    return {"kind": "body", "body": value if isinstance(value, str) else json.dumps(value), **more}


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    """A good reply but for one value."""
    reply = copy.deepcopy(GOOD)
    at: Any = reply
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return body(reply)


def raw(head: str, content: str = "{}") -> dict[str, Any]:
    return {"kind": "raw", "raw": f"HTTP/1.1 {head}\r\nContent-Length: {len(content)}\r\n\r\n{content}"}


def moved(place: str) -> dict[str, Any]:
    return raw(f"302 Found\r\nLocation: {place}")


CHOICE = ("choices", 0)
ATTACKS: dict[str, tuple[dict[str, Any], str]] = {
    "a wait of 400 digits": ({"kind": "429", "retry_after": "9" * 400}, "asks for a wait of inf s"),
    "a wait until the end of time": (
        {"kind": "503", "retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"},
        "asks for a wait",
    ),
    "a wait in an impossible zone": (
        {"kind": "503", "retry_after": "Fri, 31 Dec 9999 23:59:59 -99999999999999"},
        "HTTP 503",
    ),
    "a wait that is no number": ({"kind": "429", "retry_after": "NaN"}, "HTTP 429"),
    "a prompt of 400 digits": (changed("usage", "prompt_tokens", to=HUGE), "usage cannot be: 1000"),
    "an answer of 400 digits": (changed("usage", "completion_tokens", to=-HUGE), "usage cannot be"),
    "an integer of 5000 digits": (body("[" + "1" * 5000 + "]"), "not whole JSON"),
    "a logprob of 400 digits": (changed(*CHOICE, "logprobs", "token_logprobs", 0, to=-HUGE), "log-probability belongs"),
    "a logprob of 1e308": (changed(*CHOICE, "logprobs", "token_logprobs", 0, to=1e308), "log-probability belongs"),
    "a logprob that is none": (
        changed(*CHOICE, "logprobs", "token_logprobs", 0, to=float("nan")),
        "log-probability belongs",
    ),
    "an id of 400 digits": (changed(*CHOICE, "token_ids", 0, to=HUGE), "ids are 0 to"),
    "an index of 400 digits": (changed(*CHOICE, "index", to=HUGE), "1 choices were asked for"),
    "a finish without end": (changed(*CHOICE, "finish_reason", to="x" * 100_000), "finish_reason is 'xxx"),
    "half a character": (body(json.dumps(GOOD).replace("ten", "\\ud800")), "surrogate pair"),
    "a thousand choices": (changed("choices", to=[GOOD["choices"][0]] * 1000), "1 choices were asked for"),
    "no choice": (changed("choices", to=[]), "1 choices were asked for"),
    "nested without end": (body("[" * 200_000), "not whole JSON"),
    "nested and closed": (body("[" * 50_000 + "]" * 50_000), "where a dict belongs|not whole JSON"),
    "no JSON": (body("<html>busy</html>"), "not whole JSON"),
    "nothing": (body(""), "not whole JSON"),
    "compressed": (body("{}", headers={"Content-Encoding": "gzip"}), "compressed"),
    "redirected to a host that cannot be": (moved("http://xn--/x"), "redirects|HTTP 302"),
    "redirected to a name of dots": (moved("http://..../"), "redirects|HTTP 302"),
    "redirected to another scheme": (moved("gopher://[::::]/"), "redirect|HTTP 302|location"),
    "redirected to a port of 400 digits": (moved("http://a:" + "9" * 400), "redirect|HTTP 302|location"),
    "redirected to bytes": (moved("http://\xff\xfe/"), "redirect|HTTP 302|location"),
    "redirected properly": (moved("http://127.0.0.1:1/v1/completions"), "redirects are not followed"),
    "a status of its own": (raw("799 What"), "HTTP 799"),
    "no content": (raw("204 None", ""), "HTTP 204"),
    "a teapot": (body({"error": {"message": "short and stout"}}, status=418), "short and stout"),
    "no HTTP": ({"kind": "raw", "raw": "SSH-2.0-OpenSSH\r\n"}, "ProtocolError"),
    "a header without end": ({"kind": "raw", "raw": "HTTP/1.1 200 X\r\nX: " + "y" * 300_000}, "Error"),
    "a length that is none": ({"kind": "raw", "raw": "HTTP/1.1 200 X\r\nContent-Length: -1\r\n\r\n"}, "ProtocolError"),
    "a body without end": ({"kind": "endless", "raw": " " * 4096}, "longer than max_bytes"),
    "a text without end": ({"kind": "endless", "raw": '"' + "x" * 4096}, "longer than max_bytes"),
    "terminal codes": (body({"error": {"message": "\x1b[31mred\x07\n\rline"}}, status=500), r"\[31mred line"),
    "a long message": (body({"error": {"message": "word " * 10_000}}, status=500), "word word"),
}


def policy(process: LoopbackProcess, **options: Any) -> HttpPolicy:
    server = Server(process.url, KEY, 4, 5.0, 5.0, 5.0, 1, 0.01, 0.05, max_bytes=2**20)
    return HttpPolicy(server, "toy", **options)


def batch(
    process: LoopbackProcess, attack: dict[str, Any], params: SamplingParams = SamplingParams()
) -> list[Completion]:
    """What comes of four prompts, of which the second is attacked."""
    process.behave(faults=[{**attack, "match": "p1:"}])
    return [row[0] for row in policy(process).sample(PREFIXES, params=params)]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_the_failure_of_its_request_with_a_bounded_reason(process: LoopbackProcess, name: str) -> None:
    attack, reason = ATTACKS[name]
    written = batch(process, attack)
    assert [c.finish for c in written] == ["end", "error", "end", "end"]
    said = written[1].error or ""
    assert re.search(reason, said), said
    assert len(said) < 1200 and said.isprintable()


# The key


def escaped(text: str) -> str:
    """JSON in which every letter is an escape."""
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'


def test_a_key_that_the_server_repeats_is_in_no_error_however_it_is_written_and_cut(process: LoopbackProcess) -> None:
    for filler in range(440, 505, 8):  # so that the cut falls into the key
        message = "x" * filler + KEY
        for attack in (
            body({"error": {"message": message}}, status=500),
            body('{"error": ' + escaped(message) + "}", status=500),
            body('{"error": [' + escaped(message) + "]}", status=500),
            body(message, status=500),
            changed(*CHOICE, "finish_reason", to=message),
        ):
            said = batch(process, attack)[1].error or ""
            assert "sk-a" not in said and re.search(r"\*\*\*|x… \(attempt", said), said


def test_a_refusal_repeats_no_key(process: LoopbackProcess) -> None:
    process.behave(faults=[body({"error": {"message": "x" * 480 + KEY}}, status=401)])
    with pytest.raises(ServerRefusedError, match="check api_key") as refused:
        policy(process).sample(PREFIXES)
    assert "sk-a" not in str(refused.value)


def test_a_key_that_the_server_writes_into_its_text_is_not_stored(process: LoopbackProcess, tmp_path: Path) -> None:
    plain, hidden = copy.deepcopy(GOOD), json.dumps(GOOD)
    plain["choices"][0]["text"] = f"my key is {KEY}\n\nten"
    for attack in (body(plain), body(hidden.replace('"so\\n\\nten"', escaped(f"so {KEY}")))):
        written = batch(process, attack)
        assert [c.finish for c in written] == ["end"] * 4 and "***" in written[1].steps[0].text
        traces = [finished(prefix, c, "http") for prefix, c in zip(PREFIXES, written, strict=True)]
        write_parquet(tmp_path / "traces.parquet", traces, "trajectory")
        assert "sk-a" not in repr(read_parquet(tmp_path / "traces.parquet", "trajectory"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be"])
def test_an_answer_in_another_encoding_hides_no_key(encoding: str) -> None:
    """json reads these from bytes, and the key's own bytes are not in them."""
    with pytest.raises(AttemptError, match="not whole JSON") as refused:
        Session(Server("http://localhost:1", KEY), set())._decoded(json.dumps({"text": KEY}).encode(encoding))
    assert "sk-a" not in str(refused.value)


def test_no_cookie_is_kept() -> None:
    """Thousands of them, of kilobytes each, would travel with every later request."""
    asked = httpx.Request("GET", "http://server.test/v1")
    session = Session(Server("http://server.test/v1", KEY), set())
    session.client.cookies.extract_cookies(httpx.Response(200, headers={"Set-Cookie": "a=b; Path=/"}, request=asked))
    assert len(session.client.cookies.jar) == 0


def test_a_model_cannot_be_named_after_the_key_nor_without_bounds(process: LoopbackProcess) -> None:
    process.behave(models=[f"toy-{KEY}"])
    server = Server(process.url, KEY)
    assert HttpPolicy(server).name.startswith("http:toy-***:")
    for name in ("x" * 5000, "a\x1b[31m", ""):
        with pytest.raises(AttemptError, match="a model's name is"):
            model_ids({"data": [{"id": name}]})
    process.behave(models=[f"m{k}" for k in range(1000)])
    with pytest.raises(ValueError, match="m9 and 990 more") as several:
        _ = HttpPolicy(server).name
    assert len(str(several.value)) < 300


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@localhost:1/v1",
        "ftp://me:hunter2@localhost/v1",
        "http://localhost:1/v1?key=hunter2",
        "http://me:hunter2@xn--/v1",
    ],
)
def test_a_secret_in_an_address_is_never_repeated(
    url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="the url") as refused:
        http_policy(url)
    assert "hunter2" not in str(refused.value)
    named = [["--policy", url], ["--url", url], ["--policy", f"http,url={url}"], ["--policy", f"htp,{url}"]]
    for words in (
        *named,
        ["--policy", "embedded", "--helper", f"a={url}"],
        ["--policy", "embedded", "--helper", f"a=x,{url}"],
    ):
        assert cli.main(["search", "--problems", "world:arithmetic:1", "--method", "majority", *words]) == 2
        said = capsys.readouterr()
        assert "hunter2" not in said.out + said.err and said.err.startswith("footfall: ")
    assert not list(tmp_path.rglob("config.json"))


@pytest.mark.parametrize("spelled", ["api_key", "api-key"])
def test_a_key_among_a_policys_words_is_neither_stored_nor_repeated(
    spelled: str, process: LoopbackProcess, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    process.behave(solve=True)
    words = ["sample", "--problems", "world:arithmetic:1", "--n", "1", "--out", str(tmp_path / "run")]
    named = f"http,model=m,url={process.url}/v1,{spelled}=hunter2"
    for more in ([], ["--seed", "1"], ["--top-p", "7"]):
        cli.main([*words, "--policy", named, *more])
    assert cli.main([*words, "--policy", f"htp,{spelled}=hunter2"]) == 2
    said = capsys.readouterr()
    assert "hunter2" not in said.out + said.err
    assert (tmp_path / "run").exists()
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]


@pytest.mark.parametrize(
    "url", ["http://", "http://..../", "http://xn--/", "http://a:99999999/", "http://a/v1\0", "http://" + "a" * 70_000]
)
def test_an_address_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(ValueError, match="is not a server's address") as refused:
        http_policy(url)
    assert len(str(refused.value)) < 400


# Replies that somebody has tampered with

VALUES: list[Any] = [
    None, True, False, 0, -1, HUGE, -HUGE, 2**63, 1e308, -1e308, float("nan"), float("inf"), 0.5, "", "\n\n", "\n\n\n\n", "\0",
    "\ud800", "x" * 5000, "stop", "length", "word", "so\n\n", [], {}, [[]], [None], {"": None}, ["so"], [0.0],
    [HUGE], {"so": HUGE},
]  # fmt: skip


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The ways to everything within."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def tampered(rng: random.Random) -> dict[str, Any]:
    """A good reply with one to four values changed, doubled or left out."""
    reply = copy.deepcopy(GOOD)
    for _ in range(rng.randint(1, 4)):
        *way, last = rng.choice(list(places(reply)) or [("choices",)])
        at: Any = reply
        for key in way:
            at = at[key]
        what, value = rng.random(), copy.deepcopy(at[last])
        if what < 0.15:
            del at[last]
        elif what < 0.3 and isinstance(at, list):
            at.insert(0, value)
        else:
            at[last] = copy.deepcopy(rng.choice(VALUES))
    return reply


def read_any(reply: Any) -> None:
    """Read a reply in every way in which replies are read: each succeeds, or the error is the reply's own."""
    for until in ("end", "step"):
        for step_stop in ("reported", "cut", "assumed"):
            read_whole(reply, until, step_stop, None)
    for read in (likeliest_tokens, model_ids, lambda each: read_told(each, "url", {"so": 1}.get)):
        try:
            read(reply)
        except (AttemptError, ServerRefusedError) as error:
            assert str(error)


def read_whole(reply: dict[str, Any], until: Any, step_stop: Any, tmp_path: Path | None) -> bool:
    """Read a reply as the policy does. Whether it could be; if not, the error is the reply's own."""
    writer = HttpPolicy(Server("http://localhost:1"), "toy", step_stop=step_stop)
    job, params = Job(0, PREFIXES[0], (0,)), SamplingParams(until=until)
    try:
        outcome = Outcome(writer._read(job, until, reply), None, 1, 0.0)
    except (AttemptError, ServerRefusedError) as error:
        assert str(error)
        return False
    drawn = [completion for completion, _ in writer._completions(job, outcome, params)]
    if tmp_path is not None:
        traces = [finished(PREFIXES[0], completion, "http") for completion in drawn]
        write_parquet(tmp_path / "traces.parquet", traces, "trajectory")
        assert read_parquet(tmp_path / "traces.parquet", "trajectory") == traces
    return True


def tamper(seeds: range, tmp_path: Path | None) -> int:
    whole = 0
    for seed in seeds:
        rng = random.Random(seed)
        reply = tampered(rng)
        whole += read_whole(reply, rng.choice(["end", "step"]), rng.choice(["reported", "cut", "assumed"]), tmp_path)
        for read in (likeliest_tokens, lambda each: read_told(each, "url", {"so": 1}.get)):
            try:
                read(reply)
            except (AttemptError, ServerRefusedError) as error:
                assert str(error)
    return whole


def test_tampered_replies_are_read_or_refused_in_words(tmp_path: Path) -> None:
    assert 20 < tamper(range(400), None) < 380, "some are read, some are not"
    tamper(range(400, 430), tmp_path)


@pytest.mark.long
def test_thousands_of_tampered_replies_are_read_or_refused_in_words(tmp_path: Path) -> None:
    tamper(range(1000, 16_000), None)
    tamper(range(16_000, 16_400), tmp_path)


def tamper_over_the_wire(process: LoopbackProcess, seed: int) -> str:
    """One of four prompts gets a tampered reply, at times a broken one; the others are answered: how the one ended."""
    rng = random.Random(seed)
    attack = body(json.dumps(tampered(rng)))
    if rng.random() < 0.3:
        cut = rng.randrange(len(attack["body"]))
        attack["body"] = attack["body"][:cut] + chr(rng.randrange(256)) + attack["body"][cut + 1 :]
    written = batch(process, attack)
    assert [c.finish for c in written[:1] + written[2:]] == ["end"] * 3, seed
    said = written[1].error or ""
    assert (written[1].finish == "error") == bool(said) and len(said) < 1200 and said.isprintable(), seed
    return "refused" if said else "read"


def test_tampered_replies_over_the_wire_fail_their_own_requests_only(process: LoopbackProcess) -> None:
    assert {tamper_over_the_wire(process, seed) for seed in range(12)} == {"read", "refused"}
