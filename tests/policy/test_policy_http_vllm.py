"""The HTTP policy against vLLM's own OpenAI server, with the embedded model: what it says is what the model here says.

It runs where vLLM can be imported by this Python, or by the one that FOOTFALL_VLLM_PYTHON names.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall import cli
from footfall.formats import read_parquet
from footfall.loading import load_model
from footfall.policy import SamplingParams
from footfall.policy.embedded import EMBEDDED
from footfall.policy.http import HttpPolicy, http_policy
from footfall.policy.http_client import ServerRefusedError
from footfall.policy.http_tokens import HttpTokens
from footfall.policy.torch_policy import TorchPolicy
from footfall.types import Problem, Step, Trajectory
from footfall.worlds import ArithmeticWorld
from tests.policy.test_policy_http_llama_cpp_python import wait_until_up
from tests.policy.vllm_here import PYTHON, environment, need_vllm

pytestmark = pytest.mark.long

WORLD = ArithmeticWorld()
PREFIXES = [WORLD.prefix(problem) for problem in WORLD.problems(3)]
GREEDY = SamplingParams(temperature=0, max_tokens=160)
DRAWN = SamplingParams(max_tokens=160, seed=3)
STEP = SamplingParams(max_tokens=160, seed=3, until="step")
TURNS = (
    "{% for m in messages %}{{ m['content'] }}{% if not loop.last or add_generation_prompt %}{{ '\\n' }}{% endif %}"
    "{% endfor %}"
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the embedded model, in float32 so that it can be compared, and a plain chat template."""
    need_vllm()
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "turns.jinja").write_text(TURNS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(EMBEDDED), "--served-model-name", "embedded",
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-model-len", "512",
        "--max-num-seqs", "16", "--chat-template", str(folder / "turns.jinja"),
    ]  # fmt: skip
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
    try:
        wait_until_up(f"http://127.0.0.1:{port}/v1", process, folder / "server.log", 600)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()  # it ends the processes that it has started
        process.wait(60)


def policy(url: str, **options: Any) -> HttpPolicy:
    return http_policy(url, **{"retries": 1, "first_wait": 0.01, **options})


@pytest.fixture(scope="module")
def here() -> TorchPolicy:
    """The same model in this process."""
    return TorchPolicy(*load_model(EMBEDDED, "cpu", torch.float32), label="here")


def texts(rows: Any) -> list[list[list[str]]]:
    return [[[step.text for step in each.steps] for each in row] for row in rows]


def test_greedy_texts_are_those_of_the_model_here_whole_or_step_by_step(url: str, here: TorchPolicy) -> None:
    wanted = texts(here.sample(PREFIXES, 1, GREEDY))
    by_ids = policy(url, tokenizer=str(EMBEDDED))
    assert texts(by_ids.sample(PREFIXES, 1, GREEDY)) == wanted
    for prefix, (whole,) in zip(PREFIXES, wanted, strict=True):
        finish = "step"
        while finish == "step":
            ((one,),), ((own,),) = (each.sample([prefix], 1, replace(GREEDY, until="step")) for each in (by_ids, here))
            assert [step.text for step in one.steps] == [step.text for step in own.steps]
            assert one.finish == own.finish, "the server says whether the separator ended it"
            prefix, finish = one.after(prefix, "server"), str(one.finish)
        assert [step.text for step in prefix.steps] == whole


def test_ids_and_logprobs_are_those_of_the_model_here(url: str, here: TorchPolicy) -> None:
    asked = policy(url, tokenizer=str(EMBEDDED))
    for prefix, row in zip(PREFIXES, asked.sample(PREFIXES, 4, DRAWN), strict=True):
        prompt: Any = asked._prompt(prefix, None)["prompt"]
        for each in row:
            ids = [token for step in each.steps for token in step.token_ids or ()]
            told = [value for step in each.steps for value in step.logprobs or ()]
            with torch.no_grad():
                logits = here.engine.model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
            wanted = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
            assert len(ids) == len(told) > 0 and told == pytest.approx(wanted.tolist(), abs=1e-3)


def test_a_sample_keeps_its_index_and_its_seed(url: str) -> None:
    asked = policy(url)
    drawn = texts(asked.sample(PREFIXES, 4, DRAWN))
    assert texts(asked.sample(PREFIXES, 2, DRAWN, first=2)) == [row[2:] for row in drawn]
    assert len({str(each) for row in drawn for each in row}) > 3


def test_several_samples_of_one_request_stop_at_their_own_steps(url: str) -> None:
    (row,) = policy(url, batch_n=True).sample(PREFIXES[:1], 4, STEP)
    assert [each.finish for each in row] == ["step"] * 4 and all(len(each.steps) == 1 for each in row)
    assert row[0].cost.generated_tokens > 0 and row[0].cost.prompt_tokens + row[0].cost.cached_tokens > 0


def test_it_goes_on_in_the_middle_of_a_step_and_says_what_the_model_thought(url: str) -> None:
    asked = policy(url, tokenizer=str(EMBEDDED))
    ((whole,),) = asked.sample(PREFIXES[:1], 1, GREEDY)
    ids = (whole.steps[0].token_ids or ())[:5]
    assert asked.tokenizer is not None
    half = Step(asked.tokenizer.decode(list(ids)), token_ids=ids)
    begun = replace(PREFIXES[0], steps=(half,), tokenizer=whole.tokenizer)
    ((again,),) = asked.resume([begun], 1, GREEDY)
    assert [step.text for step in again.steps] == [step.text for step in whole.steps]
    tokens = HttpTokens(asked)
    ((written,),) = tokens.sample(PREFIXES[:1], 1, GREEDY)
    (thought,) = tokens.thoughts([written.after(PREFIXES[0], "server")])
    assert len(thought.entropy) == len(written.steps[0].token_ids or ()) and max(thought.entropy) > 0


def test_what_it_cannot_do_it_says(url: str) -> None:
    with pytest.raises(ServerRefusedError, match=r"does not exist.*--model"):
        policy(url, model="another").sample(PREFIXES[:1], 1, DRAWN)
    long = Trajectory("long", Problem("long", "1 + 1 " * 900), separator="\n")
    fits, fails = policy(url).sample([PREFIXES[0], long], 1, DRAWN)
    with pytest.raises(ServerRefusedError, match=r"max_model_len=512.*--max-tokens"):
        policy(url).sample(PREFIXES[:1], 1, SamplingParams(max_tokens=5000))
    assert fits[0].error is None and fails[0].finish == "error" and "context length" in str(fails[0].error)


def test_commands_sample_label_search_and_train_over_it(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asks, line = ["--policy", url, "--max-tokens", "64"], ["--step-end", "line"]
    problems = ["--problems", "world:arithmetic:3"]
    sampled, rollouts = tmp_path / "sampled", ["--set", "rollouts=2"]
    traces = sampled / "trajectories.parquet"
    for words in (
        ["sample", *problems, *asks, *line, "--n", "2", "--out", str(sampled)],
        ["label", "--data", str(traces), "--method", "monte-carlo", *asks, *rollouts, "--out", str(tmp_path / "l")],
        ["search", *problems, *asks, *line, "--method", "beam-search", "--judge", "truth-arithmetic",
         "--out", str(tmp_path / "b")],
        ["score", str(traces), "--judge", "critic", "--url", url, "--mode", "chat", "--set", "max_tokens=64",
         "--out", str(tmp_path / "c")],
        ["rl", "--problems", "world:arithmetic:24", "--writer", f"http,url={url},tokenizer={EMBEDDED}", "--credit", "capo",
         "--judge", "truth-arithmetic", "--prompts", "2", "--group", "4", "--updates", "2", "--measured", "4",
         "--max-tokens", "64", "--device", "cpu", "--out", str(tmp_path / "r")],
    ):  # fmt: skip
        assert cli.main(words) == 0, capsys.readouterr().err
    assert len(read_parquet(traces, "trajectory")) == 6
