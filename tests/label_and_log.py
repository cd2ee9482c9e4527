"""`footfall label`, but every rollout is written to a log once its sample call has returned.

    python label_and_log.py LOG SECONDS SHARD label --data … --policy …

A sample call takes SECONDS longer than it would. In the middle of writing its SHARDth Parquet file the process kills itself
(0: in none). The rest of the line is the real command line, run by the real program.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from footfall.cli import main
from footfall.formats import atomic_write, parquet
from footfall.policy.protocol import Completion, Run, SamplingParams
from footfall.types import Trajectory

POLICIES = {
    "scripted-arithmetic": ("footfall.worlds.arithmetic", "ArithmeticPolicy"),
    "embedded": ("footfall.policy.torch_policy", "TorchPolicy"),
}


def watch(policy: Any, log: Path, seconds: float) -> None:
    """Make the class `policy` tell the log what it sampled: process, prefix and sample index, a line each."""

    def tell(prefixes: Sequence[Trajectory], sampled: list[list[Completion]]) -> list[list[Completion]]:
        lines = [
            f"{os.getpid()} {prefix.key} {completion.index}\n"
            for prefix, completions in zip(prefixes, sampled, strict=True)
            for completion in completions
        ]
        with log.open("ab", buffering=0) as stream:
            stream.write("".join(lines).encode())  # one write, so that a kill leaves all of it or nothing
        return sampled

    if hasattr(policy, "sample_runs"):  # which `sample` goes through
        of_runs = policy.sample_runs

        def watched_runs(
            self: Any, runs: Sequence[Run], params: SamplingParams = SamplingParams()
        ) -> list[list[Completion]]:
            time.sleep(seconds)
            return tell([run.prefix for run in runs], of_runs(self, runs, params))

        policy.sample_runs = watched_runs
        return
    sample = policy.sample

    def watched(
        self: Any, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        time.sleep(seconds)
        return tell(prefixes, sample(self, prefixes, n, params, first))

    policy.sample = watched


def die_in_shard(number: int) -> None:
    """SIGKILL this process when half of its `number`th Parquet file has reached the disk."""
    left = iter(range(number - 1, -1, -1))

    class Fatal:
        """A file in which half of what is written arrives."""

        def __init__(self, stream: IO[bytes]) -> None:
            self.stream = stream

        def write(self, data: memoryview) -> None:
            self.stream.write(data[: len(data) // 2])
            self.stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def fatal(path: str | os.PathLike[str]) -> Iterator[Any]:
        with atomic_write(path) as stream:
            yield stream if next(left) > 0 else Fatal(stream)

    vars(parquet)["atomic_write"] = fatal


if __name__ == "__main__":
    log, seconds, shard, *words = sys.argv[1:]
    if int(shard):
        die_in_shard(int(shard))
    module, name = POLICIES[words[words.index("--policy") + 1]]
    watch(getattr(import_module(module), name), Path(log), float(seconds))
    sys.exit(main(words))
