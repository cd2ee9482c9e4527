"""Going on in the middle of a step with a server: the fragment ends the prompt, and comes back whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from footfall.policy.http import HttpPolicy, http_policy
from footfall.policy.http_wire import Choice, Cutter
from footfall.policy.protocol import SamplingParams
from footfall.policy.resuming import can_resume, resuming, unfinished
from footfall.types import Problem, Step, Trajectory

SCRIPT = Path(__file__).with_name("loopback_server.py")
PREFIX = Trajectory("p", Problem("p", "What is 2 + 2?"), (Step("so two"),))
SHORT = SamplingParams(max_tokens=2, until="step", seed=3)
LONG = SamplingParams(max_tokens=64, until="step", seed=3)


class Log:
    """A server process on loopback and what it was asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen([sys.executable, str(SCRIPT), str(path)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/v1"

    def requests(self) -> list[dict[str, Any]]:
        entries = map(json.loads, self.path.read_text().splitlines())
        return [entry["request"] for entry in entries if entry["event"] == "took"]

    def policy(self, **options: Any) -> HttpPolicy:
        return http_policy(self.url, **{"model": "toy", "retries": 0, **options})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    log = Log(tmp_path_factory.mktemp("resume") / "log.jsonl")
    yield log
    log.process.kill()
    log.process.wait()
    assert log.process.stdout is not None
    log.process.stdout.close()


def test_the_prompt_ends_with_the_fragment_and_the_step_comes_back_whole(server: Log) -> None:
    policy = server.policy()
    [[cut]] = policy.sample([PREFIX], 1, SHORT)
    assert cut.finish == "length" and cut.cost.generated_tokens == 2 and len(cut.steps) == 1
    begun = unfinished(PREFIX.extend(cut.steps))
    [[done]] = resuming(policy).sample([begun], 1, LONG)
    assert can_resume(policy)
    asked = server.requests()[-1]
    assert asked["prompt"] == f"What is 2 + 2?\nso two\n\n{cut.steps[0].text}" and asked["stop"] == ["\n\n"]
    whole = done.steps[0]
    assert done.finish in ("step", "end") and whole.text.startswith(cut.steps[0].text) and len(done.steps) == 1
    assert whole.logprobs is not None and cut.steps[0].logprobs is not None
    assert whole.logprobs[:2] == cut.steps[0].logprobs and len(whole.logprobs) > 2
    assert 0 < done.cost.generated_tokens <= len(whole.logprobs) - 2, "only what is new is paid for"


def test_a_resumed_sample_keeps_its_index_and_may_be_cut_again_or_go_on_to_the_end(server: Log) -> None:
    policy = server.policy()
    begun = unfinished(PREFIX.extend([Step("then take")]))
    [many] = policy.resume([begun], 4, LONG)
    assert policy.resume([begun], 1, LONG, first=2)[0][0].steps == many[2].steps
    assert [done.index for done in many] == [0, 1, 2, 3] and len({done.steps[0].text for done in many}) > 1
    [[again]] = policy.resume([begun], 1, SHORT)
    assert again.finish == "length" and len(again.steps[0].text.split()) > 2
    assert again.steps[0].logprobs is None, "of the fragment none are known"
    [[end]] = policy.resume([begun], 1, replace(LONG, until="end"))
    assert end.finish == "end" and len(end.steps) > 1 and end.steps[0].text.startswith("then take")
    assert end.steps[1].logprobs is not None


def test_chat_mode_says_what_to_do_instead(server: Log) -> None:
    with pytest.raises(ValueError, match="--mode completions"):
        server.policy(mode="chat").resume([unfinished(PREFIX)], 1, LONG)
    with pytest.raises(ValueError, match="'p' has no unfinished step"):
        server.policy().resume([PREFIX.prefix(0)], 1, LONG)


def test_with_a_tokenizer_the_fragment_goes_as_the_ids_that_it_was_sampled_with(server: Log) -> None:
    class Letters:
        bos_token_id = None

        def encode(self, text: str, **_: object) -> list[int]:
            return [ord(letter) for letter in text]

        def get_vocab(self) -> dict[str, int]:
            return {"a": 97}

    policy = replace(server.policy(), tokenizer=Letters())  # type: ignore[arg-type]
    known = replace(PREFIX, tokenizer=policy.vocabulary).extend([Step("ab", token_ids=(7,), logprobs=(-1.0,))])
    before = [ord(letter) for letter in "What is 2 + 2?\nso two\n\n"]
    policy.resume([unfinished(known)], 1, LONG)
    assert server.requests()[-1]["prompt"] == [*before, 7]
    policy.resume([unfinished(PREFIX.extend([Step("ab")]))], 1, LONG)
    assert server.requests()[-1]["prompt"] == [*before, ord("a"), ord("b")]


@pytest.mark.parametrize(
    ("fragment", "text", "stop", "steps", "finish"),
    [
        ("so t", "wo", "\n\n", ["so two"], "step"),
        ("so two", "", "\n\n", ["so two"], "step"),
        ("so two\n", "\nthen three", None, ["so two"], "step"),
        ("so two", "", None, ["so two"], "end"),
    ],
)
def test_the_end_of_a_step_is_found_wherever_the_fragment_stops(
    fragment: str, text: str, stop: str | None, steps: list[str], finish: str
) -> None:
    cutter = Cutter("\n\n", "step", "reported", "", False, begun=Step(fragment))
    written = cutter.read(Choice(text, "stop", True, stop))
    assert ([step.text for step in written.steps], written.finish) == (steps, finish)


def test_ids_of_fragment_and_rest_are_one_step() -> None:
    begun = Step("so", token_ids=(4, 5), logprobs=(-1.0, -2.0))
    cutter = Cutter("\n\n", "step", "reported", "", True, begun)
    written = cutter.read(Choice(" two", "stop", True, "\n\n", (" two", "\n\n"), (-3.0, -4.0), (6, 7)))
    assert written.steps == (Step("so two", token_ids=(4, 5, 6, 7), logprobs=(-1.0, -2.0, -3.0, -4.0)),)
