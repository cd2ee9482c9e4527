"""`footfall train` under `accelerate launch` with DeepSpeed: parted weights and optimizer give the training of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from footfall import cli
from tests.train.test_train_processes import FIT, judged, kill_main_at

pytest.importorskip("deepspeed", reason="needs DeepSpeed")
pytestmark = pytest.mark.long
EXAMPLE = Path(__file__).parents[2] / "examples" / "accelerate" / "zero3-1x8.yaml"


def launch(folder: Path, stage: int, processes: int, *words: object) -> subprocess.Popen[str]:
    """The command under the example's configuration, by so many processes on the CPU."""
    example = EXAMPLE.read_text()
    for before, after in {
        "zero_stage: 3": f"zero_stage: {stage}",
        "num_processes: 8": f"num_processes: {processes}",
        "mixed_precision: bf16": "mixed_precision: 'no'\nuse_cpu: true",
    }.items():
        assert before in example
        example = example.replace(before, after)
    config = folder / f"zero{stage}-{processes}.yaml"
    config.write_text(example)
    accelerate = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config)]
    return subprocess.Popen(
        [*accelerate, "-m", "footfall", *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("stage", [0, 2, 3])
@pytest.mark.parametrize(("begun", "ended"), [(2, 2), (2, 1), (1, 2)])
def test_a_run_killed_and_gone_on_with_by_any_number_of_processes_ends_as_one_process_does(
    stage: int, begun: int, ended: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file

    data = judged(tmp_path)
    assert cli.main(["train", "--data", str(data), *FIT, "--out", str(tmp_path / "alone")]) == 0
    capsys.readouterr()
    words = ("train", "--data", data, *FIT, "--out", tmp_path / "parted")
    checkpoint = tmp_path / "parted" / "checkpoints" / "checkpoint-2"
    kill_main_at(checkpoint, launch(tmp_path, stage, begun, *words))
    assert not (tmp_path / "parted" / "result.json").exists()
    sealed = json.loads((checkpoint / "checksums.json").read_text())
    parts = [name for name in sealed if name.startswith("global_step2/") and name.endswith("_optim_states.pt")]
    assert len(parts) == (begun if stage else 0), "a part of the optimizer a process, with its checksum"
    job = launch(tmp_path, stage, ended, *words)
    said = job.communicate(timeout=240)[1]
    assert job.returncode == 0, said
    alone, parted = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("alone", "parted"))
    assert parted["curve"] == [[update, pytest.approx(loss, abs=2e-6)] for update, loss in alone["curve"]]
    assert parted["metrics"] == pytest.approx(alone["metrics"], abs=1e-5)
    for file in ("model.safetensors", "head.safetensors"):
        one, other = (load_file(tmp_path / name / "model" / file) for name in ("alone", "parted"))
        assert one.keys() == other.keys()
        assert max(float((one[name] - other[name]).abs().max()) for name in one) < 2e-5, "an update moves them by 3e-4"
    updates = [json.loads(line) for line in (tmp_path / "parted" / "log.jsonl").read_text().splitlines()]
    assert [each["update"] for each in updates if each["event"] == "update"] == [1, 2, 3, 4, 5, 6]
