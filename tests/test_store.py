"""Runs: a directory that can be killed at any moment, started again, and trusted to hold what it says."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from footfall.formats import read_parquet
from footfall.store import Run, RunError, write_json
from footfall.types import Cost, Judged, Judgement, Problem, SearchResult, Step, Trajectory

CONFIG = {"rollouts": 8, "policy": {"name": "embedded", "temperature": 1.0}, "data": ["a", "b"]}
TRACES = [Trajectory(f"t{i}", Problem(f"p{i}", "3 + 4?", "7"), (Step(f"step {i}"),)) for i in range(10)]

Work = Callable[[Sequence[Trajectory]], list[Judgement]]


def judged(trajectory: Trajectory) -> Judgement:
    return Judgement(trajectory.id, (0.5,), "half", cost=Cost(calls=1, generated_tokens=3))


def recording(calls: list[list[str]]) -> Work:
    def work(part: Sequence[Trajectory]) -> list[Judgement]:
        calls.append([t.id for t in part])
        return [judged(t) for t in part]

    return work


def label(run: Run, work: Work, items: Sequence[Trajectory] = TRACES, made_by: str = "half") -> list[Judgement]:
    return run.map("labels", items, work, key=lambda t: t.key, kind="judgement", chunk=4, made_by=made_by)


def shards(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("labels/*"))


def test_work_is_done_in_chunks_and_comes_back_in_order(tmp_path: Path) -> None:
    calls: list[list[str]] = []
    with Run(tmp_path / "run", "label", CONFIG) as run:
        found = label(run, recording(calls))
    assert [j.trajectory_id for j in found] == [t.id for t in TRACES]
    assert [len(call) for call in calls] == [4, 4, 2]
    assert [name[:6] for name in shards(run.folder)] == ["00000-", "00001-", "00002-"]
    assert read_parquet(run.folder / "labels" / shards(run.folder)[1], "judgement") == found[4:8]


def test_a_second_process_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    calls: list[list[str]] = []

    def breaks_at_the_second(part: Sequence[Trajectory]) -> list[Judgement]:
        if part[0].id == "t4":
            raise RuntimeError("power cut")
        return recording(calls)(part)

    with pytest.raises(RuntimeError, match="power cut"), Run(tmp_path, "label", CONFIG) as run:
        label(run, breaks_at_the_second)
    with Run(tmp_path, "label", CONFIG) as run:
        found = label(run, recording(calls))
    assert [call[0] for call in calls] == ["t0", "t4", "t8"]
    assert found == [judged(t) for t in TRACES]
    assert run.cost == Cost(calls=10, generated_tokens=30), "what was read from shards is counted too"


def test_a_shard_belongs_to_the_content_it_was_made_from_and_to_its_maker(tmp_path: Path) -> None:
    calls: list[list[str]] = []
    with Run(tmp_path, "label", CONFIG) as run:
        label(run, recording(calls), TRACES[:8])
        label(run, recording(calls), [TRACES[9], *TRACES[1:8]])  # another item in the first chunk
        label(run, recording(calls), TRACES[:8], made_by="another judge")
        label(run, recording(calls), TRACES[:8])
    assert [call[0] for call in calls] == ["t0", "t4", "t9", "t0", "t4"]


def test_shards_hold_no_times_so_that_equal_work_gives_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Run(tmp_path / name, "label", CONFIG) as run:
            label(run, recording([]))
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n / "labels").iterdir()} for n in ("one", "two"))
    assert one == two


def test_the_wrong_number_of_results_is_an_error_and_leaves_no_shard(tmp_path: Path) -> None:
    with Run(tmp_path, "label", CONFIG) as run:
        with pytest.raises(RunError, match=r"stage 'labels', chunk 0: 3 results for 4 items"):
            label(run, lambda part: [judged(t) for t in part[1:]])
        assert shards(run.folder) == []


def test_a_stage_may_give_several_results_an_item(tmp_path: Path) -> None:
    with Run(tmp_path, "sample", CONFIG) as run:
        twice = run.map(
            "pairs", TRACES[:3], lambda part: [judged(t) for t in part for _ in range(2)],
            key=lambda t: t.key, kind="judgement", chunk=2, per_item=2,
        )  # fmt: skip
    assert [j.trajectory_id for j in twice] == ["t0", "t0", "t1", "t1", "t2", "t2"]


def test_costs_are_read_from_every_kind_of_result(tmp_path: Path) -> None:
    trace, one = TRACES[0], Cost(calls=1)
    rows = {
        "trajectory": Trajectory("t", trace.problem, cost=one),
        "judgement": Judgement("t", (), "j", cost=one),
        "judged": Judged(trace, Judgement("t0", (1.0,), "j", cost=one)),
        "search-result": SearchResult(trace.problem, None, None, cost=one),
    }
    with Run(tmp_path, "any", {}) as run:
        for kind, row in rows.items():
            run.map(kind, [trace], lambda _, row=row: [row], key=lambda t: t.key, kind=kind, chunk=1)  # type: ignore[misc]
        run.map("bare", [trace], lambda _: [Judged(trace, None)], key=lambda t: t.key, kind="judged", chunk=1)
    assert run.cost == Cost(calls=4)


def test_other_settings_in_the_same_folder_are_refused_by_name(tmp_path: Path) -> None:
    with Run(tmp_path, "label", CONFIG):
        pass
    other = {**CONFIG, "policy": {"name": "embedded", "temperature": 0.7}, "seed": 3}
    with pytest.raises(RunError) as error:
        Run(tmp_path, "label", other)
    assert "policy.temperature: 1.0 there, 0.7 now; config.seed: None there, 3 now" in str(error.value)
    assert "rollouts" not in str(error.value) and "--fresh" in str(error.value)
    with pytest.raises(RunError, match=r"holds a run of label, and this is sample\. Choose another --out"):
        Run(tmp_path, "sample", CONFIG)
    with Run(tmp_path, "label", CONFIG):
        pass  # a refused start does not keep the folder locked


def test_a_run_that_ended_in_an_error_before_it_kept_anything_gives_way_to_other_settings(tmp_path: Path) -> None:
    """An option that did not fit is mended and the same folder named again: there is nothing to protect."""

    def stopped(config: dict[str, float]) -> None:
        with (
            pytest.raises(ValueError, match="does not fit"),
            Run(tmp_path, "train", config, beside=("train.json",)) as run,
        ):
            (tmp_path / "train.json").touch()
            if config["labels"]:
                label(run, recording([]))
            raise ValueError("does not fit")

    stopped({"eval_share": 0.1, "labels": 0})
    stopped({"eval_share": 0.25, "labels": 0})
    assert json.loads((tmp_path / "config.json").read_text())["config"]["eval_share"] == 0.25
    stopped({"eval_share": 0.5, "labels": 1})  # a finished chunk is worth something, also when an error came later
    with pytest.raises(RunError, match=r"config\.eval_share: 0\.5 there, 0\.25 now"):
        Run(tmp_path, "train", {"eval_share": 0.25, "labels": 1})


def test_config_and_log_say_what_ran_with_which_versions(tmp_path: Path) -> None:
    with Run(tmp_path, "label", {**CONFIG, "out": Path("runs/x")}):
        pass
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["command"], config["config"]["rollouts"], config["config"]["out"]) == ("label", 8, "runs/x")
    assert {"footfall", "python", "torch", "numpy"} <= config["versions"].keys()
    events = [json.loads(line)["event"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert events == ["start", "stop"]


def test_one_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from footfall.store import Run; Run(Path(sys.argv[1]), 'label', {})"
    start = [sys.executable, "-c", script, str(tmp_path)]
    with Run(tmp_path, "label", {}):
        held = f"in use by process {os.getpid()} on {os.uname().nodename};"
        with pytest.raises(RunError, match=held):
            Run(tmp_path, "label", {})
        refused = subprocess.run(start, capture_output=True, text=True)
        (tmp_path / ".lock").write_text("\x1b[31mnobody")
        with pytest.raises(RunError, match="in use by another process;"):
            Run(tmp_path, "label", {})
    assert refused.returncode == 1 and held in refused.stderr
    subprocess.run(start, check=True)


def test_fresh_throws_away_the_old_run_and_nothing_else(tmp_path: Path) -> None:
    with Run(tmp_path, "label", CONFIG) as run:
        label(run, recording([]))
        run.finish({"done": True})
    kept = [tmp_path / "notes.txt", tmp_path / "data" / "own.parquet", tmp_path / "labels" / "mine.parquet"]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    calls: list[list[str]] = []
    with Run(tmp_path, "label", {"rollouts": 16}, fresh=True) as run:
        assert shards(tmp_path) == ["mine.parquet"] and not (tmp_path / "result.json").exists()
        label(run, recording(calls))
    assert len(calls) == 3
    assert [path.read_text() for path in kept] == ["mine"] * 3


def test_a_removal_that_is_killed_is_finished_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Run(tmp_path, "label", CONFIG) as run:
        label(run, recording([]))
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "notes.txt").write_text("mine")
    removed: list[str] = []
    unlink = Path.unlink

    def killed_at_the_third(path: Path, missing_ok: bool = False) -> None:
        removed.append(path.name)
        if len(removed) == 3:
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", killed_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        Run(tmp_path, "label", CONFIG, fresh=True, beside=("checkpoints",))
    monkeypatch.undo()
    assert len(shards(tmp_path)) == 1
    calls: list[list[str]] = []
    with Run(tmp_path, "label", CONFIG, beside=("checkpoints",)) as run:
        assert run.fresh and not (tmp_path / "checkpoints").exists()
        label(run, recording(calls))
    assert len(calls) == 3 and (tmp_path / "notes.txt").read_text() == "mine"
    with Run(tmp_path, "label", CONFIG, beside=("checkpoints",)) as run:
        assert not run.fresh


@pytest.mark.parametrize("damage", ["{ torn", None])
def test_fresh_throws_away_a_run_whose_config_was_damaged(tmp_path: Path, damage: str | None) -> None:
    with Run(tmp_path, "label", CONFIG) as run:
        label(run, recording([]))
    if damage is None:
        (tmp_path / "config.json").unlink()
    else:
        (tmp_path / "config.json").write_text(damage)
        with pytest.raises(RunError, match="or it is damaged: pass --fresh"):
            Run(tmp_path, "label", CONFIG)
    with Run(tmp_path, "label", {"rollouts": 16}, fresh=True):
        assert shards(tmp_path) == []


def test_fresh_throws_away_the_runs_that_lie_within(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "arm"):
        with Run(folder, "label", CONFIG) as run:
            label(run, recording([]))
    (tmp_path / "mine").mkdir()
    with Run(tmp_path, "label", CONFIG, fresh=True, inner=("arm", "mine")):
        assert shards(tmp_path / "arm") == [] and (tmp_path / "mine").is_dir()


def test_fresh_in_a_folder_that_is_no_run_touches_nothing(tmp_path: Path) -> None:
    model = tmp_path / "config.json"
    model.write_text('{"model_type": "llama"}')
    for fresh in (False, True):
        with pytest.raises(RunError, match=r"config\.json is not a run's; choose another --out"):
            Run(tmp_path, "label", CONFIG, fresh=fresh)
    assert model.read_text() == '{"model_type": "llama"}'
    model.write_text("{ torn")
    with pytest.raises(RunError, match="is not a run's"):
        Run(tmp_path, "label", CONFIG)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_does_not_write_over_files_that_no_run_wrote(tmp_path: Path, fresh: bool) -> None:
    """A folder of one's own data may have the names that a run gives its results."""
    mine = tmp_path / "judged.parquet"
    mine.write_bytes(b"labels of a month")
    (tmp_path / "notes.txt").write_text("nothing that a run writes")
    with pytest.raises(
        RunError, match=r"holds judged\.parquet, and no run that wrote it.*another --out, or move it away"
    ):
        Run(tmp_path, "label", CONFIG, fresh=fresh)
    assert mine.read_bytes() == b"labels of a month" and not (tmp_path / "config.json").exists()
    mine.rename(tmp_path / "labels.parquet")
    published = tmp_path / "published"
    published.mkdir()
    with pytest.raises(RunError, match="holds published, and no run that wrote it"):
        Run(tmp_path, "train", CONFIG, fresh=fresh, beside=("model", "published"))  # what --fresh would remove
    with Run(tmp_path, "label", CONFIG, fresh=fresh) as run:
        label(run, recording([]))
        mine.write_bytes(b"what this run found")
    for again in (False, True):  # what a run wrote is written over by the next
        with Run(tmp_path, "label", CONFIG, fresh=again):
            pass


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "deep" / "down").mkdir(parents=True)
    stray = [
        tmp_path / ".config.json.0123456789ab.tmp",
        tmp_path / "labels" / ".00000-0123456789abcdef.parquet.0123456789ab.tmp",
    ]
    others = [tmp_path / ".mine.tmp", tmp_path / "labels" / "x.tmp", tmp_path / "deep" / "down" / ".y.0123456789ab.tmp"]
    for path in stray + others:
        path.write_text("")
    with Run(tmp_path, "label", CONFIG):
        pass
    assert [path.exists() for path in stray + others] == [False, False, True, True, True]


def test_a_result_with_nan_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with Run(tmp_path, "bench", {}) as run:
        with pytest.raises(ValueError, match="not JSON compliant"):
            run.finish({"f1": float("nan")})
        assert not (tmp_path / "result.json").exists() and not list(tmp_path.glob(".*.tmp"))
        path = run.finish({"f1": 0.5, "file": tmp_path})
    assert json.loads(path.read_text()) == {"f1": 0.5, "file": str(tmp_path)}


def test_json_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": [2, float("inf")]})
    assert json.loads(path.read_text()) == {"a": 1}


def log_line(**facts: object) -> str:
    return json.dumps({"time": 0.0, **facts}) + "\n"


def test_seconds_are_those_of_finished_chunks_of_all_processes(tmp_path: Path) -> None:
    log = log_line(event="start") + log_line(event="chunk", stage="labels", index=0, items=4, seconds=1.5)
    log += log_line(event="chunk", stage="other", index=0, items=4, seconds=1.0) + log_line(event="stop", seconds=9.0)
    (tmp_path / "log.jsonl").write_text(log)
    with Run(tmp_path, "label", CONFIG) as run:
        before = run.seconds("labels")
        label(run, recording([]))
        spent = run.seconds("labels") - before
        assert run.seconds() == pytest.approx(2.5 + spent)
    assert before == 1.5 and spent >= 0
    chunks = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [e["items"] for e in chunks if e["event"] == "chunk"] == [4, 4, 4, 4, 2]


def test_a_log_line_cut_off_by_a_crash_costs_that_line_only(tmp_path: Path) -> None:
    whole = log_line(event="chunk", stage="labels", index=0, items=4, seconds=1.5)
    (tmp_path / "log.jsonl").write_text(whole + whole[:-20])
    with Run(tmp_path, "label", CONFIG) as run:
        assert run.seconds() == 1.5
    last = (tmp_path / "log.jsonl").read_text().splitlines()[-2:]
    assert [json.loads(line)["event"] for line in last] == ["start", "stop"]


def test_lines_of_the_log_that_are_no_events_count_for_nothing(tmp_path: Path) -> None:
    whole = log_line(event="chunk", stage="labels", index=0, items=4, seconds=1.5)
    garbage = '5\n["chunk"]\n{}\n{"event": "chunk"}\n{"event": "chunk", "seconds": "long"}\n\udcff\n'
    (tmp_path / "log.jsonl").write_bytes((garbage + whole).encode(errors="surrogateescape"))
    with Run(tmp_path, "label", CONFIG) as run:
        assert run.seconds() == run.seconds("labels") == 1.5


def test_what_stopped_a_run_is_told_where_the_log_cannot_be_written_any_more(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Run(tmp_path, "label", CONFIG):
        (tmp_path / "log.jsonl").unlink()
        (tmp_path / "log.jsonl").mkdir()  # as on a full disk, a line more is an OSError
        raise KeyError("gone")


def test_the_log_names_the_error_that_stopped_a_run(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Run(tmp_path, "label", CONFIG):
        raise KeyError("gone")
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["error"] == "KeyError"


def test_a_log_that_cannot_grow_is_named(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Run(tmp_path, "test", {}) as run:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
        try:
            with pytest.raises(OSError) as told:
                run.log("more")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert told.value.errno == errno.EFBIG and told.value.filename == str(tmp_path / "log.jsonl")


def test_worker_processes_end_with_a_killed_parent() -> None:
    killed = (
        "import os, signal; from footfall.store.processes import Processes\n"
        "print(Processes(1).submit(os.getpid).result(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", killed], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    worker, until = Path("/proc") / done.stdout.strip(), time.monotonic() + 20
    while (alive := _runs(worker)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive


def _runs(process: Path) -> bool:
    """Whether it is there, and no mere entry that nobody has asked about yet."""
    try:
        return "Z" not in (process / "stat").read_text().rpartition(")")[2]
    except OSError:
        return False
