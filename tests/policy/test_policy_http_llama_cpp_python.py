"""The HTTP policy against the real server of llama-cpp-python, with a tiny random model that the test itself writes.

It runs where `llama_cpp.server` can be imported by this Python, or by the one that FOOTFALL_LLAMA_CPP_PYTHON names.
FOOTFALL_GGUF names another model than the tiny one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from footfall import cli
from footfall.formats import read_parquet
from footfall.policy import SamplingParams
from footfall.policy.http import HttpPolicy, http_policy
from footfall.policy.http_client import Question, ServerRefusedError
from footfall.types import Problem, Trajectory

pytestmark = pytest.mark.long

PYTHON = os.environ.get("FOOTFALL_LLAMA_CPP_PYTHON", sys.executable)
PREFIXES = [Trajectory(f"p{k}", Problem(f"p{k}", f"{k} + {k} = ?"), separator="\n") for k in range(3)]
PARAMS = SamplingParams(max_tokens=12, seed=3)


def served(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server with that model."""
    known = subprocess.run([PYTHON, "-c", "import llama_cpp.server.app"], capture_output=True)
    if known.returncode:
        pytest.skip(f"{PYTHON} has no llama_cpp.server (pip install 'llama-cpp-python[server]')")
    model = os.environ.get("FOOTFALL_GGUF", "")
    if not model:
        pytest.importorskip("gguf", reason="gguf is needed to write a model, or FOOTFALL_GGUF to name one")
        from tests.test_gguf import write_gguf

        model = str(write_gguf(folder / "tiny.gguf"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PYTHON, "-m", "llama_cpp.server", "--model", model, "--port", str(port), "--n_ctx", "256", *options]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until_up(f"http://127.0.0.1:{port}/v1", process, folder / "server.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/models", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(log.read_text(errors="replace")[-3000:])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def plain_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(tmp_path_factory.mktemp("plain"), "--logits_all", "false")


def policy(url: str, **options: Any) -> HttpPolicy:
    return http_policy(url, **{"neutral": False, "retries": 1, "first_wait": 0.01, "concurrency": 2, **options})


def test_it_refuses_an_id_that_is_no_uuid(url: str) -> None:
    asked = {"prompt": "1 + 1", "max_tokens": 1}
    answers = [
        httpx.post(f"{url}/completions", json=asked, headers={"X-Request-Id": name}, trust_env=False, timeout=60)
        for name in ("p0-0-1", Question("p0-0", "/completions").request_id(1))
    ]
    assert [answer.status_code for answer in answers] == [400, 200]


def test_it_answers_every_request_with_logprobs(url: str) -> None:
    drawn = [c for row in policy(url).sample(PREFIXES, 2, PARAMS) for c in row]
    assert len(drawn) == 6 and all(c.error is None and c.finish in ("end", "length") for c in drawn), drawn
    assert all(c.cost.generated_tokens > 0 and c.cost.prompt_tokens > 0 for c in drawn)
    assert any(step.logprobs for c in drawn for step in c.steps)


def test_a_seed_gives_the_same_text_where_its_cache_holds_the_same(url: str) -> None:
    one = policy(url, concurrency=1)
    _, first, again = (
        one.sample(PREFIXES[:1], 1, PARAMS)[0][0] for _ in range(3)
    )  # from the second on the prompt is cached
    assert [step.text for step in first.steps] == [step.text for step in again.steps]
    other = one.sample(PREFIXES[:1], 8, PARAMS)[0]
    assert len({tuple(step.text for step in c.steps) for c in other}) > 1


def test_its_own_sampling_defaults_can_be_switched_off_in_python(url: str) -> None:
    off = {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0}
    plain, changed = policy(url), replace(policy(url), extra=off)
    texts = [[c.steps for row in each.sample(PREFIXES, 4, PARAMS) for c in row] for each in (plain, changed)]
    assert texts[0] != texts[1] and plain.name != changed.name


def test_steps_need_a_cut_here_and_it_says_so(url: str) -> None:
    step = SamplingParams(max_tokens=24, seed=3, until="step")
    drawn = [c for row in policy(url, step_stop="cut").sample(PREFIXES, 2, step) for c in row]
    assert all(c.finish in ("step", "end", "length") and len(c.steps) <= 1 for c in drawn)


def test_fields_that_it_does_not_take_are_refused_at_once_with_what_leaves_them_out(url: str, plain_url: str) -> None:
    with pytest.raises(ServerRefusedError, match=r"top_k.*--neutral False\) leaves out"):
        policy(url, neutral=True).sample(PREFIXES, 1, PARAMS)
    with pytest.raises(ServerRefusedError, match=r"logits_all=False.*--logprobs False\) leaves out logprobs"):
        policy(plain_url).sample(PREFIXES, 1, PARAMS)
    assert all(row[0].error is None for row in policy(plain_url, logprobs=False).sample(PREFIXES, 1, PARAMS))


def test_the_command_line_samples_from_it(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "sample",
        "--problems",
        "world:arithmetic:2",
        "--url",
        url,
        "--neutral",
        "False",
        "--n",
        "2",
        "--max-tokens",
        "8",
    ]
    assert cli.main([*words, "--out", str(tmp_path / "run")]) == 0, capsys.readouterr().err
    assert len(read_parquet(tmp_path / "run" / "trajectories.parquet", "trajectory")) == 4
