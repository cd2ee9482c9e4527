"""`footfall rl` under `accelerate launch` with DeepSpeed: two processes write what one writes, and learn the same."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deepspeed", reason="needs DeepSpeed")
pytest.importorskip("trl")
from tests.rl.runs import events, weights
from tests.rl.test_rl_processes import PARTED, alone
from tests.train.test_train_deepspeed import launch
from tests.train.test_train_processes import kill_main_at

pytestmark = pytest.mark.long
_ = alone


@pytest.mark.parametrize(("stage", "begun", "ended"), [(2, 2, 2), (3, None, 2), (2, 2, 1), (3, 2, 1)])
def test_two_processes_write_what_one_writes_and_learn_the_same(
    stage: int, begun: int | None, ended: int, alone: Path, tmp_path: Path
) -> None:
    """Whether they do the whole, or are killed and gone on with, by two or by one."""
    parted = tmp_path / "parted"
    if begun is not None:
        kill_main_at(parted / "checkpoints" / "checkpoint-2", launch(tmp_path, stage, begun, *PARTED, parted))
    job = launch(tmp_path, stage, ended, *PARTED, parted)
    said = job.communicate(timeout=300)[1]
    assert job.returncode == 0, said
    one, other = ({row["update"]: row["loss"] for row in events(folder, "update")} for folder in (alone, parted))
    assert list(other) == [1, 2, 3, 4, 5] and other == pytest.approx(one, rel=1e-3, abs=2e-5)
    one_told, told = (
        {each["update"]: [row["tokens"] for row in each["rows"]] for each in events(folder, "traces")}
        for folder in (alone, parted)
    )
    assert told == {update: one_told[update] for update in told} and max(told) == 5, "the same completions"
    before, after = weights(alone), weights(parted)
    assert max(float((before[name] - after[name]).abs().max()) for name in before) < 1e-4, (
        "an update moves them by 3e-4"
    )
