"""Behind the walls: unit tests against a program that would like to pass them without being right.

Three kinds of process. The keeper reads the tests and writes the report; the host, forked before a test was read, holds the
program and forks a fresh copy for each test; a judge evaluates one test. Judge and program share a socket only: calls go
over, plain data comes back. So the program never sees a test, a verdict or the report. Sent as text; standard library only.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

LONGEST_DETAIL = 300
_LIST_LIKE: dict[str, Any] = {"l": list, "t": tuple, "s": set, "z": frozenset}
_PLAIN: dict[str, Any] = {"v": lambda value: value, "i": partial(int, base=16), "f": float.fromhex, "b": bytes.fromhex}
_QUESTIONS: dict[str, Any] = {"list": list, "length": len, "truth": bool, "text": str}
_NUMBER_LIKE: dict[str, Any] = {"D": Decimal, "F": Fraction}


class Handle:
    """An object that lives in the other process: it can be called, looped over and asked, but not compared."""

    def __init__(self, peer: Peer, key: int, kind: str) -> None:
        self._peer, self._key, self._kind = peer, key, kind

    def __getattr__(self, name: str) -> Any:
        return self._peer.request("get", self._key, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._peer.request("call", self._key, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._peer.request("call", self._peer.request("get", self._key, "__getitem__")._key, (key,), {})

    def __iter__(self) -> Any:
        return iter(self._peer.request("list", self._key))

    def __len__(self) -> int:
        return int(self._peer.request("length", self._key))

    def __bool__(self) -> bool:
        return bool(self._peer.request("truth", self._key))

    def __str__(self) -> str:
        return str(self._peer.request("text", self._key))

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"the program gave a {self._kind}, which is not plain data: compare a part of it that is")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None  # type: ignore[assignment]


class Peer:
    """One end of the socket. Requests may come while a reply is waited for: a test may pass a function as argument."""

    def __init__(self, connection: socket.socket, operations: frozenset[str]) -> None:
        self.lines = connection.makefile("rwb")
        self.operations = operations
        self.own: list[Any] = []
        self.broken: Exception | None = None

    def request(self, *message: Any) -> Any:
        operation, key, *rest = message
        self._send(["ask", operation, key, [self._pack(part) for part in rest]])
        while True:
            kind, *body = self._receive()
            if kind == "ask":
                self._answer(*body)
            elif kind == "raised":
                raise _rebuilt(str(body[0]), str(body[1]))
            else:
                _write_back(rest, [self._unpack(part) for part in body[1]])
                return self._unpack(body[0])

    def serve(self) -> None:
        while True:
            self._answer(*self._receive()[1:])

    def _answer(self, operation: str, key: Any, rest: list[Any]) -> None:
        try:
            if self.broken is not None:
                raise self.broken
            if operation not in self.operations:
                raise PermissionError(f"{operation} is not allowed")
            parts = [self._unpack(part) for part in rest]
            value = self._perform(operation, key, parts)
            changed = [self._pack(part) if isinstance(part, (list, dict, set)) else None for part in _arguments(parts)]
            reply = ["value", self._pack(value), changed]
        except Exception as error:  # noqa: BLE001  (whatever it raises is the reply)
            reply = ["raised", type(error).__name__, str(error)[:LONGEST_DETAIL]]
        self._send(reply)

    def _perform(self, operation: str, key: Any, parts: list[Any]) -> Any:
        if operation == "names":
            return list(sys.modules["__main__"].__dict__)
        if operation == "name":
            return sys.modules["__main__"].__dict__[key]
        target = self.own[key]
        if operation == "call":
            return target(*parts[0], **parts[1])
        if operation == "get":
            return getattr(target, parts[0])
        return _QUESTIONS[operation](target)

    def _send(self, message: list[Any]) -> None:
        self.lines.write(json.dumps(message).encode() + b"\n")
        self.lines.flush()

    def _receive(self) -> list[Any]:
        line = self.lines.readline()
        if not line:
            raise EOFError("the other process ended")
        message: list[Any] = json.loads(line)
        return message

    def _pack(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return ["v", value]
        if isinstance(value, int):
            return ["i", hex(value)]
        if isinstance(value, float):
            return ["f", float.hex(value)]
        if isinstance(value, complex):
            return ["c", float.hex(value.real), float.hex(value.imag)]
        if isinstance(value, (bytes, bytearray)):
            return ["b", bytes(value).hex()]
        for tag, kind in _LIST_LIKE.items():
            if isinstance(value, kind):
                return [tag, [self._pack(part) for part in value]]
        if isinstance(value, dict):
            return ["d", [[self._pack(key), self._pack(part)] for key, part in value.items()]]
        for tag, number in _NUMBER_LIKE.items():
            if isinstance(value, number):
                return [tag, str(value)]
        if isinstance(value, ModuleType):
            return ["m", value.__name__]
        if isinstance(value, Handle):
            return ["yours", value._key]
        self.own.append(value)
        return ["mine", len(self.own) - 1, type(value).__name__]

    def _unpack(self, packed: Any) -> Any:
        if packed is None:
            return None
        tag, first, *_ = packed
        if tag in _LIST_LIKE:
            return _LIST_LIKE[tag](self._unpack(part) for part in first)
        if tag in _NUMBER_LIKE:
            return _NUMBER_LIKE[tag](first)
        if tag == "d":
            return {self._unpack(key): self._unpack(part) for key, part in first}
        if tag == "m":
            return importlib.import_module(first)
        if tag == "yours":
            return self.own[first]
        if tag == "mine":
            return Handle(self, first, str(packed[2]))
        if tag == "c":
            return complex(float.fromhex(first), float.fromhex(packed[2]))
        return _PLAIN[tag](first)


def _arguments(parts: list[Any]) -> list[Any]:
    return list(parts[0]) if parts and isinstance(parts[0], tuple) else []


def _write_back(sent: list[Any], after: list[Any]) -> None:
    """A list that the program changed in place is changed for the test as well."""
    for before, now in zip(_arguments(sent), after):  # noqa: B905  (the other side may send anything)
        if type(before) is type(now) and isinstance(before, list):
            before[:] = now
        elif type(before) is type(now) and isinstance(before, (dict, set)):
            before.clear()
            before.update(now)


def _rebuilt(kind: str, text: str) -> Exception:
    """An exception of the program, as the built-in class of that name, marked as the program's."""
    found = getattr(builtins, kind, None)
    error: Exception = RuntimeError(f"{kind}: {text}")
    if isinstance(found, type) and issubclass(found, Exception):
        with suppress(TypeError):  # UnicodeDecodeError and its like want more than a text
            error = found(text)
    error.__dict__["of_program"] = True
    return error


def main(payload: dict[str, Any]) -> None:
    report = os.dup(1)
    to_host, host_end = socket.socketpair()
    if os.fork() == 0:
        os.close(report)
        to_host.close()
        _be_quiet()
        _host(host_end, payload["code"])
    host_end.close()
    tests: list[str] = json.load(sys.stdin)
    _be_quiet()
    for test in tests:
        status, detail = _one(test, to_host, report, payload["seconds"])
        os.write(report, json.dumps([status, detail[:LONGEST_DETAIL]]).encode() + b"\n")


def _be_quiet() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def _host(orders: socket.socket, program: str) -> NoReturn:
    """Fork a copy of the program for each order, and end it when the keeper says so."""
    while True:
        _, fds, _, _ = socket.recv_fds(orders, 16, 1)
        if not fds:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            orders.close()
            _be_program(socket.socket(fileno=fds[0]), program)
        os.close(fds[0])
        patience = 0.5 if orders.recv(16) == b"ended" else 0.0
        orders.send(_end(pid, patience).encode())


def _be_program(connection: socket.socket, program: str) -> NoReturn:
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    peer = Peer(connection, frozenset({"names", "name", "call", "get", *_QUESTIONS}))
    try:
        exec(compile(program, "main.py", "exec", dont_inherit=True), module.__dict__)
    except Exception as error:  # noqa: BLE001  (a program may raise anything; the judge is told)
        peer.broken = error
    peer.serve()
    os._exit(0)


def _end(pid: int, patience: float) -> str:
    """How the process ended by itself within `patience`; else kill it and say nothing."""
    deadline = time.monotonic() + patience
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done or time.monotonic() >= deadline:
            break
        time.sleep(0.005)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.kill(pid, signal.SIGKILL)  # it may not have reached its own group yet
        os.waitpid(pid, 0)
        return "-"
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _one(test: str, to_host: socket.socket, report: int, seconds: float) -> tuple[str, str]:
    here, there = socket.socketpair()
    socket.send_fds(to_host, [b"start"], [there.fileno()])
    there.close()
    reading, writing = os.pipe()
    judge = os.fork()
    if judge == 0:
        os.setsid()
        for fd in (report, reading, to_host.fileno()):
            os.close(fd)
        os.write(writing, json.dumps(_judge(test, here)).encode() + b"\n")
        os._exit(0)
    os.close(writing)
    here.close()
    came, _, _ = select.select([reading], [], [], seconds)
    line = os.read(reading, 1 << 16) if came else b""
    os.close(reading)
    own_end = _end(judge, 0.5 if came and not line else 0.0)
    status, detail = json.loads(line) if line else ("timeout", f"not over after {seconds} s")
    if came and not line:
        status, detail = ("timeout" if own_end == "SIGXCPU" else "error"), f"the test's process ended: {own_end}"
    to_host.send(b"ended" if status == "ended" else b"stop")
    how = to_host.recv(64).decode() or "-"
    if status == "ended":
        return ("timeout" if how == "SIGXCPU" else "error"), f"the program ended: {how}"
    return status, detail


def _judge(test: str, connection: socket.socket) -> tuple[str, str]:
    sys.path[:] = [path for path in sys.path if path]  # not the folder that the program can write to
    peer = Peer(connection, frozenset({"call"}))
    try:
        tree = ast.parse(test, "test")
        exec(compile(tree, "test", "exec", dont_inherit=True), _names(tree, peer))
    except AssertionError as error:
        return ("error" if hasattr(error, "of_program") else "fail"), _said(error)
    except (EOFError, BrokenPipeError, ConnectionResetError) as error:
        return ("error", _said(error)) if hasattr(error, "of_program") else ("ended", "")
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a test may raise anything)
        return "error", _said(error)
    return "pass", ""


def _names(tree: ast.AST, peer: Peer) -> dict[str, Any]:
    """What the test's names mean in the program.

    Python's own names stay Python's own (a program might bring its `all`), unless the test has no other of the program's.
    """
    wanted = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    shared = wanted.intersection(peer.request("names", None))
    chosen = sorted(shared - set(dir(builtins)) or shared)
    return {"__name__": "test", **{name: peer.request("name", name) for name in chosen}}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
