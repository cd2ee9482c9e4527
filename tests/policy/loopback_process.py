"""`loopback_server.py` as a process of its own: it starts, stops, comes back at the same port, behaves as told, keeps a log."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("loopback_server.py")


class LoopbackProcess:
    """The server process and its log."""

    def __init__(self, log: Path, port: int = 0) -> None:
        self.log, self.port = log, port
        self.start()

    def start(self, **settings: Any) -> None:
        command = [sys.executable, str(SCRIPT), str(self.log), str(self.port), json.dumps(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.process.stdout.close()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def behave(self, **settings: Any) -> None:
        """Forget what was before; the log starts anew."""
        self.log.write_text("")
        self._ask("/control", json.dumps(settings))

    def calls(self) -> dict[str, int]:
        """How many sampling requests it has had since it started, and how many of them it spoilt."""
        found: dict[str, int] = json.loads(self._ask("/calls"))
        return found

    def _ask(self, path: str, body: str = "") -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", path, body)
        response = connection.getresponse()
        assert response.status == 200
        answer = response.read()
        connection.close()
        return answer

    def entries(self, event: str) -> list[dict[str, Any]]:
        """The lines of the log about such events."""
        whole, _, _ = self.log.read_text().rpartition("\n")  # the last line may be half written
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if line["event"] == event]
