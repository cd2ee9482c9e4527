"""The whole attack, as often as the first audit made it or a share of that; and that what gets through is counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from footfall.formats.atomic import _temporary
from footfall.tools import why_no_walls
from tests.attacks import attempts
from tests.attacks.attempts import FINDINGS, KINDS, Attempt, attack, tallied
from tests.sizes import SOAK

SEED = 1
SIZE = 1.0 if SOAK else 0.25
"""The share of the attempts of the first audit: all with FOOTFALL_SOAK=1."""


def test_whatever_gets_through_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attempts, "MOST_SECONDS", 0.1)

    def wrong() -> str:
        raise AssertionError("a bit was read")

    def busy() -> str:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        return "fine"

    def endless() -> str:
        time.sleep(60)
        return "fine"

    def stray() -> str:
        _temporary(tmp_path / "rows.parquet")[1].close()
        return "fine"

    def made() -> Iterator[Attempt]:
        for name, run in {"a": wrong, "b": lambda: str(1 // 0), "c": stray, "d": busy, "e": endless}.items():
            yield Attempt(name, run)

    found = tallied(made(), "misread", tmp_path)
    expected = {"misread": 1, "tracebacks": 1, "hangs": 2, "partial files": 1, "escapes": 0}
    assert {name: found[name] for name in FINDINGS} == expected and found["attempts"] == 5
    assert "a bit was read" in capsys.readouterr().err


def test_a_hang_is_ten_seconds_of_the_clock_without_the_time_that_other_processes_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert attempts.MOST_SECONDS == 10
    elsewhere = 0.0
    monkeypatch.setattr(attempts, "waited", lambda task: elsewhere)
    watch = attempts.Stopwatch()
    with pytest.raises(TimeoutError), watch.stopping_after(0.2):
        time.sleep(60)
    assert 0.2 < watch.seconds() < 50
    watch, elsewhere = attempts.Stopwatch(), 40.0
    with watch.stopping_after(0.2):
        time.sleep(0.5)
    assert watch.seconds() < 0.2


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_through(kind: str, tmp_path: Path) -> None:
    if kind == "hostile programs" and why_no_walls() is not None:
        pytest.skip(f"no sandbox here: {why_no_walls()}")
    found = attack(kind, SEED, SIZE, tmp_path)
    assert found["attempts"] == round(KINDS[kind].at_size_one * SIZE)
    assert {name: found[name] for name in FINDINGS} == dict.fromkeys(FINDINGS, 0)
