"""How far a plan is: what each of its stages left behind, which may begin now, and how long they will take.

A stage's record lies in `plan/NAME.json` under the folder of results: its command, how it ended, and its seconds. A stage is
done when its record says so of the same command, the same given and the same stages before it. If its files are not here (they
did not travel), it is run again only if a stage that is open needs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from footfall.damaged import json_of, naming
from footfall.types import content_key
from scripts.loop_files import keep
from scripts.plan_file import Plan, Stage, is_inside

FOLDER = "plan"
End = Literal["done", "failed", "stopped"]


@dataclass(frozen=True)
class Record:
    """How a stage ended last."""

    name: str
    kind: str
    key: str
    """Of the stage and of what was given to it and to those before it."""
    run: str
    given: dict[str, str]
    makes: list[str]
    keeps: list[str]
    end: End
    seconds: float
    """Of the run that ended well; else of the longest try."""

    def write(self, out: Path) -> None:
        keep(out / FOLDER / f"{self.name}.json", asdict(self))


def read_records(out: Path) -> dict[str, Record]:
    """By stage, of all that a folder of results has."""
    found = {}
    for file in sorted((out / FOLDER).glob("*.json")):
        with naming(file):
            record = Record(**json_of(file))
            _check(record)
        if record.name != file.stem:
            raise ValueError(f"{file} is the record of {record.name!r}; remove it")
        found[record.name] = record
    return found


def _check(record: Record) -> None:
    """Records may have come with an archive."""
    paths = [*record.makes, *record.keeps]
    for path in paths:
        if not isinstance(path, str) or not is_inside(path):
            raise ValueError(f"{path!r} is no path inside the folder of results")
    if record.end not in ("done", "failed", "stopped") or not float(record.seconds) >= 0:
        raise ValueError("a record says done, failed or stopped, and after how many seconds")


def is_there(out: Path, pattern: str) -> bool:
    """Whether a path or pattern names something in the folder of results."""
    return any(True for _ in out.glob(pattern))


def named(value: str) -> str:
    """What is given, by the last part of its path, for paths differ by machine; a hub id has its owner too."""
    file = Path(value)
    is_hub_id = len(file.parts) == 2 and not file.is_absolute() and file.suffix != ".gguf" and not file.exists()
    return value if is_hub_id else file.name


class Progress:
    """The stages that were asked for, their records, and what is given."""

    def __init__(self, plan: Plan, stages: Sequence[Stage], out: Path, given: Mapping[str, str]) -> None:
        self.plan, self.stages, self.out = plan, stages, out
        self.given = {name: named(value) for name, value in given.items() if name in plan.given}
        self._by_name = {stage.name: stage for stage in plan.stages}
        self.read_again()

    def read_again(self) -> None:
        self.records = read_records(self.out)

    def settings(self, stage: Stage) -> dict[str, str]:
        """What is given to a stage and to those before it.

        What is not given now, because nothing open needs it, is what it was for the stages before.
        """
        found: dict[str, str] = {}
        left = [stage]
        while left:
            each = left.pop()
            known = self.records.get(each.name)
            of_record = {} if known is None else known.given
            for name in each.names & {*self.plan.given}:
                if (value := self.given.get(name, of_record.get(name))) is not None:
                    found.setdefault(name, value)
            left += [self._by_name[name] for name in each.after]
        return dict(sorted(found.items()))

    def record(self, stage: Stage, end: End, seconds: float) -> Record:
        """A new record; of a try that came to nothing the longest is remembered.

        What was done and is made again, because its files did not travel, stays done when that comes to nothing: its files
        are still missing, and so it is begun again where something needs them.
        """
        before = self.records.get(stage.name)
        if end != "done" and before is not None:
            if self.is_recorded(stage):
                return before
            seconds = max(seconds, before.seconds if before.end != "done" else 0.0)
        found = Record(
            stage.name, stage.kind, self._key(stage), " ".join(stage.words), self.settings(stage), [*stage.makes],
            [*stage.keeps], end, round(seconds, 1),
        )  # fmt: skip
        self.records[stage.name] = found
        return found

    def is_recorded(self, stage: Stage) -> bool:
        """Whether it was done, with these settings."""
        known = self.records.get(stage.name)
        return known is not None and known.end == "done" and known.key == self._key(stage)

    def _key(self, stage: Stage) -> str:
        return content_key([stage.key, *(f"{k}={v}" for k, v in self.settings(stage).items())])

    def otherwise(self, stage: Stage) -> str | None:
        """How it was done, or begun, if with other settings; what it left must not be taken for what is asked for now."""
        known = self.records.get(stage.name)
        if known is None or known.key == self._key(stage):
            return None
        if known.end != "done" and not any(is_there(self.out, path) for path in known.keeps):
            return None
        how = "made" if known.end == "done" else "begun"
        run = " ".join(stage.words)
        if known.run != run:
            return f"it was {how} by `{known.run}`, and is now `{run}`"
        if known.given != self.settings(stage):
            return f"it was {how} with {known.given}, and is now asked for with {self.settings(stage)}"
        return f"a stage before it was another when it was {how}"

    def missing(self, stage: Stage) -> list[str]:
        """What it makes and is not here."""
        return [path for path in (*stage.makes, *stage.heavy) if not is_there(self.out, path)]

    def open(self) -> list[Stage]:
        """The stages that are to be run."""
        asked = {stage.name for stage in self.stages}
        needed_by: dict[str, list[Stage]] = {stage.name: [] for stage in self.plan.stages}
        for stage in self.stages:
            for name in stage.after:
                needed_by[name].append(stage)
        known: dict[str, bool] = {}

        def is_open(stage: Stage) -> bool:
            if stage.name not in known:
                known[stage.name] = not self.is_recorded(stage) or (
                    any(is_open(other) for other in needed_by[stage.name]) and bool(self.missing(stage))
                )
            return known[stage.name]

        return [stage for stage in self.stages if stage.name in asked and is_open(stage)]

    def estimate(self, stage: Stage) -> float:
        """Seconds: its own if it was done, else the longest of its kind, else the plan's guess.

        A try is a lower bound, but for a stage that goes on with what it keeps.
        """
        own = self.records.get(stage.name)
        if own is not None and own.end == "done":
            return own.seconds
        like = [each.seconds for each in self.records.values() if each.kind == stage.kind and each.end == "done"]
        tried = own.seconds if own is not None and own.end == "stopped" and not stage.keeps else 0.0
        return max(max(like, default=stage.seconds), tried)

    def is_measured(self, stage: Stage) -> bool:
        """Whether an estimate is of a stage that was done."""
        return any(each.kind == stage.kind and each.end == "done" for each in self.records.values())

    def fits(self, stage: Stage, waits: float, left: float) -> bool:
        """Whether it will end in the seconds that are left when it has waited, or can go on another time."""
        takes = self.estimate(stage)
        return (takes if stage.least is None else min(stage.least, takes)) <= left - waits


def startable(
    open_: Sequence[Stage],
    done: set[str],
    running: Mapping[Stage, float],
    workers: int,
    fits: Callable[[Stage, float], bool],
    gib: float = math.inf,
) -> list[Stage]:
    """Which of the open stages may begin now, in their order; `running` has the seconds that each will still take.

    One that needs the whole GPU has it alone, and others share it as far as its `gib` of memory go. Those after one that waits
    for the GPU do not overtake it, if it will fit when those that it waits for have ended; stages without the GPU run beside
    any other. `fits` is asked with the seconds of waiting.
    """
    begun: list[Stage] = []
    waits_for_gpu = False
    for stage in open_:
        busy = [*running, *begun]
        if len(busy) >= workers:
            break
        if stage in running or not done >= {*stage.after} or not fits(stage, 0.0):
            continue
        beside = [each for each in busy if each.gpu != "none"]
        alone = stage.gpu == "whole" or any(each.gpu == "whole" for each in beside)
        full = alone or sum(each.gib for each in (*beside, stage)) > gib
        if stage.gpu == "none" or not (waits_for_gpu or (full and beside)):
            begun.append(stage)
        elif fits(stage, max((running.get(each, 0.0) for each in beside), default=0.0)):
            waits_for_gpu = True
    return begun
