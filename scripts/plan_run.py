"""Runs the open stages of a plan, some beside each other, within a time; what is not finished goes on another time.

A stage is a process of its own, in a process group of its own, with a log in `plan/NAME.log`. When the time is up, on Ctrl-C or
SIGTERM, or when the disk is full, the groups of all stages that still run are ended. A lock that stages inherit keeps a second
runner out as long as one of them lives, even if the runner itself was killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from footfall.terminal import visible
from scripts.loop_files import tell
from scripts.plan_file import OUT, Stage
from scripts.plan_state import FOLDER, End, Progress, startable

LOCK = "lock"
"""The file in plan/ that a runner holds."""
MORE = 75
"""The exit status when all went well and something is left to do."""
GRACE = 15.0
"""Seconds that a stage has to end after it was asked to."""
PATIENCE = 5.0
"""Seconds that processes which were killed have to be gone."""
_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
"""Passes of many lengths leave gaps in memory that torch keeps, and that those who share the GPU lack."""
_LOOK = 0.1
_TAIL = 12
"""Lines of a failed stage's log that are shown."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ROOM = 2**20
"""Bytes: with fewer that are free, what fails did so for want of them."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Child(NamedTuple):
    """A stage that runs."""

    stage: Stage
    process: subprocess.Popen[bytes]
    started: float

    def end(self, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, how)

    def has_ended(self) -> bool:
        """Without reaping it: as long as it is there, its group's number is nobody else's."""
        found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return found is not None

    def reap(self) -> int:
        """What it left running is ended with it."""
        self.end(signal.SIGKILL)
        return self.process.wait()


@dataclass
class Summary:
    """How a run of a plan ended: stages by what became of them."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    """Not begun, and why."""
    disk: str = ""
    """What was said of the disk when nothing more could be written."""

    @property
    def status(self) -> int:
        return 2 if self.disk else 1 if self.failed else MORE if self.stopped or self.left else 0

    def __str__(self) -> str:
        lines = [f"disk     {self.disk}; make room, and the same command goes on"] if self.disk else []
        lines += [f"failed   {name}: {why}" for name, why in self.failed.items()]
        lines += [f"stopped  {name}: the same command goes on with it" for name in self.stopped]
        lines += [f"left     {name}: {why}" for name, why in self.left.items()]
        counts = (len(self.done), len(self.failed), len(self.stopped), len(self.left))
        return "\n".join([*lines, "{} done now, {} failed, {} stopped, {} left".format(*counts)])


@contextlib.contextmanager
def locked(out: Path) -> Iterator[IO[str]]:
    """The folder of results for this runner and its stages alone."""
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    with (out / FOLDER / LOCK).open("a+") as stream:
        until = time.monotonic() + PATIENCE
        while not (free := _take(stream)) and time.monotonic() < until:
            time.sleep(_LOOK)
        if not free:
            stream.seek(0)
            holders = " ".join(map(str, _holders(stream)))
            raise ValueError(
                f"stages of an earlier run in {out} are still going, in process groups {stream.read().strip() or '?'}; wait "
                "for them, or end each by `kill -- -GROUP`"
                + (f". Its lock is held by the processes {holders}" if holders else "")
            )
        yield stream


def _holders(stream: IO[str]) -> list[int]:
    """Other processes that have this file open: one that left its stage's group is known by nothing else."""
    own, found = os.fstat(stream.fileno()), set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.path.samestat(link.stat(), own):
                found.add(int(link.parts[2]))
    return sorted(found - {os.getpid()})


def _take(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def say(text: str, *log: str) -> None:
    """A line on standard error, and lines of a log. Nobody may be there to read it any more, as when a terminal was closed:
    stages are ended and recorded all the same."""
    with contextlib.suppress(OSError):
        tell("\n".join([text, *(f"    {visible(line[:300])}" for line in log)]))


class Runner:
    """One run of a plan."""

    def __init__(
        self, progress: Progress, values: Mapping[str, str], seconds: float, workers: int, gib: float = math.inf
    ) -> None:
        self.progress, self.workers, self.gib = progress, workers, gib
        self.values = {**values, OUT: str(progress.out)}
        self.ends = time.monotonic() + seconds
        self.children: list[Child] = []
        self.summary = Summary()
        self.asked_to_stop = False
        # Who runs this by the path of its interpreter has other programs of the same place in the stages.
        own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self.environment = {_ALLOCATOR: "expandable_segments:True", **os.environ, "PATH": own}

    @property
    def left(self) -> float:
        return self.ends - time.monotonic()

    def run(self) -> Summary:
        """To the end of the plan, or of the time."""
        with locked(self.progress.out) as lock, self._listening():
            self.progress.read_again()  # a runner that was waited for has left records
            for stage in self.progress.open():
                if why := self.progress.otherwise(stage):
                    self.summary.failed[stage.name] = (
                        f"{why}; take another --out, or remove plan/{stage.name}.json and what it made"
                    )
            open_ = [stage for stage in self.progress.open() if stage.name not in self.summary.failed]
            done = {stage.name for stage in self.progress.stages} - {s.name for s in open_} - {*self.summary.failed}
            try:
                self._work(open_, done, lock)
            finally:
                self._stop()
            self._tell_what_is_left(open_, done)
        return self.summary

    def _work(self, open_: list[Stage], done: set[str], lock: IO[str]) -> None:
        while not self.asked_to_stop and self.left > 0:
            now = time.monotonic()
            running = {c.stage: max(0.0, self.progress.estimate(c.stage) - now + c.started) for c in self.children}
            fresh = [stage for stage in open_ if not self._is_over(stage)]
            fits = partial(self.progress.fits, left=self.left)
            for stage in startable(fresh, done, running, self.workers, fits, self.gib):
                if not self.asked_to_stop:
                    self._start(stage, lock)
            if not self.children:
                if not startable(fresh, done, {}, self.workers, fits, self.gib):
                    return
                continue  # one failed at once, others may begin
            for child in [child for child in self.children if child.has_ended()]:
                self._finish(child)
                if child.stage.name in self.summary.done:
                    done.add(child.stage.name)
            time.sleep(_LOOK)

    def _is_over(self, stage: Stage) -> bool:
        return stage.name in self.summary.done or stage.name in self.summary.failed

    def _start(self, stage: Stage, lock: IO[str]) -> None:
        with self._minding_the_disk():
            self._begin(stage, lock)

    def _begin(self, stage: Stage, lock: IO[str]) -> None:
        program, *words = stage.command(self.values)
        # The interpreter of this very process, whatever it is called there: python3 alone on some machines.
        command = [sys.executable if program == "python" else program, *words]
        log = self.progress.out / FOLDER / f"{stage.name}.log"
        # Who packs this folder after the runner itself was killed knows by this what the stage keeps.
        self.progress.record(stage, "stopped", 0.0).write(self.progress.out)
        with log.open("ab") as stream:
            stream.write(f"$ {shlex.join(command)}\n".encode())
            stream.flush()
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
                    env=self.environment, pass_fds=(lock.fileno(),),
                )  # fmt: skip
            except OSError as error:
                self.summary.failed[stage.name] = f"{command[0]}: {error.strerror}"
                self.progress.record(stage, "failed", 0.0).write(self.progress.out)
                return
        self.children.append(Child(stage, process, time.monotonic()))
        # Past the stream's buffer, which would be tried once more where the disk is full.
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), " ".join(str(child.process.pid) for child in self.children).encode())
        estimate = self.progress.estimate(stage)
        say(f"begun    {stage.name}, about {estimate:.0f} s of {self.left:.0f} s that are left")

    def _finish(self, child: Child, stopped: bool = False) -> None:
        stage, seconds = child.stage, time.monotonic() - child.started
        status = child.reap()
        self.children.remove(child)
        missing = self.progress.missing(stage)
        if status and shutil.disk_usage(self.progress.out).free < _ROOM:
            self._disk_is_full(f"{self.progress.out}: no space is left")
        stopped |= bool(self.summary.disk)
        end: End = "done" if status == 0 and not missing else "stopped" if stopped else "failed"
        with self._minding_the_disk():
            self.progress.record(stage, end, seconds).write(self.progress.out)
        if end == "done":
            self.summary.done.append(stage.name)
            say(f"done     {stage.name}, {seconds:.0f} s")
        elif end == "stopped":
            self.summary.stopped.append(stage.name)
            say(f"stopped  {stage.name}, after {seconds:.0f} s")
        else:
            log = self.progress.out / FOLDER / f"{stage.name}.log"
            why = f"it ended with status {status}" if status else f"it ended well, and {missing[0]} is not there"
            self.summary.failed[stage.name] = f"{why}; see {log}"
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
            say(f"failed   {stage.name}, after {seconds:.0f} s: {why}; the end of {log}:", *tail)

    @contextlib.contextmanager
    def _minding_the_disk(self) -> Iterator[None]:
        """Where it is full, nothing more is begun, and what runs is ended; a record that cannot be written stays as it was."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._disk_is_full(f"{error.filename or self.progress.out}: {(error.strerror or '').lower()}")

    def _disk_is_full(self, told: str) -> None:
        self.summary.disk = self.summary.disk or told
        self.asked_to_stop = True

    def _stop(self) -> None:
        """Ends what still runs: asked first, and killed if that was in vain for so long."""
        for child in self.children:
            child.end(signal.SIGTERM)
        until = time.monotonic() + GRACE
        while self.children:
            for child in [child for child in self.children if child.has_ended()]:
                self._finish(child, stopped=True)
            if self.children and time.monotonic() > until:
                for child in self.children:
                    child.end(signal.SIGKILL)
            time.sleep(_LOOK / 2)

    def _tell_what_is_left(self, open_: Sequence[Stage], done: set[str]) -> None:
        for stage in open_:
            if self._is_over(stage) or stage.name in self.summary.stopped:
                continue
            waits = [name for name in stage.after if name not in done]
            need = f"about {self.progress.estimate(stage):.0f} s are needed"
            self.summary.left[stage.name] = f"it comes after {waits[0]}" if waits else need

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Signals that ask for an end stop the stages first."""

        def asked(number: int, frame: FrameType | None) -> None:
            self.asked_to_stop = True

        before = {number: signal.signal(number, asked) for number in _ENDING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Begin(NamedTuple):
    """A stage in a forecast."""

    at: float
    stage: Stage
    seconds: float


def forecast(
    progress: Progress, seconds: float, workers: int, gib: float = math.inf
) -> tuple[list[Begin], dict[str, str]]:
    """What a run of so many seconds would begin and when, if all takes as long as estimated; and what it would leave."""
    open_ = [stage for stage in progress.open() if progress.otherwise(stage) is None]
    done = {stage.name for stage in progress.stages} - {stage.name for stage in progress.open()}
    found: list[Begin] = []
    ends: list[tuple[float, int, Stage]] = []
    begun: set[str] = set()
    now = 0.0
    while True:
        fresh = [stage for stage in open_ if stage.name not in begun]
        running = {stage: end - now for end, _, stage in ends}
        for stage in startable(fresh, done, running, workers, partial(progress.fits, left=seconds - now), gib):
            takes = progress.estimate(stage)
            found.append(Begin(now, stage, takes))
            heapq.heappush(ends, (now + takes, len(found), stage))
            begun.add(stage.name)
        if not ends or ends[0][0] > seconds:
            break
        now, _, ended = heapq.heappop(ends)
        done.add(ended.name)
    later = {
        stage.name: progress.otherwise(stage) or f"about {progress.estimate(stage):.0f} s"
        for stage in progress.open() if stage.name not in begun
    }  # fmt: skip
    return found, later
