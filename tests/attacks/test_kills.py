"""Killed at every fsync and every rename: the same command again gives the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.disturbing import COMMANDS, disturbed

SIGKILLED = -9


def test_a_sampling_run_killed_at_some_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    codes = disturbed("kill", "sample", 11, tmp_path)
    assert len(codes) >= 2 and set(codes) == {SIGKILLED}


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_every_moment(command: str, tmp_path: Path) -> None:
    codes = disturbed("kill", command, 1, tmp_path)
    assert len(codes) >= 5 and set(codes) == {SIGKILLED}
