"""Who else writes rollouts: an OpenAI server, some of whose calls fail, and TRL's vLLM, as far as can be told without it.

`test_rl_vllm.py` has it write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

from trl.generation import vllm_generation
from trl.trainer.grpo_config import GRPOConfig

from footfall import cli
from footfall.commands import _rl_setting
from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.rl import loop
from footfall.rl.rewards import Reward
from footfall.rl.settings import RlSettings
from footfall.rl.trainer import CreditTrainer
from footfall.worlds import ArithmeticWorld
from tests.rl.runs import events, words
from tests.rl.test_rl_trainer import small


class Solver(BaseHTTPRequestHandler):
    """Solves nothing; every fourth call fails."""

    calls, asked = 0, list[dict[str, Any]]()

    def do_POST(self) -> None:
        Solver.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        Solver.calls += 1
        message = {"content": f"Then 2 + 2 = 4.\n\nThe answer is {Solver.calls}."}
        reply = {"choices": [{"index": 0, "message": message, "text": message["content"], "finish_reason": "stop"}]}
        failed = Solver.calls % 4 == 0
        body = json.dumps({"error": "boom"} if failed else reply).encode()
        self.send_response(500 if failed else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def solver() -> Iterator[str]:
    """The address of one."""
    Solver.calls, Solver.asked = 0, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Solver)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_server_writes_and_a_call_that_fails_costs_its_rollout(
    tmp_path: Path, solver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    small().save_pretrained(folder)
    load_tokenizer(str(EMBEDDED)).save_pretrained(folder)
    how = ("--updates", "2", "--max-tokens", "64", "--writer", f"http,url={solver},mode=chat,model=m,retries=0")
    assert cli.main(words(folder, tmp_path / "run", *how)) == 0
    updates = events(tmp_path / "run", "update")
    assert json.loads(capsys.readouterr().out)["left"] == sum(each["left"] for each in updates) > 0
    assert sum(each["left"] for each in updates) < 16 and all(each["steps"] > 1 for each in updates)
    assert {each["max_tokens"] for each in Solver.asked} == {64}
    assert len(Solver.asked) == 2 * 8, "held-out samples are of the policy that is trained"
    assert all(each["figures"]["tokens"] > 40 for each in events(tmp_path / "run", "checkpoint"))


def test_vllm_is_trls_own_and_is_told_how_to_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    class Stopped(Exception):
        """Before TRL looks for vLLM."""

    def made(*given: Any, **named: Any) -> None:
        told.update(named, args=given[4])
        raise Stopped

    monkeypatch.setattr(loop, "CreditTrainer", made)
    problems, tokenizer = ArithmeticWorld().problems(4), load_tokenizer(str(EMBEDDED))
    sampling = SamplingParams(0.7, 0.9, 5, 33)
    setting = loop.Setting(
        small(),
        tokenizer,
        problems,
        problems,
        Reward(create("credit", "grpo")),
        sampling,
        "\n",
        writer="trl",
        vllm={"gpu_memory_utilization": 0.5, "mode": "server"},
    )
    with pytest.raises(Stopped):
        loop.make_trainer(setting, RlSettings(prompts=2, group=2), tmp_path)
    args = told["args"]
    assert args.use_vllm and told["writer"] == "trl", (
        "TRL calls vLLM in `_generate`, which our own rollouts would replace"
    )
    assert (args.temperature, args.top_p, args.top_k, args.max_completion_length) == (0.7, 0.9, 5, 33)
    assert (args.vllm_gpu_memory_utilization, args.vllm_mode) == (0.5, "server")
    with pytest.raises(ValueError, match=r"no setting 'memory'; TRL's are enable_sleep_mode, gpu_memory_utilization, "):
        loop.make_trainer(replace(setting, vllm={"memory": 0.5}), RlSettings(prompts=2, group=2), tmp_path)


def test_arguments_that_ask_for_vllm_are_enough_and_no_other_writer_is_named_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = GRPOConfig(
        str(tmp_path), use_vllm=True, num_generations=2, per_device_train_batch_size=4, use_cpu=True, bf16=False
    )
    given = (
        small(),
        load_tokenizer(str(EMBEDDED)),
        ArithmeticWorld().problems(4),
        Reward(create("credit", "grpo")),
        args,
    )
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda: False)
    with pytest.raises(ImportError, match="vLLM is not available"):
        CreditTrainer(*given)  # it is TRL that looks for it
    with pytest.raises(ValueError, match=r"use_vllm=True lets TRL's vLLM write .* writer='engine' names another"):
        CreditTrainer(*given, writer="engine")
    with pytest.raises(ValueError, match="a policy names another"):
        CreditTrainer(*given, writer=create("policy", "embedded"))


def test_a_command_line_that_names_vllm_in_vain_is_refused_before_the_model_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = words(tmp_path / "no-model", tmp_path / "run", "--writer", "vllm,gpu_memory_utilization=0.5")
    found: dict[str, bool] = {}
    monkeypatch.setattr(_rl_setting, "find_spec", found.get)
    assert cli.main(asked) == 2
    assert "--writer vllm needs vLLM in a version that TRL takes; install it with: pip install 'trl[vllm]'" in (
        capsys.readouterr().err
    )
    found["vllm"] = True
    assert cli.main(asked) == 2 and not (tmp_path / "run").exists()
    assert "--writer vllm: on a CPU vLLM packs its weights" in capsys.readouterr().err
