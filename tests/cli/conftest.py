"""What tests of commands share: one server process a file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.serving import Server


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server") / "log.jsonl")
    yield server
    server.stop()
