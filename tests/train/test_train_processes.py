"""One training by several processes: batches are shared out, the loss is that of one process, any number of them goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from footfall import cli
from footfall.formats import write_parquet
from footfall.registry import parts
from footfall.scale.processes import is_first_to_fail
from footfall.store import Run
from footfall.train import TrainConfig, train_prm
from footfall.train.objectives import Objective, make_objective
from footfall.train.parted import check_stage
from footfall.train.trainer import LengthGrouped, Shares, part_of_mean, share
from footfall.types import Judged
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge
from tests.forked import Job
from tests.reward.tiny_models import backbone_folder
from tests.train.test_train_prm import QUICK, toy_rows

torch.set_num_threads(1)
FIT = ("--epochs", "1", "--batch-size", "8", "--device", "cpu", "--save-steps", "2", "--json")

MODULE = ("-m", "footfall")
ZERO = [f"zero_pp_rank_{process}_mp_rank_00_optim_states.pt" for process in range(2)]
FSDP2 = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
         "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT"}  # fmt: skip


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_shares_of_a_batch_are_the_batch_and_part_no_pair(processes: int, together: int) -> None:
    for rows in range(0, 12, together):
        batch = [10 * k for k in range(rows)]
        shares = [share(batch, together, p, processes) for p in range(processes)]
        assert [row for each in shares for row in each] == batch
        assert all(len(each) % together == 0 for each in shares)
        assert max(map(len, shares)) - min(map(len, shares)) <= together


def test_processes_read_the_batches_of_one_and_one_without_a_share_reads_the_idle_row() -> None:
    lengths = [3 + k * 7 % 11 for k in range(21)]
    alone, *shares = (
        list(Shares(LengthGrouped(lengths, 4, 0, lambda: 2), 4, 21, p, n)) for p, n in ((0, 1), (0, 3), (1, 3), (2, 3))
    )
    assert [len(batch) for batch in alone] == [4, 4, 4, 4, 4, 1]
    for batch, *each in zip(alone, *shares, strict=True):
        assert sorted(row for own in each for row in own if row != 21) == sorted(batch)
    assert [own[-1] for own in shares].count([21]) == 2


def labelled(objective: Objective) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, targets and mask of six traces, as the objective takes them."""
    drawn = torch.Generator().manual_seed(3)
    outputs = len(objective.classes) or len(objective.columns) or 1
    mask = torch.rand(6, 5, generator=drawn) < 0.6
    targets = (torch.rand(6, 5, generator=drawn) < 0.5).float()
    if objective.together == 2:
        mask, targets = torch.zeros(6, 5, dtype=torch.bool), torch.zeros(6, 5)
        mask[:, 4], targets[::2, 4] = True, 1.0
    if objective.beside and objective.columns:  # an output each
        mask, targets = (torch.stack([each, each.roll(1, 0)], dim=-1) for each in (mask, targets))
    return torch.randn(6, 5, outputs, generator=drawn), targets, mask


@pytest.mark.parametrize("name", sorted(n for n in parts("objective") if make_objective(n, {}).language is None))
def test_the_mean_over_processes_is_the_mean_over_what_the_objective_counts(name: str) -> None:
    objective = make_objective(name, {})
    logits, targets, mask = labelled(objective)
    whole = objective.loss(logits, targets, mask)
    total = objective.items(mask)
    for processes in (1, 2, 3):
        rows = [share(range(6), objective.together, p, processes) for p in range(processes)]
        found = [
            part_of_mean(
                objective.loss(logits[own], targets[own], mask[own]), objective.items(mask[own]), total, processes
            )
            for own in rows
        ]
        mean = float(torch.stack(found).mean())
        if processes > 1 and objective.whole and objective.weighing is None:  # weights of rows, which are 1 at first
            assert mean != pytest.approx(float(whole), rel=1e-3), "it may be parted after all"
        else:
            assert mean == pytest.approx(float(whole), rel=1e-5)


def test_what_cannot_be_parted_is_refused_before_processes_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOCAL_RANK", "1"), ("RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    config = TrainConfig(**{**vars(QUICK), "objective": "self-agreement"})
    with pytest.raises(
        ValueError, match="self-agreement weighs the steps of a whole batch, and is trained by one process"
    ):
        train_prm(toy_rows(), tmp_path, config, tmp_path / "out")
    with pytest.raises(ValueError, match="several processes cannot read one standard input"):
        from footfall.commands.train import TrainConfig as Command
        from footfall.commands.train import main

        main(Command("-", device="cpu"))


def test_the_first_process_to_fail_tells_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed: Any = import_module("torch.distributed")
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True)
    place = {
        "LOCAL_RANK": "1",
        "RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
    }
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    assert [is_first_to_fail(), is_first_to_fail()] == [True, False]
    del store
    monkeypatch.delenv("MASTER_PORT")
    assert not is_first_to_fail(), "where processes cannot ask, the main one tells"


def judged(folder: Path) -> Path:
    """41 rows to train on: the last of six batches has one, which most processes have no share of."""
    traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 45, seed=0)]
    rows = [Judged(trace, said) for trace, said in zip(traces, TruthJudge().judge(traces), strict=True)]
    write_parquet(folder / "judged.parquet", rows, "judged")
    return folder / "judged.parquet"


def launch(processes: int, *words: object) -> subprocess.Popen[str]:
    """`torchrun -m footfall …` itself, one thread each."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *MODULE]
    return subprocess.Popen(
        [*run, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def kill_main_at(checkpoint: Path, job: subprocess.Popen[str] | Job) -> None:
    """SIGKILL to the main process once the checkpoint is whole; the launcher ends the others."""
    while not (checkpoint / "checksums.json").is_file():
        assert job.poll() is None, job.communicate(timeout=120)[1]
        time.sleep(0.02)
    if isinstance(job, Job):
        job.processes[0].kill()
    else:
        workers = [each for each in psutil.Process(job.pid).children() if each.environ().get("RANK") == "0"]
        workers[0].send_signal(signal.SIGKILL)
    job.communicate(timeout=120)
    assert job.returncode != 0


@pytest.mark.long
def test_a_run_of_four_processes_killed_and_gone_on_with_by_two_ends_as_one_process_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file

    data = judged(tmp_path)
    assert cli.main(["train", "--data", str(data), *FIT, "--out", str(tmp_path / "alone")]) == 0
    capsys.readouterr()
    words = ("train", "--data", data, *FIT, "--out", tmp_path / "parted")
    kill_main_at(tmp_path / "parted" / "checkpoints" / "checkpoint-2", Job(4, [*MODULE, *words]))
    assert not (tmp_path / "parted" / "result.json").exists()
    job = Job(2, [*MODULE, *words])
    printed, said = job.communicate(timeout=240)
    assert job.returncode == 0, said
    assert json.loads(printed)["updates"] == 6, "one process prints one object"
    alone, parted = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("alone", "parted"))
    assert [update for update, _ in parted["curve"]] == [1, 2, 3, 4, 5, 6]
    assert parted["curve"] == [[update, pytest.approx(loss, abs=2e-6)] for update, loss in alone["curve"]]
    assert parted["metrics"] == pytest.approx(alone["metrics"], abs=1e-5)
    for file in ("model.safetensors", "head.safetensors"):
        one, other = (load_file(tmp_path / name / "model" / file) for name in ("alone", "parted"))
        assert max(float((one[name] - other[name]).abs().max()) for name in one) < 2e-5, "an update moves them by 3e-4"
    updates = [json.loads(line) for line in (tmp_path / "parted" / "log.jsonl").read_text().splitlines()]
    assert [each["update"] for each in updates if each["event"] == "update"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.long
def test_an_error_of_one_process_ends_all_and_is_told_once(tmp_path: Path) -> None:
    data, out = judged(tmp_path), tmp_path / "held"
    with Run(out, "train", {}):
        job = launch(2, "train", "--data", data, *FIT, "--out", out)
        printed, said = job.communicate(timeout=120)
    told = [line for line in said.splitlines() if line.startswith("footfall:")]
    assert job.returncode != 0 and not printed and len(told) == 1 and str(out) in told[0], said


@pytest.mark.long
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_fsdp2_with_one_process_is_plain_training(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wiring: layers are sharded one by one, checkpoints and the finished model hold whole weights."""
    from safetensors.torch import load_file

    words = ["train", "--data", str(judged(tmp_path)), *(device if word == "cpu" else word for word in FIT)]
    words += ["--patience", "3"]  # held-out traces are measured while weights are sharded
    assert cli.main([*words, "--out", str(tmp_path / "plain")]) == 0
    capsys.readouterr()
    program = (str(Path(__file__).with_name("fsdp_on_cpu.py")),) if device == "cpu" else MODULE
    job = Job(1, [*program, *words, "--out", tmp_path / "sharded"], **FSDP2)
    said = job.communicate(timeout=240)[1]
    assert job.returncode == 0, said
    close = 2e-6 if device == "cpu" else 2e-3
    plain, fsdp = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("plain", "sharded"))
    assert fsdp["curve"] == [[update, pytest.approx(loss, abs=close)] for update, loss in plain["curve"]]
    one, other = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("plain", "sharded"))
    assert one.keys() == other.keys()
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 10 * close


@pytest.mark.parametrize(
    ("files", "stage", "said"),
    [
        ([], None, 0),
        ([], 2, "without DeepSpeed: go on without it"),
        (["mp_rank_00_model_states.pt"], None, "with DeepSpeed: go on with it"),
        (["mp_rank_00_model_states.pt"], 0, 0),
        (["mp_rank_00_model_states.pt"], 1, "ZeRO stage 0: go on with that, not 1"),
        (["mp_rank_00_model_states.pt", *ZERO], 1, 2),
        (["mp_rank_00_model_states.pt", *ZERO], 2, 2),
        (["mp_rank_00_model_states.pt", *ZERO], 0, "ZeRO stage 1 or 2: go on with that, not 0"),
        (["zero_pp_rank_0_mp_rank_00_model_states.pt", *ZERO], 3, 2),
        (["zero_pp_rank_0_mp_rank_00_model_states.pt", *ZERO], 2, "ZeRO stage 3: go on with that, not 2"),
        (["zero_pp_rank_0_mp_rank_00_model_states.pt", *ZERO], None, "with DeepSpeed: go on with it"),
    ],
)
def test_a_checkpoint_is_refused_by_who_would_not_read_its_optimizer(
    files: list[str], stage: int | None, said: int | str, tmp_path: Path
) -> None:
    """The Trainer would go on from its weights with a new optimizer, without a word, or DeepSpeed fail at length."""
    for name in files:
        (tmp_path / "global_step2").mkdir(exist_ok=True)
        (tmp_path / "global_step2" / name).touch()
    if isinstance(said, int):
        assert check_stage(tmp_path, stage) == said, "parts of the optimizer"
    else:
        with pytest.raises(ValueError, match=said):
            check_stage(tmp_path, stage)


def test_sharding_that_accelerate_would_leave_out_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU it would train whole weights without a word."""
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ValueError, match="accelerate shards weights on GPUs only"):
        train_prm(toy_rows(), backbone_folder(tmp_path / "lm"), QUICK, tmp_path / "out")
