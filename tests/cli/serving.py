"""The loopback server as command line tests use it: a process that starts, stops, behaves as told, and keeps a log."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "policy" / "loopback_server.py"
RIGHT = "So 3 - 4 = -1.\n\nIt is \\boxed{-1}"
"""What the server writes: as a rollout it is right, and as a critique it finds no error."""


class Server:
    """The loopback server: starts, stops, behaves as told, and knows what it was asked."""

    def __init__(self, log: Path) -> None:
        self.log, self.port = log, 0
        self.start()

    def start(self, **settings: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(self.log), str(self.port), json.dumps(settings)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.process.stdout.close()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def behave(self, text: str | None = RIGHT, **settings: Any) -> None:
        """From now on, with an empty log."""
        self.log.write_text("")
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/control", json.dumps({"text": text, **settings}))
        assert connection.getresponse().status == 200
        connection.close()

    def asked(self, event: str = "took") -> list[str]:
        """The keys (seed and prompt) of the requests that it took, or of those that it answered."""
        return [entry["key"] for entry in self._entries() if entry["event"] == event]

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests that it took."""
        return [entry["request"] for entry in self._entries() if entry["event"] == "took"]

    def _entries(self) -> list[dict[str, Any]]:
        whole, _, _ = self.log.read_text().rpartition("\n")  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines()]
