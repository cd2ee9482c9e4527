"""A run's chunks on a Ray cluster: each actor opens the policies and judges once and does chunks by the run's own `Task`.

The driver hands out at most two chunks an actor, so that what it holds does not grow with the run, and writes what comes back:
an actor writes nothing into the run directory. An actor that died, whose node died, that ran out of memory or that took too
long, for a chunk or to open its parts, is replaced, and its chunks are given to others. A chunk is a pure function of its
items, so whoever does it, and however often it is begun, the bytes are the same; rollouts that were finished lie in the
rollout store, where there is one. Work that has no shards (seeds of the lab, sites of studies, batches of RL) goes the same
way, as `Call`s: what comes of it is sent back as it is.

Chunks that share something the work keeps elsewhere (`Chunk.shared`: rollouts of one problem, in the store) are done in their
order, the later one by the actor that did the earlier one if it can be.
"""

from __future__ import annotations

import logging
import math
import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from footfall.damaged import says_no_memory
from footfall.registry import named_files
from footfall.scale.worker import Call, Sent, Worker
from footfall.store import Chunk, Done, RunError, Task

_log = logging.getLogger(__name__)
LOCAL = "local"
"""The address of a cluster that is started on this machine, for this run alone."""
_MISSING = 'no Ray here: --ray needs it; pip install "footfall[ray]"'
_TOKEN = "if it asks for a token, set RAY_AUTH_MODE=token here, where Ray finds the same token"
"""Ray has a token for clusters from the first one it starts, and shows it to an address that was named only if told to."""
_TRIES = 5
"""How often a chunk is begun before it is taken to be what ends its workers."""
_A_WORKER = 2
"""Chunks handed to an actor: the one it does, and the next, so that it need not wait for the driver."""
_AHEAD = 4
"""Further chunks that are read an actor, to find some that may be done now."""
_TICK_SECONDS = 1.0
_PATIENCE_SECONDS, _PATIENCE_TIMES = 600.0, 5.0
"""A worker has so long for a chunk, or so many times what the slowest one took, unless the user says how long."""
_OPENING_SECONDS = 1800.0
"""Weights of 140 GB at 100 MB a second take 23 minutes."""
_NO_ROOM_SECONDS = 30.0
_ANSWER_SECONDS = 5.0
"""Within which a cluster must say its first word; Ray itself would wait for minutes."""
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How HTTP/2 begins, which gRPC speaks; a server's first word is a frame of the kind 4, its settings."""
_OBJECT_STORE_BYTES = 256 << 20


class Resources(NamedTuple):
    """What each actor is given, and how many there are at most."""

    workers: int | None = None
    """None: as many as the cluster has room for when the run begins."""
    cpus: float = 1.0
    gpus: float = 0.0
    memory_gib: float | None = None
    patience: float | None = None
    """Seconds for one chunk, after which its worker is taken to hang."""
    opening: float | None = None
    """Seconds in which a worker that has begun must have opened its parts. None: half an hour."""


def check_answers(address: str) -> None:
    """An error if nobody who speaks gRPC answers at HOST:PORT, or ray://HOST:PORT."""
    if (found := re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d+)", address)) is None:
        return
    try:
        with socket.create_connection((found[1], int(found[2])), _ANSWER_SECONDS) as there:
            if os.environ.get("RAY_USE_TLS") != "1":
                there.sendall(_HELLO)
                said = there.recv(9)
                if said[3:4] != b"\x04":
                    raise ConnectionError("what answers is no Ray")
    except (OSError, OverflowError, UnicodeError) as error:
        raise RunError(f"--ray {address}: no cluster answers there: {error}") from error


@dataclass
class _Given:
    """A chunk under way."""

    chunk: Chunk
    tries: int = 0
    begun: float = 0.0


@dataclass(eq=False)
class _Actor:
    """An actor as the driver sees it."""

    handle: Any
    where: Mapping[str, Any] = field(default_factory=dict)
    given: dict[Any, _Given] = field(default_factory=dict)
    """What it was given, by the reply that will come, in its order."""
    last: frozenset[str] = frozenset()
    """What its last chunk shares with others."""
    begun: float | None = None
    """When its process was first heard of."""
    unopened: int = 0
    """How many in its place were lost before, one after another, while they opened."""


def _no_memory(error: BaseException) -> bool:
    """Whether memory ran out, as Python says it, or as torch does: its allocators, its libraries, the driver."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and says_no_memory(str(error)))


class RayWorkers:
    """Actors that do the chunks of runs. Use as a context manager; the actors end with it."""

    def __init__(self, address: str, make: Callable[[], Task | Call], resources: Resources = Resources()) -> None:
        self.address, self.make, self.resources = address, make, resources
        self.counts: dict[Any, Any] = {}
        """What workers have counted, the last word of each."""
        self._actors: list[_Actor] = []
        self._opening: dict[Any, _Actor] = {}
        """Actors that are not open yet, by the reply that will come."""
        self._beginning: dict[Any, _Actor] = {}
        """Those whose process was not heard of yet: a cluster may have no room for them."""
        self._doing: dict[Any, _Actor] = {}
        """Who does a chunk, by the reply that will come."""
        self._wanting: dict[_Actor, None] = {}
        """Who could take a chunk more, in the order in which they came."""
        self._looked = 0.0
        self._slowest = 0.0
        self._errors_told = False
        self._now = time.monotonic
        """The clock by which workers hang."""

    def __enter__(self) -> RayWorkers:
        # Ray would report its use to its makers, and says so at length.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise RunError(_MISSING) from None
        self._ray = ray
        how: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self.address == LOCAL:
            how |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
            if self.resources.workers is not None:
                # What the user asked for is what there is to be, whatever this machine has.
                how["num_cpus"] = math.ceil(self.resources.workers * self.resources.cpus)
        check_answers(self.address)
        try:
            ray.init(address=self.address, **how)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            why = str(error).partition("\n")[0]
            raise RunError(f"--ray {self.address}: no cluster answers there: {why}; {_TOKEN}") from error
        own = self.resources
        limits = {} if own.memory_gib is None else {"memory": int(own.memory_gib * 2**30)}
        self._class = ray.remote(num_cpus=own.cpus, num_gpus=own.gpus, max_restarts=0, max_task_retries=0, **limits)(
            Worker
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ray.shutdown()

    def each(self, chunks: Iterator[Chunk], log: Callable[..., None]) -> Iterator[Done]:
        """The chunks as they are done, in any order; what happens to workers goes to `log`."""
        waiting: deque[_Given] = deque()
        begun = told = self._now()
        while True:
            most = (_AHEAD + _A_WORKER) * max(1, len(self._actors))
            while len(waiting) < most and (chunk := next(chunks, None)) is not None:
                waiting.append(_Given(chunk))
            if waiting and not self._actors:
                self._actors = [self._start() for _ in range(self._room())]
                log("workers", workers=len(self._actors), address=self.address)
                continue
            self._hand_out(waiting)
            if not waiting and not self._doing:
                return
            replies = [*self._doing, *self._opening, *self._beginning]
            ready, _ = self._ray.wait(replies, num_returns=1, timeout=_TICK_SECONDS)
            for reply in ready:
                done = self._ended(reply, waiting, log)
                if done is not None:
                    yield done
            if self._now() >= self._looked + _TICK_SECONDS:
                self._looked = self._now()
                self._look_for_hangs(waiting, log)
            if len(self._opening) == len(self._actors) and self._now() > told + _NO_ROOM_SECONDS:
                log("waiting", why="no worker is open yet", resources=self.resources._asdict())
                if told == begun:
                    _log.warning("%s", self._nobody_yet())
                told = self._now()

    def calls(
        self, stage: str, items: Iterable[Any], log: Callable[..., None], errors_told: bool = False
    ) -> Iterator[Done]:
        """What comes of each item, by workers that were made for calls, as they are done: `Done.chunk.index` is the place.

        With `errors_told` an error is what comes of an item, and the others go on.
        """
        self._errors_told = errors_told
        return self.each((Chunk(stage, at, "", (item,)) for at, item in enumerate(items)), log)

    def send(self, value: Any) -> Sent:
        """Put something into the cluster, for items to name."""
        return Sent(self._ray.put(value))

    def _lacks(self) -> Iterator[tuple[str, float, float]]:
        """The options of which an actor wants more than there is in all, how much it wants and how much there is."""
        own = self.resources
        there = self._ray.cluster_resources()
        wanted = {"cpus": own.cpus, "gpus": own.gpus, "memory": own.memory_gib or 0}
        has = {"cpus": there.get("CPU", 0), "gpus": there.get("GPU", 0), "memory": there.get("memory", 0) / 2**30}
        for name, amount in wanted.items():
            if amount > has[name]:
                yield f"--ray-{name}", amount, has[name]

    def _nobody_yet(self) -> str:
        """Why no worker may have begun: a cluster can grow, so it is waited for."""
        if lacks := [f"{option} {amount:g}, and all of it has {has:.3g}" for option, amount, has in self._lacks()]:
            return (
                f"--ray {self.address}: no worker has room in the cluster: each wants {'; '.join(lacks)}; it may grow"
            )
        return (
            f"--ray {self.address}: no worker is open yet: they load the policy or judge, or no node has room for one"
        )

    def _room(self) -> int:
        """How many actors there are to be."""
        own = self.resources
        if self.address == LOCAL:  # it does not grow, so nobody would ever begin
            for option, amount, has in self._lacks():
                raise RunError(f"{option} {amount:g}: this machine has {has:.3g}")
        there = self._ray.cluster_resources()
        if own.workers is not None:
            return own.workers
        room = [int(there.get("CPU", 0) // own.cpus)] if own.cpus else []
        room += [int(there.get("GPU", 0) // own.gpus)] if own.gpus else []
        return max(1, min(room, default=1))

    def _start(self, unopened: int = 0) -> _Actor:
        own = self.resources
        stays = self.address == LOCAL and own.cpus == 1 and not own.gpus
        handle = self._class.remote(self.make, str(Path.cwd()), tuple(named_files()), own.gpus, stays)
        actor = _Actor(handle, unopened=unopened)
        # An actor does its calls in their order, so the first reply says that the second call is under way.
        self._beginning[handle.here.remote()] = actor
        self._opening[handle.open.remote()] = actor
        return actor

    def _hand_out(self, waiting: deque[_Given]) -> None:
        """Give those that have fewer than two chunks one that may be done now; who has none comes first."""
        if not waiting:
            return
        for actor in sorted(self._wanting, key=lambda each: len(each.given)):
            while len(actor.given) < _A_WORKER and (given := self._next(actor, waiting)) is not None:
                given.begun = self._now()
                reply = actor.handle.do.remote(given.chunk)
                actor.given[reply], self._doing[reply] = given, actor
                actor.last = given.chunk.shared
                if len(actor.given) == 1 and len(self._wanting) > 1:
                    break  # the others first
            if len(actor.given) == _A_WORKER:
                del self._wanting[actor]

    def _next(self, actor: _Actor, waiting: deque[_Given]) -> _Given | None:
        """A chunk that shares nothing with an earlier one, but for those this actor does before it; best one like its last."""
        busy = {
            name for a in self._actors if a is not actor for given in a.given.values() for name in given.chunk.shared
        }
        found: _Given | None = None
        for given in waiting:
            names = given.chunk.shared
            if not names & busy:
                found = given if found is None or names & actor.last else found
                if not actor.last or names & actor.last:
                    break
            busy |= names
        if found is not None:
            waiting.remove(found)
        return found

    def _ended(self, reply: Any, waiting: deque[_Given], log: Callable[..., None]) -> Done | None:
        """What a reply says: an actor has begun or is open, a chunk is done, or none of these and another actor must do it."""
        beginning, opening = reply in self._beginning, reply in self._opening
        actor = (self._beginning if beginning else self._opening if opening else self._doing)[reply]
        errors = self._ray.exceptions
        try:
            said = self._ray.get(reply)
        except errors.RayTaskError as error:
            cause = error.cause
            if _no_memory(cause):
                self._replace(actor, waiting, log, f"out of memory: {cause}")
                return None
            if beginning or opening or not self._errors_told:
                raise cause from error
            said = cause, 0, 0.0, None
        except errors.RayError as error:
            self._replace(actor, waiting, log, str(error).partition("\n")[0])
            return None
        if beginning:
            del self._beginning[reply]
            actor.where, actor.begun = said, self._now()
            return None
        self._wanting[actor] = None
        if opening:
            del self._opening[reply]
            return None
        del self._doing[reply]
        given = actor.given.pop(reply)
        for following in actor.given.values():
            following.begun = self._now()
        shard, rows, seconds, counts = said
        if counts is not None:
            self.counts[actor.handle] = counts
        self._slowest = max(self._slowest, seconds)
        return Done(given.chunk, shard, rows, seconds, actor.where)

    def _replace(
        self, actor: _Actor, waiting: deque[_Given], log: Callable[..., None], why: str, more: str = "--ray-memory"
    ) -> None:
        """End the actor, put its chunks back in front, and start another in its place. `more` names what it may have lacked."""
        given = list(actor.given.values())
        log("worker lost", why=why, chunks=[each.chunk.index for each in given], worker=dict(actor.where))
        self._ray.kill(actor.handle)
        self._wanting.pop(actor, None)
        for reply in actor.given:
            del self._doing[reply]
        opening = actor in self._opening.values()
        for replies in (self._beginning, self._opening):
            for reply in [reply for reply, other in replies.items() if other is actor]:
                del replies[reply]
        if given:
            given[0].tries += 1
            if given[0].tries >= _TRIES:
                chunk = given[0].chunk
                raise RunError(
                    f"stage {chunk.stage!r}, chunk {chunk.index}: {_TRIES} workers were lost over it, the last with: {why}; "
                    f"its log is {actor.where.get('log')}. A smaller --chunk or a larger {more} may help"
                )
        elif opening and actor.unopened + 1 >= _TRIES:
            raise RunError(
                f"{_TRIES} workers in a row were lost while they opened the policy or judge, the last with: {why}; its log is "
                f"{actor.where.get('log')}. A larger {more} may help"
            )
        rest = sorted([*given, *waiting], key=lambda each: each.chunk.index)
        waiting.clear()
        waiting.extend(rest)
        self._actors[self._actors.index(actor)] = self._start(actor.unopened + 1 if opening else 0)

    def _look_for_hangs(self, waiting: deque[_Given], log: Callable[..., None]) -> None:
        """Replace those that have not replied for too long, or are not open yet."""
        opening = _OPENING_SECONDS if self.resources.opening is None else self.resources.opening
        for reply, actor in list(self._opening.items()):
            if actor.begun is not None and self._silent(reply, actor.begun, opening):
                self._replace(actor, waiting, log, f"not open after {opening:.0f} s", "--ray-opening")
        limit = self.resources.patience
        if limit is None:
            limit = max(_PATIENCE_SECONDS, _PATIENCE_TIMES * self._slowest)
        for actor in list(self._actors):
            first = next(iter(actor.given.items()), None)
            if first is not None and self._silent(first[0], first[1].begun, limit):
                self._replace(actor, waiting, log, f"no reply for {limit:.0f} s", "--ray-patience")

    def _silent(self, reply: Any, begun: float, limit: float) -> bool:
        """Whether there is no reply after so many seconds. One may lie there, where the driver was busy with something else."""
        return self._now() - begun > limit and not self._ray.wait([reply], num_returns=1, timeout=0)[0]
