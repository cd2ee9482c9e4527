"""Generative judges on real writers: a tiny random model in this process, checkpoint folders, and a server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.policy.http import http_policy
from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.registry import create
from footfall.reward.checkpoint import checkpoint
from footfall.reward.family import families
from footfall.reward.generative.critic import Asker, Request, say
from footfall.types import Judgement
from tests.policy.test_policy_http import Loopback
from tests.reward.generative.scripted import THREE, trace
from tests.reward.tiny_checkpoints import causal_lm, llama3_tokenizer, qwen_tokenizer, save_checkpoint

torch.set_num_threads(1)
PROMPT = "Check.\n\nQuestion: {}\nPrevious Steps: {}\nNow Step: {}\nReply: "
SHORT = SamplingParams(temperature=1.0, max_tokens=40)


@cache
def policy() -> TorchPolicy:
    tokenizer = qwen_tokenizer()
    return TorchPolicy(causal_lm("qwen2", len(tokenizer)), tokenizer, label="tiny")


def rendered(user: str, system: str | None = None) -> str:
    """ChatML with the assistant's header, written out."""
    first = "" if system is None else f"<|im_start|>system\n{system}<|im_end|>\n"
    return f"{first}<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"


def assert_numbers_or_reasons(found: Judgement, steps: int) -> None:
    assert len(found.values) == steps
    for k, value in enumerate(found.values):
        assert (
            (value is not None and -1 <= value <= 1)
            if not found.failures or found.failures[k] is None
            else value is None
        )
    assert found.cost.generated_tokens > 0 and found.cost.prompt_tokens > 0


class TestInProcess:
    def test_dialogue_and_opening_are_tokenised_as_one_text(self) -> None:
        asker = Asker(policy())
        prefix = asker._prefix(Request(say("Well?", "Be kind."), "\nLet's see:"))
        expected = rendered("Well?", "Be kind.") + "\nLet's see:"
        assert prefix.problem.prompt == expected and not prefix.steps
        ids = qwen_tokenizer().encode(expected, add_special_tokens=False)
        assert qwen_tokenizer().convert_tokens_to_ids("ĊĊ") in ids
        assert asker.tokens(Request(say("Well?", "Be kind."), "\nLet's see:")) == len(ids)

    def test_without_a_header_the_opening_follows_the_last_turn(self) -> None:
        prefix = Asker(policy())._prefix(Request(say("Well?"), "<analyze>", header=False))
        assert prefix.problem.prompt == "<|im_start|>user\nWell?<analyze>"

    def test_bos_stands_where_the_template_puts_it_and_only_there(self) -> None:
        tokenizer = llama3_tokenizer()
        asker = Asker(TorchPolicy(causal_lm("llama", len(tokenizer)), tokenizer, label="tiny"))
        request = Request(say("Well?"), "So")
        prompt = str(asker._prefix(request).problem.prompt)
        assert prompt.count("<|begin_of_text|>") == 1 and prompt.startswith("<|begin_of_text|>")
        written = asker.ask([request], 1, SamplingParams(max_tokens=2))[0][0]
        assert written.cost.prompt_tokens + written.cost.cached_tokens == asker.tokens(request) - 1

    def test_the_first_stop_string_also_stops_the_writing(self) -> None:
        asker = Asker(policy())
        stop = asker.ask([Request(say("Well?"))], 1, SHORT)[0][0].text[7]
        replies = asker.ask([Request(say("Well?"), stops=(stop, "a second one"))], 24, SHORT)[0]
        stopped = [reply for reply in replies if reply.stop == stop]
        assert len(stopped) > 1 and all(stop not in reply.text and not reply.cut for reply in replies if reply.stop)
        assert any(reply.cost.generated_tokens < 40 for reply in stopped)

    def test_a_question_that_does_not_fit_is_a_reason_and_the_others_are_answered(self) -> None:
        requests = [Request(say("Well? " * 3000)), Request(say("Well?"))]
        (long,), (short,) = Asker(policy()).ask(requests, 1, SHORT)
        assert long.failure is not None and "the context holds 8192" in long.failure
        assert short.failure is None and short.text

    @pytest.mark.parametrize("name", ["critic", "prmbench-critic", "genprm", "thinkprm"])
    def test_noise_gives_numbers_or_reasons(self, name: str) -> None:
        judge = create("reward", name, policy=policy(), n=2, max_tokens=30, temperature=1.0)
        for found, expected in zip(judge.judge([THREE, trace("It is 14.", id="u")]), (3, 1), strict=True):
            assert_numbers_or_reasons(found, expected)

    def test_noise_with_code_gives_numbers_or_reasons(self) -> None:
        found = create("reward", "genprm", policy=policy(), execute=lambda code: "none", max_tokens=30).judge([THREE])[
            0
        ]
        assert_numbers_or_reasons(found, 3)

    def test_r_prm_on_noise_is_the_softmax_of_a_plain_forward_pass(self, tmp_path: Path) -> None:
        (tmp_path / "prompt.txt").write_text(PROMPT)
        judge = create("reward", "r-prm", policy=policy(), prompt=tmp_path / "prompt.txt", n=1, max_tokens=250)
        traces = [trace(f"3 * {k} = {3 * k}.", "So.", id=str(k)) for k in range(6)]
        model, tokenizer = causal_lm("qwen2", len(qwen_tokenizer())), qwen_tokenizer()
        pair = [tokenizer.convert_tokens_to_ids(t) for t in ("ĠYes", "ĠNo")]
        judged = 0
        for t, found in zip(traces, judge.judge(traces), strict=True):
            assert_numbers_or_reasons(found, 2)
            if found.values[0] is None:
                continue
            judged += 1
            first = "Since the Now Step is the first step, there are no Previous Steps."
            user = PROMPT.format(t.problem.text, first, f"Step 1: {t.steps[0].text}")
            text = rendered(user, "You are a helpful assistant.") + str(found.rationales[0])
            ids = tokenizer.encode(text, add_special_tokens=False)
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([ids])).logits[0, -1, pair].float()
            assert found.values[0] == pytest.approx(float(logits.softmax(-1)[0]), abs=2e-5)
        assert judged > 0


class TestFolders:
    @pytest.mark.parametrize(
        ("folder", "name"),
        [("GenPRM-7B", "genprm-without-code:"), ("ThinkPRM-1.5B", "thinkprm:"), ("R-PRM-7B-DPO", "r-prm:")],
    )
    def test_a_folder_is_recognised_by_its_name_alone(self, tmp_path: Path, folder: str, name: str) -> None:
        save_checkpoint(tmp_path / folder, "qwen2", qwen_tokenizer(), max_position_embeddings=256)
        (tmp_path / folder / "prompt.txt").write_text(PROMPT)
        judge = checkpoint(tmp_path / folder)
        assert judge.name.startswith(name) and folder in judge.name
        found = judge.judge([THREE])[0]
        assert found.values == (None, None, None) and "the context holds 256" in str(found.failures[0])

    def test_r_prm_without_its_prompt_says_where_to_get_it(self, tmp_path: Path) -> None:
        save_checkpoint(tmp_path / "R-PRM-7B-DPO", "qwen2", qwen_tokenizer())
        with pytest.raises(FileNotFoundError, match=r"prompt\.txt is missing.*NJUNLP/R-PRM"):
            checkpoint(tmp_path / "R-PRM-7B-DPO")

    def test_a_model_with_a_head_or_of_another_make_is_refused(self, tmp_path: Path) -> None:
        save_checkpoint(tmp_path / "head", "qwen2", qwen_tokenizer(), head={"score.weight": torch.ones(2, 32)})
        with pytest.raises(ValueError, match=r"not of the family genprm: it has a tensor score\.weight"):
            checkpoint(tmp_path / "head", family="genprm")
        save_checkpoint(tmp_path / "llama", "llama", llama3_tokenizer())
        with pytest.raises(ValueError, match="not of the family thinkprm: its model type is 'llama'"):
            checkpoint(tmp_path / "llama", family="thinkprm")

    @pytest.mark.parametrize("other", ["declare-lab/PathFinder-PRM-7B", "models/er-prm", "Qwen/Qwen2.5-Math-PRM-7B"])
    def test_names_that_only_end_alike_are_not_taken_for_r_prm(self, other: str) -> None:
        class Seen:
            name = other
            config: dict[str, Any] = {}  # noqa: RUF012

        seen: Any = Seen()
        assert not any(families()[name].match.called(seen) for name in ("r-prm", "genprm", "thinkprm"))


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    loopback = Loopback(tmp_path_factory.mktemp("loopback") / "log.jsonl")
    yield loopback
    loopback.stop()


class TestServer:
    def test_a_chat_server_gets_the_opening_as_an_unfinished_turn(self, process: Loopback) -> None:
        process.behave(text="fine.</analyze>\nand so on")
        found = create("reward", "genprm", policy=process.policy(mode="chat"), max_tokens=50).judge([THREE])[0]
        assert found.values == (None, None, None) and "without Yes or No" in str(found.failures[0])
        first = process.entries("took")[0]["request"]
        assert [turn["role"] for turn in first["messages"]] == ["system", "user", "assistant"]
        assert first["messages"][-1]["content"] == "<analyze>\nLet's analyze the Paragraph 1 step by step: "
        assert first["continue_final_message"] is True

    def test_a_critic_on_a_chat_server(self, process: Loopback) -> None:
        process.behave(text="Paragraph 1 is wrong: \\boxed{1}")
        found = create("reward", "critic", policy=process.policy(mode="chat")).judge([THREE])[0]
        assert found.values == (1.0, 0.0, None)

    def test_a_server_that_fails_is_a_reason(self, process: Loopback) -> None:
        process.behave(faults=[{"kind": "503"}])
        found = create("reward", "critic", policy=process.policy(mode="chat", retries=0)).judge([THREE])[0]
        assert found.values == (None, None, None) and "HTTP 503" in str(found.failures[0])

    def test_a_server_that_lists_no_likeliest_tokens_is_a_reason(self, process: Loopback) -> None:
        process.behave(text="{Yes}$</analyze>\n</output>\n")
        found = create("reward", "thinkprm", policy=process.policy(mode="chat")).judge([THREE])[0]
        assert found.values == (None, None, None) and "no log-probabilities" in str(found.failures[0])

    def test_completions_with_a_tokenizer_sends_the_rendered_dialogue_and_the_stop(
        self, process: Loopback, tmp_path: Path
    ) -> None:
        qwen_tokenizer().save_pretrained(tmp_path)
        process.behave(text="so. \\boxed{correct}\n</think>\nYes")
        asker = Asker(process.policy(tokenizer=str(tmp_path)))
        reply = asker.ask([Request(say("Well?"), "\nLet's see:", ("</think>", "?"))], 1, SHORT)[0][0]
        assert (reply.text, reply.stop) == ("so. \\boxed{correct}\n", "</think>")
        request = process.entries("took")[0]["request"]
        assert request["prompt"] == qwen_tokenizer().encode(rendered("Well?") + "\nLet's see:") and request["stop"] == [
            "</think>"
        ]

    def test_completions_without_one_are_refused(self) -> None:
        with pytest.raises(ValueError, match="mode='chat'"):
            create("reward", "critic", policy=http_policy("http://localhost:1/v1", model="m"))
