"""The folder of a training: its plan, its model and its result, each whole or not there at all.

    train.json    the plan: data, backbone, settings
    checkpoints/  while the run goes on
    model/        the finished model with its canary
    published/    the model in the format of a published family, where one was asked for
    row_weights.json  of a training that weighs rows: weights of domains or of traces, losses on the meta set
    reference.json  of an implicit PRM: what its reference says of each trace
    held_out.parquet  traces that were held out, with the model's values and their labels
    result.json   how training went

A second call with the same folder refuses another plan, unless the first was refused before it had done anything; it reads a
finished run back and goes on with an unfinished one. A kill at any moment leaves a folder that one can go on with.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from footfall._version import __version__
from footfall.damaged import json_of, naming
from footfall.formats import atomic_write
from footfall.formats.atomic import remove, remove_folder
from footfall.reward.config import CONFIG_FILE
from footfall.reward.prm import PRM
from footfall.train.config import TrainConfig
from footfall.train.data import DataReport, data_key, taught_key, weighed_key
from footfall.train.first_error import HeldOutErrors
from footfall.train.objectives import Objective
from footfall.types import Cost, Judged

PLAN, RESULT, MODEL, CHECKPOINTS = "train.json", "result.json", "model", "checkpoints"
HELD_OUT, REFERENCE, ROW_WEIGHTS = "held_out.parquet", "reference.json", "row_weights.json"
PUBLISHED = "published"
"""The model in the format of `as_family`."""
OWN = (
    PLAN,
    MODEL,
    f"{MODEL}.partial",
    PUBLISHED,
    f"{PUBLISHED}.partial",
    CHECKPOINTS,
    HELD_OUT,
    REFERENCE,
    ROW_WEIGHTS,
)
"""What a training writes beside its result; without its plan, which is removed first, nothing there is gone on from."""


@dataclass(frozen=True)
class TrainResult:
    """Where the model is, how training went and what it cost."""

    folder: Path
    """Of the model, for `PRM.load` or `create("reward", "step-head", path=…)`."""
    metrics: Mapping[str, float]
    """Of the held-out problems: loss, step_auc, accuracy_at_0.5, brier, steps; empty if none were held out."""
    curve: tuple[tuple[int, float], ...]
    """(update, training loss since the one before)."""
    train: DataReport
    held_out: DataReport
    contaminated: int
    """Rows dropped because their problem is an evaluation problem."""
    updates: int
    tokens_per_second: float
    """Real tokens trained on a second, in this call."""
    cost: Cost
    """Of the whole training, but for `seconds`: those of the call that finished it."""
    held_out_curve: tuple[tuple[int, float], ...] = ()
    """(update, held-out loss) after each epoch, with `patience`: the weights of the lowest were kept."""
    first_error: HeldOutErrors | None = None
    """Whether it finds first errors on the held-out problems; None where that cannot be measured."""
    lr: float | None = None
    """The learning rate that was used; None: of a run that did not note it."""

    def to_dict(self) -> dict[str, Any]:
        """As `result.json` keeps it; the folder is relative to the run."""
        given = asdict(self)
        given |= {"folder": MODEL, "train": self.train.to_dict(), "held_out": self.held_out.to_dict()}
        return given | {"first_error": self.first_error and self.first_error.to_dict()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], out: Path) -> TrainResult:
        """What `to_dict` gave, of the run in `out`."""

        def report(stored: Mapping[str, Any]) -> DataReport:
            return DataReport(**{k: v for k, v in stored.items() if k != "unlabelled_share"})

        values = {
            **given,
            "folder": out / given["folder"],
            "curve": tuple((int(step), float(loss)) for step, loss in given["curve"]),
            "held_out_curve": tuple((int(step), float(loss)) for step, loss in given.get("held_out_curve", ())),
            "train": report(given["train"]),
            "held_out": report(given["held_out"]),
            "cost": Cost(**given["cost"]),
            "first_error": HeldOutErrors.from_dict(found) if (found := given.get("first_error")) else None,
        }
        return cls(**values)


def make_plan(
    rows: Sequence[Judged],
    held_out: Sequence[Judged],
    backbone: str | Path | PRM,
    objective: Objective,
    config: TrainConfig,
    meta: Sequence[Judged] = (),
) -> dict[str, Any]:
    """All that a run's outcome depends on, as JSON has it: runs with equal plans are the same run."""
    name = backbone.prm_config.backbone if isinstance(backbone, PRM) else str(backbone)
    plan = {"version": __version__, "backbone": name, "data": data_key(rows, objective.beside)}
    plan |= {"held_out": data_key(held_out, objective.beside)} if held_out else {}
    if objective.language is not None:
        plan["taught"] = taught_key([*rows, *held_out])
    if objective.weighing is not None:
        plan["weighed"] = weighed_key(rows, meta, objective.weighing)
    plan["config"] = json.loads(json.dumps(config.to_dict()))
    return plan


@contextmanager
def as_written(file: Path) -> Iterator[None]:
    """What is wrong with a file that says what a training was or came to is told with the way out of it."""
    try:
        with naming(file):
            yield
    except ValueError as error:
        raise ValueError(f"{error}; take it from a copy, or train anew by --fresh (in Python resume=False)") from error


def open_run(out: Path, plan: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """The stored result of a finished run with this plan, or None with `out` ready for work."""
    stored = out / PLAN
    if out.exists() and not (resume and stored.is_file()):
        if not resume:
            (out / RESULT).unlink(missing_ok=True)  # first, as in `remove_run`
        for name in OWN if not resume else (CHECKPOINTS, REFERENCE, ROW_WEIGHTS):
            remove(out / name)
    if stored.is_file():
        with as_written(stored):
            known = json_of(stored)
            known["config"].pop("save_every", None)  # written by earlier versions
            if "taught" in plan:
                known.setdefault("taught", plan["taught"])  # not written by earlier versions
        if known != plan and any((out / name).exists() for name in (RESULT, *OWN[1:])):
            different = sorted(k for k in {*known, *plan} if known.get(k) != plan.get(k))
            raise ValueError(
                f"{out} holds a run with other {', '.join(different)}; choose another folder, or resume=False to start over"
            )
        if (out / RESULT).is_file() and (out / MODEL / CONFIG_FILE).is_file():
            with as_written(out / RESULT):
                finished: dict[str, Any] = json_of(out / RESULT)
            shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)  # of a run that was killed after its end
            return finished
    out.mkdir(parents=True, exist_ok=True)
    _write_json(stored, plan)
    return None


def remove_run(out: Path) -> None:
    """The whole folder, its result first: what a kill leaves of it must not pass for a finished run."""
    (out / RESULT).unlink()
    remove_folder(out)


def whole(folder: Path, write: Callable[[Path], None]) -> None:
    """The folder appears when all of it is written."""
    made = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    write(made)
    made.replace(folder)


def close_run(out: Path, save: Callable[[Path], None], result: Mapping[str, Any]) -> None:
    """The finished model appears at once; checkpoints are needed no more."""
    whole(out / MODEL, save)
    _write_json(out / RESULT, result)
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with atomic_write(path) as stream:
        stream.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())
