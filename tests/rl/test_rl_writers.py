"""Who else writes rollouts: an OpenAI server, some of whose calls fail, an agent with a tool, another model, and TRL's vLLM, as
far as can be told without it.

`test_rl_vllm.py` has it write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch
from trl.generation import vllm_generation
from trl.trainer.grpo_config import GRPOConfig

from footfall import cli
from footfall.commands import _rl_setting
from footfall.hashing import vocabulary_fingerprint
from footfall.loading import load_tokenizer
from footfall.policy.embedded import EMBEDDED
from footfall.policy.protocol import Completion, Finish, SamplingParams
from footfall.registry import create
from footfall.rl import loop
from footfall.rl.rewards import Reward
from footfall.rl.settings import RlSettings
from footfall.rl.trainer import CreditTrainer
from footfall.types import Problem, Step, Trajectory
from footfall.worlds import ArithmeticWorld
from tests.rl.runs import events, words
from tests.rl.test_rl_trainer import batch_of, graded, small, trainer, watched_log_probs


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


TOKENIZER: Any = load_tokenizer(str(EMBEDDED))


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER.encode(text, add_special_tokens=False))


class Agent:
    """A policy that writes these steps, whatever it is asked."""

    name = "agent"

    def __init__(self, *steps: Step, tokenizer: str | None = None, finish: Finish = "end") -> None:
        self.made = Completion(steps, finish, tokenizer=tokenizer)

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[replace(self.made, index=first + i) for i in range(n)] for _ in prefixes]


CALL, HEARD, ENDED = "call(3 + 4)\n", "777\n", "The answer is 7."
VOCABULARY = vocabulary_fingerprint(TOKENIZER)
WITH_A_TOOL = {
    "in ids of its own": Agent(
        Step("call(3 + 4)", observation="777", token_ids=ids_of(CALL), observation_ids=ids_of(HEARD)),
        Step(ENDED, token_ids=ids_of(ENDED)), tokenizer=VOCABULARY,
    ),
    "in text": Agent(Step("call(3 + 4)", observation="777"), Step(ENDED)),
    "in another vocabulary": Agent(
        Step("call(3 + 4)", observation="777", token_ids=(400, 401), observation_ids=(402,)),
        Step(ENDED, token_ids=(403, 404, 405)), tokenizer="another",
    ),
}  # fmt: skip


@pytest.mark.parametrize("agent", WITH_A_TOOL.values(), ids=WITH_A_TOOL)
def test_what_a_tool_answered_is_read_and_never_trained_on(tmp_path: Path, agent: Agent) -> None:
    """It was left out of the sequence, or was trained on where the writer gave text."""
    made = graded(trainer(tmp_path, Reward(create("credit", "grpo")), writer=agent))
    batch = batch_of(made)
    first = made.batch[0]
    assert TOKENIZER.decode(first.ids) == CALL + HEARD + ENDED + "</s>"
    assert [(step.text, step.observation) for step in first.trajectory.steps] == [("call(3 + 4)", "777"), (ENDED, None)]
    own = first.rollout.mask
    heard = TOKENIZER.decode([token for token, mine in zip(first.ids, own, strict=True) if not mine])
    assert heard.strip() == "777" and all(own[-len(ids_of(ENDED)) - 1 :])

    made.current_gradient_accumulation_steps = 1
    seen = watched_log_probs(made)
    made.compute_loss(made.model, batch).backward()
    assert seen[0].grad is not None
    assert (seen[0].grad[0] != 0).tolist() == own.tolist(), "every token of the policy is a target, and no other"

    # The answer of a tool is what later tokens are conditioned on.
    at = int((~own).nonzero()[0][0])
    batch["completion_ids"][0, at] = 90
    made.compute_loss(made.model, batch)
    before, after = (each[0].detach() for each in seen)
    torch.testing.assert_close(after[:at], before[:at])
    assert not torch.allclose(after[at + 1 :], before[at + 1 :])


def test_a_prompt_longer_than_the_context_is_named_before_the_run_comes_upon_it(tmp_path: Path) -> None:
    """The engine said it in the middle of a run, of no problem, and that `max_tokens` should be lowered."""
    fits, long = Problem("fits", "0 + " * 100, "1"), Problem("long", "0 + " * 200, "2")
    few = [*ArithmeticWorld().problems(2), fits, long, replace(long, id="longer")]
    reward = Reward(create("credit", "grpo"))
    with pytest.raises(ValueError, match=r"'long': its prompt has 602 tokens and 12 may follow, .* 512 .* 2 of 5"):
        trainer(tmp_path, reward, problems=few)
    assert trainer(tmp_path, reward, problems=few[:3]).problems == few[:3]
    assert trainer(tmp_path, reward, problems=few, writer="trl").problems == few, "who may know better"


def test_ids_of_another_vocabulary_are_not_taken_for_those_of_the_trained_model(tmp_path: Path) -> None:
    for tokenizer, wanted in (("another", ids_of(ENDED)), (VOCABULARY, (400, 401, 402)), (None, (400, 401, 402))):
        agent = Agent(Step(ENDED, token_ids=(400, 401, 402)), tokenizer=tokenizer)
        made = trainer(tmp_path, Reward(create("credit", "grpo")), writer=agent)
        batch_of(made)
        assert {each.ids for each in made.batch} == {(*wanted, 2)}


def test_a_turn_that_the_writer_ended_itself_is_ended_once(tmp_path: Path) -> None:
    cases: list[tuple[Finish, tuple[int, ...], tuple[int, ...]]] = [
        ("end", (90, 2), (90, 2)), ("end", (90,), (90, 2)), ("length", (90,), (90,)),
    ]  # fmt: skip
    for finish, ids, wanted in cases:
        agent = Agent(Step("x", token_ids=ids), tokenizer=VOCABULARY, finish=finish)
        made = trainer(tmp_path, Reward(create("credit", "grpo")), writer=agent)
        batch_of(made)
        assert {each.ids for each in made.batch} == {wanted}


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
