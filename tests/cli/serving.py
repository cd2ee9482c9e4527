"""The loopback server as command line tests use it, and a command over it that may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.policy.loopback_process import LoopbackProcess

RIGHT = "So 3 - 4 = -1.\n\nIt is \\boxed{-1}"
"""What the server writes: as a rollout it is right, and as a critique it finds no error."""


class Server(LoopbackProcess):
    """A server that answers right unless told otherwise, and knows what it was asked."""

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def behave(self, text: str | None = RIGHT, **settings: Any) -> None:
        """From now on, with an empty log."""
        super().behave(text=text, **settings)

    def asked(self, event: str = "took") -> list[str]:
        """The keys (seed and prompt) of the requests that it took, or of those that it answered."""
        return [entry["key"] for entry in self.entries(event)]

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests that it took."""
        return [entry["request"] for entry in self.entries("took")]


class Job:
    """A `footfall` process that writes into `run` in a folder of its own, started as often as it takes."""

    def __init__(self, folder: Path, words: Sequence[str]) -> None:
        self.folder, self.words = folder, words

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "footfall.cli", *self.words, "--out", "run"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def finish(self) -> None:
        process = self.start()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()

    def written(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted((self.folder / "run").rglob("*.parquet"))}
