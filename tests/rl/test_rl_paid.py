"""`footfall rl` with judges: PRMs, in this process and behind a server, and a critic whose server fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch

from footfall import cli
from footfall.commands._options import JudgeOptions
from footfall.commands._rl_setting import RlConfig, reward_judge
from footfall.judging import forget
from footfall.policy.embedded import EMBEDDED
from footfall.registry import create
from footfall.reward.prm import PRM
from footfall.types import Judgement, Step, Trajectory
from footfall.worlds import ArithmeticWorld
from tests.reward.test_reward_served import serving
from tests.rl.runs import events, model, weights, words

__all__ = ["model"]


class Critic(BaseHTTPRequestHandler):
    """A chat server that answers as ProcessBench's critics do, and fails every third call."""

    calls = 0
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Critic.calls += 1
        text = f"\\boxed{{{-(Critic.calls % 2)}}}"
        reply = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
        body = json.dumps({"error": "boom"} if Critic.calls % 3 == 0 else reply).encode()
        self.send_response(500 if Critic.calls % 3 == 0 else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def critic() -> Iterator[str]:
    """The address of one."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Critic)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_critic_behind_a_server_that_fails_a_third_of_its_calls_costs_rollouts_and_not_the_run(
    model: Path, tmp_path: Path, critic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, asked = tmp_path / "run", f"http,url={critic},mode=chat,model=m,retries=0"
    how = ("--updates", "3", "--credit", "capo", "--judge", "critic", "--judge-policy", asked)
    assert cli.main(words(model, out, *how, "--held-out-judge", "truth-arithmetic")) == 0
    told, said = capsys.readouterr()
    left = [row["left"] for row in events(out, "update")]
    assert json.loads(told)["left"] == sum(left) and 4 <= sum(left) <= 12, "of 24 rollouts"
    assert "boom" not in said and "All reward functions" not in said
    figures = [row["figures"] for row in events(out, "checkpoint")]
    assert all(row["held_out"] is not None for row in figures), "the judge that is not trained on"
    assert any(0 < row["unjudged"] < 1 for row in figures)
    assert "Held-out judge" in (out / "report.html").read_text()


def test_a_judge_reads_a_prompt_once_for_a_group(tmp_path: Path) -> None:
    PRM.from_backbone(EMBEDDED, seed=1).save(tmp_path / "prm")
    judge = reward_judge(RlConfig(judge=JudgeOptions(str(tmp_path / "prm")), device="cpu"), create("credit", "pure"))
    assert judge is not None
    (problem,) = ArithmeticWorld().problems(1)
    group = [Trajectory(f"{i}", problem, (Step(f"{i} + 1 = {i + 1}"), Step("so it is"))) for i in range(4)]
    together = [said.cost.scored_tokens for said in judge.judge(group)]
    assert together[0] > 2 * max(together[1:]), "the first pays the prompt"
    apart: list[Judgement] = []
    for trace in group:
        forget(judge)
        apart += judge.judge([trace])
    assert [each.values for each in judge.judge(group)] == [pytest.approx(each.values, abs=1e-5) for each in apart]


@pytest.mark.parametrize("credit", ["pav", "red"])
def test_a_prm_values_the_bare_problem_and_tokens_for_credits_that_read_them(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], credit: str
) -> None:
    PRM.from_backbone(EMBEDDED, seed=1).save(tmp_path / "prm")
    how = ("--updates", "1", "--measured", "2", "--credit", credit, "--judge", str(tmp_path / "prm"))
    assert cli.main(words(model, tmp_path / "run", *how)) == 0
    assert json.loads(capsys.readouterr().out)["left"] == 0
    (update,) = events(tmp_path / "run", "update")
    assert update["grad_norm"] > 0, "something was learnt"


def test_a_prm_behind_a_server_pays_what_it_pays_in_this_process(model: Path, tmp_path: Path) -> None:
    PRM.from_backbone(EMBEDDED, seed=1).save(tmp_path / "prm")
    how = ("--updates", "2", "--measured", "2", "--credit", "pure,coef=0", "--judge")
    assert cli.main(words(model, tmp_path / "here", *how, str(tmp_path / "prm"))) == 0
    with serving(create("reward", "step-head", path=str(tmp_path / "prm"), device="cpu")) as url:
        assert cli.main(words(model, tmp_path / "served", *how, url)) == 0
    paid = [[row["reward"] for row in events(tmp_path / name, "update")] for name in ("here", "served")]
    assert paid[0] == pytest.approx(paid[1], abs=1e-5) and len({*paid[0]}) == 2
    here, served = weights(tmp_path / "here"), weights(tmp_path / "served")
    assert all(torch.allclose(here[name], served[name], atol=1e-4) for name in here)
