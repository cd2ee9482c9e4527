"""Trainers of TRL tell its makers that they run; those of this package tell nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from trl.trainer import base_trainer
from trl.trainer.sft_trainer import SFTTrainer

import footfall
from footfall.loading import load_model
from footfall.policy.embedded import EMBEDDED
from footfall.train import sft
from footfall.train.writers import Silent
from tests.train.test_train_planned import ROWS, plan, small

ROOT = Path(footfall.__file__).parent


def below(cls: type[Any]) -> Iterator[type[Any]]:
    direct: list[type[Any]] = cls.__subclasses__()
    for each in direct:
        yield each
        yield from below(each)


def test_every_trainer_of_this_package_is_silent_and_no_other_is_made() -> None:
    using = [path for path in ROOT.rglob("*.py") if "from trl" in path.read_text("utf-8")]
    for path in using:
        import_module(".".join(("footfall", *path.relative_to(ROOT).with_suffix("").parts)))
    ours = {cls for cls in below(base_trainer._BaseTrainer) if cls.__module__.startswith("footfall.")}
    assert {"CreditTrainer", "MultiHeadDPOTrainer", "PlannedSFT", "SilentDPO"} <= {cls.__name__ for cls in ours}
    for cls in ours:
        told: Any = vars(Silent)["_send_telemetry"]
        assert getattr(cls, "_send_telemetry") is told, cls  # noqa: B009
    made = [path for path in ROOT.rglob("*.py") if re.search(r"\b(SFT|DPO|GRPO)Trainer\(", path.read_text("utf-8"))]
    assert not made, "a trainer as TRL has it"


def test_nothing_is_sent_where_trl_would_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(base_trainer, "send_telemetry", lambda **what: sent.append(what))
    monkeypatch.delenv("CI", raising=False)
    tokenizer = load_model(str(EMBEDDED), "cpu")[1]
    sft.fit_sft(small(), tokenizer, ROWS, plan())
    assert not sent
    monkeypatch.delattr(Silent, "_send_telemetry")
    sft.fit_sft(small(), tokenizer, ROWS, plan())
    assert len(sent) == 1 and issubclass(sft.PlannedSFT, SFTTrainer), "so it would have"
