"""Behind the walls: unit tests against programs that would like to pass them without being right.

Three kinds of process. The keeper reads the tests and writes the report; the host, forked before a test was read, holds the
program and forks a fresh copy for each test; a judge evaluates one test. Judge and program share a socket only: calls go
over, plain data comes back. So the program never sees a test, a verdict or the report. Which of a test's names are the
program's is decided by the reference and the test alone; every other name is the judge's own. Sent as text; standard library
only.
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
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

LONGEST_DETAIL = 300
LONGEST_LINE = 1024
"""Bytes of one line of the report."""
_MORE_TIME = 8
"""Times as long may a test of many programs take that had no processor at first."""
_MODULES = {"np": "numpy", "pd": "pandas"}
_HELPERS = {
    name: module
    for module, names in {
        "math": "ceil floor inf isclose isinf isnan nan pi sqrt", "collections": "Counter OrderedDict defaultdict deque",
        "itertools": "chain combinations permutations", "functools": "partial reduce", "copy": "copy deepcopy",
        "fractions": "Fraction", "decimal": "Decimal",
    }.items()
    for name in names.split()
}  # fmt: skip
"""What tests use beside the program's own functions, often without importing it."""
_LIST_LIKE: dict[str, Any] = {"l": list, "t": tuple, "s": set, "z": frozenset}
_PLAIN: dict[str, Any] = {"v": lambda value: value, "i": partial(int, base=16), "f": float.fromhex, "b": bytes.fromhex}
_QUESTIONS: dict[str, Any] = {"list": list, "length": len, "truth": bool, "text": str}
_TOLD = ("__name__", "__doc__")
_NUMBER_LIKE: dict[str, Any] = {"D": Decimal, "F": Fraction}


class Handle:
    """An object that lives in the other process: it can be called, looped over and asked, but not compared."""

    def __init__(self, peer: Peer, key: int, kind: str) -> None:
        self._peer, self._key, self._kind = peer, key, kind

    def __getattr__(self, name: str) -> Any:
        if (
            name.startswith("__") and name not in _TOLD
        ):  # libraries build objects from such answers: __array_interface__
            raise AttributeError(f"{name} of an object of the program is not asked for")
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
    ends_a_loop = (
        StopIteration,
        StopAsyncIteration,
    )  # `all(map(test, values))` would take it for the end of the values
    if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, ends_a_loop):
        with suppress(TypeError):  # UnicodeDecodeError and its like want more than a text
            error = found(text)
    error.__dict__["of_program"] = True
    return error


def main(payload: dict[str, Any]) -> None:
    """One line of the report for each test of the one program, or with `first` for each program: the test it fails first."""
    report = os.dup(1)
    to_host, host_end = socket.socketpair()
    if os.fork() == 0:
        os.close(report)
        to_host.close()
        _be_quiet()
        _host(host_end, payload["lines"], payload["changes"])
    host_end.close()
    job: dict[str, Any] = json.load(sys.stdin)
    _be_quiet()
    reference = _parsed(job["reference"])
    for number in range(len(payload["changes"])):
        said = (
            _one(test, reference, number, to_host, report, payload["seconds"], payload["first"])
            for test in job["tests"]
        )
        lines = [next((each for each in said if each[0] != "pass"), ("pass", ""))] if payload["first"] else said
        for status, detail in lines:
            os.write(report, _line(status, detail))


def _line(status: str, detail: str) -> bytes:
    """A line for report or pipe; however the detail is written, it is short."""
    while True:
        line = json.dumps([status, detail[:LONGEST_DETAIL]]).encode() + b"\n"
        if len(line) <= LONGEST_LINE:
            return line
        detail = detail[: min(len(detail), LONGEST_DETAIL) * 3 // 4]


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ast.Module([], [])


def _be_quiet() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def _host(orders: socket.socket, lines: list[str], changes: list[tuple[int, str]]) -> NoReturn:
    """Fork a copy of a program (the lines, one of them changed) for each order, and end it when the keeper says so."""
    while True:
        order, fds, _, _ = socket.recv_fds(orders, 16, 1)
        if not fds:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            orders.close()
            at, changed = changes[int(order)]
            _be_program(socket.socket(fileno=fds[0]), "\n".join([*lines[:at], changed, *lines[at + 1 :]]))
        os.close(fds[0])
        patience = 0.5 if orders.recv(16) == b"ended" else 0.0
        orders.send("{} {:.3f}".format(*_end(pid, patience)).encode())


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


def _end(pid: int, patience: float) -> tuple[str, float]:
    """How the process ended by itself within `patience`, else kill it and say nothing; and its seconds of processor time."""
    deadline = time.monotonic() + patience
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done or time.monotonic() >= deadline:
            break
        time.sleep(0.005)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.kill(pid, signal.SIGKILL)  # it may not have reached its own group yet
        used = os.wait4(pid, 0)[2]
    code = os.waitstatus_to_exitcode(status)
    how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    return how if done else "-", used.ru_utime + used.ru_stime


def _one(
    test: str, reference: ast.Module, number: int, to_host: socket.socket, report: int, seconds: float, again: bool
) -> tuple[str, str]:
    status, detail, used = _once(test, reference, number, to_host, report, seconds)
    if again and status == "timeout" and used < seconds / 2:  # on a busy machine it had no processor; or it sleeps
        status, detail, _ = _once(test, reference, number, to_host, report, _MORE_TIME * seconds)
    return status, detail


def _once(
    test: str, reference: ast.Module, number: int, to_host: socket.socket, report: int, seconds: float
) -> tuple[str, str, float]:
    """What came of a test, and the processor time of program and test."""
    here, there = socket.socketpair()
    socket.send_fds(to_host, [str(number).encode()], [there.fileno()])
    there.close()
    reading, writing = os.pipe()
    judge = os.fork()
    if judge == 0:
        os.setsid()
        for fd in (report, reading, to_host.fileno()):
            os.close(fd)
        os.write(writing, _line(*_judge(test, reference, here)))
        os._exit(0)
    os.close(writing)
    here.close()
    came, _, _ = select.select([reading], [], [], seconds)
    line = os.read(reading, 1 << 16) if came else b""
    os.close(reading)
    own_end, own_time = _end(judge, 0.5 if came and not line else 0.0)
    status, detail = json.loads(line) if line else ("timeout", f"not over after {seconds} s")
    if came and not line:
        status, detail = ("timeout" if own_end == "SIGXCPU" else "error"), f"the test's process ended: {own_end}"
    to_host.send(b"ended" if status == "ended" else b"stop")
    how, _, its_time = (to_host.recv(64).decode() or "- 0").rpartition(" ")
    if status == "ended":
        status, detail = ("timeout" if how == "SIGXCPU" else "error"), f"the program ended: {how}"
    return status, detail, own_time + float(its_time)


def _judge(test: str, reference: ast.Module, connection: socket.socket) -> tuple[str, str]:
    sys.path[:] = [path for path in sys.path if path]  # not the folder that the program can write to
    peer = Peer(connection, frozenset({"call"}))
    try:
        tree = ast.parse(test, "test")
        exec(compile(tree, "test", "exec", dont_inherit=True), _names(tree, reference, peer))
    except AssertionError as error:
        return ("error" if hasattr(error, "of_program") else "fail"), _said(error)
    except (EOFError, BrokenPipeError, ConnectionResetError) as error:
        return ("error", _said(error)) if hasattr(error, "of_program") else ("ended", "")
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a test may raise anything)
        return "error", _said(error)
    return "pass", ""


def _names(test: ast.Module, reference: ast.Module, peer: Peer) -> dict[str, Any]:
    """What the test's names mean: the entry points in the program, all else here."""
    free, modules = _free(test)
    imports = [node for node in reference.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    own = [node for node in reference.body if node not in imports]
    entries = free.intersection(_defined(own)) or _entries(free - modules - set(_defined(imports)))
    found: dict[str, Any] = {"__name__": "test"}
    for node in imports:
        with suppress(ImportError):
            exec(compile(ast.Module([node], []), "reference", "exec", dont_inherit=True), found)
    for name in (free - entries).difference(found):
        with suppress(ImportError):
            if name in modules:
                found[name] = importlib.import_module(_MODULES.get(name, name))
            elif name in _HELPERS:
                found[name] = getattr(importlib.import_module(_HELPERS[name]), name)
    known = entries.intersection(peer.request("names", None))
    return found | {name: peer.request("name", name) for name in sorted(known)}


def _free(test: ast.Module) -> tuple[set[str], set[str]]:
    """Names that the test uses and does not make itself, and those of them that it uses as modules."""
    nodes = list(ast.walk(test))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)} | set(_defined(nodes))
    free = {node.id for node in nodes if isinstance(node, ast.Name)} - bound
    bases = {node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return free, {name for name in free & bases - called if name in _MODULES or name in sys.stdlib_module_names}


def _defined(nodes: list[Any]) -> Iterator[str]:
    """The names of functions, classes, imports and assigned values among these statements."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from (
                part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            )


def _entries(names: set[str]) -> set[str]:
    """The program's names without a reference: those that neither Python nor a helper has, or all if there are no others."""
    return names - set(dir(builtins)) - _HELPERS.keys() or names


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
