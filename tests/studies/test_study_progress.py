"""A study by several processes shows every unit as it is done, not only whole worlds and seeds."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from footfall import terminal
from footfall.registry import StudyRow
from footfall.store import Chunk, Done, Run
from footfall.studies import study
from footfall.studies.study import KEPT, Figures, Place, Site, Unit, filled, kept, measure_all
from footfall.terminal import Progress
from tests.test_terminal_progress import Clock


class Held(Site):
    """Of three units, all but the first wait for a file that is there once the first was shown."""

    def units(self) -> list[Unit]:
        return [Unit(StudyRow("toy"), float(budget)) for budget in range(3)]

    def measured(self) -> Iterator[tuple[Place, Figures]]:
        deadline = time.monotonic() + 60
        for number, unit in enumerate(self.units()):
            while number and not (self.folder / "shown").exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("nobody showed the first unit")
                time.sleep(0.05)
            yield ((self.world,), number), {"figure": self.seed + unit.budget}


def test_units_of_other_processes_are_shown_as_they_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    advance = Progress.advance

    def shown(self: Progress, n: int) -> None:
        advance(self, n)
        seen.append(self.done)
        if self.done:
            (tmp_path / "shown").touch()

    monkeypatch.setattr(Progress, "advance", shown)
    found = measure_all("toy", [Held(None, tmp_path, "flat", seed) for seed in (1, 2)], workers=2)
    assert seen == sorted(seen) and seen[-1] == 6 and any(0 < done < 3 for done in seen)
    assert found.figures == {(("flat",), n): [{"figure": 1.0 + n}, {"figure": 2.0 + n}] for n in range(3)}


class Elsewhere:
    """Workers that end in any order."""

    def each(self, chunks: Iterator[Chunk], log: Callable[..., None]) -> Iterator[Done]:
        for chunk in reversed(list(chunks)):
            yield Done(chunk, filled(*chunk.items), 1, 0.5, {"pid": 7})


def test_sites_are_filled_by_the_workers_of_a_run_and_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "shown").touch()
    with Run(tmp_path, "toy", {}, workers=Elsewhere()) as run:
        found = measure_all("toy", [Held(None, tmp_path, "flat", seed) for seed in (1, 2)], run=run)
        assert [(line["index"], line["worker"]) for line in run.logged("chunk")] == [(1, {"pid": 7}), (0, {"pid": 7})]
    assert found.figures == {(("flat",), n): [{"figure": 1.0 + n}, {"figure": 2.0 + n}] for n in range(3)}


def test_the_first_unit_which_pays_for_what_all_share_guesses_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(), io.StringIO()
    monkeypatch.setattr(terminal, "time", clock)
    monkeypatch.setattr(study, "time", clock)
    with Progress("credit", 663, stream=stream) as shown:
        for units in (1, 102):
            clock.now += 10.0
            study._advance(shown, units)
    assert stream.getvalue() == "credit: 1/663, 0.0/s, ? left\ncredit: 103/663, 10.2/s, 0:55 left\n"


class Counted(Site):
    """One unit, whose figure is how often it was measured."""

    def units(self) -> list[Unit]:
        return [Unit(StudyRow("toy"), 1.0)]

    def measured(self) -> Iterator[tuple[Place, Figures]]:
        times = self.folder / "times"

        def measure() -> dict[str, int]:
            times.write_text(times.read_text() + "|" if times.exists() else "|")
            return {"figure": len(times.read_text())}

        yield ((self.world,), 0), kept(self.folder / "units" / "toy.json", measure)


def test_a_study_begun_anew_measures_anew(tmp_path: Path) -> None:
    found = []
    for fresh in (False, False, True):
        with Run(tmp_path, "bench-toy", {}, fresh=fresh, beside=KEPT) as run:
            found.append(measure_all("toy", [Counted(None, run.folder, "flat", 1)]).figures[("flat",), 0])
    assert found == [[{"figure": 1}], [{"figure": 1}], [{"figure": 2}]]
