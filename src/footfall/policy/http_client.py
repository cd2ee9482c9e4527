"""One question to an HTTP server, asked until it is answered or given up: time-outs, retries, a limit on what is read.

A sampling request changes nothing on the server, so asking again is safe: a failed attempt is closed before the next
one starts, and only one answer is ever returned. What will fail however often it is asked is raised at once.

A server is not trusted. Of one answer at most `Server.max_bytes` are read, within `Server.total_timeout`; a wait that it asks
for is at most `Server.longest_wait`; of its words at most 500 characters are repeated, without control characters; and the key
that it was sent is taken out of all that it says, before anything is made of that, stored or cut.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import ssl
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx

from footfall.policy.http_pool import Pool
from footfall.terminal import told
from footfall.types import Json, content_key

T = TypeVar("T")

_MOST_SAID = 500
"""Characters of a server's words that are repeated."""
_SHORTEST_KEY = 8
"""A shorter key (some servers want any word) may stand in a text by chance, and is taken out of messages only."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServerRefusedError(RuntimeError):
    """The server will never answer this kind of request; the message holds its own words and the fix."""


class AttemptError(Exception):
    """One attempt came to nothing. `again`: another may do better, after at least `wait` seconds."""

    def __init__(self, reason: str, wait: float = 0.0, again: bool = True) -> None:
        super().__init__(reason)
        self.wait = wait
        self.again = again


@dataclass(frozen=True)
class Server:
    """Where to ask and how patiently. `total_timeout` bounds one attempt, from connecting to the last byte.

    Several addresses with commas between them are a pool (`footfall.policy.http_pool`): servers of the same model, each of
    which may have `concurrency` requests under way.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    concurrency: int = 32
    connect_timeout: float = 10.0
    read_timeout: float = 600.0
    total_timeout: float = 900.0
    retries: int = 5
    first_wait: float = 0.5
    longest_wait: float = 60.0
    max_bytes: int = 64 * 2**20
    pool: Pool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        urls = tuple(dict.fromkeys(_address(url.strip()) for url in re.split(r",(?=\s*https?://)", self.url)))
        object.__setattr__(self, "url", ",".join(urls))
        if self.api_key is not None and not re.fullmatch(r"[\x21-\x7e]+", self.api_key):
            raise ValueError("the api_key is empty or holds white space or characters that no header can carry")
        numbers = (self.concurrency, self.connect_timeout, self.read_timeout, self.total_timeout, self.max_bytes)
        if min(numbers) <= 0 or min(self.retries, self.first_wait, self.longest_wait) < 0:
            raise ValueError(f"concurrency, time-outs, retries, waits and max_bytes out of range: {self}")
        object.__setattr__(self, "pool", Pool(urls, self.first_wait, self.longest_wait))

    @property
    def urls(self) -> list[str]:
        """The addresses of all servers of the pool."""
        return self.url.split(",")

    @property
    def attempts(self) -> int:
        """How often a question is asked: once, `retries` times more, and at each further server of a pool once."""
        return self.retries + len(self.urls)

    def without_key(self, text: str) -> str:
        """The text without the key, as it is, in JSON, in an address and as Python shows it."""
        if self.api_key is None:
            return text
        forms = (self.api_key, json.dumps(self.api_key)[1:-1], quote(self.api_key, safe=""), repr(self.api_key)[1:-1])
        for form in forms:
            text = text.replace(form, "***")
        return text

    def wait(self, question: str, attempt: int) -> float:
        """Seconds after a failed attempt: first_wait · 2^(attempt-1), times a jitter in [½, 1] seeded by the question."""
        jitter = random.Random(f"{question}/{attempt}").uniform(0.5, 1.0)
        return float(min(self.longest_wait, self.first_wait * 2 ** min(attempt - 1, 40)) * jitter)


def _address(given: str) -> str:
    """The address of one server as requests are put to it; one that holds a secret or is none is refused."""
    secret = "give the key as api_key or by api_key_env (--api-key-env) instead"
    if "@" in given:
        raise ValueError(f"the url holds a user name or password; {secret}")
    if "?" in given or "#" in given:
        raise ValueError(f"the url goes on after its path with ? or #; leave that out, and if it holds a key, {secret}")
    try:
        url = httpx.URL(given)
        url.host.encode("idna")  # as the resolver will
        usable = url.scheme in ("http", "https") and bool(url.host) and (url.port or 0) < 1 << 16 and "," not in given
    except (httpx.InvalidURL, UnicodeError):
        url, usable = httpx.URL(), False
    if not usable:
        # What is neither an address nor host:port may be a key in the wrong place.
        told = "://" in given or re.fullmatch(r"[\w.-]{1,255}:\d+\S*", given)
        shown = f"url={given[:200]!r}" if told else "the url"
        raise ValueError(f"{shown} is not a server's address; write e.g. http://localhost:8000/v1")
    if url.path == "/":
        url = url.copy_with(path="/v1")
    return str(url).rstrip("/")


class Question(NamedTuple):
    """What is asked: `id` names it in the server's log, `body` of `None` makes it a GET."""

    id: str
    path: str
    body: Mapping[str, Json] | None = None

    def request_id(self, attempt: int) -> str:
        """What the server's log calls an attempt: a UUID, which some servers insist on (llama-cpp-python's), made of `id`."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.id}-{attempt}"))

    @property
    def shape(self) -> str:
        """Path and names of the fields: where a server took this shape once, a refusal is about the prefix."""
        return content_key(self.path, sorted(self.body or ()))


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """An answer, or the reason why there is none after `calls` attempts."""

    value: T | None
    error: str | None
    calls: int
    seconds: float


class Session:
    """The connections of one batch of questions. `accepted` remembers the shapes of request the server took before."""

    def __init__(self, server: Server, accepted: set[str]) -> None:
        self.server = server
        self.accepted = accepted
        # While others are left out, those that are not have no more to do than they may.
        self.room = {url: asyncio.Semaphore(server.concurrency) for url in server.urls}
        # A proxy named by the environment is for the world outside, never for a server on this machine.
        hosts = {httpx.URL(url).host for url in server.urls}
        trust_env, most = not hosts <= set(LOOPBACK), server.concurrency * len(server.urls)
        self.client = httpx.AsyncClient(
            timeout=httpx.Timeout(server.read_timeout, connect=server.connect_timeout, pool=None),
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
            verify=_ssl_context(trust_env),
            trust_env=trust_env,
            mounts={f"all://{host}": None for host in hosts & set(LOOPBACK) if ":" not in host},
        )
        # A server that sets another cookie in each answer would make every later request longer.
        self.client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    async def ask(self, question: Question, parse: Callable[[object], T]) -> Outcome[T]:
        """The parsed answer, or a reason. `parse` raises `AttemptError` on an answer that is not what was asked for."""
        started = time.perf_counter()
        attempt = 1
        been: set[str] = set()
        while True:
            with self.server.pool.member(been) as url:
                try:
                    async with self.room[url]:
                        value = await self._attempt(url, question, attempt, parse)
                    self.server.pool.answered(url)
                    return Outcome(value, None, attempt, time.perf_counter() - started)
                except AttemptError as error:
                    failed = error
            been.add(url)
            elsewhere = failed.again and self.server.pool.failed(url, failed.wait)
            too_long = failed.wait > self.server.longest_wait and not elsewhere
            if not failed.again or attempt >= self.server.attempts or too_long:
                reason = self._last_words(failed, attempt)
                return Outcome(None, reason, attempt, time.perf_counter() - started)
            if not elsewhere:
                await asyncio.sleep(max(failed.wait, self.server.wait(question.id, attempt)))
            attempt += 1

    def _last_words(self, failed: AttemptError, attempt: int) -> str:
        reason = _bounded(self.server.without_key(str(failed)), 2 * _MOST_SAID)
        words = f"{reason} (attempt {attempt} of {self.server.attempts})"
        if failed.wait > self.server.longest_wait:
            words += (
                f"; it asks for a wait of {failed.wait:g} s, more than {self.server.longest_wait:g} s (longest_wait)"
            )
        return words

    async def _attempt(self, url: str, question: Question, attempt: int, parse: Callable[[object], T]) -> T:
        server = self.server
        try:
            response, body = await asyncio.wait_for(self._exchange(url, question, attempt), server.total_timeout)
        except asyncio.TimeoutError:
            raise AttemptError(
                f"no whole answer within {server.total_timeout:g} s (total_timeout; --timeout)"
            ) from None
        except httpx.TimeoutException as error:
            limits = f"{server.connect_timeout:g} s to connect, {server.read_timeout:g} s for a word (read_timeout; --timeout)"
            raise AttemptError(f"{type(error).__name__}: the server was silent for too long: {limits}") from error
        except httpx.RequestError as error:
            raise AttemptError(f"{type(error).__name__}: {error or 'connection lost'}") from error
        except (httpx.InvalidURL, UnicodeError) as error:  # httpx reads where a redirect leads, though none is followed
            raise AttemptError(
                f"it redirects to an address that is none ({type(error).__name__})", again=False
            ) from error
        self._check_status(url, question, response, body)
        value = parse(self._decoded(body))
        self.accepted.add(question.shape)
        return value

    async def _exchange(self, url: str, question: Question, attempt: int) -> tuple[httpx.Response, bytes]:
        # Identity encoding: a small compressed answer must not unpack into a large one.
        headers = {"Accept-Encoding": "identity", "X-Request-Id": question.request_id(attempt)}
        if self.server.api_key is not None:
            headers["Authorization"] = f"Bearer {self.server.api_key}"
        method, content = "GET", None
        if question.body is not None:
            method, content = "POST", json.dumps(question.body).encode()
            headers["Content-Type"] = "application/json"
        body = bytearray()
        async with self.client.stream(method, url + question.path, content=content, headers=headers) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise AttemptError("the answer is compressed though identity encoding was asked for", again=False)
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self.server.max_bytes:
                    raise AttemptError(f"the answer is longer than max_bytes={self.server.max_bytes}", again=False)
        return response, bytes(body)

    def _check_status(self, url: str, question: Question, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        if status == 200:
            return
        reason = f"HTTP {status}: {_bounded(self.server.without_key(_message_of(body)), _MOST_SAID) or 'no message'}"
        refused = f"{url}{question.path} answered {reason}"
        if status == 500 and _NOT_TAKEN.search(reason) and (fix := _named_fields(question, reason)):
            raise ServerRefusedError(f"{refused}; {fix}")
        if status in (408, 425, 429) or status >= 500:
            raise AttemptError(reason, wait=_retry_after(response))
        if status == 400 and _NEVER_FITS.search(reason):
            raise ServerRefusedError(
                f"{refused}; ask for fewer tokens (--max-tokens; of a judge that writes, --set max_tokens=N), or start the "
                "server with a longer context"
            )
        # Too long, or a kind of request that was answered before: then it is this prefix, not the settings.
        of_this_prefix = status in (400, 413, 422) and (_TOO_LONG.search(reason) or question.shape in self.accepted)
        if of_this_prefix:
            raise AttemptError(reason, again=False)
        if status not in (400, 422, *_FIXES):
            raise AttemptError(f"{reason}; {_BAD_URL}", again=False)
        fix = _FIXES.get(status) or _field_advice(question, reason)
        raise ServerRefusedError(f"{refused}; {fix}")

    def _decoded(self, body: bytes) -> object:
        """The JSON of an answer, without the key wherever it may have been repeated."""
        key = self.server.api_key or ""
        try:
            value: object = json.loads(
                body.decode("utf-8")
            )  # of bytes, json would also take UTF-16: no key is found there
            hidden = len(key) >= _SHORTEST_KEY and (key.encode() in body or b"\\" in body)
            return _replaced(value, key) if hidden else value
        except (ValueError, RecursionError) as error:
            raise AttemptError(f"the answer is not whole JSON: {error}") from error


def ask_all(
    server: Server, accepted: set[str], asked: Sequence[tuple[Question, Callable[[object], T]]]
) -> list[Outcome[T]]:
    """The answers in order. Requests overlap: each gets its share of the wall clock, so that the seconds add up to it."""
    if not asked:
        return []
    started = time.perf_counter()
    outcomes = run_in_thread(lambda: _ask_all(server, accepted, asked))
    share = (time.perf_counter() - started) / (sum(outcome.seconds for outcome in outcomes) or 1.0)
    return [replace(outcome, seconds=outcome.seconds * share) for outcome in outcomes]


async def _ask_all(
    server: Server, accepted: set[str], asked: Sequence[tuple[Question, Callable[[object], T]]]
) -> list[Outcome[T]]:
    """As many workers as requests may be in flight; a worker that waits to retry asks nothing else meanwhile."""
    outcomes: dict[int, Outcome[T]] = {}
    queue = iter(enumerate(asked))
    session = Session(server, accepted)
    most = server.concurrency * len(server.urls)

    async def work() -> None:
        for i, (question, parse) in queue:
            outcomes[i] = await session.ask(question, parse)
            told(len(outcomes), len(asked), "answered")

    async with session.client:
        workers = [asyncio.ensure_future(work()) for _ in range(min(most, len(asked)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    return [outcomes[i] for i in range(len(asked))]


def key_from(variable: str) -> str:
    """The key in an environment variable; the error about a missing one never repeats what may be a key in the wrong place."""
    key = os.environ.get(variable)
    if not key:
        named = variable if re.fullmatch(r"[A-Z][A-Z0-9_]{0,99}", variable) else "a variable"
        raise ValueError(f"api_key_env names {named}, but that environment variable is not set")
    return key


_TOO_LONG = re.compile(r"context.?(length|size|window)|too long|max_model_len|HTTP 413", re.IGNORECASE)

_NEVER_FITS = re.compile(r"max_tokens=\d+ cannot be greater than max_model_len", re.IGNORECASE)
"""What vLLM says of a request that would be too long after any prompt."""
_BAD_URL = "check the url; redirects are not followed"
_BAD_KEY = "check api_key, or the variable named by api_key_env (--api-key-env)"
_FIXES = {
    401: _BAD_KEY,
    403: _BAD_KEY,
    404: "check the url (mostly it ends in /v1) and the model's name (--model)",
}
_LEAVES_OUT = {
    "neutral=False (--neutral False)": (
        "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "verbose",
    ),
    "logprobs=False (--logprobs False)": ("logprobs", "top_logprobs", "return_token_ids"),
    "mode='completions' (--mode completions)": ("continue_final_message", "add_generation_prompt"),
    "batch_n=False": ("n",),
}  # fmt: skip
"""Fields that not every server takes, by the setting that leaves them out."""


_NOT_TAKEN = re.compile(r"not supported|'loc'|\"loc\"|validation error")
"""llama-cpp-python's server says with a 500 that it does not take a field."""


def _field_advice(question: Question, said: str) -> str:
    """What to do about a request that the server does not take."""
    usable = ", ".join(fix for fix, fields in _optional_fields(question).items() if fields)
    generic = (
        f"if it is about a field that is not OpenAI's own, leave that out by one of: {usable}" if usable else _BAD_URL
    )
    return _named_fields(question, said) or generic


def _named_fields(question: Question, said: str) -> str | None:
    """The setting that leaves out the fields which the server names, if it names any."""
    words = set(re.findall(r"\w\w+", said))
    for fix, fields in _optional_fields(question).items():
        if named := words.intersection(fields):
            return f"{fix} leaves out {', '.join(sorted(named))}"
    return None


def _optional_fields(question: Question) -> dict[str, list[str]]:
    """The fields of a question that can be left out, by the setting that does so."""
    sent = {field for field, value in (question.body or {}).items() if (field, value) != ("n", 1)}
    return {fix: [field for field in fields if field in sent] for fix, fields in _LEAVES_OUT.items()}


@lru_cache(maxsize=2)
def _ssl_context(trust_env: bool) -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=trust_env)


def _replaced(value: object, key: str) -> object:
    """All texts within, without the key."""
    if isinstance(value, str):
        return value.replace(key, "***")
    if isinstance(value, list):
        return [_replaced(each, key) for each in value]
    if isinstance(value, dict):
        return {name.replace(key, "***"): _replaced(each, key) for name, each in value.items()}
    return value


def _bounded(text: str, most: int) -> str:
    """At most so many characters, in one line and without control characters."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: 16 * most])
    said = " ".join(plain.split())
    return f"{said[: most - 1]}…" if len(said) > most or len(text) > 16 * most else said


def _message_of(body: bytes) -> str:
    """The server's own words, from `{"error": {"message": …}}` or as they are; in JSON a key may be written in escapes."""
    text = body.decode("utf-8", "replace")
    try:
        return server_message(json.loads(text))
    except (ValueError, RecursionError):
        return text


def server_message(found: object) -> str:
    """What an answer says in its `error`, `message` or `detail`, else all of it."""
    words = found
    for key in ("error", "message", "detail"):
        words = words.get(key, words) if isinstance(words, dict) else words
    return words if isinstance(words, str) else json.dumps(found, ensure_ascii=False)


def _retry_after(response: httpx.Response) -> float:
    """Seconds that the server asks to wait: the header holds a number or a date."""
    value = response.headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
        return float(value)
    if re.fullmatch(r"[\d.]+", value):
        return math.inf
    try:
        when = parsedate_to_datetime(value)
        if when.tzinfo is None:
            when = when.replace(tzinfo=timezone.utc)
        return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run async work on an event loop of its own, whoever calls: a thread, a notebook's loop, the main thread.

    If the caller is interrupted (Ctrl-C), the work is cancelled and its connections closed before the error goes on.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def supervised() -> T:
        task: asyncio.Task[T] = asyncio.ensure_future(work())
        started.set_result((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1, thread_name_prefix="footfall-http") as pool:
        result = pool.submit(lambda: asyncio.run(supervised()))
        try:
            return result.result()
        finally:
            if not result.done():
                loop, task = started.result()
                with suppress(RuntimeError):  # the loop closed in this very moment
                    loop.call_soon_threadsafe(task.cancel)
