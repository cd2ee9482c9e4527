"""The server of `footfall serve`: one judge behind HTTP, as `footfall.reward.served` asks it.

One judge reads at a time, whoever asks; others wait, and a request whose sender is gone when its turn comes is dropped.
Requests are hostile: a body has a stated length of at most `max_bytes`, a request comes within `patience` seconds from its
first byte to its last, holds JSON and says so (a page in a browser cannot send that unasked), has at most `max_traces` traces
and no images, since their references may name files of this machine. With a key, who has not got it is told nothing.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from threading import Lock
from typing import Any

from footfall.formats import parse_json
from footfall.judging import compares, read_partial, traits
from footfall.reward.served import PATH, About, answer_of, has_images, traces_of
from footfall.terminal import one_line
from footfall.types import Json, Judge

ROUTE = f"/v1{PATH}"
log = logging.getLogger(__name__)


class RefusedError(Exception):
    """An answer other than 200, with its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class SenderGoneError(Exception):
    """Nobody is there to be answered."""


@dataclass(frozen=True)
class Limits:
    """What a request may be."""

    max_bytes: int = 64 * 2**20
    max_traces: int = 4096
    patience: float = 60.0


class JudgeServer(ThreadingHTTPServer):
    """Listens from the moment it is made; `serve_forever` answers. Port 0 is any free one (`server_port`)."""

    daemon_threads = True

    def __init__(self, judge: Judge, host: str, port: int, key: str | None = None, limits: Limits = Limits()) -> None:
        self.judge, self.key, self.limits, self.reading = judge, key, limits, Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ValueError(
                f"--host {host} --port {port}: nobody can listen there ({error.strerror or error})"
            ) from error

    def about(self) -> dict[str, Json]:
        known = traits(self.judge)
        about = About(
            self.judge.name, known.threshold, known.separators, known.judge_partial is not None, compares(self.judge)
        )  # fmt: skip
        return {**about._asdict(), "separators": list(about.separators)}

    def answer(self, body: object, gone: Callable[[], bool] = lambda: False) -> dict[str, Json]:
        """The judgements of a request's traces. `gone` is asked when its turn comes: whether its sender gave up."""
        traces = traces_of(body, "request")
        if len(traces) > self.limits.max_traces:
            raise RefusedError(413, f"{len(traces)} traces in one request; at most {self.limits.max_traces}")
        if any(map(has_images, traces)):
            raise RefusedError(400, "a trace has images; a served judge gets text")
        unfinished = isinstance(body, dict) and body.get("partial") is True
        with self.reading:
            if gone():
                raise SenderGoneError
            said = read_partial(self.judge, traces) if unfinished else self.judge.judge(traces)
        return answer_of(
            [judgement.check(trace) for judgement, trace in zip(said, traces, strict=True)], self.judge.name
        )

    def handle_error(self, request: object, client_address: object) -> None:
        """Who left before its answer was there is no error of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            log.exception("a connection could not be served")


class _Patient(RawIOBase):
    """What a connection sends: it may wait `patience` seconds for a request, which then has to come within as many more."""

    def __init__(self, connection: socket.socket, patience: float) -> None:
        self.connection, self.patience = connection, patience
        self.deadline: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.patience if self.deadline is None else self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        count = self.connection.recv_into(buffer)
        self.deadline = time.monotonic() + self.patience if self.deadline is None else self.deadline
        return count


class _Handler(BaseHTTPRequestHandler):
    server: JudgeServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.sent = _Patient(self.connection, self.server.limits.patience)
        self.rfile = BufferedReader(self.sent)

    def handle_one_request(self) -> None:
        self.sent.deadline = None
        super().handle_one_request()

    def do_GET(self) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # its body is not read, and must not be taken for the next request
        self._answer(lambda: self.server.about())

    def do_POST(self) -> None:
        self._answer(lambda: self.server.answer(self._body(), self._sender_gone))

    def _answer(self, work: Callable[[], dict[str, Json]]) -> None:
        try:
            self._admit()
            status, told = 200, work()
        except RefusedError as refused:
            status, told = refused.status, _error(str(refused))
        except (ValueError, RecursionError) as error:
            status, told = 400, _error(str(error))
        except (TimeoutError, SenderGoneError):
            self.close_connection = True
            return
        except Exception as error:  # whatever a judge does, the next request is answered
            log.exception("a request could not be answered")
            status, told = 500, _error(f"{type(error).__name__}: {error}")
        if status != 200:
            self.close_connection = True  # what is left of the body is not read
        body = json.dumps(told).encode()
        self.connection.settimeout(self.server.limits.patience)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _admit(self) -> None:
        key = self.server.key
        given = self.headers.get("Authorization", "")
        if key is not None and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            raise RefusedError(401, "no valid key; send it as Authorization: Bearer KEY")
        if self.path != ROUTE:
            raise RefusedError(404, f"there is {ROUTE} alone")

    def _body(self) -> object:
        if self.headers.get_content_type() != "application/json":
            raise RefusedError(415, "Content-Type must be application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise RefusedError(411, "Content-Length is missing")
        most = self.server.limits.max_bytes
        if len(length) > 12 or int(length) > most:
            raise RefusedError(413, f"the body is longer than {most} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise RefusedError(400, "the body is shorter than its Content-Length")
        return parse_json(body.decode("utf-8"))

    def _sender_gone(self) -> bool:
        """Whether the connection was closed; one that was closed for sending alone looks the same, and counts as that."""
        self.connection.setblocking(False)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: who asks sees what it was told."""


def _error(words: str) -> dict[str, Json]:
    return {"error": {"message": one_line(words, 500)}}
