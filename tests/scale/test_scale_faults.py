"""A cluster of three nodes on this machine: the bytes of one process, whoever dies, hangs, is slow or runs out of memory."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from footfall.formats import read_parquet
from tests.forked import Forked
from tests.forked import run as run_python

pytest.importorskip("ray")
pytestmark = pytest.mark.long

PATIENCE_SECONDS = 240.0
FOOTFALL = ["-m", "footfall"]
ENVIRONMENT = {
    **os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_worker_niceness": "0",
}  # fmt: skip
"""Nodes and driver share a token of this cluster alone. Ray would run workers at niceness 15, which beside other tests is a
thirtieth of a core: a worker's first chunk, in which it loads modules, would look like a hang."""

WORKER_PATIENCE_SECONDS = 30
CHUNKS, APART = 200, 9
"""Chunks of the run with faults, and how many are done from one fault to the next."""

POLICY = '''
import os, resource, signal, time
from pathlib import Path
from footfall.drive.rollout_store import RolloutStore, prefix_address
from footfall.worlds import ArithmeticPolicy

HERE = Path(__file__).parent
STORE = RolloutStore(HERE / "rollouts")

def claimed(fault):
    """Whether this process is the one that the fault is for."""
    for order in sorted(HERE.glob(f"{fault}.*.order")):
        try:
            order.rename(order.with_suffix(".done"))
        except FileNotFoundError:
            continue
        return True
    return False

def take_all_memory():
    """Allocate until there is no more: of 512 MB of addresses beyond what the process has, and every other time by torch."""
    import torch

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (512 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    take = (lambda: b"x" * (32 << 20)) if len(list(HERE.glob("memory.*.done"))) % 2 else (lambda: torch.ones(8 << 20))
    held = []
    while True:
        held.append(take())

class Slow(ArithmeticPolicy):
    """On the cluster it takes a while for each request, in which things may happen, and tells what it was asked for."""

    def sample(self, prefixes, n, params, first=0):
        if not (HERE / "watched").exists():
            return super().sample(prefixes, n, params, first)
        asked = [(prefix_address(prefix), i) for prefix in prefixes for i in range(first, first + n)]
        self.tell("again.log", self.lying_there(asked, params))
        self.tell("asked.log", asked)
        time.sleep(0.05)
        # Whoever gives the faults may be slow: the run does not leave them behind.
        while len(list(HERE.glob("run/judgements/*.parquet"))) > int((HERE / "watched").read_text()):
            time.sleep(0.05)
        if claimed("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if claimed("hang"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if claimed("memory"):
            take_all_memory()
        if claimed("slow"):
            time.sleep(2)
        return super().sample(prefixes, n, params, first)

    def lying_there(self, asked, params):
        """Those that were asked for before, and that somebody had finished a second ago."""
        before = set((HERE / "asked.log").read_text().split()) if (HERE / "asked.log").exists() else ()
        asked = [each for each in asked if f"{each[0]}/{each[1]}" in before]
        if not asked:
            return []
        book = STORE.book(self.name, params)
        STORE.refresh(book)
        places = STORE._book(book).places
        found = [(each, places[each[0]][each[1]]) for each in asked if each[1] in places.get(each[0], {})]
        return [each for each, place in found if (HERE / "rollouts" / book / place.shard).stat().st_mtime < time.time() - 1]

    def tell(self, name, rollouts):
        with open(HERE / name, "a") as log:
            log.write("".join(f"{address}/{index}\\n" for address, index in rollouts))
'''


class Cluster:
    """Nodes that are processes of this machine."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ff-ray-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        port = self.address.partition(":")[2]
        self.nodes = [self.start("--head", "--port", port, "--temp-dir", self.folder, "--include-dashboard=false")]
        for joined in (1, 2):
            self.wait_for_sockets(joined)
            self.nodes.append(self.join())
        self.wait_for_sockets(3)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "2"]
        limits = ["--object-store-memory", str(100 << 20), "--disable-usage-stats"]
        return subprocess.Popen(
            [*ray, *limits, *words], env=ENVIRONMENT, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def join(self) -> subprocess.Popen[bytes]:
        host, _, port = self.address.partition(":")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return self.start("--address", self.address)
            time.sleep(0.2)
        raise AssertionError("the head of the cluster does not answer")

    def wait_for_sockets(self, nodes: int) -> None:
        """Two nodes that start at once may choose the same name for their sockets, of which one dies."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(list(Path(self.folder).glob("session_latest/sockets/raylet*"))) < nodes:
            assert time.monotonic() < deadline, f"no {nodes} nodes after {PATIENCE_SECONDS} s"
            time.sleep(0.2)

    def kill(self, node: int) -> None:
        """The node with all its processes, and nobody is told."""
        os.killpg(self.nodes[node].pid, signal.SIGKILL)
        self.nodes[node].wait()

    def close(self) -> None:
        for node in range(len(self.nodes)):
            if self.nodes[node].poll() is None:
                self.kill(node)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def run(folder: Path, *words: str) -> None:
    done = run_python([*FOOTFALL, *words], cwd=folder, env=ENVIRONMENT, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr


def kept(folder: Path) -> dict[str, bytes]:
    """All Parquet files of a run, and of the rollout store beside it."""
    files = [*folder.glob("run/**/*.parquet"), *folder.glob("rollouts/**/*.parquet")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}


COMMANDS = {
    "sample": [
        "sample", "--problems", "world:arithmetic:12", "--n", "4", "--policy", "policy.py:Meeting", "--chunk", "3",
    ],
    "score": ["score", "../traces.parquet", "--judge", "truth-arithmetic", "--chunk", "5"],
    "trees": [
        "label", "--data", "../traces.parquet", "--method", "omegaprm", "--trees", "3", "--policy", "policy.py:Meeting",
        "--chunk", "2",
    ],
    "label": ["label", "--data", "../traces.parquet", "--policy", "policy.py:Meeting", "--chunk", "5", "--rollouts", "4"],
    "search": [
        "search", "--problems", "world:arithmetic:12", "--policy", "policy.py:Meeting", "--method", "beam-search",
        "--judge", "truth-arithmetic", "--n", "4", "--set", "expansions=2", "--chunk", "3",
    ],
    "bench": ["bench", "steps", "--data", "world:arithmetic:24", "--judge", "truth-arithmetic", "--chunk", "5"],
}  # fmt: skip


def sampled(folder: Path, problems: int, n: int) -> None:
    """Traces of the arithmetic world, in traces.parquet."""
    words = ["sample", "--problems", f"world:arithmetic:{problems}", "--n", str(n)]
    run(folder, *words, "--policy", "scripted-arithmetic", "--out", "s")
    shutil.copy(folder / "s" / "trajectories.parquet", folder / "traces.parquet")


def workers_of(folder: Path) -> set[int]:
    """The processes that did chunks of a run."""
    done = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    return {event["worker"]["pid"] for event in done if event["event"] == "chunk"}


MEETING = """
import os, time
from pathlib import Path
from footfall.worlds import ArithmeticPolicy

HERE = Path(__file__).parent

class Meeting(ArithmeticPolicy):
    \"\"\"On the cluster the first worker waits until a second one has work too, however long that takes to start.\"\"\"

    def sample(self, prefixes, n, params, first=0):
        if (HERE / "cluster").exists():
            (HERE / "cluster" / str(os.getpid())).touch()
            deadline = time.monotonic() + 120
            while len(list((HERE / "cluster").iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
        return super().sample(prefixes, n, params, first)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_of_three_nodes_gives_the_bytes_of_one_process(
    command: str, cluster: Cluster, tmp_path: Path
) -> None:
    words = COMMANDS[command]
    if "../traces.parquet" in words:
        sampled(tmp_path, 10, 4)
    for name, more in {"one": [], "many": ["--ray", cluster.address]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.py").write_text(MEETING)
        if more:
            (tmp_path / name / "cluster").mkdir()
        run(tmp_path / name, *words, *more, "--out", "run")
    one, many = kept(tmp_path / "one"), kept(tmp_path / "many")
    assert len(one) > 4 and many == one
    if "policy.py:Meeting" in words:
        assert len(workers_of(tmp_path / "many")) > 1, "several workers took part"


BROKEN = """
from footfall.formats import FormatError
from footfall.worlds import ArithmeticPolicy

class Broken(ArithmeticPolicy):
    def sample(self, prefixes, n, params, first=0):
        raise FormatError("picture.png", "an image")
"""


def test_an_error_of_the_policy_ends_the_run_at_once_and_is_told_as_in_one_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "policy.py").write_text(BROKEN)
    words = ["sample", "--problems", "world:arithmetic:4", "--policy", "policy.py:Broken", "--out", "run"]
    for more in ([], ["--ray", cluster.address, "--ray-workers", "1"]):
        done = run_python([*FOOTFALL, *words, *more], cwd=tmp_path, env=ENVIRONMENT, timeout=PATIENCE_SECONDS)
        assert done.returncode == 2 and "picture.png: expected an image" in done.stderr, done.stderr
    assert "worker lost" not in (tmp_path / "run" / "log.jsonl").read_text()


def test_on_one_machine_with_nothing_set_up_the_word_ray_is_all_there_is_to_say(tmp_path: Path) -> None:
    sampled(tmp_path, 6, 2)
    words = ["label", "--data", "../traces.parquet", "--policy", "scripted-arithmetic", "--out", "run"]
    for name, more in {"one": [], "many": ["--ray"]}.items():
        (tmp_path / name).mkdir()
        run(tmp_path / name, *words, *more)
    one, many = kept(tmp_path / "one"), kept(tmp_path / "many")
    assert one and many == one
    assert workers_of(tmp_path / "many")


def test_seeds_of_the_lab_are_measured_by_workers_with_the_figures_of_one_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    def outcomes(folder: Path) -> dict[str, Any]:
        kept = {path.name: json.loads(path.read_text())["kept"] for path in folder.glob("run/seeds/*.json")}
        return {name: {**each, "cost": {**each["cost"], "seconds": 0}} for name, each in kept.items()}

    for name, more in {"one": [], "many": ["--ray", cluster.address, "--ray-workers", "2"]}.items():
        (tmp_path / name).mkdir()
        run(tmp_path / name, "lab", "run", "aurora", "--quick", "--seeds", "2", "--out", "run", *more)
    assert len(outcomes(tmp_path / "one")) == 2 and outcomes(tmp_path / "many") == outcomes(tmp_path / "one")
    assert workers_of(tmp_path / "many")
    results = [json.loads((tmp_path / name / "run" / "result.json").read_text()) for name in ("one", "many")]
    assert results[0]["means"] == results[1]["means"]


def test_worlds_and_seeds_of_a_study_are_measured_by_workers_with_the_report_of_one_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    words = [
        "bench",
        "labels",
        "--option",
        "worlds=arithmetic",
        "methods=omegaprm,truth-arithmetic",
        "seeds=2",
        "traces=4",
    ]
    for name, more in {"one": [], "many": ["--ray", cluster.address, "--ray-workers", "2"]}.items():
        (tmp_path / name).mkdir()
        run(tmp_path / name, *words, *more, "--out", "run")
    assert workers_of(tmp_path / "many")
    reports = [(tmp_path / name / "run" / "report.json").read_bytes() for name in ("one", "many")]
    assert reports[0] == reports[1]


SLOW_TO_OPEN = """
import os, signal, sys, time
from pathlib import Path
from footfall.worlds import ArithmeticPolicy

class Stuck(ArithmeticPolicy):
    \"\"\"Of the workers that open it, the first sleeps over it, and the second is stopped for good.\"\"\"

    def __init__(self):
        super().__init__()
        for order in sorted(Path(__file__).parent.glob("*.order")) if "default_worker" in sys.argv[0] else ():
            try:
                order.rename(order.with_suffix(".done"))
            except FileNotFoundError:
                continue
            time.sleep(3600) if order.stem == "sleep" else os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_workers_that_hang_while_they_open_are_replaced(cluster: Cluster, tmp_path: Path) -> None:
    words = [
        "sample",
        "--problems",
        "world:arithmetic:6",
        "--policy",
        "policy.py:Stuck",
        "--chunk",
        "2",
        "--out",
        "run",
    ]
    for name, more in {"one": [], "many": ["--ray", cluster.address, "--ray-workers", "1"]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.py").write_text(SLOW_TO_OPEN)
        (tmp_path / name / "sleep.order").touch()
        (tmp_path / name / "stop.order").touch()
        run(tmp_path / name, *words, *more, *(["--ray-opening", "20"] if more else []))
    one, many = kept(tmp_path / "one"), kept(tmp_path / "many")
    assert one and many == one
    events = [json.loads(line) for line in (tmp_path / "many" / "run" / "log.jsonl").read_text().splitlines()]
    lost = [event for event in events if event["event"] == "worker lost"]
    assert [each["why"] for each in lost] == ["not open after 20 s"] * 2
    assert len({each["worker"]["pid"] for each in lost} | workers_of(tmp_path / "many")) == 3


JUDGE = """
from footfall.types import Judgement

class Short:
    name = "short"

    def judge(self, traces):
        return [Judgement(trace.id, tuple(1 / (1 + len(step.text)) for step in trace.steps), self.name) for trace in traces]
"""


@pytest.mark.parametrize("lora", [(), ("--lora-rank", "2")], ids=["all weights", "adapters"])
def test_a_policy_in_training_is_written_with_and_judged_by_workers_to_the_same_weights(
    lora: tuple[str, ...], cluster: Cluster, tmp_path: Path
) -> None:
    pytest.importorskip("trl")
    from footfall.policy.embedded import EMBEDDED
    from tests.rl.test_rl_trainer import small

    small().save_pretrained(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED / name, tmp_path / "model")
    words = [
        "rl", "--model", "../model", "--problems", "world:arithmetic:24", "--prompts", "2", "--group", "4", "--updates", "3",
        "--checkpoint-every", "2", "--measured", "6", "--max-tokens", "16", "--lr", "3e-2", "--device", "cpu",
        "--credit", "pure", "--judge", "judge.py:Short", "--chunk", "3", *lora, "--out", "run", "--json",
    ]  # fmt: skip
    for name, more in {"one": [], "many": ["--ray", cluster.address, "--ray-workers", "2"]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "judge.py").write_text(JUDGE)
        run(tmp_path / name, *words, *more)
    models = [{path.name: path.read_bytes() for path in tmp_path.glob(f"{name}/run/model/*.safetensors")}
              for name in ("one", "many")]  # fmt: skip
    assert models[0] and models[0] == models[1]

    def told(name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (tmp_path / name / "run" / "log.jsonl").read_text().splitlines()]
        return [{**line, "time": 0} for line in lines if line["event"] in ("update", "checkpoint", "traces")]

    assert told("one") == told("many"), "rewards, losses, completions and measures"
    updates = [line for line in told("one") if line["event"] == "update"]
    assert len(updates) == 3 and all(line["grad_norm"] > 0 for line in updates), "every batch has other weights"


LABEL = [
    "label", "--data", "../traces.parquet", "--policy", "policy.py:Slow", "--rollouts", "2", "--until", "first-error",
    "--chunk", "2", "--out", "run", "--json",
]  # fmt: skip
"""Step by step, so that a chunk has several requests, each of which the rollout store keeps."""


class Job:
    """One `footfall label` over the cluster, started as often as it takes."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.may_do(APART)
        self.process = self.start()

    def start(self) -> Forked:
        more = ["--ray", self.cluster.address, "--ray-workers", "4"]
        more += ["--ray-patience", str(WORKER_PATIENCE_SECONDS)]
        return Forked([*FOOTFALL, *LABEL, *more], cwd=self.folder, env=ENVIRONMENT)

    def shards(self) -> int:
        return len(list(self.folder.glob("run/judgements/*.parquet")))

    def may_do(self, chunks: int) -> None:
        """The policy waits when more are done."""
        (self.folder / "next").write_text(str(chunks))
        (self.folder / "next").replace(self.folder / "watched")

    def wait_for(self, shards: int) -> bool:
        """Whether the run is still under way when so many chunks are finished."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.shards() < shards and self.process.poll() is None:
            assert time.monotonic() < deadline, f"{self.shards()} of {shards} chunks after {PATIENCE_SECONDS} s"
            time.sleep(0.05)
        return self.process.poll() is None

    def ended(self) -> str:
        """How, at which chunk and with what words it ended."""
        _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return f"exit {self.process.returncode} at chunk {self.shards()}\n{errors}"


def rollouts(folder: Path) -> dict[str, Any]:
    """Every rollout of the store by its address, once; two shards with the same one are an error."""
    rows = [row for path in folder.glob("rollouts/*/*.parquet") for row in read_parquet(path, "trajectory")]
    found = {row.id: row for row in rows}
    assert len(found) == len(rows), "a rollout was kept twice"
    return found


def test_twenty_faults_at_random_moments_lose_nothing_and_double_nothing(cluster: Cluster, tmp_path: Path) -> None:
    sampled(tmp_path, CHUNKS, 2)
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.py").write_text(POLICY)
    run(tmp_path / "one", *LABEL)
    faults = ["kill"] * 7 + ["hang"] * 3 + ["memory"] * 3 + ["slow"] * 2 + ["node"] * 2 + ["driver"] * 3
    # With this seed a driver dies right after a node, and a worker hangs after the last driver, so that one waits for it.
    draw = random.Random(36)
    draw.shuffle(faults)
    job = Job(tmp_path / "many", cluster)
    for number, fault in enumerate(faults):
        assert job.wait_for(1 + APART * number), f"it ended before fault {number}, a {fault}: {job.ended()}"
        time.sleep(draw.random() / 4)
        if fault == "node":
            node = draw.choice([1, 2])
            cluster.kill(node)
            cluster.nodes[node] = cluster.join()
        elif fault == "driver":
            job.process.kill()
            job.process.wait()
            job.process = job.start()
        else:
            (job.folder / f"{fault}.{number}.order").touch()
        job.may_do(APART * (number + 2) if number + 1 < len(faults) else CHUNKS)
    _, errors = job.process.communicate(timeout=PATIENCE_SECONDS)
    assert job.process.returncode == 0, errors
    one, many = (
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("run/**/*.parquet")}
        for name in ("one", "many")
    )
    assert many == one, "nothing lost, nothing doubled, the same bytes"
    drawn = rollouts(tmp_path / "one")
    assert rollouts(tmp_path / "many") == drawn
    assert not (tmp_path / "many" / "again.log").read_text(), "no rollout that was finished was drawn again"
    asked = Counter((tmp_path / "many" / "asked.log").read_text().split())
    assert len(asked) == len(drawn)
    begun_again = sum(asked.values()) - len(asked)
    assert 0 < begun_again < 20 * 2 * 4 * 4, "of the requests that faults broke off, two chunks of some rollouts each"
    assert not list(job.folder.glob("*.order")), "every fault happened"
    events = [json.loads(line) for line in (job.folder / "run" / "log.jsonl").read_text().splitlines()]
    lost = [event["why"] for event in events if event["event"] == "worker lost"]
    assert f"no reply for {WORKER_PATIENCE_SECONDS} s" in lost, "a worker that hung was found out"
    assert any(why.startswith("out of memory") for why in lost), "a worker that had no memory said so, and was replaced"
    assert len(lost) >= 13 - faults.count("driver"), (
        "workers that died, hung or had no memory; a driver may die before it says so"
    )
    done = Counter(event["index"] for event in events if event["event"] == "chunk")
    assert set(done.values()) == {1}, "no finished chunk was done again"
    assert len(done) >= CHUNKS - faults.count("driver"), "a driver may have died between a shard and its line"
