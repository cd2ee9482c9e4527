"""What a command says, for tests to read, and a chain of commands run once for a whole file of tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall import cli


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """What a command prints with --json, which must be all that it prints, and that it ends with this exit code."""
    capsys.readouterr()
    assert cli.main([*words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def run_chain(folder: Path, *commands: Sequence[str]) -> Path:
    """The folder, after these commands were run in it on one thread."""
    with one_thread(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in commands:
            assert cli.main(list(words)) == 0
    return folder


@contextmanager
def one_thread() -> Iterator[None]:
    """Models as small as those of the tests are faster so, and tests that run side by side do not wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
