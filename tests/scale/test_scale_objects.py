"""Run directories in an object store: the same files, who holds them, and what kills and failing calls do not change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from footfall.cli import main
from footfall.formats import write_parquet
from footfall.scale import Remote, objects
from footfall.scale.bucket import Bucket, _link_new
from footfall.store import Run, RunError
from footfall.types import Judged, Judgement, Problem, Step, Trajectory
from tests.forked import Forked
from tests.forked import run as run_python

TRACES = [Trajectory(f"t{i}", Problem(f"p{i}", "3 + 4?", "7"), (Step(f"step {i}"),)) for i in range(40)]
FOOTFALL = ["-m", "footfall"]
PATIENCE_SECONDS = 240.0
JUDGE = """
import time
from pathlib import Path
from footfall.types import Judgement

PAUSE = Path(__file__).with_name("pause")

class Slow:
    name = "slow"

    def judge(self, traces):
        time.sleep(float(PAUSE.read_text()) if PAUSE.exists() else 0)
        return [Judgement(trace.id, tuple(len(step.text) / 100 for step in trace.steps), self.name) for trace in traces]
"""


def work(part: Sequence[Trajectory]) -> list[Judgement]:
    return [Judgement(t.id, (0.5,), "half") for t in part]


def label(run: Run) -> list[Judgement]:
    return run.map("labels", TRACES[:10], work, key=lambda t: t.key, kind="judgement", chunk=4)


def test_the_store_has_the_files_of_a_run_and_another_machine_goes_on_from_there(tmp_path: Path, bucket: str) -> None:
    with Run(tmp_path / "here", "label", {"seed": 1}) as run:
        label(run)
        run.finish({"labelled": 10})
    for turn in range(2):
        place = Remote(bucket)
        with Run(place.folder, "label", {"seed": 1}, place=place) as run:
            assert label(run) == work(TRACES[:10])
            assert run.worked == (3 if turn == 0 else 0), "the second time shards are fetched"
            run.finish({"labelled": 10})
        for path in place.folder.rglob("*.parquet"):
            path.unlink()  # another machine has no copy
    stored = {
        p.relative_to(tmp_path / "bucket" / "run"): p.read_bytes() for p in tmp_path.glob("bucket/run/**/*.parquet")
    }
    assert stored == {p.relative_to(tmp_path / "here"): p.read_bytes() for p in tmp_path.glob("here/**/*.parquet")}
    assert json.loads((tmp_path / "bucket" / "run" / "result.json").read_text()) == {"labelled": 10}
    (lock,) = tmp_path.glob("bucket/run/.lock*")
    assert json.loads(lock.read_text())["released"], "nobody holds it now"


def test_other_settings_are_refused_and_fresh_empties_the_store(tmp_path: Path, bucket: str) -> None:
    place = Remote(bucket)
    with Run(place.folder, "label", {"seed": 1}, place=place) as run:
        label(run)
    other = Remote(bucket)
    with pytest.raises(RunError, match="seed: 1 there, 2 now"):
        Run(other.folder, "label", {"seed": 2}, place=other)
    again = Remote(bucket)
    with Run(again.folder, "label", {"seed": 2}, fresh=True, place=again):
        assert not list(tmp_path.glob("bucket/run/labels/*"))


def test_a_second_process_is_told_who_holds_the_run_and_takes_over_from_one_that_is_gone(bucket: str) -> None:
    clock = [1000.0]
    first, second, third = (Remote(bucket, now=lambda: clock[0], wait=lambda _: None) for _ in range(3))
    first.take()
    clock[0] += 20
    with pytest.raises(
        RunError, match=rf"process {os.getpid()} on {os.uname().nodename}, which renewed its lock 20 s ago"
    ):
        second.take()
    clock[0] += 60
    second.take()
    with pytest.raises(RunError, match="in use"):
        third.take()
    second.release()
    third.take()
    third.release()


@pytest.mark.parametrize("apart", [-3600.0, 3600.0])
def test_a_holder_that_renews_its_lock_is_no_silent_one_whatever_its_clock_says(bucket: str, apart: float) -> None:
    clock = [1000.0]
    first = Remote(bucket, now=lambda: clock[0])
    first.take()

    def renewed(seconds: float) -> None:
        clock[0] += seconds
        first._bucket.write(first._own_lock, first._facts())

    with pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        Remote(bucket, now=lambda: clock[0] + apart, wait=renewed).take()
    Remote(bucket, now=lambda: clock[0] + apart, wait=lambda _: None).take()


def test_of_many_that_take_a_mounted_run_at_once_one_does(bucket: str) -> None:
    many, begin = [Remote(bucket) for _ in range(8)], threading.Barrier(8)

    def take(place: Remote) -> bool:
        begin.wait()
        try:
            place.take()
        except RunError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(take, many)).count(True) == 1


@pytest.mark.parametrize("renews", [True, False])
def test_a_holder_that_was_stopped_leaves_the_locks_of_those_after_it(
    bucket: str, monkeypatch: pytest.MonkeyPatch, renews: bool
) -> None:
    clock = [1000.0]
    stopped, second, third = (Remote(bucket, now=lambda: clock[0], wait=lambda _: None) for _ in range(3))
    stopped.take()
    clock[0] += 100
    second.take()
    second.release()
    third.take()
    if renews:
        monkeypatch.setattr(objects, "_RENEW_SECONDS", 0.01)
        awake = threading.Thread(target=stopped._renew, daemon=True)
        awake.start()
        awake.join(5)
        assert not awake.is_alive(), "it is lost, so it renews no more"
        with pytest.raises(RunError, match=f"taken over by another process .*token='{third._token}'"):
            stopped.check()
    stopped.release()
    assert third._holds()
    third.release()


@pytest.mark.parametrize("late", ["renewal", "release"])
def test_a_holder_that_was_stopped_after_it_looked_at_its_lock_writes_over_nobodys(
    bucket: str, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    clock = [1000.0]
    stopped, second, third = (Remote(bucket, now=lambda: clock[0], wait=lambda _: None) for _ in range(3))
    stopped.take()
    clock[0] += 100
    looks = stopped._holds

    def stopped_here() -> bool:
        held = looks()
        monkeypatch.setattr(stopped, "_holds", looks)
        second.take()
        second.release()
        third.take()
        return held

    monkeypatch.setattr(stopped, "_holds", stopped_here)
    if late == "renewal":
        monkeypatch.setattr(objects, "_RENEW_SECONDS", 0.01)
        awake = threading.Thread(target=stopped._renew, daemon=True)
        awake.start()
        awake.join(5)
        assert not awake.is_alive(), "it is lost, so it renews no more"
    else:
        stopped.release()
    assert third._holds(), "the third has it, whatever the first has written since"
    third.release()
    Remote(bucket, now=lambda: clock[0], wait=lambda _: None).take()


def test_one_that_was_stopped_before_it_took_over_does_not_take_from_those_after_it(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    silent, stopped, second, third = (Remote(bucket, now=lambda: clock[0], wait=lambda _: None) for _ in range(4))
    silent.take()
    clock[0] += 100
    create = stopped._create

    def stopped_here(name: str, data: bytes) -> bool:
        second.take()
        second.release()
        third.take()
        return create(name, data)

    monkeypatch.setattr(stopped, "_create", stopped_here)
    with pytest.raises(RunError, match="taken by another process just now"):
        stopped.take()
    assert third._holds()


def test_who_finds_a_lock_that_is_followed_before_it_is_read_is_told_that_the_run_is_taken(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, second, third = (Remote(bucket) for _ in range(3))

    def beaten(place: Path, data: bytes, token: str) -> None:
        monkeypatch.setattr("footfall.scale.bucket._link_new", _link_new)
        second.take()
        try:
            _link_new(place, data, token)
        finally:
            second.release()
            third.take()

    monkeypatch.setattr("footfall.scale.bucket._link_new", beaten)
    with pytest.raises(RunError, match="was taken by another process just now"):
        late.take()
    third.release()


def test_a_holder_whose_lock_is_gone_does_not_put_it_again(tmp_path: Path, bucket: str) -> None:
    clock = [1000.0]
    stopped, second = (Remote(bucket, now=lambda: clock[0], wait=lambda _: None) for _ in range(2))
    stopped.take()
    clock[0] += 100
    second.take()
    second.release()
    stopped.release()
    (lock,) = tmp_path.glob("bucket/run/.lock*")
    assert json.loads(lock.read_text())["token"] == second._token
    with pytest.raises(RunError, match=r"taken over by another process .* let go"):
        stopped.check()


@pytest.mark.parametrize("others", [True, False], ids=["of another user", "of no one"])
def test_whether_a_holder_lives_is_asked_of_the_system_which_may_hide_it_in_proc(
    others: bool, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, signal: int) -> None:
        raise PermissionError if others else ProcessLookupError

    first, second = Remote(bucket), Remote(bucket)
    first.take()
    monkeypatch.setattr(os, "kill", kill)
    if others:
        with monkeypatch.context() as hidden, pytest.raises(RunError, match="in use by process"):
            hidden.setattr(Path, "exists", lambda _: False)
            second.take()
    else:
        second.take()
        second.release()
    first.release()


@pytest.mark.parametrize(
    "fault", ["gcsfs.retry:HttpError", "aiohttp:ClientError", "google.auth.exceptions:RefreshError"]
)
def test_failures_that_google_cloud_storage_has_of_its_own_are_tried_again(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gcsfs")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")  # or it would look for credentials
    monkeypatch.setattr("footfall.scale.bucket._FIRST_WAIT", 0.0)
    place, failing = Remote("gs://bucket/run"), iter([True, True, False])
    module, _, name = fault.partition(":")

    def call() -> str:
        if next(failing, True):
            raise getattr(import_module(module), name)
        return "done"

    assert place._bucket.tried(call) == "done"
    with pytest.raises(RunError, match="gs://bucket/run does not answer"):
        place._bucket.tried(call)


@pytest.mark.parametrize("refusal", ["builtins:PermissionError", "botocore.exceptions:NoCredentialsError"])
def test_credentials_that_are_missing_or_wrong_are_told_at_once(refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    monkeypatch.setattr("footfall.scale.bucket._FIRST_WAIT", 1e9)  # who tries again waits for ever
    module, _, name = refusal.partition(":")

    def call() -> None:
        raise getattr(import_module(module), name)

    with pytest.raises(RunError, match=r"s3://bucket/run refuses: .*from the environment"):
        Remote("s3://bucket/run")._bucket.tried(call)


def test_a_bucket_or_a_data_file_that_is_not_there_is_named(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"file://.*/bucket/none\.parquet is not there"):
        Remote(bucket.replace("run", "none.parquet")).data("none.parquet")

    def no_bucket(place: Path, data: bytes, token: str) -> None:
        raise FileNotFoundError("The specified bucket does not exist")

    monkeypatch.setattr("footfall.scale.bucket._link_new", no_bucket)
    with pytest.raises(RunError, match=r"/bucket/run cannot be written: .* make the bucket first"):
        Remote(bucket).take()


class Killed(BaseException):
    """What SIGKILL leaves: nothing is done after it."""


def test_what_a_killed_process_had_finished_and_not_put_is_put_by_the_next(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Remote(bucket)
    whole, put = place.put, 0

    def killed(path: Path) -> None:
        nonlocal put
        put += path.suffix == ".parquet"
        if put == 2:
            raise Killed
        whole(path)

    with monkeypatch.context() as until, pytest.raises(Killed):
        until.setattr(place, "put", killed)
        with Run(place.folder, "label", {}, place=place) as run:
            label(run)
    there = tmp_path / "bucket" / "run" / "labels"
    assert len(list(place.folder.glob("labels/*"))) == 2 and len(list(there.iterdir())) == 1, "one is in the copy alone"
    again = Remote(bucket)
    with Run(again.folder, "label", {}, place=again) as run:
        assert label(run) == work(TRACES[:10]) and run.worked == 1
    assert len(list(there.iterdir())) == 3


def test_fresh_removes_nothing_that_no_run_wrote(tmp_path: Path, bucket: str) -> None:
    model = tmp_path / "bucket" / "run" / "config.json"
    model.parent.mkdir(parents=True)
    model.write_text('{"model_type": "llama"}')
    with pytest.raises(RunError, match="is not a run's"):
        Run(Remote(bucket).folder, "label", {}, fresh=True, place=Remote(bucket))
    assert model.read_text() == '{"model_type": "llama"}'


def test_a_run_that_was_removed_from_the_store_is_begun_anew_and_a_stranger_s_results_there_are_left_alone(
    tmp_path: Path, bucket: str
) -> None:
    """The copy still had the results of the run that was removed, and was taken for somebody else's folder."""
    place, there = Remote(bucket), tmp_path / "bucket" / "run"
    with Run(place.folder, "label", {}, place=place) as run:
        label(run)
        (run.folder / "judged.parquet").write_bytes(b"of this run")
    shutil.rmtree(there)
    with Run(place.folder, "label", {}, place=Remote(bucket)) as run:
        assert label(run) == work(TRACES[:10])
    shutil.rmtree(there)
    there.mkdir()
    (there / "judged.parquet").write_bytes(b"labels of a month")
    with pytest.raises(RunError, match=f"{bucket} holds judged.parquet, and no run that wrote it"):
        Run(place.folder, "label", {}, place=Remote(bucket))
    assert (there / "judged.parquet").read_bytes() == b"labels of a month"


def test_an_object_is_not_read_into_memory(tmp_path: Path, bucket: str) -> None:
    size = 64 << 20
    (tmp_path / "bucket").mkdir()
    with (tmp_path / "bucket" / "data").open("wb") as stream:
        stream.truncate(size)
    place = Remote(bucket)
    tracemalloc.start()
    try:
        fetched = Remote(f"file://{tmp_path}/bucket/data").data("data")
        (place.folder).mkdir(parents=True)
        fetched.rename(place.folder / "judged.parquet")
        place.put(place.folder / "judged.parquet")
        assert tracemalloc.get_traced_memory()[1] < size // 8
    finally:
        tracemalloc.stop()
    assert (tmp_path / "bucket" / "run" / "judged.parquet").stat().st_size == size


def test_a_lock_that_a_stranger_wrote_is_told(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "bucket" / "run").mkdir(parents=True)
    (tmp_path / "bucket" / "run" / ".lock-000001").write_text('{"host": []')
    with pytest.raises(RunError, match=r"\.lock-000001 is no lock of a run .* remove it"):
        Remote(bucket).take()


FAILING = """
from pathlib import Path
from footfall.types import Judgement, Reason, Unjudged, failures_of

class Failing:
    name = "failing"

    def judge(self, traces):
        Path(__file__).with_name("asked").open("a").write("".join(trace.id + " " for trace in traces))
        if Path(__file__).with_name("mended").exists():
            return [Judgement(trace.id, (0.5,), self.name) for trace in traces]
        down = failures_of([Unjudged(Reason.FAILED_CALL, "the server was down")])
        one = traces[0].id == "t0"
        return [Judgement(t.id, (0.5,) if one else (None,), self.name, failures=() if one else down) for t in traces]
"""


@pytest.mark.parametrize("copy", ["kept", "lost", "damaged"])
def test_chunks_without_a_label_are_judged_again_wherever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], copy: str
) -> None:
    """The copy on this machine is lost where another machine asks for it; a damaged shard is one that is not there."""
    monkeypatch.chdir(tmp_path)
    write_parquet(tmp_path / "traces.parquet", TRACES[:3], "trajectory")
    (tmp_path / "judge.py").write_text(FAILING)
    address = f"file://{tmp_path}/bucket/run"
    words = [
        "label",
        "--data",
        "traces.parquet",
        "--method",
        "judge.py:Failing",
        "--chunk",
        "1",
        "--json",
        "--out",
        address,
    ]
    assert main(words) == 0 and json.loads(capsys.readouterr().out)["labelled"] == 1
    (tmp_path / "mended").touch()
    if copy == "lost":
        shutil.rmtree(Remote(address).folder)
    if copy == "damaged":
        for shard in (
            *Remote(address).folder.glob("judgements/00000-*"),
            *tmp_path.glob("bucket/run/judgements/00000-*"),
        ):
            shard.write_bytes(shard.read_bytes()[:-9])
    assert main([*words, "--again"]) == 0 and json.loads(capsys.readouterr().out)["labelled"] == 3
    again = ["t0", "t1", "t2"] if copy == "damaged" else ["t1", "t2"]
    assert (tmp_path / "asked").read_text().split() == ["t0", "t1", "t2", *again]
    shutil.rmtree(Remote(address).folder)
    assert main(words) == 0 and json.loads(capsys.readouterr().out)["labelled"] == 3, "the store has the new ones"


def test_a_store_that_refuses_its_results_is_not_one_that_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Problems to try again are found in the results, which are read before the run is opened."""
    monkeypatch.chdir(tmp_path)
    address = f"file://{tmp_path}/bucket/run"
    words = ["search", "--problems", "world:arithmetic:1", "--policy", "scripted-arithmetic", "--method", "best-of-n"]
    words += ["--n", "1", "--judge", "length", "--out", address]
    assert main(words) == 0
    shutil.rmtree(Remote(address).folder)
    download = Bucket.download

    def refusing(self: Bucket, name: str, path: Path) -> None:
        if path.name.endswith("results.parquet"):
            raise RunError(f"{address} does not answer: a timeout")
        download(self, name, path)

    monkeypatch.setattr(Bucket, "download", refusing)
    capsys.readouterr()
    assert main(words) == 2
    assert "does not answer: a timeout" in capsys.readouterr().err


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    registry = pytest.importorskip("fsspec.registry")
    monkeypatch.delitem(registry._registry, "s3", raising=False)  # where another test has used it
    write_parquet(tmp_path / "traces.parquet", TRACES, "trajectory")
    words = ["label", "--data", "traces.parquet", "--method", "truth-arithmetic", "--out", "s3://bucket/run"]
    assert main(words) == 2
    assert 'pip install "footfall[s3]"' in capsys.readouterr().err


class Server:
    """An object server of this machine, and the environment in which it is found."""

    def __init__(self, scheme: str, *words: str) -> None:
        self.scheme = scheme
        script = Path(__file__).with_name("object_server.py" if scheme == "s3" else "google_server.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdout is not None
        address = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.environment = {
            **os.environ, "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "of-the-test",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-test", "AWS_DEFAULT_REGION": "us-east-1",
            "STORAGE_EMULATOR_HOST": address,
        }  # fmt: skip

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def python(self, script: str) -> str:
        """What a script prints that finds the server by `files`."""
        begin = f"import fsspec, json; files = fsspec.filesystem({self.scheme!r}); "
        done = run_python(["-c", begin + script], env=self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    server = Server("s3", str(request.param))
    server.python("files.mkdir('bucket')")
    yield server
    server.stop()


@pytest.fixture
def google() -> Iterator[Server]:
    pytest.importorskip("gcsfs")
    pytest.importorskip("gcp_storage_emulator")
    server = Server("gs")
    yield server
    server.stop()


def prepare(folder: Path, pause: float) -> list[str]:
    """The plain run, and the words of the command but for --out; from now on a chunk takes so many seconds here."""
    write_parquet(folder / "traces.parquet", TRACES, "trajectory")
    (folder / "judge.py").write_text(JUDGE)
    words = ["label", "--data", "traces.parquet", "--method", "judge.py:Slow", "--chunk", "2", "--json"]
    run_python([*FOOTFALL, *words, "--out", "plain"], cwd=folder).check_returncode()
    (folder / "pause").write_text(str(pause))
    return words


def stored(server: Server) -> dict[str, str]:
    """The shards and the labelled traces in the bucket, by name, in hex; nothing there holds the key."""
    found = json.loads(
        server.python("print(json.dumps({name: files.cat_file(name).hex() for name in files.find('bucket/run')}))")
    )
    assert not [name for name, data in found.items() if b"secret-of-the-test".hex() in data]
    return {name.rpartition("/")[2]: data for name, data in found.items() if name.endswith(".parquet")}


def plain(folder: Path) -> dict[str, str]:
    return {path.name: path.read_bytes().hex() for path in folder.glob("plain/**/*.parquet")}


@pytest.mark.long
@pytest.mark.parametrize("server", [0], indirect=True)
def test_a_run_in_s3_that_is_killed_twenty_times_has_the_bytes_of_one_that_was_not(
    server: Server, tmp_path: Path
) -> None:
    words = [*FOOTFALL, *prepare(tmp_path, 0.05), "--out", "s3://bucket/run"]
    for turn in range(20):
        process = Forked(words, cwd=tmp_path, env=server.environment)
        deadline = time.monotonic() + PATIENCE_SECONDS
        folder = tmp_path / "runs"
        while len(list(folder.glob("copy-*/judgements/*.parquet"))) < min(turn, 19) and time.monotonic() < deadline:
            if process.poll() is not None:
                break
            time.sleep(0.01)
        process.kill()
        process.communicate()
        if turn % 6 == 4:  # on a machine that has no copy; not at the end, for the copy may have what the store has not
            for path in folder.glob("copy-*/judgements/*.parquet"):
                path.unlink()
    done = run_python(words, cwd=tmp_path, env=server.environment, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert len(plain(tmp_path)) == 21 and stored(server) == plain(tmp_path)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not [data for data in written if b"secret-of-the-test" in data], "nor does this machine"


@pytest.mark.long
def test_a_run_in_google_cloud_storage_goes_on_elsewhere_and_has_one_holder(google: Server, tmp_path: Path) -> None:
    words = [*FOOTFALL, *prepare(tmp_path, 4.0), "--out", "gs://bucket/run"]
    first = Forked(words, cwd=tmp_path, env=google.environment)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(list(tmp_path.glob("runs/copy-*/judgements/*.parquet"))) < 2 and time.monotonic() < deadline:
        assert first.poll() is None, first.communicate()[1]
        time.sleep(0.02)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("traces.parquet", "judge.py"):
        (elsewhere / name).write_bytes((tmp_path / name).read_bytes())

    def again() -> subprocess.CompletedProcess[str]:
        return run_python(words, cwd=elsewhere, env=google.environment, timeout=PATIENCE_SECONDS)

    second = again()
    assert second.returncode == 2 and f"in use by process {first.pid} on" in second.stderr
    first.kill()
    first.communicate()
    done = again()
    assert done.returncode == 0, done.stderr
    assert stored(google) == plain(tmp_path)
    log = [json.loads(line) for line in next(elsewhere.glob("runs/copy-*/log.jsonl")).read_text().splitlines()]
    assert 0 < sum(event["event"] == "chunk" for event in log) < 20, "what the first one had put was fetched"


def test_the_command_runs_in_a_mounted_store(tmp_path: Path, bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "bucket" / "traces.parquet"
    data.parent.mkdir()
    write_parquet(data, TRACES, "trajectory")
    (tmp_path / "judge.py").write_text(JUDGE)
    words = ["score", f"file://{data}", "--judge", "judge.py:Slow", "--chunk", "4", "--json"]
    printed = []
    for out in (bucket, "plain"):
        assert main([*words, "--out", out]) == 0
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0]["rows"] == printed[1]["rows"] and len(printed[0]["rows"]) == 40
    there = {path.name: path.read_bytes().hex() for path in tmp_path.glob("bucket/run/**/*.parquet")}
    assert len(there) == 10 and there == plain(tmp_path)
    assert (tmp_path / "bucket" / "run" / "result.json").is_file()


def test_every_command_that_reads_traces_reads_them_from_a_store(
    tmp_path: Path, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "bucket" / "judged.parquet"
    data.parent.mkdir()
    write_parquet(data, [Judged(trace, said) for trace, said in zip(TRACES, work(TRACES), strict=True)], "judged")
    assert main(["show", f"file://{data}", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["traces"]) == len(TRACES)
    (tmp_path / "judge.py").write_text(JUDGE)
    assert main(["bench", "steps", "--data", f"file://{data}", "--judge", "judge.py:Slow", "--json"]) == 0
    assert '"accuracy"' in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("server", [3], indirect=True)
def test_a_server_that_fails_a_third_of_its_calls_costs_time_only_and_a_second_driver_is_told_who_holds_the_run(
    server: Server, tmp_path: Path
) -> None:
    words = [*FOOTFALL, *prepare(tmp_path, 0.7), "--out", "s3://bucket/run"]
    first = Forked(words, cwd=tmp_path, env=server.environment)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(tmp_path.glob("runs/copy-*/judgements/*.parquet")) and time.monotonic() < deadline:
        assert first.poll() is None, first.communicate()[1]
        time.sleep(0.02)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("traces.parquet", "judge.py"):
        (elsewhere / name).write_bytes((tmp_path / name).read_bytes())
    second = run_python(words, cwd=elsewhere, env=server.environment, timeout=PATIENCE_SECONDS)
    _, errors = first.communicate(timeout=PATIENCE_SECONDS)
    assert first.returncode == 0, errors
    assert stored(server) == plain(tmp_path)
    assert second.returncode == 2 and f"in use by process {first.pid} on" in second.stderr
