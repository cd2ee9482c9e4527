"""Figures of a training by update, for TensorBoard or Weights & Biases.

Neither package is needed otherwise: each is an extra of that name, and imported when a log of its kind is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal, Protocol

Log = Literal["tensorboard", "wandb"]


class _Writer(Protocol):
    def write(self, update: int, figures: Mapping[str, float]) -> None: ...

    def close(self, failed: bool) -> None: ...


def log_module(to: Log) -> ModuleType:
    """The package that keeps such a log."""
    try:
        return import_module(_WRITERS[to][0])
    except ImportError as error:
        raise ModuleNotFoundError(f"--log {to} needs the package {to}; install it with: pip install {to}") from error


class Scalars:
    """A log of figures by update, opened at the first. A training that goes on after a kill goes on in its log."""

    def __init__(self, to: Log, folder: Path, settings: Mapping[str, Any]) -> None:
        self._module, self._make = log_module(to), _WRITERS[to][1]
        self._folder, self._settings = folder, settings
        self._writer: _Writer | None = None

    def write(self, group: str, facts: Mapping[str, float]) -> None:
        """`GROUP/NAME` at `facts["update"]` for each other fact."""
        figures = {f"{group}/{name}": value for name, value in facts.items() if name != "update"}
        update = int(facts["update"])
        if self._writer is None:
            self._writer = self._make(self._module, self._folder, self._settings, update)
        self._writer.write(update, figures)

    def __enter__(self) -> Scalars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close(failed=kind is not None)


class _TensorBoard:
    """Event files in the run's folder; what a killed process wrote beyond its last checkpoint is not shown."""

    def __init__(self, module: Any, folder: Path, settings: Mapping[str, Any], update: int) -> None:
        self.writer = module.SummaryWriter(str(folder / "tensorboard"), purge_step=update)

    def write(self, update: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, update)

    def close(self, failed: bool) -> None:
        self.writer.close()


class _Wandb:
    """A run with the folder's name, in the project footfall unless WANDB_PROJECT names another."""

    def __init__(self, module: Any, folder: Path, settings: Mapping[str, Any], update: int) -> None:
        project = os.environ.get("WANDB_PROJECT", "footfall")
        given = {"project": project, "name": folder.name, "dir": str(folder), "config": dict(settings)}
        try:
            self.run = module.init(**given, resume="auto")
        except module.Error as error:
            fix = "log in with `wandb login`, or set WANDB_MODE=offline, which sends nothing"
            raise ValueError(f"--log wandb: Weights & Biases refused: {error}; {fix}") from error

    def write(self, update: int, figures: Mapping[str, float]) -> None:
        self.run.log(dict(figures), step=update)

    def close(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))


_WRITERS: dict[Log, tuple[str, Callable[[ModuleType, Path, Mapping[str, Any], int], _Writer]]] = {
    "tensorboard": ("torch.utils.tensorboard", _TensorBoard),
    "wandb": ("wandb", _Wandb),
}
