"""Hours of work in one process: what is kept is bounded, and the rule that says so finds a leak."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.soak import BOUNDS, COMMANDS, KINDS, SEEDS, Look, judged, soak


def looks(leak: float, noise: float = 0.0) -> list[Look]:
    """An hour in which memory holds 100 MiB, swings by `noise` bytes and rises by `leak` bytes a command."""
    return [
        Look(4.0 * k, True, int(100 * 2**20 + noise * (k % 7 - 3) + leak * k), 2, 6, 0, 2**20, 0) for k in range(900)
    ]


def test_the_rule_finds_a_leak_of_a_page_a_command_under_noise_of_megabytes() -> None:
    assert not judged(looks(leak=24_000, noise=2**21))["rss"].flat
    assert judged(looks(leak=0, noise=2**21))["rss"].flat
    assert all(found.flat for name, found in judged(looks(leak=24_000)).items() if name != "rss")


def test_what_fills_while_every_command_meets_its_seeds_first_is_no_leak() -> None:
    warm = len(COMMANDS) * SEEDS
    filling = [look._replace(disk=min(k, warm) * 2**20, fds=6 + min(k, warm)) for k, look in enumerate(looks(0))]
    assert all(found.flat for found in judged(filling).values())
    endless = [look._replace(disk=k * 2**20, fds=6 + k // 100) for k, look in enumerate(looks(0))]
    assert {name for name, found in judged(endless).items() if not found.flat} == {"disk", "fds"}


@pytest.mark.long
def test_half_a_minute_of_commands_over_a_server_that_fails_a_third_of_its_calls(tmp_path: Path) -> None:
    found = soak(0.5, tmp_path)
    assert found["flat"], found["trends"]
    assert not found["differing"], "a seed gives the same, however many calls failed"
    assert set(found["turns"]) == {f"{name}: exit code 0" for name in COMMANDS}
    assert found["calls"] > 18 * len(KINDS) and abs(found["failed"] / found["calls"] - 1 / 3) < 0.05
    assert set(found["trends"]) == set(BOUNDS)
